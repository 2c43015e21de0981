//! MathML. Where the formula carries its TeX, that is the formula.

use super::feet::Piece;
use super::{Tag, Token};
use crate::writer::formula::{Formula, Shape};

/// Bases with scripts on both sides within each other.
const MAX_NESTED: usize = 16;

/// A base with scripts before and behind it, until it ends.
#[derive(Debug)]
struct Scripts {
    pieces: Vec<Piece>,
    /// Elements within it that are open.
    open: usize,
}

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
    scripts: Option<Scripts>,
    /// How many such bases are being written.
    nested: usize,
}

impl Math {
    pub(super) fn new(tag: &Tag) -> Math {
        let alternative = tag.attribute("alttext").filter(|text| text.contains(['\\', '^', '_']));
        Math { alternative, ..Math::default() }
    }

    /// Takes a piece within the formula.
    pub(super) fn token(&mut self, token: &Token) {
        if self.collects(token) {
            return;
        }
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

    /// Keeps a piece of a base with scripts on both sides, because those before it follow it in the page.
    fn collects(&mut self, token: &Token) -> bool {
        let Some(scripts) = &mut self.scripts else {
            let begins =
                matches!(token, Token::Start(tag) if local(&tag.name) == b"mmultiscripts" && !tag.is_closed);
            let is_collected = begins && self.in_annotation == 0 && self.nested < MAX_NESTED;
            if is_collected {
                self.scripts = Some(Scripts { pieces: Vec::new(), open: 0 });
            }
            return is_collected;
        };
        match token {
            Token::Start(tag) if !tag.is_closed => scripts.open += 1,
            Token::End(_) if scripts.open == 0 => {
                self.end_scripts();
                return true;
            }
            Token::End(_) => scripts.open -= 1,
            _ => {}
        }
        scripts.pieces.push(Piece::of(token));
        true
    }

    /// Writes what was kept: the scripts before the base, the base, and those behind it.
    fn end_scripts(&mut self) {
        let Some(scripts) = self.scripts.take() else { return };
        let children = children(&scripts.pieces);
        let is_divider = |child: &&[Piece]| matches!(child.first(), Some(Piece::Start(tag)) if local(&tag.name) == b"mprescripts");
        let divider = children.iter().position(is_divider).unwrap_or(children.len());
        let (base, behind) =
            children[..divider].split_first().map_or((&[][..], &[][..]), |(base, rest)| (*base, rest));
        let before = children.get(divider + 1..).unwrap_or_default();
        self.nested += 1;
        for pair in before.chunks(2) {
            self.formula.open(Shape::Before);
            self.write_pair(pair);
        }
        behind.chunks(2).for_each(|_| self.formula.open(Shape::Both));
        self.write_child(base);
        for pair in behind.chunks(2) {
            self.write_pair(pair);
            self.formula.close();
        }
        before.chunks(2).for_each(|_| self.formula.close());
        self.nested -= 1;
    }

    /// A lowered part and a raised one.
    fn write_pair(&mut self, pair: &[&[Piece]]) {
        (0..2).for_each(|i| self.write_child(pair.get(i).copied().unwrap_or_default()));
    }

    /// A part, which may be empty.
    fn write_child(&mut self, child: &[Piece]) {
        self.formula.open(Shape::Row);
        child.iter().for_each(|piece| self.token(&piece.token()));
        self.formula.close();
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
    pub(super) fn finish(mut self) -> String {
        // A formula may end before its parts do.
        // What was kept last is written as it stands.
        self.nested = MAX_NESTED;
        self.end_scripts();
        let tex = if self.tex.trim().is_empty() { self.alternative } else { Some(self.tex) };
        tex.map_or_else(|| self.formula.finish(), |tex| written(&tex))
    }
}

/// The elements of these pieces that are in no other one.
fn children(pieces: &[Piece]) -> Vec<&[Piece]> {
    let (mut children, mut open, mut start) = (Vec::new(), 0_usize, 0);
    for (i, piece) in pieces.iter().enumerate() {
        if open == 0 {
            start = i;
        }
        match piece {
            Piece::Start(tag) if !tag.is_closed => open += 1,
            Piece::End(_) => open = open.saturating_sub(1),
            Piece::Text(_) if open == 0 => continue,
            _ => {}
        }
        if open == 0 {
            children.push(&pieces[start..=i]);
        }
    }
    // The last one may not end.
    if open > 0 {
        children.push(&pieces[start..]);
    }
    children
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
