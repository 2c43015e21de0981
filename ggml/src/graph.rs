//! Compute graphs and the memory of their intermediate tensors.

use std::collections::HashSet;
use std::ffi::CStr;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use ggml_sys as sys;

use crate::budget::Charge;
use crate::context::{self, Access, ContextAccess, GraphParts, add_access};
use crate::recording::DeviceRecording;
use crate::selection::Selection;
use crate::{BufferType, Context, Error, Tensor, running};

/// Operations in execution order. The intermediates have no memory yet: see [`GraphAllocator`].
pub struct Graph {
    raw: NonNull<sys::ggml_cgraph>,
    pub(crate) context: Arc<context::Inner>,
    /// The graph's context and those of its operands, sorted by address: what a computation locks.
    contexts: Vec<ContextAccess>,
    parts: GraphParts,
    /// The numbers of the nodes of each stage.
    stages: Vec<Range<i32>>,
    /// Every kind of memory that its tensors lie in, with a tensor that does. Empty before it has memory.
    memory_types: Vec<(BufferType, NonNull<sys::ggml_tensor>)>,
}

// SAFETY: the graph and the tensors that it points to lie in the context's arena and are accessed under
// the context's lock.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Context {
    /// The graph that computes `results` (and everything they depend on), or the first mistake made while the
    /// operations were recorded. A context holds one graph.
    pub fn graph(&self, results: &[&Tensor]) -> Result<Graph, Error> {
        let mut state = self.inner.write();
        state.check()?;
        let capacity = self.inner.capacity;
        let nodes = Context::graph_nodes(capacity);
        if state.foreign_operands + capacity > nodes || state.has_graph {
            return Err(Error::ContextFull { capacity });
        }
        if results.iter().any(|tensor| !Arc::ptr_eq(&tensor.context, &self.inner)) {
            return Err(Error::Operands { op: "graph", inputs: "a foreign context's tensor".into() });
        }
        let selections = state.parts.selections.iter().map(|selection| &selection.numbers);
        for selection in selections.chain(&state.parts.rankings) {
            let selection = self.inner.handle(*selection);
            if state
                .parts
                .written
                .iter()
                .any(|written| self.inner.handle(*written).root() == selection.root())
            {
                return Err(Error::Overlap { op: "get_rows", tensor: selection.locked_name() });
            }
        }
        state.has_graph = true;
        // SAFETY: `Context::new` reserved room for one graph of this size; every node belongs to this
        // context, which is locked, and every leaf to it or was counted as a foreign operand. ggml changes
        // nodes and unnamed leaves; no leaf is unnamed.
        let raw = unsafe {
            let raw = sys::ggml_new_graph_custom(self.inner.raw.as_ptr(), nodes, false);
            let mut visited = HashSet::new();
            for result in results {
                expand(raw, result.raw.as_ptr(), &mut visited);
            }
            raw
        };
        let raw = NonNull::new(raw).expect("room was reserved");
        let mut contexts = state.foreign.clone();
        add_access(&mut contexts, &self.inner, Access::Write);
        let mut graph = Graph {
            raw,
            context: self.inner.clone(),
            contexts,
            parts: std::mem::take(&mut state.parts),
            stages: Vec::new(),
            memory_types: Vec::new(),
        };
        graph.divide()?;
        Ok(graph)
    }
}

/// The operands of a node.
pub(crate) fn operands(node: &Tensor) -> impl Iterator<Item = NonNull<sys::ggml_tensor>> + use<> {
    // SAFETY: a field of a live descriptor that never changes; operands that are not set are null.
    unsafe { (*node.raw.as_ptr()).src }.into_iter().filter_map(NonNull::new)
}

/// Adds a result and what it depends on to a graph, in the order of ggml's recursion: operands first. ggml is
/// given one tensor at a time, because its recursion would exhaust the stack on a long chain of operations.
///
/// # Safety
/// The graph has room for all of them, and all are live.
unsafe fn expand(
    graph: *mut sys::ggml_cgraph,
    result: *mut sys::ggml_tensor,
    visited: &mut HashSet<*mut sys::ggml_tensor>,
) {
    // Tensors that are being visited, with the number of the operand that is next.
    let mut path = if visited.insert(result) { vec![(result, 0)] } else { vec![] };
    while let Some((tensor, operand)) = path.last_mut() {
        // SAFETY: the caller's promise; operands that are not set are null.
        let operands = unsafe { (**tensor).src };
        if let Some(source) = operands.get(*operand) {
            *operand += 1;
            if !source.is_null() && visited.insert(*source) {
                path.push((*source, 0));
            }
        } else {
            // SAFETY: the caller's promise.
            unsafe { sys::ggml_build_forward_expand(graph, *tensor) };
            path.pop();
        }
    }
}

impl Graph {
    /// Every kind of memory that the tensors of the graph, which have memory, lie in, with a tensor that does.
    /// The caller holds a lock on the context.
    fn find_memory_types(&self) -> Vec<(BufferType, NonNull<sys::ggml_tensor>)> {
        let mut types: Vec<(BufferType, NonNull<sys::ggml_tensor>)> = Vec::new();
        for node in self.nodes(self.all()) {
            for raw in operands(&node).chain([node.raw]) {
                let tensor = self.context.handle(raw);
                if let Some(ty) = tensor.memory_type()
                    && types.iter().all(|(found, _)| found.raw() != ty.raw())
                {
                    types.push((ty, raw));
                }
            }
        }
        types
    }

    /// The last use of each selection whose memory the allocator may give to later nodes. The caller holds a lock on
    /// the context, and the graph has no memory yet.
    fn last_uses(&self) -> Vec<Option<i32>> {
        let last_use = |selection: &Selection| {
            let root = self.context.handle(selection.numbers).root();
            let uses = |node: &Tensor| {
                node.root() == root || operands(node).any(|raw| self.context.handle(raw).root() == root)
            };
            // Other tensors have memory of their own.
            let is_reused = self.context.handle(root).is_unplaced_leaf();
            is_reused.then(|| {
                let uses = (0..).zip(self.nodes(self.all())).filter(|(_, node)| uses(node));
                uses.last().map_or(0, |(number, _)| number)
            })
        };
        self.parts.selections.iter().map(last_use).collect()
    }

    /// Divides the nodes into stages, each of which ends with a result of [`Context::exchange`]; the last one ends
    /// with the graph. The caller holds a lock on the context.
    ///
    /// # Errors
    /// Where a stage relies on a ranking of an earlier one: the caller could change it between the two.
    fn divide(&mut self) -> Result<(), Error> {
        // SAFETY: live graph.
        let count = unsafe { sys::ggml_graph_n_nodes(self.raw.as_ptr()) };
        let nodes: Vec<Tensor> = self.nodes(0..count).collect();
        let exchanges: HashSet<_> = self.parts.exchanges.iter().copied().collect();
        let mut first = 0;
        for (end, node) in (1..).zip(&nodes) {
            if end == count || exchanges.contains(&node.raw) {
                self.stages.push(first..end);
                first = end;
            }
        }
        if self.stages.is_empty() {
            self.stages.push(0..count); // no nodes
        }
        if self.stages.len() == 1 {
            return Ok(());
        }
        let rankings: HashSet<_> = self.parts.rankings.iter().copied().collect();
        for stage in &self.stages {
            let mut computed = HashSet::new();
            for node in self.nodes(stage.clone()) {
                // A copy to another type is an operand of itself.
                for raw in operands(&node).filter(|raw| *raw != node.raw && rankings.contains(raw)) {
                    let ranking = self.context.handle(raw);
                    if !computed.contains(&ranking.root()) {
                        return Err(Error::Operands {
                            op: "exchange",
                            inputs: format!("between the ranking {} and its use", ranking.locked_name()),
                        });
                    }
                }
                computed.insert(node.raw);
            }
        }
        Ok(())
    }

    /// The nodes of these numbers, in order. The caller holds a lock on the context.
    pub(crate) fn nodes(&self, numbers: Range<i32>) -> impl Iterator<Item = Tensor> {
        numbers.filter_map(|number| {
            // SAFETY: the number of a node.
            let raw = unsafe { sys::ggml_graph_node(self.raw.as_ptr(), number) };
            Some(self.context.handle(NonNull::new(raw)?))
        })
    }

    /// Checks that a backend can compute all of the graph, which need not have memory yet.
    pub(crate) fn check_all_operations(
        &self,
        backend: NonNull<sys::ggml_backend>,
        has_own: bool,
    ) -> Result<(), Error> {
        let _state = self.context.read();
        self.check_operations(self.all(), backend, has_own)
    }

    /// Checks that a backend can compute the nodes of these numbers, operations of our own only if it `has_own` ones. The
    /// caller holds a lock on the context.
    fn check_operations(
        &self,
        numbers: Range<i32>,
        backend: NonNull<sys::ggml_backend>,
        has_own: bool,
    ) -> Result<(), Error> {
        for node in self.nodes(numbers) {
            // SAFETY: a live backend and a node of the live graph. Custom operations are not ggml's.
            let (op, supported) = unsafe {
                let op = (*node.raw.as_ptr()).op;
                let supported = match op {
                    sys::GGML_OP_CUSTOM => has_own,
                    _ => sys::ggml_backend_supports_op(backend.as_ptr(), node.raw.as_ptr()),
                };
                (op, supported)
            };
            if !supported {
                // SAFETY: a static string.
                let op = unsafe { CStr::from_ptr(sys::ggml_op_name(op)) }.to_string_lossy().into_owned();
                return Err(Error::Unsupported { backend: name_of(backend), op, tensor: node.locked_name() });
            }
        }
        Ok(())
    }

    /// The numbers of all nodes.
    pub(crate) fn all(&self) -> Range<i32> {
        0..self.stages.last().map_or(0, |stage| stage.end)
    }
}

/// The name of a live backend.
fn name_of(backend: NonNull<sys::ggml_backend>) -> String {
    // SAFETY: a live backend; its name is a static string.
    let name = unsafe { CStr::from_ptr(sys::ggml_backend_name(backend.as_ptr())) };
    name.to_string_lossy().into_owned()
}

/// The nodes of a graph that are computed.
pub(crate) struct GraphNodes {
    pub(crate) raw: NonNull<sys::ggml_cgraph>,
    pub(crate) numbers: Range<i32>,
}

/// Memory for the intermediates of one graph at a time.
pub struct GraphAllocator {
    memory: Arc<Memory>,
}

/// What an allocator shares with its graphs.
pub(crate) struct Memory {
    raw: NonNull<sys::ggml_gallocr>,
    buffer_type: BufferType,
    state: RwLock<MemoryState>,
}

// SAFETY: ggml's allocator is changed only under the exclusive lock on `state`, and binds nothing to a
// thread.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

#[derive(Default)]
pub(crate) struct MemoryState {
    /// Number of the graph that has the memory.
    generation: u64,
    charge: Option<Charge>,
}

impl Memory {
    /// Keeps the memory as it is, for the graph of this generation; an error if another graph has it.
    pub(crate) fn lock(&self, generation: u64) -> Result<RwLockReadGuard<'_, MemoryState>, Error> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.generation == generation { Ok(state) } else { Err(Error::StaleGraph) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A GPU that failed computes nothing any more.
        let _ = running::wait_for(&self.buffer_type);
        // SAFETY: owned, freed once; ready graphs hold this Arc.
        unsafe { sys::ggml_gallocr_free(self.raw.as_ptr()) };
    }
}

/// A graph with memory, or a stage of it, ready to be computed any number of times. It goes stale when its
/// allocator serves another graph.
pub struct ReadyGraph {
    graph: Arc<Graph>,
    /// The numbers of the nodes that are computed.
    nodes: Range<i32>,
    /// Which of the graph's selections of rows are operands of these nodes.
    selections: Vec<usize>,
    /// Number of the backend that was found to support all operations; 0 at first.
    checked_for: AtomicU64,
    /// What a device has recorded of it.
    pub(crate) recording: DeviceRecording,
    /// What servers keep of it.
    #[cfg(feature = "rpc")]
    pub(crate) repeated: crate::rpc::RepeatedGraph,
}

impl GraphAllocator {
    /// An allocator of memory of the given kind.
    pub fn new(buffer_type: &BufferType) -> GraphAllocator {
        // SAFETY: static buffer type.
        let raw = unsafe { sys::ggml_gallocr_new(buffer_type.raw()) };
        let raw = NonNull::new(raw).expect("ggml aborts when a few bytes cannot be had");
        let memory = Memory { raw, buffer_type: buffer_type.clone(), state: RwLock::default() };
        GraphAllocator { memory: Arc::new(memory) }
    }

    /// Bytes that `graph` needs for its intermediates; allocates nothing.
    pub fn measure(&self, graph: &Graph) -> usize {
        let _state = graph.context.read();
        self.measure_locked(graph)
    }

    /// As [`GraphAllocator::measure`], for callers that hold a lock on the graph's context.
    fn measure_locked(&self, graph: &Graph) -> usize {
        let mut bytes = 0usize;
        // SAFETY: a fresh allocator with one buffer type writes one size; the graph is live and is only read.
        unsafe {
            let raw = sys::ggml_gallocr_new(self.memory.buffer_type.raw());
            sys::ggml_gallocr_reserve_n_size(
                raw,
                graph.raw.as_ptr(),
                std::ptr::null(),
                std::ptr::null(),
                &mut bytes,
            );
            sys::ggml_gallocr_free(raw);
        }
        bytes
    }

    /// Gives memory to the graph's intermediates. Earlier graphs of this allocator become stale.
    pub fn prepare(&mut self, mut graph: Graph) -> Result<ReadyGraph, Error> {
        let context = graph.context.write();
        if context.unallocated {
            return Err(Error::NotAllocated("a graph made for measuring".into()));
        }
        let mut written = graph.parts.written.iter().map(|raw| graph.context.handle(*raw));
        if let Some(target) = written.find(Tensor::is_read_only) {
            return Err(Error::ReadOnly(target.locked_name()));
        }
        if self.memory.buffer_type.is_repacked() {
            return Err(Error::Repacked { tensor: "a compute buffer".into(), access: "placed in" });
        }
        let mut memory = self.memory.state.write().unwrap_or_else(PoisonError::into_inner);
        memory.generation += 1;
        let buffer_type = &self.memory.buffer_type;
        if buffer_type.is_bounded() || running::uses(buffer_type) {
            let needed = self.measure_locked(&graph);
            if needed > self.held_bytes() {
                // ggml frees the old memory.
                running::wait_for(buffer_type)?;
                let mut charge = memory.charge.take().or_else(|| buffer_type.empty_charge());
                let resized = charge
                    .as_mut()
                    .map_or(Ok(()), |charge| charge.resize(needed, "compute buffers", || buffer_type.name()));
                memory.charge = charge;
                resized?;
            }
        }
        let last_uses = graph.last_uses();
        // SAFETY: live allocator and graph, both locked exclusively. Leaves of other contexts have memory and
        // are only read. A failed reservation is reported as false.
        let allocated =
            unsafe { sys::ggml_gallocr_alloc_graph(self.memory.raw.as_ptr(), graph.raw.as_ptr()) };
        if !allocated {
            // ggml has freed the old memory.
            memory.charge = None;
            self.memory.buffer_type.check_lost()?;
            return Err(Error::OutOfMemory {
                what: "compute buffers".into(),
                bytes: self.measure_locked(&graph),
                device: self.memory.buffer_type.name(),
            });
        }
        let memory_types = graph.find_memory_types();
        let set = graph.context.memory.set((self.memory.clone(), memory.generation));
        debug_assert!(set.is_ok(), "a context has one graph");
        drop((memory, context));
        graph.memory_types = memory_types;
        for (selection, last_use) in graph.parts.selections.iter_mut().zip(last_uses) {
            selection.last_use = last_use;
        }
        for (raw, bytes) in graph.parts.constants.drain(..) {
            let constant = graph.context.handle(raw);
            if constant.is_allocated() {
                constant.write(0, &bytes)?;
            }
        }
        let nodes = graph.all();
        Ok(ReadyGraph::new(Arc::new(graph), nodes))
    }

    /// Bytes held now.
    pub fn bytes(&self) -> usize {
        let _state = self.memory.state.read().unwrap_or_else(PoisonError::into_inner);
        self.held_bytes()
    }

    /// As [`GraphAllocator::bytes`], for callers that hold a lock on the memory.
    fn held_bytes(&self) -> usize {
        // SAFETY: live allocator with one buffer.
        unsafe { sys::ggml_gallocr_get_buffer_size(self.memory.raw.as_ptr(), 0) }
    }
}

impl ReadyGraph {
    fn new(graph: Arc<Graph>, nodes: Range<i32>) -> ReadyGraph {
        let state = graph.context.read();
        let recording = DeviceRecording::new(graph.nodes(nodes.clone()));
        let operands: HashSet<_> = graph.nodes(nodes.clone()).flat_map(|node| operands(&node)).collect();
        let selections = graph.parts.selections.iter().enumerate();
        let selections = selections.filter(|(_, selection)| operands.contains(&selection.numbers));
        let selections = selections.map(|(number, _)| number).collect();
        drop(state);
        ReadyGraph {
            graph,
            nodes,
            selections,
            checked_for: AtomicU64::new(0),
            recording,
            #[cfg(feature = "rpc")]
            repeated: Default::default(),
        }
    }

    /// The stages of the graph, which are computed one after the other. There is one more than results of
    /// [`Context::exchange`], in whose order they are. What a stage computes is there for the next ones.
    pub fn into_stages(self) -> Vec<ReadyGraph> {
        let stages = self.graph.stages.iter();
        stages.map(|nodes| ReadyGraph::new(self.graph.clone(), nodes.clone())).collect()
    }

    /// The node called `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<Tensor> {
        let _state = self.graph.context.read();
        self.graph.nodes(self.nodes.clone()).find(|node| node.locked_name() == name)
    }

    /// All nodes, in order. Where a node is no [`Tensor::output`], later nodes may have reused its memory.
    pub fn nodes(&self) -> Vec<Tensor> {
        let _state = self.graph.context.read();
        self.graph.nodes(self.nodes.clone()).collect()
    }

    /// Whether a GPU has recorded what it launches, and repeats that.
    pub fn is_recorded(&self) -> bool {
        self.recording.is_recorded()
    }

    /// Calls `compute` with the graph while everything that it reads and writes is locked. An error if it is
    /// stale, or selects rows that are not there, or if a custom operation failed.
    pub(crate) fn with_locks(
        &self,
        compute: impl FnOnce(&GraphNodes, &GraphParts) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _contexts = context::lock_all(&self.graph.contexts);
        let _memory = self.graph.context.lock_graph_memory()?;
        self.check_selections()?;
        self.graph.context.failure.take(); // of a computation that was interrupted
        compute(&GraphNodes { raw: self.graph.raw, numbers: self.nodes.clone() }, &self.graph.parts)?;
        self.graph.context.failure.take().map_or(Ok(()), |problem| Err(Error::Failed(problem)))
    }

    /// Checks the numbers of rows that are selected from tables, and forgets what is known of numbers that the
    /// computation may write over (see [`selection`](crate::selection)). The caller holds the locks.
    fn check_selections(&self) -> Result<(), Error> {
        let GraphParts { selections, overwritten, .. } = &self.graph.parts;
        for selection in self.selections.iter().map(|number| &selections[*number]) {
            selection.check(&self.graph.context.handle(selection.numbers))?;
        }
        let is_over = |selection: &&Selection| selection.last_use.is_some_and(|last| last < self.nodes.end);
        selections.iter().filter(is_over).for_each(|selection| selection.bound.forget());
        overwritten.iter().for_each(|bound| bound.forget());
        Ok(())
    }

    /// Checks that a backend, `number`, reaches the graph's memory and can compute its operations, which are of our own only
    /// if it `has_own` ones. The caller holds the locks.
    pub(crate) fn check_backend(
        &self,
        backend: NonNull<sys::ggml_backend>,
        number: u64,
        has_own: bool,
    ) -> Result<(), Error> {
        if self.checked_for.load(Ordering::Relaxed) == number {
            return Ok(());
        }
        for (memory, raw) in &self.graph.memory_types {
            // SAFETY: a live backend and a static type.
            if !unsafe { sys::ggml_backend_supports_buft(backend.as_ptr(), memory.raw()) } {
                let tensor = self.graph.context.handle(*raw);
                return Err(Error::Unreachable {
                    backend: name_of(backend),
                    tensor: tensor.locked_name(),
                    memory: memory.name(),
                });
            }
        }
        self.graph.check_operations(self.nodes.clone(), backend, has_own)?;
        self.checked_for.store(number, Ordering::Relaxed);
        Ok(())
    }
}
