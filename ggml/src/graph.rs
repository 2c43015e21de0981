//! Compute graphs and the memory of their intermediate tensors.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

use ggml_sys as sys;

use crate::budget::Charge;
use crate::{BufferType, Context, Error, Tensor, context};

/// Operations in execution order. The intermediates have no memory yet: see [`GraphAllocator`].
pub struct Graph {
    raw: NonNull<sys::ggml_cgraph>,
    context: Rc<context::Inner>,
}

impl Context {
    /// The graph that computes `results` (and everything they depend on), or the first mistake made
    /// while the operations were recorded. A context holds one graph.
    pub fn graph(&self, results: &[&Tensor]) -> Result<Graph, Error> {
        self.take_error()?;
        let nodes = Context::graph_nodes(self.inner.capacity);
        if self.inner.external.get() + self.inner.capacity > nodes {
            return Err(Error::ContextFull { capacity: self.inner.capacity });
        }
        if self.inner.has_graph.replace(true) {
            return Err(Error::ContextFull { capacity: self.inner.capacity });
        }
        let foreign = results.iter().any(|tensor| !Rc::ptr_eq(&tensor.context, &self.inner));
        if foreign {
            return Err(Error::Operands { op: "graph", inputs: "a foreign context's tensor".into() });
        }
        // SAFETY: `Context::new` reserved room for one graph of this size; every node belongs to
        // this context and every leaf to it or was counted in `external`.
        let raw = unsafe {
            let raw = sys::ggml_new_graph_custom(self.inner.raw.as_ptr(), nodes, false);
            for result in results {
                sys::ggml_build_forward_expand(raw, result.raw.as_ptr());
            }
            raw
        };
        let raw = NonNull::new(raw).expect("room was reserved");
        Ok(Graph { raw, context: self.inner.clone() })
    }
}

impl Graph {
    /// The intermediate called `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<Tensor> {
        let name = std::ffi::CString::new(name).ok()?;
        // SAFETY: live graph, NUL-terminated name.
        let raw = unsafe { sys::ggml_graph_get_tensor(self.raw.as_ptr(), name.as_ptr()) };
        Some(Tensor { raw: NonNull::new(raw)?, context: self.context.clone() })
    }
}

/// Memory for the intermediates of one graph at a time.
pub struct GraphAllocator {
    inner: Rc<Memory>,
    buffer_type: BufferType,
}

pub(crate) struct Memory {
    raw: NonNull<sys::ggml_gallocr>,
    pub(crate) generation: Cell<u64>,
    charge: RefCell<Option<Charge>>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: owned, freed once; ready graphs hold this Rc.
        unsafe { sys::ggml_gallocr_free(self.raw.as_ptr()) };
    }
}

/// A graph with memory, ready to be computed any number of times. It goes stale when its allocator
/// serves another graph.
pub struct ReadyGraph {
    graph: Graph,
    allocator: Rc<Memory>,
    generation: u64,
    /// What a GPU has recorded of it.
    #[cfg(feature = "cuda")]
    pub(crate) repeated: RefCell<crate::backend::Repeated>,
}

impl GraphAllocator {
    /// An allocator of memory of the given kind.
    pub fn new(buffer_type: &BufferType) -> GraphAllocator {
        // SAFETY: static buffer type.
        let raw = unsafe { sys::ggml_gallocr_new(buffer_type.raw()) };
        let raw = NonNull::new(raw).expect("ggml aborts when a few bytes cannot be had");
        let memory = Memory { raw, generation: Cell::new(0), charge: RefCell::new(None) };
        GraphAllocator { inner: Rc::new(memory), buffer_type: buffer_type.clone() }
    }

    /// Bytes that `graph` needs for its intermediates; allocates nothing.
    pub fn measure(&self, graph: &Graph) -> usize {
        let mut bytes = 0usize;
        // SAFETY: a fresh allocator with one buffer type writes one size; the graph is live.
        unsafe {
            let raw = sys::ggml_gallocr_new(self.buffer_type.raw());
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
    pub fn prepare(&mut self, graph: Graph) -> Result<ReadyGraph, Error> {
        if graph.context.pretended.get() {
            return Err(Error::NotAllocated("a graph made for measuring".into()));
        }
        let generation = self.inner.generation.get() + 1;
        self.inner.generation.set(generation);
        self.charge(&graph)?;
        // SAFETY: live allocator and graph. A failed reservation is reported as false.
        let done = unsafe { sys::ggml_gallocr_alloc_graph(self.inner.raw.as_ptr(), graph.raw.as_ptr()) };
        if !done {
            // ggml has given the old memory up.
            self.inner.charge.take();
            return Err(Error::OutOfMemory {
                what: "compute buffers".into(),
                bytes: self.measure(&graph),
                device: self.buffer_type.name(),
            });
        }
        *graph.context.prepared.borrow_mut() = Some((self.inner.clone(), generation));
        for (raw, numbers) in graph.context.constants.take() {
            let constant = Tensor { raw, context: graph.context.clone() };
            if constant.is_allocated() {
                constant.write(0, &numbers)?;
            }
        }
        Ok(ReadyGraph {
            graph,
            allocator: self.inner.clone(),
            generation,
            #[cfg(feature = "cuda")]
            repeated: RefCell::default(),
        })
    }

    /// Takes what the graph needs from the budget, where there is one. The memory held so far is given up for it.
    fn charge(&self, graph: &Graph) -> Result<(), Error> {
        if !self.buffer_type.is_bounded() {
            return Ok(());
        }
        let (needed, before) = (self.measure(graph), self.bytes());
        if needed <= before {
            return Ok(());
        }
        self.inner.charge.take();
        let charge = self.buffer_type.charge("compute buffers", needed);
        if charge.is_err() {
            *self.inner.charge.borrow_mut() = self.buffer_type.charge("compute buffers", before)?;
        }
        *self.inner.charge.borrow_mut() = charge?;
        Ok(())
    }

    /// Bytes held now.
    pub fn bytes(&self) -> usize {
        // SAFETY: live allocator with one buffer.
        unsafe { sys::ggml_gallocr_get_buffer_size(self.inner.raw.as_ptr(), 0) }
    }
}

impl ReadyGraph {
    /// The intermediate called `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<Tensor> {
        self.graph.find(name)
    }

    /// Whether a GPU has recorded what it launches, and repeats that.
    #[cfg(feature = "cuda")]
    pub fn is_recorded(&self) -> bool {
        matches!(&*self.repeated.borrow(), crate::backend::Repeated::Recorded(_))
    }

    /// The context that its nodes were recorded in.
    pub(crate) fn context(&self) -> &context::Inner {
        &self.graph.context
    }

    pub(crate) fn raw(&self) -> Result<*mut sys::ggml_cgraph, Error> {
        if self.allocator.generation.get() != self.generation {
            return Err(Error::StaleGraph);
        }
        Ok(self.graph.raw.as_ptr())
    }
}
