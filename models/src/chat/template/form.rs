//! The form in which a template gets messages. Most want the contents as texts, some as lists of parts. Most want the
//! arguments of calls as objects, some as texts.

use crate::chat::Message;

/// The form of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::chat) struct Form {
    /// The content is `[{"type": "text", "text": TEXT}]`, as templates of models that also see images often want it.
    pub(in crate::chat) has_parts: bool,
    /// The arguments of calls are JSON as a text instead of an object.
    pub(in crate::chat) has_text_arguments: bool,
    /// An empty content beside calls is none instead of an empty text.
    pub(in crate::chat) has_no_content: bool,
}

/// The forms of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::chat) struct Forms {
    /// The roles whose contents are lists of parts.
    parts: &'static [&'static str],
    has_text_arguments: bool,
    has_no_content: bool,
}

impl Forms {
    /// All contents are texts, and all arguments objects.
    pub(in crate::chat) const TEXT: Forms =
        Forms { parts: &[], has_text_arguments: false, has_no_content: false };

    /// All that a template can want for these messages, the most usual first.
    pub(in crate::chat) fn all(messages: &[Message]) -> impl Iterator<Item = Forms> {
        const ROLES: [&[&str]; 8] = [
            &[],
            &["system", "user", "assistant", "tool"],
            &["user"],
            &["user", "assistant"],
            &["system", "user"],
            &["system"],
            &["assistant"],
            &["system", "assistant"],
        ];
        ROLES
            .into_iter()
            .flat_map(|parts| Forms::with_calls(messages).map(move |forms| Forms { parts, ..forms }))
    }

    /// Those with contents that are texts.
    pub(in crate::chat) fn with_calls(messages: &[Message]) -> impl Iterator<Item = Forms> {
        let has_calls = messages.iter().any(|message| !message.tool_calls.is_empty());
        let calls: &[(bool, bool)] = if has_calls {
            &[(false, false), (false, true), (true, false), (true, true)]
        } else {
            &[(false, false)]
        };
        calls.iter().map(|(has_text_arguments, has_no_content)| Forms {
            has_text_arguments: *has_text_arguments,
            has_no_content: *has_no_content,
            ..Forms::TEXT
        })
    }

    /// The form of a message.
    pub(in crate::chat) fn of(self, message: &Message) -> Form {
        Form {
            has_parts: self.parts.contains(&message.role.as_str()),
            has_text_arguments: self.has_text_arguments,
            has_no_content: self.has_no_content,
        }
    }

    /// Whether contents of any role are lists of parts.
    pub(in crate::chat) fn has_parts(self) -> bool {
        !self.parts.is_empty()
    }
}
