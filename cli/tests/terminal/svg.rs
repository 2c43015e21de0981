//! A terminal's screen as an SVG picture.

use std::fmt::Write;

use vt100::{Cell, Color, Screen};

/// Width and height of a character, in pixels.
const CELL: (f32, f32) = (8.4, 19.0);
const FONT_SIZE: f32 = 14.0;
const MARGIN: f32 = 16.0;
/// The picture has a background of its own, so that it can be read on a light page and on a dark one.
const BACKGROUND: &str = "#fbfbf9";
const TEXT: &str = "#1f2328";
const DIM: &str = "#6e7781";
/// The 16 colours of terminals, dark enough for the background.
const COLORS: [&str; 16] = [
    "#24292f", "#b42318", "#1a7f37", "#8a5a00", "#0957b5", "#8250df", "#0b6e79", "#57606a", //
    "#57606a", "#d1242f", "#1f8f44", "#9a6700", "#0969da", "#a475f9", "#138a97", "#8c959f",
];

/// How characters look that are drawn together.
#[derive(Clone, PartialEq)]
struct Style {
    color: String,
    background: Option<String>,
    bold: bool,
    italic: bool,
    underline: bool,
}

impl Style {
    fn of(cell: &Cell) -> Style {
        let (mut color, mut background) = (color(cell.fgcolor()), color(cell.bgcolor()));
        if cell.inverse() {
            (color, background) = (
                Some(background.unwrap_or_else(|| BACKGROUND.to_owned())),
                Some(color.unwrap_or_else(|| TEXT.to_owned())),
            );
        }
        let usual = if cell.dim() { DIM } else { TEXT };
        Style {
            color: color.unwrap_or_else(|| usual.to_owned()),
            background,
            bold: cell.bold(),
            italic: cell.italic(),
            underline: cell.underline(),
        }
    }
}

/// A piece of a row in one style.
struct Run {
    column: u16,
    columns: u16,
    text: String,
    style: Style,
}

/// The rows of the screen down to the last one with text. `title` says what is to be seen.
pub fn picture(screen: &Screen, title: &str) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let has_text =
        |row: &u16| screen.rows(0, columns).nth((*row).into()).is_some_and(|row| !row.trim().is_empty());
    let used = (0..rows).rev().find(has_text).map_or(1, |row| row + 1);
    let (width, height) =
        (f32::from(columns) * CELL.0 + 2.0 * MARGIN, f32::from(used) * CELL.1 + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         role=\"img\" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"{FONT_SIZE}\" fill=\"{TEXT}\">\n<title>{title}</title>\n<rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" \
         height=\"{:.0}\" rx=\"8\" fill=\"{BACKGROUND}\" stroke=\"#d0d7de\"/>\n",
        width - 1.0,
        height - 1.0,
        title = escape(title),
    );
    for row in 0..used {
        for run in runs(screen, row, columns) {
            draw(&mut svg, row, &run);
        }
    }
    svg + "</svg>\n"
}

/// The pieces of a row that have text or a background. They end where two blanks follow: each column of a table
/// begins where it does on the screen, also in fonts of another width.
fn runs(screen: &Screen, row: u16, columns: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else {
            continue;
        };
        let style = Style::of(cell);
        let text = if cell.has_contents() { cell.contents() } else { " " };
        if text == " " && style.background.is_none() {
            continue;
        }
        let width = 1 + u16::from(cell.is_wide());
        match runs.last_mut().map(|run| (column - run.column - run.columns, run)) {
            Some((blanks @ 0..=1, run)) if run.style == style => {
                run.text += &" ".repeat(blanks.into());
                run.text += text;
                run.columns += blanks + width;
            }
            _ => runs.push(Run { column, columns: width, text: text.to_owned(), style }),
        }
    }
    runs
}

fn draw(svg: &mut String, row: u16, run: &Run) {
    let (x, top) = (MARGIN + f32::from(run.column) * CELL.0, MARGIN + f32::from(row) * CELL.1);
    let width = f32::from(run.columns) * CELL.0;
    let Style { color, background, bold, italic, underline } = &run.style;
    if let Some(background) = background {
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{background}\"/>",
            CELL.1
        );
    }
    let mut attributes = String::new();
    for (is_set, attribute) in [
        (color != TEXT, format!(" fill=\"{color}\"")),
        (*bold, " font-weight=\"bold\"".to_owned()),
        (*italic, " font-style=\"italic\"".to_owned()),
        (*underline, " text-decoration=\"underline\"".to_owned()),
    ] {
        if is_set {
            attributes += &attribute;
        }
    }
    // The length keeps columns straight in every font.
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\" \
         xml:space=\"preserve\"{attributes}>{}</text>",
        top + CELL.1 * 0.74,
        escape(&run.text)
    );
}

/// A colour of a terminal; `None` for its usual one.
fn color(color: Color) -> Option<String> {
    Some(match color {
        Color::Default => return None,
        Color::Idx(index) if index < 16 => COLORS[usize::from(index)].to_owned(),
        Color::Idx(index) if index < 232 => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let index = index - 16;
            format!("#{:02x}{:02x}{:02x}", level(index / 36), level(index / 6 % 6), level(index % 6))
        }
        Color::Idx(index) => {
            let grey = 8 + 10 * (index - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    })
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
