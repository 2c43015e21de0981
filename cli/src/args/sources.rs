//! The flag for where answers come from.

use clap::{Args, ValueEnum};

/// Whether it is found out where in the documents answers come from.
#[derive(Clone, Copy, Debug, Args)]
pub struct SourcesArgs {
    /// Find out where in the documents each answer comes from: what the model looked at while it wrote. `ask --sources`
    /// prints the sentences on stderr; `chat` shows their pages below each answer, unless it is off, and --json has them.
    /// `serve --sources` tells them where a request has "sources": true, and needs memory for it in each conversation
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        help_heading = "Answers"
    )]
    sources: Option<Switch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// Sources are found
    On,
    /// Nothing is computed for them
    Off,
}

impl SourcesArgs {
    /// Whether they are wanted, where that is what nobody says otherwise.
    pub fn unless_off(self) -> bool {
        self.sources != Some(Switch::Off)
    }

    /// Whether they are asked for.
    pub fn are_on(self) -> bool {
        self.sources == Some(Switch::On)
    }
}
