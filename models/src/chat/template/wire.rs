//! What a program and its [`worker`](super::worker) send each other: texts with their lengths in front. All
//! numbers are little-endian.

use std::io::{self, Read, Write};

use super::environment::{RENDERED, Variable};
use super::form::{Form, Forms};
use crate::chat::{ChatError, Message, ToolCall};

/// Maximum length of an error's text. Longer ones are cut.
const MAX_ERROR_BYTES: usize = 4 << 10;

const NONE: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const TEXT: u8 = 3;
const NUMBER: u8 = 4;
const JSON: u8 = 5;

const RENDERING: u8 = 0;
const REFUSED: u8 = 1;
const FAILED: u8 = 2;
const TOO_LONG: u8 = 3;

/// A conversation to be rendered, as the worker reads it.
pub(in crate::chat) struct Request {
    pub(in crate::chat) variables: Vec<(String, Variable)>,
    pub(in crate::chat) messages: Vec<(Message, Form)>,
}

/// Writes a conversation. The first number is the length of its contents.
pub(in crate::chat) fn write_request<'a>(
    out: &mut impl Write,
    variables: impl ExactSizeIterator<Item = (&'a String, &'a Variable)>,
    messages: &[Message],
    forms: Forms,
) -> io::Result<()> {
    let (variables, messages_bytes) = (variables.collect::<Vec<_>>(), content_bytes(messages));
    let bytes = variables.iter().fold(messages_bytes, |bytes, (_, variable)| bytes + variable.bytes());
    write_number(out, bytes)?;
    write_number(out, variables.len())?;
    for (name, variable) in variables {
        write_text(out, name)?;
        match variable {
            Variable::None => out.write_all(&[NONE])?,
            Variable::Flag(flag) => out.write_all(&[if *flag { TRUE } else { FALSE }])?,
            Variable::Number(number) => {
                out.write_all(&[NUMBER])?;
                out.write_all(&number.to_le_bytes())?;
            }
            Variable::Text(text) => {
                out.write_all(&[TEXT])?;
                write_text(out, text)?;
            }
            Variable::Json(text) => {
                out.write_all(&[JSON])?;
                write_text(out, text)?;
            }
        }
    }
    write_number(out, messages.len())?;
    for message in messages {
        write_text(out, &message.role)?;
        write_text(out, &message.content)?;
        let form = forms.of(message);
        out.write_all(&[form.has_parts, form.has_text_arguments, form.has_no_content].map(u8::from))?;
        write_number(out, message.tool_calls.len())?;
        for call in &message.tool_calls {
            write_text(out, &call.id)?;
            write_text(out, &call.name)?;
            write_text(out, call.arguments())?;
        }
        for text in [&message.tool_call_id, &message.name] {
            out.write_all(&[u8::from(text.is_some())])?;
            write_text(out, text.as_deref().unwrap_or_default())?;
        }
    }
    out.flush()
}

/// The length of all contents and calls.
pub(in crate::chat) fn content_bytes(messages: &[Message]) -> usize {
    let calls = |message: &Message| -> usize {
        message.tool_calls.iter().map(|call| call.name.len() + call.arguments().len()).sum()
    };
    messages.iter().map(|message| message.content.len() + calls(message)).sum()
}

/// Reads what [`write_request`] has written after the first number.
pub(in crate::chat) fn read_request(from: &mut impl Read) -> io::Result<Request> {
    let mut request = Request { variables: Vec::new(), messages: Vec::new() };
    for _ in 0..read_number(from)? {
        let name = read_text(from, u64::MAX)?;
        let value = match read_byte(from)? {
            NONE => Variable::None,
            TEXT => Variable::Text(read_text(from, u64::MAX)?),
            JSON => Variable::Json(read_text(from, u64::MAX)?),
            NUMBER => Variable::Number(read_number(from)?.cast_signed()),
            flag => Variable::Flag(flag == TRUE),
        };
        request.variables.push((name, value));
    }
    for _ in 0..read_number(from)? {
        let mut message = Message::new(read_text(from, u64::MAX)?, read_text(from, u64::MAX)?);
        let form = Form {
            has_parts: read_flag(from)?,
            has_text_arguments: read_flag(from)?,
            has_no_content: read_flag(from)?,
        };
        for _ in 0..read_number(from)? {
            let (id, name) = (read_text(from, u64::MAX)?, read_text(from, u64::MAX)?);
            message.tool_calls.push(ToolCall::new(id, name, &read_text(from, u64::MAX)?)?);
        }
        for text in [&mut message.tool_call_id, &mut message.name] {
            *text = read_flag(from)?.then_some(read_text(from, u64::MAX)?);
        }
        request.messages.push((message, form));
    }
    Ok(request)
}

/// Writes the result of compiling (an empty text) or rendering.
pub(in crate::chat) fn write_reply(
    out: &mut impl Write,
    result: &Result<String, ChatError>,
) -> io::Result<()> {
    let (kind, text) = match result {
        Ok(text) => (RENDERING, text.as_str()),
        Err(ChatError::Refused { message }) => (REFUSED, cut(message)),
        Err(ChatError::Failed { why }) => (FAILED, cut(why)),
        Err(_) => (TOO_LONG, ""),
    };
    out.write_all(&[kind])?;
    write_text(out, text)?;
    out.flush()
}

/// Reads the reply of a worker that is not trusted. `limit` is the maximum length of a rendering.
pub(in crate::chat) fn read_reply(
    from: &mut impl Read,
    limit: usize,
) -> io::Result<Result<String, ChatError>> {
    let kind = read_byte(from)?;
    let max = if kind == RENDERING { limit } else { MAX_ERROR_BYTES };
    let text = read_text(from, max as u64)?;
    Ok(match kind {
        RENDERING => Ok(text),
        REFUSED => Err(ChatError::Refused { message: text }),
        FAILED => Err(ChatError::Failed { why: text }),
        TOO_LONG => Err(ChatError::TooLong { what: RENDERED, limit }),
        _ => return Err(invalid()),
    })
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_ERROR_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// Writes a number.
pub(in crate::chat) fn write_number(out: &mut impl Write, number: usize) -> io::Result<()> {
    out.write_all(&(number as u64).to_le_bytes())
}

/// Writes a text.
pub(in crate::chat) fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    write_number(out, text.len())?;
    out.write_all(text.as_bytes())
}

fn read_byte(from: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    from.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn read_flag(from: &mut impl Read) -> io::Result<bool> {
    Ok(read_byte(from)? != 0)
}

/// Reads a number.
pub(in crate::chat) fn read_number(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads a text of at most `limit` bytes. Memory is taken as the bytes arrive.
pub(in crate::chat) fn read_text(from: &mut impl Read, limit: u64) -> io::Result<String> {
    let length = read_number(from)?;
    if length > limit {
        return Err(invalid());
    }
    let mut bytes = Vec::with_capacity(length.min(1 << 16) as usize);
    if from.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_are_read_as_written() {
        let variables = [
            ("a".to_owned(), Variable::None),
            ("b".to_owned(), Variable::Flag(true)),
            ("c".to_owned(), Variable::Flag(false)),
            ("d".to_owned(), Variable::Text("é".to_owned())),
            ("e".to_owned(), Variable::Number(-1)),
            ("f".to_owned(), Variable::Json("[1]".to_owned())),
        ];
        let call = ToolCall::new("1", "f", r#"{"a": "é"}"#).expect("an object");
        let messages = [
            Message::user(""),
            Message::assistant("x\0y").with_calls(vec![call.clone()]),
            Message::tool_result(&call, "4"),
        ];
        let mut bytes = Vec::new();
        let forms = Forms::all(&messages).find(|forms| forms.of(&messages[1]) != forms.of(&messages[0]));
        let forms = forms.expect("some");
        write_request(&mut bytes, variables.iter().map(|(name, value)| (name, value)), &messages, forms)
            .expect("memory takes it");
        let mut from = bytes.as_slice();
        assert_eq!(read_number(&mut from).expect("a number"), 3 + 12 + 1 + 3);
        let request = read_request(&mut from).expect("a request");
        let messages = messages.map(|message| (message.clone(), forms.of(&message)));
        assert_eq!(
            (request.variables.as_slice(), request.messages.as_slice()),
            (&variables[..], &messages[..])
        );

        for reply in [
            Ok("é".to_owned()),
            Err(ChatError::Refused { message: "no".into() }),
            Err(ChatError::Failed { why: String::new() }),
            Err(ChatError::TooLong { what: RENDERED, limit: 2 }),
        ] {
            let mut bytes = Vec::new();
            write_reply(&mut bytes, &reply).expect("memory takes it");
            assert_eq!(read_reply(&mut bytes.as_slice(), 2).expect("a reply"), reply);
        }
    }

    #[test]
    fn invalid_replies_are_errors() {
        let reply = |kind: u8, length: u64, bytes: &[u8]| {
            let bytes = [&[kind], length.to_le_bytes().as_slice(), bytes].concat();
            read_reply(&mut bytes.as_slice(), 10).map_err(|e| e.kind())
        };
        assert_eq!(reply(RENDERING, 2, b"ab"), Ok(Ok("ab".into())));
        assert_eq!(reply(RENDERING, 3, b"ab"), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(reply(RENDERING, u64::MAX, b"ab"), Err(io::ErrorKind::InvalidData));
        assert_eq!(reply(RENDERING, 11, b"abcdefghijk"), Err(io::ErrorKind::InvalidData));
        assert_eq!(reply(RENDERING, 1, b"\xff"), Err(io::ErrorKind::InvalidData));
        assert_eq!(reply(FAILED, 1 << 13, &[b'a'; 1 << 13]), Err(io::ErrorKind::InvalidData));
        assert_eq!(reply(9, 0, b""), Err(io::ErrorKind::InvalidData));
        let mut long = Vec::new();
        write_reply(&mut long, &Err(ChatError::Refused { message: "é".repeat(1 << 20) })).expect("writes");
        assert!(long.len() < 5000 && matches!(read_reply(&mut long.as_slice(), 0), Ok(Err(_))));
    }
}
