//! Runs chat templates. They are programs from the file, so they are compiled and rendered in a process of their own
//! (`worker`, `wire`), unless their text is known or there can be no such process (`in_process`). `environment` and
//! `python` are their language, `form` is what they get. Uses messages and errors of `chat`, and knows nothing of prompts and
//! tokens.

mod environment;
mod form;
mod in_process;
mod python;
mod wire;
mod worker;

use std::collections::BTreeMap;
use std::sync::Once;

use chrono::{DateTime, FixedOffset};

pub use self::worker::{TEMPLATES, serve};

pub(super) use self::environment::{Variable, json_text, push_json};
pub(super) use self::form::Forms;
use super::{CHAT_ML, ChatError, Message, PLAIN};

/// The template in the embedded model's file.
const EMBEDDED: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] \
    + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// The templates that are known: they do no harm.
const KNOWN: [&str; 3] = [EMBEDDED, CHAT_ML, PLAIN];

/// Stack of a known template, which nests nothing.
const STACK_BYTES: usize = 1 << 20;

/// A compiled template.
#[derive(Debug)]
pub(in crate::chat) enum Template {
    /// Rendered in this process.
    InProcess {
        template: in_process::Template,
        /// Why there is no child, if there should be one.
        unconfined: Option<String>,
    },
    /// Rendered in a child process.
    Worker(worker::Template),
}

impl Template {
    /// Compiles a template. `now` is the time of `strftime_now`; it is the same for a whole conversation, so that the
    /// beginning of the prompt never changes. Where the system refuses a child, an unknown template is rendered in this
    /// process too, with limits on its instructions and its output only.
    pub(in crate::chat) fn compile(source: &str, now: DateTime<FixedOffset>) -> Result<Template, ChatError> {
        initialise();
        if KNOWN.contains(&source) {
            let template = in_process::Template::compile(source, now, STACK_BYTES)?;
            return Ok(Template::InProcess { template, unconfined: None });
        }
        let unconfined = match worker::Template::compile(source, now) {
            Err(ChatError::NoProcess { why }) => Some(why),
            compiled => return compiled.map(Template::Worker),
        };
        let template = in_process::Template::compile(source, now, environment::STACK_BYTES)?;
        Ok(Template::InProcess { template, unconfined })
    }

    /// Renders the template with these variables and messages, whose contents have these forms.
    pub(in crate::chat) fn render(
        &self,
        variables: &BTreeMap<String, Variable>,
        messages: &[Message],
        forms: Forms,
    ) -> Result<String, ChatError> {
        match self {
            Template::InProcess { template, .. } => template.render(variables, messages, forms),
            Template::Worker(template) => template.render(variables, messages, forms),
        }
    }

    /// Why an unknown template has no process of its own, if the system refused one.
    pub(in crate::chat) fn unconfined(&self) -> Option<&str> {
        match self {
            Template::InProcess { unconfined, .. } => unconfined.as_deref(),
            Template::Worker(_) => None,
        }
    }
}

/// Lets the template engine make its static values, which it does at the first use. A child that is forked while another
/// thread makes one would wait for that thread forever.
fn initialise() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for source in KNOWN {
            let template = in_process::Template::compile(source, DateTime::UNIX_EPOCH.into(), STACK_BYTES);
            let messages = [Message::system("?"), Message::user("?"), Message::assistant("?")];
            // Whether it works does not matter here.
            let _ = template.and_then(|template| template.render(&BTreeMap::new(), &messages, Forms::TEXT));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded;
    use crate::gguf::{GgufFile, Value};

    #[test]
    fn the_embedded_models_template_is_known() {
        let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
        let Some(Value::String(text)) = file.get("tokenizer.chat_template") else { panic!("no template") };
        assert_eq!(text.to_str(), Some(EMBEDDED));
    }

    #[test]
    fn known_templates_need_no_process() {
        let now = DateTime::parse_from_rfc3339("2024-07-06T08:09:10+02:00").expect("a date");
        for source in KNOWN {
            let template = Template::compile(source, now).expect("compiles");
            assert!(matches!(template, Template::InProcess { unconfined: None, .. }), "{source}");
            let variables = BTreeMap::from([("add_generation_prompt".to_owned(), Variable::Flag(true))]);
            let text = template.render(&variables, &[Message::user("Hello")], Forms::TEXT).expect("renders");
            assert!(text.contains("Hello") && text.contains("ssistant"), "{text}");
        }
        // The program of a test is no worker.
        let compiled = Template::compile("{{ messages }}", now).expect("compiles");
        assert_eq!(matches!(compiled, Template::Worker(_)), cfg!(target_os = "linux"));
        assert_eq!(compiled.unconfined().is_some(), cfg!(not(target_os = "linux")));
    }
}
