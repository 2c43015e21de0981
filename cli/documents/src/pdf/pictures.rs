//! Pictures of a page that have no text: scans, photographs, tables and paragraphs that are drawn as pictures, and text whose
//! letters are drawn as shapes. The page is divided into cells. Cells of pictures that touch are one picture, in however
//! many strips it is drawn. Hidden letters on a picture, which an OCR program added, are its text as others are.

use std::collections::HashSet;

use hayro_interpret::Image;
use hayro_interpret::hayro_syntax::object::ObjectIdentifier;
use kurbo::{Affine, BezPath, PathEl, Point, Rect};

/// Cells of a page from left to right, and from top to bottom.
const CELLS: usize = 64;
/// A picture of fewer cells is a sign or a part of the decoration.
const MIN_CELLS: usize = CELLS * CELLS / 32;
/// A picture as large as the page with fewer letters has no text of its own; of a smaller one it is as many for its size.
/// The lines that libraries and courts print on scanned pages have up to 150.
pub(super) const FEW_LETTERS: usize = 200;
/// Shapes of these sizes, in points, may be letters.
const LETTER_SIZES: std::ops::RangeInclusive<f64> = 1.0..=40.0;
/// A picture whose pixels are larger, in points, is a colour or a gradient.
const LARGE_PIXEL: f64 = 4.0;

/// Pictures that were drawn on the pages before. What is drawn again is a background, or a sign of who wrote it.
pub(super) type Known = HashSet<ObjectIdentifier>;

/// Where pictures are on a page.
pub(super) struct Pictures<'k> {
    page: Rect,
    known: &'k mut Known,
    /// A bit for each cell.
    rows: [u64; CELLS],
}

/// Pictures that have hardly any letters on them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Textless {
    pub(super) pictures: usize,
    /// Whether they cover more than half of the page.
    pub(super) are_most: bool,
}

impl Pictures<'_> {
    pub(super) fn new(page: Rect, known: &mut Known) -> Pictures<'_> {
        Pictures { page, known, rows: [0; CELLS] }
    }

    /// Adds a picture of which this place is seen. `to_page` makes points of its pixels.
    pub(super) fn add(&mut self, image: &Image<'_, '_>, to_page: Affine, place: Rect) {
        let [a, b, c, d, ..] = to_page.as_coeffs();
        if a.hypot(b) > LARGE_PIXEL || c.hypot(d) > LARGE_PIXEL {
            return;
        }
        let id = match image {
            Image::Raster(raster) => raster.stream().dict().obj_id(),
            // The interpreter does not say which one it is.
            Image::Stencil(_) => None,
        };
        if id.is_some_and(|id| !self.known.insert(id)) {
            return;
        }
        // Cells whose middle the picture covers.
        self.mark(place, f64::round, f64::round);
    }

    /// Adds a path that is filled. Its curves may be those of letters, each of which is a part of it.
    pub(super) fn add_path(&mut self, path: &BezPath, to_page: Affine) {
        if !path.elements().iter().any(|element| matches!(element, PathEl::QuadTo(..) | PathEl::CurveTo(..)))
        {
            return;
        }
        for shape in path.elements().chunk_by(|_, next| !matches!(next, PathEl::MoveTo(_))) {
            let bounds = BezPath::from_vec(shape.to_vec()).control_box();
            let place = to_page.transform_rect_bbox(bounds);
            if LETTER_SIZES.contains(&place.width()) && LETTER_SIZES.contains(&place.height()) {
                self.mark(place, f64::floor, f64::ceil);
            }
        }
    }

    /// Marks the cells of a place.
    fn mark(&mut self, place: Rect, first: fn(f64) -> f64, end: fn(f64) -> f64) {
        let (from, to) =
            (self.in_cells(Point::new(place.x0, place.y0)), self.in_cells(Point::new(place.x1, place.y1)));
        let columns =
            (first(from.x) as usize..end(to.x) as usize).fold(0, |columns, column| columns | 1 << column);
        let rows = self.rows.iter_mut().take(end(to.y) as usize).skip(first(from.y) as usize);
        rows.for_each(|row| *row |= columns);
    }

    /// A place, counted in cells.
    fn in_cells(&self, place: Point) -> Point {
        let along = |from_start: f64, size: f64| (from_start / size * CELLS as f64).clamp(0.0, CELLS as f64);
        Point::new(
            along(place.x - self.page.x0, self.page.width()),
            along(place.y - self.page.y0, self.page.height()),
        )
    }

    /// Those without text, with these letters of the page: where they are, and how many.
    pub(super) fn textless(&self, letters: &[(Point, usize)]) -> Textless {
        let mut rest = self.rows;
        if rest == [0; CELLS] {
            return Textless::default();
        }
        let mut counts = vec![0; CELLS * CELLS];
        for (place, letters) in letters {
            let place = self.in_cells(*place);
            let (column, row) = ((place.x as usize).min(CELLS - 1), (place.y as usize).min(CELLS - 1));
            counts[row * CELLS + column] += letters;
        }
        let (mut pictures, mut covered) = (0, 0);
        for row in 0..CELLS {
            while rest[row] != 0 {
                let cells = take_picture(&mut rest, row);
                let letters: usize = cells.iter().map(|cell| counts[*cell]).sum();
                if cells.len() >= MIN_CELLS && letters * CELLS * CELLS < FEW_LETTERS * cells.len() {
                    pictures += 1;
                    covered += cells.len();
                }
            }
        }
        Textless { pictures, are_most: 2 * covered > CELLS * CELLS }
    }
}

/// Takes the cells of the picture that has the first cell of a row.
fn take_picture(rows: &mut [u64; CELLS], row: usize) -> Vec<usize> {
    let mut taken = Vec::new();
    let mut rest = vec![(row, rows[row].trailing_zeros() as usize)];
    while let Some((row, column)) = rest.pop() {
        if rows[row] & 1 << column == 0 {
            continue;
        }
        rows[row] &= !(1 << column);
        taken.push(row * CELLS + column);
        let beside = [
            (row, column + 1),
            (row + 1, column),
            (row, column.wrapping_sub(1)),
            (row.wrapping_sub(1), column),
        ];
        rest.extend(beside.into_iter().filter(|(row, column)| *row < CELLS && *column < CELLS));
    }
    taken
}
