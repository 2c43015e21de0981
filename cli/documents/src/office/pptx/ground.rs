//! What slides have from their layouts: the background, what is drawn before it, and how placeholders look.

use std::collections::HashMap;
use std::rc::Rc;

use super::placeholders::{self, Placeholders};
use crate::Problem;
use crate::color::Color;
use crate::office::fill::{Fill, OTHER_NAMES, Scheme};
use crate::office::relations::Relations;
use crate::package::Archive;
use crate::package::xml::{self, Piece};

/// What slides of a layout or a master have.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) scheme: Rc<Scheme>,
    /// The colour of the background, if the slide has no other.
    pub(super) page: Color,
    /// Whether something else is drawn there.
    pub(super) has_shapes: bool,
    pub(super) placeholders: Placeholders,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            scheme: Rc::default(),
            page: Color::WHITE,
            has_shapes: false,
            placeholders: Placeholders::default(),
        }
    }
}

/// The layouts and masters of a presentation by their parts.
#[derive(Debug, Default)]
pub(super) struct Layouts(HashMap<String, Rc<Layout>>);

impl Layouts {
    /// The layout of a slide with these references. What is damaged or missing is plain.
    ///
    /// # Errors
    /// The archive unpacks to too much.
    pub(super) fn of(&mut self, archive: &mut Archive, slide: &Relations) -> Result<Rc<Layout>, Problem> {
        let Some(part) = slide.of_kind("slideLayout") else { return Ok(Rc::default()) };
        if let Some(known) = self.0.get(part) {
            return Ok(known.clone());
        }
        let relations = Relations::of(archive, part)?;
        let mut layout = match relations.of_kind("slideMaster") {
            Some(master) => (*self.master(archive, master)?).clone(),
            None => Layout::default(),
        };
        let text = archive.text_if_whole(part)?.unwrap_or_default();
        if text.contains(OTHER_NAMES) {
            layout = layout.with_other_names(part, &text);
        }
        layout.placeholders = layout.set(part, &text).of_layout(&layout.placeholders);
        Ok(self.0.entry(part.to_owned()).or_insert(Rc::new(layout)).clone())
    }

    fn master(&mut self, archive: &mut Archive, part: &str) -> Result<Rc<Layout>, Problem> {
        if let Some(known) = self.0.get(part) {
            return Ok(known.clone());
        }
        let relations = Relations::of(archive, part)?;
        let text = archive.text_if_whole(part)?.unwrap_or_default();
        let mut scheme = Scheme::of(archive, &relations)?;
        scheme.read_names(part, &text);
        let mut master = Layout { scheme: Rc::new(scheme), ..Layout::default() };
        master.placeholders = master.set(part, &text).of_master();
        Ok(self.0.entry(part.to_owned()).or_insert(Rc::new(master)).clone())
    }
}

impl Layout {
    /// The layout of a part that calls the colours of the theme otherwise. Colours from the master or the layout are then
    /// unknown.
    pub(super) fn with_other_names(&self, part: &str, text: &str) -> Layout {
        let mut scheme = (*self.scheme).clone();
        scheme.read_names(part, text);
        Layout {
            scheme: Rc::new(scheme),
            page: Color::Unknown,
            has_shapes: true,
            placeholders: Placeholders::default(),
        }
    }

    /// Takes the background and the shapes of a part. Returns its placeholders. What comes before damage counts.
    fn set(&mut self, part: &str, text: &str) -> placeholders::Reader {
        let (mut background, mut placeholders) = (Background::default(), placeholders::Reader::default());
        let _ = xml::read(part, text, |piece| {
            background.piece(&piece, &self.scheme);
            placeholders.piece(&piece, &self.scheme);
            // Lines may be thick.
            if let Piece::Start(element) = piece {
                let is_fill =
                    matches!(element.name.as_str(), "solidFill" | "gradFill" | "blipFill" | "pattFill");
                self.has_shapes |= background.in_shape && is_fill && !placeholders.is_placeholder();
            }
            Ok(())
        });
        self.has_shapes |= placeholders.has_shapes;
        self.page = background.color.unwrap_or(self.page);
        placeholders
    }
}

/// The background of a slide, a layout or a master.
#[derive(Debug, Default)]
pub(super) struct Background {
    pub(super) color: Option<Color>,
    fill: Option<Fill>,
    /// Whether the properties of a shape or a picture are open.
    in_shape: bool,
}

impl Background {
    pub(super) fn piece(&mut self, piece: &Piece, scheme: &Scheme) {
        match piece {
            Piece::Start(element) => match element.name.as_str() {
                "bg" => self.fill = Some(Fill::default()),
                // The theme may have a picture there.
                "bgRef" if element.attribute("idx").as_deref() != Some("1001") => {
                    self.color = Some(Color::Unknown);
                    self.fill = None;
                }
                "bgRef" => self.fill = Some(Fill::solid()),
                "spPr" | "pic" => self.in_shape = true,
                _ => self.fill.iter_mut().for_each(|fill| fill.start(element, scheme)),
            },
            Piece::End(name) => match name.as_str() {
                "bg" => self.color = self.fill.take().and_then(|fill| fill.color()).or(self.color),
                "spPr" | "pic" => self.in_shape = false,
                _ => self.fill.iter_mut().for_each(|fill| fill.end(name)),
            },
            Piece::Text(_) => {}
        }
    }
}
