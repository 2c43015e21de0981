//! Merges long words in blocks, so that they take little memory. The result is that of merging the whole.
//!
//! Both kinds of vocabulary merge two neighbouring pieces at a time: those of the best rank first, and of
//! equally good ones the leftmost. This has two consequences.
//!
//! 1. If no merge of a word crosses a place, then what is merged on either side does not depend on the other
//!    side. So if merging a word gives some pieces, merging the text of some neighbouring ones of them gives
//!    the same pieces again.
//! 2. Let each of some pieces be the result of merging its own text, and each pair of neighbours the result of
//!    merging the pair's text. Then all together are the result of merging the whole text. For assume that a
//!    merge crosses the border of two neighbours, and take the first that crosses any border. Until then the
//!    merges within the two were those that happen if the pair's text is merged alone, so the same merge
//!    crosses the border there. But it does not.
//!
//! So a block is merged without what is before it, and then only the neighbours at the seam are looked at. If
//! they are merged when they meet, the pieces around the seam are merged again, and more of them until they
//! fit. They usually fit at once. A block begins with the last pieces of the one before, which are the ones
//! that its end has cut.

use super::TokenizerError;

/// How a vocabulary merges.
pub(super) trait Merger {
    /// Appends the pieces of `text`, which is not empty.
    ///
    /// # Errors
    /// The text cannot be encoded.
    fn merge(&self, text: &str, pieces: &mut Vec<u32>) -> Result<(), TokenizerError>;

    /// Appends the text of a piece.
    fn push_text(&self, piece: u32, out: &mut String);
}

/// For so many bytes of a block, a piece before it is merged again with it. Tests have short words.
const BYTES_PER_PIECE: usize = if cfg!(test) { 4 } else { 1 << 10 };

/// Appends a block to a word: `pieces[first..]` are those of the word so far and become those of both.
///
/// # Errors
/// The block cannot be encoded.
pub(super) fn append_block(
    merger: &impl Merger,
    first: usize,
    block: &str,
    pieces: &mut Vec<u32>,
) -> Result<(), TokenizerError> {
    if pieces.len() == first {
        return merger.merge(block, pieces);
    }
    let mut text = String::new();
    let cut = pieces.len().saturating_sub(block.len() / BYTES_PER_PIECE).max(first + 1);
    pieces.drain(cut..).for_each(|piece| merger.push_text(piece, &mut text));
    text.push_str(block);
    let mut added = Vec::new();
    merger.merge(&text, &mut added)?;

    let mut merged = |some: &[u32]| {
        text.clear();
        some.iter().for_each(|&piece| merger.push_text(piece, &mut text));
        let mut pieces = Vec::new();
        merger.merge(&text, &mut pieces)?;
        Ok(pieces)
    };
    // How many pieces before and after the seam are merged again.
    let (mut before, mut after) = (1, 1);
    loop {
        let start = pieces.len() - before;
        let around = merged(&[&pieces[start..], &added[..after]].concat())?;
        let mut fit = |left: Option<&u32>, right: Option<&u32>| match (left, right) {
            (Some(&left), Some(&right)) => Ok(merged(&[left, right])? == [left, right]),
            _ => Ok(true),
        };
        let fits_before = fit(pieces[first..start].last(), around.first())?;
        let fits_after = fit(around.last(), added.get(after))?;
        if fits_before && fits_after {
            pieces.truncate(start);
            pieces.extend(around);
            pieces.extend_from_slice(&added[after..]);
            return Ok(());
        }
        if !fits_before {
            before = (2 * before).min(pieces.len() - first);
        }
        if !fits_after {
            after = (2 * after).min(added.len());
        }
    }
}
