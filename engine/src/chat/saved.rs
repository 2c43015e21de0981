//! Saved conversations: what a session file holds of one, beside the session itself.

use std::path::Path;
use std::sync::Arc;

use models::chat::Message;
use serde::{Deserialize, Serialize};

use super::documents::question_in;
use super::{Attachment, Chat, ChatOptions, Preamble, Turn};
use crate::snapshot::{self, Snapshot};
use crate::{Engine, EngineError, Model, ModelSource, SessionOptions, setup};

/// A conversation without its session, as session files hold it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Record {
    conversation: Conversation,
    documents: String,
    /// The names of the documents.
    names: Vec<String>,
    /// Documents that were added later.
    #[serde(default)]
    attachments: Vec<Attachment>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Conversation {
    /// Roles and texts.
    messages: Vec<(String, String)>,
    timeline: Vec<u32>,
    turns: Vec<Turn>,
}

/// A saved conversation, opened but not restored yet.
///
/// ```no_run
/// use longhand::{ChatOptions, Model, ModelSource, SavedChat, Setup, SetupOptions};
///
/// let model = Model::open(ModelSource::File("model.gguf".into()))?;
/// let saved = SavedChat::open("talk.session".as_ref())?;
/// // The saved options decide how the model is run.
/// let setup = Setup::resume(&model, &SetupOptions::default(), saved.options().clone(), &mut ())?;
/// let mut chat = saved.restore(&setup.load(&mut ())?, ChatOptions::default())?;
/// // Nothing is read again.
/// println!("{}", chat.ask("Where were we?", &mut |_| ())?.text);
/// # Ok::<(), longhand::EngineError>(())
/// ```
pub struct SavedChat {
    snapshot: Snapshot,
    record: Record,
    /// A file with the KV cache as it was some turns ago.
    cache: Option<Snapshot>,
}

impl Chat {
    /// Writes the conversation and its session to a file. The file appears when it is complete, and not
    /// before. [`ChatFile`](super::ChatFile) saves the same conversation again and again.
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        snapshot::save_with(path, |file| self.write_to(true, file))
    }

    /// Writes the conversation, with the cache of its session or without it.
    pub(super) fn write_to(&self, cache: bool, to: &mut dyn std::io::Write) -> Result<(), EngineError> {
        let messages = self.messages.iter().map(|message| (message.role.clone(), message.content.clone()));
        let record = Record {
            conversation: Conversation {
                messages: messages.collect(),
                timeline: self.timeline.clone(),
                turns: self.turns.clone(),
            },
            documents: self.preamble.documents().to_owned(),
            names: self.preamble.names().to_owned(),
            attachments: self.attachments.clone(),
        };
        let record = serde_json::to_string(&record).map_err(|error| snapshot::unwritable(&error))?;
        snapshot::write(&self.session, &record, cache, to)
    }
}

impl SavedChat {
    /// Opens a file that [`Chat::save`] or [`ChatFile`](super::ChatFile) wrote.
    ///
    /// # Errors
    /// Where the file cannot be read, is damaged, or holds no conversation.
    pub fn open(path: &Path) -> Result<SavedChat, EngineError> {
        let snapshot = Snapshot::open(path)?;
        let record =
            serde_json::from_str(snapshot.caller()).map_err(|error| damaged(path, &error.to_string()))?;
        Ok(SavedChat { snapshot, record, cache: None })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.snapshot.path()
    }

    /// The options of its session.
    pub fn options(&self) -> &SessionOptions {
        self.snapshot.options()
    }

    /// The system message it began with.
    pub fn system(&self) -> Option<&str> {
        let (role, content) = self.record.conversation.messages.first()?;
        (role == "system").then_some(content)
    }

    /// The documents it began with.
    pub fn documents(&self) -> &str {
        &self.record.documents
    }

    /// The names of all documents.
    pub fn document_names(&self) -> Vec<String> {
        let later = self.record.attachments.iter().map(|attachment| &attachment.name);
        self.record.names.iter().chain(later).cloned().collect()
    }

    /// Tokens of the conversation.
    pub fn tokens(&self) -> usize {
        self.record.conversation.timeline.len()
    }

    /// Tokens of the context that the conversation takes: as [`Chat::context_used`].
    pub fn context_used(&self) -> usize {
        self.tokens().min(self.options().context)
    }

    /// The questions, without the documents, and their answers. The last question may have none.
    pub fn turns(&self) -> Vec<(&str, Option<&str>)> {
        let messages = self.record.conversation.messages.iter();
        let messages = messages.map(|(role, text)| (role.as_str(), text.as_str()));
        turns(messages, self.documents(), &self.record.attachments)
    }

    /// The model it was made with, where it was then.
    pub fn model_source(&self) -> ModelSource {
        self.snapshot.model_file().map_or(ModelSource::Embedded, ModelSource::from)
    }

    /// The name of that model.
    pub fn model_name(&self) -> &str {
        self.snapshot.model_name()
    }

    /// Whether the file has the KV cache, so that nothing need be read again.
    pub fn has_cache(&self) -> bool {
        self.snapshot.has_cache()
    }

    /// Compares the whole file with its checksum.
    pub fn verify(&self) -> Result<(), EngineError> {
        self.snapshot.verify()
    }

    /// Writes the conversation without its cache.
    pub(super) fn write_without_cache(&self, to: &mut dyn std::io::Write) -> Result<(), EngineError> {
        self.snapshot.write_without_cache(to)
    }

    /// Restores from the KV cache of another file, if its session was made in the same way. The context and the chunk
    /// may have changed since.
    pub(super) fn add_cache(&mut self, mut cache: Snapshot) {
        if cache.has_cache() && cache.is_like(&self.snapshot) {
            cache.set_context(self.options().context);
            cache.set_chunk(self.options().chunk);
            self.cache = Some(cache);
        }
    }

    /// Sets how many tokens the session computes at a time, instead of the saved number.
    pub fn set_chunk(&mut self, chunk: usize) {
        self.snapshot.set_chunk(chunk);
        self.cache.iter_mut().for_each(|cache| cache.set_chunk(chunk));
    }

    /// Gives the session room for another number of tokens than it had.
    pub fn set_context(&mut self, context: usize) {
        self.snapshot.set_context(context);
        self.cache.iter_mut().for_each(|cache| cache.set_context(context));
    }

    /// Refuses a model other than the one it was made with.
    pub fn check(&self, model: &Model) -> Result<(), EngineError> {
        self.snapshot.check(model)
    }

    /// Restores the conversation. Of `options`, the preamble is ignored: it is the saved one. What the cache
    /// lacks is read together with the next question.
    ///
    /// # Errors
    /// If it was made with another model, does not fit the free memory of the host or the device, or the file
    /// is damaged.
    pub fn restore(self, engine: &Arc<Engine>, options: ChatOptions) -> Result<Chat, EngineError> {
        let path = self.path().to_owned();
        let vocabulary = engine.spec().n_vocab;
        let Record { conversation, documents, names, attachments } = self.record;
        let Conversation { messages, timeline, turns } = conversation;
        let roles = messages.iter().map(|(role, _)| role.as_str()).skip_while(|role| *role == "system");
        let (roles, expected) = (roles.collect::<Vec<_>>(), ["user", "assistant"].repeat(turns.len()));
        let replaced = turns.iter().flat_map(|turn| &turn.replaced);
        if !expected.starts_with(&roles)
            || roles.len() + 1 < expected.len()
            || !turns_fit(&turns, timeline.len())
            || timeline.iter().chain(replaced).any(|token| *token as usize >= vocabulary)
            || attachments.iter().any(|attachment| !(1..=turns.len()).contains(&attachment.turn))
        {
            return Err(damaged(
                &path,
                "its turns or tokens are not those of a conversation with this model",
            ));
        }
        let system = messages.first().filter(|(role, _)| role == "system").map(|(_, text)| text.as_str());
        let preamble = match turns.is_empty() {
            // They are read before the first question.
            true => Preamble::new(engine.model().chat_format()?, system, &documents)?,
            false => Preamble::unencoded(system, &documents),
        };
        // Other errors of the options are the file's, which restoring reports with its path.
        if let Err(error @ EngineError::Memory { .. }) =
            setup::fit_session(engine, self.snapshot.options().clone(), None, 0)
        {
            return Err(error);
        }
        let session = match self.cache.map(|cache| cache.restore(engine)) {
            Some(Ok(session)) => session,
            // A cache that is damaged, or of no use in this context, is none.
            None | Some(Err(EngineError::Snapshot { .. } | EngineError::Setting { .. })) => {
                self.snapshot.restore(engine)?
            }
            Some(Err(error)) => return Err(error),
        };
        let mut chat = Chat::new(session, ChatOptions { preamble: preamble.with_names(names), ..options })?;
        chat.messages = messages.into_iter().map(|(role, content)| Message { role, content }).collect();
        (chat.timeline, chat.turns, chat.attachments) = (timeline, turns, attachments);
        chat.go_back(usize::MAX);
        Ok(chat)
    }
}

/// The questions, without the documents, and their answers, of these roles and texts.
pub(super) fn turns<'a>(
    messages: impl Iterator<Item = (&'a str, &'a str)>,
    documents: &str,
    attachments: &[Attachment],
) -> Vec<(&'a str, Option<&'a str>)> {
    let mut messages = messages.filter(|(role, _)| *role != "system").peekable();
    let mut turns = Vec::new();
    while let Some((_, question)) = messages.next() {
        let question = question_in(question, turns.len(), documents, attachments);
        let answer = messages.next_if(|(role, _)| *role == "assistant");
        turns.push((question, answer.map(|(_, text)| text)));
    }
    turns
}

/// Whether turns are those of a timeline of so many tokens. The last answer may have failed.
fn turns_fit(turns: &[Turn], tokens: usize) -> bool {
    let mut tokens = tokens;
    turns.iter().rev().all(|turn| {
        let fits = turn.question < turn.answer && turn.answer <= tokens;
        // The timeline before the question.
        tokens = turn.question.saturating_add(turn.replaced.len());
        fits
    })
}

fn damaged(path: &Path, reason: &str) -> EngineError {
    EngineError::SavedChat { path: path.to_owned(), reason: format!("{reason:.1000}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_must_fit_the_timeline_that_undo_leaves() {
        let turn = |question, answer, replaced: usize| Turn {
            question,
            answer,
            replaced: vec![7; replaced],
            is_cut_off: false,
        };
        for (turns, tokens, fits) in [
            (vec![], 0, true),
            (vec![turn(0, 5, 0), turn(9, 12, 0)], 15, true),
            (vec![turn(0, 5, 0), turn(9, 12, 0)], 12, true),
            (vec![turn(0, 5, 0), turn(9, 12, 0)], 11, false),
            (vec![turn(0, 5, 0), turn(5, 5, 0)], 15, false),
            // Before the second question there were 5 + 20 tokens.
            (vec![turn(0, 5, 0), turn(3, 12, 20)], 15, true),
            (vec![turn(0, 24, 0), turn(5, 12, 20)], 15, true),
            (vec![turn(0, 26, 0), turn(5, 12, 20)], 15, false),
            (vec![turn(0, 5, 0), turn(3, 12, 0)], 15, false),
        ] {
            assert_eq!(turns_fit(&turns, tokens), fits, "{turns:?} {tokens}");
        }
    }
}
