//! The form in which a template gets the contents of messages: most want texts, some want lists of parts.

/// The form of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::chat) enum Form {
    /// A text.
    Text,
    /// `[{"type": "text", "text": TEXT}]`, as templates of models that also see images often want it.
    Parts,
}

/// The roles whose contents are lists of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::chat) struct Forms(&'static [&'static str]);

impl Forms {
    /// All contents are texts.
    pub(in crate::chat) const TEXT: Forms = Forms(&[]);

    /// All that a template can want, the most usual first.
    pub(in crate::chat) fn all() -> impl Iterator<Item = Forms> {
        const ROLES: [&[&str]; 8] = [
            &[],
            &["system", "user", "assistant"],
            &["user"],
            &["user", "assistant"],
            &["system", "user"],
            &["system"],
            &["assistant"],
            &["system", "assistant"],
        ];
        ROLES.into_iter().map(Forms)
    }

    /// The form of the contents of a role.
    pub(in crate::chat) fn of(self, role: &str) -> Form {
        if self.0.contains(&role) { Form::Parts } else { Form::Text }
    }
}
