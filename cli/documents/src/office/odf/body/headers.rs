//! Headers and footers of pages, which stand among the styles.

use std::mem;

use super::Body;
use crate::Problem;
use crate::office::odf::STYLES;
use crate::package::xml::{self, Piece};
use crate::writer::Writer;

const HEADERS: &[&str] = &["header", "header-left", "header-first"];
const FOOTERS: &[&str] = &["footer", "footer-left", "footer-first"];

impl Body<'_> {
    /// Reads the headers and footers of a part with styles.
    ///
    /// # Errors
    /// It is damaged or too long.
    pub(in crate::office::odf) fn read_headers(&mut self, styles: &str) -> Result<(), Problem> {
        let mut outer = None::<Writer>;
        self.in_header = true;
        let (used, mut is_used) = (self.styles.used_masters(), false);
        xml::read(STYLES, styles, |piece| {
            match piece {
                Piece::Start(element) if element.name == "master-page" => {
                    is_used = used.contains(&element.attribute_of("style:name").unwrap_or_default());
                }
                Piece::Start(element) if outer.is_none() => {
                    let is_shown = element.attribute("display").is_none_or(|value| value != "false");
                    let is_one =
                        [HEADERS, FOOTERS].iter().any(|names| names.contains(&element.name.as_str()));
                    outer = (is_one && is_shown && is_used).then(|| mem::take(&mut self.writer));
                }
                Piece::End(name) if self.skipping == 0 && HEADERS.contains(&name.as_str()) => {
                    self.end_header(outer.take(), false);
                }
                Piece::End(name) if self.skipping == 0 && FOOTERS.contains(&name.as_str()) => {
                    self.end_header(outer.take(), true);
                }
                piece if outer.is_some() => self.piece(piece, &mut |_| None),
                _ => {}
            }
            self.check_limits()
        })
    }

    fn end_header(&mut self, outer: Option<Writer>, is_footer: bool) {
        let Some(outer) = outer else { return };
        let text = mem::replace(&mut self.writer, outer).finish();
        self.page_texts.add(text, is_footer);
    }
}
