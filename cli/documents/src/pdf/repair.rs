//! Content that the interpreter would read only to a mistake: it stops at a sign that begins nothing, at too many operands,
//! and at a path whose operands are missing. What is wrong becomes spaces, so that the text behind it is read.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use hayro_interpret::hayro_syntax::content::{Instruction, UntypedIter};
use hayro_interpret::hayro_syntax::object::Object;

/// Operands that the interpreter takes.
const MAX_OPERANDS: usize = 10;
/// Mistakes of a content that are mended. One with more is made to take long.
const MAX_MISTAKES: usize = 200;
/// Bytes of a content that are looked at, as a multiple of its length. Each operand that does not end costs all that follows.
const MAX_LENGTHS: usize = 4;
/// So many are looked at in any case.
const MIN_LOOKED_AT: usize = 1 << 20;
/// Arrays and dictionaries in operands.
const MAX_DEPTH: usize = 32;
/// Operators that set colours. With fewer operands than the colour has, they mean nothing.
const COLORS: [&[u8]; 4] = [b"sc", b"scn", b"SC", b"SCN"];

/// What was done to a content: whether it is another one, and whether text of it may be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Mended {
    pub(super) is_changed: bool,
    pub(super) is_lost: bool,
}

/// Mends a content.
pub(super) fn mend(content: &mut Cow<'_, [u8]>) -> Mended {
    let (mut start, mut mended) = (0, Mended::default());
    let mut left = content.len().saturating_mul(MAX_LENGTHS).max(MIN_LOOKED_AT);
    for _ in 0..MAX_MISTAKES {
        let Some(mistake) = first_mistake(&content[start..]) else { return mended };
        let looked_at = if mistake.is_loss { content.len() - start } else { mistake.place.end };
        match left.checked_sub(looked_at) {
            Some(less) => left = less,
            None => break,
        }
        mended = Mended { is_changed: true, is_lost: mended.is_lost || mistake.is_loss };
        let place = start + mistake.place.start..start + mistake.place.end;
        content.to_mut()[place].fill(b' ');
        start += mistake.resume;
    }
    mended.is_lost |= first_mistake(&content[start..]).is_some();
    mended
}

/// What the interpreter stops at.
#[derive(Debug, PartialEq)]
struct Mistake {
    place: Range<usize>,
    /// Whether it may be text.
    is_loss: bool,
    /// Content up to here is right.
    resume: usize,
}

/// The first mistake of a content, if it has one.
fn first_mistake(content: &[u8]) -> Option<Mistake> {
    let (mut instructions, mut end) = (UntypedIter::new(content), 0);
    while let Some(instruction) = instructions.next() {
        let after = end_of(&instruction, content).unwrap_or(end).max(end);
        if !has_operands(&instruction) {
            return Some(Mistake { place: end..after, is_loss: false, resume: after });
        }
        end = after;
    }
    let (place, is_loss) = unreadable(&content[end..])?;
    Some(Mistake { place: end + place.start..end + place.end, is_loss, resume: end })
}

/// Whether a part of a path has its numbers. The interpreter passes over other instructions without their operands.
fn has_operands(instruction: &Instruction<'_, '_>) -> bool {
    let needed = match &**instruction.operator {
        b"m" | b"l" => 2,
        b"v" | b"y" | b"re" => 4,
        b"c" => 6,
        _ => return true,
    };
    let operands: Vec<_> = instruction.operands().collect();
    let numbers = operands.iter().rev().take(needed);
    operands.len() >= needed && numbers.into_iter().all(|operand| matches!(operand, Object::Number(_)))
}

/// Where an instruction ends in a content.
fn end_of(instruction: &Instruction<'_, '_>, content: &[u8]) -> Option<usize> {
    let end = |part: &[u8]| {
        let at = (part.as_ptr() as usize).checked_sub(content.as_ptr() as usize)?;
        Some(at + part.len()).filter(|end| *end <= content.len())
    };
    let operator = end(instruction.operator)?;
    // A picture stands behind its operator, and before the sign of its end.
    let picture = instruction.operands().find_map(|operand| match operand {
        Object::Stream(picture) => match picture.raw_data() {
            Cow::Borrowed(data) => end(data),
            Cow::Owned(_) => None,
        },
        _ => None,
    });
    match picture.filter(|picture| *picture > operator) {
        Some(picture) => Some((picture + 2).min(content.len())),
        None => Some(operator),
    }
}

/// What cannot be read of a content that begins behind an operator, and whether it may be text.
fn unreadable(content: &[u8]) -> Option<(Range<usize>, bool)> {
    // Where the first operand begins, and the last ones that the interpreter would take.
    let (mut first_operand, mut last) = (None, VecDeque::new());
    let mut has_too_many = false;
    let mut at = skip_space(content, 0);
    while let Some(first) = content.get(at) {
        let end = match first {
            b'/' | b'(' | b'[' | b'<' | b'.' | b'+' | b'-' | b'0'..=b'9' => {
                match skip_operand(content, at, 0) {
                    Some(end) => end,
                    None => return Some((at..line_end(content, at), true)),
                }
            }
            byte if is_regular(*byte) => {
                let end = skip_regular(content, at);
                let first = first_operand.unwrap_or(at);
                return Some(match last.front() {
                    Some(kept) if has_too_many && !COLORS.contains(&&content[at..end]) => {
                        (first..*kept, false)
                    }
                    // Without too many, something else is wrong with an operand.
                    _ => (first..end, !has_too_many),
                });
            }
            // A sign that ends what has not begun.
            _ => return Some((at..at + 1, false)),
        };
        first_operand.get_or_insert(at);
        last.push_back(at);
        if last.len() > MAX_OPERANDS {
            last.pop_front();
            has_too_many = true;
        }
        at = skip_space(content, end);
    }
    None
}

/// White space (ISO 32000-1, 7.2.2).
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 0xc | b'\r' | b' ')
}

/// Whether a byte is of a name or an operator: another one ends it.
pub(super) fn is_regular(byte: u8) -> bool {
    !is_space(byte) && !b"()<>[]{}/%".contains(&byte)
}

fn skip_regular(content: &[u8], at: usize) -> usize {
    at + content[at..].iter().take_while(|byte| is_regular(**byte)).count()
}

fn line_end(content: &[u8], at: usize) -> usize {
    at + content[at..].iter().take_while(|byte| !matches!(byte, b'\r' | b'\n')).count()
}

/// Where white space and comments end.
fn skip_space(content: &[u8], mut at: usize) -> usize {
    while let Some(byte) = content.get(at) {
        match byte {
            b'%' => at = line_end(content, at),
            byte if is_space(*byte) => at += 1,
            _ => break,
        }
    }
    at
}

/// Where an operand ends; `None` if it does not.
fn skip_operand(content: &[u8], at: usize, depth: usize) -> Option<usize> {
    let rest = content.get(at..)?;
    match rest.first()? {
        b'/' => Some(skip_regular(content, at + 1)),
        b'(' => {
            let (mut open, mut is_escaped) = (0usize, false);
            for (i, byte) in rest.iter().enumerate() {
                match byte {
                    _ if std::mem::take(&mut is_escaped) => {}
                    b'\\' => is_escaped = true,
                    b'(' => open += 1,
                    b')' if open == 1 => return Some(at + i + 1),
                    b')' => open -= 1,
                    _ => {}
                }
            }
            None
        }
        b'<' if rest.get(1) != Some(&b'<') => {
            let length = rest.iter().position(|byte| *byte == b'>')?;
            Some(at + length + 1)
        }
        open @ (b'<' | b'[') if depth < MAX_DEPTH => {
            let close: &[u8] = if *open == b'<' { b">>" } else { b"]" };
            let mut at = skip_space(content, at + close.len());
            loop {
                if content.get(at..)?.starts_with(close) {
                    return Some(at + close.len());
                }
                at = skip_space(content, skip_operand(content, at, depth + 1)?);
            }
        }
        byte if is_regular(*byte) => Some(skip_regular(content, at)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, wanted: &str, is_loss: bool) {
        let mut mended = Cow::Borrowed(content.as_bytes());
        let is_changed = content != wanted;
        assert_eq!(mend(&mut mended), Mended { is_changed, is_lost: is_loss }, "{content}");
        assert_eq!(String::from_utf8_lossy(&mended), wanted);
        assert_eq!(first_mistake(&mended), None, "{wanted}");
    }

    #[test]
    fn what_cannot_be_read_becomes_spaces() {
        for right in
            ["", "BT (a) Tj ET", "1 2 m 3 4 l S % }\n(b) Tj", "q 1 2", "BI /W 1 /H 1 ID \u{1}) EI (c) Tj"]
        {
            check(right, right, false);
        }
        check("(a) Tj ) (b) Tj } > ] Tj", "(a) Tj   (b) Tj       Tj", false);
        check("1 m (a) Tj 1 2 3 re (b) Tj", "    (a) Tj          (b) Tj", false);
        check("1 2 3 4 5 6 7 8 9 10 11 12 (a) Tj", "      4 5 6 7 8 9 10 11 12 (a) Tj", false);
        check("1 2 3 4 5 6 7 8 9 10 11 scn (a) Tj", &(" ".repeat(28) + "(a) Tj"), false);
        check("(a) Tj (b Tj\n(c) Tj", "(a) Tj      \n(c) Tj", true);
        check("[(a) (b TJ\r(c) Tj", "          \r(c) Tj", true);
        check("BI /W 1 /H 1 ID x EI ) (c) Tj", "BI /W 1 /H 1 ID x EI   (c) Tj", false);
    }

    #[test]
    fn many_mistakes_end() {
        for part in [")", "1 m ", "( \n", "1 2 3 4 5 6 7 8 9 10 11 x "] {
            let content = part.repeat(20_000);
            let mut mended = Cow::Borrowed(content.as_bytes());
            assert_eq!(mend(&mut mended), Mended { is_changed: true, is_lost: true }, "{part}");
            let changed = content.bytes().zip(mended.iter()).rposition(|(a, b)| a != *b);
            assert!(changed.is_some_and(|last| last < MAX_MISTAKES * part.len()), "{part}: {changed:?}");
        }
        let mut mended = Cow::Owned("< ".repeat(20_000).into_bytes());
        assert_eq!(mend(&mut mended), Mended { is_changed: true, is_lost: true });
        assert!(mended.iter().all(|byte| *byte == b' '));
        // Each is looked for up to the end.
        let content = "( \n".repeat(MIN_LOOKED_AT / 2);
        let mut mended = Cow::Borrowed(content.as_bytes());
        assert!(mend(&mut mended).is_lost);
        let mended = mended.chunks(3).filter(|line| *line == b"  \n").count();
        assert!((1..=MAX_LENGTHS).contains(&mended), "{mended}");
        // The interpreter takes much of the stack for each level.
        for part in ["[ ", "<< "] {
            let _ = mend(&mut Cow::Borrowed(part.repeat(200).as_bytes()));
        }
    }
}
