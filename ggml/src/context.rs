//! A context: the memory of tensor descriptors and of the operations recorded on them.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::NonNull;
use std::rc::Rc;

use ggml_sys as sys;

use crate::custom::Launch;
use crate::error::describe;
use crate::{Buffer, Error, Shape, Tensor, Type, log};

/// Owner of tensor descriptors. Cloning shares it.
#[derive(Clone)]
pub struct Context {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) raw: NonNull<sys::ggml_context>,
    pub(crate) capacity: usize,
    tensors: Cell<usize>,
    /// Operands that belong to other contexts; bounds the graph's number of leaves.
    pub(crate) external: Cell<usize>,
    /// Everything the tensors of this context point to: buffers, other contexts, closures.
    keep: RefCell<Vec<Rc<dyn Any>>>,
    error: RefCell<Option<Error>>,
    /// How devices compute the custom operations.
    pub(crate) launches: RefCell<HashMap<NonNull<sys::ggml_tensor>, Launch>>,
    /// Contents of [`Context::constant`]s, until the graph gets memory.
    pub(crate) constants: RefCell<Vec<(NonNull<sys::ggml_tensor>, Vec<i32>)>>,
    /// Whether some tensor only pretends to have memory, so that nothing here may be computed.
    pub(crate) pretended: Cell<bool>,
    /// Whether the one graph that there is room for was made.
    pub(crate) has_graph: Cell<bool>,
    /// The allocator that the graph's intermediates have their memory from, and which of its graphs this is.
    pub(crate) prepared: RefCell<Option<(Rc<crate::graph::Memory>, u64)>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: created by ggml_init, freed once; no tensor outlives it, each holds this Rc.
        unsafe { sys::ggml_free(self.raw.as_ptr()) };
    }
}

impl Context {
    /// A context for at most `capacity` tensors (operations and views included).
    pub fn new(capacity: usize) -> Context {
        log::install();
        let capacity = capacity + 1;
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
            inner: Rc::new(Inner {
                raw,
                capacity,
                tensors: Cell::new(0),
                external: Cell::new(0),
                keep: RefCell::new(Vec::new()),
                error: RefCell::new(None),
                launches: RefCell::new(HashMap::new()),
                constants: RefCell::new(Vec::new()),
                pretended: Cell::new(false),
                has_graph: Cell::new(false),
                prepared: RefCell::new(None),
            }),
        };
        context.tensor(Type::F32, [1]); // what failed operations return; always the first tensor
        context
    }

    pub(crate) fn graph_nodes(capacity: usize) -> usize {
        4 * capacity + 16
    }

    /// A new tensor without memory.
    pub fn tensor(&self, ty: Type, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let fits = shape.0[0].is_multiple_of(ty.block_elements()) && shape.bytes(ty).is_some();
        self.record("tensor", &[(ty.name(), shape)], &[], fits, |raw| {
            let dims = shape.0.map(|n| n as i64);
            // SAFETY: four dimensions are passed and the row is a whole number of blocks.
            unsafe { sys::ggml_new_tensor(raw, ty.raw(), 4, dims.as_ptr()) }
        })
    }

    /// A new tensor that the caller fills before each computation.
    pub fn input(&self, name: &str, ty: Type, shape: impl Into<Shape>) -> Tensor {
        let tensor = self.tensor(ty, shape).named(name);
        // SAFETY: sets a flag on a live tensor.
        unsafe { sys::ggml_set_input(tensor.raw.as_ptr()) };
        tensor
    }

    /// Numbers `[n]` that belong to the graph: they are written when the graph is given memory. At least one.
    pub fn constant(&self, numbers: &[i32]) -> Tensor {
        // Marked as a result too, so that no later operation takes the memory: the graph may be computed again.
        let tensor = self.input("constant", Type::I32, [numbers.len()]).output();
        self.inner.constants.borrow_mut().push((tensor.raw, numbers.to_vec()));
        tensor
    }

    /// Gives memory of type `ty` to every tensor of this context that has none; `None` if there is
    /// nothing to allocate.
    pub fn allocate(&self, ty: &crate::BufferType) -> Result<Option<Buffer>, Error> {
        self.take_error()?;
        // SAFETY: context and buffer type are live.
        let bytes =
            unsafe { sys::ggml_backend_alloc_ctx_tensors_from_buft_size(self.inner.raw.as_ptr(), ty.raw()) };
        if bytes == 0 {
            return Ok(None);
        }
        let charge = ty.charge("tensors", bytes)?;
        // SAFETY: as above; returns null on failure.
        let raw = unsafe { sys::ggml_backend_alloc_ctx_tensors_from_buft(self.inner.raw.as_ptr(), ty.raw()) };
        let buffer = Buffer::own(raw, charge).ok_or_else(|| Error::OutOfMemory {
            what: "tensors".into(),
            bytes,
            device: ty.name(),
        })?;
        self.keep(buffer.inner.clone());
        Ok(Some(buffer))
    }

    /// The first mistake made while recording, if any.
    pub(crate) fn take_error(&self) -> Result<(), Error> {
        match self.inner.error.borrow().as_ref() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Keeps `object` alive as long as this context.
    pub(crate) fn keep(&self, object: Rc<dyn Any>) {
        let mut keep = self.inner.keep.borrow_mut();
        if !keep.iter().any(|kept| Rc::ptr_eq(kept, &object)) {
            keep.push(object);
        }
    }

    /// Records an operation: checks, calls `make`, ties the operands' memory to this context.
    pub(crate) fn record(
        &self,
        op: &'static str,
        operands: &[(&str, Shape)],
        inputs: &[&Tensor],
        fits: bool,
        make: impl FnOnce(*mut sys::ggml_context) -> *mut sys::ggml_tensor,
    ) -> Tensor {
        let mut error = self.inner.error.borrow_mut();
        if error.is_none() {
            if !fits {
                *error = Some(Error::Operands { op, inputs: describe(operands) });
            } else if self.inner.tensors.get() >= self.inner.capacity {
                *error = Some(Error::ContextFull { capacity: self.inner.capacity });
            }
        }
        if error.is_some() {
            // SAFETY: the context is live and its first tensor was made by `new`.
            let poison = unsafe { sys::ggml_get_first_tensor(self.inner.raw.as_ptr()) };
            let raw = NonNull::new(poison).expect("made by Context::new");
            return Tensor { raw, context: self.inner.clone() };
        }
        drop(error);
        for input in inputs {
            if input.context.pretended.get() {
                self.inner.pretended.set(true);
            }
            if !Rc::ptr_eq(&input.context, &self.inner) {
                self.inner.external.set(self.inner.external.get() + 1);
                self.keep(input.context.clone());
            }
        }
        let raw = NonNull::new(make(self.inner.raw.as_ptr())).expect("ggml returns a tensor or aborts");
        self.inner.tensors.set(self.inner.tensors.get() + 1);
        Tensor { raw, context: self.inner.clone() }
    }

    /// As [`Context::record`] with the operands described by the inputs themselves.
    pub(crate) fn op(
        &self,
        op: &'static str,
        inputs: &[&Tensor],
        fits: bool,
        make: impl FnOnce(*mut sys::ggml_context) -> *mut sys::ggml_tensor,
    ) -> Tensor {
        let operands: Vec<(&str, Shape)> = inputs.iter().map(|t| (t.ty().name(), t.shape())).collect();
        self.record(op, &operands, inputs, fits, make)
    }
}

impl Tensor {
    /// The same tensor with a name (for messages and for intermediates looked up by name).
    pub fn named(self, name: &str) -> Tensor {
        let name: String = name.chars().filter(|c| *c != '\0').collect();
        if let Ok(name) = CString::new(name) {
            // SAFETY: live tensor, NUL-terminated name; ggml truncates to its own limit.
            unsafe { sys::ggml_set_name(self.raw.as_ptr(), name.as_ptr()) };
        }
        self
    }
}
