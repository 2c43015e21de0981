//! Selections: i32 tensors whose numbers select rows of tables ([`Context::get_rows`](crate::Context::get_rows)). ggml
//! aborts on a number without a row on the CPU, and reads other memory on a GPU, so no such number may reach it.
//!
//! The caller writes the numbers, and that is where they are looked at: each selection has a [`Bound`], a number that
//! no element exceeds. Before a computation the bound is compared with the rows of the table. Only where the bound is
//! unknown, or too large for this table, are the numbers read from memory, which may be a device's. A step of decoding
//! writes its tokens before it is computed, so that it never reads them back.
//!
//! # Why a bound is never too low
//! A bound starts as unknown, the largest of all. It belongs to the tensor whose memory it is about (the root of all
//! views of it) and is kept by that tensor's context. It is changed under the lock that guards the data: lowered only
//! together with the data, or after all of it was read. What can change the data, and what becomes of the bound:
//!
//! - [`Tensor::write`], also by a view and also of single bytes: [`Bounds::note_write`] is called with the lock held.
//!   A write of the whole tensor sets the bound, a part can only raise it, and bytes that are no whole numbers make it
//!   unknown. [`Tensor::clear`] and [`Tensor::copy_from`] call it too; what was copied is unknown.
//! - The same by *another* tensor of the same memory: an allocator gives the memory of a selection to later
//!   intermediates of the graph, which the caller may write. `note_write` compares addresses and makes the bound of
//!   every other selection in the way unknown. Memory is never shared by tensors of two contexts, except where it is
//!   read-only, and except where an allocator served both: then the first can neither be written nor computed any more
//!   ([`Error::StaleGraph`](crate::Error::StaleGraph)).
//! - Operations that write to an operand: not within the graph that selects by it ([`Context::graph`](crate::Context::graph)
//!   refuses that). A graph of another context forgets the bound when it is computed
//!   ([`GraphParts::overwritten`](crate::context::GraphParts::overwritten)); it then holds the lock.
//! - Intermediates of the selecting graph, where the allocator reused the memory: only after the last node that uses the
//!   selection or a view of it ([`Selection::last_use`]). What computes this node or a later one forgets the bound, also
//!   if it fails. So where a graph is computed again without new numbers, or its stages in another order, the numbers are
//!   read from memory.
//! - The owner of read-only memory, who promises not to. Such numbers are read before each computation all the same.
//!
//! A tensor never moves: once it has memory, its address stays.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ggml_sys as sys;

use crate::tensor::ByteRange;
use crate::{Error, Tensor, Type};

/// A number that no element of an i32 tensor exceeds, all read as unsigned: negative numbers are the largest.
pub(crate) struct Bound(AtomicU32);

impl Bound {
    /// A bound that says nothing. No table has so many rows.
    pub(crate) const UNKNOWN: u32 = u32::MAX;

    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// The caller holds the lock on the tensor's data, and no element is larger.
    fn set(&self, number: u32) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// Makes the bound unknown.
    pub(crate) fn forget(&self) {
        self.set(Bound::UNKNOWN);
    }
}

/// The bounds of a context's tensors that select rows or that graphs write to, by the tensor whose memory it is.
#[derive(Default)]
pub(crate) struct Bounds(Mutex<HashMap<NonNull<sys::ggml_tensor>, Arc<Bound>>>);

impl Bounds {
    fn lock(&self) -> MutexGuard<'_, HashMap<NonNull<sys::ggml_tensor>, Arc<Bound>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bound of a tensor of this context that is no view; unknown where it is new.
    pub(crate) fn of(&self, root: NonNull<sys::ggml_tensor>) -> Arc<Bound> {
        self.lock().entry(root).or_insert_with(|| Arc::new(Bound(AtomicU32::new(Bound::UNKNOWN)))).clone()
    }

    /// Brings the bounds of this context up to date with a write to a tensor in its memory, whose data is locked.
    /// `largest` is the largest of the numbers that are written.
    pub(crate) fn note_write(&self, tensor: &Tensor, written: ByteRange, largest: impl Fn() -> u32) {
        let (root, data) = (tensor.root(), address(tensor.raw) + written.offset);
        for (other, bound) in self.lock().iter() {
            // SAFETY: a live tensor of a context that is locked.
            let (start, bytes) = (address(*other), unsafe { sys::ggml_nbytes(other.as_ptr()) });
            if start >= data.saturating_add(written.bytes) || data >= start.saturating_add(bytes) {
                continue;
            }
            let number = size_of::<i32>();
            let is_whole = |n: usize| n.is_multiple_of(number);
            if *other != root || !is_whole(data - start) || !is_whole(written.bytes) {
                bound.forget();
            } else if written.bytes == bytes {
                bound.set(largest());
            } else {
                bound.set(bound.get().max(largest()));
            }
        }
    }
}

/// The address of a tensor's data; 0 where it has none. The caller holds a lock on its context.
fn address(raw: NonNull<sys::ggml_tensor>) -> usize {
    // SAFETY: a field of a live descriptor.
    unsafe { (*raw.as_ptr()).data as usize }
}

/// The largest of the numbers in these bytes, read as unsigned i32.
pub(crate) fn largest(bytes: &[u8]) -> u32 {
    bytes.as_chunks().0.iter().map(|number| u32::from_ne_bytes(*number)).max().unwrap_or(0)
}

/// An operand that selects rows of a table.
pub(crate) struct Selection {
    /// A contiguous i32 tensor, or a view of one.
    pub(crate) numbers: NonNull<sys::ggml_tensor>,
    /// Rows of the table.
    pub(crate) rows: usize,
    /// The bound of the tensor that the numbers are in.
    pub(crate) bound: Arc<Bound>,
    /// The number of the last node that uses the numbers, after which their memory may hold something else. `None`
    /// where it is not reused.
    pub(crate) last_use: Option<i32>,
}

impl Selection {
    /// An error if a number has no row. `numbers` is the handle of the operand, which has memory and whose data is
    /// locked.
    pub(crate) fn check(&self, numbers: &Tensor) -> Result<(), Error> {
        if (self.bound.get() as usize) < self.rows {
            return Ok(());
        }
        let mut bytes = vec![0u8; numbers.bytes()];
        numbers.wait()?;
        // SAFETY: a contiguous tensor of so many bytes, which has memory and is locked.
        unsafe {
            let tensor = self.numbers.as_ptr();
            sys::ggml_backend_tensor_get(tensor, bytes.as_mut_ptr().cast(), 0, bytes.len());
        }
        let mut found = bytes.as_chunks().0.iter().map(|number| i32::from_ne_bytes(*number));
        if let Some(row) = found.find(|row| *row < 0 || *row as usize >= self.rows) {
            return Err(Error::Row { tensor: numbers.locked_name(), row, rows: self.rows });
        }
        // SAFETY: the tensor that a live one is a view of, or itself.
        let is_all = unsafe { sys::ggml_nbytes(numbers.root().as_ptr()) } == bytes.len();
        if is_all && !numbers.is_read_only() {
            self.bound.set(largest(&bytes));
        }
        Ok(())
    }
}

/// Whether a tensor may have a bound: it has numbers of rows.
pub(crate) fn has_numbers(tensor: &Tensor) -> bool {
    tensor.ty() == Type::I32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, BufferType, Context, GraphAllocator};

    /// A graph that selects rows by an input, whose memory is then free for the results.
    #[test]
    fn numbers_that_are_written_before_each_computation_are_not_read_back() {
        let backend = Backend::cpu(1).expect("the CPU backend starts");
        let context = Context::new(8);
        let table = context.input("table", Type::F32, [2, 3]);
        let tokens = context.input("tokens", Type::I32, [2]);
        let rows = context.get_rows(&table, &tokens);
        let result = context.scale(&context.scale(&rows, 2.0), 2.0).output();
        let mut allocator = GraphAllocator::new(&backend.buffer_type());
        let graph = allocator.prepare(context.graph(&[&result]).expect("a graph")).expect("memory");
        let bound = || context.inner.bounds.of(tokens.raw).get();
        assert_eq!(bound(), Bound::UNKNOWN);
        table.write(0, &[0f32; 6]).expect("a table");
        for (numbers, largest) in [([1, 2], 2), ([0, 1], 1)] {
            tokens.write(0, &numbers).expect("tokens");
            assert_eq!(bound(), largest, "compared with the rows of the table, without reading the tokens");
            backend.compute(&graph).expect("computes");
            assert_eq!(bound(), Bound::UNKNOWN, "the memory of the tokens may have other numbers now");
        }
    }

    #[test]
    fn a_bound_follows_every_write() {
        let context = Context::new(8);
        let [numbers, other] = [(); 2].map(|()| context.tensor(Type::I32, [4]));
        context.get_rows(&context.tensor(Type::F32, [2, 3]), &numbers);
        context.allocate(&BufferType::cpu()).expect("memory");
        let bound = || context.inner.bounds.of(numbers.raw).get();
        numbers.write(0, &[3, 1, 7, 2]).expect("numbers");
        assert_eq!(bound(), 7);
        numbers.write(4, &[2, 2]).expect("a part");
        assert_eq!(bound(), 7, "it may still be in the other part");
        let last = context.view(&numbers, [1], [0; 3], 12);
        last.write(0, &[9]).expect("a part");
        assert_eq!(bound(), 9);
        other.write(0, &[50; 4]).expect("other memory");
        assert_eq!(bound(), 9);
        last.write(0, &[-1]).expect("a part");
        assert_eq!(bound(), Bound::UNKNOWN);
        numbers.clear().expect("zeros");
        assert_eq!(bound(), 0);
        numbers.write(3, &[1u8]).expect("a byte");
        assert_eq!(bound(), Bound::UNKNOWN);
        numbers.clear().expect("zeros");
        numbers.copy_from(4, &other, 0, 4).expect("a number");
        assert_eq!(bound(), Bound::UNKNOWN);
        numbers.write(0, [3i32, 1, 0, 2].map(i32::to_ne_bytes).as_flattened()).expect("all bytes");
        assert_eq!(bound(), 3);
    }
}
