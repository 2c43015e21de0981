//! Messages (EML) and saved pages (MHT): who wrote what to whom, the text, and what is attached.

use std::borrow::Cow;

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{Address, Encoding, Message, MessageParser, MessagePart, MimeHeaders, PartType};

use super::html;
use super::tnef::{self, Packed};
use crate::convert::Parts;
use crate::kind;
use crate::marks::{self, without_marks};
use crate::plain::decode;
use crate::{Converted, Kind, Note, Problem};

/// Messages within messages.
const MAX_DEPTH: usize = 5;
/// Longest list of people, in bytes. The rest is counted.
const MAX_PEOPLE: usize = 1000;
/// Formats of pictures that are never text.
const PIXELS: &[&str] = &["jpeg", "jpg", "pjpeg", "png", "gif", "webp", "bmp", "tiff", "heic", "avif"];

/// Converts a message or a saved page.
///
/// # Errors
/// It is no message, or has too much text.
pub(crate) fn convert(bytes: &[u8], mut parts: Parts) -> Result<Converted, Problem> {
    let is_wide = decode::is_wide(bytes);
    let bytes = readable(bytes, is_wide, &mut parts);
    let message = MessageParser::default().parse(bytes.as_ref());
    let mut message = message.ok_or_else(|| Problem::Damaged { what: "it has no message".to_owned() })?;
    if is_wide {
        read_as_utf8(&mut message);
    }
    if ends_early(&message) {
        parts.add_notes(vec![Note::Incomplete]);
    }
    write(&message, &mut parts, 0)?;
    Ok(parts.finish())
}

/// Reads the texts of a message that was stored in wide characters. What it says of their encoding was true before that.
fn read_as_utf8(message: &mut Message) {
    for part in message.parts.iter_mut().filter(|part| part.encoding == Encoding::None) {
        let raw = message.raw_message.get(part.offset_body as usize..part.offset_end as usize);
        if let (PartType::Text(text) | PartType::Html(text), Some(raw)) = (&mut part.body, raw) {
            *text = Cow::Owned(String::from_utf8_lossy(raw).into_owned());
        }
    }
}

/// Whether the sign is missing that ends the parts of a message.
fn ends_early(message: &Message) -> bool {
    let boundary = message.content_type().and_then(|kind| kind.attribute("boundary"));
    boundary.is_some_and(|boundary| {
        let end = format!("--{boundary}--");
        memchr::memmem::find(&message.raw_message, end.as_bytes()).is_none()
    })
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
    let (mut has_text, pictures) = (false, parts.counts.pictures);
    for part in body.iter().filter_map(part) {
        has_text |= write_text(message, part, parts)?;
    }
    // A page may be nothing but a picture where the plain text says it.
    if has_html && !has_text {
        for part in message.text_body.iter().filter_map(part).filter(|part| !is_html(part)) {
            if write_text(message, part, parts)? {
                has_text = true;
                parts.counts.pictures = pictures;
            }
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
            PartType::Html(_) if is_page => {
                let name = attachment.content_location().unwrap_or("frame");
                let text = text_of(message, attachment, parts);
                if !text.trim().is_empty() {
                    parts.push_text(&format!("{}{text}", marks::document(name)))?;
                }
            }
            PartType::Html(page) => parts.push(&format!("{name}.html"), page.as_bytes())?,
            // Parts of a page, and pictures within the text. A page counts those that it shows.
            PartType::InlineBinary(_) if kind == "image" => {
                let is_shown = is_page || (has_html && attachment.content_id().is_some());
                parts.counts.pictures += usize::from(!is_shown);
            }
            _ if is_page => {}
            _ if body.iter().filter_map(part).any(|part| std::ptr::eq(part, attachment)) => {}
            _ if is_damaged_picture(name, attachment) => parts.counts.skipped_files.push(name),
            _ => match tnef::unpack(attachment.contents()) {
                Some(packed) => write_packed(&packed, name, has_text, parts)?,
                None => parts.push(name, attachment.contents())?,
            },
        }
    }
    Ok(())
}

/// Whether an attachment is a picture of pixels, but its bytes are text.
fn is_damaged_picture(name: &str, attachment: &MessagePart) -> bool {
    let is_of_pixels = attachment.content_type().is_some_and(|kind| {
        let format = kind.subtype().unwrap_or_default().to_ascii_lowercase();
        kind.ctype().eq_ignore_ascii_case("image") && PIXELS.contains(&format.as_str())
    });
    is_of_pixels && matches!(kind::detect(name, attachment.contents()), Ok(Some(Kind::Text)))
}

/// Writes what Outlook has packed. Its text is that of the message, unless that has none.
fn write_packed(packed: &Packed, name: &str, has_text: bool, parts: &mut Parts) -> Result<(), Problem> {
    if packed.is_cut_off {
        parts.add_notes(vec![Note::Incomplete]);
    }
    let advice = "the text of a message of Outlook: ask for it as HTML or plain text";
    let unread = format!("{name} ({advice})");
    match decode::declared(packed.body, packed.encoding()) {
        _ if has_text => {}
        Ok(body) if !body.text.trim().is_empty() => {
            parts.add_notes(body.notes);
            parts.push_text(&plain(&body.text))?;
        }
        Ok(_) if !packed.has_other_text => {}
        _ => parts.counts.skipped_files.push(&unread),
    }
    for (name, content) in &packed.files {
        let name = decode::declared(name, packed.encoding()).map(|name| {
            parts.add_notes(name.notes);
            name.text
        });
        let name =
            name.ok().filter(|name| !name.trim().is_empty()).unwrap_or_else(|| "attachment".to_owned());
        match content {
            Some(content) => parts.push(&name, content)?,
            None => parts.counts.skipped_files.push(&name),
        }
    }
    Ok(())
}

/// Writes the text of a part. Returns whether it has any.
fn write_text(message: &Message, part: &MessagePart, parts: &mut Parts) -> Result<bool, Problem> {
    let text = text_of(message, part, parts);
    let has_text = !text.trim().is_empty();
    if has_text {
        parts.push_text(&text)?;
    }
    Ok(has_text)
}

/// The text of a part; empty if it is no text.
fn text_of(message: &Message, part: &MessagePart, parts: &mut Parts) -> String {
    let is_html = matches!(part.body, PartType::Html(_));
    let decode = if is_html { html::decode } else { decode::text };
    let decoded = undeclared(message, part).and_then(|bytes| decode(&bytes).ok()).map(|decoded| {
        parts.add_notes(decoded.notes);
        Cow::Owned(decoded.text)
    });
    match (&part.body, decoded) {
        (PartType::Html(page), decoded) => {
            let (text, counts) =
                html::to_text(&decoded.unwrap_or(Cow::Borrowed(page.as_ref())), false, &mut |_, name| {
                    style_sheet(message, name)
                });
            parts.counts.add(counts);
            text
        }
        (PartType::Text(text), decoded) => {
            let text = plain(&decoded.unwrap_or(Cow::Borrowed(text.as_ref())));
            let is = |name: &str, value: &str| {
                let known = part.content_type().and_then(|kind| kind.attribute(name));
                known.is_some_and(|known| known.eq_ignore_ascii_case(value))
            };
            let is_flowed = is("format", "flowed");
            without_marks(if is_flowed { flowed(&text, is("delsp", "yes")) } else { text })
        }
        _ => String::new(),
    }
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

/// The bytes of a part that is not all ASCII, if it does not say its encoding, or one that does not exist.
fn undeclared(message: &Message, part: &MessagePart) -> Option<Vec<u8>> {
    let is_ascii =
        |name: &str| ["us-ascii", "ascii", "ansi_x3.4-1968"].contains(&name.to_ascii_lowercase().as_str());
    let charset = part.content_type().and_then(|kind| kind.attribute("charset"));
    if charset.is_some_and(|name| charset_decoder(name.as_bytes()).is_some() && !is_ascii(name)) {
        return None;
    }
    let raw = message.raw_message.get(part.offset_body as usize..part.offset_end as usize)?;
    let bytes = match part.encoding {
        Encoding::None => raw.to_vec(),
        Encoding::QuotedPrintable => quoted_printable_decode(raw)?,
        Encoding::Base64 => base64_decode(raw)?,
    };
    (!bytes.is_ascii()).then_some(bytes)
}

/// A message whose headers are UTF-8. Some programs write other characters as they are, or all of the message in wide ones.
fn readable<'a>(bytes: &'a [u8], is_wide: bool, parts: &mut Parts) -> Cow<'a, [u8]> {
    let end = [&b"\n\n"[..], b"\n\r\n"].into_iter().filter_map(|end| memchr::memmem::find(bytes, end)).min();
    let (head, rest) = bytes.split_at(end.filter(|_| !is_wide).unwrap_or(bytes.len()));
    match (is_wide || std::str::from_utf8(head).is_err()).then(|| decode::text(head)) {
        Some(Ok(decoded)) => {
            parts.add_notes(decoded.notes);
            Cow::Owned([decoded.text.as_bytes(), rest].concat())
        }
        _ => Cow::Borrowed(bytes),
    }
}

/// The lines above a message that people read.
fn headers(message: &Message) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.trim().is_empty()) {
            let words: Vec<&str> = value.split_whitespace().collect();
            lines.push_str(&format!("{name}: {}\n", words.join(" ").replace(char::is_control, "")));
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
    let mut all = address.iter().map(person).filter(|person| !person.is_empty());
    let mut list = all.next().unwrap_or_default();
    while let Some(person) = all.next() {
        if list.len() + person.len() > MAX_PEOPLE {
            return format!("{list}, and {} more", 1 + all.count());
        }
        list.push_str(", ");
        list.push_str(&person);
    }
    list
}

/// A text whose lines go on behind a space at their end (RFC 3676), which may be no part of the text: a number may be divided there.
fn flowed(text: &str, drops_space: bool) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut open: Option<usize> = None;
    for line in text.lines() {
        let (quotes, rest) = quotation(line);
        let content = rest.strip_prefix(' ').unwrap_or(rest);
        let is_signature = content == "-- ";
        if open != Some(quotes) || is_signature {
            whole.push_str(if whole.is_empty() { "" } else { "\n" });
            whole.push_str(&line[..line.len() - rest.len()]);
            whole.push_str(if quotes > 0 { " " } else { "" });
        }
        let goes_on = content.ends_with(' ') && !is_signature;
        whole.push_str(content.strip_suffix(' ').filter(|_| goes_on && drops_space).unwrap_or(content));
        open = goes_on.then_some(quotes);
    }
    format!("{}\n", whole.trim_end())
}

/// How many signs of quotation are before a line, and what is behind them. Some programs write spaces between them.
fn quotation(line: &str) -> (usize, &str) {
    let (mut quotes, mut rest) = (0, line);
    while let Some(after) = rest.strip_prefix('>').or_else(|| rest.strip_prefix(" >").filter(|_| quotes > 0))
    {
        (quotes, rest) = (quotes + 1, after);
    }
    (quotes, rest)
}

/// A text with the line ends of this program, and without empty lines around it.
fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    format!("{}\n", text.trim_matches('\n').trim_end())
}
