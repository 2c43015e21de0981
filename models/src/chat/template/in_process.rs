//! Runs chat templates in this process: those that are known, and all where a process cannot be forked.

use std::collections::BTreeMap;

use chrono::{DateTime, FixedOffset};

use super::environment::{self, Compiled, Variable};
use super::form::Forms;
use crate::chat::{ChatError, Message};

/// A compiled template.
#[derive(Debug)]
pub(in crate::chat) struct Template {
    compiled: Compiled,
    stack_bytes: usize,
}

impl Template {
    /// Compiles a template, which is then rendered on a stack of so many bytes. `now` is the time of `strftime_now`.
    pub(super) fn compile(
        source: &str,
        now: DateTime<FixedOffset>,
        stack_bytes: usize,
    ) -> Result<Template, ChatError> {
        let source = environment::prepare(source)?;
        let compiled = on_stack(stack_bytes, || Compiled::new(source, now))?;
        Ok(Template { compiled, stack_bytes })
    }

    /// Renders the template with these variables and messages, whose contents have these forms.
    pub(in crate::chat) fn render(
        &self,
        variables: &BTreeMap<String, Variable>,
        messages: &[Message],
        forms: Forms,
    ) -> Result<String, ChatError> {
        let messages = messages.iter().map(|message| (message.clone(), forms.of(message))).collect();
        on_stack(self.stack_bytes, || self.compiled.render(variables.clone(), messages))
    }
}

/// Runs `work` on a thread with a stack of so many bytes.
fn on_stack<T: Send>(
    stack_bytes: usize,
    work: impl FnOnce() -> Result<T, ChatError> + Send,
) -> Result<T, ChatError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("chat template".into())
            .stack_size(stack_bytes)
            .spawn_scoped(scope, work)
            .map_err(|e| ChatError::NoThread { why: e.to_string() })?;
        let panicked = || ChatError::Failed { why: "the template engine panicked".into() };
        thread.join().unwrap_or_else(|_| Err(panicked()))
    })
}
