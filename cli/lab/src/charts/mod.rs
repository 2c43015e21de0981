//! Charts as SVG: lines, bars and heat maps. They can be read in black and white, and any browser opens them.
//!
//! A chart is data with public fields; `svg` draws it. Names and numbers may come from foreign files: control and invisible
//! characters are left out, long names are cut, and numbers that are not finite or beyond 1e100 are not drawn. What is more
//! than a picture can show is left out, and the picture says so.

mod axis;
mod heat_map;
mod plot;
mod svg;
#[cfg(test)]
mod tests;

pub use self::axis::{Axis, Numbers};
pub use self::heat_map::HeatMap;
pub use self::plot::{Plot, Series, X};
