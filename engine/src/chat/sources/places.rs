//! Which tokens of a prompt are those of a text.

use models::tokenizer::Tokenizer;

/// The bytes of a prompt's tokens, in which texts are looked for.
///
/// ```
/// use longhand::gguf::Tokenizer;
/// use longhand::sources::PromptBytes;
///
/// let model = longhand::Model::open(longhand::ModelSource::Embedded)?;
/// let tokenizer = Tokenizer::from_gguf(model.gguf())?;
/// let tokens = tokenizer.encode("Question: Where is the boat? Answer: here.", false, false)?;
/// let mut prompt = PromptBytes::new(&tokenizer, &tokens);
/// let place = prompt.find("Where is the boat?").expect("a part of the prompt");
/// assert!(place.first_token > 0);
/// assert_eq!(place.token_ends.last(), Some(&18));
/// assert_eq!(prompt.find("Where"), None); // it is looked for behind what was found last
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PromptBytes {
    bytes: Vec<u8>,
    /// For each token where it ends.
    ends: Vec<usize>,
    /// Where the text that was found last ends.
    from: usize,
}

/// Where a text is among tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPlace {
    /// The index of its first token.
    pub first_token: usize,
    /// For each of its tokens where it ends in the text, in bytes.
    pub token_ends: Vec<usize>,
}

impl PromptBytes {
    /// The bytes of these tokens.
    pub fn new(tokenizer: &Tokenizer, tokens: &[u32]) -> PromptBytes {
        let (bytes, ends) = bytes_of(tokenizer, tokens);
        PromptBytes { bytes, ends, from: 0 }
    }

    /// Finds a text behind the one that was found last. White space around it does not count: many chat templates remove
    /// it. `None` where the text is empty or is not there as it is.
    pub fn find(&mut self, text: &str) -> Option<TextPlace> {
        let trimmed = text.trim().as_bytes();
        let at = self.from + find(&self.bytes[self.from..], trimmed)?;
        let end = at + trimmed.len();
        self.from = end;
        let before = text.len() - text.trim_start().len();
        let first_token = self.ends.partition_point(|token| *token <= at);
        let last_token = self.ends.partition_point(|token| *token < end);
        let in_text = |token: &usize| before + (token - at).min(trimmed.len());
        let token_ends = self.ends.get(first_token..=last_token)?.iter().map(in_text).collect();
        Some(TextPlace { first_token, token_ends })
    }
}

/// The bytes of tokens, and for each token where it ends.
pub(super) fn bytes_of(tokenizer: &Tokenizer, tokens: &[u32]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(tokens.len()));
    for token in tokens {
        bytes.extend_from_slice(tokenizer.token_bytes(*token).unwrap_or_default());
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// Where `part`, which is not empty, begins in `bytes`.
fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    let first = part.first()?;
    let last = bytes.len().checked_sub(part.len())?;
    (0..=last).find(|at| bytes[*at] == *first && bytes[*at..].starts_with(part))
}
