//! MathML. Where the formula carries its TeX, that is the formula.

use super::{Tag, Token};
use crate::writer::formula::{Formula, Shape};

/// A formula while it is read.
#[derive(Debug, Default)]
pub(super) struct Math {
    formula: Formula,
    tex: String,
    in_tex: bool,
    /// Elements within an annotation.
    in_annotation: usize,
    /// Elements that are open, for empty ones.
    depth: usize,
    alternative: Option<String>,
}

impl Math {
    pub(super) fn new(tag: &Tag) -> Math {
        let alternative = tag.attribute("alttext").filter(|text| text.contains(['\\', '^', '_']));
        Math { alternative, ..Math::default() }
    }

    /// Takes a piece within the formula.
    pub(super) fn token(&mut self, token: &Token) {
        match token {
            Token::Start(tag) => {
                self.start(tag);
                if tag.is_closed {
                    self.end();
                }
            }
            Token::End(_) => self.end(),
            Token::Text(text) if self.in_tex => self.tex.push_str(text),
            Token::Text(text) if self.in_annotation == 0 => self.formula.token(text),
            Token::Text(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag) {
        self.depth += 1;
        let name = local(&tag.name);
        if self.in_annotation > 0 || matches!(name, b"annotation" | b"annotation-xml") {
            self.in_annotation += 1;
            let encoding = tag.attribute("encoding").unwrap_or_default().to_ascii_lowercase();
            self.in_tex |= name == b"annotation" && encoding.contains("tex");
            return self.formula.open(Shape::Hidden);
        }
        self.formula.open(match name {
            b"mfrac" if tag.attribute("linethickness").is_some_and(|width| width.trim().starts_with('0')) => {
                Shape::Stack
            }
            b"mfrac" => Shape::Fraction,
            b"msup" | b"mover" => Shape::Raised,
            b"msub" | b"munder" => Shape::Lowered,
            b"msubsup" | b"munderover" => Shape::Both,
            b"msqrt" => Shape::SquareRoot,
            b"mroot" => Shape::Root,
            b"mtable" => Shape::Matrix,
            b"mtr" | b"mlabeledtr" => Shape::Cells,
            b"mphantom" | b"mspace" | b"maligngroup" | b"malignmark" => Shape::Hidden,
            b"mfenced" => Shape::Fenced {
                open: tag.attribute("open").unwrap_or_else(|| "(".to_owned()),
                close: tag.attribute("close").unwrap_or_else(|| ")".to_owned()),
                separator: tag.attribute("separators").unwrap_or_else(|| ", ".to_owned()),
            },
            _ => Shape::Row,
        });
    }

    fn end(&mut self) {
        if self.depth > 0 {
            self.depth -= 1;
            self.in_annotation = self.in_annotation.saturating_sub(1);
            self.in_tex &= self.in_annotation > 0;
            self.formula.close();
        }
    }

    /// The formula.
    pub(super) fn finish(self) -> String {
        let tex = if self.tex.trim().is_empty() { self.alternative } else { Some(self.tex) };
        tex.map_or_else(|| self.formula.finish(), |tex| written(&tex))
    }
}

/// The name without its prefix.
pub(super) fn local(name: &[u8]) -> &[u8] {
    name.iter().position(|c| *c == b':').map_or(name, |at| &name[at + 1..])
}

/// TeX as Markdown has it.
pub(super) fn written(tex: &str) -> String {
    let tex = tex.trim();
    // Wikipedia's formulas are in such a group.
    let inner = ["{\\displaystyle", "{\\textstyle"].iter().find_map(|begin| tex.strip_prefix(begin));
    let tex = inner.and_then(|inner| inner.strip_suffix('}')).unwrap_or(tex).trim();
    format!("${}$", tex.split_whitespace().collect::<Vec<_>>().join(" "))
}
