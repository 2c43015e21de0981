//! What is seen of a page: its fillings and pictures in the order in which they are drawn, as rectangles, and what cuts
//! them off. A glyph is judged by its middle. Curved shapes count as the rectangle around them, and not at all where
//! that could hide a glyph that is seen.

use kurbo::{BezPath, PathEl, Point, Rect};

/// Two colours are told from each other if a component differs by more than this, of 255.
const SAME_COLOR: u8 = 12;
/// Text that is lower than this many points is not read by anybody.
const LOWEST_TEXT: f64 = 0.5;
/// Glyphs may stand out of the page or its clipping by so many points, for example in rounded numbers.
const SLACK: f64 = 2.0;
/// Numbers of places that differ by less are the same, in points.
const SAME_PLACE: f64 = 0.01;
/// A filling that is thinner than this is a line.
const THIN: f64 = 3.0;
/// So many fillings that are drawn over text are looked at.
const MAX_COVERS: usize = 2_000;
/// So many fillings are looked at as the background of a glyph, the last ones.
const MAX_BACKGROUNDS: usize = 2_000;

/// Places of so many pictures are kept.
const MAX_PICTURES: usize = 5_000;

/// Whether text is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Yes,
    No,
    /// It is drawn invisibly, as the text of a scanned page is: it is seen if a picture is at its place.
    OnPicture,
}

/// A rectangle that is filled.
#[derive(Debug)]
struct Fill {
    place: Rect,
    /// None for a pattern or a picture.
    color: Option<[u8; 3]>,
}

#[derive(Debug)]
pub(super) struct Canvas {
    page: Rect,
    fills: Vec<Fill>,
    /// The colours of the fills and of the page.
    colors: Vec<[u8; 3]>,
    /// What hides everything under it, with the number of glyphs that are under it.
    covers: Vec<(Rect, usize)>,
    /// Where pictures and drawings are.
    pictures: Vec<Rect>,
    /// What is not clipped, and whether it is all of the rectangle.
    clips: Vec<(Rect, bool)>,
    /// Whether each open group shows what is under it.
    groups: Vec<bool>,
    pub(super) is_masked: bool,
    pub(super) is_blended: bool,
}

impl Canvas {
    pub(super) fn new(page: Rect) -> Canvas {
        Canvas {
            page,
            fills: Vec::new(),
            colors: vec![[255; 3]],
            covers: Vec::new(),
            pictures: Vec::new(),
            clips: Vec::new(),
            groups: Vec::new(),
            is_masked: false,
            is_blended: false,
        }
    }

    /// What is left of a rectangle after clipping.
    fn clipped(&self, place: Rect) -> Rect {
        self.clips.last().map_or(place, |(clip, _)| place.intersect(*clip))
    }

    /// Whether all of that is seen: the clips are rectangles.
    fn is_clip_whole(&self) -> bool {
        self.clips.last().is_none_or(|(_, is_whole)| *is_whole)
    }

    /// Fills a rectangle after `glyphs` glyphs. A colour that is not opaque changes what is under it.
    pub(super) fn fill(&mut self, place: Rect, color: Option<[u8; 4]>, glyphs: usize) {
        let place = self.clipped(place);
        if place.width() < THIN || place.height() < THIN {
            return;
        }
        let shows_through =
            self.is_masked || self.is_blended || !self.is_clip_whole() || self.groups.contains(&true);
        let color = match color {
            Some([.., 0]) => return,
            Some([r, g, b, 255]) if !shows_through => Some([r, g, b]),
            _ => None,
        };
        if let Some(color) = color {
            if !self.colors.contains(&color) && self.colors.len() < MAX_BACKGROUNDS {
                self.colors.push(color);
            }
            if glyphs > 0 && self.covers.len() < MAX_COVERS {
                self.covers.push((place, glyphs));
            }
        }
        self.fills.push(Fill { place, color });
    }

    /// Draws a path that is no rectangle, as a line or filled.
    pub(super) fn draw_path(&mut self, place: Rect) {
        let place = self.clipped(place);
        self.add_picture(place);
        // A line may be thick enough for text on it.
        if place.width() >= THIN && place.height() >= THIN {
            self.fills.push(Fill { place, color: None });
        }
    }

    /// Draws a frame with lines of this width.
    pub(super) fn frame(&mut self, place: Rect, width: f64) {
        if width >= THIN {
            self.fills.push(Fill { place: self.clipped(place), color: None });
        }
    }

    /// Draws a picture. Returns which part of its place is not clipped.
    pub(super) fn draw_picture(&mut self, place: Rect) -> Rect {
        let place = self.clipped(place);
        self.add_picture(place);
        self.fills.push(Fill { place, color: None });
        place
    }

    fn add_picture(&mut self, place: Rect) {
        match self.pictures.len() {
            ..MAX_PICTURES => self.pictures.push(place),
            // So many drawings are a picture of their own.
            MAX_PICTURES => self.pictures.push(self.page),
            _ => {}
        }
    }

    pub(super) fn push_clip(&mut self, path: &BezPath) {
        let is_whole = self.is_clip_whole() && is_rectangle(path);
        self.clips.push((self.clipped(path.control_box()), is_whole));
    }

    pub(super) fn pop_clip(&mut self) {
        self.clips.pop();
    }

    pub(super) fn push_group(&mut self, shows_through: bool) {
        self.groups.push(shows_through);
    }

    pub(super) fn pop_group(&mut self) {
        self.groups.pop();
    }

    /// Whether a glyph is on the page, is not clipped, and is large enough.
    pub(super) fn shows(&self, middle: Point, height: f64) -> bool {
        let contains = |place: &Rect| place.inflate(SLACK, SLACK).contains(middle);
        height >= LOWEST_TEXT
            && contains(&self.page)
            && self.clips.last().is_none_or(|(clip, _)| clip.width() > 0.0 && contains(clip))
    }

    /// Whether a glyph of this colour has another colour than what is behind it.
    pub(super) fn stands_out(&self, middle: Point, color: [u8; 3]) -> Seen {
        let is_same = |other: [u8; 3]| color.iter().zip(other).all(|(a, b)| a.abs_diff(b) <= SAME_COLOR);
        if !self.colors.iter().any(|other| is_same(*other)) {
            return Seen::Yes;
        }
        let mut behind = self.fills.iter().rev().take(MAX_BACKGROUNDS);
        let behind = match behind.find(|fill| fill.place.contains(middle)) {
            Some(fill) => fill.color,
            None if self.fills.len() > MAX_BACKGROUNDS => None,
            None => Some([255; 3]),
        };
        if behind.is_some_and(is_same) { Seen::No } else { Seen::Yes }
    }

    /// Whether a glyph is seen when the page is complete; `number` is the number of glyphs before it.
    pub(super) fn seen_at_last(&self, seen: Seen, middle: Point, number: usize) -> Seen {
        match seen {
            Seen::OnPicture if self.pictures.iter().any(|place| place.contains(middle)) => Seen::Yes,
            Seen::Yes
                if self.covers.iter().any(|(place, glyphs)| number < *glyphs && place.contains(middle)) =>
            {
                Seen::No
            }
            Seen::Yes => Seen::Yes,
            Seen::OnPicture | Seen::No => Seen::No,
        }
    }
}

/// Whether a path is a rectangle that is not turned.
fn is_rectangle(path: &BezPath) -> bool {
    let elements = path.elements();
    let corners: Vec<Point> = elements.iter().take(6).filter_map(PathEl::end_point).collect();
    let is_line = |element: &PathEl| !matches!(element, PathEl::QuadTo(..) | PathEl::CurveTo(..));
    let is_level = |line: &[Point]| {
        let along = line[1] - line[0];
        along.x.abs().min(along.y.abs()) < SAME_PLACE
    };
    matches!(corners.len(), 4 | 5)
        && elements.len() <= 6
        && elements.iter().all(is_line)
        && corners.windows(2).all(is_level)
}
