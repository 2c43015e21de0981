//! Archives whose entries are not where their list says: a program took the file for text, and left out bytes or put some
//! in. The entries that are whole can be read if the list is made right.

use std::collections::HashMap;

use memchr::memmem;

/// How an entry, its line of the list, and the end of the list begin.
const ENTRY: &[u8] = b"PK\x03\x04";
const LINE: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
/// Bytes of a line, of the end and before the name of an entry, without what has no fixed length.
const LINE_BYTES: usize = 46;
const END_BYTES: usize = 22;
const NAME_AT: usize = 30;
/// In larger archives the numbers are elsewhere.
const ELSEWHERE: usize = 0xffff_ffff;

/// The archive with a list that is right; `None` if it is right already, or cannot be made so.
pub(super) fn put_right(archive: &[u8]) -> Option<Vec<u8>> {
    let number = |at: usize, bytes: usize| {
        let bytes = archive.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0usize, |number, byte| number << 8 | usize::from(*byte)))
    };
    let end = memmem::rfind(archive, END).filter(|end| end + END_BYTES <= archive.len())?;
    let (size, written_start) = (number(end + 12, 4)?, number(end + 16, 4)?);
    let start = end.checked_sub(size).filter(|_| written_start != ELSEWHERE)?;
    let mut lines = Vec::new();
    let mut at = start;
    while at < end && archive[at..].starts_with(LINE) {
        let name_bytes = number(at + 28, 2)?;
        let name = archive.get(at + LINE_BYTES..at + LINE_BYTES + name_bytes)?;
        lines.push((at, name, number(at + 42, 4)?));
        at += LINE_BYTES + name_bytes + number(at + 30, 2)? + number(at + 32, 2)?;
    }
    let is_there = |place: usize| archive.get(place..).is_some_and(|entry| entry.starts_with(ENTRY));
    if at != end || (start == written_start && lines.iter().all(|(_, _, place)| is_there(*place))) {
        return None;
    }
    let mut places: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for place in memmem::find_iter(&archive[..start], ENTRY) {
        let name =
            number(place + 26, 2).and_then(|bytes| archive.get(place + NAME_AT..place + NAME_AT + bytes));
        places.entry(name.unwrap_or_default()).or_default().push(place);
    }
    let mut right = archive.to_vec();
    right[end + 16..end + 20].copy_from_slice(&u32::try_from(start).ok()?.to_le_bytes());
    for (line, name, written) in lines {
        let places = places.get(name).map_or(&[][..], Vec::as_slice);
        let behind = places.partition_point(|place| *place < written);
        let around = &places[behind.saturating_sub(1)..places.len().min(behind + 1)];
        let nearest = around.iter().min_by_key(|place| place.abs_diff(written));
        if let Some(place) = nearest {
            right[line + 42..line + 46].copy_from_slice(&u32::try_from(*place).ok()?.to_le_bytes());
        }
    }
    Some(right)
}
