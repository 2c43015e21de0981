//! Memory of Rust code that the system refuses. Rust's own answer is to abort the process; a program that uses
//! [`FatalAllocator`] ends through its hook ([`crate::on_fatal`]) instead.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::{Error, fatal};

/// Memory that is freed when the system refuses more, so that the hook can work: an error message, the text of a
/// conversation.
const RESERVE: Layout = Layout::new::<[u8; 1 << 20]>();

static RESERVED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// The system's allocator. If it refuses memory and there is a hook, the process ends through the hook with
/// [`Error::OutOfMemory`].
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
        refused(bytes);
    }
    memory
}

#[cold]
fn refused(bytes: usize) {
    fatal::raise_with(|| {
        let reserved = RESERVED.swap(ptr::null_mut(), Ordering::AcqRel);
        if !reserved.is_null() {
            // SAFETY: allocated with this layout by the system allocator, and taken out of the static once.
            unsafe { System.dealloc(reserved, RESERVE) };
        }
        Error::OutOfMemory { what: "the program's own data".into(), bytes, device: "CPU".into() }
    });
}

/// Reserves memory for the hook.
pub(crate) fn reserve() {
    if RESERVED.load(Ordering::Acquire).is_null() {
        // SAFETY: the layout has a size. Null is checked where the memory is freed.
        let reserved = unsafe { System.alloc(RESERVE) };
        let before = RESERVED.swap(reserved, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: as in `refused`; another thread was faster.
            unsafe { System.dealloc(before, RESERVE) };
        }
    }
}
