//! Tables of codes (CMaps) that fonts name and the interpreter has. At a code that is not in its table the interpreter goes on
//! one byte later, and would read halves of codes as others. So all codes of several bytes that an encoding may have are added
//! to its table, as codes of no character; to one with codes of two bytes only, all of these. The interpreter offers no way to
//! change a table, so they are added in its own format: segments with their kind, their length, and numbers in network order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hayro_interpret::hayro_cmap::{CMapName, load_embedded};

/// Tables of the characters of collections that the fonts of a document may have. The interpreter keeps one of about a megabyte
/// for each font.
const MAX_TABLES: usize = 650;

/// In place of an encoding that is not known, or of one table of characters too many: no code of two bytes has a character.
/// Without a table the interpreter would read codes of one byte, or leave out the text of a font, and nobody would know.
const UNKNOWN: &[u8] = b"1 beginnotdefrange <0000> <ffff> 0 endnotdefrange";

/// The first segment of a table, and the first byte of what a segment has.
const FIRST_SEGMENT: usize = 10;
const SEGMENT_HEAD: usize = 5;
/// Kinds of segments: the name of a table whose codes this one has, too, codes of no character, codes that may be.
const BASE: u8 = 0x09;
const NO_CHARACTER: u8 = 0x0a;
const POSSIBLE: u8 = 0x0c;
/// Codes of two bytes below are control characters, of which tables say that they are spaces.
const FIRST_CODE: u32 = 0x20;

/// The tables that the fonts of a document have.
#[derive(Debug)]
pub(in crate::pdf) struct Tables {
    left: AtomicUsize,
}

impl Tables {
    pub(super) fn new() -> Tables {
        Tables { left: AtomicUsize::new(MAX_TABLES) }
    }

    /// A table by its name for one more font.
    pub(in crate::pdf) fn table(&self, name: CMapName<'_>) -> Option<&'static [u8]> {
        let one_less = |left: usize| left.checked_sub(1);
        if is_of_characters(&name)
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
        {
            return Some(UNKNOWN);
        }
        table(name)
    }
}

/// Whether a table says which characters the glyphs of a collection are. The others say which glyphs codes are.
fn is_of_characters(name: &CMapName<'_>) -> bool {
    use CMapName::{AdobeCns1Ucs2, AdobeGb1Ucs2, AdobeJapan1Ucs2, AdobeKorea1Ucs2};
    matches!(name, AdobeCns1Ucs2 | AdobeGb1Ucs2 | AdobeJapan1Ucs2 | AdobeKorea1Ucs2)
}

fn table(name: CMapName<'_>) -> Option<&'static [u8]> {
    match name {
        CMapName::Custom(name) => (name.ends_with(b"-H") || name.ends_with(b"-V")).then_some(UNKNOWN),
        name if is_of_characters(&name) => load_embedded(name),
        name => load_embedded(name).map(complete),
    }
}

/// A table with all codes. It is made once and kept as long as the program runs, as those of the interpreter are.
fn complete(table: &'static [u8]) -> &'static [u8] {
    static COMPLETE: Mutex<BTreeMap<usize, &'static [u8]>> = Mutex::new(BTreeMap::new());
    let mut complete = COMPLETE.lock().unwrap_or_else(PoisonError::into_inner);
    complete.entry(table.as_ptr().addr()).or_insert_with(|| match with_all_codes(table) {
        Some(table) => Box::leak(table.into_boxed_slice()),
        None => table,
    })
}

/// Adds codes to a table; not to one with a base, which has them.
fn with_all_codes(table: &[u8]) -> Option<Vec<u8>> {
    let mut possible = Vec::new();
    let mut rest = table.get(FIRST_SEGMENT..)?;
    while let [kind, a, b, c, d, ..] = *rest {
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let segment = rest.get(SEGMENT_HEAD..length)?;
        match kind {
            BASE => return None,
            POSSIBLE => possible.extend(ranges(segment)?),
            _ => {}
        }
        rest = &rest[length..];
    }
    if possible.iter().all(|range| matches!(range, Range::Two(..))) {
        possible = vec![Range::Two([0, 0], [0xff, 0xff])];
    }
    let mut complete = table.to_vec();
    for range in possible {
        range.add_to(&mut complete)?;
    }
    let length = u32::try_from(complete.len()).ok()?;
    complete.get_mut(FIRST_SEGMENT - 4..FIRST_SEGMENT)?.copy_from_slice(&length.to_be_bytes());
    Some(complete)
}

/// A range of codes, by its first and its last one. One of two bytes has the columns between theirs in each of its rows.
enum Range {
    Two([u8; 2], [u8; 2]),
    Four([u8; 4], [u8; 4]),
    Other,
}

/// The ranges of codes in a segment that says which may be: their width, first and last code.
fn ranges(segment: &[u8]) -> Option<Vec<Range>> {
    let mut ranges = Vec::new();
    let mut rest = segment.get(1..)?;
    while let Some((&width, codes)) = rest.split_first() {
        let width = usize::from(width);
        let (first, last) = (codes.get(..width)?, codes.get(width..2 * width)?);
        rest = &codes[2 * width..];
        ranges.push(match (first, last) {
            (&[a, b], &[c, d]) => Range::Two([a, b], [c, d]),
            (&[a, b, c, d], &[e, f, g, h]) => Range::Four([a, b, c, d], [e, f, g, h]),
            _ => Range::Other,
        });
    }
    Some(ranges)
}

impl Range {
    /// Adds its codes to a table.
    fn add_to(&self, complete: &mut Vec<u8>) -> Option<()> {
        match *self {
            // Codes of four bytes may begin like some between two rows.
            Range::Two([first_row, first], [last_row, last]) => {
                let row = |row: u8| {
                    let code = |column| u32::from_be_bytes([0, 0, row, column]);
                    [code(first).max(FIRST_CODE), code(last)]
                };
                add_segment(2, &(first_row..=last_row).map(row).collect::<Vec<_>>(), complete)
            }
            Range::Four(first, last) => add_segment(4, &[[first, last].map(u32::from_be_bytes)], complete),
            Range::Other => Some(()),
        }
    }
}

/// Adds a segment with ranges of codes of no character.
fn add_segment(width: usize, ranges: &[[u32; 2]], complete: &mut Vec<u8>) -> Option<()> {
    let mut segment = vec![u8::try_from(width).ok()?];
    segment.extend(u16::try_from(ranges.len()).ok()?.to_be_bytes());
    for range in ranges {
        range.iter().for_each(|code| segment.extend(&code.to_be_bytes()[4 - width..]));
        segment.extend([0, 0]);
    }
    complete.push(NO_CHARACTER);
    complete.extend(u32::try_from(SEGMENT_HEAD + segment.len()).ok()?.to_be_bytes());
    complete.extend(segment);
    Some(())
}

#[cfg(test)]
mod tests {
    use hayro_interpret::hayro_cmap::CMap;

    use super::*;

    /// Codes that a table has keep their characters, and others have none.
    #[test]
    fn tables_have_all_codes() {
        for (name, first, unknown) in [
            (&b"90ms-RKSJ-H"[..], (0x889f, 2), (0xf040, 2)),
            (b"90ms-RKSJ-V", (0x889f, 2), (0xf040, 2)),
            (b"GBK-EUC-H", (0xb0a1, 2), (0xfefe, 2)),
            (b"GBK2K-H", (0x8139_ef30, 4), (0xfe39_fe39, 4)),
            (b"ETen-B5-H", (0xa440, 2), (0xfefe, 2)),
            (b"KSCms-UHC-H", (0xb0a1, 2), (0xfefe, 2)),
            (b"UniGB-UCS2-H", (0x4e00, 2), (0x2713, 2)),
            (b"UniJIS-UCS2-H", (0x4e00, 2), (0xd842, 2)),
            (b"H", (0x467c, 2), (0x0041, 2)),
            (b"UniJIS-UTF16-H", (0xd842_dfb7, 4), (0xd83d_de00, 4)),
        ] {
            let name = CMapName::from_bytes(name);
            let read = |table: &'static [u8]| CMap::parse(table, super::table).expect("a table");
            let complete = read(table(name).expect("a name"));
            let cid = |(code, width)| complete.lookup_cid_code(code, width);
            assert!(cid(first).is_some_and(|cid| cid > 0), "{name:?}");
            assert_eq!(cid(unknown), Some(0), "{name:?}");
            let own = read(load_embedded(name).expect("a name"));
            for code in 0..=0xffff {
                let known = [1, 2].map(|width| own.lookup_cid_code(code, width));
                let now = [1, 2].map(|width| complete.lookup_cid_code(code, width));
                let is_kept =
                    known.iter().zip(now).all(|(known, now)| known.is_none_or(|known| now == Some(known)));
                assert!(is_kept, "{name:?} {code:x}");
            }
            assert_eq!(complete.metadata().name, own.metadata().name);
        }
        assert_eq!(table(CMapName::Custom(b"78-RKSJ-H")), Some(UNKNOWN));
        assert_eq!(table(CMapName::Custom(b"WinAnsiEncoding")), None);
    }

    #[test]
    fn so_many_tables_are_for_a_document() {
        let tables = Tables::new();
        let is_known = |name| tables.table(name).is_some_and(|table| table != UNKNOWN);
        assert!((0..MAX_TABLES).all(|_| is_known(CMapName::H) && is_known(CMapName::AdobeGb1Ucs2)));
        assert_eq!(tables.table(CMapName::AdobeGb1Ucs2), Some(UNKNOWN));
        assert!(is_known(CMapName::H), "codes of an encoding are not read as others");
    }
}
