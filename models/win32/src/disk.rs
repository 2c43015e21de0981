//! Space on disks.

use std::os::windows::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;

use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;

/// Bytes that this user may still write on the disk of a folder; `None` where that is not known.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let folder: Vec<u16> = folder.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    // SAFETY: the path ends with 0, and the numbers that are not wanted are null.
    let is_known =
        unsafe { GetDiskFreeSpaceExW(folder.as_ptr(), &mut free, ptr::null_mut(), ptr::null_mut()) } != 0;
    is_known.then_some(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_a_folder_is_known() {
        assert!(free_bytes(&std::env::temp_dir()).is_some());
        assert_eq!(free_bytes(Path::new("C:\\no such folder")), None);
    }
}
