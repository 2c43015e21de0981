//! Tells the thinking of an answer from the answer itself. Thinking comes first, between `<think>` and `</think>` or
//! other marks. Headers before the answer belong to neither.

use models::chat::{self, THINKING_MARKS, ThinkingMarks};
use models::tokenizer::Tokenizer;

/// The thinking at the beginning of an answer, and the rest. `None` where there is no thinking or it is blank. White
/// space around the thinking belongs to neither.
///
/// ```
/// use longhand::text::split_thinking;
///
/// assert_eq!(split_thinking("<think>\nHm.\n</think>\n\nYes."), (Some("Hm."), "Yes."));
/// assert_eq!(split_thinking("Yes."), (None, "Yes."));
/// ```
pub fn split_thinking(text: &str) -> (Option<&str>, &str) {
    match chat::thinking_parts(text) {
        Some(parts) => {
            (Some(parts.thinking.trim()).filter(|thinking| !thinking.is_empty()), parts.answer.trim_start())
        }
        None => {
            let inner = text.trim_start();
            let answer = chat::without_header(inner);
            (None, if answer.len() < inner.len() { answer } else { text })
        }
    }
}

/// What the end of a prompt says about thinking.
#[derive(Debug, Default)]
pub struct BegunThinking {
    /// The marks of the thinking with which the answer begins.
    pub marks: Option<&'static ThinkingMarks>,
    /// The `<think>` or other mark that the prompt has ended with, and the white space behind it; else empty.
    pub opening: String,
    /// Whether the prompt has ended with the mark behind thinking: the answer has none.
    pub is_over: bool,
}

/// What a prompt that ends with these tokens says about thinking.
pub fn begun_thinking(prompt: &[u32], tokenizer: &Tokenizer) -> BegunThinking {
    /// More than the marker and the white space take.
    const TOKENS: usize = 16;
    let last = &prompt[prompt.len().saturating_sub(TOKENS)..];
    let bytes = last.iter().filter_map(|token| tokenizer.token_bytes(*token)).flatten();
    let text = String::from_utf8_lossy(&bytes.copied().collect::<Vec<u8>>()).into_owned();
    let end = text.trim_end();
    match THINKING_MARKS.iter().find_map(|marks| Some((marks, end.strip_suffix(marks.begins)?))) {
        Some((marks, before)) => {
            BegunThinking { marks: Some(marks), opening: text[before.len()..].to_owned(), is_over: false }
        }
        None => BegunThinking {
            is_over: THINKING_MARKS.iter().any(|marks| end.ends_with(marks.ends)),
            ..BegunThinking::default()
        },
    }
}

/// As [`split_thinking`], while the text is generated.
///
/// ```
/// use longhand::text::{Split, ThinkingStream};
///
/// let mut stream = ThinkingStream::default();
/// let pieces = ["<thi", "nk>\nHm", ".\n</", "think>\n\nYes."];
/// let parts = pieces.map(|piece| stream.push(piece));
/// assert_eq!(parts[1], Split { thinking: "Hm".into(), answer: "".into() });
/// assert_eq!(parts[3], Split { thinking: "".into(), answer: "Yes.".into() });
/// ```
#[derive(Clone, Debug, Default)]
pub struct ThinkingStream {
    phase: ThinkingPhase,
    /// The marks of this text's thinking.
    marks: Option<&'static ThinkingMarks>,
    /// Text that may begin a marker, and white space that may be at the end of the thinking.
    held: String,
}

/// What a piece of an answer adds to its thinking, and then to the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// More of the thinking.
    pub thinking: String,
    /// More of the answer.
    pub answer: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ThinkingPhase {
    /// Thinking may begin.
    #[default]
    Start,
    /// Nothing of the thinking was there yet but white space.
    ThinkingBegins,
    Thinking,
    /// Nothing of the answer was there yet but white space and a part of a header.
    AnswerBegins,
    /// Nothing was there behind the header but white space.
    HeaderEnds,
    Answer,
}

impl ThinkingStream {
    /// Whether the answer has begun to think, and has not ended it.
    pub fn is_thinking(&self) -> bool {
        matches!(self.phase, ThinkingPhase::ThinkingBegins | ThinkingPhase::Thinking)
    }

    /// Takes a piece of the text. Returns what it is.
    pub fn push(&mut self, piece: &str) -> Split {
        self.held += piece;
        let mut split = Split::default();
        if self.phase == ThinkingPhase::Start {
            self.begin();
        }
        if self.is_thinking() {
            self.think(&mut split);
        }
        if self.phase == ThinkingPhase::AnswerBegins {
            self.begin_answer();
        }
        if self.phase == ThinkingPhase::HeaderEnds {
            self.end_header();
        }
        if self.phase == ThinkingPhase::Answer {
            split.answer = std::mem::take(&mut self.held);
        }
        split
    }

    /// Ends the text. Returns what was held back.
    pub fn finish(&mut self) -> Split {
        let held = std::mem::take(&mut self.held);
        match self.phase {
            ThinkingPhase::Start | ThinkingPhase::Answer => Split { answer: held, ..Split::default() },
            ThinkingPhase::ThinkingBegins | ThinkingPhase::Thinking => {
                Split { thinking: held.trim_end().to_owned(), ..Split::default() }
            }
            ThinkingPhase::AnswerBegins => Split { answer: held.trim_start().to_owned(), ..Split::default() },
            ThinkingPhase::HeaderEnds => Split::default(),
        }
    }

    fn begin(&mut self) {
        let text = self.held.trim_start();
        let begun = THINKING_MARKS.iter().find_map(|marks| Some((marks, text.strip_prefix(marks.begins)?)));
        if let Some((marks, rest)) = begun {
            self.held = rest.to_owned();
            self.marks = Some(marks);
            self.phase = ThinkingPhase::ThinkingBegins;
        } else if chat::headers().any(|header| text.starts_with(header)) {
            self.phase = ThinkingPhase::AnswerBegins;
        } else {
            let mut openings = THINKING_MARKS.iter().map(|marks| marks.begins).chain(chat::headers());
            if !openings.any(|opening| opening.starts_with(text)) {
                self.phase = ThinkingPhase::Answer;
            }
        }
    }

    fn begin_answer(&mut self) {
        let text = self.held.trim_start();
        if let Some(rest) = chat::headers().find_map(|header| text.strip_prefix(header)) {
            self.held = rest.to_owned();
            self.phase = ThinkingPhase::HeaderEnds;
        } else if !text.is_empty() && !chat::headers().any(|header| header.starts_with(text)) {
            self.held = text.to_owned();
            self.phase = ThinkingPhase::Answer;
        }
    }

    fn end_header(&mut self) {
        let text = self.held.trim_start();
        if !text.is_empty() {
            self.held = text.to_owned();
            self.phase = ThinkingPhase::Answer;
        }
    }

    fn think(&mut self, split: &mut Split) {
        if self.phase == ThinkingPhase::ThinkingBegins {
            self.held.drain(..self.held.len() - self.held.trim_start().len());
            if self.held.is_empty() {
                return;
            }
            self.phase = ThinkingPhase::Thinking;
        }
        let mark = self.marks.map_or(chat::THINKING_ENDS, |marks| marks.ends);
        if let Some(end) = self.held.find(mark) {
            split.thinking = self.held[..end].trim_end().to_owned();
            self.held.drain(..end + mark.len());
            self.phase = ThinkingPhase::AnswerBegins;
            return;
        }
        let possible = chat::overlap(&self.held, mark);
        let end = self.held[..self.held.len() - possible].trim_end().len();
        let held = self.held.split_off(end);
        split.thinking = std::mem::replace(&mut self.held, held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_do_not_depend_on_the_pieces() {
        for text in [
            "",
            " ",
            "Yes.",
            " <b> yes",
            "<think>",
            "<think>\n\n</think>\n\nYes.",
            "<think>\na <b </ </think> b",
            "\n<think>a \n b</think>",
            "<think>never </thi",
            "<thin",
            "no <think>a</think>",
            "<think>é </think>\n\n é </think>",
            "<think>a</think><|start|> b",
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
            "<|channel|>analysis<|message|>hm <|en<|end|>\n<|start|>assistant<|channel|>final<|message|>\nYes.",
            "<|channel|>analysis<|message|>hm<|end|><|start|>assist",
            "<|channel|>final<|message|>Yes.",
            "<|channel|>",
            "<|start|>assistant<|channel|>",
            "<seed:think>a </seed:think> b",
            "<|START_THINKING|>a<|END_THINKING|>b",
            "<|START_THINKING|>a<|END_THINKING|>\n<|START_RESPONSE|> b",
            "<|START_",
            "[THINK]a[/THINK]b",
            "[THINK",
            "<|channel>thought\na<channel|>b",
        ] {
            let (thinking, answer) = split_thinking(text);
            let characters: Vec<char> = text.chars().collect();
            for step in 1..=characters.len().max(1) {
                let mut stream = ThinkingStream::default();
                let mut pieces: Vec<Split> = characters
                    .chunks(step)
                    .map(|piece| stream.push(&piece.iter().collect::<String>()))
                    .collect();
                pieces.push(stream.finish());
                let part = |part: fn(&Split) -> &String| pieces.iter().map(part).cloned().collect::<String>();
                assert_eq!(part(|split| &split.thinking), thinking.unwrap_or_default(), "{text:?} by {step}");
                assert_eq!(part(|split| &split.answer), answer, "{text:?} by {step}");
            }
        }
    }
}
