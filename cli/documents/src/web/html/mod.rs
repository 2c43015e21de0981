//! HTML as text. The tokens of the page are read from the beginning to the end without a tree. So a page costs no more
//! than its length, however deep it is.

mod blocks;
mod controls;
mod css;
mod elements;
mod feet;
mod icons;
mod math;
mod page;
mod pictures;
mod prepass;
mod shadows;
mod signs;
mod stacks;

use std::collections::HashMap;

use encoding_rs::Encoding;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

pub(crate) use self::css::Linked;
use self::page::Page;
use self::prepass::{OPENERS, Prepass};
use crate::counts::Counts;
use crate::marks;
use crate::plain::decode;
use crate::writer::Writer;
use crate::{Converted, Problem};

/// Numbers of places of a page by the ids of the elements that begin there.
pub(crate) type Places = HashMap<String, usize>;

/// Where pages declare their encoding: within so many bytes.
const DECLARATION_BYTES: usize = 1024;

/// Converts a page in any encoding.
///
/// # Errors
/// The page is not text, or longer than `max_bytes`.
pub(crate) fn convert(bytes: &[u8], max_bytes: u64) -> Result<Converted, Problem> {
    let Converted { text, mut notes, .. } = decode(bytes)?;
    let is_xml = text.trim_start_matches('\u{feff}').trim_start().starts_with("<?xml");
    let (text, mut counts) = to_text(&text, is_xml, &mut |_, _| None);
    notes.extend(std::mem::take(&mut counts).notes());
    match text.len() as u64 > max_bytes {
        true => Err(Problem::TooLong { limit: max_bytes }),
        false => Ok(Converted { text, notes, ..Converted::default() }),
    }
}

/// The characters of a page whose bytes may declare their encoding.
///
/// # Errors
/// The bytes are not text.
pub(crate) fn decode(bytes: &[u8]) -> Result<Converted, Problem> {
    decode::declared(bytes, declared_encoding(bytes))
}

/// A page as a text of its own, with its title. `linked` finds the style sheets that it names.
pub(crate) fn to_text(page: &str, is_xml: bool, linked: &mut Linked) -> (String, Counts) {
    let (title, mut text, counts) = to_parts(page, is_xml, linked);
    if let Some(title) = title {
        text.insert_str(0, &format!("{}{title}\n\n", marks::heading(1)));
    }
    (text, counts)
}

/// The title of a page, if it has no heading of the first level, and its text.
pub(crate) fn to_parts(page: &str, is_xml: bool, linked: &mut Linked) -> (Option<String>, String, Counts) {
    let (mut writer, mut counts) = (Writer::default(), Counts::default());
    let title = write(page, is_xml, 0, &mut Places::new(), &mut writer, &mut counts, linked);
    counts.unfilled_rows += writer.unfilled_rows();
    (title, writer.finish(), counts)
}

/// Writes a page that is in so many frames, and tells the writer where its places are. Those that the page does not have remain in
/// `places`. In XML, scripts and titles are elements as all others. Returns the title if the page has no heading of the first
/// level.
pub(crate) fn write(
    page: &str,
    is_xml: bool,
    frames: usize,
    places: &mut Places,
    writer: &mut Writer,
    counts: &mut Counts,
    linked: &mut Linked,
) -> Option<String> {
    let mut prepass = Prepass::default();
    // Most large pages have nothing that must be known before.
    let small = page.to_ascii_lowercase();
    let needed = ["<style", ":style", "stylesheet", "reversed", "math/tex"];
    if needed
        .iter()
        .chain(&OPENERS)
        .any(|word| memchr::memmem::find(small.as_bytes(), word.as_bytes()).is_some())
    {
        read(page, is_xml, |token| prepass.token(token, linked));
    }
    let mut page_writer = Page::new(writer, counts, prepass.finish(linked), places, is_xml, frames);
    read(page, is_xml, |token| page_writer.token(token));
    page_writer.finish()
}

/// A piece of a page.
enum Token<'a> {
    Start(&'a Tag),
    End(&'a [u8]),
    Text(&'a str),
}

/// A tag that begins an element.
#[derive(Clone, Debug, Default)]
struct Tag {
    /// In small letters.
    name: Vec<u8>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    is_closed: bool,
}

impl Tag {
    /// The start of an element without attributes.
    fn named(name: &[u8]) -> Tag {
        Tag { name: name.to_vec(), ..Tag::default() }
    }

    /// The value of an attribute.
    fn attribute(&self, name: &str) -> Option<String> {
        let found = self.attributes.iter().find(|(known, _)| known == name.as_bytes())?;
        Some(String::from_utf8_lossy(&found.1).into_owned())
    }

    fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|(known, _)| known == name.as_bytes())
    }

    /// Whether an attribute has a value, in any case of letters.
    fn is(&self, name: &str, value: &str) -> bool {
        self.attribute(name).is_some_and(|known| known.trim().eq_ignore_ascii_case(value))
    }

    /// A number.
    fn number(&self, name: &str) -> Option<i64> {
        self.attribute(name)?.trim().parse().ok()
    }
}

/// Calls `on_token` for each piece of a page.
fn read(page: &str, is_xml: bool, mut on_token: impl FnMut(Token)) {
    let mut tag = Tag::default();
    let on_event = |event: CallbackEvent<'_>, _: Span<()>| -> Option<()> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                tag.name = name_of(name, is_xml);
                tag.attributes.clear();
            }
            CallbackEvent::AttributeName { name } => {
                tag.attributes.push((name.to_ascii_lowercase(), Vec::new()));
            }
            CallbackEvent::AttributeValue { value } => {
                if let Some((_, known)) = tag.attributes.last_mut() {
                    known.extend(value);
                }
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                tag.is_closed = self_closing;
                on_token(Token::Start(&tag));
            }
            CallbackEvent::EndTag { name } => on_token(Token::End(&name_of(name, is_xml))),
            CallbackEvent::String { value } => on_token(Token::Text(&String::from_utf8_lossy(value))),
            _ => {}
        }
        None
    };
    let mut emitter = CallbackEmitter::new(on_event);
    emitter.naively_switch_states(!is_xml);
    // The callback returns nothing, and text in memory cannot fail to be read.
    for Ok(()) in Tokenizer::new_with_emitter(page, emitter) {}
}

/// The name of an element in small letters. In XML it may have a prefix.
fn name_of(name: &[u8], is_xml: bool) -> Vec<u8> {
    let prefix = name.iter().rposition(|c| *c == b':').filter(|_| is_xml);
    name[prefix.map_or(0, |at| at + 1)..].to_ascii_lowercase()
}

/// The encoding in `<meta charset=…>` or `<?xml encoding=…?>`.
fn declared_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(DECLARATION_BYTES)]).to_ascii_lowercase();
    let (_, after) = head.split_once("charset=").or_else(|| head.split_once("encoding="))?;
    let label = after.trim_start_matches(['"', '\'', ' ']);
    let end = label.find(|c: char| !c.is_ascii_alphanumeric() && !"-_:".contains(c))?;
    Encoding::for_label(&label.as_bytes()[..end])
}
