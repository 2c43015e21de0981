//! Pictures of a page that have no text: scans, photographs, tables and paragraphs that are drawn as pictures. The page is
//! divided into cells. Cells of pictures that touch are one picture, in however many strips it is drawn. Hidden letters
//! on a picture, which an OCR program added, are its text as others are.

use std::collections::HashSet;

use hayro_interpret::Image;
use hayro_interpret::hayro_syntax::object::ObjectIdentifier;
use kurbo::{Affine, Point, Rect};

/// Cells of a page from left to right, and from top to bottom.
const CELLS: usize = 64;
/// A picture of fewer cells is a sign or a part of the decoration.
const MIN_CELLS: usize = CELLS * CELLS / 32;
/// A picture as large as the page with fewer letters has no text of its own; of a smaller one it is as many for its size.
/// The lines that libraries and courts print on scanned pages have up to 150.
pub(super) const FEW_LETTERS: usize = 200;
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
        let (start, end) =
            (self.in_cells(Point::new(place.x0, place.y0)), self.in_cells(Point::new(place.x1, place.y1)));
        let number = |cells: f64| cells.round() as usize;
        let columns = (number(start.x)..number(end.x)).fold(0, |columns, column| columns | 1 << column);
        self.rows.iter_mut().take(number(end.y)).skip(number(start.y)).for_each(|row| *row |= columns);
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
