//! The flag for what is kept on the disk.

use clap::Args;
use longhand::{DocumentCache, folders};

use super::values;

/// How much is kept on the disk.
#[derive(Clone, Debug, Args)]
pub struct DiskArgs {
    /// Disk space for documents that were read: they are found the next time. The KV caches of kept conversations may
    /// take as much again. What was not used for longest is removed first. 0 keeps neither, only the words of
    /// conversations
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = values::bytes)]
    disk_cache: usize,
}

impl DiskArgs {
    /// Most bytes of each kind.
    pub fn limit(&self) -> u64 {
        self.disk_cache as u64
    }

    /// Where documents that were read are kept; `None` if they are not.
    pub fn documents(&self) -> Option<DocumentCache> {
        let folder = folders::cache().filter(|_| self.disk_cache > 0)?;
        Some(DocumentCache::new(&folder.join("documents"), self.limit()))
    }
}
