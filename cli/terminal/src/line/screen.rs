//! Draws the text that is being edited, on the rows below what was printed before. Every drawing begins where the last
//! one began. Nothing is asked of the terminal: not all of them answer. What is printed while the text is there takes its
//! place, and the text is drawn again below it.

use std::io::{self, Write};

use longhand::text::sanitize_for_terminal;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthChar;

use crate::console::{Console, Stream, one_line};
use crate::format;
use crate::line::draft::{Atom, DraftMessage};
use crate::line::open_row::OpenRow;

/// A tab is shown as this many spaces.
const TAB: &str = "    ";

/// Where and how the text is drawn.
pub enum Screen {
    /// A terminal that understands control sequences.
    Rows(ScreenRows),
    /// One that does not. The text is only appended to and taken back from its end.
    Plain(Plain),
}

/// What is drawn.
pub struct View<'a> {
    /// Lines above the text, each cut to one row. They are no part of it.
    pub above: &'a [String],
    /// What stands before the text. It has no control sequences.
    pub prompt: &'a str,
    /// The text.
    pub draft: &'a DraftMessage,
}

impl Screen {
    /// Draws the text behind the prompt.
    pub fn draw(&mut self, view: &View, size: (usize, usize)) -> io::Result<()> {
        match self {
            Screen::Rows(rows) => rows.draw(view, size),
            Screen::Plain(plain) => plain.draw(view.prompt, view.draft),
        }
    }

    /// Writes output of a stream in the place of the text, and draws the text below it. Without control sequences the text
    /// is not drawn again.
    pub fn print_above(
        &mut self,
        stream: Stream,
        text: &str,
        view: &View,
        size: (usize, usize),
    ) -> io::Result<()> {
        match self {
            Screen::Rows(rows) => rows.print_above(stream, text, view, size),
            Screen::Plain(_) => stream.write(text),
        }
    }

    /// Draws the whole text for the last time, and begins a new line.
    pub fn finish(&mut self, prompt: &str, draft: &DraftMessage, size: (usize, usize)) -> io::Result<()> {
        match self {
            Screen::Rows(rows) => rows.finish(prompt, draft, size),
            Screen::Plain(plain) => plain.finish(prompt, draft),
        }
    }

    /// Begins the next drawing on the row of the cursor: others have written since the last one.
    pub fn forget(&mut self) {
        match self {
            Screen::Rows(rows) => rows.drawn = Layout::default(),
            Screen::Plain(plain) => plain.shown.clear(),
        }
    }

    /// Removes the text, so that something else can be printed in its place.
    pub fn clear(&mut self, size: (usize, usize)) -> io::Result<()> {
        match self {
            Screen::Rows(rows) => rows.clear(size),
            Screen::Plain(plain) => plain.end_line(),
        }
    }

    /// Empties the whole screen.
    pub fn clear_all(&mut self) -> io::Result<()> {
        self.forget();
        match self {
            Screen::Rows(_) => Stream::Stdout.write("\x1b[H\x1b[2J"),
            Screen::Plain(_) => Ok(()),
        }
    }
}

/// Draws on a terminal that understands control sequences.
pub struct ScreenRows {
    console: Console,
    drawn: Layout,
    /// The last row of the output, if it is not ended. It is drawn above the text.
    open_row: OpenRow,
}

impl ScreenRows {
    /// Draws with this console's colours.
    pub fn new(console: Console) -> ScreenRows {
        ScreenRows { console, drawn: Layout::default(), open_row: OpenRow::default() }
    }

    fn draw(&mut self, view: &View, size: (usize, usize)) -> io::Result<()> {
        let out = self.go_to_top(size.0) + &self.drawing(view, size);
        Stream::Stdout.write(&out)
    }

    fn print_above(
        &mut self,
        stream: Stream,
        text: &str,
        view: &View,
        size: (usize, usize),
    ) -> io::Result<()> {
        let top = self.go_to_top(size.0);
        // The row that is drawn belongs to stdout, where it was written.
        let complete = self.open_row.push(text, size.0);
        if stream == Stream::Stdout {
            let out = top + &complete + &self.drawing(view, size);
            return Stream::Stdout.write(&out);
        }
        Stream::Stdout.write(&top)?;
        stream.write(&complete)?;
        let out = self.drawing(view, size);
        Stream::Stdout.write(&out)
    }

    /// The rows from the first one on, with the cursor in its place.
    fn drawing(&mut self, View { above, prompt, draft }: &View, (columns, rows): (usize, usize)) -> String {
        let layout =
            Layout::new(prompt, draft, columns).with_above(&self.open_row, above, columns).window(rows);
        let mut out = self.text(&layout, prompt);
        let up = layout.rows.len() - 1 - layout.cursor.0;
        if up > 0 {
            out += &format!("\x1b[{up}A");
        }
        out += "\r";
        if layout.cursor.1 > 0 {
            out += &format!("\x1b[{}C", layout.cursor.1);
        }
        self.drawn = layout;
        out
    }

    fn finish(&mut self, prompt: &str, draft: &DraftMessage, (columns, _): (usize, usize)) -> io::Result<()> {
        let mut draft = draft.clone();
        draft.move_to(0);
        let layout = Layout::new(prompt, &draft, columns);
        let out = self.go_to_top(columns) + &self.end_open_row() + &self.text(&layout, prompt) + "\n";
        self.drawn = Layout::default();
        Stream::Stdout.write(&out)
    }

    fn clear(&mut self, (columns, _): (usize, usize)) -> io::Result<()> {
        let out = self.go_to_top(columns) + &self.end_open_row();
        self.drawn = Layout::default();
        Stream::Stdout.write(&out)
    }

    /// The unfinished row with its end; empty where there is none.
    fn end_open_row(&mut self) -> String {
        let row = self.open_row.take();
        if row.is_empty() { row } else { row + "\n" }
    }

    /// Goes to the first row of the last drawing and removes it. If the terminal is narrower now, it has wrapped the
    /// rows.
    fn go_to_top(&self, columns: usize) -> String {
        let (row, column) = self.drawn.cursor;
        let wrapped = |width: usize| width.saturating_sub(1) / columns;
        let above: usize = self.drawn.rows[..row].iter().map(|row| 1 + wrapped(row.width)).sum();
        let up = above + column / columns;
        match up {
            0 => "\r\x1b[J".to_owned(),
            up => format!("\r\x1b[{up}A\x1b[J"),
        }
    }

    /// The rows, with the prompt in colour.
    fn text(&self, layout: &Layout, prompt: &str) -> String {
        let mut text = String::new();
        for (i, row) in layout.rows.iter().enumerate() {
            if i > 0 {
                text.push('\n');
            }
            if row.is_above {
                text += &self.console.dim(&row.text);
                continue;
            }
            match row.text.strip_prefix(prompt).filter(|_| layout.prompt_row == Some(i)) {
                Some(rest) => text.extend([&self.console.paint(36, prompt), rest]),
                None => text += &row.text,
            }
        }
        text
    }
}

/// Rows of a terminal.
#[derive(Debug, Default, PartialEq)]
struct Layout {
    rows: Vec<ScreenRow>,
    /// Row and column of the cursor.
    cursor: (usize, usize),
    /// The row with the prompt.
    prompt_row: Option<usize>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ScreenRow {
    text: String,
    /// Columns that the text takes.
    width: usize,
    /// Whether it is no part of the text, nor of the output.
    is_above: bool,
}

impl Layout {
    /// The rows of a text behind a prompt, in a terminal of `columns`.
    fn new(prompt: &str, draft: &DraftMessage, columns: usize) -> Layout {
        let mut layout = Layout { rows: vec![ScreenRow::default()], cursor: (0, 0), prompt_row: Some(0) };
        layout.push(prompt, columns);
        let mut at = 0;
        for piece in pieces(draft) {
            if at <= draft.cursor() {
                layout.cursor = layout.end();
            }
            at += piece.atoms;
            match piece.shown.as_str() {
                "\n" => layout.rows.push(ScreenRow::default()),
                shown => layout.push(shown, columns),
            }
        }
        if at <= draft.cursor() {
            layout.cursor = layout.end();
        }
        if layout.cursor.1 >= columns {
            // Behind a full row the cursor is on the next one.
            layout.cursor = (layout.cursor.0 + 1, 0);
            if layout.cursor.0 == layout.rows.len() {
                layout.rows.push(ScreenRow::default());
            }
        }
        layout
    }

    /// Appends what is shown, and begins a new row where it does not fit.
    fn push(&mut self, shown: &str, columns: usize) {
        for c in shown.chars() {
            let width = c.width().unwrap_or(0);
            if self.rows.last().is_some_and(|row| row.width + width > columns) {
                self.rows.push(ScreenRow::default());
            }
            if let Some(row) = self.rows.last_mut() {
                row.text.push(c);
                row.width += width;
            }
        }
    }

    /// The same with the unfinished row of the output and these lines above the prompt, each cut to one row.
    fn with_above(mut self, open_row: &OpenRow, lines: &[String], columns: usize) -> Layout {
        let mut above = Vec::new();
        if open_row.width() > 0 {
            let (text, width) = (open_row.text().to_owned(), open_row.width());
            above.push(ScreenRow { text, width, is_above: false });
        }
        for line in lines {
            let mut row = ScreenRow { is_above: true, ..ScreenRow::default() };
            for c in one_line(line).chars() {
                let width = c.width().unwrap_or(0);
                if row.width + width >= columns {
                    break;
                }
                row.text.push(c);
                row.width += width;
            }
            above.push(row);
        }
        self.cursor.0 += above.len();
        self.prompt_row = self.prompt_row.map(|row| row + above.len());
        self.rows.splice(0..0, above);
        self
    }

    fn end(&self) -> (usize, usize) {
        (self.rows.len() - 1, self.rows.last().map_or(0, |row| row.width))
    }

    /// As many rows as the terminal has, around the cursor.
    fn window(mut self, rows: usize) -> Layout {
        let rows = rows.max(1);
        if self.rows.len() > rows {
            let first = (self.cursor.0 + 1).saturating_sub(rows);
            self.rows = self.rows.split_off(first);
            self.rows.truncate(rows);
            self.cursor.0 -= first;
            self.prompt_row = self.prompt_row.and_then(|row| row.checked_sub(first));
        }
        self
    }
}

/// What is shown of some atoms.
struct Piece {
    shown: String,
    atoms: usize,
}

/// What is shown of a text, in visible characters. Control characters are replaced by visible ones.
fn pieces(draft: &DraftMessage) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut run = String::new();
    for atom in draft.atoms() {
        match atom {
            Atom::Char(c) => run.push(*c),
            Atom::Paste(paste) => {
                push_run(&mut pieces, &mut run);
                pieces.push(Piece { shown: Atom::placeholder(paste), atoms: 1 });
            }
        }
    }
    push_run(&mut pieces, &mut run);
    pieces
}

fn push_run(pieces: &mut Vec<Piece>, run: &mut String) {
    for cluster in run.graphemes(true) {
        let atoms = cluster.chars().count();
        let shown = match cluster {
            "\t" => TAB.to_owned(),
            cluster => sanitize_for_terminal(cluster).into_owned(),
        };
        pieces.push(Piece { shown, atoms });
    }
    run.clear();
}

/// Texts in columns of equal width.
pub fn columns(texts: &[String], terminal_width: usize) -> String {
    let texts: Vec<String> = texts.iter().map(|text| one_line(text.trim_end())).collect();
    let cell = texts.iter().map(|text| format::columns(text)).max().unwrap_or(0) + 2;
    let per_row = (terminal_width / cell).max(1);
    let mut out = String::new();
    for (i, text) in texts.iter().enumerate() {
        out += text;
        match (i + 1) % per_row == 0 || i + 1 == texts.len() {
            true => out.push('\n'),
            false => out += &" ".repeat(cell - format::columns(text)),
        }
    }
    out
}

/// Draws without control sequences.
pub struct Plain {
    stream: Box<dyn Write + Send>,
    shown: String,
}

impl Plain {
    /// Draws on this stream.
    pub fn new(stream: Box<dyn Write + Send>) -> Plain {
        Plain { stream, shown: String::new() }
    }

    fn draw(&mut self, prompt: &str, draft: &DraftMessage) -> io::Result<()> {
        let mut text = prompt.to_owned();
        text.extend(pieces(draft).into_iter().map(|piece| piece.shown));
        let shown = std::mem::take(&mut self.shown);
        let out = if let Some(more) = text.strip_prefix(&shown) {
            more.to_owned()
        } else if let Some(less) = shown.strip_prefix(&text).filter(|less| !less.contains('\n')) {
            "\x08 \x08".repeat(format::columns(less))
        } else {
            format!("\n{text}")
        };
        self.shown = text;
        self.write(&out)
    }

    fn finish(&mut self, prompt: &str, draft: &DraftMessage) -> io::Result<()> {
        self.draw(prompt, draft)?;
        self.end_line()
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.shown.clear();
        self.write("\n")
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())?;
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a text in a terminal of 10 columns, and the cursor.
    fn layout(text: &str, cursor: usize) -> (Vec<String>, (usize, usize)) {
        let mut draft = DraftMessage::typed(text);
        draft.move_to(cursor);
        let layout = Layout::new("> ", &draft, 10);
        assert!(layout.rows.iter().all(|row| row.width <= 10));
        (layout.rows.into_iter().map(|row| row.text).collect(), layout.cursor)
    }

    #[test]
    fn rows_are_wrapped_by_the_width_of_their_characters() {
        let rows = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
        assert_eq!(layout("", 0), (rows(&["> "]), (0, 2)));
        assert_eq!(layout("abcdefghij", 3), (rows(&["> abcdefgh", "ij"]), (0, 5)));
        assert_eq!(layout("abcdefgh", 8), (rows(&["> abcdefgh", ""]), (1, 0)));
        assert_eq!(layout("abcdefghi", 8), (rows(&["> abcdefgh", "i"]), (1, 0)));
        assert_eq!(layout("中文中文中", 5), (rows(&["> 中文中文", "中"]), (1, 2)));
        assert_eq!(layout("a中文中文", 5), (rows(&["> a中文中", "文"]), (1, 2)));
        assert_eq!(layout("e\u{301}x", 2), (rows(&["> e\u{301}x"]), (0, 3)));
        assert_eq!(layout("a\n\nb", 2), (rows(&["> a", "", "b"]), (1, 0)));
        assert_eq!(layout("a\n\nb", 3), (rows(&["> a", "", "b"]), (2, 0)));
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        let (rows, _) = layout("\x1b[2J\u{9b}\t\u{202e}", 0);
        let shown = rows.concat();
        assert!(shown.starts_with("> ␛[2J<U+009B>    <U+202E>"), "{shown}");
    }

    #[test]
    fn a_text_of_more_rows_than_the_terminal_is_shown_around_the_cursor() {
        let mut draft = DraftMessage::typed(&"x\n".repeat(50));
        for cursor in 0..=100 {
            draft.move_to(cursor);
            let layout = Layout::new("> ", &draft, 80).window(5);
            assert!(layout.rows.len() == 5 && layout.cursor.0 < 5, "{cursor}");
        }
    }

    #[test]
    fn a_terminal_without_control_sequences_gets_what_is_new() {
        #[derive(Clone, Default)]
        struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().expect("the bytes").extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let out = Shared::default();
        let mut plain = Plain::new(Box::new(out.clone()));
        for text in ["", "a", "ab中", "ab", "xy"] {
            plain.draw("> ", &DraftMessage::typed(text)).expect("drawn");
        }
        plain.finish("> ", &DraftMessage::typed("xyz")).expect("drawn");
        let shown = String::from_utf8(out.0.lock().expect("the bytes").clone()).expect("text");
        assert_eq!(shown, "> ab中\x08 \x08\x08 \x08\n> xyz\n");
    }
}
