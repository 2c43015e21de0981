//! Flags for how documents are read.

use clap::Args;
use documents::Options;

use crate::failure::Failure;

/// How documents are read.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Documents")]
pub struct DocumentArgs {
    /// Read all files of folders and patterns: also hidden ones, those that .gitignore names, lock files, style sheets,
    /// minified and generated code, and folders such as node_modules
    #[arg(long)]
    pub all_files: bool,
}

impl DocumentArgs {
    /// What is read, and how.
    ///
    /// # Errors
    /// A file that is named cannot be read.
    pub fn options(&self) -> Result<Options, Failure> {
        Ok(Options { all_files: self.all_files, ..Options::default() })
    }

    /// The flags as words of a command line.
    pub fn words(&self) -> Vec<String> {
        if self.all_files { vec!["--all-files".to_owned()] } else { Vec::new() }
    }
}
