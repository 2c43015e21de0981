//! Prompts that know which parts come from messages, so that a document that contains `<|im_end|>` does not
//! end the user's turn.
//!
//! A template is rendered twice, once with the messages and once with placeholders in their place. Then the
//! placeholders are replaced with the contents. If this gives the first result, the byte ranges of messages
//! are known, and control tokens are matched only outside of them. Some templates inspect messages (for
//! example, they remove the thinking from earlier answers). Then the two results can differ, and the
//! prompt is unprotected and gives the reason. `loss.rs` has seen to it that it has all messages.

use std::ops::Range;

use super::fields::MaskedFields;
use super::loss::required;
use super::template::{Forms, push_json};
use super::{
    ChatError, Message, THINKING_BEGINS, THINKING_ENDS, ThinkingParts, Tools, thinking_parts, without_header,
};
use crate::tokenizer::Tokenizer;

/// A rendered conversation, ready to be encoded.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The text that the model reads.
    pub text: String,
    /// The byte ranges of `text` that come from messages, sorted; empty if they are not known.
    message_ranges: Vec<Range<usize>>,
    /// Those that come from tools and calls.
    field_ranges: Vec<Range<usize>>,
    /// Texts of tools and calls whose places are not known.
    open_texts: Vec<String>,
    /// Whether the prompt begins a text. Otherwise it continues what the model has read.
    at_start: bool,
    /// Set if the ranges of messages are not known.
    unprotected: Option<Unprotected>,
}

#[derive(Debug, Clone, PartialEq)]
struct Unprotected {
    reason: String,
    /// The contents of the messages, and the texts of tools and calls.
    contents: Vec<String>,
}

/// Where in a text messages, tools and calls are.
pub(super) struct Located {
    /// Where the text begins that was looked at.
    pub(super) start: usize,
    messages: Vec<Range<usize>>,
    fields: Vec<Range<usize>>,
}

impl Located {
    /// Moves the start before a piece of the template that ends there; `None` if it does not, or has a damaged placeholder.
    fn skip_back(&mut self, text: &str, piece: &str) -> Option<()> {
        if piece.contains(OPEN) {
            return None;
        }
        self.start = text[..self.start].strip_suffix(piece)?.len();
        Some(())
    }

    /// The same in the part of the text that was looked at.
    pub(super) fn in_its_text(self) -> Located {
        let shifted = |ranges: Vec<Range<usize>>| {
            ranges.into_iter().map(|range| range.start - self.start..range.end - self.start).collect()
        };
        Located { start: 0, messages: shifted(self.messages), fields: shifted(self.fields) }
    }
}

impl Prompt {
    /// A prompt of which it is known what comes from messages, tools and calls.
    pub(super) fn protected(text: String, located: Located, fields: &MaskedFields, at_start: bool) -> Prompt {
        let Located { messages: message_ranges, fields: field_ranges, .. } = located;
        let open_texts = fields.open_texts().map(str::to_owned).collect();
        Prompt { text, message_ranges, field_ranges, open_texts, at_start, unprotected: None }
    }

    pub(super) fn unprotected(
        text: String,
        reason: String,
        messages: &[Message],
        fields: &MaskedFields,
    ) -> Prompt {
        let contents = messages.iter().map(|m| m.content.as_str());
        let contents = contents.chain(fields.texts()).map(str::to_owned).collect();
        Prompt {
            text,
            message_ranges: Vec::new(),
            field_ranges: Vec::new(),
            open_texts: Vec::new(),
            at_start: true,
            unprotected: Some(Unprotected { reason, contents }),
        }
    }

    /// The reason why the text of messages cannot be distinguished from the template's; `None` if it can.
    pub fn unprotected_reason(&self) -> Option<&str> {
        self.unprotected.as_ref().map(|unprotected| unprotected.reason.as_str())
    }

    /// The byte ranges of [`Prompt::text`] that come from messages, sorted; empty if they are not known.
    pub fn message_ranges(&self) -> &[Range<usize>] {
        &self.message_ranges
    }

    /// Splits the prompt at byte `at` and returns the second part, which continues the first: its tokens are
    /// appended to the first's. No token reaches across `at`. Returns `None` and changes nothing if `at` is
    /// not between two characters, or if it is not known which ranges come from messages.
    pub fn split_off(&mut self, at: usize) -> Option<Prompt> {
        if self.unprotected.is_some() || !self.text.is_char_boundary(at) {
            return None;
        }
        let text = self.text.split_off(at);
        let split = |ranges: &mut Vec<Range<usize>>| -> Vec<Range<usize>> {
            let shifted = |range: &Range<usize>| range.start.saturating_sub(at)..range.end - at;
            let behind = ranges.iter().filter(|range| range.end > at).map(shifted).collect();
            ranges.retain(|range| range.start < at);
            if let Some(last) = ranges.last_mut() {
                last.end = last.end.min(at);
            }
            behind
        };
        let (message_ranges, field_ranges) = (split(&mut self.message_ranges), split(&mut self.field_ranges));
        let open_texts = self.open_texts.clone();
        Some(Prompt { text, message_ranges, field_ranges, open_texts, at_start: false, unprotected: None })
    }

    /// Encodes the prompt, with a beginning-of-text token if the model uses one. Text of messages never
    /// becomes a control token.
    ///
    /// # Errors
    /// The vocabulary has no token for a byte of the text; or a message contains the text of a control token
    /// and the ranges of messages are not known.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, ChatError> {
        if let Some(Unprotected { reason, contents }) = &self.unprotected
            && contents.iter().any(|content| tokenizer.has_control_text(content))
        {
            return Err(ChatError::Unprotected { why: reason.clone() });
        }
        if self.open_texts.iter().any(|text| tokenizer.has_control_text(text)) {
            let why = "it is not known where the template writes the names of parameters and calls";
            return Err(ChatError::Unprotected { why: why.to_owned() });
        }
        let mut ranges = [self.message_ranges.as_slice(), &self.field_ranges].concat();
        ranges.sort_unstable_by_key(|range| range.start);
        Ok(tokenizer.encode_prompt(&self.text, &ranges, self.at_start)?)
    }
}

/// The prompt of the next turn, relative to what the model has read.
#[derive(Debug, Clone, PartialEq)]
pub enum NextTurn {
    /// Continues the previous prompt and the answer (without the token that ended it).
    Extends(Prompt),
    /// The template now renders earlier turns differently from how the model has read them.
    Rewrites {
        /// The whole conversation.
        prompt: Prompt,
        /// The part after the answer, for callers that keep what the model has read and accept the
        /// difference.
        suffix: Option<Prompt>,
        /// The difference.
        why: String,
    },
}

/// A placeholder is a number between these two characters, written in digits that start at [`DIGITS`]. All
/// are in a private use area, so that no filter for case or white space changes them.
const OPEN: char = '\u{E0F0}';
const CLOSE: char = '\u{E0F1}';
const DIGITS: u32 = 0xE0E0;

/// What is before the text in a list of parts that is written as code.
const PART_TEXT: &str = "\"text\": \"";

/// Markers that templates search for in answers. They are not replaced by placeholders.
const MARKERS: [&str; 2] = [THINKING_BEGINS, THINKING_ENDS];

/// The parts of an answer whose thinking is between other marks than [`MARKERS`]. Templates get these parts.
pub(super) fn other_thinking(message: &Message) -> Option<ThinkingParts<'_>> {
    let parts = Some(message).filter(|m| m.role == "assistant").and_then(|m| thinking_parts(&m.content))?;
    (parts.marks.begins != THINKING_BEGINS).then_some(parts)
}

/// Whether a template contains the characters that delimit placeholders.
pub(super) fn uses_placeholder_characters(template: &str) -> bool {
    template.contains([OPEN, CLOSE])
}

/// Messages whose contents are replaced by placeholders.
pub(super) struct MaskedMessages<'a> {
    pub(super) messages: Vec<Message>,
    /// Tools and calls. Their placeholders have the first numbers.
    pub(super) fields: MaskedFields<'a>,
    /// What each further placeholder replaces, by number.
    hidden: Vec<Hidden<'a>>,
}

/// What a placeholder replaces.
struct Hidden<'a> {
    text: &'a str,
    /// Whether the template must write it.
    is_required: bool,
    /// Whether it is of a system message, which templates may write anywhere.
    is_system: bool,
}

/// The placeholder with this number.
pub(super) fn placeholder(number: u64) -> String {
    let mut out = String::from(OPEN);
    for digit in number.to_string().bytes() {
        out.extend(char::from_u32(DIGITS + u32::from(digit - b'0')));
    }
    out.push(CLOSE);
    out
}

/// The placeholders in a text: their byte ranges and numbers. Damaged ones are left out.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = (Range<usize>, u64)> {
    text.match_indices(OPEN).filter_map(|(start, open)| {
        let inner = &text[start + open.len()..];
        let mut number = 0u64;
        for (at, c) in inner.char_indices() {
            if c == CLOSE {
                let end = start + open.len() + at + CLOSE.len_utf8();
                return (at > 0).then_some((start..end, number));
            }
            let digit = u32::from(c).checked_sub(DIGITS).filter(|digit| *digit < 10)?;
            number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
        }
        None
    })
}

impl<'a> MaskedMessages<'a> {
    /// Replaces contents except for white space at the ends, which templates trim, and [`MARKERS`] in
    /// answers.
    pub(super) fn by_content(messages: &'a [Message], tools: Option<&'a Tools>) -> MaskedMessages<'a> {
        let mut masked = MaskedMessages::new(messages, tools);
        for message in messages {
            let mut content = String::new();
            let mut rest = message.content.as_str();
            let required = required(message);
            if let Some(parts) = other_thinking(message) {
                content.push_str(parts.begin);
                masked.mask(message, parts.thinking, false, &mut content);
                content.push_str(parts.end);
                rest = parts.answer;
            } else if message.role == "assistant" {
                rest = without_header(rest);
                content.push_str(&message.content[..message.content.len() - rest.len()]);
            }
            while !rest.is_empty() {
                let markers = MARKERS.iter().filter(|_| message.role == "assistant");
                let found = markers.filter_map(|m| Some((rest.find(m)?, m.len()))).min();
                let (at, length) = found.unwrap_or((rest.len(), 0));
                let start = message.content.len() - rest.len();
                let is_required =
                    !required.is_empty() && start <= required.start && required.end <= start + at;
                masked.mask(message, &rest[..at], is_required, &mut content);
                content.push_str(&rest[at..at + length]);
                rest = &rest[at + length..];
            }
            masked.push(message, content);
        }
        masked
    }

    /// Like [`MaskedMessages::by_content`], except that answers of the assistant become one placeholder each.
    pub(super) fn with_opaque_answers(
        messages: &'a [Message],
        tools: Option<&'a Tools>,
    ) -> MaskedMessages<'a> {
        let mut masked = MaskedMessages::new(messages, tools);
        for message in messages {
            let mut content = String::new();
            if message.role == "assistant" {
                masked.hide(message, &message.content, true, &mut content);
            } else {
                masked.mask(message, &message.content, true, &mut content);
            }
            masked.push(message, content);
        }
        masked
    }

    /// Like [`MaskedMessages::with_opaque_answers`], except that the answer with this index has thinking. Returns the
    /// placeholders of the thinking and of what follows it, too.
    pub(super) fn with_masked_thinking(
        original: &'a [Message],
        tools: Option<&'a Tools>,
        answer: usize,
    ) -> (MaskedMessages<'a>, [String; 2]) {
        let mut masked = MaskedMessages::with_opaque_answers(original, tools);
        let [thinking, rest] = [0, 1].map(|n| placeholder(masked.next() + n));
        masked.messages[answer].content = match other_thinking(&original[answer]) {
            Some(parts) => [parts.begin, &thinking, parts.end, &rest].concat(),
            None => format!("{THINKING_BEGINS}\n{thinking}\n{THINKING_ENDS}\n\n{rest}"),
        };
        (masked, [thinking, rest])
    }

    fn new(messages: &'a [Message], tools: Option<&'a Tools>) -> MaskedMessages<'a> {
        let fields = MaskedFields::new(messages, tools, 0);
        MaskedMessages { messages: Vec::new(), fields, hidden: Vec::new() }
    }

    /// Adds a message with this content, and its calls with placeholders.
    fn push(&mut self, message: &Message, content: String) {
        let calls = self.fields.calls.get(self.messages.len()).cloned().unwrap_or_default();
        self.messages.push(Message { content, tool_calls: calls, ..message.clone() });
    }

    /// The number of the next placeholder.
    fn next(&self) -> u64 {
        (self.fields.len() + self.hidden.len()) as u64
    }

    /// What a placeholder replaces in a message's content.
    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number).ok()?.checked_sub(self.fields.len())
    }

    /// Appends `text`, which is of `message`, to `out`, with a placeholder for everything between the white space at
    /// its ends.
    fn mask(&mut self, message: &Message, text: &'a str, is_required: bool, out: &mut String) {
        let inner = text.trim();
        if inner.is_empty() {
            out.push_str(text);
            return;
        }
        let start = text.len() - text.trim_start().len();
        out.push_str(&text[..start]);
        self.hide(message, inner, is_required, out);
        out.push_str(&text[start + inner.len()..]);
    }

    /// Appends a placeholder for `text`, which is of `message`, to `out`.
    fn hide(&mut self, message: &Message, text: &'a str, is_required: bool, out: &mut String) {
        out.push_str(&placeholder(self.next()));
        self.hidden.push(Hidden { text, is_required, is_system: message.role == "system" });
    }

    /// Whether the conversation, rendered with placeholders, has each message whole, once and in order, with its calls,
    /// and all tools.
    pub(super) fn is_whole(&self, rendered: &str, forms: Forms) -> bool {
        let mut found = vec![None; self.hidden.len()];
        for (range, number) in placeholders(rendered) {
            // Templates may write a function's name again with the result.
            if self.fields.text(number).is_some() {
                continue;
            }
            // The list of parts itself was written.
            let is_code = rendered[..range.start].ends_with(PART_TEXT) && forms.has_parts();
            match self.index(number).and_then(|number| found.get_mut(number)) {
                Some(place @ None) if !is_code => *place = Some(range.start),
                _ => return false,
            }
        }
        let required = || self.hidden.iter().zip(&found).filter(|(hidden, _)| hidden.is_required);
        let places: Vec<_> =
            required().filter(|(hidden, _)| !hidden.is_system).map(|(_, place)| *place).collect();
        required().all(|(_, place)| place.is_some())
            && places.is_sorted()
            && self.fields.check(rendered, &self.messages).is_ok()
    }

    /// Where messages, tools and calls are in a text that was rendered with them, given the end of the same text as it was
    /// rendered with placeholders. `None` if there is a damaged placeholder, or if replacing the placeholders gives
    /// something else.
    pub(super) fn locate(&self, masked_end: &str, text: &str) -> Option<Located> {
        let mut located = Located { start: text.len(), messages: Vec::new(), fields: Vec::new() };
        let mut end = masked_end.len();
        let found: Vec<_> = placeholders(masked_end).collect();
        // From the end on, because it is not known where the text begins.
        for (range, number) in found.into_iter().rev() {
            located.skip_back(text, &masked_end[range.end..end])?;
            end = range.start;
            let field = self.fields.text(number);
            let hidden = match field {
                Some(field) => field,
                None => self.hidden.get(self.index(number)?)?.text,
            };
            let before = &text[..located.start];
            // Templates write some texts as JSON.
            let start = before_json(before, hidden).or_else(|| Some(before.strip_suffix(hidden)?.len()))?;
            let ranges = if field.is_some() { &mut located.fields } else { &mut located.messages };
            ranges.push(start..located.start);
            located.start = start;
        }
        located.skip_back(text, &masked_end[..end])?;
        located.messages.reverse();
        located.fields.reverse();
        Some(located)
    }
}

/// Where `hidden` begins in a text that ends with it, as it stands in JSON; `None` if the text ends otherwise.
fn before_json(text: &str, hidden: &str) -> Option<usize> {
    let (mut rest, mut json) = (text, String::new());
    for c in hidden.chars().rev() {
        json.clear();
        push_json(&mut json, c);
        rest = rest.strip_suffix(json.as_str())?;
    }
    Some(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_without_an_answer_is_not_required() {
        let is_required = |answer: &str| {
            let messages = [Message::assistant(answer)];
            let masked = MaskedMessages::by_content(&messages, None);
            masked.hidden.iter().map(|hidden| hidden.is_required).collect::<Vec<_>>()
        };
        let thinking = format!("Let me see.{THINKING_ENDS}");
        assert_eq!(is_required(&thinking), [false]);
        assert_eq!(is_required(&(thinking + "It is blue.")), [false, true]);
        assert_eq!(is_required("It is blue."), [true]);
    }
}
