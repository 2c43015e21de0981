//! RTF: paragraphs, lists, tables, notes and fields. Lists carry their numbers as text.

mod reader;
mod tokens;

use std::collections::HashMap;

use encoding_rs::{
    BIG5, EUC_KR, Encoding, GBK, MACINTOSH, SHIFT_JIS, WINDOWS_874, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252,
    WINDOWS_1253, WINDOWS_1254, WINDOWS_1255, WINDOWS_1256, WINDOWS_1257, WINDOWS_1258,
};

use self::reader::Reader;
use self::tokens::Tokens;
use crate::{Converted, Note, Problem};

/// Converts a document.
///
/// # Errors
/// It has more than `max_bytes` of text.
pub(crate) fn convert(bytes: &[u8], max_bytes: u64) -> Result<Converted, Problem> {
    let mut reader = Reader::default();
    for token in Tokens::new(bytes) {
        reader.token(token);
        if reader.len() as u64 > max_bytes {
            return Err(Problem::TooLong { limit: max_bytes });
        }
    }
    let incomplete = reader.is_open().then_some(Note::Incomplete);
    let (text, counts) = reader.finish();
    let notes = incomplete.into_iter().chain(counts.notes()).collect();
    Ok(Converted { text, notes, ..Converted::default() })
}

/// A font: its name, and the encoding of its bytes.
#[derive(Clone, Debug, Default)]
struct Font {
    name: String,
    encoding: Option<&'static Encoding>,
}

type Fonts = HashMap<i32, Font>;

/// The encoding of a character set of fonts.
fn of_charset(number: i32) -> Option<&'static Encoding> {
    Some(match number {
        0 => WINDOWS_1252,
        77 => MACINTOSH,
        128 => SHIFT_JIS,
        129 | 130 => EUC_KR,
        134 => GBK,
        136 => BIG5,
        161 => WINDOWS_1253,
        162 => WINDOWS_1254,
        163 => WINDOWS_1258,
        177 => WINDOWS_1255,
        178 => WINDOWS_1256,
        186 => WINDOWS_1257,
        204 => WINDOWS_1251,
        222 => WINDOWS_874,
        238 => WINDOWS_1250,
        _ => return None,
    })
}
