//! Memory for tensors: allocated by a backend, or of the caller (a mapped file).

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

use ggml_sys as sys;

use crate::budget::{Budget, Charge};
use crate::context::Context;
use crate::{Error, Tensor, Type, running};

/// A kind of memory, and a limit on it where there is one.
#[derive(Clone)]
pub struct BufferType {
    raw: sys::ggml_backend_buffer_type_t,
    budget: Option<Arc<Budget>>,
    /// Whether the memory of tensors holds NaN when it is allocated.
    has_nan: bool,
}

// SAFETY: ggml's buffer types are static, never change, and allocate from any thread.
unsafe impl Send for BufferType {}
// SAFETY: as above.
unsafe impl Sync for BufferType {}

impl BufferType {
    /// Ordinary host memory.
    pub fn cpu() -> BufferType {
        crate::listen();
        // SAFETY: no preconditions; the result is static.
        BufferType::from_raw(unsafe { sys::ggml_backend_cpu_buffer_type() })
    }

    /// Host memory whose matrices are rearranged for the CPU's widest instructions when they are
    /// written, if this build has such a layout for this CPU.
    pub fn cpu_repacked() -> Option<BufferType> {
        crate::listen();
        // SAFETY: static registry objects; the procedure has the documented signature; the list
        // ends with null.
        unsafe {
            let device = cpu_device();
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
                if found.is_repacked() {
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

    /// Whether the host reads it at its address.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_host(&self) -> bool {
        // SAFETY: the buffer type is static.
        unsafe { sys::ggml_backend_buft_is_host(self.raw) }
    }

    /// Whether this is the memory of [`BufferType::cpu_repacked`].
    pub(crate) fn is_repacked(&self) -> bool {
        // SAFETY: static string.
        let name = unsafe { CStr::from_ptr(sys::ggml_backend_buft_name(self.raw)) };
        name == REPACKED
    }

    /// Required alignment of tensors in bytes.
    pub fn alignment(&self) -> usize {
        // SAFETY: the buffer type is static.
        unsafe { sys::ggml_backend_buft_get_alignment(self.raw) }
    }

    /// Whether the CPU can multiply `count` weight matrices of this type and shape `[n_in, n_out]` with f32
    /// activations, if they are one tensor in this memory: one by [`Context::mul_mat`], several by
    /// [`Context::mul_mat_id`].
    pub fn accepts_matrices(&self, ty: Type, [n_in, n_out, count]: [usize; 3]) -> bool {
        let context = Context::new(8);
        let weight = context.tensor(ty, [n_in, n_out, count]);
        let input = context.tensor(Type::F32, [n_in, 1]);
        let product = match count {
            1 => context.mul_mat(&weight, &input),
            _ => {
                let ids = context.top_k(&context.tensor(Type::F32, [count, 1]), 1);
                context.mul_mat_id(&weight, &input, &ids)
            }
        };
        if context.check().is_err() {
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
            let accepts = sys::ggml_backend_dev_supports_op(cpu_device(), product.raw.as_ptr());
            (*weight.raw.as_ptr()).buffer = std::ptr::null_mut();
            sys::ggml_backend_buffer_free(buffer);
            accepts
        }
    }

    pub(crate) fn raw(&self) -> sys::ggml_backend_buffer_type_t {
        self.raw
    }

    pub(crate) fn from_raw(raw: sys::ggml_backend_buffer_type_t) -> BufferType {
        BufferType { raw, budget: None, has_nan: false }
    }

    /// The same memory with a limit.
    pub(crate) fn within(self, budget: Option<Arc<Budget>>) -> BufferType {
        BufferType { budget, ..self }
    }

    /// The same memory, which holds NaN when it is allocated: all bits are 1.
    pub(crate) fn with_nan(self) -> BufferType {
        BufferType { has_nan: true, ..self }
    }

    /// Gives new memory of this type the content that tests ask for.
    pub(crate) fn fill(&self, buffer: &Inner) {
        if self.has_nan {
            // SAFETY: a live buffer, of which no tensor has been written yet.
            unsafe { sys::ggml_backend_buffer_clear(buffer.raw.as_ptr(), 0xff) };
        }
    }

    /// An error if it is memory of another machine whose server is lost, or of a GPU that has failed.
    pub(crate) fn check_lost(&self) -> Result<(), Error> {
        #[cfg(feature = "hip")]
        crate::hip::check_memory(self.raw)?;
        #[cfg(feature = "vulkan")]
        crate::vulkan::check_memory(self.raw)?;
        #[cfg(feature = "rpc")]
        crate::rpc::check_memory(self.raw)?;
        Ok(())
    }

    /// The bytes that are written to it at once, at most.
    pub(crate) fn max_write(&self) -> usize {
        #[cfg(feature = "rpc")]
        if crate::rpc::is_remote(self.raw) {
            return crate::rpc::MAX_WRITE;
        }
        usize::MAX
    }

    /// Whether there is a limit.
    pub(crate) fn is_bounded(&self) -> bool {
        self.budget.is_some()
    }

    /// A charge of 0 bytes, if there is a limit.
    pub(crate) fn empty_charge(&self) -> Option<Charge> {
        self.budget.as_ref().map(Budget::charge)
    }

    /// Takes `bytes` from the budget, if there is one.
    pub(crate) fn charge(&self, what: &str, bytes: usize) -> Result<Option<Charge>, Error> {
        let mut charge = self.empty_charge();
        if let Some(charge) = &mut charge {
            charge.resize(bytes, what, || self.name())?;
        }
        Ok(charge)
    }
}

/// ggml's name for memory with matrices in the layout of the CPU's widest instructions.
const REPACKED: &CStr = c"CPU_REPACK";

/// ggml's CPU as a device.
fn cpu_device() -> sys::ggml_backend_dev_t {
    // SAFETY: the registry entry of the CPU is static and has one device.
    unsafe { sys::ggml_backend_reg_dev_get(sys::ggml_backend_cpu_reg(), 0) }
}

/// Read-only memory of the caller: it neither moves nor changes while a clone of this exists.
#[derive(Clone)]
pub enum HostMemory {
    /// Part of the program.
    Static(&'static [u8]),
    /// Memory of the caller, for example a mapped file.
    Owned(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl HostMemory {
    /// The region.
    pub fn bytes(&self) -> &[u8] {
        match self {
            HostMemory::Static(bytes) => bytes,
            HostMemory::Owned(bytes) => (**bytes).as_ref(),
        }
    }
}

/// A region of read-only memory that tensors are placed in. Cloning shares it.
#[derive(Clone)]
pub struct Buffer {
    inner: Arc<Inner>,
}

/// A region of memory that tensors lie in.
pub(crate) struct Inner {
    raw: NonNull<sys::ggml_backend_buffer>,
    _owner: Option<HostMemory>,
    _charge: Option<Charge>,
}

// SAFETY: ggml's buffer does not change after it was made, and is freed from any thread. The data in it is
// guarded by the contexts of the tensors that lie in it.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Inner {
    /// Owns what ggml allocated; `None` if that is null.
    pub(crate) fn new(raw: sys::ggml_backend_buffer_t, charge: Option<Charge>) -> Option<Inner> {
        Some(Inner { raw: NonNull::new(raw)?, _owner: None, _charge: charge })
    }

    /// Bytes of the buffer.
    pub(crate) fn bytes(&self) -> usize {
        // SAFETY: live buffer.
        unsafe { sys::ggml_backend_buffer_get_size(self.raw.as_ptr()) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: a live buffer; the type is never freed.
        let memory = BufferType::from_raw(unsafe { sys::ggml_backend_buffer_get_type(self.raw.as_ptr()) });
        // A GPU that failed computes nothing any more.
        let _ = running::wait_for(&memory);
        // SAFETY: owned, freed once; contexts whose tensors lie here hold this Arc.
        unsafe { sys::ggml_backend_buffer_free(self.raw.as_ptr()) };
    }
}

impl Buffer {
    /// A buffer over `owner`'s memory.
    ///
    /// ggml requires the start of the region to be 32-byte aligned; `None` if it is not.
    pub fn over(owner: HostMemory) -> Option<Buffer> {
        crate::listen();
        let memory = owner.bytes();
        if memory.is_empty() || !(memory.as_ptr() as usize).is_multiple_of(32) {
            return None;
        }
        // SAFETY: the region outlives the buffer (`_owner`). ggml takes a mutable pointer but writes only to
        // tensors that are the destination of an operation; `Tensor::write` and `Context::copy` refuse
        // buffers of this usage.
        let raw = unsafe {
            sys::ggml_backend_dev_buffer_from_host_ptr(
                cpu_device(),
                memory.as_ptr().cast_mut().cast(),
                memory.len(),
                memory.len(),
            )
        };
        let raw = NonNull::new(raw)?;
        // SAFETY: live buffer that nobody else has yet.
        unsafe { sys::ggml_backend_buffer_set_usage(raw.as_ptr(), sys::GGML_BACKEND_BUFFER_USAGE_WEIGHTS) };
        Some(Buffer { inner: Arc::new(Inner { raw, _owner: Some(owner), _charge: None }) })
    }

    /// Bytes of the buffer.
    pub fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    /// Places a tensor that has no memory yet at `offset` bytes.
    pub fn place(&self, tensor: &Tensor, offset: usize) -> Result<(), Error> {
        let mut state = tensor.context.write();
        let found = offset.saturating_add(tensor.bytes());
        if found > self.bytes() {
            let tensor = tensor.locked_name();
            return Err(Error::DataSize { what: "place", tensor, expected: self.bytes(), found });
        }
        if !tensor.is_unplaced_leaf() {
            let (what, tensor) = ("place a tensor that has memory already", tensor.locked_name());
            return Err(Error::DataSize { what, tensor, expected: 0, found });
        }
        // SAFETY: live buffer; the address lies inside it, and the tensor, which is locked, is no view and
        // has no memory.
        unsafe {
            let base = sys::ggml_backend_buffer_get_base(self.inner.raw.as_ptr()).cast::<u8>();
            let address = base.add(offset);
            let alignment = sys::ggml_backend_buffer_get_alignment(self.inner.raw.as_ptr());
            if !(address as usize).is_multiple_of(alignment) {
                return Err(Error::Misaligned { tensor: tensor.locked_name(), alignment });
            }
            let status =
                sys::ggml_backend_tensor_alloc(self.inner.raw.as_ptr(), tensor.raw.as_ptr(), address.cast());
            if status != sys::GGML_STATUS_SUCCESS {
                return Err(Error::NotAllocated(tensor.locked_name()));
            }
        }
        state.keep(self.inner.clone());
        Ok(())
    }

    /// A buffer without memory, for [`Buffer::mark_unallocated`].
    pub fn no_memory() -> Option<Buffer> {
        // SAFETY: static buffer type.
        let raw = unsafe { sys::ggml_backend_buft_alloc_buffer(BufferType::cpu().raw(), 0) };
        Some(Buffer { inner: Arc::new(Inner::new(raw, None)?) })
    }

    /// Ties `tensor`, which has no memory, to this buffer without giving it any: graph allocators then leave
    /// it alone. A graph over such a tensor can be measured but not computed.
    pub fn mark_unallocated(&self, tensor: &Tensor) {
        let mut state = tensor.context.write();
        if tensor.is_unplaced_leaf() {
            // SAFETY: live descriptor, which is locked, and live buffer, which the context keeps.
            unsafe { (*tensor.raw.as_ptr()).buffer = self.inner.raw.as_ptr() };
            state.unallocated = true;
            state.keep(self.inner.clone());
        }
    }
}
