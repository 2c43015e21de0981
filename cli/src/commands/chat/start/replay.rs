//! `/history`: shows the conversation so far.

use anyhow::Result;
use longhand::Chat;
use terminal::console;

use crate::app::App;
use crate::commands::chat::front_end::FrontEnd;
use crate::failure::Failure;
use crate::session::turn;

/// Shows all questions and answers.
///
/// # Errors
/// Where nothing was asked yet, or the output cannot be written.
pub fn replay(app: &App, front_end: &FrontEnd, chat: &Chat) -> Result<()> {
    let turns = chat.conversation();
    if turns.is_empty() {
        return Err(Failure::new("nothing was asked yet", "ask a question first").into());
    }
    let answered_by = chat.answered_by();
    let last = turns.len() - 1;
    for (i, (question, answer)) in turns.into_iter().enumerate() {
        let gap = if i == 0 { "" } else { "\n" };
        let question = app.console.paint(36, &format!("> {}", app.console.sanitize(question.trim())));
        front_end.print(&format!("{gap}{question}\n"))?;
        if let Some(model) = answered_by.get(i).copied().flatten() {
            front_end.print(&format!("{}\n", app.console.dim(&console::visible(&format!("({model})")))))?;
        }
        let mut view = front_end.answer_view();
        view.push(answer.unwrap_or(turn::no_answer(i == last)).trim())?;
        view.finish()?;
    }
    Ok(())
}
