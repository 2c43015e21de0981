//! `/find`: where words stand in the documents, each with the line around it.

use anyhow::Result;
use longhand::Chat;
use terminal::format;

use super::texts;
use crate::app::App;
use crate::failure::Failure;
use crate::session::sources::one_line;

/// What is shown, at most.
const MAX_SHOWN: usize = 30;
/// Bytes of the text before and behind what was found.
const BEFORE: usize = 60;
const BEHIND: usize = 100;

/// Finds words. Returns what to print.
///
/// # Errors
/// Where there are no words or no documents.
pub fn find(app: &App, chat: &Chat, words: &str) -> Result<String> {
    let texts = texts(chat);
    if words.is_empty() {
        return Err(Failure::usage("no words are given", "for example: /find notice period").into());
    }
    if texts.is_empty() {
        return Err(Failure::new("there are no documents to search", "/read FILE reads one").into());
    }
    let (mut lines, mut all) = (String::new(), 0);
    for (text, outline) in texts {
        let left = MAX_SHOWN.saturating_sub(all);
        let (found, count) = lookup::find(text, words, left);
        all += count;
        for range in found {
            let location = outline.location(text, range.start).to_string();
            let colon = if location.is_empty() { "" } else { ": " };
            let before = around(text, range.start.saturating_sub(BEFORE), range.start);
            let behind = around(text, range.end, (range.end + BEHIND).min(text.len()));
            let (line_before, line_behind) = (
                before.rsplit('\n').next().unwrap_or_default(),
                behind.split('\n').next().unwrap_or_default(),
            );
            let cut = |is_cut: bool| if is_cut { "\u{2026}" } else { "" };
            let starts = cut(line_before.len() == before.len() && range.start > BEFORE);
            let ends = cut(line_behind.len() == behind.len() && range.end + BEHIND < text.len());
            // What was found may reach over several lines.
            let word = one_line(&text[range], 200);
            lines += &format!(
                "{}{colon}{starts}{}{}{}{ends}\n",
                app.console.dim(&app.console.sanitize(&location)),
                app.console.sanitize(line_before.trim_start()),
                app.console.paint(33, &word),
                app.console.sanitize(line_behind.trim_end()),
            );
        }
    }
    let s = if all == 1 { "" } else { "s" };
    Ok(match all {
        0 => format!("{words} is not in the documents\n"),
        1..=MAX_SHOWN => format!("{lines}{all} place{s}\n"),
        _ => format!("{lines}the first {MAX_SHOWN} of {} places\n", format::count(all)),
    })
}

/// The text between two bytes, which may be within characters.
fn around(text: &str, from: usize, to: usize) -> &str {
    let from = (from..=to).find(|at| text.is_char_boundary(*at)).unwrap_or(to);
    let to = (from..=to).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(from);
    &text[from..to]
}
