//! Formulas of Office (ECMA-376, Office Math Markup Language).

use crate::package::xml::{Element, Piece};
use crate::writer::formula::{Formula, Shape};

/// Elements whose parts are properties.
const PROPERTIES: &[&str] = &[
    "accPr",
    "barPr",
    "borderBoxPr",
    "boxPr",
    "dPr",
    "eqArrPr",
    "fPr",
    "funcPr",
    "groupChrPr",
    "limLowPr",
    "limUppPr",
    "mPr",
    "naryPr",
    "phantPr",
    "radPr",
    "sPrePr",
    "sSubPr",
    "sSubSupPr",
    "sSupPr",
];
/// Elements that say nothing about the formula.
const SKIPPED: &[&str] = &["ctrlPr", "rPr", "argPr", "del", "moveFrom", "delText", "instrText"];

/// A piece of a document, unless it is in an element that is left out, `skipping` levels deep, or in a formula, which reads
/// it.
pub(super) fn outside<'a>(
    piece: Piece<'a>,
    skipping: &mut usize,
    formula: &mut Option<Omml>,
) -> Option<Piece<'a>> {
    match (piece, formula) {
        (Piece::Start(_), _) if *skipping > 0 => *skipping += 1,
        (Piece::End(_), _) if *skipping > 0 => *skipping -= 1,
        (Piece::Text(_), _) if *skipping > 0 => {}
        (Piece::Start(element), Some(formula)) if element.name != "oMath" => formula.start(&element),
        (Piece::End(name), Some(formula)) if name != "oMath" => formula.end(),
        (Piece::Text(text), Some(formula)) => formula.text(&text),
        (piece, _) => return Some(piece),
    }
    None
}

/// A formula while it is read.
#[derive(Debug, Default)]
pub(super) struct Omml {
    formula: Formula,
    /// Open elements: whether each is a part of the formula.
    open: Vec<bool>,
    /// Depth within an element that is left out.
    skipping: usize,
    in_text: bool,
}

impl Omml {
    pub(super) fn start(&mut self, element: &Element) {
        self.begin(&element.name, element.attribute("val"));
    }

    /// Begins an element with its value, if it has one.
    pub(super) fn begin(&mut self, name: &str, value: Option<String>) {
        if self.skipping > 0 || SKIPPED.contains(&name) {
            self.skipping += 1;
            return;
        }
        self.in_text = name == "t";
        let shape = match name {
            "f" => Shape::Fraction,
            "sSup" | "limUpp" => Shape::Raised,
            "sSub" | "limLow" => Shape::Lowered,
            "sSubSup" => Shape::Both,
            "sPre" => Shape::Before,
            "rad" => Shape::RootOf,
            "nary" => Shape::Nary("∫".to_owned()),
            "d" => Shape::Fenced { open: "(".to_owned(), close: ")".to_owned(), separator: " | ".to_owned() },
            "m" | "eqArr" => Shape::Matrix,
            "mr" => Shape::Cells,
            "acc" => Shape::Accent("\u{302}".to_owned()),
            "bar" => Shape::Accent("¯".to_owned()),
            // What is between the formula and its parts.
            "num" | "den" | "e" | "sub" | "sup" | "deg" | "lim" | "fName" | "func" | "box" | "borderBox"
            | "groupChr" | "phant" => Shape::Row,
            name => {
                self.property(name, value);
                return self.open.push(false);
            }
        };
        self.open.push(true);
        self.formula.open(shape);
    }

    /// A property of the innermost part.
    fn property(&mut self, name: &str, value: Option<String>) {
        if PROPERTIES.contains(&name) {
            return;
        }
        let sign = || value.clone().unwrap_or_default();
        self.formula.reshape(|shape| match (name, shape) {
            ("chr", Shape::Nary(own) | Shape::Accent(own)) => *own = sign(),
            ("begChr", Shape::Fenced { open, .. }) => *open = sign(),
            ("endChr", Shape::Fenced { close, .. }) => *close = sign(),
            ("sepChr", Shape::Fenced { separator, .. }) => *separator = sign(),
            ("type", shape @ Shape::Fraction) if sign() == "noBar" => *shape = Shape::Stack,
            // Of a phantom: it only takes room.
            ("show", shape @ Shape::Row) if matches!(&*sign(), "0" | "off" | "false") => {
                *shape = Shape::Hidden
            }
            _ => {}
        });
    }

    pub(super) fn end(&mut self) {
        self.in_text = false;
        if self.skipping > 0 {
            self.skipping -= 1;
        } else if self.open.pop() == Some(true) {
            self.formula.close();
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.in_text {
            self.token(text);
        }
    }

    /// Takes text that is directly in an element of this name: the value of a property, or a part of the formula.
    pub(super) fn value(&mut self, name: &str, text: &str) {
        match self.open.last() {
            Some(false) if self.skipping == 0 => self.property(name, Some(text.to_owned())),
            _ => self.token(text),
        }
    }

    /// Appends a number, a name or a sign.
    pub(super) fn token(&mut self, text: &str) {
        if self.skipping == 0 {
            self.formula.token(text);
        }
    }

    /// The formula in one line.
    pub(super) fn finish(self) -> String {
        self.formula.finish()
    }
}
