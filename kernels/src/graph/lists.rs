//! Lists of rows as one operand of a node, for the CPU and for devices: the offset of each list, the end of
//! the last one, then all entries. A list tensor belongs to its graph and is written when the graph gets its
//! memory.

use ggml::{Context, Tensor};

/// Packs lists.
pub(super) fn pack<'a>(ctx: &Context, lists: impl Iterator<Item = &'a [u32]>) -> Tensor {
    let (mut offsets, mut entries) = (vec![0i32], Vec::new());
    for list in lists {
        entries.extend(list.iter().map(|entry| *entry as i32));
        offsets.push(entries.len() as i32);
    }
    offsets.append(&mut entries);
    ctx.constant(&offsets)
}

/// Packed lists, read by a node.
pub(super) struct Lists<'a> {
    numbers: &'a [i32],
    count: usize,
}

impl Lists<'_> {
    /// The `count` lists that [`pack`] made `numbers` of.
    pub(super) fn new(numbers: &[i32], count: usize) -> Lists<'_> {
        Lists { numbers, count }
    }

    /// List `number`.
    pub(super) fn get(&self, number: usize) -> impl ExactSizeIterator<Item = u32> + Clone {
        let entries = &self.numbers[self.count + 1..];
        let range = self.numbers[number] as usize..self.numbers[number + 1] as usize;
        entries[range].iter().map(|entry| *entry as u32)
    }
}
