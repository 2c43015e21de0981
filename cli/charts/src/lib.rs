//! Charts as SVG and PNG: lines, bars and heat maps. They can be read in black and white, in print, and on
//! light and dark pages. Knows nothing of models and terminals.
//!
//! A chart is data with public fields. [`Chart::drawing`] turns it into shapes and texts. Both formats draw
//! these, so that they show the same.
//!
//! Names and numbers may come from untrusted files. Control and invisible characters are left out, and long
//! names are cut. Values that are not finite, or beyond 1e100, are left out. Each chart has a maximum number
//! of series, groups or cells. What exceeds it is left out, and the picture says so.
//!
//! The letters of a PNG are those that hayro embeds for PDFs and the program has anyway; `raster.rs` fills
//! them. `resvg` would need a font from elsewhere, and many crates that nothing else needs.
//!
//! ```
//! use charts::{Axis, Chart, LineChart, Numbers, Reference, Series};
//!
//! let chart = LineChart {
//!     title: "Recall after eviction".to_owned(),
//!     x: Axis { label: "KV cache kept".to_owned(), numbers: Numbers::Percent, ..Axis::default() },
//!     y: Axis { label: "answers found".to_owned(), numbers: Numbers::Percent, ..Axis::default() },
//!     series: vec![Series { name: "razor".to_owned(), points: vec![(0.1, 0.61), (0.5, 0.93)], ..Series::default() }],
//!     references: vec![Reference { name: "full cache".to_owned(), value: 0.95 }],
//! };
//! assert!(chart.svg().starts_with("<svg"));
//! assert!(chart.png(2.0)?.starts_with(b"\x89PNG"));
//! # Ok::<(), charts::PngError>(())
//! ```

mod axis;
mod bar;
mod drawing;
mod error_bar;
mod font;
mod frame;
mod heat_map;
mod line;
mod png;
mod raster;
mod style;
mod svg;
mod text;

pub use self::axis::{Axis, Numbers, Scale};
pub use self::bar::{BarChart, BarSeries};
pub use self::drawing::Drawing;
pub use self::heat_map::HeatMap;
pub use self::line::{LineChart, Series};
pub use self::png::PngError;

/// What every chart can do.
pub trait Chart {
    /// The shapes and texts of the chart.
    fn drawing(&self) -> Drawing;

    /// The chart as the text of an SVG file: see [`Drawing::svg`].
    fn svg(&self) -> String {
        self.drawing().svg()
    }

    /// The chart as the bytes of a PNG file with `scale` pixels for a CSS pixel of the SVG: see
    /// [`Drawing::png`].
    ///
    /// # Errors
    /// As [`Drawing::png`].
    fn png(&self, scale: f64) -> Result<Vec<u8>, PngError> {
        self.drawing().png(scale)
    }
}

/// A value to compare with: a horizontal line through the chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reference {
    /// What has this value, such as `full cache`.
    pub name: String,
    /// The value, in the unit of the vertical axis.
    pub value: f64,
}

/// Maximum number of references of a chart.
const MAX_REFERENCES: usize = 4;
