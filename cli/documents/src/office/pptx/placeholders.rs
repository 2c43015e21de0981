//! Placeholders of layouts and masters: how the shapes of slides look that take their place.

use std::rc::Rc;

use crate::color::Color;
use crate::office::fill::Scheme;
use crate::office::shape::{ShapeLook, TextLooks};
use crate::package::xml::{Element, Piece};

/// Placeholders of a layout that are kept. PowerPoint allows fewer.
const MAX_PLACEHOLDERS: usize = 256;

/// What a placeholder is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    Title,
    #[default]
    Body,
    Date,
    Footer,
    Number,
}

impl Kind {
    fn of(element: &Element) -> Kind {
        match element.attribute("type").as_deref() {
            Some("title" | "ctrTitle") => Kind::Title,
            Some("dt") => Kind::Date,
            Some("ftr") => Kind::Footer,
            Some("sldNum") => Kind::Number,
            _ => Kind::Body,
        }
    }
}

#[derive(Clone, Debug)]
struct Placeholder {
    kind: Kind,
    /// Its number in the layout. Those of a master have none.
    number: Option<String>,
    look: Rc<ShapeLook>,
}

/// The placeholders of a layout, those of its master behind them.
#[derive(Clone, Debug, Default)]
pub(super) struct Placeholders(Vec<Placeholder>);

impl Placeholders {
    /// How the shape of a slide looks that is a placeholder of this element.
    pub(super) fn look(&self, element: &Element) -> Option<Rc<ShapeLook>> {
        let (kind, number) = (Kind::of(element), element.attribute("idx"));
        let alike = || self.0.iter().filter(|other| other.kind == kind);
        let same = alike().find(|other| number.is_some() && other.number == number);
        // A layout may have several bodies, and one that is none of these has its look from the master.
        let is_other_body = number.is_some() && kind == Kind::Body;
        let other = || alike().find(|other| !is_other_body || other.number.is_none());
        same.or_else(other).map(|found| found.look.clone())
    }

    fn push(&mut self, placeholder: Placeholder) {
        if self.0.len() < MAX_PLACEHOLDERS {
            self.0.push(placeholder);
        }
    }
}

/// The placeholders of a part while it is read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    found: Placeholders,
    shape: ShapeLook,
    /// What the shape is, if it is a placeholder, and its number.
    open: Option<(Kind, Option<String>)>,
    /// Whether a shape that is no placeholder is more than its text.
    pub(super) has_shapes: bool,
    /// How text looks by a master: of titles, of other placeholders for text, and of the rest.
    texts: [TextLooks; 3],
    in_texts: Option<usize>,
}

impl Reader {
    /// Whether the shape that is read is a placeholder. Slides have their own in its place.
    pub(super) fn is_placeholder(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn piece(&mut self, piece: &Piece, scheme: &Scheme) {
        match piece {
            Piece::Start(element) => match (element.name.as_str(), self.in_texts) {
                ("titleStyle", _) => self.in_texts = Some(0),
                ("bodyStyle", _) => self.in_texts = Some(1),
                ("otherStyle", _) => self.in_texts = Some(2),
                (_, Some(at)) => self.texts[at].start(element, scheme),
                ("sp" | "pic" | "graphicFrame", _) => (self.shape, self.open) = (ShapeLook::default(), None),
                ("ph", _) => self.open = Some((Kind::of(element), element.attribute("idx"))),
                _ => self.shape.start(element, scheme),
            },
            Piece::End(name) => match (name.as_str(), self.in_texts) {
                ("titleStyle" | "bodyStyle" | "otherStyle", _) => self.in_texts = None,
                (name, Some(at)) => self.texts[at].end(name),
                ("sp" | "pic" | "graphicFrame", _) => {
                    let (shape, open) = (std::mem::take(&mut self.shape), self.open.take());
                    match open {
                        Some((kind, number)) => {
                            self.found.push(Placeholder { kind, number, look: Rc::new(shape) });
                        }
                        None => {
                            let is_filled = shape.ground().is_some_and(|ground| ground != Color::Transparent);
                            self.has_shapes |= is_filled || name != "sp";
                        }
                    }
                }
                (name, _) => self.shape.end(name),
            },
            Piece::Text(_) => {}
        }
    }

    /// Those of a master: what they do not say is in its styles of text, which stand behind them.
    pub(super) fn of_master(self) -> Placeholders {
        let [title, body, other] = self.texts.map(ShapeLook::of_texts);
        let mut all = Placeholders::default();
        for Placeholder { kind, look, .. } in self.found.0 {
            let texts = match kind {
                Kind::Title => &title,
                Kind::Body => &body,
                Kind::Date | Kind::Footer | Kind::Number => &other,
            };
            all.push(Placeholder { kind, number: None, look: Rc::new(look.over(texts)) });
        }
        // A master may have none where a layout has one.
        for (kind, texts) in [(Kind::Title, title), (Kind::Body, body)] {
            all.push(Placeholder { kind, number: None, look: Rc::new(texts) });
        }
        all
    }

    /// Those of a layout: what they do not say is in its master.
    pub(super) fn of_layout(self, master: &Placeholders) -> Placeholders {
        let mut all = Placeholders::default();
        for Placeholder { kind, number, look } in self.found.0 {
            let of_master = master.0.iter().find(|other| other.kind == kind);
            let look = of_master.map_or_else(|| look.clone(), |other| Rc::new(look.over(&other.look)));
            all.push(Placeholder { kind, number, look });
        }
        master.0.iter().for_each(|other| all.push(other.clone()));
        all
    }
}
