//! All pre-tokenizers that are known by name, as data. They split as llama.cpp does, also where the original tokenizer
//! does not.

use self::Rule::{CutBeforeThrees, CutBehindThrees, Split};
use super::{Alphabet, Bos, Spaces, Unmerged};

/// One step of a pre-tokenizer, as the table has it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// A pattern with the names of [`PARTS`]. Matches and what is between them are words.
    Split(&'static str, Spaces),
    /// Cuts before each three digits, from the right. Only ASCII digits count.
    CutBeforeThrees,
    /// Cuts between each three digits, from the right, and behind the last.
    CutBehindThrees,
}

/// Names in patterns, and what they stand for.
pub(super) const PARTS: &[(&str, &str)] = &[
    ("<contraction>", "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"),
    // llama.cpp tells cases apart in ASCII only.
    ("<upper>", r"[\p{L}&&[^a-z]]"),
    ("<lower>", r"[\p{L}&&[^A-Z]]"),
    ("<upper_or_mark>", r"[[\p{L}\p{M}]&&[^a-z]]"),
    ("<lower_or_mark>", r"[[\p{L}\p{M}]&&[^A-Z]]"),
    (
        "<han>",
        r"[\u{3400}-\u{4DBF}\u{4E00}-\u{9FFF}\u{F900}-\u{FAFF}\u{20000}-\u{2A6DF}\u{2A700}-\u{2EBEF}\u{2F800}-\u{2FA1F}]",
    ),
    ("<han_and_kana>", r"[\u{4E00}-\u{9FA5}\u{3040}-\u{30FF}]+"),
    ("<east_asian>", r"[[\u{800}-\u{9FA5}\u{AC00}-\u{D7FF}]&&\S]+"),
    (
        "<asian>",
        r"[\u{E40}-\u{EFF}\u{1000}-\u{109F}\u{1100}-\u{11FF}\u{1780}-\u{17FF}\u{2F00}-\u{2FDF}\u{3040}-\u{30FF}\u{3400}-\u{4DBF}\u{4E00}-\u{FAFF}\u{FF65}-\u{FF9F}]+",
    ),
    ("<punctuated>", r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##),
    ("<cased_letters>", CASED_LETTERS),
];

/// Letters that have a case, as DeepSeek LLM lists them.
const CASED_LETTERS: &str = "\
    A-Za-z\u{B5}\u{C0}-\u{D6}\u{D8}-\u{F6}\u{F8}-\u{1BA}\u{1BC}-\u{1BF}\u{1C4}-\u{293}\
    \u{295}-\u{2AF}\u{370}-\u{373}\u{376}\u{377}\u{37B}-\u{37D}\u{37F}\u{386}\u{388}-\u{38A}\u{38C}\
    \u{38E}-\u{3A1}\u{3A3}-\u{3F5}\u{3F7}-\u{481}\u{48A}-\u{52F}\u{531}-\u{556}\u{10A0}-\u{10C5}\
    \u{13A0}-\u{13F5}\u{13F8}-\u{13FD}\u{1C90}-\u{1CBA}\u{1CBD}-\u{1CBF}\u{1D00}-\u{1D2B}\
    \u{1D6B}-\u{1D77}\u{1D79}-\u{1D9A}\u{1E00}-\u{1F15}\u{1F18}-\u{1F1D}\u{1F20}-\u{1F45}\
    \u{1F48}-\u{1F4D}\u{1F50}-\u{1F57}\u{1F59}\u{1F5B}\u{1F5D}\u{1F5F}-\u{1F7D}\u{1F80}-\u{1FB4}\
    \u{1FB6}-\u{1FBC}\u{1FBE}\u{1FC2}-\u{1FC4}\u{1FC6}-\u{1FCC}\u{1FD0}-\u{1FD3}\u{1FD6}-\u{1FDB}\
    \u{1FE0}-\u{1FEC}\u{1FF2}-\u{1FF4}\u{1FF6}-\u{1FFC}\u{2102}\u{2107}\u{210A}-\u{2113}\u{2115}\
    \u{2119}-\u{211D}\u{2124}\u{2126}\u{2128}\u{212A}-\u{212D}\u{212F}-\u{2134}\u{2139}\
    \u{213C}-\u{213F}\u{2145}-\u{2149}\u{214E}\u{2183}\u{2184}\u{2C00}-\u{2C7B}\u{2C7E}-\u{2CE4}\
    \u{2CEB}-\u{2CEE}\u{2CF2}\u{2CF3}\u{A640}-\u{A66D}\u{A680}-\u{A69B}\u{A722}-\u{A76F}\
    \u{A771}-\u{A787}\u{A78B}-\u{A78E}\u{AB70}-\u{ABBF}\u{FB00}-\u{FB06}\u{FB13}-\u{FB17}\
    \u{FF21}-\u{FF3A}\u{FF41}-\u{FF5A}\u{10400}-\u{1044F}\u{104B0}-\u{104D3}\u{104D8}-\u{104FB}\
    \u{10C80}-\u{10CB2}\u{10CC0}-\u{10CF2}\u{118A0}-\u{118DF}\u{1E900}-\u{1E943}";

/// The names that share a pre-tokenizer, its rules, and what else follows from the name.
pub(super) struct Entry {
    pub(super) names: &'static [&'static str],
    pub(super) rules: &'static [Rule],
    pub(super) unmerged: Unmerged,
    pub(super) bos: Bos,
    pub(super) alphabet: Alphabet,
    pub(super) may_lack_merges: bool,
}

/// Most pre-tokenizers: a name, and nothing follows from it.
const PLAIN: Entry = Entry {
    names: &[],
    rules: &[],
    unmerged: Unmerged::Nothing,
    bos: Bos::No,
    alphabet: Alphabet::Bytes,
    may_lack_merges: false,
};

const GPT2: Rule =
    Split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+", Spaces::LastLeaves);
const LLAMA3_WORDS: &str =
    r"<contraction>|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";
const LLAMA3: Rule = Split(LLAMA3_WORDS, Spaces::LastLeavesUnlessLineEnd);
const QWEN2: Rule = Split(
    r"<contraction>|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
    Spaces::LastLeavesUnlessLineEnd,
);
/// DeepSeek V3's words, after its numbers and its Chinese and Japanese.
const DEEPSEEK_V3: Rule = Split(
    r"<punctuated>|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+",
    Spaces::LastLeavesUnlessLineEnd,
);
/// Cohere's own tokenizers split words where the case changes. llama.cpp does not.
const COHERE_WORDS: &str =
    r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+<contraction>?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+";
const THREE_DIGITS: Rule = Split(r"[0-9][0-9][0-9]", Spaces::Whole);
const UP_TO_THREE: Rule = Split(r"\p{N}{1,3}", Spaces::Whole);
const DIGIT: Rule = Split(r"\p{N}", Spaces::Whole);
const LINE_END: Rule = Split(r"[\r\n]", Spaces::Whole);
const LINES: Rule = Split(r"[^\n]+|\n+", Spaces::Whole);
/// BLOOM's pattern. The parentheses and the bar are characters of the class.
const BLOOM: Rule =
    Split(r" ?[^(\s|.,!?\u{2026}\u{3002}\u{FF0C}\u{3001}\u{964}\u{6D4}\u{60C})]+", Spaces::Whole);

/// All pre-tokenizers.
pub(super) static TABLE: &[Entry] = &[
    Entry {
        names: &["default"],
        rules: &[
            Split(r"[\p{P}$+<=>^~|]+", Spaces::Whole),
            GPT2,
            Split(r"\p{N}+", Spaces::Whole),
            THREE_DIGITS,
        ],
        ..PLAIN
    },
    Entry {
        names: &[
            "llama3",
            "llama-v3",
            "llama-bpe",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        rules: &[LLAMA3],
        unmerged: Unmerged::Words,
        bos: Bos::Yes,
        ..PLAIN
    },
    Entry { names: &["dbrx", "smaug-bpe", "chatglm-bpe"], rules: &[LLAMA3], ..PLAIN },
    Entry { names: &["glm4", "glm5"], rules: &[LLAMA3], unmerged: Unmerged::Words, ..PLAIN },
    Entry { names: &["jais-2"], rules: &[Split(LLAMA3_WORDS, Spaces::LastLeavesRestHalves)], ..PLAIN },
    Entry {
        names: &["minicpm5"],
        rules: &[
            UP_TO_THREE,
            Split(
                r"<contraction>|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
                Spaces::LastLeavesUnlessLineEnd,
            ),
        ],
        unmerged: Unmerged::Words,
        ..PLAIN
    },
    Entry {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "f2llmv2",
            "megrez",
            "stablelm2",
            "hunyuan",
            "solar-open",
            "grok-2",
        ],
        rules: &[QWEN2],
        ..PLAIN
    },
    Entry { names: &["laguna"], rules: &[LINES, QWEN2], ..PLAIN },
    Entry {
        names: &["ufakzeka"],
        rules: &[Split(
            r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
            Spaces::LastLeavesUnlessLineEnd,
        )],
        ..PLAIN
    },
    // Like qwen2, except that combining marks belong to words.
    Entry {
        names: &["qwen35"],
        rules: &[Split(
            r"<contraction>|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
            Spaces::LastLeavesUnlessLineEnd,
        )],
        ..PLAIN
    },
    Entry {
        names: &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "jina-v1-en",
            "roberta-bpe",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
        ],
        rules: &[GPT2],
        ..PLAIN
    },
    Entry {
        names: &[
            "starcoder",
            "refact",
            "command-r",
            "smollm",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        rules: &[DIGIT, GPT2],
        ..PLAIN
    },
    Entry {
        names: &["falcon"],
        rules: &[Split(r"[\p{P}$+<=>^~|`]+", Spaces::Whole), GPT2, THREE_DIGITS],
        ..PLAIN
    },
    Entry {
        names: &["chameleon"],
        rules: &[
            Split(r"<sentinel:[0-9]+>", Spaces::Whole),
            Split(r"IMGIMG[A-I]{1,4}Z", Spaces::Whole),
            Split(r"[\t\n]|    |  ", Spaces::Whole),
            DIGIT,
            Split(r"[\p{P}!-/:-@\[-`{-~]", Spaces::Whole),
            GPT2,
        ],
        bos: Bos::Yes,
        ..PLAIN
    },
    Entry { names: &["bloom", "poro-chat", "gpt3-finnish"], rules: &[BLOOM], ..PLAIN },
    Entry { names: &["viking"], rules: &[BLOOM, DIGIT], ..PLAIN },
    Entry {
        names: &["deepseek-llm"],
        rules: &[
            LINE_END,
            Split(r"\s?[<cased_letters>]+", Spaces::Whole),
            Split(
                r"\s?[!-/:-~\u{FF01}-\u{FF0F}\u{FF1A}-\u{FF5E}\u{2018}-\u{201F}\u{3001}\u{3002}]+",
                Spaces::Whole,
            ),
            Split(r"\s+$", Spaces::Whole),
            Split(r"<east_asian>", Spaces::Whole),
            Split(r"\p{N}+", Spaces::Whole),
        ],
        ..PLAIN
    },
    Entry {
        names: &["deepseek-coder"],
        rules: &[
            LINE_END,
            Split(r"\s?\p{L}+", Spaces::Whole),
            Split(r"\s?\p{P}+", Spaces::Whole),
            Split(r"<east_asian>", Spaces::Whole),
            DIGIT,
        ],
        ..PLAIN
    },
    Entry {
        names: &["deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"],
        rules: &[UP_TO_THREE, Split(r"<han_and_kana>", Spaces::Whole), DEEPSEEK_V3],
        ..PLAIN
    },
    Entry {
        names: &["spark2_5"],
        rules: &[
            UP_TO_THREE,
            Split(r"<han_and_kana>", Spaces::Whole),
            Split(
                r"<punctuated>|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+",
                Spaces::LastLeaves,
            ),
            DIGIT,
        ],
        ..PLAIN
    },
    Entry {
        names: &["afmoe"],
        rules: &[CutBehindThrees, Split(r"<asian>", Spaces::Whole), DEEPSEEK_V3],
        ..PLAIN
    },
    Entry {
        names: &["youtu"],
        rules: &[
            Split(
                r"[\u{AC00}-\u{D7A3}\u{3131}-\u{318E}]+|[\u{FF01}\u{2026}\u{201C}\u{201D}\u{2018}\u{2019}\u{2014}\u{FF1A}\u{FF1B}\u{FF0C}\u{3001}-\u{303F}\u{FE30}-\u{FE4F}]+|[\u{3105}-\u{312F}]+|<han_and_kana>",
                Spaces::Whole,
            ),
            Split(
                r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+<contraction>?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+",
                Spaces::LastLeavesUnlessLineEnd,
            ),
        ],
        unmerged: Unmerged::Words,
        ..PLAIN
    },
    Entry {
        names: &["tekken"],
        rules: &[Split(
            r"[^\r\n\p{L}\p{N}]?<upper>*<lower>+|[^\r\n\p{L}\p{N}]?<upper>+<lower>*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+",
            Spaces::LastLeavesUnlessLineEnd,
        )],
        unmerged: Unmerged::Words,
        bos: Bos::Yes,
        ..PLAIN
    },
    Entry {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        rules: &[Split(
            r"[^\r\n\p{L}\p{N}]?<upper>*<lower>+<contraction>?|[^\r\n\p{L}\p{N}]?<upper>+<lower>*<contraction>?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+",
            Spaces::LastLeavesUnlessLineEnd,
        )],
        ..PLAIN
    },
    Entry {
        names: &["granite-embed-multi-97m"],
        rules: &[Split(
            r"[^\r\n\p{L}\p{N}]?<upper_or_mark>*<lower_or_mark>+<contraction>?|[^\r\n\p{L}\p{N}]?<upper_or_mark>+<lower_or_mark>*<contraction>?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+",
            Spaces::LastLeavesUnlessLineEnd,
        )],
        unmerged: Unmerged::Words,
        ..PLAIN
    },
    Entry {
        names: &["tiny_aya", "cohere2moe"],
        rules: &[CutBehindThrees, Split(COHERE_WORDS, Spaces::LastLeavesUnlessLineEnd)],
        ..PLAIN
    },
    Entry {
        names: &["kimi-k2"],
        may_lack_merges: true,
        rules: &[Split(
            r"<han>+|[^\r\n\p{L}\p{N}]?[\p{L}--<han>]+<contraction>?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+",
            Spaces::LastLeavesUnlessLineEnd,
        )],
        ..PLAIN
    },
    // Words of this one go across spaces.
    Entry { names: &["superbpe"], rules: &[Split(r"\p{N}+", Spaces::Whole), CutBeforeThrees], ..PLAIN },
    Entry {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        rules: &[Split(
            r"<contraction>|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+",
            Spaces::LastLeavesUnlessLineEnd,
        )],
        ..PLAIN
    },
    Entry {
        names: &["seed-coder"],
        rules: &[Split(
            r"<contraction>|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+",
            Spaces::LastLeavesUnlessLineEnd,
        )],
        ..PLAIN
    },
    Entry {
        names: &["exaone-moe"],
        rules: &[Split(
            r"<contraction>|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+",
            Spaces::LastLeavesUnlessLineEnd,
        )],
        ..PLAIN
    },
    Entry {
        names: &["gemma4", "granite-embed-multi-311m"],
        rules: &[LINES],
        unmerged: Unmerged::LineEnds,
        bos: Bos::Always,
        alphabet: Alphabet::Characters,
        ..PLAIN
    },
    Entry { names: &["sarvam-moe"], rules: &[LINES], alphabet: Alphabet::Characters, ..PLAIN },
];
