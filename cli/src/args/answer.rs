//! Flags for how answers are shown.

use clap::Args;

/// How answers are shown.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct AnswerArgs {
    /// Show answers as the model writes them, also on a terminal: no wrapping, no formatting, no colours in them
    #[arg(long)]
    pub plain: bool,
}
