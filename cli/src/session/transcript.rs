//! A whole conversation as Markdown.

use longhand::Chat;
use longhand::saved::SavedChat;
use longhand::text::split_thinking;

/// A conversation in words.
pub struct Transcript<'a> {
    model: &'a str,
    documents: Vec<String>,
    system: Option<&'a str>,
    turns: Vec<(&'a str, Option<&'a str>)>,
    /// For each answer the model that gave it, where it is not `model`.
    answered_by: Vec<Option<&'a str>>,
}

impl<'a> From<&'a SavedChat> for Transcript<'a> {
    fn from(saved: &'a SavedChat) -> Transcript<'a> {
        Transcript {
            model: saved.model_name(),
            documents: saved.document_names(),
            system: saved.system(),
            turns: saved.turns(),
            answered_by: saved.answered_by(),
        }
    }
}

impl<'a> From<&'a Chat> for Transcript<'a> {
    fn from(chat: &'a Chat) -> Transcript<'a> {
        Transcript {
            model: chat.session().engine().model().name(),
            documents: chat.read_document_names(),
            system: chat.preamble().system(),
            turns: chat.conversation(),
            answered_by: chat.answered_by(),
        }
    }
}

impl Transcript<'_> {
    /// The conversation as Markdown. Thinking is folded where HTML is shown.
    pub fn markdown(&self) -> String {
        let mut out = format!("# Conversation with {}\n", self.model);
        if !self.documents.is_empty() {
            out += &format!("\nDocuments: {}\n", self.documents.join(", "));
        }
        if let Some(system) = self.system {
            out += &format!("\nSystem message: {}\n", system.trim_end());
        }
        for (i, (question, answer)) in self.turns.iter().enumerate() {
            out += &format!("\n## {}\n", question.trim_end());
            if let Some(model) = self.answered_by.get(i).copied().flatten() {
                out += &format!("\nAnswered by {model}:\n");
            }
            let (thinking, answer) = split_thinking(answer.unwrap_or("(no answer)"));
            if let Some(thinking) = thinking {
                out += &format!("\n<details><summary>Thinking</summary>\n\n{thinking}\n\n</details>\n");
            }
            out += &format!("\n{}\n", answer.trim_end());
        }
        out
    }
}
