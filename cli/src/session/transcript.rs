//! A whole conversation as Markdown.

use longhand::Chat;
use longhand::saved::SavedChat;
use longhand::text::split_thinking;

use crate::session::sources::AnswerSources;

/// A conversation in words.
pub struct Transcript<'a> {
    model: &'a str,
    documents: Vec<String>,
    system: Option<&'a str>,
    turns: Vec<(&'a str, Option<&'a str>)>,
    /// For each answer the model that gave it, where it is not `model`.
    answered_by: Vec<Option<&'a str>>,
    sources: &'a [Option<(String, AnswerSources)>],
}

impl<'a> From<&'a SavedChat> for Transcript<'a> {
    fn from(saved: &'a SavedChat) -> Transcript<'a> {
        Transcript {
            model: saved.model_name(),
            documents: saved.document_names(),
            system: saved.system(),
            turns: saved.turns(),
            answered_by: saved.answered_by(),
            sources: &[],
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
            sources: &[],
        }
    }
}

impl<'a> Transcript<'a> {
    /// The same with where answers come from: for each turn the answer and its sources.
    pub fn with_sources(self, sources: &'a [Option<(String, AnswerSources)>]) -> Transcript<'a> {
        Transcript { sources, ..self }
    }

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
            let sources = self.sources.get(i).and_then(Option::as_ref);
            // Not those of an answer that was replaced.
            if let Some((_, sources)) = sources
                .filter(|(text, _)| !answer.trim().is_empty() && text.trim_end().ends_with(answer.trim_end()))
            {
                let list = sources.markdown();
                if !list.is_empty() {
                    out += &format!("\nFrom:\n\n{list}");
                }
            }
        }
        out
    }
}
