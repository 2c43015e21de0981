//! Messages (EML) and saved pages (MHT): who wrote what to whom, the text, and what is attached.

use mail_parser::{Address, Message, MessageParser, MessagePart, MimeHeaders, PartType};

use super::html;
use crate::convert::Parts;
use crate::marks::{self, without_marks};
use crate::{Converted, Problem};

/// Messages within messages.
const MAX_DEPTH: usize = 5;
/// Longest list of people, in characters.
const MAX_PEOPLE: usize = 1000;

/// Converts a message or a saved page.
///
/// # Errors
/// It is no message, or has too much text.
pub(crate) fn convert(bytes: &[u8], mut parts: Parts) -> Result<Converted, Problem> {
    let message = MessageParser::default().parse(bytes);
    let message = message.ok_or_else(|| Problem::Damaged { what: "it has no message".to_owned() })?;
    write(&message, &mut parts, 0)?;
    Ok(parts.finish())
}

fn write(message: &Message, parts: &mut Parts, depth: usize) -> Result<(), Problem> {
    // A page is saved with its pictures and styles as parts that belong together.
    let is_page = message.to().is_none()
        && message.content_type().is_some_and(|kind| {
            kind.ctype().eq_ignore_ascii_case("multipart")
                && kind.subtype().is_some_and(|kind| kind.eq_ignore_ascii_case("related"))
        });
    if !is_page {
        parts.push_text(&without_marks(headers(message)))?;
    }
    let part = |id: &u32| message.parts.get(*id as usize);
    let is_html = |part: &&MessagePart| matches!(part.body, PartType::Html(_));
    let has_html = message.html_body.iter().filter_map(part).any(|part| is_html(&part));
    let body = if has_html { &message.html_body } else { &message.text_body };
    for part in body.iter().filter_map(part) {
        match &part.body {
            PartType::Html(page) => {
                let (text, counts) = html::to_text(page, false, &mut |_, name| style_sheet(message, name));
                parts.counts.add(counts);
                parts.push_text(&text)?;
            }
            PartType::Text(text) => parts.push_text(&without_marks(plain(text)))?,
            _ => {}
        }
    }
    for attachment in message.attachments() {
        let name = attachment.attachment_name().unwrap_or("attachment");
        let kind =
            attachment.content_type().map(|kind| kind.ctype().to_ascii_lowercase()).unwrap_or_default();
        match &attachment.body {
            PartType::Message(inner) if depth < MAX_DEPTH => {
                parts.push_text(&marks::document(inner.subject().unwrap_or("message")))?;
                write(inner, parts, depth + 1)?;
            }
            PartType::Html(page) if !is_page => parts.push(&format!("{name}.html"), page.as_bytes())?,
            // Parts of a page, and pictures within the text.
            PartType::InlineBinary(_) if kind == "image" => parts.counts.pictures += usize::from(!is_page),
            _ if is_page => {}
            _ if body.iter().filter_map(part).any(|part| std::ptr::eq(part, attachment)) => {}
            _ => parts.push(name, attachment.contents())?,
        }
    }
    Ok(())
}

/// The style sheet of a saved page that it calls so.
fn style_sheet(message: &Message, name: &str) -> Option<(String, String)> {
    let is_named = |part: &&MessagePart| match name.strip_prefix("cid:") {
        Some(id) if part.content_id() == Some(id) => true,
        _ => {
            let end = name.trim_start_matches(['.', '/']);
            let location = part.content_location().unwrap_or_default();
            location == name || (!end.is_empty() && location.ends_with(&format!("/{end}")))
        }
    };
    let part = message.parts.iter().find(is_named)?;
    match &part.body {
        PartType::Text(text) => Some((name.to_owned(), text.clone().into_owned())),
        _ => None,
    }
}

/// The lines above a message that people read.
fn headers(message: &Message) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.trim().is_empty()) {
            let value: String = value.split_whitespace().collect::<Vec<_>>().join(" ");
            let value: String = value.chars().filter(|c| !c.is_control()).take(MAX_PEOPLE).collect();
            lines.push_str(&format!("{name}: {value}\n"));
        }
    };
    line("From", message.from().map(people));
    line("To", message.to().map(people));
    line("Cc", message.cc().map(people));
    line("Date", message.date().map(|date| date.to_rfc822()));
    line("Subject", message.subject().map(str::to_owned));
    lines
}

fn people(address: &Address) -> String {
    let person = |person: &mail_parser::Addr| match (person.name(), person.address()) {
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => String::new(),
    };
    let all: Vec<String> =
        address.iter().take(MAX_PEOPLE).map(person).filter(|person| !person.is_empty()).collect();
    all.join(", ")
}

/// A text with the line ends of this program, and without empty lines around it.
fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    format!("{}\n", text.trim_matches('\n').trim_end())
}
