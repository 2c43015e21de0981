//! Interprets a page and collects its glyphs, in the order in which they are drawn, and what hides or shows them.

use std::borrow::Cow;
use std::sync::Arc;

use hayro_interpret::font::Glyph;
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::hayro_syntax::content::TypedIter;
use hayro_interpret::hayro_syntax::page::{Page, Resources};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, GlyphDrawMode, Image, InterpreterCache, InterpreterSettings, Paint,
    PathDrawMode, SoftMask, TransformExt, interpret,
};
use kurbo::{Affine, BezPath, Point, Rect};

use super::actual_text::ActualText;
use super::boxes::Boxes;
use super::canvas::{Canvas, Seen};
use super::file::contents;
use super::fonts::programs::{GlyphText, Programs};
use super::fonts::type3::{self, Widths};
use super::layout::tables::rules::Rules;
use super::layout::{PlacedText, letters};
use super::pictures::{Known, Pictures, Textless};
use super::{clip_text, fields, repair};

/// Glyphs are drawn in units of a thousandth of the font's size.
const UNITS_PER_EM: f64 = 1000.0;
/// Written for a glyph of which the file does not say which character it is.
const UNKNOWN: char = '\u{fffd}';
/// The mark around the value of a field in what is drawn for it.
const VALUE: &[u8] = b"Tx";
/// A colour that is so transparent is not seen.
const TRANSPARENT: u8 = 8;

/// What a page shows.
#[derive(Debug, Default)]
pub(super) struct PageText {
    /// Its text, in the order in which it is drawn.
    pub(super) glyphs: Vec<PlacedText>,
    /// Values of its form, which have a place but are not drawn.
    pub(super) values: Vec<PlacedText>,
    /// Lines that are drawn.
    pub(super) rules: Rules,
    /// Comments in its margin.
    pub(super) comments: Vec<String>,
    /// Characters besides white space that are known, and glyphs that are not.
    pub(super) known: usize,
    pub(super) unknown: usize,
    /// Those of the characters that only the programs of fonts tell.
    pub(super) from_programs: usize,
    /// Glyphs that a reader does not see.
    pub(super) hidden: Vec<PlacedText>,
    /// Pictures and drawings.
    pub(super) pictures: usize,
    /// Pictures without text.
    pub(super) textless: Textless,
    /// Small boxes beside text that are drawn.
    pub(super) boxes: usize,
    /// Places where the text in place of glyphs has other numbers than they have.
    pub(super) other_numbers: usize,
    /// Whether a part of its content is missing or damaged.
    pub(super) is_damaged: bool,
}

impl PageText {
    /// All glyphs, whether a reader sees them or not.
    pub(super) fn drawn(&self) -> impl Iterator<Item = &PlacedText> {
        self.glyphs.iter().chain(&self.hidden)
    }
}

/// Interprets a page. `texts` are those in place of glyphs in drawings, `known` the pictures of the pages before, `programs`
/// those of the document's fonts.
pub(super) fn read<'a>(
    page: &Page<'a>,
    cache: &InterpreterCache<'a>,
    texts: &mut Vec<String>,
    known: &mut Known,
    programs: &mut Programs,
) -> PageText {
    let (width, height) = page.render_dimensions();
    let size = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
    let upright = page.initial_transform(false).to_kurbo();
    let mut reader = PageReader::new(size, known, programs);
    let content = contents::of(page);
    let texts_of_drawings = texts.len();
    let mut mended = Cow::Borrowed(content.bytes.as_slice());
    let mut is_lost = repair::mend(&mut mended).is_lost;
    let actual_text = ActualText::of(&mended, page.resources(), std::mem::take(texts));
    reader.actual_texts = actual_text.texts;
    let draw = |content: &[u8], resources: &Resources<'a>, reader: &mut PageReader<'_>| {
        let mut content = Cow::Borrowed(content);
        clip_text::draw(&mut content);
        let tables = reader.programs.tables.clone();
        let settings = InterpreterSettings {
            cmap_resolver: Arc::new(move |name| tables.table(name)),
            ..InterpreterSettings::default()
        };
        let mut context = Context::new(upright, size, cache, page.xref(), settings);
        interpret(TypedIter::new(&content), resources, &mut context, reader);
    };
    draw(&actual_text.content, page.resources(), &mut reader);
    reader.open.clear();
    let annotations = fields::read(page, upright);
    for appearance in &annotations.appearances {
        let mut content = Cow::Borrowed(&appearance.content[..]);
        is_lost |= repair::mend(&mut content).is_lost;
        draw(&content, &appearance.resources, &mut reader);
    }
    annotations.strikes.iter().for_each(|(start, end)| reader.rules.add(*start, *end));
    reader.boxes.remove_fields(&annotations.fields);
    *texts = std::mem::take(&mut reader.actual_texts);
    texts.truncate(texts_of_drawings);
    let mut text = reader.finish();
    text.known += annotations.values.iter().map(|value| letters::visible(&value.text)).sum::<usize>();
    text.values.extend(annotations.values);
    text.comments = annotations.comments;
    text.is_damaged = content.is_damaged || is_lost;
    text
}

/// A glyph and whether it is seen.
struct Drawn {
    text: PlacedText,
    middle: Point,
    seen: Seen,
    source: Source,
    /// The first glyph of the field whose value it is a part of, where a form was made a part of the page.
    field: Option<usize>,
}

/// What tells the characters of a glyph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The file.
    File,
    /// The program of its font.
    Program,
    /// Nothing.
    None,
}

/// A part of the content that is marked: its text, where the file gives it, or what it is.
struct Marked {
    /// Which of the texts; none where the file gives no text.
    text: Option<usize>,
    /// Whether the value of a field of a form begins with it.
    begins_value: bool,
    /// Glyphs before it.
    glyphs: usize,
}

struct PageReader<'k> {
    drawn: Vec<Drawn>,
    canvas: Canvas,
    actual_texts: Vec<String>,
    /// Parts of the content that have begun.
    open: Vec<Marked>,
    /// The first glyph of the value of a field that has begun.
    value: Option<usize>,
    pictures: usize,
    picture_areas: Pictures<'k>,
    other_numbers: usize,
    widths: Widths,
    programs: &'k mut Programs,
    rules: Rules,
    boxes: Boxes,
}

impl<'k> PageReader<'k> {
    fn new(size: Rect, known: &'k mut Known, programs: &'k mut Programs) -> PageReader<'k> {
        PageReader {
            drawn: Vec::new(),
            canvas: Canvas::new(size),
            actual_texts: Vec::new(),
            open: Vec::new(),
            value: None,
            pictures: 0,
            picture_areas: Pictures::new(size, known),
            other_numbers: 0,
            widths: Widths::default(),
            programs,
            rules: Rules::default(),
            boxes: Boxes::default(),
        }
    }

    /// The text of a glyph with these characters. Blank glyphs without a character are nothing.
    fn text(&mut self, glyph: &Glyph<'_>, characters: Option<BfString>) -> Option<(BfString, Source)> {
        let has_none = characters.as_ref().is_none_or(letters::is_control);
        let says_nothing = |text: &BfString| {
            letters::is_control(text)
                || matches!(text, BfString::Char(c) if *c == UNKNOWN || letters::is_private(*c))
        };
        if let Some(text) = characters
            .map(letters::of_windows)
            .map(letters::without_variation)
            .filter(|text| !says_nothing(text))
        {
            return Some((text, Source::File));
        }
        let read = match glyph {
            Glyph::Outline(glyph) => self.programs.read(glyph),
            Glyph::Type3(_) => GlyphText::Unknown,
        };
        match read {
            GlyphText::Character(c) => Some((BfString::Char(c), Source::Program)),
            GlyphText::Blank if has_none => None,
            GlyphText::Blank | GlyphText::Unknown => Some((BfString::Char(UNKNOWN), Source::None)),
        }
    }

    /// Replaces what was drawn since the part began by the text that the file gives for it. If numbers are drawn that the
    /// text does not have, a reader sees those.
    fn replace(&mut self, replaced: &Marked, text: String) {
        let mut drawn = String::new();
        let glyphs = self.drawn.get(replaced.glyphs..).unwrap_or_default();
        glyphs.iter().for_each(|glyph| letters::write(&glyph.text.text, &mut drawn));
        // A digit among letters may be one of a font that has other characters in its place.
        let is_number = |word: &str| !word.contains(char::is_alphabetic) && !letters::digits(word).is_empty();
        let are_known = glyphs.iter().all(|glyph| glyph.source == Source::File);
        let has_number = are_known && drawn.split_whitespace().any(is_number);
        if has_number && letters::digits(&drawn) != letters::digits(&text) {
            self.other_numbers += 1;
            return;
        }
        let mut drawn = self.drawn.drain(replaced.glyphs..);
        let Some(mut first) = drawn.next() else { return };
        for next in drawn {
            if next.text.is_beside(&first.text) {
                first.text.end = first.text.end.max(next.text.end);
            }
        }
        if !text.is_empty() {
            first.text.text = BfString::String(text);
            first.source = Source::File;
            self.drawn.push(first);
        }
    }

    fn finish(mut self) -> PageText {
        let mut page = PageText {
            pictures: self.pictures,
            other_numbers: self.other_numbers,
            rules: std::mem::take(&mut self.rules),
            ..PageText::default()
        };
        let canvas = &self.canvas;
        for (i, glyph) in self.drawn.iter_mut().enumerate() {
            glyph.seen = canvas.seen_at_last(glyph.seen, glyph.middle, i);
        }
        // Text that belongs to a picture, as OCR programs add it, is hidden in many ways. Invisible text that is all of a
        // page was made to be read.
        let is_layer = self
            .drawn
            .iter()
            .all(|glyph| glyph.seen != Seen::Yes && (self.pictures > 0 || glyph.text.is_layer));
        let mut places = Vec::new();
        let mut last_field = None;
        for Drawn { text, middle, seen, source, field } in self.drawn {
            let letters = letters::visible(&text.text);
            if seen != Seen::Yes && !is_layer {
                page.hidden.push(text);
                continue;
            }
            match source {
                Source::None => page.unknown += 1,
                Source::Program => page.from_programs += letters,
                Source::File => {}
            }
            if source != Source::None {
                page.known += letters;
            }
            places.push((middle, letters));
            let last = std::mem::replace(&mut last_field, field);
            match page.values.last_mut() {
                _ if field.is_none() => page.glyphs.push(text),
                Some(value) if last == field && value.is_beside(&text) => value.append(&text),
                _ => page.values.push(text),
            }
        }
        let letters = places.iter().filter(|(_, letters)| *letters > 0);
        page.boxes = self.boxes.beside(letters.map(|(middle, _)| *middle));
        page.textless = self.picture_areas.textless(&places);
        page
    }
}

/// The colour of a paint; none for a pattern.
fn color(paint: &Paint<'_>) -> Option<[u8; 4]> {
    match paint {
        Paint::Color(color) => Some(color.to_rgba().to_rgba8()),
        Paint::Pattern(_) => None,
    }
}

/// Half of the width of a line.
fn half(mode: &PathDrawMode) -> f64 {
    match mode {
        PathDrawMode::Fill(_) => 0.0,
        PathDrawMode::Stroke(line) => f64::from(line.line_width) / 2.0,
    }
}

impl<'a> Device<'a> for PageReader<'_> {
    fn draw_glyph(
        &mut self,
        glyph: &Glyph<'a>,
        transform: Affine,
        glyph_transform: Affine,
        paint: &Paint<'a>,
        mode: &GlyphDrawMode,
    ) {
        let (advance, characters) = match (glyph, glyph.as_unicode()) {
            (Glyph::Outline(glyph), text) => (glyph.advance_width().map(f64::from), text),
            (Glyph::Type3(glyph), text) => {
                let (width, text) = text.map(type3::width_and_text).unzip();
                (width.flatten().or_else(|| self.widths.of(glyph, paint)), text)
            }
        };
        let place = transform * glyph_transform;
        let at = |x: f64, y: f64| place * Point::new(x, y);
        let (start, up) = (at(0.0, 0.0), at(0.0, UNITS_PER_EM));
        let is_invisible = matches!(mode, GlyphDrawMode::Invisible);
        let Some(mut text) = PlacedText::new(start, at(UNITS_PER_EM, 0.0) - start, up - start, advance)
        else {
            return;
        };
        let Some((characters, source)) = self.text(glyph, characters) else { return };
        if let Glyph::Outline(glyph) = glyph {
            text.y -= text.height * self.programs.signs.hanging(glyph, &characters);
        }
        text.text = characters;
        text.is_layer = is_invisible;
        let middle = at(advance.unwrap_or(UNITS_PER_EM / 2.0) / 2.0, UNITS_PER_EM / 3.0);
        let seen = match color(paint) {
            _ if is_invisible => Seen::OnPicture,
            _ if !self.canvas.shows(middle, text.height) => Seen::No,
            Some([.., alpha]) if alpha < TRANSPARENT => Seen::No,
            Some([r, g, b, _]) => self.canvas.stands_out(middle, [r, g, b]),
            None => Seen::Yes,
        };
        if matches!(mode, GlyphDrawMode::Stroke(_))
            && let Some(last) = self.drawn.last_mut()
            && last.text.start() == text.start()
        {
            // The outline of the glyph that was filled before.
            last.seen = if seen == Seen::Yes { seen } else { last.seen };
            return;
        }
        self.drawn.push(Drawn { text, middle, seen, source, field: self.value });
    }

    fn draw_path(&mut self, path: &BezPath, transform: Affine, _: &Paint<'_>, mode: &PathDrawMode) {
        self.pictures += 1;
        let is_filled = matches!(mode, PathDrawMode::Fill(_));
        self.rules.add_path(path, transform, is_filled);
        if is_filled {
            self.picture_areas.add_path(path, transform);
        } else {
            self.boxes.add_path(path, transform.transform_rect_bbox(path.control_box()));
        }
        self.canvas
            .draw_path(transform.transform_rect_bbox(path.control_box().inflate(half(mode), half(mode))));
    }

    fn draw_rect(&mut self, rect: &Rect, transform: Affine, paint: &Paint<'_>, mode: &PathDrawMode) {
        self.pictures += 1;
        let place = transform.transform_rect_bbox(rect.inflate(half(mode), half(mode)));
        match mode {
            PathDrawMode::Fill(_) => {
                self.rules.add_filled(place);
                self.canvas.fill(place, color(paint), self.drawn.len());
            }
            PathDrawMode::Stroke(_) => {
                self.rules.add_frame(transform.transform_rect_bbox(*rect));
                self.boxes.add(transform.transform_rect_bbox(*rect));
                self.canvas.frame(place, 2.0 * half(mode));
            }
        }
    }

    fn draw_image(&mut self, image: Image<'_, '_>, transform: Affine) {
        self.pictures += 1;
        let size = Rect::new(0.0, 0.0, f64::from(image.width()), f64::from(image.height()));
        let place = self.canvas.draw_picture(transform.transform_rect_bbox(size));
        self.picture_areas.add(&image, transform, place);
    }

    fn set_soft_mask(&mut self, mask: Option<SoftMask<'_>>) {
        self.canvas.is_masked = mask.is_some();
    }

    fn set_blend_mode(&mut self, mode: BlendMode) {
        self.canvas.is_blended = mode != BlendMode::Normal;
    }

    fn push_clip_path(&mut self, clip: &ClipPath) {
        self.canvas.push_clip(&clip.path);
    }

    fn pop_clip_path(&mut self) {
        self.canvas.pop_clip();
    }

    fn push_transparency_group(&mut self, opacity: f32, mask: Option<SoftMask<'_>>, mode: BlendMode) {
        self.canvas.push_group(opacity < 1.0 || mask.is_some() || mode != BlendMode::Normal);
    }

    fn pop_transparency_group(&mut self) {
        self.canvas.pop_group();
    }

    fn begin_marked_content(&mut self, tag: &[u8], id: Option<i32>) {
        let text = id.and_then(ActualText::index).filter(|index| *index < self.actual_texts.len());
        let begins_value = tag == VALUE && self.value.is_none();
        if begins_value {
            self.value = Some(self.drawn.len());
        }
        self.open.push(Marked { text, begins_value, glyphs: self.drawn.len() });
    }

    fn end_marked_content(&mut self) {
        let Some(marked) = self.open.pop() else { return };
        if let Some(text) = marked.text {
            let text = self.actual_texts[text].clone();
            self.replace(&marked, text);
        }
        if marked.begins_value {
            self.value = None;
        }
    }
}
