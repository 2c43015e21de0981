//! XML of office documents and books, without namespaces and without entities of its own.

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::Problem;

/// A piece of an XML text. Names are without prefix.
pub(crate) enum Piece<'a> {
    /// An element begins.
    Start(Element<'a>),
    /// An element ends.
    End(String),
    /// Text.
    Text(String),
}

/// The beginning of an element.
pub(crate) struct Element<'a> {
    start: BytesStart<'a>,
    /// Its name without prefix.
    pub(crate) name: String,
}

impl Element<'_> {
    /// The value of an attribute, by its name with its prefix.
    pub(crate) fn attribute_of(&self, name: &str) -> Option<String> {
        let mut attributes = self.start.attributes();
        let mut attributes = attributes.with_checks(false).filter_map(Result::ok);
        let found = attributes.find(|attribute| attribute.key.as_ref() == name)?;
        found.normalized_value(XmlVersion::Implicit1_0).ok().map(|value| value.into_owned())
    }

    /// The value of an attribute, by its name without prefix.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        let mut attributes = self.start.attributes();
        let mut attributes = attributes.with_checks(false).filter_map(Result::ok);
        let found = attributes.find(|attribute| attribute.key.local_name().as_ref() == name)?;
        found.normalized_value(XmlVersion::Implicit1_0).ok().map(|value| value.into_owned())
    }

    /// Whether an attribute of this name says yes.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.attribute(name).is_some_and(|value| is_yes(&value))
    }

    /// Whether a property is on: it is unless its value says no.
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self.attribute("val").as_deref(), Some("0" | "false" | "off" | "none"))
    }
}

/// Whether a value of an attribute says yes.
pub(crate) fn is_yes(value: &str) -> bool {
    matches!(value, "1" | "true" | "on")
}

/// Calls `on_piece` for each piece of an XML text. Entities that the text declares are left out.
///
/// # Errors
/// The text is not XML, or `on_piece` fails.
pub(crate) fn read(
    name: &str,
    text: &str,
    mut on_piece: impl FnMut(Piece) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let local = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    loop {
        let event = reader.read_event().map_err(|error| Problem::Damaged {
            what: format!("{name}: {error} at byte {}", reader.error_position()),
        })?;
        match event {
            Event::Start(start) => {
                let name = local(start.local_name().as_ref().as_bytes());
                on_piece(Piece::Start(Element { start, name }))?;
            }
            Event::End(end) => on_piece(Piece::End(local(end.local_name().as_ref().as_bytes())))?,
            Event::Text(text) => on_piece(Piece::Text(text.xml10_content().into_owned()))?,
            Event::CData(text) => on_piece(Piece::Text(text.xml10_content().into_owned()))?,
            Event::GeneralRef(entity) => {
                let character = entity.resolve_char_ref().ok().flatten().map(String::from);
                let named = || resolve_predefined_entity(&entity).map(str::to_owned);
                character.or_else(named).map_or(Ok(()), |text| on_piece(Piece::Text(text)))?;
            }
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}
