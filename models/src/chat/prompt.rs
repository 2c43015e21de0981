//! Prompts whose foreign parts are known: a document that contains `<|im_end|>` must not end the user's turn.
//!
//! A template is rendered twice, once with the messages and once with placeholders in their place. Where putting the
//! contents back into the second gives the first, it is known which bytes come from messages and which from the
//! template; only the latter may be read as control tokens. Some templates look into the messages (they cut thinking
//! out of earlier answers, say) and then the two may differ: such a prompt says why it is unprotected.

use std::ops::Range;

use super::{ChatError, Message};
use crate::tokenizer::Tokenizer;

/// A rendered conversation, ready to be turned into tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// What the model is to read.
    pub text: String,
    /// The parts of it that come from messages, ascending.
    plain: Vec<Range<usize>>,
    /// Whether it begins a text, or continues what the model has read already.
    starts: bool,
    /// Why the parts are not known, and the messages' contents.
    unprotected: Option<(String, Vec<String>)>,
}

impl Prompt {
    pub(super) fn protected(text: String, plain: Vec<Range<usize>>, starts: bool) -> Prompt {
        Prompt { text, plain, starts, unprotected: None }
    }

    pub(super) fn unprotected(text: String, why: String, messages: &[Message]) -> Prompt {
        let contents = messages.iter().map(|m| m.content.clone()).collect();
        Prompt { text, plain: Vec::new(), starts: true, unprotected: Some((why, contents)) }
    }

    /// Why it is not known which parts come from messages, where it is not.
    pub fn unprotected_because(&self) -> Option<&str> {
        self.unprotected.as_ref().map(|(why, _)| why.as_str())
    }

    /// The byte ranges of [`Prompt::text`] that come from messages.
    pub fn foreign(&self) -> &[Range<usize>] {
        &self.plain
    }

    /// The tokens, with the beginning-of-text token where one belongs. Text of messages never becomes a control token.
    ///
    /// # Errors
    /// Where the vocabulary lacks a byte, and where a message has the text of a control token but the template does not
    /// let messages be told from its own text; [`Prompt::encode_unprotected`] is for those who accept that.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, ChatError> {
        if let Some((why, contents)) = &self.unprotected
            && contents.iter().any(|content| tokenizer.has_control_text(content))
        {
            return Err(ChatError::Unprotected { why: why.clone() });
        }
        Ok(tokenizer.encode_prompt(&self.text, &self.plain, self.starts)?)
    }

    /// Like [`Prompt::encode`], except that control tokens are recognised in messages too where the two cannot be told
    /// apart.
    ///
    /// # Errors
    /// Where the vocabulary lacks a byte of the text.
    pub fn encode_unprotected(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, ChatError> {
        Ok(tokenizer.encode_prompt(&self.text, &self.plain, self.starts)?)
    }
}

/// How the next turn's prompt relates to what the model has read.
#[derive(Debug, Clone, PartialEq)]
pub enum NextTurn {
    /// The model has read the prompt before and its own answer (without the token that ended it): this comes next.
    Extends(Prompt),
    /// The template now writes earlier turns otherwise than when they were read.
    Rewrites {
        /// The whole conversation anew.
        prompt: Prompt,
        /// What comes after the answer, for those who would rather keep what was read than follow the template to the
        /// letter.
        suffix: Option<Prompt>,
        /// What changed.
        why: String,
    },
}

/// Around the number of a placeholder, which is written in [`DIGITS`]: all in a private use area, so that no filter for
/// case or white space changes them.
const OPEN: char = '\u{E0F0}';
const CLOSE: char = '\u{E0F1}';
const DIGITS: u32 = 0xE0E0;

/// Marks that templates look for in answers; they stay outside the placeholders.
const MARKS: [&str; 2] = ["<think>", "</think>"];

/// Whether placeholders cannot be told from a template's own text.
pub(super) fn uses_placeholder_characters(template: &str) -> bool {
    template.contains([OPEN, CLOSE])
}

/// Messages with placeholders, and what each stands for.
pub(super) struct Masked {
    pub(super) messages: Vec<Message>,
    cores: Vec<String>,
}

/// The placeholder of this number.
pub(super) fn placeholder(number: usize) -> String {
    let mut out = String::from(OPEN);
    for digit in number.to_string().bytes() {
        out.extend(char::from_u32(DIGITS + u32::from(digit - b'0')));
    }
    out.push(CLOSE);
    out
}

impl Masked {
    /// Placeholders for everything but white space at the ends (templates trim it) and the marks in answers.
    pub(super) fn by_content(messages: &[Message]) -> Masked {
        let mut masked = Masked { messages: Vec::new(), cores: Vec::new() };
        for message in messages {
            let mut content = String::new();
            let mut rest = message.content.as_str();
            while !rest.is_empty() {
                let mark = MARKS.iter().filter(|_| message.role == "assistant");
                let found = mark.filter_map(|m| Some((rest.find(m)?, m.len()))).min();
                let (at, length) = found.unwrap_or((rest.len(), 0));
                masked.hide(&rest[..at], &mut content);
                content.push_str(&rest[at..at + length]);
                rest = &rest[at + length..];
            }
            masked.messages.push(Message { role: message.role.clone(), content });
        }
        masked
    }

    /// The same for all but the assistant's messages, which are placeholders as a whole. Also gives the number of the
    /// placeholder of message `wanted`.
    pub(super) fn with_opaque_answers(messages: &[Message], wanted: usize) -> (Masked, usize) {
        let mut masked = Masked { messages: Vec::new(), cores: Vec::new() };
        let mut number = 0;
        for (i, message) in messages.iter().enumerate() {
            if i == wanted {
                number = masked.cores.len();
            }
            let mut content = String::new();
            if message.role == "assistant" {
                content = placeholder(masked.cores.len());
                masked.cores.push(message.content.clone());
            } else {
                masked.hide(&message.content, &mut content);
            }
            masked.messages.push(Message { role: message.role.clone(), content });
        }
        (masked, number)
    }

    fn hide(&mut self, text: &str, out: &mut String) {
        let core = text.trim();
        if core.is_empty() {
            out.push_str(text);
            return;
        }
        let start = text.len() - text.trim_start().len();
        out.push_str(&text[..start]);
        out.push_str(&placeholder(self.cores.len()));
        out.push_str(&text[start + core.len()..]);
        self.cores.push(core.to_owned());
    }

    /// Puts the contents back into a rendered text, and tells where they are.
    pub(super) fn fill(&self, rendered: &str) -> Option<(String, Vec<Range<usize>>)> {
        let mut text = String::with_capacity(rendered.len());
        let mut plain = Vec::new();
        let mut parts = rendered.split(OPEN);
        text.push_str(parts.next()?);
        for part in parts {
            let (number, rest) = part.split_once(CLOSE)?;
            let digit = |c: char| u32::from(c).checked_sub(DIGITS).filter(|&d| d < 10);
            let number =
                number.chars().try_fold(0usize, |n, c| n.checked_mul(10)?.checked_add(digit(c)? as usize))?;
            let core = self.cores.get(number)?;
            plain.push(text.len()..text.len() + core.len());
            text.push_str(core);
            text.push_str(rest);
        }
        Some((text, plain))
    }
}
