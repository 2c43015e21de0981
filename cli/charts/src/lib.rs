//! Charts as SVG and PNG: lines, bars and heat maps. They are readable in black and white, in print and on light and
//! dark pages. Knows nothing of models and terminals.
//!
//! A chart is data with public fields. [`Chart::drawing`] turns it into shapes and texts, and both formats draw these:
//! what one shows, the other shows too.
//!
//! Names may come from untrusted files. Control and invisible characters are left out, and long names are cut. Values
//! that are no number or infinite are left out. The size of a picture is bounded: see [`Drawing::png`] and the limits
//! of each chart, which the picture itself mentions when they are exceeded.
//!
//! The letters of a PNG come from the fonts that hayro embeds for PDFs, which the program has anyway. The areas are filled by
//! 100 lines of our own: `resvg` would bring fonts or need those of the machine, and thirty crates.
//!
//! ```
//! use charts::{Axis, Chart, LineChart, Numbers, Reference, Series};
//!
//! let chart = LineChart {
//!     title: "Recall after eviction".to_owned(),
//!     x: Axis { label: "KV cache kept".to_owned(), numbers: Numbers::Percent, ..Axis::default() },
//!     y: Axis { label: "answers found".to_owned(), numbers: Numbers::Percent, ..Axis::default() },
//!     series: vec![Series { name: "razor".to_owned(), points: vec![(0.1, 0.61), (0.5, 0.93)] }],
//!     references: vec![Reference { name: "full cache".to_owned(), value: 0.95 }],
//! };
//! assert!(chart.svg().starts_with("<svg"));
//! assert!(chart.png(2.0)?.starts_with(b"\x89PNG"));
//! # Ok::<(), charts::PngError>(())
//! ```

mod axis;
mod bar;
mod drawing;
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

    /// The chart as the bytes of a PNG file with `scale` pixels for each CSS pixel of the SVG: see [`Drawing::png`].
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
