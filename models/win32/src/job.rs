//! Job objects: limits for child processes, which end with the process that holds the job.

use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::process::Child;
use std::ptr;

use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_ACTIVE_PROCESS,
    JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOB_OBJECT_LIMIT_PROCESS_MEMORY, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject,
};

/// A job of one process. Dropping it ends the process; the system does that when this process ends, however it ends.
#[derive(Debug)]
pub struct Job(OwnedHandle);

impl Job {
    /// A job whose process has at most so many bytes of memory, starts no other process, and shows no window where it fails.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn new(memory_bytes: u64) -> io::Result<Job> {
        // SAFETY: without a name and attributes; null is checked, and else the handle has one owner, `Job`.
        let job = unsafe {
            let handle = CreateJobObjectW(ptr::null(), ptr::null());
            if handle.is_null() {
                return Err(io::Error::last_os_error());
            }
            Job(OwnedHandle::from_raw_handle(handle))
        };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_ACTIVE_PROCESS
            | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
            | JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
            | JOB_OBJECT_LIMIT_PROCESS_MEMORY;
        limits.BasicLimitInformation.ActiveProcessLimit = 1;
        limits.ProcessMemoryLimit = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let length = size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>() as u32;
        // SAFETY: the handle is open, and the structure is the one for this number, with its length.
        crate::checked(unsafe {
            SetInformationJobObject(
                job.0.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                length,
            )
        })?;
        Ok(job)
    }

    /// Puts a process into the job.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn add(&self, child: &Child) -> io::Result<()> {
        // SAFETY: both handles are open.
        crate::checked(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), child.as_raw_handle()) })
    }
}
