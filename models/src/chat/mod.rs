//! Renders conversations as prompts, with the chat template of the model's file or, if it has none, with a
//! simple default.
//!
//! `template` runs the template, which is a program from the file. `prompt` tells which parts of its text are from
//! messages: text of users never becomes a control token. `loss` sees to it that every message is written, and `fields` does
//! both for functions and their calls. `thinking` knows how answers mark their thinking, and `tools` how they call functions.

mod fields;
mod loss;
mod message;
mod prompt;
#[cfg(test)]
mod released;
mod template;
mod thinking;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, FixedOffset, Local};
use thiserror::Error;

use self::fields::MaskedFields;
pub use self::loss::Loss;
use self::loss::{TaggedMessages, check_untagged};
pub use self::message::{Message, ToolCall};
use self::prompt::MaskedMessages;
pub use self::prompt::{NextTurn, Prompt};
use self::template::{Forms, Template, Variable};
pub use self::template::{TEMPLATES, serve as serve_templates};
pub(crate) use self::thinking::MARK_TOKENS;
pub use self::thinking::{
    THINKING_BEGINS, THINKING_ENDS, THINKING_MARKS, ThinkingMarks, ThinkingParts, headers, may_think,
    thinking_parts, without_header,
};
pub use self::tools::{ForcedCall, ToolFormat, ToolPiece, ToolStream, Tools, ToolsError, overlap};
use crate::gguf::{GgufFile, Value};
use crate::tokenizer::{Tokenizer, TokenizerError};

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
    /// The template ran longer than it may.
    #[error("the model's chat template ran longer than {} s", .0.as_secs_f32())]
    TooSlow(Duration),
    /// The template took more memory than it may.
    #[error("the model's chat template took more than {} MB of memory", .bytes >> 20)]
    OutOfMemory {
        /// The limit in bytes.
        bytes: u64,
    },
    /// The template nests values or expressions more deeply than the stack allows.
    #[error("the model's chat template nests values or expressions too deeply")]
    TooDeep,
    /// The process that runs the template cannot be started.
    #[error("cannot start the process that runs the model's chat template: {why}")]
    NoProcess {
        /// The system's error.
        why: String,
    },
    /// The thread that runs the template cannot be started.
    #[error("cannot start the thread that runs the model's chat template: {why}")]
    NoThread {
        /// The system's error.
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
    /// A message contains the text of a control token, and it cannot be kept apart from the template's own
    /// text.
    #[error("a message contains the text of a control token, and {why}")]
    Unprotected {
        /// Why the two cannot be kept apart.
        why: String,
    },
    /// The template does not write messages whole, once and in order, so that the model would not read what
    /// was said.
    #[error("the model's chat template {loss} {messages}")]
    Lost {
        /// What it does.
        loss: Loss,
        /// The messages, as the user calls them.
        messages: String,
    },
    /// The template does not write the functions that the model may call, or their calls.
    #[error("the model's chat template knows no tools")]
    NoTools,
    /// [`ChatTemplate::next_turn`] was called for a conversation without an answer.
    #[error("the conversation has no answer to continue from")]
    NoAnswer,
    /// The template always, or never, lets the model think: no variable of it decides that.
    #[error("the model's chat template cannot turn thinking on or off")]
    NoThinkingSwitch,
    /// The text cannot be encoded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

impl ChatError {
    /// Whether the template has exceeded a limit, so that rendering something else would probably do so too.
    fn is_limit(&self) -> bool {
        matches!(self, ChatError::TooSlow(_) | ChatError::OutOfMemory { .. } | ChatError::TooDeep)
    }

    /// What the user can do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            ChatError::NotText
            | ChatError::Failed { .. }
            | ChatError::TooSlow(_)
            | ChatError::OutOfMemory { .. }
            | ChatError::TooDeep
            | ChatError::TooLong { .. } => "use a model file with a working template",
            ChatError::Lost { .. } => {
                "use a model file with a chat template that writes all messages, such as another upload of this model"
            }
            ChatError::NoProcess { .. } | ChatError::NoThread { .. } => {
                "allow this program more processes and memory (`ulimit -u` and `-v`)"
            }
            ChatError::Refused { .. } => {
                "many templates need alternating user and assistant messages, and some allow no system message: put instructions into the first user message"
            }
            ChatError::Unprotected { .. } => "remove the control token's text from the document or question",
            ChatError::NoAnswer => "render the whole conversation instead",
            ChatError::NoTools => "ask without tools, or use a model that was made for them",
            ChatError::NoThinkingSwitch => "leave thinking as it is",
            ChatError::Tokenizer(e) => e.hint(),
        }
    }
}

/// The origin of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateOrigin {
    /// The model's file.
    File,
    /// ChatML: the file has no template, and the vocabulary has ChatML's tokens.
    ChatMl,
    /// Role names before the messages: the file has no template, and the vocabulary lacks ChatML's tokens.
    Plain,
}

/// Variables that turn thinking on or off in templates: their names, and their values for on and off.
const THINKING_SWITCHES: [(&str, Variable, Variable); 3] = [
    ("enable_thinking", Variable::Flag(true), Variable::Flag(false)),
    ("thinking", Variable::Flag(true), Variable::Flag(false)),
    // Tokens. Less than none is no limit.
    ("thinking_budget", Variable::Number(-1), Variable::Number(0)),
];

const CHAT_ML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const PLAIN: &str = "{% for message in messages %}\
    {% if message.role == 'system' %}{{ message.content + '\\n\\n' }}\
    {% elif message.role == 'assistant' %}{{ 'Assistant: ' + message.content + '\\n' }}\
    {% else %}{{ 'User: ' + message.content + '\\n' }}{% endif %}{% endfor %}\
    {% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

/// A conversation that the template has written whole.
struct Whole {
    forms: Forms,
    /// With placeholders.
    masked: String,
    /// With the messages.
    text: String,
}

/// Renders conversations in the format that a model was trained with.
///
/// The template is part of a downloaded file and not trusted, unless it is the embedded model's or a default. A child process
/// compiles and renders it, with limits on time, stack and (on Linux and Windows) memory. Where there can be none
/// ([`ChatTemplate::unconfined`]), only instructions, recursion and the length of the output are limited.
///
/// On Linux the child is a fork of this process. Make it before the program takes much memory, because the child keeps what
/// memory has held when it started. A program that waits for all its children finds this one among them. On other systems
/// the program must call [`child::use_worker`] first. The child starts here and ends with the `ChatTemplate`.
///
/// Clones share the child.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    template: Arc<Template>,
    origin: TemplateOrigin,
    /// What the model may call.
    tools: Option<Tools>,
    /// Template variables other than the messages and tools.
    variables: BTreeMap<String, Variable>,
    /// The reason why placeholders cannot be used with this template, if they cannot.
    no_placeholders: Option<String>,
}

impl ChatTemplate {
    /// The template of a model's file, or the default of [`ChatTemplate::new`] if it has none.
    ///
    /// # Errors
    /// The template cannot be compiled.
    pub fn from_gguf(file: &GgufFile, tokenizer: &Tokenizer) -> Result<ChatTemplate, ChatError> {
        match file.get("tokenizer.chat_template") {
            None => ChatTemplate::new(None, tokenizer),
            Some(Value::String(text)) => {
                ChatTemplate::new(Some(text.to_str().ok_or(ChatError::NotText)?), tokenizer)
            }
            Some(_) => Err(ChatError::NotText),
        }
    }

    /// Compiles `template` for the model of `tokenizer`. If it is `None` or blank, uses ChatML if the
    /// vocabulary has its tokens, otherwise role names before the messages.
    ///
    /// # Errors
    /// The template cannot be compiled.
    pub fn new(template: Option<&str>, tokenizer: &Tokenizer) -> Result<ChatTemplate, ChatError> {
        ChatTemplate::at(template, tokenizer, Local::now().fixed_offset())
    }

    fn at(
        template: Option<&str>,
        tokenizer: &Tokenizer,
        now: DateTime<FixedOffset>,
    ) -> Result<ChatTemplate, ChatError> {
        let (source, origin) = match template.filter(|t| !t.trim().is_empty()) {
            Some(template) => (template, TemplateOrigin::File),
            None if tokenizer.token_id("<|im_start|>").is_some() => (CHAT_ML, TemplateOrigin::ChatMl),
            None => (PLAIN, TemplateOrigin::Plain),
        };
        let text = |id: Option<u32>| {
            let text = id.and_then(|id| tokenizer.token_text(id));
            Variable::Text(text.unwrap_or_default().to_owned())
        };
        let variables = BTreeMap::from([
            ("bos_token".to_owned(), text(tokenizer.bos())),
            ("eos_token".to_owned(), text(tokenizer.eos())),
            ("unk_token".to_owned(), text(tokenizer.unknown())),
            // Hugging Face's library always passes it, and tools, and templates compare them with none.
            ("documents".to_owned(), Variable::None),
        ]);
        Ok(ChatTemplate {
            template: Arc::new(Template::compile(source, now)?),
            origin,
            tools: None,
            variables,
            no_placeholders: prompt::uses_placeholder_characters(source)
                .then(|| "the template itself contains the characters of placeholders".to_owned()),
        })
    }

    /// The origin of the template.
    pub fn origin(&self) -> TemplateOrigin {
        self.origin
    }

    /// Why the template is rendered in this process, with few limits, although it is not known: the system refuses a
    /// child process.
    pub fn unconfined(&self) -> Option<&str> {
        self.template.unconfined()
    }

    /// The same template, with which the model thinks before it answers, or does not.
    ///
    /// # Errors
    /// No variable of the template decides that.
    pub fn with_thinking(&self, thinks: bool) -> Result<ChatTemplate, ChatError> {
        let messages = [Message::user("?")];
        for (name, on, off) in THINKING_SWITCHES {
            let switched = |value| {
                let mut template = self.clone();
                template.variables.insert(name.to_owned(), value);
                template
            };
            let (on, off) = (switched(on), switched(off));
            match (on.prompt(&messages, true), off.prompt(&messages, true)) {
                (Err(error), _) | (_, Err(error)) if error.is_limit() => return Err(error),
                (Ok(with), Ok(without)) if with.text != without.text => {
                    return Ok(if thinks { on } else { off });
                }
                _ => {}
            }
        }
        Err(ChatError::NoThinkingSwitch)
    }

    /// The same template, with which the model may call these functions.
    ///
    /// # Errors
    /// The template does not write them, or refuses a conversation with them.
    pub fn with_tools(&self, tools: &Tools) -> Result<ChatTemplate, ChatError> {
        let template = ChatTemplate { tools: Some(tools.clone()), ..self.clone() };
        template.prompt(&[Message::user("?")], true)?;
        Ok(template)
    }

    /// The functions that the model may call.
    pub fn tools(&self) -> Option<&Tools> {
        self.tools.as_ref()
    }

    /// Texts that end an answer in addition to the tokens that do. Only the default formats need them.
    pub fn stop_strings(&self) -> &'static [&'static str] {
        match self.origin {
            TemplateOrigin::File => &[],
            TemplateOrigin::ChatMl => &["<|im_end|>", "<|im_start|>"],
            TemplateOrigin::Plain => &["\nUser:"],
        }
    }

    /// Renders the conversation as text, with contents that are texts, whatever becomes of them.
    /// `add_generation_prompt` appends the text that precedes the assistant's next answer.
    ///
    /// # Errors
    /// The template refuses the conversation or fails.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String, ChatError> {
        self.render_as(Forms::TEXT, messages, self.tools_text().as_ref(), add_generation_prompt)
    }

    /// The definitions of tools as JSON.
    fn tools_text(&self) -> Option<String> {
        self.tools.as_ref().map(|tools| tools.value().to_string())
    }

    fn render_as(
        &self,
        forms: Forms,
        messages: &[Message],
        tools: Option<&String>,
        add_generation_prompt: bool,
    ) -> Result<String, ChatError> {
        let mut variables = self.variables.clone();
        variables.insert("tools".to_owned(), tools.cloned().map_or(Variable::None, Variable::Json));
        variables.insert("add_generation_prompt".to_owned(), Variable::Flag(add_generation_prompt));
        self.template.render(&variables, messages, forms)
    }

    /// Renders messages with placeholders in the forms in which the template writes all of them, and the messages
    /// themselves in these forms. `None` if there are no such forms.
    fn render_whole(
        &self,
        masked: &MaskedMessages,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<Option<Whole>, ChatError> {
        let render = |forms, messages: &[Message], tools: Option<&String>| match self.render_as(
            forms,
            messages,
            tools,
            add_generation_prompt,
        ) {
            Err(error) if error.is_limit() => Err(error),
            rendered => Ok(rendered.ok()),
        };
        let tools = self.tools_text();
        for forms in Forms::all(messages) {
            let rendered = render(forms, &masked.messages, masked.fields.tools.as_ref())?;
            if let Some(masked) = rendered.filter(|rendered| masked.is_whole(rendered, forms))
                && let Some(text) = render(forms, messages, tools.as_ref())?
            {
                return Ok(Some(Whole { forms, masked, text }));
            }
        }
        Ok(None)
    }

    /// Renders the conversation as a [`Prompt`], which distinguishes the text of messages from the template's
    /// own text. Contents are lists of parts where the template wants that. White space around messages and
    /// the thinking of answers may be missing.
    ///
    /// # Errors
    /// As for [`ChatTemplate::render`], and if the template does not write a message whole, once and in order.
    pub fn prompt(&self, messages: &[Message], add_generation_prompt: bool) -> Result<Prompt, ChatError> {
        if let Some(why) = &self.no_placeholders {
            let text = self.render(messages, add_generation_prompt)?;
            self.check_untagged(messages, &text)?;
            return Ok(Prompt::unprotected(text, why.clone(), messages, &MaskedFields::default()));
        }
        let masked = MaskedMessages::by_content(messages, self.tools.as_ref());
        let (forms, text) = match self.render_whole(&masked, messages, add_generation_prompt)? {
            Some(Whole { forms, masked: rendered, text }) => match masked.locate(&rendered, &text) {
                Some(located) if located.start == 0 => {
                    return Ok(Prompt::protected(text, located, &masked.fields, true));
                }
                _ => (forms, text),
            },
            None => self.render_with_calls(messages, add_generation_prompt)?,
        };
        let tagged = TaggedMessages::new(messages, self.tools.as_ref());
        let render = |tagged: &TaggedMessages| {
            self.render_as(forms, &tagged.messages, tagged.fields.tools.as_ref(), add_generation_prompt)
        };
        match tagged.as_ref().map(render) {
            Some(Ok(rendered)) => tagged.map_or(Ok(()), |tagged| tagged.check(&rendered))?,
            Some(Err(error)) if error.is_limit() => return Err(error),
            _ => self.check_untagged(messages, &text)?,
        }
        let why = "the template decides by what messages contain";
        Ok(Prompt::unprotected(text, why.to_owned(), messages, &masked.fields))
    }

    /// Renders with contents that are texts, in the first form of calls that works.
    fn render_with_calls(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<(Forms, String), ChatError> {
        let tools = self.tools_text();
        let mut first = None;
        for forms in Forms::with_calls(messages) {
            match self.render_as(forms, messages, tools.as_ref(), add_generation_prompt) {
                Ok(text) => return Ok((forms, text)),
                Err(error) if error.is_limit() => return Err(error),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or(ChatError::NoTools))
    }

    /// As [`check_untagged`]. It cannot be found out whether tools are written.
    fn check_untagged(&self, messages: &[Message], text: &str) -> Result<(), ChatError> {
        if self.tools.is_some() { Err(ChatError::NoTools) } else { check_untagged(messages, text) }
    }

    /// The prompt for the next answer of a conversation that the model has read up to its last answer:
    /// [`ChatTemplate::prompt`] of the messages before that answer, with the generation prompt, and the
    /// generated tokens of the answer without the token that ended it.
    ///
    /// `messages` is the whole conversation: the assistant's last answer, and after it the new messages of
    /// the user. Answers are not encoded again, so it does not matter if the template changes their text,
    /// unless it drops the thinking from the last one.
    ///
    /// # Errors
    /// As for [`ChatTemplate::render`], and if the conversation has no answer.
    pub fn next_turn(&self, messages: &[Message]) -> Result<NextTurn, ChatError> {
        let answer = messages.iter().rposition(|m| m.role == "assistant").ok_or(ChatError::NoAnswer)?;
        let rewrites = |suffix, why: &str| {
            let prompt = self.prompt(messages, true)?;
            Ok(NextTurn::Rewrites { prompt, suffix, why: why.to_owned() })
        };
        if let Some(why) = &self.no_placeholders {
            return rewrites(None, why);
        }
        if !messages[answer].tool_calls.is_empty() {
            return rewrites(None, "the last answer calls functions");
        }
        let masked = MaskedMessages::with_opaque_answers(messages, self.tools.as_ref());
        let inspects = "the template decides by what messages contain";
        let Some(Whole { forms, masked: now, text }) = self.render_whole(&masked, messages, true)? else {
            return rewrites(None, inspects);
        };
        let tools = masked.fields.tools.as_ref();
        let before = match self.render_as(forms, &masked.messages[..answer], tools, true) {
            Ok(before) => before,
            Err(error) if error.is_limit() => return Err(error),
            Err(_) => return rewrites(None, inspects),
        };
        let Some((head, tail)) = now.split_once(&masked.messages[answer].content) else {
            return rewrites(None, inspects);
        };
        let suffix = masked.locate(tail, &text).map(|located| {
            let text = text[located.start..].to_owned();
            Prompt::protected(text, located.in_its_text(), &masked.fields, false)
        });
        // White space before the answer may differ: some templates put a space there, which is part of the
        // answer's first token.
        match suffix {
            Some(suffix) if self.drops_thinking(forms, messages, answer)? => {
                rewrites(Some(suffix), "the template drops the thinking of earlier answers")
            }
            Some(suffix) if head.trim_end() == before.trim_end() => Ok(NextTurn::Extends(suffix)),
            Some(suffix) => rewrites(Some(suffix), "the template now renders earlier turns differently"),
            None => rewrites(None, "the template changes messages by what they contain"),
        }
    }

    /// Whether the thinking of an answer is no longer part of the conversation.
    fn drops_thinking(&self, forms: Forms, messages: &[Message], answer: usize) -> Result<bool, ChatError> {
        let content = &messages[answer].content;
        if !content.contains(THINKING_ENDS)
            && thinking_parts(content).is_none_or(|parts| parts.end.is_empty())
        {
            return Ok(false);
        }
        let tools = self.tools.as_ref();
        let (masked, [thinking, rest]) = MaskedMessages::with_masked_thinking(messages, tools, answer);
        match self.render_as(forms, &masked.messages, masked.fields.tools.as_ref(), true) {
            Ok(text) => Ok(!text.contains(&thinking) && text.contains(&rest)),
            Err(error) if error.is_limit() => Err(error),
            Err(_) => Ok(false),
        }
    }
}
