//! The tokens of a model as grammars see them, made once for each tokenizer. Grammars see text only: control tokens are never a
//! part of it, and the tokens that end an answer are allowed where a grammar may end.

use std::fmt;
use std::sync::Arc;

use llguidance::api::ParserLimits;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{
    INVALID_TOKEN, InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenizerEnv,
};
use llguidance::{ParserFactory, panic_utils};
use models::tokenizer::{TokenKind, Tokenizer};

/// Longer tokens are not used for a grammar. The trie has room for 1,024 bytes of one.
const MAX_TOKEN_BYTES: usize = 256;
/// Bytes of all tokens: the trie has room for so many nodes.
const MAX_BYTES: usize = 1 << 22;
/// No byte of UTF-8. The trie takes tokens that begin with it for special ones.
const NEVER_TEXT: u8 = 0xff;
/// What a grammar may take. A state of a lexer has about two kilobytes, a thousand items of a row are a millisecond.
const LIMITS: ParserLimits = ParserLimits {
    max_items_in_row: 10_000,
    initial_lexer_fuel: 1_000_000,
    step_lexer_fuel: 200_000,
    step_max_items: 50_000,
    max_lexer_states: 50_000,
    max_grammar_size: 500_000,
    precompute_large_lexemes: true,
    verbose_errors: false,
};

/// What makes parsers of grammars over a tokenizer's tokens.
pub(crate) struct GrammarTokens {
    /// Compiles grammars.
    pub factory: ParserFactory,
    /// Tokens of text, and those that end an answer.
    pub usable: SimpleVob,
    /// Tokens of white space.
    pub blanks: Vec<u32>,
}

impl GrammarTokens {
    /// Those of a tokenizer, or why there are none.
    pub(super) fn new(tokenizer: &Arc<Tokenizer>) -> Result<GrammarTokens, String> {
        let n_vocab = tokenizer.n_vocab();
        let words: Vec<Vec<u8>> = (0..n_vocab as u32).map(|id| text_of(tokenizer, id).to_vec()).collect();
        if words.iter().map(Vec::len).sum::<usize>() >= MAX_BYTES {
            return Err(format!("the texts of the model's {n_vocab} tokens are too long for grammars"));
        }
        let mut usable = SimpleVob::alloc(n_vocab);
        let mut blanks = Vec::new();
        for (id, word) in (0u32..).zip(&words).filter(|(_, word)| !word.is_empty()) {
            usable.allow_token(id);
            if word.iter().all(u8::is_ascii_whitespace) {
                blanks.push(id);
            }
        }
        let ends = tokenizer.eog_tokens();
        ends.iter().for_each(|end| usable.allow_token(*end));
        let factory = panic_utils::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let info = TokRxInfo::new(n_vocab as u32, ends.first().copied().unwrap_or(INVALID_TOKEN));
            let mut trie = TokTrie::from(&info, &words);
            if !ends.is_empty() {
                trie = trie.with_eos_tokens(ends);
            }
            let tokens: TokEnv = Arc::new(Tokens::new(tokenizer, trie));
            let canonical = tokens.tokenize_is_canonical();
            let abilities =
                InferenceCapabilities { ff_tokens: canonical, ..InferenceCapabilities::default() };
            let mut factory = ParserFactory::new(&tokens, abilities, &SlicedBiasComputer::general_slices())?;
            *factory.quiet().limits_mut() = LIMITS;
            Ok(factory)
        }));
        let factory = factory.map_err(|error| format!("grammars cannot use the model's tokens: {error}"))?;
        Ok(GrammarTokens { factory, usable, blanks })
    }
}

impl fmt::Debug for GrammarTokens {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("GrammarTokens").finish_non_exhaustive()
    }
}

/// The bytes of a token of text; empty for other tokens.
fn text_of(tokenizer: &Tokenizer, id: u32) -> &[u8] {
    let is_text = !tokenizer.is_control(id)
        && !tokenizer.is_eog(id)
        && !matches!(tokenizer.kind(id), Some(TokenKind::Unknown | TokenKind::Unused));
    let bytes = tokenizer.token_bytes(id).filter(|_| is_text).unwrap_or_default();
    if bytes.len() > MAX_TOKEN_BYTES || bytes.contains(&NEVER_TEXT) { &[] } else { bytes }
}

struct Tokens {
    tokenizer: Arc<Tokenizer>,
    trie: TokTrie,
    /// Whether a piece of text is encoded as it is within a text. Some tokenizers put a space before it.
    is_canonical: bool,
}

impl Tokens {
    fn new(tokenizer: &Arc<Tokenizer>, trie: TokTrie) -> Tokens {
        let text = "\"a\": 1";
        let bytes = tokenizer.encode(text, false, false).map(|ids| trie.decode_raw(&ids));
        let is_canonical = bytes.is_ok_and(|bytes| bytes == text.as_bytes());
        Tokens { tokenizer: Arc::clone(tokenizer), trie, is_canonical }
    }
}

impl TokenizerEnv for Tokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            let ids = self.tokenizer.encode(text, false, false).unwrap_or_default();
            match self.trie.decode_raw(&ids) == text.as_bytes() {
                true => ids,
                false => self.trie.greedy_tokenize(text.as_bytes()),
            }
        })
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.is_canonical
    }
}
