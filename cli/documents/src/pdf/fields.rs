//! What is on a page besides its content: the values of its form, comments, and the appearances of stamps and the like.
//! A value is taken from the field, which is true even where its appearance is old or missing.

use std::fmt::Write as _;

use hayro_interpret::RectExt;
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::hayro_syntax::object::{
    Array, Dict, Name, Object, Rect as PdfRect, Stream, String as PdfString,
};
use hayro_interpret::hayro_syntax::page::{Page, Resources};
use kurbo::{Affine, Point, Rect};

use super::file::{arrays, text_string};
use super::layout::PlacedText;
use crate::writer::symbols::{CHOSEN, EMPTY, NOT_CHOSEN, TICKED};

/// Annotations of a page that are read.
const MAX_ANNOTATIONS: usize = 10_000;
/// Numbers of the places that an annotation marks.
const MAX_QUAD_NUMBERS: usize = 8_000;
/// Fields in a field that are followed upwards.
const MAX_PARENTS: usize = 32;
/// Annotations whose content is what somebody wrote about a place.
const COMMENTS: [&str; 13] = [
    "Text",
    "Highlight",
    "Underline",
    "StrikeOut",
    "Squiggly",
    "Caret",
    "Ink",
    "Line",
    "Square",
    "Circle",
    "Polygon",
    "PolyLine",
    "FileAttachment",
];
/// Flags of annotations: what has one of these is not shown (`Hidden`, `NoView`).
const NOT_SHOWN: u32 = 1 << 1 | 1 << 5;
/// Flags of fields.
const MULTILINE: u32 = 1 << 12;
const PASSWORD: u32 = 1 << 13;
const RADIO: u32 = 1 << 15;
const PUSH_BUTTON: u32 = 1 << 16;
const COMBO: u32 = 1 << 17;
/// Size of the text of a field in points, where it follows from nothing.
const TEXT_SIZE: f64 = 10.0;
/// Largest such size.
const MAX_TEXT_SIZE: f64 = 12.0;
/// From one line of a field to the next, in sizes of its text.
const LINE_PITCH: f64 = 1.2;
/// Between the values of two fields there is so much room, in sizes of the text, however long the first one is.
const ROOM: f64 = 0.5;
/// Mean width of a letter in sizes of the text.
const LETTER_WIDTH: f64 = 0.5;

#[derive(Default)]
pub(super) struct Annotations<'a> {
    pub(super) appearances: Vec<Appearance<'a>>,
    pub(super) values: Vec<PlacedText>,
    pub(super) comments: Vec<String>,
    /// Lines through text that is marked as struck out.
    pub(super) strikes: Vec<(Point, Point)>,
    /// Where fields are.
    pub(super) fields: Vec<Rect>,
}

/// Content that is drawn over the page.
pub(super) struct Appearance<'a> {
    pub(super) content: Vec<u8>,
    pub(super) resources: Resources<'a>,
}

/// Whether a document is a form that Adobe's programs make from a description of their own (XFA) when they show it. Other
/// forms with such a description have their fields on the pages, too.
pub(super) fn is_dynamic_form(catalogue: &Dict<'_>) -> bool {
    let Some(form) = catalogue.get::<Dict<'_>>("AcroForm").filter(|form| form.contains_key("XFA")) else {
        return false;
    };
    let has_no_field =
        || form.get::<Array<'_>>("Fields").is_none_or(|fields| fields.raw_iter().next().is_none());
    catalogue.get::<bool>("NeedsRendering") == Some(true) || has_no_field()
}

/// Reads the annotations of a page. Places become those on the upright page.
pub(super) fn read<'a>(page: &Page<'a>, upright: Affine) -> Annotations<'a> {
    let mut read = Annotations::default();
    for annotation in arrays::dictionaries(page.raw().get("Annots")).take(MAX_ANNOTATIONS) {
        let kind = annotation.get::<Name<'_>>("Subtype");
        // Most annotations are links, which show nothing.
        if matches!(kind.as_deref(), Some(b"Link" | b"Popup"))
            || annotation.get::<u32>("F").unwrap_or(0) & NOT_SHOWN != 0
        {
            continue;
        }
        let Some(place) = annotation.get::<PdfRect>("Rect").map(|rect| rect.to_kurbo()) else { continue };
        // A note with a line to what it is about. Other such texts are written on the page, as into a form.
        let is_callout = annotation.get::<Name<'_>>("IT").as_deref() == Some(b"FreeTextCallout");
        if is_callout && let Some(text) = comment(&annotation) {
            read.comments.push(text);
            continue;
        }
        let upright_place = upright.transform_rect_bbox(place);
        let is = |wanted: &[u8]| kind.as_deref() == Some(wanted);
        if is(b"Widget") {
            read.fields.push(upright_place);
        }
        if is(b"Widget")
            && let Some(values) = Field::new(&annotation).values(upright_place)
        {
            read.values.extend(values);
        } else if let Some(appearance) = appearance(&annotation, place, page) {
            read.appearances.push(appearance);
        } else if is(b"FreeText") {
            // Programs draw such a text themselves.
            let text = contents(&annotation).unwrap_or_default();
            read.values.extend(Field::new(&annotation).lines(&text, upright_place));
        }
        if is(b"StrikeOut") {
            read.strikes.extend(strikes(&annotation, place, upright));
        }
        if kind.is_some_and(|kind| COMMENTS.contains(&kind.as_str())) {
            read.comments.extend(comment(&annotation));
        }
    }
    read
}

/// The lines through the text that an annotation strikes out: in the middle of each of its four-sided parts.
fn strikes(annotation: &Dict<'_>, place: Rect, upright: Affine) -> Vec<(Point, Point)> {
    let numbers: Vec<f32> = annotation
        .get::<Array<'_>>("QuadPoints")
        .map(|points| points.iter::<f32>().take(MAX_QUAD_NUMBERS).collect())
        .unwrap_or_default();
    let line = |area: Rect| {
        let area = upright.transform_rect_bbox(area);
        let (middle, along) = (area.center(), area.width() >= area.height());
        match along {
            true => (Point::new(area.x0, middle.y), Point::new(area.x1, middle.y)),
            false => (Point::new(middle.x, area.y0), Point::new(middle.x, area.y1)),
        }
    };
    let parts = numbers.chunks_exact(8).map(|part| {
        let corners = part.chunks_exact(2).map(|two| Point::new(f64::from(two[0]), f64::from(two[1])));
        corners.map(|corner| Rect::from_points(corner, corner)).reduce(|a, b| a.union(b)).unwrap_or(place)
    });
    let parts: Vec<_> = parts.map(line).collect();
    if parts.is_empty() { vec![line(place)] } else { parts }
}

/// The text of an annotation.
fn contents(annotation: &Dict<'_>) -> Option<String> {
    Some(text_string::decode(&annotation.get::<PdfString<'_>>("Contents")?))
}

/// What somebody wrote about a place of the page.
fn comment(annotation: &Dict<'_>) -> Option<String> {
    let text = contents(annotation)?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// The appearance of an annotation, in the state that it has, moved to its place: what its matrix makes of its box is
/// stretched to that place.
fn appearance<'a>(annotation: &Dict<'a>, place: Rect, page: &Page<'a>) -> Option<Appearance<'a>> {
    let form = drawn_form(annotation)?;
    let bounds = form.dict().get::<PdfRect>("BBox")?.to_kurbo();
    let matrix = form.dict().get::<[f32; 6]>("Matrix");
    let matrix = matrix.map_or(Affine::IDENTITY, |matrix| Affine::new(matrix.map(f64::from)));
    let drawn = matrix.transform_rect_bbox(bounds);
    let stretch = |to: f64, from: f64| if from == 0.0 { 1.0 } else { to / from };
    let (x, y) = (stretch(place.width(), drawn.width()), stretch(place.height(), drawn.height()));
    let to_place = Affine::new([x, 0.0, 0.0, y, place.x0 - x * drawn.x0, place.y0 - y * drawn.y0]) * matrix;
    let mut content = String::from("q ");
    for number in to_place.as_coeffs() {
        let _ = write!(content, "{number:.6} ");
    }
    let _ = write!(content, "cm {} {} {} {} re W n ", bounds.x0, bounds.y0, bounds.width(), bounds.height());
    let mut content = content.into_bytes();
    content.extend_from_slice(&form.decoded().ok()?);
    content.extend_from_slice(b" Q");
    Some(Appearance { content, resources: resources_of(&form, page) })
}

/// What draws an annotation in the state that it has.
fn drawn_form<'a>(annotation: &Dict<'a>) -> Option<Stream<'a>> {
    let appearances = annotation.get::<Dict<'_>>("AP")?;
    appearances.get::<Stream<'_>>("N").or_else(|| {
        let state = annotation.get::<Name<'_>>("AS")?;
        appearances.get::<Dict<'_>>("N")?.get::<Stream<'_>>(&*state)
    })
}

fn resources_of<'a>(form: &Stream<'a>, page: &Page<'a>) -> Resources<'a> {
    let resources = form.dict().get::<Dict<'_>>("Resources").unwrap_or_default();
    Resources::from_parent(resources, page.resources().clone())
}

/// What the appearances of a page's annotations have to draw with.
pub(super) fn resources_of_appearances<'a>(page: &Page<'a>) -> impl Iterator<Item = Resources<'a>> {
    let annotations = arrays::dictionaries(page.raw().get("Annots")).take(MAX_ANNOTATIONS);
    annotations.filter_map(|annotation| Some(resources_of(&drawn_form(&annotation)?, page)))
}

/// A field of a form: what is shown of it, and the fields that it belongs to and has values from.
struct Field<'a>(Vec<Dict<'a>>);

impl<'a> Field<'a> {
    fn new(shown: &Dict<'a>) -> Field<'a> {
        let mut chain = vec![shown.clone()];
        while let Some(parent) = chain.last().and_then(|field| field.get::<Dict<'_>>("Parent")) {
            chain.push(parent);
            if chain.len() > MAX_PARENTS {
                break;
            }
        }
        Field(chain)
    }

    fn name(&self, key: &str) -> Option<Name<'a>> {
        self.0.iter().find_map(|field| field.get::<Name<'_>>(key))
    }

    fn object(&self, key: &str) -> Option<Object<'a>> {
        self.0.iter().find_map(|field| field.get::<Object<'_>>(key))
    }

    /// The values at their places; none if the appearance has more to say.
    fn values(&self, place: Rect) -> Option<Vec<PlacedText>> {
        let flags = self.0.iter().find_map(|field| field.get::<u32>("Ff")).unwrap_or(0);
        match self.name("FT").as_deref()? {
            b"Btn" if flags & PUSH_BUTTON != 0 => None,
            b"Btn" => Some(vec![one_line(self.mark(flags & RADIO != 0).to_owned(), place)]),
            b"Tx" => {
                let text = text(&self.object("V")?)?;
                match text.trim() {
                    "" => None,
                    text if flags & PASSWORD != 0 => {
                        Some(vec![one_line("•".repeat(text.chars().count()), place)])
                    }
                    text if flags & MULTILINE != 0 => Some(self.lines(text, place)),
                    text => {
                        Some(vec![one_line(text.split_whitespace().collect::<Vec<_>>().join(" "), place)])
                    }
                }
            }
            b"Ch" => match self.choices().join(", ") {
                // A list shows what can be chosen.
                value if value.is_empty() && flags & COMBO == 0 => {
                    let options = self.options().into_iter().map(|(_, shown)| format!("☐ {shown}\n"));
                    Some(self.lines(&options.collect::<String>(), place)).filter(|lines| !lines.is_empty())
                }
                value => (!value.is_empty()).then(|| vec![one_line(value, place)]),
            },
            _ => None,
        }
    }

    /// Whether a box is ticked.
    fn mark(&self, is_radio: bool) -> &'static str {
        let state = self.0[0].get::<Name<'_>>("AS").or_else(|| {
            // Without a state, the value is that of the ticked box.
            let value = self.name("V")?;
            let states = self.0[0].get::<Dict<'_>>("AP").and_then(|shown| shown.get::<Dict<'_>>("N"));
            states.is_none_or(|states| states.contains_key(&*value)).then_some(value)
        });
        match (is_radio, state.is_some_and(|state| &*state != b"Off")) {
            (false, true) => TICKED,
            (false, false) => EMPTY,
            (true, true) => CHOSEN,
            (true, false) => NOT_CHOSEN,
        }
    }

    /// What can be chosen: the value and how it is shown.
    fn options(&self) -> Vec<(String, String)> {
        match self.object("Opt") {
            Some(Object::Array(options)) => options
                .iter::<Object<'_>>()
                .take(MAX_ANNOTATIONS)
                .filter_map(|option| match &option {
                    Object::Array(two) => {
                        let mut two = two.iter::<Object<'_>>().filter_map(|part| text(&part));
                        Some((two.next()?, two.next()?))
                    }
                    option => text(option).map(|text| (text.clone(), text)),
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// What is chosen, as it is shown.
    fn choices(&self) -> Vec<String> {
        let shown = self.options();
        let chosen: Vec<String> = match self.object("V") {
            Some(Object::Array(values)) => {
                values.iter::<Object<'_>>().filter_map(|value| text(&value)).collect()
            }
            Some(value) => text(&value).into_iter().collect(),
            None => Vec::new(),
        };
        let as_shown = |value: String| match shown.iter().find(|(exported, _)| *exported == value) {
            Some((_, shown)) => shown.clone(),
            None => value,
        };
        chosen.into_iter().filter(|value| !value.is_empty()).map(as_shown).collect()
    }

    /// Text in several lines, from the upper end of a field.
    fn lines(&self, text: &str, place: Rect) -> Vec<PlacedText> {
        let size = self.text_size().unwrap_or(TEXT_SIZE);
        let lines = text.split(['\r', '\n']).filter(|line| !line.trim().is_empty());
        let place = |(i, line): (usize, &str)| {
            let y = place.y1 - size * (1.0 + LINE_PITCH * i as f64);
            value(line.trim().to_owned(), place, y, size, size)
        };
        lines.enumerate().map(place).collect()
    }

    /// The size before the operator `Tf`; it is 0 where a program chooses.
    fn text_size(&self) -> Option<f64> {
        let Some(Object::String(appearance)) = self.object("DA") else { return None };
        let appearance = String::from_utf8_lossy(&appearance).into_owned();
        let words: Vec<&str> = appearance.split_ascii_whitespace().collect();
        let at = words.iter().position(|word| *word == "Tf")?;
        words.get(at.checked_sub(1)?)?.parse().ok().filter(|size: &f64| *size > 1.0 && *size < 100.0)
    }
}

/// The text of a value.
fn text(value: &Object<'_>) -> Option<String> {
    match value {
        Object::String(text) => Some(text_string::decode(text)),
        Object::Name(name) => Some(text_string::decode(name)),
        Object::Stream(stream) => Some(text_string::decode(&stream.decoded().ok()?)),
        _ => None,
    }
}

/// A value in the middle of its field.
fn one_line(text: String, place: Rect) -> PlacedText {
    let size = (place.height() * 0.7).min(MAX_TEXT_SIZE);
    value(text, place, place.center().y - 0.3 * size, size, place.height().max(size))
}

fn value(text: String, place: Rect, y: f64, size: f64, height: f64) -> PlacedText {
    let x = place.x0;
    let width = LETTER_WIDTH * size * text.chars().count() as f64;
    let end = x + width.min(place.width() - ROOM * size).max(0.0);
    PlacedText {
        text: BfString::String(text),
        x,
        y,
        end,
        size,
        height,
        turn: 0,
        is_layer: false,
        is_struck: false,
    }
}
