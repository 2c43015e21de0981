//! Runs chat templates in this process, on systems where a process cannot be forked.

use std::collections::BTreeMap;

use chrono::{DateTime, FixedOffset};

use super::environment::{self, Compiled, Variable};
use super::form::Forms;
use crate::chat::{ChatError, Message};

/// A compiled template.
#[derive(Debug)]
pub(in crate::chat) struct Template(Compiled);

impl Template {
    /// Compiles a template. `now` is the time of `strftime_now`.
    pub(in crate::chat) fn compile(source: &str, now: DateTime<FixedOffset>) -> Result<Template, ChatError> {
        let source = environment::prepare(source)?;
        on_big_stack(|| Ok(Template(Compiled::new(source, now)?)))
    }

    /// Renders the template with these variables and messages, whose contents have these forms.
    pub(in crate::chat) fn render(
        &self,
        variables: &BTreeMap<String, Variable>,
        messages: &[Message],
        forms: Forms,
    ) -> Result<String, ChatError> {
        let messages = messages.iter().map(|message| (message.clone(), forms.of(&message.role))).collect();
        on_big_stack(|| self.0.render(variables.clone(), messages))
    }
}

/// Runs `work` on a thread with a stack of [`environment::STACK_BYTES`].
fn on_big_stack<T: Send>(work: impl FnOnce() -> Result<T, ChatError> + Send) -> Result<T, ChatError> {
    std::thread::scope(|scope| {
        let failed = |why: &str| ChatError::Failed { why: why.to_owned() };
        let thread = std::thread::Builder::new()
            .name("chat template".into())
            .stack_size(environment::STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|e| failed(&format!("no thread for it: {e}")))?;
        thread.join().unwrap_or_else(|_| Err(failed("the template engine panicked")))
    })
}
