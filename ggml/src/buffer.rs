//! Memory for tensors: allocated by a backend, or somebody else's (a mapped file).

use std::ffi::CStr;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use ggml_sys as sys;
use memmap2::Mmap;

use crate::budget::{Budget, Charge};
use crate::{Error, Tensor, Type, context::Context, log};

/// A kind of memory, and how much of it may be taken.
#[derive(Clone)]
pub struct BufferType {
    raw: sys::ggml_backend_buffer_type_t,
    budget: Option<Rc<Budget>>,
}

impl BufferType {
    /// Ordinary host memory.
    pub fn cpu() -> BufferType {
        log::install();
        // SAFETY: the CPU backend is compiled in; the result is static.
        BufferType::from_raw(unsafe { sys::ggml_backend_get_default_buffer_type(cpu_probe()) })
    }

    /// Host memory whose matrices are rearranged for the CPU's widest instructions when they are
    /// written, if this build has such a layout for this CPU.
    pub fn cpu_repacked() -> Option<BufferType> {
        log::install();
        // SAFETY: static registry objects; the procedure has the documented signature; the list
        // ends with null.
        unsafe {
            let device = sys::ggml_backend_get_device(cpu_probe());
            let registry = sys::ggml_backend_dev_backend_reg(device);
            let name = c"ggml_backend_dev_get_extra_bufts";
            let procedure = sys::ggml_backend_reg_get_proc_address(registry, name.as_ptr());
            if procedure.is_null() {
                return None;
            }
            type ExtraBuffers =
                unsafe extern "C" fn(sys::ggml_backend_dev_t) -> *mut sys::ggml_backend_buffer_type_t;
            let procedure: ExtraBuffers = std::mem::transmute(procedure);
            let mut list = procedure(device);
            while !list.is_null() && !(*list).is_null() {
                let found = BufferType::from_raw(*list);
                if found.name() == "CPU_REPACK" {
                    return Some(found);
                }
                list = list.add(1);
            }
        }
        None
    }

    /// ggml's name for this kind of memory.
    pub fn name(&self) -> String {
        // SAFETY: static string.
        unsafe { CStr::from_ptr(sys::ggml_backend_buft_name(self.raw)) }.to_string_lossy().into_owned()
    }

    /// Required alignment of tensors in bytes.
    pub fn alignment(&self) -> usize {
        // SAFETY: the buffer type is static.
        unsafe { sys::ggml_backend_buft_get_alignment(self.raw) }
    }

    /// Whether a weight matrix of this type and shape `[n_in, n_out]` in this memory can be
    /// multiplied with f32 activations by the CPU.
    pub fn accepts_matrix(&self, ty: Type, n_in: usize, n_out: usize) -> bool {
        let context = Context::new(4);
        let weight = context.tensor(ty, [n_in, n_out]);
        let input = context.tensor(Type::F32, [n_in, 1]);
        let product = context.mul_mat(&weight, &input);
        if context.take_error().is_err() {
            return false;
        }
        // SAFETY: an empty buffer of this type is lent to the weight for the length of the query,
        // then taken back and freed.
        unsafe {
            let buffer = sys::ggml_backend_buft_alloc_buffer(self.raw, 0);
            if buffer.is_null() {
                return false;
            }
            (*weight.raw.as_ptr()).buffer = buffer;
            let device = sys::ggml_backend_get_device(cpu_probe());
            let accepts = sys::ggml_backend_dev_supports_op(device, product.raw.as_ptr());
            (*weight.raw.as_ptr()).buffer = std::ptr::null_mut();
            sys::ggml_backend_buffer_free(buffer);
            accepts
        }
    }

    pub(crate) fn raw(&self) -> sys::ggml_backend_buffer_type_t {
        self.raw
    }

    pub(crate) fn from_raw(raw: sys::ggml_backend_buffer_type_t) -> BufferType {
        BufferType { raw, budget: None }
    }

    /// The same memory, of which no more is taken than `budget` allows.
    pub(crate) fn within(self, budget: Option<Rc<Budget>>) -> BufferType {
        BufferType { budget, ..self }
    }

    /// Whether there is a budget.
    pub(crate) fn is_bounded(&self) -> bool {
        self.budget.is_some()
    }

    /// Takes `bytes` from the budget, if there is one.
    pub(crate) fn charge(&self, what: &str, bytes: usize) -> Result<Option<Charge>, Error> {
        self.budget.as_ref().map(|budget| budget.charge(bytes, what, || self.name())).transpose()
    }
}

/// One CPU backend per thread for questions about the CPU device; never computes.
fn cpu_probe() -> sys::ggml_backend_t {
    struct Probe(sys::ggml_backend_t);
    impl Drop for Probe {
        fn drop(&mut self) {
            // SAFETY: created below, freed once.
            unsafe { sys::ggml_backend_free(self.0) };
        }
    }
    thread_local! {
        // SAFETY: no preconditions.
        static PROBE: Probe = Probe(unsafe { sys::ggml_backend_cpu_init() });
    }
    PROBE.with(|probe| probe.0)
}

/// Memory that somebody else owns and that neither moves nor changes while a clone of this exists.
#[derive(Clone)]
pub enum HostMemory {
    /// A mapped file.
    Mapped(Arc<Mmap>),
    /// Part of the program.
    Static(&'static [u8]),
    /// A vector that nobody can change any more.
    Owned(Arc<Vec<u8>>),
}

impl HostMemory {
    /// The region.
    pub fn bytes(&self) -> &[u8] {
        match self {
            HostMemory::Mapped(map) => map,
            HostMemory::Static(bytes) => bytes,
            HostMemory::Owned(bytes) => bytes,
        }
    }
}

/// A region of memory that tensors lie in. Cloning shares it.
#[derive(Clone)]
pub struct Buffer {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    raw: NonNull<sys::ggml_backend_buffer>,
    _owner: Option<HostMemory>,
    _charge: Option<Charge>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: owned, freed once; contexts whose tensors lie here hold this Rc.
        unsafe { sys::ggml_backend_buffer_free(self.raw.as_ptr()) };
    }
}

impl Buffer {
    pub(crate) fn own(raw: sys::ggml_backend_buffer_t, charge: Option<Charge>) -> Option<Buffer> {
        let raw = NonNull::new(raw)?;
        Some(Buffer { inner: Rc::new(Inner { raw, _owner: None, _charge: charge }) })
    }

    /// A read-only buffer over `owner`'s memory. Tensors in it must never be written.
    ///
    /// ggml requires the start of the region to be 32-byte aligned; `None` if it is not.
    pub fn over(owner: HostMemory) -> Option<Buffer> {
        log::install();
        let memory = owner.bytes();
        if memory.is_empty() || !(memory.as_ptr() as usize).is_multiple_of(32) {
            return None;
        }
        // SAFETY: the region outlives the buffer (`_owner`). ggml takes a mutable pointer but
        // writes only to tensors that are the destination of an operation, and
        // [`Tensor::write`] refuses buffers of this usage.
        let raw = unsafe {
            let device = sys::ggml_backend_get_device(cpu_probe());
            sys::ggml_backend_dev_buffer_from_host_ptr(
                device,
                memory.as_ptr().cast_mut().cast(),
                memory.len(),
                memory.len(),
            )
        };
        let raw = NonNull::new(raw)?;
        // SAFETY: live buffer.
        unsafe { sys::ggml_backend_buffer_set_usage(raw.as_ptr(), sys::GGML_BACKEND_BUFFER_USAGE_WEIGHTS) };
        Some(Buffer { inner: Rc::new(Inner { raw, _owner: Some(owner), _charge: None }) })
    }

    /// Bytes of the buffer.
    pub fn bytes(&self) -> usize {
        // SAFETY: live buffer.
        unsafe { sys::ggml_backend_buffer_get_size(self.inner.raw.as_ptr()) }
    }

    /// Places a tensor that has no memory yet at `offset` bytes.
    pub fn place(&self, tensor: &Tensor, offset: usize) -> Result<(), Error> {
        let found = offset.saturating_add(tensor.bytes());
        if found > self.bytes() {
            let expected = self.bytes();
            return Err(Error::DataSize { what: "place", tensor: tensor.name(), expected, found });
        }
        // SAFETY: live buffer; the address lies inside it (checked above).
        unsafe {
            let base = sys::ggml_backend_buffer_get_base(self.inner.raw.as_ptr()).cast::<u8>();
            let address = base.add(offset);
            let alignment = sys::ggml_backend_buffer_get_alignment(self.inner.raw.as_ptr());
            if !(address as usize).is_multiple_of(alignment) {
                return Err(Error::Misaligned { tensor: tensor.name(), alignment });
            }
            if tensor.is_allocated() {
                return Err(Error::DataSize {
                    what: "place a tensor that has memory already",
                    tensor: tensor.name(),
                    expected: 0,
                    found,
                });
            }
            let status =
                sys::ggml_backend_tensor_alloc(self.inner.raw.as_ptr(), tensor.raw.as_ptr(), address.cast());
            if status != sys::GGML_STATUS_SUCCESS {
                return Err(Error::NotAllocated(tensor.name()));
            }
        }
        Context { inner: tensor.context.clone() }.keep(self.inner.clone());
        Ok(())
    }

    /// An empty buffer for tensors that will never have data, so that graphs over them can be
    /// measured; see [`Buffer::pretend`].
    pub fn empty() -> Option<Buffer> {
        // SAFETY: static buffer type.
        Buffer::own(unsafe { sys::ggml_backend_buft_alloc_buffer(BufferType::cpu().raw(), 0) }, None)
    }

    /// Ties `tensor` to this buffer without giving it memory: graph allocators then leave it alone.
    /// A graph over such a tensor can be measured but not computed.
    pub fn pretend(&self, tensor: &Tensor) {
        // SAFETY: live descriptor and buffer; the context keeps the buffer.
        unsafe { (*tensor.raw.as_ptr()).buffer = self.inner.raw.as_ptr() };
        tensor.context.pretended.set(true);
        Context { inner: tensor.context.clone() }.keep(self.inner.clone());
    }
}
