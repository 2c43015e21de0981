//! Conversations as a model wants to read them: the chat template of its file, or a plain form where it has none.

mod environment;
mod prompt;

use std::collections::BTreeMap;

use chrono::{DateTime, FixedOffset, Local};
use thiserror::Error;

use self::environment::{Template, Variable};
use self::prompt::Masked;
pub use self::prompt::{NextTurn, Prompt};
use crate::gguf::{GgufFile, Value};
use crate::tokenizer::{Tokenizer, TokenizerError};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user` or `assistant`; templates may know others.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// A message of any role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }

    /// What the model should be.
    pub fn system(content: impl Into<String>) -> Message {
        Message::new("system", content)
    }

    /// What the user said.
    pub fn user(content: impl Into<String>) -> Message {
        Message::new("user", content)
    }

    /// What the model answered.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new("assistant", content)
    }
}

/// A conversation cannot be rendered as the model's prompt.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The template in the metadata is not text.
    #[error("metadata key tokenizer.chat_template is not UTF-8 text")]
    NotText,
    /// The template refuses the conversation.
    #[error("the model's chat template refuses this conversation: {message:?}")]
    Refused {
        /// The template's message.
        message: String,
    },
    /// The template cannot be parsed or run.
    #[error("the model's chat template does not work: {why}")]
    Failed {
        /// What went wrong, and where.
        why: String,
    },
    /// A text is longer than its limit.
    #[error("{what} is longer than {limit} bytes")]
    TooLong {
        /// The text.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// A message contains the text of a control token, and it cannot be kept apart from the template's own text.
    #[error("a message contains the text of a control token, and {why}")]
    Unprotected {
        /// Why the two cannot be kept apart.
        why: String,
    },
    /// [`ChatTemplate::next_turn`] was called for a conversation without an answer.
    #[error("the conversation has no answer to continue from")]
    NoAnswer,
    /// The text cannot be encoded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

impl ChatError {
    /// What the user can do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            ChatError::NotText | ChatError::Failed { .. } | ChatError::TooLong { .. } => {
                "use a model file with a working template"
            }
            ChatError::Refused { .. } => {
                "many templates need alternating user and assistant messages, and some allow no system message: put instructions into the first user message"
            }
            ChatError::Unprotected { .. } => "remove the control token's text from the document or question",
            ChatError::NoAnswer => "render the whole conversation instead",
            ChatError::Tokenizer(e) => e.hint(),
        }
    }
}

/// Where a template comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The model's file.
    File,
    /// The file has none; the vocabulary has ChatML's tokens.
    ChatMl,
    /// Neither: names before what is said.
    Plain,
}

const CHAT_ML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const PLAIN: &str = "{% for message in messages %}\
    {% if message.role == 'system' %}{{ message.content + '\\n\\n' }}\
    {% elif message.role == 'assistant' %}{{ 'Assistant: ' + message.content + '\\n' }}\
    {% else %}{{ 'User: ' + message.content + '\\n' }}{% endif %}{% endfor %}\
    {% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

/// Writes conversations in a model's own form.
#[derive(Debug)]
pub struct ChatTemplate {
    template: Template,
    origin: Origin,
    /// Variables beside the messages.
    variables: BTreeMap<String, Variable>,
    /// Why placeholders cannot be used with this template.
    no_placeholders: Option<String>,
}

impl ChatTemplate {
    /// The template of a model's file, or a plain form where it has none.
    ///
    /// # Errors
    /// Where the template cannot be read.
    pub fn from_gguf(file: &GgufFile, tokenizer: &Tokenizer) -> Result<ChatTemplate, ChatError> {
        match file.get("tokenizer.chat_template") {
            None => ChatTemplate::new(None, tokenizer),
            Some(Value::String(text)) => {
                ChatTemplate::new(Some(text.to_str().ok_or(ChatError::NotText)?), tokenizer)
            }
            Some(_) => Err(ChatError::NotText),
        }
    }

    /// This template for the model of `tokenizer`; without one, ChatML where the vocabulary has its tokens, else the
    /// plain form. A blank template counts as none.
    ///
    /// # Errors
    /// Where the template cannot be read.
    pub fn new(template: Option<&str>, tokenizer: &Tokenizer) -> Result<ChatTemplate, ChatError> {
        ChatTemplate::at(template, tokenizer, Local::now().fixed_offset())
    }

    fn at(
        template: Option<&str>,
        tokenizer: &Tokenizer,
        now: DateTime<FixedOffset>,
    ) -> Result<ChatTemplate, ChatError> {
        let (source, origin) = match template.filter(|t| !t.trim().is_empty()) {
            Some(template) => (template, Origin::File),
            None if tokenizer.token_id("<|im_start|>").is_some() => (CHAT_ML, Origin::ChatMl),
            None => (PLAIN, Origin::Plain),
        };
        let text = |id: Option<u32>| {
            let text = id.and_then(|id| tokenizer.token_text(id));
            Variable::Text(text.unwrap_or_default().to_owned())
        };
        let variables = BTreeMap::from([
            ("bos_token".to_owned(), text(tokenizer.bos())),
            ("eos_token".to_owned(), text(tokenizer.eos())),
            ("unk_token".to_owned(), text(tokenizer.unknown())),
            // the library these templates are written for passes both always, and templates compare them with none
            ("tools".to_owned(), Variable::None),
            ("documents".to_owned(), Variable::None),
        ]);
        Ok(ChatTemplate {
            template: Template::compile(source, now)?,
            origin,
            variables,
            no_placeholders: prompt::uses_placeholder_characters(source)
                .then(|| "the template uses the characters of placeholders itself".to_owned()),
        })
    }

    /// Where the template comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Sets a switch that the template knows, such as `enable_thinking`.
    pub fn set_flag(&mut self, name: impl Into<String>, value: bool) {
        self.variables.insert(name.into(), Variable::Flag(value));
    }

    /// Texts at which an answer ends although they are no tokens; only the forms used without a template need them.
    pub fn stop_strings(&self) -> &'static [&'static str] {
        match self.origin {
            Origin::File => &[],
            Origin::ChatMl => &["<|im_end|>", "<|im_start|>"],
            Origin::Plain => &["\nUser:"],
        }
    }

    /// The conversation as text. `add_generation_prompt`: up to where the assistant's answer begins.
    ///
    /// # Errors
    /// Where the template refuses the conversation or fails.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String, ChatError> {
        let mut variables = self.variables.clone();
        variables.insert("add_generation_prompt".to_owned(), Variable::Flag(add_generation_prompt));
        let messages: Vec<(&str, &str)> =
            messages.iter().map(|m| (m.role.as_str(), m.content.as_str())).collect();
        self.template.render(&variables, &messages)
    }

    /// The conversation ready to be turned into tokens, with the messages told from the template's own text.
    ///
    /// # Errors
    /// As for [`ChatTemplate::render`].
    pub fn prompt(&self, messages: &[Message], add_generation_prompt: bool) -> Result<Prompt, ChatError> {
        let text = self.render(messages, add_generation_prompt)?;
        let unprotected = |why: &str| Prompt::unprotected(text.clone(), why.to_owned(), messages);
        if let Some(why) = &self.no_placeholders {
            return Ok(unprotected(why));
        }
        let masked = Masked::by_content(messages);
        let rendered = match self.render(&masked.messages, add_generation_prompt) {
            Ok(rendered) => rendered,
            Err(_) => return Ok(unprotected("the template decides by what messages contain")),
        };
        Ok(match masked.fill(&rendered) {
            Some((filled, plain)) if filled == text => Prompt::protected(filled, plain, true),
            _ => unprotected("the template changes messages by what they contain"),
        })
    }

    /// What the model has to read before its next answer, given that it has read [`ChatTemplate::prompt`] of the
    /// messages before the last answer (with the generation prompt) and that answer as it came out, without the token
    /// that ended it.
    ///
    /// `messages` is the whole conversation: the assistant's last answer, and after it what the user says now. Answers
    /// are never turned into tokens again, so it does not matter what the template does to their text.
    ///
    /// # Errors
    /// As for [`ChatTemplate::render`], and where there is no answer in the conversation.
    pub fn next_turn(&self, messages: &[Message]) -> Result<NextTurn, ChatError> {
        let answer = messages.iter().rposition(|m| m.role == "assistant").ok_or(ChatError::NoAnswer)?;
        let rewrites = |suffix, why: &str| {
            let prompt = self.prompt(messages, true)?;
            Ok(NextTurn::Rewrites { prompt, suffix, why: why.to_owned() })
        };
        if let Some(why) = &self.no_placeholders {
            return rewrites(None, why);
        }
        let (masked, number) = Masked::with_opaque_answers(messages, answer);
        let placeholder = prompt::placeholder(number);
        let (Ok(before), Ok(now)) =
            (self.render(&masked.messages[..answer], true), self.render(&masked.messages, true))
        else {
            return rewrites(None, "the template decides by what messages contain");
        };
        let Some((head, tail)) = now.split_once(&placeholder) else {
            return rewrites(None, "the template drops the last answer");
        };
        let real = self.render(messages, true)?;
        let suffix = masked
            .fill(tail)
            .filter(|(text, _)| real.ends_with(text.as_str()))
            .map(|(text, plain)| Prompt::protected(text, plain, false));
        // white space is left to the model: some forms put a space before an answer, which is part of its first token
        match suffix {
            Some(suffix) if head.trim_end() == before.trim_end() => Ok(NextTurn::Extends(suffix)),
            Some(suffix) => rewrites(Some(suffix), "the template writes earlier turns otherwise now"),
            None => rewrites(None, "the template changes messages by what they contain"),
        }
    }
}
