//! A drawing as PNG.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use kurbo::{Affine, BezPath, Cap, Circle, Join, Point, Shape as _, StrokeOpts};

use crate::drawing::{Drawing, Shape, Stroke, Text};
use crate::font::Font;
use crate::raster::Canvas;

/// Maximum scale of a PNG.
const MAX_SCALE: f64 = 8.0;
/// Maximum number of pixels of a PNG.
const MAX_PIXELS: f64 = 64e6;
/// How far a curve may be from its straight pieces, in pixels.
const TOLERANCE: f64 = 0.05;

/// Why there is no PNG.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// The scale is no number, not above 0, or above 8.
    #[error("the scale of a PNG is a number above 0 and at most {MAX_SCALE}, not {0}")]
    Scale(f64),
    /// The picture would have more than 64 million pixels.
    #[error("a PNG of {width} x {height} pixels is too large; use a smaller scale or SVG")]
    Size {
        /// Width in pixels.
        width: u64,
        /// Height in pixels.
        height: u64,
    },
}

impl Drawing {
    /// The picture as the bytes of a PNG file, with 8 bits for each of red, green and blue. `scale` is the
    /// number of pixels for a CSS pixel of the SVG: above 0 and at most 8. 2 is right for most screens.
    ///
    /// # Errors
    /// The scale is out of range, or the picture would have more than 64 million pixels.
    pub fn png(&self, scale: f64) -> Result<Vec<u8>, PngError> {
        if !(scale > 0.0 && scale <= MAX_SCALE) {
            return Err(PngError::Scale(scale));
        }
        let (width, height) = ((self.size.0 * scale).ceil().max(1.0), (self.size.1 * scale).ceil().max(1.0));
        if width * height > MAX_PIXELS {
            return Err(PngError::Size { width: width as u64, height: height as u64 });
        }
        let mut canvas = Canvas::new(width as usize, height as usize);
        for shape in &self.shapes {
            draw(&mut canvas, shape, Affine::scale(scale));
        }
        Ok(encode(&canvas))
    }
}

fn draw(canvas: &mut Canvas, shape: &Shape, scale: Affine) {
    let (path, fill, stroke) = match shape {
        Shape::Line { points, stroke } => (path(points), None, Some(stroke)),
        Shape::Polygon { points, fill, stroke } => {
            let mut path = path(points);
            path.close_path();
            (path, *fill, stroke.as_ref())
        }
        Shape::Circle { center, radius, fill, stroke } => {
            (Circle::new(*center, *radius).to_path(0.01), *fill, stroke.as_ref())
        }
        Shape::Text(text) => return draw_text(canvas, text, scale),
    };
    if let Some(color) = fill {
        canvas.fill(&(scale * &path), color, TOLERANCE);
    }
    if let Some(stroke) = stroke {
        canvas.fill(&(scale * outline(&path, stroke)), stroke.color, TOLERANCE);
    }
}

/// The connected points. Repeated points are left out: they have no direction.
fn path(points: &[Point]) -> BezPath {
    let mut path = BezPath::new();
    let mut last = None;
    for point in points.iter().filter(|point| last.replace(**point) != Some(**point)) {
        if path.elements().is_empty() {
            path.move_to(*point);
        } else {
            path.line_to(*point);
        }
    }
    path
}

/// The area of a line.
fn outline(path: &BezPath, stroke: &Stroke) -> BezPath {
    let style = kurbo::Stroke::new(stroke.width)
        .with_caps(Cap::Butt)
        .with_join(Join::Round)
        .with_dashes(0.0, stroke.dashes.iter().copied());
    kurbo::stroke(path, &style, &StrokeOpts::default(), 0.01)
}

fn draw_text(canvas: &mut Canvas, text: &Text, scale: Affine) {
    let font = Font::get(text.bold);
    let mut at = text.at;
    for c in text.text.chars() {
        let glyph = font.glyph(c);
        let place =
            scale * Affine::translate(at.to_vec2()) * Affine::scale_non_uniform(text.size, -text.size);
        canvas.fill(&(place * &glyph.outline), text.color, TOLERANCE);
        at.x += glyph.width * text.size;
    }
}

/// A PNG file of one piece of data, every row unfiltered. Pictures of few colours need no filter.
fn encode(canvas: &Canvas) -> Vec<u8> {
    const DEPTH_8_RGB: [u8; 5] = [8, 2, 0, 0, 0];
    let (width, height) = (canvas.width as u32, canvas.height as u32);
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &DEPTH_8_RGB].concat();
    let mut data = ZlibEncoder::new(Vec::new(), Compression::best());
    for row in canvas.pixels.chunks(3 * canvas.width) {
        data.write_all(&[0]).and_then(|()| data.write_all(row)).expect("memory takes all bytes");
    }
    let data = data.finish().expect("memory takes all bytes");
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, content) in [(b"IHDR", &header), (b"IDAT", &data), (b"IEND", &Vec::new())] {
        push_chunk(&mut png, name, content);
    }
    png
}

fn push_chunk(png: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) {
    let mut crc = Crc::new();
    crc.update(name);
    crc.update(content);
    png.extend((content.len() as u32).to_be_bytes());
    png.extend(name);
    png.extend(content);
    png.extend(crc.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_out_of_range_is_an_error() {
        let drawing = Drawing { size: (100.0, 50.0), ..Drawing::new("", String::new()) };
        for scale in [0.0, -1.0, 8.1, f64::NAN, f64::INFINITY] {
            assert!(matches!(drawing.png(scale), Err(PngError::Scale(_))), "{scale}");
        }
        assert!(drawing.png(0.001).is_ok());
    }

    #[test]
    fn a_picture_that_is_too_large_is_an_error() {
        let drawing = Drawing { size: (3000.0, 2500.0), ..Drawing::new("", String::new()) };
        let error = drawing.png(4.0).expect_err("120 million pixels");
        assert_eq!(error, PngError::Size { width: 12_000, height: 10_000 });
        assert!(error.to_string().contains("smaller scale"), "{error}");
    }
}
