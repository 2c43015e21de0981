//! CSV and other tables with separators.

use csv::{ReaderBuilder, Trim};

use super::decode;
use crate::writer::{Span, Writer};
use crate::{Converted, Note, Problem};

/// Signs between the values of a row, the likeliest first.
const SEPARATORS: &[u8] = b",;\t|";
/// The separator is looked for in so many rows.
const SAMPLE_ROWS: usize = 50;

/// Converts a table. A text without a separator stays as it is.
///
/// # Errors
/// It is not text, or longer than `max_bytes`.
pub(crate) fn convert(bytes: &[u8], max_bytes: u64) -> Result<Converted, Problem> {
    let converted = decode::text(bytes)?;
    // Excel may name the separator.
    let (named, text) = match converted.text.strip_prefix("sep=").and_then(|rest| rest.split_once('\n')) {
        Some((sign, rest)) => (sign.trim_end_matches('\r').bytes().next(), rest),
        None => (None, converted.text.as_str()),
    };
    // A mark that is not closed would take all that follows into its cell.
    let is_quoted = text.matches('"').count().is_multiple_of(2);
    let Some(separator) = named.or_else(|| separator(text, is_quoted)) else { return Ok(converted) };
    let mut notes = converted.notes;
    if !is_quoted {
        notes.push(Note::OpenQuote);
    }
    let mut writer = Writer::default();
    writer.begin_table();
    for record in reader(text, separator, is_quoted).records() {
        let record = record.map_err(|error| Problem::Damaged { what: error.to_string() })?;
        writer.row();
        for value in &record {
            writer.cell(Span::ONE);
            writer.text(value);
        }
        if writer.len() as u64 > max_bytes {
            return Err(Problem::TooLong { limit: max_bytes });
        }
    }
    Ok(Converted { text: writer.finish(), notes, ..Converted::default() })
}

fn reader(text: &str, separator: u8, is_quoted: bool) -> csv::Reader<&[u8]> {
    let mut builder = ReaderBuilder::new();
    builder.delimiter(separator).has_headers(false).flexible(true).trim(Trim::All).quoting(is_quoted);
    builder.from_reader(text.as_bytes())
}

/// The sign that divides most rows into equally many values.
fn separator(text: &str, is_quoted: bool) -> Option<u8> {
    let score = |separator: u8| {
        let rows = reader(text, separator, is_quoted).into_records().take(SAMPLE_ROWS);
        let widths: Vec<usize> = rows.filter_map(|row| row.ok().map(|row| row.len())).collect();
        let first = widths.first().copied().unwrap_or(0);
        let alike = widths.iter().filter(|width| **width == first).count();
        // A comma in a sentence divides some rows only.
        (first > 1 && alike * 4 >= widths.len() * 3).then_some(alike * first.min(100))
    };
    let scored: Vec<(usize, u8)> =
        SEPARATORS.iter().filter_map(|sign| score(*sign).map(|score| (score, *sign))).collect();
    let others = match scored.as_slice() {
        [(_, b','), others @ ..] => others,
        all => all,
    };
    let best_of = |scored: &[(usize, u8)]| {
        let best = scored.iter().copied().reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, sign)| sign)
    };
    let (best, other) = (best_of(&scored), best_of(others));
    other.filter(|other| best == Some(b',') && has_decimal_commas(text, *other, is_quoted)).or(best)
}

/// Whether all commas below the first row, which may have names, are those of decimal numbers, if this sign divides the rows.
fn has_decimal_commas(text: &str, separator: u8, is_quoted: bool) -> bool {
    let rows: Vec<_> =
        reader(text, separator, is_quoted).into_records().take(SAMPLE_ROWS).flatten().collect();
    let below_first = if rows.len() > 1 { &rows[1..] } else { &rows };
    // A sign that only ends the rows divides nothing.
    below_first.iter().any(|row| row.get(1).is_some_and(|value| !value.is_empty()))
        && below_first.iter().flatten().all(|value| !value.contains(',') || is_decimal(value))
}

/// Whether a value is a number with one comma.
fn is_decimal(value: &str) -> bool {
    let value = value.trim();
    let Some((whole, decimals)) = value.trim_start_matches(['-', '+']).split_once(',') else { return false };
    whole.starts_with(|sign: char| sign.is_ascii_digit())
        && whole.chars().all(|sign| sign.is_ascii_digit() || sign == '.')
        && !decimals.is_empty()
        && decimals.bytes().all(|digit| digit.is_ascii_digit())
}
