//! The flag for what is kept on the disk.

use std::path::{Path, PathBuf};

use clap::Args;
use longhand::files::folders;
use longhand::saved::DocumentCache;
use terminal::console::Console;
use terminal::{format, values};

/// The default of the flag, in bytes: 8 GiB.
const DEFAULT: usize = 8 << 30;

/// How much is kept on the disk.
#[derive(Clone, Debug, Args)]
pub struct DiskArgs {
    /// Disk space for the KV caches of documents that were read, so that they are not read again the next time. The caches
    /// of kept conversations may use as much again. The least recently used are removed first. A cache
    /// that is larger than this is not kept. Nor is one whose writing takes more than a tenth of the reading time, unless
    /// `read` made it, or in `serve` another request waits for it. With 0 no caches are kept, only the text of conversations
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = values::bytes, allow_hyphen_values = true)]
    disk_cache: usize,
}

impl DiskArgs {
    /// The flag as words of a command line, where it is not the default.
    pub fn words(&self) -> Vec<String> {
        match self.disk_cache == DEFAULT {
            true => Vec::new(),
            false => vec!["--disk-cache".to_owned(), format::bytes_flag(self.disk_cache)],
        }
    }

    /// Most bytes of each kind.
    pub fn limit(&self) -> u64 {
        self.disk_cache as u64
    }

    /// Where documents that were read are kept; `None` if they are not.
    pub fn documents(&self) -> Option<DocumentCache> {
        let folder = folders::cache().filter(|_| self.disk_cache > 0)?;
        Some(DocumentCache::new(&documents_in(&folder), self.limit()))
    }

    /// As [`documents`](Self::documents), with a note where no folder is known.
    pub fn documents_or_note(&self, console: &Console) -> Option<DocumentCache> {
        if self.disk_cache > 0 && folders::cache().is_none() {
            console.note(
                "note: what is read is not kept, and is read again the next time: there is no folder for it. Set the \
                 environment variable HOME or XDG_CACHE_HOME",
            );
        }
        self.documents()
    }
}

/// Where documents that were read are, in the folder of caches.
pub fn documents_in(folder: &Path) -> PathBuf {
    folder.join("documents")
}
