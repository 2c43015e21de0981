//! What is behind the shapes of a slide: the background, and what layouts draw.

use crate::Problem;
use crate::office::fill::{Fill, Scheme};
use crate::office::relations::Relations;
use crate::package::Archive;
use crate::package::xml::{self, Piece};
use crate::web::html::Color;

/// What slides of a layout have behind their text.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) scheme: Scheme,
    /// The colour of the background, if the slide has no other.
    pub(super) page: Color,
    /// Whether something else is drawn there.
    pub(super) has_shapes: bool,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout { scheme: Scheme::default(), page: Color::WHITE, has_shapes: false }
    }
}

impl Layout {
    /// The layout of a slide. What is damaged is not known.
    ///
    /// # Errors
    /// The archive unpacks to too much.
    pub(super) fn of(archive: &mut Archive, layout: Option<&str>) -> Result<Layout, Problem> {
        let mut found = Layout::default();
        let Some(layout) = layout else { return Ok(found) };
        let relations = Relations::of(archive, layout)?;
        let master = relations.of_kind("slideMaster").map(str::to_owned);
        let of_master = master.as_deref().map(|master| Relations::of(archive, master)).transpose()?;
        let theme = of_master.as_ref().and_then(|relations| relations.of_kind("theme"));
        let mut name = String::new();
        found.part(archive, theme, |layout, piece| {
            if let Piece::Start(element) = piece {
                match (layout.scheme.color(element), element.name.as_str()) {
                    (Some(color), _) => layout.scheme.set_color(&name, color),
                    (None, _) => name.clone_from(&element.name),
                }
            }
        })?;
        found.part(archive, master.as_deref(), |layout, piece| {
            if let Piece::Start(element) = piece
                && element.name == "clrMap"
            {
                for name in ["bg1", "tx1", "bg2", "tx2"] {
                    let color = element.attribute(name);
                    color.into_iter().for_each(|color| layout.scheme.set_name(name, color));
                }
            }
        })?;
        for part in [master.as_deref(), Some(layout)] {
            let mut background = Background::default();
            found.part(archive, part, |layout, piece| {
                background.piece(piece, &layout.scheme);
                if let Piece::Start(element) = piece {
                    let fills =
                        ["solidFill", "gradFill", "blipFill", "pattFill"].contains(&element.name.as_str());
                    layout.has_shapes |= background.in_shape && fills;
                }
            })?;
            found.page = background.color.unwrap_or(found.page);
        }
        Ok(found)
    }

    fn part(
        &mut self,
        archive: &mut Archive,
        part: Option<&str>,
        mut on_piece: impl FnMut(&mut Layout, &Piece),
    ) -> Result<(), Problem> {
        let Some(part) = part else { return Ok(()) };
        let text = match archive.text(part) {
            Ok(text) => text,
            Err(problem @ Problem::Unpacked { .. }) => return Err(problem),
            Err(_) => return Ok(()),
        };
        let _ = xml::read(part, &text, |piece| {
            on_piece(self, &piece);
            Ok(())
        });
        Ok(())
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
