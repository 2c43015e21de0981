//! A file mapped into memory, and what happens if the file is lost while it is mapped.
//!
//! If a file becomes shorter, or its disk fails, the system has no content for a page that a thread reads. It
//! then sends SIGBUS, which ends the process. On unix, the first map installs a handler for SIGBUS. If the
//! address is in a [`MappedFile`], the handler notes that the file is lost. It maps zeros over the rest of
//! it, so that the thread goes on. Whoever has read from the file calls [`MappedFile::check_complete`] before
//! it uses what follows from it. Signals for other addresses go to the handler that was there before.
//!
//! The only `unsafe` code of this crate is here.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::Mmap;

use crate::error::LoadError;
use crate::regular_file;

/// A whole file, mapped for reading.
pub struct MappedFile {
    path: PathBuf,
    file: File,
    /// Whether the file was found too short.
    shorter: AtomicBool,
    #[cfg(unix)]
    watch: Option<&'static fault::Watch>,
    // Dropped after the watch has ended: see `drop`.
    map: Mmap,
}

impl MappedFile {
    /// Opens and maps a file that is not empty.
    ///
    /// # Errors
    /// Where it cannot be opened, is no regular file, or the system cannot map it.
    pub fn open(path: &Path) -> io::Result<MappedFile> {
        let file = regular_file::open(path)?;
        // SAFETY: the map is private and read-only, and `MappedFile` returns no slice that outlives it.
        // Another process may still change the file, which no program that maps weights can prevent, or make
        // it shorter, which `fault` turns into zeros. All numbers read from the map are bounded by the length
        // at the time of mapping and are used from copies, never read twice.
        let map = unsafe { Mmap::map(&file) }?;
        Ok(MappedFile {
            path: path.to_owned(),
            file,
            shorter: AtomicBool::new(false),
            #[cfg(unix)]
            watch: fault::Watch::begin(&map),
            map,
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// An error if the file has become shorter, or could not be read: what was read from it may be zeros.
    pub fn check_complete(&self) -> Result<(), LoadError> {
        let opened_bytes = self.map.len() as u64;
        let bytes = self.file.metadata().map_or(opened_bytes, |metadata| metadata.len());
        if bytes < opened_bytes {
            // It stays lost, even if it becomes longer again.
            self.shorter.store(true, Ordering::Relaxed);
        }
        #[cfg(unix)]
        let unreadable = self.watch.is_some_and(fault::Watch::has_faults);
        #[cfg(not(unix))]
        let unreadable = false;
        match unreadable || self.shorter.load(Ordering::Relaxed) {
            true => Err(LoadError::Lost { path: self.path.clone(), opened_bytes, bytes }),
            false => Ok(()),
        }
    }

    /// Tells the operating system that it may drop the memory pages of a range. Reading them still works:
    /// they are then read from the file again. Does nothing for a range that is not inside the file.
    pub fn release_pages(&self, offset: usize, bytes: usize) {
        #[cfg(unix)]
        if offset.checked_add(bytes).is_some_and(|end| end <= self.map.len()) {
            // SAFETY: the range is inside the map (the map's own function compares offset and length only one
            // by one). Pages dropped from a private, read-only map of a file are read from the file again.
            let _ =
                unsafe { self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes) };
        }
        #[cfg(not(unix))]
        let _ = (offset, bytes);
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

#[cfg(unix)]
impl Drop for MappedFile {
    fn drop(&mut self) {
        // The addresses may belong to something else as soon as the map is gone.
        if let Some(watch) = self.watch {
            watch.end();
        }
    }
}

/// The handler of SIGBUS. What runs in it is async-signal-safe: it reads and writes atomics and calls mmap.
/// It takes no lock and allocates nothing.
#[cfg(unix)]
mod fault {
    use std::ffi::{c_int, c_void};
    use std::ptr;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Mutex, Once, OnceLock, PoisonError};

    /// Maps watched at a time. In a process with more, faults in the others end it, as without a handler.
    const MAX_WATCHES: usize = 1024;

    static WATCHES: [Watch; MAX_WATCHES] = [const { Watch::unused() }; MAX_WATCHES];
    /// Held while a watch begins.
    static BEGINNING: Mutex<()> = Mutex::new(());
    static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
    /// The action that was there before.
    static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

    /// A range of addresses in which faults are handled.
    pub(super) struct Watch {
        /// First address; 0 if unused.
        start: AtomicUsize,
        /// The address behind the last one.
        end: AtomicUsize,
        faults: AtomicBool,
    }

    impl Watch {
        const fn unused() -> Watch {
            Watch { start: AtomicUsize::new(0), end: AtomicUsize::new(0), faults: AtomicBool::new(false) }
        }

        /// Watches a map of a file; `None` if there are too many.
        pub(super) fn begin(map: &[u8]) -> Option<&'static Watch> {
            install();
            let _beginning = BEGINNING.lock().unwrap_or_else(PoisonError::into_inner);
            let watch = WATCHES.iter().find(|watch| watch.start.load(Ordering::Acquire) == 0)?;
            let start = map.as_ptr() as usize;
            watch.faults.store(false, Ordering::Relaxed);
            watch.end.store(start + map.len(), Ordering::Release);
            watch.start.store(start, Ordering::Release);
            Some(watch)
        }

        /// Must be called before the map is gone, and once.
        pub(super) fn end(&self) {
            self.start.store(0, Ordering::Release);
        }

        /// Whether a page could not be read.
        pub(super) fn has_faults(&self) -> bool {
            self.faults.load(Ordering::Acquire)
        }

        /// Maps zeros from the page of `address` to the end, if the address is in this range.
        fn handle(&self, address: usize) -> bool {
            let start = self.start.load(Ordering::Acquire);
            let end = self.end.load(Ordering::Acquire);
            // The second look at the start: both numbers are of the same range.
            if start == 0 || self.start.load(Ordering::Acquire) != start || !(start..end).contains(&address) {
                return false;
            }
            self.faults.store(true, Ordering::Release);
            let page_bytes = PAGE_BYTES.load(Ordering::Relaxed);
            let page = address & !(page_bytes - 1);
            // SAFETY: the pages are part of a file's map, which lives: a thread reads from it right now. Only
            // their content changes: the file has none for the first page, and then for none that follows.
            let mapped = unsafe {
                libc::mmap(
                    page as *mut c_void,
                    end.next_multiple_of(page_bytes) - page,
                    libc::PROT_READ,
                    libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED,
                    -1,
                    0,
                )
            };
            mapped != libc::MAP_FAILED
        }
    }

    /// Installs the handler, once for the process.
    fn install() {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            // SAFETY: the structures are valid for the calls, all zeros is a valid `sigaction`, and
            // `on_fault` has the signature that SA_SIGINFO asks for. The previous action is known before a
            // signal needs it.
            unsafe {
                PAGE_BYTES.store(libc::sysconf(libc::_SC_PAGESIZE).max(1) as usize, Ordering::Relaxed);
                let mut previous: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous) != 0 {
                    return;
                }
                let _ = PREVIOUS.set(previous);
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_fault as *const () as usize;
                // Threads of Rust have a stack for signals, on which a handler also works after an overflow.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
                libc::sigemptyset(&mut action.sa_mask);
                libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
            }
        });
    }

    extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the system passes a valid structure. A positive code is a fault, which has an address.
        let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
        if code > 0 && WATCHES.iter().any(|watch| watch.handle(address)) {
            return;
        }
        let previous = PREVIOUS.get().map(|action| (action.sa_sigaction, action.sa_flags));
        // SAFETY: the previous handler is called as the system would call it. Without one, the default action
        // ends the process when this handler returns.
        unsafe {
            match previous {
                None | Some((libc::SIG_DFL | libc::SIG_IGN, _)) => {
                    libc::signal(signal, libc::SIG_DFL);
                    libc::raise(signal);
                }
                Some((handler, flags)) if flags & libc::SA_SIGINFO != 0 => {
                    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                        std::mem::transmute(handler);
                    handler(signal, info, context);
                }
                Some((handler, _)) => {
                    let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
    }
}
