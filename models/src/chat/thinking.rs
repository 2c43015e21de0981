//! How models mark their thinking. It comes before the answer.

use crate::tokenizer::Tokenizer;

/// What models write before their thinking, where the template does not.
pub const THINKING_BEGINS: &str = "<think>";
/// What models write behind their thinking.
pub const THINKING_ENDS: &str = "</think>";

/// The marks around the thinking of a family of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThinkingMarks {
    /// Before the thinking.
    pub begins: &'static str,
    /// Behind the thinking.
    pub ends: &'static str,
    /// What may stand before the answer: behind the thinking, or at the beginning if there is none.
    pub headers: &'static [&'static str],
}

/// All known marks, the most common first.
pub const THINKING_MARKS: &[ThinkingMarks] = &[
    ThinkingMarks { begins: THINKING_BEGINS, ends: THINKING_ENDS, headers: &[] },
    // gpt-oss
    ThinkingMarks {
        begins: "<|channel|>analysis<|message|>",
        ends: "<|end|>",
        headers: &[
            "<|start|>assistant<|channel|>final<|message|>",
            "<|start|>assistant<|channel|>commentary<|message|>",
            "<|channel|>final<|message|>",
            "<|channel|>commentary<|message|>",
        ],
    },
    // Seed-OSS
    ThinkingMarks { begins: "<seed:think>", ends: "</seed:think>", headers: &[] },
    // Command A and R7B
    ThinkingMarks {
        begins: "<|START_THINKING|>",
        ends: "<|END_THINKING|>",
        headers: &["<|START_RESPONSE|>"],
    },
    // Magistral, Ministral
    ThinkingMarks { begins: "[THINK]", ends: "[/THINK]", headers: &[] },
    // Gemma 4
    ThinkingMarks { begins: "<|channel>thought", ends: "<channel|>", headers: &[] },
];

/// Texts of tokens that belong to the marks. They are part of an answer's text, also where the file calls them
/// control tokens.
pub(crate) const MARK_TOKENS: &[&str] = &[
    THINKING_BEGINS,
    THINKING_ENDS,
    "<seed:think>",
    "</seed:think>",
    "<|START_THINKING|>",
    "<|END_THINKING|>",
    "[THINK]",
    "[/THINK]",
    "<|channel>",
    "<channel|>",
];

/// Whether the vocabulary has marks of thinking, so that answers may begin with it.
pub fn may_think(tokenizer: &Tokenizer) -> bool {
    [MARK_TOKENS, &["<|channel|>"]].concat().into_iter().any(|mark| tokenizer.token_id(mark).is_some())
}

/// An answer with thinking. All its parts together are the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThinkingParts<'a> {
    /// The marks of this answer.
    pub marks: &'a ThinkingMarks,
    /// White space, and the mark before the thinking.
    pub begin: &'a str,
    /// The thinking, with the white space around it.
    pub thinking: &'a str,
    /// The mark behind the thinking, white space, and a header; empty if the thinking does not end.
    pub end: &'a str,
    /// The answer.
    pub answer: &'a str,
}

/// The parts of an answer; `None` if it does not begin with thinking.
pub fn thinking_parts(text: &str) -> Option<ThinkingParts<'_>> {
    let inner = text.trim_start();
    let marks = THINKING_MARKS.iter().find(|marks| inner.starts_with(marks.begins))?;
    let (begin, rest) = text.split_at(text.len() - inner.len() + marks.begins.len());
    let Some((thinking, behind)) = rest.split_once(marks.ends) else {
        return Some(ThinkingParts { marks, begin, thinking: rest, end: "", answer: "" });
    };
    let answer = without_header(behind.trim_start());
    let end = &rest[thinking.len()..rest.len() - answer.len()];
    Some(ThinkingParts { marks, begin, thinking, end, answer })
}

/// An answer without the header that may stand before it.
pub fn without_header(answer: &str) -> &str {
    headers().find_map(|header| answer.strip_prefix(header)).map_or(answer, str::trim_start)
}

/// All headers of answers.
pub fn headers() -> impl Iterator<Item = &'static str> {
    THINKING_MARKS.iter().flat_map(|marks| marks.headers).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_an_answer_are_its_text() {
        for (text, thinking, answer) in [
            ("<think>\nhm\n</think>\n\nYes.", "\nhm\n", "Yes."),
            (" <think>hm", "hm", ""),
            (
                "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
                "hm",
                "Yes.",
            ),
            ("<|channel|>analysis<|message|>hm<|end|> Yes.", "hm", "Yes."),
            ("<seed:think>a</seed:think>b", "a", "b"),
            ("<|START_THINKING|>a<|END_THINKING|>b", "a", "b"),
            ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b", "a", "b"),
            ("[THINK]a[/THINK]b", "a", "b"),
            ("<|channel>thought\na<channel|>b", "\na", "b"),
        ] {
            let parts = thinking_parts(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((parts.thinking, parts.answer), (thinking, answer), "{text}");
            assert_eq!([parts.begin, parts.thinking, parts.end, parts.answer].concat(), text);
        }
        for text in ["", "Yes.", "Yes <think>", "<|channel|>final<|message|>Yes."] {
            assert_eq!(thinking_parts(text), None, "{text}");
        }
        assert_eq!(without_header("<|channel|>final<|message|>Yes."), "Yes.");
        assert_eq!(without_header("<|START_RESPONSE|>Yes."), "Yes.");
        assert_eq!(without_header("Yes."), "Yes.");
    }
}
