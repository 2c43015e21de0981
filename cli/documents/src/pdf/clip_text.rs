//! Text that is only a shape through which something is painted (rendering mode 7), as headings with a gradient are. The
//! interpreter hands over no glyphs of it, so it is drawn as well (mode 4).

use std::borrow::Cow;

use hayro_interpret::hayro_syntax::content::TypedIter;
use hayro_interpret::hayro_syntax::content::ops::TypedInstruction;
use memchr::memmem;

/// Text is only a shape.
const CLIP: i64 = 7;
/// Text is drawn, and a shape.
const FILL_AND_CLIP: u8 = b'4';

/// Changes a content so that it also draws such text. Returns whether it has such text.
pub(super) fn draw(content: &mut Cow<'_, [u8]>) -> bool {
    let places = places(content);
    // A text may look like the operator.
    let is_found = !places.is_empty() && places.len() == operators(content);
    if is_found {
        let content = content.to_mut();
        places.into_iter().for_each(|at| content[at] = FILL_AND_CLIP);
    }
    is_found
}

/// Where `7 Tr` stands: the places of the number.
fn places(content: &[u8]) -> Vec<usize> {
    let is_apart = |byte: Option<&u8>| {
        byte.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !b".-+'\"*#/".contains(byte))
    };
    memmem::find_iter(content, b"Tr")
        .filter_map(|at| {
            let before = content[..at].trim_ascii_end();
            let number = before.len().checked_sub(1)?;
            let is_it = before.len() < at
                && before[number] == b'7'
                && is_apart(before[..number].last())
                && is_apart(content.get(at + 2));
            is_it.then_some(number)
        })
        .collect()
}

/// How many operators make text such a shape.
fn operators(content: &[u8]) -> usize {
    let mut operators = TypedIter::new(content);
    let mut count = 0;
    while let Some(operator) = operators.next() {
        count += usize::from(
            matches!(operator, TypedInstruction::TextRenderingMode(mode) if mode.0.as_i64() == CLIP),
        );
    }
    count
}
