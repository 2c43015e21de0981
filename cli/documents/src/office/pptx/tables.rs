//! What is behind the text of a table's cells.

use crate::color::Color;
use crate::office::fill::{Fill, Scheme};
use crate::package::xml::{self, Piece};

/// The styles that fill no cells: `No Style, No Grid` and `No Style, Table Grid`.
const PLAIN: [&str; 2] = ["{2D5ABB26-0587-4C30-8999-92F81FD0307C}", "{5940675A-B579-460E-94D1-54222C63F5DA}"];

/// A table while it is read.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Whether its style makes the first row a header.
    pub(super) has_header: bool,
    pub(super) has_style: bool,
    pub(super) in_style: bool,
    /// Rows that have begun.
    pub(super) rows: usize,
}

impl Table {
    /// What the style draws behind a cell that says nothing itself. Headers of styles have white text on a dark ground.
    pub(super) fn ground(&self) -> Color {
        let is_header = self.has_style && self.has_header && self.rows == 1;
        if is_header { Color::NotWhite } else { Color::Unknown }
    }
}

/// Whether a style fills no cells.
pub(super) fn is_plain(style: &str) -> bool {
    PLAIN.iter().any(|plain| style.trim().eq_ignore_ascii_case(plain))
}

/// What fills the cells of a part, in their order. A cell says so behind its text. What comes before damage counts.
pub(super) fn colors(part: &str, text: &str, scheme: &Scheme) -> Vec<Option<Color>> {
    let (mut colors, mut fill, mut in_line) = (Vec::new(), None::<Fill>, false);
    if !text.contains("tcPr") {
        return colors;
    }
    let _ = xml::read(part, text, |piece| {
        match piece {
            Piece::Start(element) => match element.name.as_str() {
                "tc" => colors.push(None),
                "tcPr" => (fill, in_line) = (Some(Fill::default()), false),
                name if name.starts_with("ln") => in_line = true,
                _ if in_line => {}
                _ => fill.iter_mut().for_each(|fill| fill.start(&element, scheme)),
            },
            Piece::End(name) => match name.as_str() {
                "tcPr" => {
                    let color = fill.take().and_then(|fill| fill.color());
                    // The style of the table may fill it.
                    let color =
                        color.map(|color| if color == Color::Transparent { Color::Unknown } else { color });
                    colors.iter_mut().last().into_iter().for_each(|last| *last = color);
                }
                name if name.starts_with("ln") => in_line = false,
                _ if in_line => {}
                _ => fill.iter_mut().for_each(|fill| fill.end(&name)),
            },
            Piece::Text(_) => {}
        }
        Ok(())
    });
    colors
}
