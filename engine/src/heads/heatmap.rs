//! Heat maps of heads as text, with one row per layer and one column per head. Higher values are darker or
//! warmer, and retrieval heads have a mark. The caller knows the terminal and decides whether to use colour.

use std::fmt::Write;

use super::profile::HeadProfile;
use super::scores::{ScoreMap, ScoresPer};

/// The characters or colours of the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// ` .:-=+*%@`: for any terminal and any font.
    Ascii,
    /// ` ░▒▓█`.
    Shades,
    /// Backgrounds of the 256-colour palette, from near black over purple and green to yellow, by escape
    /// sequences.
    Colors,
}

/// Colours of the 256-colour palette from cold to hot.
const COLORS: [u8; 10] = [233, 53, 54, 60, 24, 30, 36, 71, 149, 226];
/// On colours above this index of [`COLORS`] a mark is black, on the others white.
const BRIGHT: usize = 5;

/// The share of a model's rows for which the shares of its heads are drawn.
const DRAWN_SHARE: f64 = 0.3;

/// A map of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Heatmap<'a> {
    /// What the numbers are; printed in the first line.
    pub title: &'a str,
    /// Heads of a layer.
    pub columns: usize,
    /// `[layers, columns]`, layer by layer. The last row may be shorter.
    pub values: &'a [f32],
    /// `[layers, columns]`: heads to mark; empty for none.
    pub marks: &'a [bool],
}

impl Heatmap<'_> {
    /// The map as lines, each with a line break: title with the range of values, column numbers, one row per
    /// layer.
    ///
    /// The scale runs from 0 (or the smallest value, if it is negative) to the largest value. Values that are
    /// not finite are `?`.
    pub fn render(&self, palette: Palette) -> String {
        let columns = self.columns.max(1);
        let layers = self.values.len().div_ceil(columns);
        let finite = || self.values.iter().copied().filter(|value| value.is_finite());
        let low = finite().fold(0.0, f32::min);
        let high = finite().fold(low, f32::max);
        let digits = layers.saturating_sub(1).to_string().len().max(5);

        let mut out = format!("{}: {layers} x {columns}, {low:.3} to {high:.3}", self.title);
        let marked = self.marks.iter().filter(|&&mark| mark).count();
        if marked > 0 {
            let _ = write!(out, "; {marked} keep everything, marked {}", mark(palette));
        }
        let _ = write!(out, "\n{:>digits$} ", "layer");
        for column in (0..columns).step_by(4) {
            // A column has two characters; a number may take four columns.
            let width = 2 * (columns - column).min(4);
            let number = column.to_string();
            if number.len() <= width {
                let _ = write!(out, "{number:<width$}");
            }
        }
        trim_end(&mut out);
        out.push('\n');
        for (layer, row) in self.values.chunks(columns).enumerate() {
            let _ = write!(out, "{layer:>digits$} ");
            for (column, &value) in row.iter().enumerate() {
                let marked = self.marks.get(layer * columns + column) == Some(&true);
                cell(&mut out, palette, value, (low, high), marked);
            }
            match palette {
                Palette::Colors => out.push_str("\x1b[0m"),
                Palette::Ascii | Palette::Shades => trim_end(&mut out),
            }
            out.push('\n');
        }
        out
    }
}

/// One head: two characters, the second for the mark.
fn cell(out: &mut String, palette: Palette, value: f32, (low, high): (f32, f32), marked: bool) {
    let steps = match palette {
        Palette::Ascii => ASCII.len(),
        Palette::Shades => SHADES.len(),
        Palette::Colors => COLORS.len(),
    };
    // Equal values have no range to divide by; all heads get the coldest colour.
    let share = if high > low { (value - low) / (high - low) } else { 0.0 };
    let step = ((share * steps as f32) as usize).min(steps - 1);
    let sign = if marked { mark(palette) } else { ' ' };
    match palette {
        _ if !value.is_finite() => {
            if palette == Palette::Colors {
                out.push_str("\x1b[0m");
            }
            out.push('?');
            out.push(sign);
        }
        Palette::Ascii => out.extend([ASCII[step], sign]),
        Palette::Shades => out.extend([SHADES[step], sign]),
        Palette::Colors => {
            let ink = if step > BRIGHT { 16 } else { 231 };
            let ground = COLORS[step];
            let _ = write!(out, "\x1b[38;5;{ink};48;5;{ground}m {sign}");
        }
    }
}

const ASCII: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '%', '@'];
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// The mark of a retrieval head.
fn mark(palette: Palette) -> char {
    match palette {
        Palette::Ascii => '!',
        Palette::Shades | Palette::Colors => '•',
    }
}

fn trim_end(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
}

impl HeadProfile {
    /// Heat maps of the profile's scores, or of the flags where it has none, with the retrieval heads marked.
    /// In a map of query heads all query heads of a retrieval KV head are marked. Of the shares of rows, those are drawn
    /// where 30 % of all rows stay.
    pub fn heatmaps(&self, palette: Palette) -> String {
        let shape = self.shape();
        let flags: Vec<f32> = self.retrieval().iter().map(|&keeps| f32::from(u8::from(keeps))).collect();
        let bare = ScoreMap { name: "retrieval".to_owned(), per: ScoresPer::KvHead, values: flags };
        let shares = self.measured_row_shares(DRAWN_SHARE);
        let mut maps: Vec<&ScoreMap> = self.scores().iter().chain(shares).collect();
        if maps.is_empty() {
            maps.push(&bare);
        }
        let mut out = match palette {
            Palette::Colors => "A cell is a head; the warmer, the higher its score\n".to_owned(),
            Palette::Ascii | Palette::Shades => {
                "A sign is a head; the darker, the higher its score\n".to_owned()
            }
        };
        for map in maps {
            out.push('\n');
            let (of, each) = match map.per {
                ScoresPer::QueryHead => ("query heads", shape.group()),
                ScoresPer::KvHead => ("KV heads", 1),
            };
            let marks: Vec<bool> =
                self.retrieval().iter().flat_map(|&keeps| std::iter::repeat_n(keeps, each)).collect();
            let title = match shares.is_some_and(|shares| std::ptr::eq(shares, map)) {
                true => format!("share of rows kept by {of}, where {} % of all stay", 100.0 * DRAWN_SHARE),
                false => format!("{} of {of}", map.name),
            };
            let heatmap = Heatmap {
                title: &title,
                columns: shape.columns(map.per),
                values: &map.values,
                marks: &marks,
            };
            out.push_str(&heatmap.render(palette));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::{HeadShape, Provenance};

    #[test]
    fn a_small_map_is_drawn() {
        let heatmap = Heatmap {
            title: "induction",
            columns: 5,
            values: &[0.0, 0.5, 1.0, f32::NAN, 0.2, 0.0, 0.0, 0.0, 0.0, 0.99],
            marks: &[false, false, true, false, false, false, false, false, false, true],
        };
        assert_eq!(
            heatmap.render(Palette::Ascii),
            "induction: 2 x 5, 0.000 to 1.000; 2 keep everything, marked !\n\
             layer 0       4\n\
             \x20   0   = @!? .\n\
             \x20   1         @!\n"
        );
        assert_eq!(heatmap.render(Palette::Shades).lines().nth(2), Some("    0   ▒ █•? ░"));
        let colors = heatmap.render(Palette::Colors);
        let last = colors.lines().last().unwrap();
        assert!(last.ends_with("\x1b[38;5;16;48;5;226m •\x1b[0m"), "{last:?}");
    }

    #[test]
    fn equal_negative_and_missing_values_are_drawn() {
        for values in [&[][..], &[0.0, 0.0], &[-1.0, -1.0, -3.0], &[f32::NAN]] {
            let heatmap = Heatmap { title: "t", columns: 2, values, marks: &[] };
            let text = heatmap.render(Palette::Ascii);
            assert_eq!(text.lines().count(), 2 + values.len().div_ceil(2));
        }
    }

    #[test]
    fn every_query_head_of_a_retrieval_kv_head_is_marked() {
        let shape = HeadShape::new(2, 4, 2).unwrap();
        let scores =
            vec![ScoreMap { name: "induction".to_owned(), per: ScoresPer::QueryHead, values: vec![0.0; 8] }];
        let flags = vec![false, true, false, false];
        let profile = HeadProfile::new(shape, flags, scores, Provenance::default()).unwrap();
        assert_eq!(profile.heatmaps(Palette::Ascii).lines().nth(4), Some("    0      ! !"));
        let bare = HeadProfile::uniform(shape, true).heatmaps(Palette::Ascii);
        assert_eq!(bare.lines().nth(5), Some("    1 @!@!"));
    }
}
