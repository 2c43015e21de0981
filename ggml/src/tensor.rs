//! Tensors: a descriptor (type, shape, strides) and, once allocated, the data behind it.

use std::ffi::CStr;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use ggml_sys as sys;

use crate::context::{self, Access, lock_all};
use crate::selection::{Bound, Bounds, largest};
use crate::{BufferType, Error, Type, running};

/// Extents of up to four dimensions, fastest first; unused ones are 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape(pub [usize; 4]);

impl Shape {
    /// Number of elements; `usize::MAX` if there are more.
    pub fn elements(&self) -> usize {
        self.0.iter().fold(1, |elements, n| elements.saturating_mul(*n))
    }

    /// Bytes of a contiguous tensor of this shape. `None` if ggml cannot have such a tensor: an extent is 0 or
    /// does not fit an i32, rows are not whole blocks, or there are more than 8 TiB.
    pub fn bytes(&self, ty: Type) -> Option<usize> {
        let extents = self.0.iter().all(|n| (1..=i32::MAX as usize).contains(n));
        if !extents || !self.0[0].is_multiple_of(ty.block_elements()) {
            return None;
        }
        let row = (self.0[0] / ty.block_elements()).checked_mul(ty.block_bytes())?;
        let bytes = self.0[1..].iter().try_fold(row, |bytes, n| bytes.checked_mul(*n))?;
        // The bytes of a million such tensors do not overflow.
        (bytes as u64 <= 8 << 40).then_some(bytes)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        const { assert!(N >= 1 && N <= 4) };
        let mut shape = [1; 4];
        shape[..N].copy_from_slice(&dims);
        Shape(shape)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = 4 - self.0.iter().rev().take_while(|n| **n == 1).count();
        let dims: Vec<String> = self.0[..used.max(1)].iter().map(usize::to_string).collect();
        write!(f, "[{}]", dims.join(", "))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A tensor. Cloning copies a handle; the descriptor lives as long as any handle of its context.
#[derive(Clone)]
pub struct Tensor {
    pub(crate) raw: NonNull<sys::ggml_tensor>,
    pub(crate) context: Arc<context::Inner>,
}

// SAFETY: a descriptor is accessed as `context::Inner` describes: what can change only under its lock.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

/// Plain data that may be copied into and out of tensors.
///
/// # Safety
/// Implementors have no padding and accept every bit pattern.
pub unsafe trait Element: Copy + Default {
    /// Its name in messages.
    const NAME: &'static str;

    /// Whether tensors of type `ty` have such elements.
    fn is_of(ty: Type) -> bool;
}

macro_rules! elements {
    ($($element:ident => $ty:pat,)*) => {$(
        // SAFETY: plain numbers.
        unsafe impl Element for $element {
            const NAME: &'static str = stringify!($element);

            fn is_of(ty: Type) -> bool {
                matches!(ty, $ty)
            }
        }
    )*};
}

elements! {
    f32 => Type::F32,
    i32 => Type::I32,
    i64 => Type::I64,
    u16 => Type::F16 | Type::BF16, // the bits
    u8 => _, // the bytes of any type
}

impl Tensor {
    /// Element type.
    pub fn ty(&self) -> Type {
        // SAFETY: a field of the live descriptor that never changes.
        Type::from_raw(unsafe { (*self.raw.as_ptr()).type_ })
    }

    /// Extents.
    pub fn shape(&self) -> Shape {
        // SAFETY: as in `ty`.
        Shape(unsafe { (*self.raw.as_ptr()).ne }.map(|n| n as usize))
    }

    /// Extent of dimension `i`.
    pub fn dim(&self, i: usize) -> usize {
        self.shape().0[i]
    }

    /// Distance in bytes between neighbours along each dimension.
    pub fn strides(&self) -> [usize; 4] {
        // SAFETY: as in `ty`.
        unsafe { (*self.raw.as_ptr()).nb }
    }

    /// Bytes from the first to the last element, strides included.
    pub fn bytes(&self) -> usize {
        // SAFETY: live descriptor.
        unsafe { sys::ggml_nbytes(self.raw.as_ptr()) }
    }

    /// Name given by [`Tensor::named`].
    pub fn name(&self) -> String {
        let _state = self.context.read();
        self.locked_name()
    }

    /// The name, for callers that hold a lock on the context.
    pub(crate) fn locked_name(&self) -> String {
        // SAFETY: the name is a NUL-terminated array inside the live descriptor.
        let name = unsafe { CStr::from_ptr((&raw const (*self.raw.as_ptr()).name).cast()) };
        name.to_string_lossy().into_owned()
    }

    /// Whether the elements of a row (in types with blocks: the blocks) are neighbours in memory.
    pub(crate) fn has_dense_rows(&self) -> bool {
        self.strides()[0] == self.ty().block_bytes()
    }

    /// The tensor whose memory this one has: the tensor itself, or what it is a view of.
    pub(crate) fn root(&self) -> NonNull<sys::ggml_tensor> {
        // SAFETY: a field of the live descriptor that never changes.
        NonNull::new(unsafe { (*self.raw.as_ptr()).view_src }).unwrap_or(self.raw)
    }

    /// Whether no operation computes the tensor: it is a leaf or part of one.
    pub(crate) fn is_written_by_caller(&self) -> bool {
        // SAFETY: a field of a live descriptor that never changes.
        unsafe { (*self.root().as_ptr()).op == sys::GGML_OP_NONE }
    }

    /// Whether both are handles of the same tensor.
    pub fn is_same(&self, other: &Tensor) -> bool {
        self.raw == other.raw
    }

    /// Whether both tensors have bytes of the same memory.
    pub(crate) fn overlaps(&self, other: &Tensor) -> bool {
        // SAFETY: fields of live descriptors that never change.
        let start = |tensor: &Tensor| unsafe { (*tensor.raw.as_ptr()).view_offs };
        let (a, b) = (start(self), start(other));
        self.root() == other.root() && a < b + other.bytes() && b < a + self.bytes()
    }

    /// Whether elements lie without gaps in memory order.
    pub fn is_contiguous(&self) -> bool {
        // SAFETY: live descriptor.
        unsafe { sys::ggml_is_contiguous(self.raw.as_ptr()) }
    }

    /// Whether the tensor has memory.
    pub fn is_allocated(&self) -> bool {
        let _state = self.context.read();
        self.has_data()
    }

    /// Whether the tensor lies in memory where the CPU keeps matrices in another layout than files have.
    pub fn is_repacked(&self) -> bool {
        let _state = self.context.read();
        self.memory_type().is_some_and(|memory| memory.is_repacked())
    }

    /// Copies `data` to the tensor, `offset` bytes from its start.
    pub fn write<T: Element>(&self, offset: usize, data: &[T]) -> Result<(), Error> {
        self.check_element::<T>()?;
        let range = ByteRange { offset, bytes: size_of_val(data) };
        // SAFETY: plain numbers without padding ([`Element`]).
        let bytes = unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), range.bytes) };
        self.access("write", Access::Write, range, |bounds| {
            bounds.note_write(self, range, || largest(bytes));
            // SAFETY: the tensor has memory, which is locked, and the range lies inside it.
            unsafe { self.set_bytes(offset, bytes) }
        })
    }

    /// Copies from the tensor, `offset` bytes from its start, into `data`.
    pub fn read<T: Element>(&self, offset: usize, data: &mut [T]) -> Result<(), Error> {
        self.check_element::<T>()?;
        let range = ByteRange { offset, bytes: size_of_val(data) };
        self.access("read", Access::Read, range, |_| {
            self.wait()?;
            // SAFETY: as in `write`; every bit pattern is a valid T.
            unsafe {
                sys::ggml_backend_tensor_get(self.raw.as_ptr(), data.as_mut_ptr().cast(), offset, range.bytes)
            }
            Ok(())
        })
    }

    /// The whole contiguous tensor as a vector.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        let mut data = vec![T::default(); self.bytes() / size_of::<T>()];
        self.read(0, &mut data)?;
        Ok(data)
    }

    /// Sets every byte to zero.
    pub fn clear(&self) -> Result<(), Error> {
        self.clear_bytes(0..self.bytes())
    }

    /// Sets some of the tensor's bytes to zero.
    pub fn clear_bytes(&self, range: Range<usize>) -> Result<(), Error> {
        let range = ByteRange { offset: range.start, bytes: range.len() };
        self.access("clear", Access::Write, range, |bounds| {
            bounds.note_write(self, range, || 0);
            self.wait()?;
            // SAFETY: the tensor has memory, which is locked, and the range lies inside it.
            unsafe { sys::ggml_backend_tensor_memset(self.raw.as_ptr(), 0, range.offset, range.bytes) }
            Ok(())
        })
    }

    /// Copies `bytes` bytes of `from`, `from_offset` bytes from its start, to this tensor, `offset` bytes from its
    /// start. Between host and device they are copied once.
    pub fn copy_from(
        &self,
        offset: usize,
        from: &Tensor,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), Error> {
        let owner = self.context.owner_of(self);
        let contexts = self.context.with_operands_of(&from.context);
        let _guards = lock_all(&contexts);
        let _memory = self.context.lock_graph_memory_of(&from.context)?;
        let range = ByteRange { offset, bytes };
        self.check_range("write", Access::Write, range)?;
        from.check_range("read", Access::Read, ByteRange { offset: from_offset, bytes })?;
        owner.as_ref().unwrap_or(&self.context).bounds.note_write(self, range, || Bound::UNKNOWN);
        self.wait()?;
        from.wait()?;
        let (to, source) = (self.raw.as_ptr(), from.raw.as_ptr());
        // SAFETY: both tensors have memory, which is locked, and the ranges lie inside it. Data in host memory is at
        // its address. Memory that may overlap is copied through a vector.
        unsafe {
            let [from_host, to_host] =
                [from, self].map(|tensor| sys::ggml_backend_buffer_is_host(tensor.buffer()));
            match (from_host, to_host) {
                (true, false) => {
                    let address = (*source).data.cast::<u8>().add(from_offset);
                    self.set_bytes(offset, std::slice::from_raw_parts(address, bytes))?;
                }
                (false, true) => {
                    let address = (*to).data.cast::<u8>().add(offset);
                    sys::ggml_backend_tensor_get(source, address.cast(), from_offset, bytes);
                }
                _ => {
                    let mut copy = vec![0u8; bytes];
                    sys::ggml_backend_tensor_get(source, copy.as_mut_ptr().cast(), from_offset, bytes);
                    self.set_bytes(offset, &copy)?;
                }
            }
        }
        self.check_lost()?;
        from.check_lost()
    }

    /// Copies bytes to the tensor, as many at once as its memory takes.
    ///
    /// # Safety
    /// The tensor has memory, which is locked, and the bytes lie inside it.
    unsafe fn set_bytes(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let Some(memory) = self.memory_type() else { return Err(Error::NotAllocated(self.locked_name())) };
        // SAFETY: the tensor's address, and the caller's promise. Whatever frees memory waits.
        let is_written = unsafe {
            let address = (*self.raw.as_ptr()).data.cast::<u8>().wrapping_add(offset);
            running::write(&memory, address.cast(), bytes)
        }?;
        if is_written {
            return Ok(());
        }
        running::wait_for(&memory)?;
        let at_once = memory.max_write();
        for (number, piece) in bytes.chunks(at_once).enumerate() {
            let offset = offset + number * at_once;
            // SAFETY: the caller's promise.
            unsafe {
                sys::ggml_backend_tensor_set(self.raw.as_ptr(), piece.as_ptr().cast(), offset, piece.len())
            }
        }
        Ok(())
    }

    /// Waits for the graphs that a GPU computes in the tensor's memory. The caller holds a lock on the context.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.memory_type().map_or(Ok(()), |memory| running::wait_for(&memory))
    }

    /// An error if the tensor lies on another machine whose server is lost, or a GPU that has failed. The caller holds a lock on the context.
    fn check_lost(&self) -> Result<(), Error> {
        self.memory_type().map_or(Ok(()), |memory| memory.check_lost())
    }

    fn check_element<T: Element>(&self) -> Result<(), Error> {
        let ty = self.ty();
        if T::is_of(ty) {
            return Ok(());
        }
        Err(Error::ElementType { tensor: self.name(), ty: ty.name(), given: T::NAME })
    }

    /// Calls `work` with the tensor's data locked, after checking that the range lies in memory that may be
    /// accessed so. `work` gets the bounds of the context that the memory belongs to, to which it tells what it writes.
    fn access(
        &self,
        what: &'static str,
        access: Access,
        range: ByteRange,
        work: impl FnOnce(&Bounds) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let check_and_work = |bounds: &Bounds| {
            let _memory = self.context.lock_graph_memory()?;
            self.check_range(what, access, range)?;
            work(bounds)?;
            self.check_lost()
        };
        if self.root() != self.raw {
            // Its data may belong to another context.
            let owner = self.context.owner_of(self);
            let contexts = self.context.with_operands(access);
            let _guards = lock_all(&contexts);
            check_and_work(&owner.as_ref().unwrap_or(&self.context).bounds)
        } else if access == Access::Write {
            let _state = self.context.write();
            check_and_work(&self.context.bounds)
        } else {
            let _state = self.context.read();
            check_and_work(&self.context.bounds)
        }
    }

    /// An error if the range does not lie in memory that may be accessed so. The caller holds a lock on the context.
    fn check_range(&self, what: &'static str, access: Access, range: ByteRange) -> Result<(), Error> {
        if !self.has_data() || self.buffer().is_null() {
            return Err(Error::NotAllocated(self.locked_name()));
        }
        let found = range.offset.saturating_add(range.bytes);
        if found > self.bytes() {
            let tensor = self.locked_name();
            return Err(Error::DataSize { what, tensor, expected: self.bytes(), found });
        }
        if access == Access::Write && self.is_read_only() {
            return Err(Error::ReadOnly(self.locked_name()));
        }
        if self.memory_type().is_some_and(|memory| memory.is_repacked()) {
            let is_view = self.root() != self.raw;
            let whole = range == (ByteRange { offset: 0, bytes: self.bytes() }) && !is_view;
            let access = match what {
                "write" if whole => None,
                "write" => Some("written in part to"),
                "read" => Some("read from"),
                _ => Some("cleared in"),
            };
            if let Some(access) = access {
                return Err(Error::Repacked { tensor: self.locked_name(), access });
            }
        }
        Ok(())
    }

    /// The buffer that the tensor, or what it is a view of, lies in; null if none. The caller holds a lock on
    /// the context.
    fn buffer(&self) -> sys::ggml_backend_buffer_t {
        // SAFETY: a live descriptor: a view's source is kept alive by the view's context.
        unsafe { (*self.root().as_ptr()).buffer }
    }

    /// The kind of memory that the tensor lies in; `None` if it has none. The caller holds a lock on the
    /// context.
    pub(crate) fn memory_type(&self) -> Option<BufferType> {
        let buffer = self.buffer();
        // SAFETY: a live buffer, kept alive by the tensor's context.
        (!buffer.is_null())
            .then(|| BufferType::from_raw(unsafe { sys::ggml_backend_buffer_get_type(buffer) }))
    }

    /// Whether the tensor has an address. The caller holds a lock on the context.
    pub(crate) fn has_data(&self) -> bool {
        // SAFETY: a field of the live descriptor.
        unsafe { !(*self.raw.as_ptr()).data.is_null() }
    }

    /// Whether the tensor is no operation's result and tied to a buffer, so that its descriptor no longer
    /// changes. The caller holds a lock on the context.
    pub(crate) fn is_placed_leaf(&self) -> bool {
        // SAFETY: fields of the live descriptor.
        unsafe {
            let tensor = self.raw.as_ptr();
            (*tensor).op == sys::GGML_OP_NONE && !(*tensor).buffer.is_null()
        }
    }

    /// Whether the tensor is no operation's result and has neither memory nor a buffer. The caller holds a
    /// lock on the context.
    pub(crate) fn is_unplaced_leaf(&self) -> bool {
        // SAFETY: fields of the live descriptor.
        unsafe {
            let tensor = self.raw.as_ptr();
            (*tensor).op == sys::GGML_OP_NONE && (*tensor).buffer.is_null() && (*tensor).data.is_null()
        }
    }

    /// Whether the tensor lies in read-only memory. The caller holds a lock on the context.
    pub(crate) fn is_read_only(&self) -> bool {
        let buffer = self.buffer();
        // SAFETY: a live buffer, kept alive by the tensor's context; its usage never changes.
        !buffer.is_null()
            && unsafe { sys::ggml_backend_buffer_get_usage(buffer) } == sys::GGML_BACKEND_BUFFER_USAGE_WEIGHTS
    }
}

/// Bytes of a tensor's data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// From the tensor's start.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name(), self.ty(), self.shape())
    }
}
