//! Flags for what answers begin with, how they are computed and how they are shown.

use clap::{Args, ValueEnum};
use longhand::{ChatFormat, EngineError, Model, SessionOptions, SetupOptions};

/// What answers begin with, how they are computed and how they are shown.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Answers")]
pub struct AnswerArgs {
    /// Whether the model thinks before it answers, and whether that is shown [default: what the model's chat
    /// template says; shown]
    #[arg(long, value_enum, value_name = "HOW")]
    think: Option<ThinkArg>,
    /// Show answers as the model writes them, also on a terminal: no wrapping, no formatting, no colours in them
    #[arg(long)]
    pub plain: bool,
    /// Read documents without asking, however long that takes. Otherwise a reading of more than ten minutes is asked about
    /// on a terminal
    #[arg(short = 'y', long)]
    pub yes: bool,
    #[command(flatten)]
    draft: DraftArg,
}

/// The flag for tokens that are computed ahead.
#[derive(Clone, Debug, Args)]
pub struct DraftArg {
    /// Where an answer quotes the text before it, compute up to so many of its tokens ahead, which is faster; 0 computes one
    /// after another
    #[arg(long, visible_alias = "draft-max", value_name = "TOKENS", default_value_t = SessionOptions::DRAFT)]
    draft: usize,
}

/// What becomes of thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ThinkArg {
    /// The model thinks; for models with a switch
    On,
    /// The model does not think; for models with a switch
    Off,
    /// What the model thinks is not shown
    Hide,
}

impl DraftArg {
    /// The options, with how many tokens are computed ahead.
    pub fn apply(&self, options: SetupOptions) -> SetupOptions {
        SetupOptions { draft: self.draft, ..options }
    }
}

impl AnswerArgs {
    /// Whether the model thinks; `None` where its chat template decides.
    pub fn thinking(&self) -> Option<bool> {
        match self.think {
            Some(ThinkArg::On) => Some(true),
            Some(ThinkArg::Off) => Some(false),
            Some(ThinkArg::Hide) | None => None,
        }
    }

    /// The options, with how answers are computed.
    pub fn apply(&self, options: SetupOptions) -> SetupOptions {
        self.draft.apply(options)
    }

    /// The flags that have a part in what is read, as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let switch = self.thinking().map(|thinks| if thinks { "on" } else { "off" });
        switch.map_or_else(Vec::new, |switch| vec!["--think".to_owned(), switch.to_owned()])
    }

    /// How the model's file writes conversations, with its switch for thinking set.
    ///
    /// # Errors
    /// Those of [`Model::chat_format`], and where the chat template has no switch.
    pub fn chat_format(&self, model: &Model) -> Result<ChatFormat, EngineError> {
        let format = model.chat_format()?;
        self.thinking().map_or_else(|| Ok(format.clone()), |thinks| format.with_thinking(thinks))
    }

    /// Whether thinking is hidden.
    pub fn hides_thinking(&self) -> bool {
        self.think == Some(ThinkArg::Hide)
    }
}
