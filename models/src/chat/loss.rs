//! Whether a chat template writes every message: whole, once and in order.
//!
//! Some templates look at what messages contain, so that placeholders do not show what happens to the messages
//! themselves. Here each message ends with a tag. What stands before the tag in the rendered conversation must be the
//! message. White space around messages, the thinking of earlier answers and the switches for it may be missing.

use std::fmt;
use std::ops::Range;

use super::fields::MaskedFields;
use super::prompt::{other_thinking, placeholder, placeholders};
use super::template::json_text;
use super::{ChatError, Message, THINKING_BEGINS, THINKING_ENDS, ToolCall, Tools, without_header};

/// Words in messages that turn thinking on and off. Some templates remove them.
const SWITCHES: [&str; 2] = ["/think", "/no_think"];

/// What a template does to messages instead of writing them whole, once and in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// It does not write them.
    Dropped,
    /// It writes a part of them, or something else.
    Changed,
    /// It writes them more than once.
    Repeated,
    /// It does not write them in the order of the conversation.
    Moved,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::Dropped => "leaves out",
            Loss::Changed => "cuts or changes",
            Loss::Repeated => "repeats",
            Loss::Moved => "does not keep the order of",
        })
    }
}

/// The byte range of what a template must write of a message: all but white space at the ends, the thinking of an
/// answer, and the header of its text.
pub(super) fn required(message: &Message) -> Range<usize> {
    let content = message.content.as_str();
    let mut text = content;
    if message.role == "assistant" {
        text = match other_thinking(message) {
            Some(parts) => parts.answer,
            None => {
                let behind = content.rsplit_once(THINKING_ENDS).map_or(content, |(_, behind)| behind);
                without_header(behind.split_once(THINKING_BEGINS).map_or(behind, |(before, _)| before))
            }
        };
    }
    let text = text.trim();
    let start = text.as_ptr().addr() - content.as_ptr().addr();
    if text.is_empty() { 0..0 } else { start..start + text.len() }
}

/// Messages with a tag behind what a template must write of each, and placeholders in calls and tools.
pub(super) struct TaggedMessages<'a> {
    pub(super) messages: Vec<Message>,
    pub(super) fields: MaskedFields<'a>,
    original: &'a [Message],
    /// The number in the first message's tag. No message contains this number or a larger one as a placeholder.
    first_tag: u64,
}

impl<'a> TaggedMessages<'a> {
    /// `None` if a message contains a placeholder with a number that is too large.
    pub(super) fn new(original: &'a [Message], tools: Option<&'a Tools>) -> Option<TaggedMessages<'a>> {
        let used =
            original.iter().flat_map(|message| placeholders(&message.content)).map(|(_, number)| number);
        let first_tag = used.max().map_or(Some(0), |number| number.checked_add(1))?;
        let first_field = first_tag.checked_add(original.len() as u64)?;
        let fields = MaskedFields::new(original, tools, first_field);
        first_field.checked_add(fields.len() as u64)?;
        let tagged = |((message, calls), number): ((&Message, &Vec<ToolCall>), u64)| {
            let mut message = message.clone().with_calls(calls.clone());
            let range = required(&message);
            if !range.is_empty() {
                message.content.insert_str(range.end, &placeholder(number));
            }
            message
        };
        let messages = original.iter().zip(&fields.calls).zip(first_tag..).map(tagged).collect();
        Some(TaggedMessages { messages, fields, original, first_tag })
    }

    /// Compares the conversation, rendered with tags, with the messages.
    ///
    /// # Errors
    /// [`ChatError::Lost`].
    pub(super) fn check(&self, rendered: &str) -> Result<(), ChatError> {
        let mut tags: Vec<Vec<Range<usize>>> = vec![Vec::new(); self.original.len()];
        for (range, number) in placeholders(rendered) {
            let index = number.checked_sub(self.first_tag).and_then(|index| usize::try_from(index).ok());
            if let Some(found) = index.and_then(|index| tags.get_mut(index)) {
                found.push(range);
            }
        }
        let mut losses = Vec::new();
        let mut last = 0;
        for (index, (message, tags)) in self.original.iter().zip(&tags).enumerate() {
            let text = &message.content[required(message)];
            let loss = match &tags[..] {
                _ if text.is_empty() => None,
                [] if rendered.contains(beginning(text)) => Some(Loss::Changed),
                [] => Some(Loss::Dropped),
                [tag] if !ends_with(&rendered[..tag.start], text) => Some(Loss::Changed),
                // Some templates write the system message into a question.
                [tag] if message.role != "system" && tag.start < last => Some(Loss::Moved),
                [tag] => {
                    last = last.max(if message.role == "system" { 0 } else { tag.start });
                    None
                }
                _ => Some(Loss::Repeated),
            };
            losses.extend(loss.map(|loss| (index, loss)));
        }
        lost(self.original, &losses)?;
        self.fields.check(rendered, self.original)
    }
}

/// Compares a conversation that was rendered without tags with the messages.
///
/// # Errors
/// [`ChatError::Lost`].
pub(super) fn check_untagged(messages: &[Message], rendered: &str) -> Result<(), ChatError> {
    let mut at = 0;
    let mut losses = Vec::new();
    if messages.iter().any(|message| !message.tool_calls.is_empty()) {
        return Err(ChatError::NoTools);
    }
    for (index, message) in messages.iter().enumerate() {
        let text = &message.content[required(message)];
        let from = if message.role == "system" { 0 } else { at };
        match rendered[from..].find(text) {
            Some(_) if message.role == "system" => {}
            Some(found) => at += found + text.len(),
            None if rendered.contains(text) => losses.push((index, Loss::Moved)),
            None if rendered.contains(beginning(text)) => losses.push((index, Loss::Changed)),
            None => losses.push((index, Loss::Dropped)),
        }
    }
    lost(messages, &losses)
}

/// The error for these messages; none for no message.
fn lost(messages: &[Message], losses: &[(usize, Loss)]) -> Result<(), ChatError> {
    /// More are counted.
    const NAMED: usize = 3;
    let Some((_, loss)) = losses.first().copied() else { return Ok(()) };
    let same: Vec<usize> =
        losses.iter().filter(|(_, other)| *other == loss).map(|(index, _)| *index).collect();
    let written = messages.iter().filter(|message| !required(message).is_empty());
    if loss == Loss::Dropped && messages.len() > 1 && same.len() == written.count() {
        return Err(ChatError::Lost { loss, messages: "all messages".to_owned() });
    }
    let mut names: Vec<String> = same.iter().take(NAMED).map(|index| name(messages, *index)).collect();
    if same.len() > NAMED {
        names.push(format!("{} other messages", same.len() - NAMED));
    }
    let last = names.pop().unwrap_or_default();
    let all = if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) };
    Err(ChatError::Lost { loss, messages: all })
}

/// What the user calls a message.
fn name(messages: &[Message], index: usize) -> String {
    let role = messages[index].role.as_str();
    let number = messages[..=index].iter().filter(|message| message.role == role).count();
    match role {
        "system" => "the system message".to_owned(),
        "user" => format!("question {number} (with its documents)"),
        "assistant" => format!("answer {number}"),
        "tool" => format!("result {number} of a tool"),
        role => format!("message {} of the role {role:?}", index + 1),
    }
}

/// The first characters of a message.
fn beginning(text: &str) -> &str {
    const CHARS: usize = 8;
    text.char_indices().nth(CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Whether a rendered text ends with a message.
fn ends_with(rendered: &str, text: &str) -> bool {
    if rendered.ends_with(text) {
        return true;
    }
    // Between the quotes, with white space and a tag.
    let json = json_text(text);
    if rendered.ends_with(&json[1..json.len() - 1]) {
        return true;
    }
    SWITCHES.iter().any(|switch| text.contains(switch)) && ends_with_words(rendered, text)
}

/// The same for words, without [`SWITCHES`].
fn ends_with_words(rendered: &str, text: &str) -> bool {
    let words = |text| str::split_whitespace(text).rev().filter(|word| !SWITCHES.contains(word));
    let (mut written, mut wanted) = (words(rendered), words(text).peekable());
    while let Some(word) = wanted.next() {
        // The first word may follow text of the template.
        let is_first = wanted.peek().is_none();
        match written.next() {
            Some(found) if found == word || (is_first && found.ends_with(word)) => {}
            _ => return false,
        }
    }
    true
}
