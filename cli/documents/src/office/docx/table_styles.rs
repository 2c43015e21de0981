//! How cells look by the style of their table: the colour of their text, and what is behind it. A style says that for the
//! whole table and for parts of it, such as the first row.

use super::styles::shading;
use crate::color::Color;
use crate::package::xml::{Element, is_yes};

/// Bits of the old attribute that says which parts of its style a table has.
mod bits {
    pub(super) const FIRST_ROW: u32 = 0x20;
    pub(super) const LAST_ROW: u32 = 0x40;
    pub(super) const FIRST_COLUMN: u32 = 0x80;
    pub(super) const LAST_COLUMN: u32 = 0x100;
    pub(super) const NO_ROW_BANDS: u32 = 0x200;
    pub(super) const NO_COLUMN_BANDS: u32 = 0x400;
}

/// How a cell looks. `None` is for what is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CellLook {
    pub(super) color: Option<Color>,
    pub(super) ground: Option<Color>,
}

impl CellLook {
    /// Takes a property.
    fn set(&mut self, element: &Element) {
        match element.name.as_str() {
            "color" => self.color = element.attribute("val").map(|digits| Color::of_digits(&digits)),
            "shd" => self.ground = Some(shading(element)),
            _ => {}
        }
    }

    fn replaced_by(self, other: CellLook) -> CellLook {
        CellLook { color: other.color.or(self.color), ground: other.ground.or(self.ground) }
    }

    /// The same where another look may replace it.
    fn perhaps_replaced_by(self, other: CellLook) -> CellLook {
        self.replaced_by(CellLook {
            color: other.color.map(|_| Color::Unknown),
            ground: other.ground.map(|_| Color::Unknown),
        })
    }
}

/// The parts of a table, in the order in which they replace each other.
const PARTS: [&str; 13] = [
    "wholeTable",
    "band1Vert",
    "band2Vert",
    "band1Horz",
    "band2Horz",
    "firstCol",
    "lastCol",
    "firstRow",
    "lastRow",
    "nwCell",
    "neCell",
    "swCell",
    "seCell",
];

/// The places of two of them.
const FIRST_COLUMN: usize = 5;
const LAST_COLUMN: usize = 6;

/// How the parts of tables of a style look.
#[derive(Clone, Debug, Default)]
pub(super) struct TableParts([CellLook; PARTS.len()]);

impl TableParts {
    /// Takes a property of a part.
    pub(super) fn set(&mut self, part: &str, element: &Element) {
        let at = PARTS.iter().position(|name| *name == part);
        at.into_iter().for_each(|at| self.0[at].set(element));
    }

    /// These parts, and others that replace them.
    pub(super) fn replaced_by(&self, other: &TableParts) -> TableParts {
        TableParts(std::array::from_fn(|at| self.0[at].replaced_by(other.0[at])))
    }

    /// How a cell looks that looks like `whole` unless its parts say otherwise. `is_first` is for its row and its column.
    pub(super) fn cell(&self, whole: CellLook, shown: ShownParts, is_first: [Option<bool>; 2]) -> CellLook {
        // Which row is the last one is not known before it ends, and bands may be of several rows.
        let perhaps = |is_shown: Option<bool>| is_shown.filter(|is_shown| !is_shown);
        let (last_row, last_column) = (perhaps(shown.last_row), perhaps(shown.last_column));
        let both = |a: Option<bool>, b: Option<bool>| match (a, b) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
        let first_row = both(shown.first_row, is_first[0]);
        let first_column = both(shown.first_column, is_first[1]);
        let (columns, rows) = (perhaps(shown.column_bands), perhaps(shown.row_bands));
        // Of rows and columns that cross, the standard draws the columns last. Some styles of Word rely on the rows.
        let is_crossed = [(FIRST_COLUMN, first_column), (LAST_COLUMN, last_column)]
            .iter()
            .any(|(at, has)| *has != Some(false) && self.0[*at] != CellLook::default());
        let crossing = if is_crossed { perhaps(first_row) } else { first_row };
        let has = [
            Some(true),
            columns,
            columns,
            rows,
            rows,
            first_column,
            last_column,
            crossing,
            last_row,
            both(first_row, first_column),
            both(first_row, last_column),
            both(last_row, first_column),
            both(last_row, last_column),
        ];
        self.0.iter().zip(has).fold(whole, |look, (part, has)| match has {
            Some(true) => look.replaced_by(*part),
            Some(false) => look,
            None => look.perhaps_replaced_by(*part),
        })
    }
}

/// Which parts of its style a table has. `None` is for what is not said.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShownParts {
    first_row: Option<bool>,
    last_row: Option<bool>,
    first_column: Option<bool>,
    last_column: Option<bool>,
    row_bands: Option<bool>,
    column_bands: Option<bool>,
}

impl ShownParts {
    /// Those of a table with this element, `tblLook`.
    pub(super) fn of(element: &Element) -> ShownParts {
        let bits = element.attribute("val").and_then(|bits| u32::from_str_radix(&bits, 16).ok());
        let is_set = |name: &str, bit: u32| {
            let own = element.attribute(name).map(|value| is_yes(&value));
            own.or(bits.map(|bits| bits & bit != 0))
        };
        let is_not = |name: &str, bit: u32| is_set(name, bit).map(|is_set| !is_set);
        ShownParts {
            first_row: is_set("firstRow", bits::FIRST_ROW),
            last_row: is_set("lastRow", bits::LAST_ROW),
            first_column: is_set("firstColumn", bits::FIRST_COLUMN),
            last_column: is_set("lastColumn", bits::LAST_COLUMN),
            row_bands: is_not("noHBand", bits::NO_ROW_BANDS),
            column_bands: is_not("noVBand", bits::NO_COLUMN_BANDS),
        }
    }
}
