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
    /// For each answer where it comes from, where that was found out.
    sources: Vec<Option<AnswerSources>>,
}

impl<'a> From<&'a SavedChat> for Transcript<'a> {
    fn from(saved: &'a SavedChat) -> Transcript<'a> {
        let turns = saved.turns();
        Transcript {
            model: saved.model_name(),
            documents: saved.document_names(),
            system: saved.system(),
            answered_by: saved.answered_by(),
            sources: (0..turns.len()).map(|turn| AnswerSources::of_saved_turn(saved, turn)).collect(),
            turns,
        }
    }
}

impl<'a> From<&'a Chat> for Transcript<'a> {
    fn from(chat: &'a Chat) -> Transcript<'a> {
        let turns = chat.conversation();
        Transcript {
            model: chat.session().engine().model().name(),
            documents: chat.read_document_names(),
            system: chat.preamble().system(),
            answered_by: chat.answered_by(),
            sources: (0..turns.len()).map(|turn| AnswerSources::of_turn(chat, turn)).collect(),
            turns,
        }
    }
}

impl<'a> Transcript<'a> {
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
            let list = self.sources.get(i).and_then(Option::as_ref).map(AnswerSources::markdown);
            if let Some(list) = list.filter(|list| !list.is_empty()) {
                out += &format!("\nFrom:\n\n{list}");
            }
        }
        out
    }
}
