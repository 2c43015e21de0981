//! Commands for what is kept on disk: conversations, documents that were read, and settings.

pub mod config;
pub mod documents;
pub mod sessions;

use clap::Args;

/// How a list is printed.
#[derive(Debug, Args)]
struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}
