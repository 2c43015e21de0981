//! A drawing as SVG.

use std::fmt::Write;

use kurbo::Point;

use crate::drawing::{Color, Drawing, Shape, Stroke, Text};

/// All have the widths of Helvetica.
const FONTS: &str = "Helvetica, Arial, 'Liberation Sans', sans-serif";

impl Drawing {
    /// The picture as the text of an SVG file, with a white background.
    ///
    /// Texts are stretched to the widths that they have in the PNG, so that nothing overlaps in any font.
    pub fn svg(&self) -> String {
        let (width, height) = self.size;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" font-family=\"{FONTS}\">\n<title>{}</title>\n<desc>{}</desc>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
            escape(&self.title),
            escape(&self.description),
            width = short(width),
            height = short(height),
        );
        for shape in &self.shapes {
            write_shape(&mut svg, shape);
        }
        svg + "</svg>\n"
    }
}

fn write_shape(svg: &mut String, shape: &Shape) {
    // Writing to a string cannot fail.
    let _ = match shape {
        Shape::Line { points, stroke } => {
            writeln!(svg, "<polyline points=\"{}\"{}/>", list(points), paint(None, Some(*stroke)))
        }
        Shape::Polygon { points, fill, stroke } => {
            writeln!(svg, "<polygon points=\"{}\"{}/>", list(points), paint(*fill, *stroke))
        }
        Shape::Circle { center, radius, fill, stroke } => {
            let (x, y, r) = (short(center.x), short(center.y), short(*radius));
            writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\"{}/>", paint(*fill, *stroke))
        }
        Shape::Text(text) => write_text(svg, text),
    };
}

fn write_text(svg: &mut String, text: &Text) -> std::fmt::Result {
    writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{} fill=\"{}\" textLength=\"{}\" \
         lengthAdjust=\"spacingAndGlyphs\">{}</text>",
        short(text.at.x),
        short(text.at.y),
        short(text.size),
        if text.bold { " font-weight=\"bold\"" } else { "" },
        hex(text.color),
        short(text.width()),
        escape(&text.text)
    )
}

fn paint(fill: Option<Color>, stroke: Option<Stroke>) -> String {
    let mut attributes = format!(" fill=\"{}\"", fill.map_or_else(|| "none".to_owned(), hex));
    if let Some(Stroke { color, width, dashes }) = stroke {
        let _ = write!(
            attributes,
            " stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"",
            hex(color),
            short(width)
        );
        if !dashes.is_empty() {
            let dashes: Vec<String> = dashes.iter().map(|length| short(*length)).collect();
            let _ = write!(attributes, " stroke-dasharray=\"{}\"", dashes.join(" "));
        }
    }
    attributes
}

fn list(points: &[Point]) -> String {
    let points: Vec<String> =
        points.iter().map(|point| format!("{},{}", short(point.x), short(point.y))).collect();
    points.join(" ")
}

/// A length with at most two decimals.
fn short(length: f64) -> String {
    let text = format!("{length:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn hex(Color(red, green, blue): Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_at_most_two_decimals() {
        for (length, text) in [(1.0, "1"), (10.0, "10"), (0.126, "0.13"), (-0.001, "0"), (-2.5, "-2.5")] {
            assert_eq!(short(length), text);
        }
    }
}
