//! Flags for how documents are read.

use std::path::{Path, PathBuf};

use clap::Args;
use documents::Options;
use models::regular_file;

use crate::failure::Failure;

/// Largest file with a password, in bytes.
const MAX_PASSWORD_FILE: u64 = 64 << 10;

/// How documents are read.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Documents")]
pub struct DocumentArgs {
    /// Read all files of folders and patterns: also hidden ones, those that .gitignore names, lock files, style sheets,
    /// minified and generated code, and folders such as node_modules
    #[arg(long)]
    pub all_files: bool,
    /// The password of encrypted documents (PDF, DOCX, XLSX, PPTX, OpenDocument, ZIP), on the first line of this file. Without it, a
    /// terminal is asked
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl DocumentArgs {
    /// What is read, and how.
    ///
    /// # Errors
    /// A file that is named cannot be read.
    pub fn options(&self) -> Result<Options, Failure> {
        let password = self.password_file.as_deref().map(password).transpose()?;
        Ok(Options { all_files: self.all_files, password, ..Options::default() })
    }

    /// The flags as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let mut words = if self.all_files { vec!["--all-files".to_owned()] } else { Vec::new() };
        if let Some(file) = &self.password_file {
            words.extend(["--password-file".to_owned(), file.display().to_string()]);
        }
        words
    }
}

/// The first line of a file.
fn password(file: &Path) -> Result<String, Failure> {
    let failed = |what: &str| {
        Failure::new(
            format!("--password-file {}: {what}", file.display()),
            "give a text file whose first line is the password",
        )
    };
    let text =
        regular_file::read_text(file, MAX_PASSWORD_FILE).map_err(|error| failed(&error.to_string()))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() { Err(failed("its first line is empty")) } else { Ok(line.to_owned()) }
}
