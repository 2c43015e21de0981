//! Memory of Rust code that the system refuses. Rust's own answer is to abort the process; a program that uses
//! [`FatalAllocator`] ends through its hook ([`crate::on_fatal`]) instead.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::fatal;

/// The system's allocator. If it refuses memory and there is a hook, the process ends through the hook with
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: ggml::FatalAllocator = ggml::FatalAllocator;
///
/// ggml::on_fatal(|error| {
///     eprintln!("{error}");
///     1
/// });
/// ```
pub struct FatalAllocator;

// SAFETY: every call is the system allocator's, with the same arguments and the same result.
unsafe impl GlobalAlloc for FatalAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the system allocator's condition; here and below.
        granted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        granted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        granted(unsafe { System.realloc(memory, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The memory. If it was refused and there is a hook, the process ends here. The hook is taken before it runs, so a
/// refusal inside it is only a null pointer.
#[inline]
fn granted(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        fatal::raise_refused(bytes);
    }
    memory
}
