//! A context: the memory of tensor descriptors and of the operations recorded on them, and the lock that
//! guards it.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ggml_sys as sys;

use crate::custom::{Failure, Launch};
use crate::error::describe;
use crate::graph::{Memory, MemoryState};
use crate::selection::{Bound, Bounds, Selection, has_numbers};
use crate::{BufferType, Error, Shape, Tensor, Type, buffer};

/// Maximum number of tensors of a context.
const MAX_TENSORS: usize = 1 << 20;

/// Owner of tensor descriptors. Cloning shares it.
#[derive(Clone)]
pub struct Context {
    pub(crate) inner: Arc<Inner>,
}

/// What the handles of a context share. The lock guards all of it that changes:
///
/// - The arena, and the changing fields of the descriptors in it: name, flags, address and buffer. Type,
///   extents, strides, operands and the source of a view never change after a tensor was made and are read
///   without the lock. A leaf that has a buffer never changes at all, and only such leaves can be operands in
///   other contexts: those may read its descriptor without the lock.
/// - The data of the tensors. Memory that can be written belongs to the tensors of one context.
///
/// Several contexts are locked in the order of their addresses, and before the memory of a graph allocator.
pub(crate) struct Inner {
    pub(crate) raw: NonNull<sys::ggml_context>,
    pub(crate) capacity: usize,
    /// The allocator that the graph's intermediates have their memory from, and its generation then.
    pub(crate) memory: OnceLock<(Arc<Memory>, u64)>,
    /// What went wrong in a custom operation of the graph that was computed last.
    pub(crate) failure: Arc<Failure>,
    /// What is known of the numbers in its tensors.
    pub(crate) bounds: Bounds,
    state: RwLock<ContextState>,
}

// SAFETY: ggml binds no context to a thread. What changes is changed only under the exclusive lock and read
// only under a lock, see above; the pointers in `state` point into the arena.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

#[derive(Default)]
pub(crate) struct ContextState {
    tensors: usize,
    /// Number of operands that belong to other contexts; bounds the graph's number of leaves.
    pub(crate) foreign_operands: usize,
    /// The contexts of those operands, sorted by address.
    pub(crate) foreign: Vec<ContextAccess>,
    /// The context of each of those operands: of views of them, this context does not tell.
    owners: HashMap<NonNull<sys::ggml_tensor>, Arc<Inner>>,
    /// Buffers that tensors lie in and closures of operations: they live as long as this context.
    keep: Vec<Arc<dyn Any + Send + Sync>>,
    error: Option<Error>,
    pub(crate) parts: GraphParts,
    /// Whether some tensor is marked as unallocated, so that nothing here may be computed.
    pub(crate) unallocated: bool,
    /// Whether the one graph that there is room for was made.
    pub(crate) has_graph: bool,
}

/// What the graph of a context takes over when it is made.
#[derive(Default)]
pub(crate) struct GraphParts {
    /// Device implementations of the custom operations.
    pub(crate) launches: HashMap<NonNull<sys::ggml_tensor>, Launch>,
    /// Contents of [`Context::constant`]s.
    pub(crate) constants: Vec<(NonNull<sys::ggml_tensor>, Vec<u8>)>,
    /// The operands that operations write to.
    pub(crate) written: Vec<NonNull<sys::ggml_tensor>>,
    /// The bounds of the numbers in those operands, which a computation makes unknown.
    pub(crate) overwritten: Vec<Arc<Bound>>,
    /// The operands that select rows of tables.
    pub(crate) selections: Vec<Selection>,
    /// The operands that are numbers of a ranking, which are in range as long as nothing else writes to them.
    pub(crate) rankings: Vec<NonNull<sys::ggml_tensor>>,
    /// The results of [`Context::exchange`], each of which ends a stage.
    pub(crate) exchanges: Vec<NonNull<sys::ggml_tensor>>,
}

/// How a computation uses the data of a context's tensors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A context and how a computation uses its data.
#[derive(Clone)]
pub(crate) struct ContextAccess {
    context: Arc<Inner>,
    access: Access,
}

/// An operand of an operation, and what the operation does with it.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// It is only read.
    Read(&'a Tensor),
    /// It is read and written. It may not lie in read-only memory, nor share memory with another operand.
    Write(&'a Tensor),
}

impl<'a> Operand<'a> {
    /// The operand itself.
    pub(crate) fn tensor(self) -> &'a Tensor {
        match self {
            Operand::Read(tensor) | Operand::Write(tensor) => tensor,
        }
    }
}

/// A held lock of a context.
pub(crate) enum Guard<'a> {
    Read { _state: RwLockReadGuard<'a, ContextState> },
    Write { _state: RwLockWriteGuard<'a, ContextState> },
}

/// Adds a context to a list sorted by address, or raises its access.
pub(crate) fn add_access(list: &mut Vec<ContextAccess>, context: &Arc<Inner>, access: Access) {
    match list.binary_search_by_key(&Arc::as_ptr(context), |entry| Arc::as_ptr(&entry.context)) {
        Ok(found) => list[found].access = list[found].access.max(access),
        Err(place) => list.insert(place, ContextAccess { context: context.clone(), access }),
    }
}

/// Locks the contexts of a list sorted by address.
pub(crate) fn lock_all(list: &[ContextAccess]) -> Vec<Guard<'_>> {
    list.iter()
        .map(|entry| match entry.access {
            Access::Read => Guard::Read { _state: entry.context.read() },
            Access::Write => Guard::Write { _state: entry.context.write() },
        })
        .collect()
}

impl Inner {
    /// A handle of one of this context's tensors.
    pub(crate) fn handle(self: &Arc<Inner>, raw: NonNull<sys::ggml_tensor>) -> Tensor {
        Tensor { raw, context: self.clone() }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, ContextState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, ContextState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the memory of the graph's intermediates as it is, if there is any; an error if the allocator has
    /// served another graph.
    pub(crate) fn lock_graph_memory(&self) -> Result<Option<RwLockReadGuard<'_, MemoryState>>, Error> {
        self.memory.get().map(|(memory, generation)| memory.lock(*generation)).transpose()
    }

    /// As [`Inner::lock_graph_memory`], for two contexts. The same memory is locked once: a second lock could wait for a
    /// writer that waits for this thread.
    pub(crate) fn lock_graph_memory_of<'a>(
        &'a self,
        other: &'a Inner,
    ) -> Result<[Option<RwLockReadGuard<'a, MemoryState>>; 2], Error> {
        match (self.memory.get(), other.memory.get()) {
            (Some((memory, generation)), Some((same, of_other))) if Arc::ptr_eq(memory, same) => {
                if generation != of_other {
                    return Err(Error::StaleGraph);
                }
                Ok([Some(memory.lock(*generation)?), None])
            }
            _ => Ok([self.lock_graph_memory()?, other.lock_graph_memory()?]),
        }
    }

    /// The context whose memory a tensor of this context lies in, if it is another one's.
    pub(crate) fn owner_of(&self, tensor: &Tensor) -> Option<Arc<Inner>> {
        self.read().owners.get(&tensor.root()).cloned()
    }

    /// This context and those of its operands, all with `access`, sorted by address.
    pub(crate) fn with_operands(self: &Arc<Inner>, access: Access) -> Vec<ContextAccess> {
        let mut list = self.read().foreign.clone();
        list.iter_mut().for_each(|entry| entry.access = access);
        add_access(&mut list, self, access);
        list
    }

    /// This context, to be written, and `other`, to be read, with the operands of both, sorted by address.
    pub(crate) fn with_operands_of(self: &Arc<Inner>, other: &Arc<Inner>) -> Vec<ContextAccess> {
        let mut list = self.with_operands(Access::Write);
        for entry in other.with_operands(Access::Read) {
            add_access(&mut list, &entry.context, entry.access);
        }
        list
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: created by ggml_init, freed once; no tensor outlives it, each holds this Arc.
        unsafe { sys::ggml_free(self.raw.as_ptr()) };
    }
}

impl ContextState {
    /// The first mistake made while recording, if any.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Keeps `object` alive as long as the context.
    pub(crate) fn keep(&mut self, object: Arc<dyn Any + Send + Sync>) {
        self.keep.push(object);
    }
}

impl Context {
    /// A context for at most `capacity` tensors (operations and views included). With more than a million,
    /// [`Context::graph`] and [`Context::allocate`] fail: no memory is taken for so many.
    pub fn new(capacity: usize) -> Context {
        crate::listen();
        let too_large = (capacity > MAX_TENSORS).then_some(Error::ContextFull { capacity: MAX_TENSORS });
        let capacity = if too_large.is_some() { 1 } else { capacity + 1 };
        // SAFETY: plain size queries.
        let bytes = unsafe {
            capacity * sys::ggml_tensor_overhead()
                + sys::ggml_graph_overhead_custom(Self::graph_nodes(capacity), false)
        };
        let params =
            sys::ggml_init_params { mem_size: bytes, mem_buffer: std::ptr::null_mut(), no_alloc: true };
        // SAFETY: ggml allocates the arena itself; it aborts when a few KB cannot be had.
        let raw = unsafe { sys::ggml_init(params) };
        let raw = NonNull::new(raw).expect("ggml_init allocates or aborts");
        let context = Context {
            inner: Arc::new(Inner {
                raw,
                capacity,
                memory: OnceLock::new(),
                failure: Arc::default(),
                bounds: Bounds::default(),
                state: RwLock::default(),
            }),
        };
        context.tensor(Type::F32, [1]); // what failed operations return; always the first tensor
        context.inner.write().error = too_large;
        context
    }

    pub(crate) fn graph_nodes(capacity: usize) -> usize {
        4 * capacity + 16
    }

    /// A new tensor without memory.
    pub fn tensor(&self, ty: Type, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let fits = shape.bytes(ty).is_some();
        self.record("tensor", &[(ty.name(), shape)], &[], fits, |raw| {
            let dims = shape.0.map(|n| n as i64);
            // SAFETY: four dimensions are passed and the row is a whole number of blocks. The name keeps ggml
            // from naming the tensor when it becomes a leaf of another context's graph, which would be a
            // change without this context's lock.
            unsafe {
                let tensor = sys::ggml_new_tensor(raw, ty.raw(), 4, dims.as_ptr());
                sys::ggml_set_name(tensor, c"tensor".as_ptr())
            }
        })
    }

    /// A new tensor that the caller fills before each computation.
    pub fn input(&self, name: &str, ty: Type, shape: impl Into<Shape>) -> Tensor {
        let tensor = self.tensor(ty, shape).named(name);
        // SAFETY: sets a flag of a live descriptor.
        tensor.change(|raw| unsafe { sys::ggml_set_input(raw) })
    }

    /// A tensor `[n]` of fixed numbers, n at least 1. They are written when the graph is given memory.
    pub fn constant(&self, numbers: &[i32]) -> Tensor {
        self.constant_of(Type::I32, numbers.iter().flat_map(|number| number.to_ne_bytes()).collect())
    }

    /// As [`Context::constant`], of type f32.
    pub fn constant_f32(&self, numbers: &[f32]) -> Tensor {
        self.constant_of(Type::F32, numbers.iter().flat_map(|number| number.to_ne_bytes()).collect())
    }

    /// A tensor of fixed bytes, 4 for each number.
    fn constant_of(&self, ty: Type, bytes: Vec<u8>) -> Tensor {
        // An output too, so that no later operation reuses the memory: the graph may be computed again.
        let tensor = self.input("constant", ty, [bytes.len() / 4]).output();
        self.inner.write().parts.constants.push((tensor.raw, bytes));
        tensor
    }

    /// Gives memory of type `ty` to every tensor of this context that has none. Returns the bytes allocated,
    /// 0 if every tensor has memory already.
    pub fn allocate(&self, ty: &BufferType) -> Result<usize, Error> {
        let mut state = self.inner.write();
        state.check()?;
        let _memory = self.inner.lock_graph_memory()?;
        if state.unallocated {
            return Err(Error::NotAllocated("a context made for measuring".into()));
        }
        if ty.is_repacked() {
            self.check_matrices(ty)?;
        }
        // SAFETY: context and buffer type are live, and this context is locked. Views read the address of
        // their source, which is in this context or never changes.
        let bytes =
            unsafe { sys::ggml_backend_alloc_ctx_tensors_from_buft_size(self.inner.raw.as_ptr(), ty.raw()) };
        if bytes == 0 {
            return Ok(0);
        }
        let charge = ty.charge("tensors", bytes)?;
        // SAFETY: as above; returns null on failure.
        let raw = unsafe { sys::ggml_backend_alloc_ctx_tensors_from_buft(self.inner.raw.as_ptr(), ty.raw()) };
        let Some(buffer) = buffer::Inner::new(raw, charge) else {
            ty.check_lost()?;
            return Err(Error::OutOfMemory { what: "tensors".into(), bytes, device: ty.name() });
        };
        let buffer = Arc::new(buffer);
        // Tensors name it, also where its server was lost meanwhile.
        state.keep(buffer.clone());
        ty.check_lost()?;
        ty.fill(&buffer);
        Ok(buffer.bytes())
    }

    /// An error if a tensor without memory is no matrix, or matrices, that `ty` can hold. The caller holds the lock.
    fn check_matrices(&self, ty: &BufferType) -> Result<(), Error> {
        // SAFETY: a live context, which is locked. The first tensor is the one that failed operations return.
        let next = |last: Option<NonNull<_>>| unsafe {
            NonNull::new(match last {
                None => sys::ggml_get_first_tensor(self.inner.raw.as_ptr()),
                Some(last) => sys::ggml_get_next_tensor(self.inner.raw.as_ptr(), last.as_ptr()),
            })
        };
        let mut last = next(None);
        while let Some(raw) = last.and_then(|last| next(Some(last))) {
            last = Some(raw);
            let tensor = self.inner.handle(raw);
            let [n_in, n_out, n2, n3] = tensor.shape().0;
            let matrices = tensor.is_unplaced_leaf() && n3 == 1;
            if !tensor.has_data() && (!matrices || !ty.accepts_matrices(tensor.ty(), [n_in, n_out, n2])) {
                return Err(Error::Repacked { tensor: tensor.locked_name(), access: "given" });
            }
        }
        Ok(())
    }

    /// Stores a mistake that was found while a custom operation was built. As after every mistake,
    /// [`Context::graph`] returns the first one, and the result can only be passed on.
    pub fn refuse(&self, op: &'static str, problem: String) -> Tensor {
        self.inner.write().error.get_or_insert(Error::Unfit { op, problem });
        self.placeholder()
    }

    /// What failed operations return.
    fn placeholder(&self) -> Tensor {
        // SAFETY: the context is live and its first tensor, which never changes, was made by `new`.
        let raw = unsafe { sys::ggml_get_first_tensor(self.inner.raw.as_ptr()) };
        self.inner.handle(NonNull::new(raw).expect("made by Context::new"))
    }

    /// The first mistake made while recording, if any.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.inner.read().check()
    }

    /// Records an operation: checks it, calls `make`, and keeps alive what the operands refer to.
    pub(crate) fn record(
        &self,
        op: &'static str,
        operands: &[(&str, Shape)],
        inputs: &[Operand],
        fits: bool,
        make: impl FnOnce(*mut sys::ggml_context) -> *mut sys::ggml_tensor,
    ) -> Tensor {
        let mut error = (!fits).then(|| Error::Operands { op, inputs: describe(operands) });
        let written = |input: &&Operand| matches!(input, Operand::Write(_));
        for (number, target) in inputs.iter().enumerate().filter(|(_, input)| written(input)) {
            let mut others = inputs.iter().enumerate().filter(|(other, _)| *other != number);
            let target = target.tensor();
            if others.any(|(_, other)| other.tensor().overlaps(target)) {
                error.get_or_insert_with(|| Error::Overlap { op, tensor: target.name() });
            }
        }
        // Contexts of operands are locked one after the other; what is found there stays true.
        let (mut foreign, mut unallocated) = (Vec::new(), false);
        for input in inputs.iter().map(|input| input.tensor()) {
            if Arc::ptr_eq(&input.context, &self.inner) {
                continue;
            }
            let state = input.context.read();
            if input.context.memory.get().is_some() || !input.is_placed_leaf() {
                error.get_or_insert_with(|| Error::ForeignOperand { op, tensor: input.locked_name() });
            }
            unallocated |= state.unallocated;
            foreign.push(input);
        }

        let mut state = self.inner.write();
        if state.tensors >= self.inner.capacity {
            error.get_or_insert(Error::ContextFull { capacity: self.inner.capacity });
        }
        if state.error.is_none() {
            state.error = error;
        }
        if state.error.is_some() {
            drop(state);
            return self.placeholder();
        }
        state.unallocated |= unallocated;
        state.foreign_operands += foreign.len();
        for input in foreign {
            add_access(&mut state.foreign, &input.context, Access::Read);
            state.owners.insert(input.raw, input.context.clone());
        }
        for target in inputs.iter().filter(written).map(|input| input.tensor()) {
            // A view's memory may be another context's.
            let owner = state.owners.get(&target.root()).cloned();
            if let Some(owner) = &owner {
                add_access(&mut state.foreign, owner, Access::Write);
            }
            if has_numbers(&target.context.handle(target.root())) {
                let bounds = owner.as_ref().map_or(&self.inner.bounds, |owner| &owner.bounds);
                state.parts.overwritten.push(bounds.of(target.root()));
            }
            state.parts.written.push(target.raw);
        }
        let raw = NonNull::new(make(self.inner.raw.as_ptr())).expect("ggml returns a tensor or aborts");
        state.tensors += 1;
        self.inner.handle(raw)
    }

    /// Remembers that the graph selects rows of a table of `rows` rows by the numbers in `numbers`, an operand.
    pub(crate) fn select(&self, numbers: &Tensor, rows: usize) {
        let mut state = self.inner.write();
        if state.error.is_none() {
            let owner = state.owners.get(&numbers.root()).cloned();
            let bound = owner.as_ref().unwrap_or(&self.inner).bounds.of(numbers.root());
            state.parts.selections.push(Selection { numbers: numbers.raw, rows, bound, last_use: None });
        }
    }

    /// As [`Context::record`] for an operation that only reads its operands, which the inputs describe.
    pub(crate) fn op(
        &self,
        op: &'static str,
        inputs: &[&Tensor],
        fits: bool,
        make: impl FnOnce(*mut sys::ggml_context) -> *mut sys::ggml_tensor,
    ) -> Tensor {
        let inputs: Vec<Operand> = inputs.iter().map(|&input| Operand::Read(input)).collect();
        self.op_using(op, &inputs, fits, make)
    }

    /// As [`Context::op`], with how each operand is used.
    pub(crate) fn op_using(
        &self,
        op: &'static str,
        inputs: &[Operand],
        fits: bool,
        make: impl FnOnce(*mut sys::ggml_context) -> *mut sys::ggml_tensor,
    ) -> Tensor {
        let describe = |input: &Operand| (input.tensor().ty().name(), input.tensor().shape());
        let operands: Vec<(&str, Shape)> = inputs.iter().map(describe).collect();
        self.record(op, &operands, inputs, fits, make)
    }
}

impl Tensor {
    /// The same tensor with a name, for messages and for [`ReadyGraph::find`](crate::ReadyGraph::find). An
    /// empty name is ignored, and a leaf that has memory keeps its name.
    pub fn named(self, name: &str) -> Tensor {
        let name: String = name.chars().filter(|c| *c != '\0').collect();
        match CString::new(name) {
            // SAFETY: live descriptor, NUL-terminated name; ggml truncates to its own limit.
            Ok(name) if !name.is_empty() => self.change(|raw| unsafe {
                sys::ggml_set_name(raw, name.as_ptr());
            }),
            _ => self,
        }
    }

    /// Marks the tensor as a result: its memory is not reused by later operations of the graph.
    pub fn output(self) -> Tensor {
        // SAFETY: sets a flag of a live descriptor.
        self.change(|raw| unsafe { sys::ggml_set_output(raw) })
    }

    /// Changes the descriptor, unless other contexts may read it without a lock.
    pub(crate) fn change(self, change: impl FnOnce(*mut sys::ggml_tensor)) -> Tensor {
        let state = self.context.write();
        if !self.is_placed_leaf() {
            change(self.raw.as_ptr());
        }
        drop(state);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two contexts with views of one tensor are computed at the same time unless both only read it.
    #[test]
    fn a_write_through_a_view_locks_the_context_of_the_memory() {
        let memory = Context::new(2);
        let [read, written] = [(); 2].map(|()| memory.tensor(Type::F32, [4]));
        memory.allocate(&BufferType::cpu()).expect("memory");
        let context = Context::new(8);
        let x = context.reshape(&read, [2, 2]);
        let access = || context.inner.read().foreign.iter().map(|entry| entry.access).collect::<Vec<_>>();
        context.scale(&x, 2.0);
        assert!(access() == [Access::Read]);
        context.copy(&x, &context.reshape(&written, [2, 2]));
        assert!(access() == [Access::Write]);
        assert!(context.check().is_ok());
    }
}
