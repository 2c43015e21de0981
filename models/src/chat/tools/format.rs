//! The way in which a template writes calls. It is found by what the template writes, and not by a model's name: a call is
//! rendered, and each way is tried to read it.

use serde_json::json;

use super::forced::Frame;
use super::syntax::{ALL, Syntax};
use super::{ChatError, ChatTemplate, Message, ToolCall, ToolPiece, ToolStream, Tools, thinking_parts};
use crate::tokenizer::Tokenizer;

/// A way to write calls of functions in answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFormat {
    syntax: &'static Syntax,
    opening: Option<String>,
    frame: Option<Frame>,
}

/// What is rendered.
pub(super) const CALL_ID: &str = "000000000";
const FUNCTION: &str = "find_lamp";
const PARAMETER: &str = "place";
const ARGUMENTS: &str = r#"{"place": "the old harbour"}"#;

impl ToolFormat {
    /// The way of a template; `None` if it knows no tools, or none of the known ways reads its calls.
    ///
    /// # Errors
    /// The template exceeds a limit.
    pub fn of(template: &ChatTemplate) -> Result<Option<ToolFormat>, ChatError> {
        let definition = json!({
            "name": FUNCTION,
            "description": "Finds a lamp.",
            "parameters": {
                "type": "object",
                "properties": {PARAMETER: {"type": "string", "description": "Where."}},
                "required": [PARAMETER],
            },
        });
        let tools = Tools::new(vec![json!({"type": "function", "function": definition})]);
        let call = ToolCall::new(CALL_ID, FUNCTION, ARGUMENTS);
        let (Ok(tools), Ok(call)) = (tools, call) else { return Ok(None) };
        let written = template.with_tools(&tools).and_then(|template| {
            let question = Message::user("?");
            let answer = Message::assistant("").with_calls(vec![call.clone()]);
            let before = template.prompt(std::slice::from_ref(&question), true)?.text;
            Ok((before, template.prompt(&[question, answer], false)?.text))
        });
        let (before, text) = match written {
            Ok(written) => written,
            Err(error) if error.is_limit() => return Err(error),
            Err(_) => return Ok(None),
        };
        let same = before.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        let answer = text.strip_prefix(&before);
        let opening = answer.and_then(|answer| answer.split_once(FUNCTION));
        let opening = opening.map(|(opening, _)| opening.to_owned());
        let mut formats =
            ALL.iter().map(|syntax| ToolFormat { syntax, opening: opening.clone(), frame: None });
        let found = formats.find(|format| format.reads(&text, same, &tools, &call));
        Ok(found.map(|format| {
            let frame = answer.and_then(|answer| Frame::of(answer, &call));
            let is_read = |frame: &Frame| {
                let answer = frame.example(&call);
                let answer = thinking_parts(&answer).map_or(answer.as_str(), |parts| parts.answer);
                format.reads_call(answer, &tools, &call)
            };
            ToolFormat { frame: frame.filter(is_read), ..format }
        }))
    }

    /// Whether it reads this call, and nothing else, in a text whose first `same` bytes are before the answer. A part of
    /// these may be the answer's: a prompt can end with the beginning of a mark.
    fn reads(&self, text: &str, same: usize, tools: &Tools, call: &ToolCall) -> bool {
        let behind = text.char_indices().map(|(at, _)| at).find(|at| *at >= same);
        let marks = self.syntax.begins.iter().chain(self.syntax.groups);
        let from = |mark: &&str| {
            let found = text.match_indices(*mark).map(|(at, _)| at);
            found.filter(|at| at + mark.len() > same).min()
        };
        let starts = behind.into_iter().chain(marks.filter_map(from));
        starts.into_iter().any(|start| self.reads_call(&text[start..], tools, call))
    }

    /// Whether it reads this call at the beginning of a text, and no other.
    fn reads_call(&self, text: &str, tools: &Tools, call: &ToolCall) -> bool {
        let mut stream = ToolStream::new(self, tools.clone());
        let mut pieces = stream.push(text);
        pieces.extend(stream.finish());
        let same = |read: &ToolCall| read.name == call.name && read.object() == call.object();
        matches!(pieces.first(), Some(ToolPiece::Call(read)) if same(read)) && stream.calls() == 1
    }

    /// The control tokens of which the marks of calls consist. Their texts must be part of the text that a [`ToolStream`]
    /// gets, although they are not otherwise part of answers.
    pub fn control_tokens(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let marks: Vec<&str> = self.syntax.marks().collect();
        tokenizer
            .control_tokens()
            .filter(|(_, text)| marks.iter().any(|mark| mark.contains(text)))
            .map(|(id, _)| id)
            .collect()
    }

    /// What stands between a prompt and the name of the first function that is called. A prompt that is continued with it is
    /// answered by a call; with a name behind it, of that function. It is the beginning of the answer then, for a
    /// [`ToolStream`] too, and its marks are control tokens. `None` where the template changes the end of the prompt.
    pub fn opening(&self) -> Option<&str> {
        self.opening.as_deref()
    }

    /// What is written around the JSON of a call; `None` where its arguments are no JSON.
    pub(super) fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    pub(super) fn syntax(&self) -> &'static Syntax {
        self.syntax
    }
}
