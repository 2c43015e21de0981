//! `/think`: whether the model thinks before it answers, and whether that is shown.

use anyhow::Result;
use longhand::Chat;
use longhand::text::split_thinking;

use crate::commands::chat::front_end::FrontEnd;
use crate::failure::Failure;

/// Changes how the model thinks or what is shown of it; alone shows what it thought last. Returns what was done.
///
/// # Errors
/// Where the model's chat template has no switch for it, or the argument is unknown.
pub fn think(front_end: &mut FrontEnd, chat: &mut Chat, what: &str) -> Result<String> {
    Ok(match what {
        "on" => {
            chat.set_thinking(true)?;
            "the model thinks before its next answers"
        }
        "off" => {
            chat.set_thinking(false)?;
            "the model answers without thinking from now on"
        }
        "show" => {
            front_end.hide_thinking(false);
            "what the model thinks is shown from now on"
        }
        "hide" => {
            front_end.hide_thinking(true);
            "what the model thinks is hidden from now on; /think shows it"
        }
        "" => {
            let turns = chat.conversation();
            let last = turns.last().and_then(|(_, answer)| split_thinking((*answer)?).0);
            let last = last.ok_or_else(|| {
                Failure::new(
                    "the last answer has no thinking",
                    "/think on, off, show or hide changes what comes next",
                )
            })?;
            front_end.print_thinking(last)?;
            return Ok(String::new());
        }
        other => {
            let error = format!("/think takes on, off, show or hide, but {other} was given");
            return Err(Failure::usage(error, "/think alone shows what the model thought last").into());
        }
    }
    .to_owned())
}
