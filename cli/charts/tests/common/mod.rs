//! Reads what charts write.
#![allow(dead_code)]

use std::collections::HashMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use zune_png::PngDecoder;
use zune_png::zune_core::bytestream::ZCursor;
use zune_png::zune_core::options::DecoderOptions;

/// An element of an SVG file.
#[derive(Debug, Default)]
pub struct Element {
    pub name: String,
    pub attributes: HashMap<String, String>,
    pub text: String,
}

impl Element {
    pub fn number(&self, attribute: &str) -> f64 {
        self.attributes[attribute].parse().unwrap_or_else(|_| panic!("{attribute} of {self:?}"))
    }

    /// The points of a line or a polygon.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let point = |text: &str| text.split_once(',').map(|(x, y)| (number(x), number(y))).expect("a point");
        self.attributes["points"].split_whitespace().map(point).collect()
    }

    /// From the top of capital letters to the bottom of descenders: left, top, right and bottom.
    pub fn text_box(&self) -> [f64; 4] {
        let (x, y, size) = (self.number("x"), self.number("y"), self.number("font-size"));
        [x, y - 0.73 * size, x + self.number("textLength"), y + 0.21 * size]
    }
}

/// The elements of a well-formed SVG file. Their order is that of their ends.
pub fn elements(svg: &str) -> Vec<Element> {
    let is_allowed = |c: char| c == '\n' || (c >= ' ' && !('\u{fffe}'..='\u{ffff}').contains(&c));
    assert!(svg.chars().all(is_allowed), "a character that XML forbids");
    let mut reader = Reader::from_str(svg);
    let (mut open, mut done) = (Vec::<Element>::new(), Vec::new());
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(start) => open.push(element(&start)),
            Event::Empty(start) => done.push(element(&start)),
            Event::End(_) => done.push(open.pop().expect("an open element")),
            Event::Text(text) => {
                if let Some(element) = open.last_mut() {
                    element.text += &text;
                }
            }
            Event::GeneralRef(name) => {
                let text = match &*name {
                    "amp" => '&',
                    "lt" => '<',
                    "gt" => '>',
                    "quot" => '"',
                    other => panic!("the entity {other}"),
                };
                open.last_mut().expect("an open element").text.push(text);
            }
            Event::Eof => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty());
    done
}

fn element(start: &BytesStart) -> Element {
    let attributes = start.attributes().map(|attribute| {
        let attribute = attribute.expect("a well-formed attribute");
        (attribute.key.as_ref().to_owned(), attribute.value.into_owned())
    });
    Element { name: start.name().as_ref().to_owned(), attributes: attributes.collect(), text: String::new() }
}

/// The elements with this name.
pub fn named<'a>(elements: &'a [Element], name: &str) -> Vec<&'a Element> {
    elements.iter().filter(|element| element.name == name).collect()
}

/// Fails if a text is outside of the picture or touches another one.
pub fn assert_texts_have_room(elements: &[Element]) {
    let svg = named(elements, "svg")[0];
    let (width, height) = (svg.number("width"), svg.number("height"));
    let texts: Vec<(&str, [f64; 4])> =
        named(elements, "text").into_iter().map(|text| (text.text.as_str(), text.text_box())).collect();
    for (index, (text, [left, top, right, bottom])) in texts.iter().enumerate() {
        let is_inside = *left >= 0.0 && *top >= 0.0 && *right <= width && *bottom <= height;
        assert!(is_inside, "{text:?} is at {left} {top} {right} {bottom} in {width} x {height}");
        for (other, [x0, y0, x1, y1]) in &texts[..index] {
            let apart = right <= x0 || x1 <= left || bottom <= y0 || y1 <= top;
            assert!(apart, "{text:?} is on {other:?}");
        }
    }
}

/// A decoded picture.
pub struct Pixels {
    pub width: usize,
    pub height: usize,
    pub rgb: Vec<u8>,
}

impl Pixels {
    /// What a PNG has. The decoder is not ours, and it checks the checksums.
    pub fn decode(png: &[u8]) -> Pixels {
        let options = DecoderOptions::default().png_set_confirm_crc(true).inflate_set_confirm_adler(true);
        let mut decoder = PngDecoder::new_with_options(ZCursor::new(png), options);
        let rgb = decoder.decode_raw().expect("a PNG");
        let (width, height) = decoder.dimensions().expect("decoded");
        assert_eq!(rgb.len(), 3 * width * height);
        Pixels { width, height, rgb }
    }

    /// The colour at a place of the picture, as SVG writes it.
    pub fn color(&self, (x, y): (f64, f64), scale: f64) -> String {
        let at = 3 * ((y * scale) as usize * self.width + (x * scale) as usize);
        let [red, green, blue] = [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]];
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}
