//! Lines that are drawn: those around the cells of tables, and those through text that is struck out.

use kurbo::{Affine, BezPath, PathEl, Point, Rect, Vec2};

use super::super::turned;

/// Lines are not thicker than this, in points.
const THICK: f64 = 2.5;
/// Lines end within this of each other, in points.
const SLACK: f64 = 2.5;
/// Parts of a line through text have the same place within this, in points.
const SAME_LINE: f64 = 0.5;
/// A page with more lines has drawings of lines.
const MAX_RULES: usize = 20_000;

/// A line along the text or across it.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Rule {
    pub(in super::super) is_horizontal: bool,
    /// Its y if it is horizontal, or else its x.
    pub(in super::super) at: f64,
    pub(in super::super) from: f64,
    pub(in super::super) to: f64,
}

impl Rule {
    fn new(a: Point, b: Point) -> Option<Rule> {
        let (width, height) = ((a.x - b.x).abs(), (a.y - b.y).abs());
        let is_horizontal = width > height;
        let is_line = width.min(height) <= THICK && width.max(height) > 2.0 * width.min(height);
        let (from, to) =
            if is_horizontal { (a.x.min(b.x), a.x.max(b.x)) } else { (a.y.min(b.y), a.y.max(b.y)) };
        let at = if is_horizontal { (a.y + b.y) / 2.0 } else { (a.x + b.x) / 2.0 };
        let is_valid = [at, from, to].iter().all(|number| number.is_finite());
        (is_line && is_valid).then_some(Rule { is_horizontal, at, from, to })
    }

    pub(in super::super) fn length(&self) -> f64 {
        self.to - self.from
    }

    /// Whether two lines cross or touch.
    pub(in super::super) fn meets(&self, other: &Rule) -> bool {
        self.meets_within(other, SLACK)
    }

    /// Whether two lines cross or touch, without a gap.
    pub(in super::super) fn touches(&self, other: &Rule) -> bool {
        self.meets_within(other, SAME_LINE)
    }

    fn meets_within(&self, other: &Rule, slack: f64) -> bool {
        let is_over = |rule: &Rule, place: f64| (rule.from - slack..=rule.to + slack).contains(&place);
        self.is_horizontal != other.is_horizontal && is_over(self, other.at) && is_over(other, self.at)
    }

    /// The same line for text that is turned by so many degrees.
    fn turned(&self, degrees: i16) -> Option<Rule> {
        let place = |along: f64| match self.is_horizontal {
            true => Vec2::new(along, self.at),
            false => Vec2::new(self.at, along),
        };
        let point = |along: f64| turned(place(along), -f64::from(degrees)).to_point();
        Rule::new(point(self.from), point(self.to))
    }
}

/// The lines of a page.
#[derive(Debug, Default)]
pub(in super::super::super) struct Rules(Vec<Rule>);

impl Rules {
    /// Adds what is drawn from one point to another.
    pub(in super::super::super) fn add(&mut self, a: Point, b: Point) {
        if self.0.len() <= MAX_RULES {
            self.0.extend(Rule::new(a, b));
        }
    }

    /// Adds the sides of a frame.
    pub(in super::super::super) fn add_frame(&mut self, frame: Rect) {
        let corners =
            [(frame.x0, frame.y0), (frame.x1, frame.y0), (frame.x1, frame.y1), (frame.x0, frame.y1)];
        for (i, corner) in corners.iter().enumerate() {
            self.add((*corner).into(), corners[(i + 1) % 4].into());
        }
    }

    /// Adds a rectangle that is filled, if it is as thin as a line.
    pub(in super::super::super) fn add_filled(&mut self, place: Rect) {
        let middle = place.center();
        match place.width() > place.height() {
            true if place.height() <= THICK => {
                self.add((place.x0, middle.y).into(), (place.x1, middle.y).into())
            }
            false if place.width() <= THICK => {
                self.add((middle.x, place.y0).into(), (middle.x, place.y1).into())
            }
            _ => {}
        }
    }

    /// Adds the straight parts of a path; of one that is filled, its parts that are as thin as lines.
    pub(in super::super::super) fn add_path(&mut self, path: &BezPath, transform: Affine, is_filled: bool) {
        let (mut start, mut last) = (Point::ZERO, Point::ZERO);
        let mut bounds: Option<Rect> = None;
        for element in path.elements() {
            if self.0.len() > MAX_RULES {
                return;
            }
            let point = match *element {
                PathEl::MoveTo(point) => {
                    if let Some(bounds) = bounds.take() {
                        self.add_filled(bounds);
                    }
                    start = transform * point;
                    last = start;
                    continue;
                }
                PathEl::LineTo(point) => transform * point,
                PathEl::ClosePath => start,
                PathEl::QuadTo(_, point) | PathEl::CurveTo(_, _, point) => {
                    last = transform * point;
                    continue;
                }
            };
            match is_filled {
                true => {
                    let side = Rect::from_points(last, point);
                    bounds = Some(bounds.map_or(side, |bounds| bounds.union(side)));
                }
                false => self.add(last, point),
            }
            last = point;
        }
        if let Some(bounds) = bounds {
            self.add_filled(bounds);
        }
    }

    /// The lines of tables whose text is turned by so many degrees: those along it and those across it. Parts of a line, and
    /// lines that are drawn twice, are one.
    pub(super) fn of_tables(&self, turn: i16) -> (Vec<Rule>, Vec<Rule>) {
        let (along, across): (Vec<Rule>, Vec<Rule>) = self.turned(turn).partition(|rule| rule.is_horizontal);
        (join(along, SLACK, SLACK), join(across, SLACK, SLACK))
    }

    /// The lines along text that is turned by so many degrees.
    pub(in super::super) fn along(&self, turn: i16) -> Vec<Rule> {
        self.joined(turn, SLACK)
    }

    /// The same, where lines with a small gap between them are two.
    pub(in super::super) fn apart(&self, turn: i16) -> Vec<Rule> {
        self.joined(turn, SAME_LINE)
    }

    fn joined(&self, turn: i16, gap: f64) -> Vec<Rule> {
        join(self.turned(turn).filter(|rule| rule.is_horizontal).collect(), SAME_LINE, gap)
    }

    /// The lines across text that is turned by so many degrees.
    pub(in super::super) fn across(&self, turn: i16) -> Vec<Rule> {
        self.turned(turn).filter(|rule| !rule.is_horizontal).collect()
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn turned(&self, turn: i16) -> impl Iterator<Item = Rule> {
        let rules = if self.0.len() > MAX_RULES { &[] } else { &self.0[..] };
        rules.iter().filter_map(move |rule| if turn == 0 { Some(*rule) } else { rule.turned(turn) })
    }
}

/// Joins lines whose places differ by less than `same`, and that have no more than this gap between them.
fn join(mut rules: Vec<Rule>, same: f64, gap: f64) -> Vec<Rule> {
    rules.sort_by(|a, b| a.at.total_cmp(&b.at));
    let mut joined: Vec<Rule> = Vec::new();
    let mut rest = &mut rules[..];
    while let Some(first) = rest.first() {
        let at = first.at;
        let length = rest.iter().take_while(|rule| rule.at - at <= same).count();
        let line;
        (line, rest) = rest.split_at_mut(length);
        line.sort_by(|a, b| a.from.total_cmp(&b.from));
        let start = joined.len();
        for rule in line {
            match joined[start..].last_mut() {
                Some(last) if rule.from <= last.to + gap => last.to = last.to.max(rule.to),
                _ => joined.push(Rule { at, ..*rule }),
            }
        }
    }
    joined
}
