//! Tensors: a descriptor (type, shape, strides) and, once allocated, the data behind it.

use std::ffi::CStr;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;

use ggml_sys as sys;

use crate::{Error, Type, context};

/// Extents of up to four dimensions, fastest first; unused ones are 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape(pub [usize; 4]);

impl Shape {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }

    /// Bytes of a contiguous tensor of this shape; `None` on overflow.
    pub fn bytes(&self, ty: Type) -> Option<usize> {
        let row = (self.0[0] / ty.block_elements()).checked_mul(ty.block_bytes())?;
        let bytes = self.0[1..].iter().try_fold(row, |bytes, n| bytes.checked_mul(*n))?;
        (bytes <= isize::MAX as usize).then_some(bytes)
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
    pub(crate) context: Rc<context::Inner>,
}

/// Plain data that may be copied into and out of tensors.
///
/// # Safety
/// Implementors have no padding and accept every bit pattern.
pub unsafe trait Element: Copy + Default {}
// SAFETY: plain numbers.
unsafe impl Element for f32 {}
// SAFETY: as above.
unsafe impl Element for i32 {}
// SAFETY: as above.
unsafe impl Element for i64 {}
// SAFETY: as above.
unsafe impl Element for u16 {}
// SAFETY: as above.
unsafe impl Element for u8 {}

impl Tensor {
    fn get(&self) -> &sys::ggml_tensor {
        // SAFETY: the handle keeps the context, and with it the descriptor, alive; descriptors
        // change only in calls made through this single-threaded wrapper.
        unsafe { self.raw.as_ref() }
    }

    /// Element type.
    pub fn ty(&self) -> Type {
        Type::from_raw(self.get().type_)
    }

    /// Extents.
    pub fn shape(&self) -> Shape {
        Shape(self.get().ne.map(|n| n as usize))
    }

    /// Extent of dimension `i`.
    pub fn dim(&self, i: usize) -> usize {
        self.get().ne[i] as usize
    }

    /// Distance in bytes between neighbours along each dimension.
    pub fn strides(&self) -> [usize; 4] {
        self.get().nb
    }

    /// Bytes from the first to the last element, strides included.
    pub fn bytes(&self) -> usize {
        // SAFETY: live descriptor.
        unsafe { sys::ggml_nbytes(self.raw.as_ptr()) }
    }

    /// Name given by [`Tensor::named`].
    pub fn name(&self) -> String {
        // SAFETY: the name is a NUL-terminated array inside the live descriptor.
        unsafe { CStr::from_ptr(self.get().name.as_ptr()) }.to_string_lossy().into_owned()
    }

    /// Whether elements lie without gaps in memory order.
    pub fn is_contiguous(&self) -> bool {
        // SAFETY: live descriptor.
        unsafe { sys::ggml_is_contiguous(self.raw.as_ptr()) }
    }

    /// Whether the tensor has memory.
    pub fn is_allocated(&self) -> bool {
        !self.get().data.is_null()
    }

    /// Marks the tensor as a result: its memory is not reused by later operations of the graph.
    pub fn output(self) -> Tensor {
        // SAFETY: sets a flag on a live descriptor.
        unsafe { sys::ggml_set_output(self.raw.as_ptr()) };
        self
    }

    /// Copies `data` to the tensor, `offset` bytes from its start.
    pub fn write<T: Element>(&self, offset: usize, data: &[T]) -> Result<(), Error> {
        let bytes = size_of_val(data);
        self.check_access("write", offset, bytes)?;
        self.check_writable()?;
        // SAFETY: the tensor has memory and [offset, offset + bytes) lies inside it.
        unsafe { sys::ggml_backend_tensor_set(self.raw.as_ptr(), data.as_ptr().cast(), offset, bytes) };
        Ok(())
    }

    /// Copies from the tensor, `offset` bytes from its start, into `data`.
    pub fn read<T: Element>(&self, offset: usize, data: &mut [T]) -> Result<(), Error> {
        let bytes = size_of_val(data);
        self.check_access("read", offset, bytes)?;
        // SAFETY: as in `write`; every bit pattern is a valid T.
        unsafe { sys::ggml_backend_tensor_get(self.raw.as_ptr(), data.as_mut_ptr().cast(), offset, bytes) };
        Ok(())
    }

    /// The whole contiguous tensor as a vector.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        let mut data = vec![T::default(); self.bytes() / size_of::<T>()];
        self.read(0, &mut data)?;
        Ok(data)
    }

    /// Sets every byte to zero.
    pub fn clear(&self) -> Result<(), Error> {
        let bytes = self.bytes();
        self.check_access("clear", 0, bytes)?;
        self.check_writable()?;
        // SAFETY: the tensor has memory of at least `bytes`.
        unsafe { sys::ggml_backend_tensor_memset(self.raw.as_ptr(), 0, 0, bytes) };
        Ok(())
    }

    /// The buffer that the tensor or what it is a view of lies in; null if none.
    fn buffer(&self) -> sys::ggml_backend_buffer_t {
        let tensor = self.get();
        let owner = if tensor.view_src.is_null() { self.raw.as_ptr() } else { tensor.view_src };
        // SAFETY: a view's source is kept alive by the view's context.
        unsafe { (*owner).buffer }
    }

    /// Refuses tensors over somebody else's memory, which are for reading.
    fn check_writable(&self) -> Result<(), Error> {
        // SAFETY: `check_access` found a live buffer.
        let usage = unsafe { sys::ggml_backend_buffer_get_usage(self.buffer()) };
        match usage {
            sys::GGML_BACKEND_BUFFER_USAGE_WEIGHTS => Err(Error::ReadOnly(self.name())),
            _ => Ok(()),
        }
    }

    fn check_access(&self, what: &'static str, offset: usize, bytes: usize) -> Result<(), Error> {
        if let Some((memory, generation)) = &*self.context.prepared.borrow()
            && memory.generation.get() != *generation
        {
            return Err(Error::StaleGraph);
        }
        let (tensor, buffer) = (self.get(), self.buffer());
        if tensor.data.is_null() || buffer.is_null() {
            return Err(Error::NotAllocated(self.name()));
        }
        let found = offset.saturating_add(bytes);
        if found > self.bytes() {
            return Err(Error::DataSize { what, tensor: self.name(), expected: self.bytes(), found });
        }
        Ok(())
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name(), self.ty(), self.shape())
    }
}
