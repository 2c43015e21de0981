//! Saved conversations: what a session file holds of one, beside the session itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use models::chat::Message;
use outline::Outline;
use serde::{Deserialize, Serialize};

use super::changes::other_model;
use super::documents::question_in;
use super::file::Origin;
use super::sources::Sources;
use super::{Attachment, Chat, ChatOptions, Preamble, Turn};
use crate::heads::HeadProfile;
use crate::session::snapshot::{self, Snapshot};
use crate::{Engine, EngineError, Model, ModelSource, SessionOptions, setup};

/// A conversation without its session, as session files hold it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Record {
    conversation: Conversation,
    documents: String,
    /// The names of the documents.
    names: Vec<String>,
    #[serde(default, skip_serializing_if = "Outline::is_empty")]
    outline: Outline,
    /// Documents that were added later.
    attachments: Vec<Attachment>,
    /// Names and values of the program that held the conversation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    settings: BTreeMap<String, String>,
    /// The session file that it was written to.
    origin: Origin,
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
/// use longhand::saved::SavedChat;
/// use longhand::{ChatOptions, Model, ModelSource, Setup, SetupOptions};
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
    /// Whether its tokens are those of a model that is not the same any more.
    is_outdated: bool,
}

impl Chat {
    /// Writes the conversation and its session to a file. The file appears when it is complete, and not
    /// before. [`ChatFile`](super::ChatFile) saves the same conversation again and again.
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        snapshot::save_with(path, |file| self.write_to(true, &Origin::new(path), file))
    }

    /// As [`Chat::save`], to a file that must not exist.
    ///
    /// # Errors
    /// Those of [`Chat::save`], and where there is a file or a link already.
    pub fn save_new(&self, path: &Path) -> Result<(), EngineError> {
        snapshot::save_new_with(path, |file| self.write_to(true, &Origin::new(path), file))
    }

    /// Writes the conversation, with the cache of its session or without it.
    pub(super) fn write_to(
        &self,
        cache: bool,
        origin: &Origin,
        to: &mut dyn std::io::Write,
    ) -> Result<(), EngineError> {
        let messages = self.messages.iter().map(|message| (message.role.clone(), message.content.clone()));
        let record = Record {
            conversation: Conversation {
                messages: messages.collect(),
                timeline: self.timeline.clone(),
                turns: self.turns.clone(),
            },
            documents: self.preamble.documents().to_owned(),
            names: self.preamble.names().to_owned(),
            outline: self.preamble.outline().clone(),
            attachments: self.attachments.clone(),
            settings: self.settings.clone(),
            origin: origin.clone(),
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
        Ok(SavedChat { snapshot, record, cache: None, is_outdated: false })
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

    /// What [`Chat::set_settings`] was told. The file is not trusted: the values can be anything.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.record.settings
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

    /// For each answer the model that gave it, where it is not the last one: its name, or its file's.
    pub fn answered_by(&self) -> Vec<Option<&str>> {
        let (name, file) = (self.model_name(), self.snapshot.model_file());
        self.record.conversation.turns.iter().map(|turn| other_model(turn, name, file)).collect()
    }

    /// The texts of the documents, as [`Chat::document_texts`].
    pub fn document_texts(&self) -> Vec<&str> {
        let attached = self.record.attachments.iter().map(|attachment| attachment.text.as_str());
        [self.documents()].into_iter().chain(attached).collect()
    }

    /// What begins where in each of them, as far as that is known.
    pub fn document_outlines(&self) -> Vec<&Outline> {
        let attached = self.record.attachments.iter().map(|attachment| &attachment.outline);
        [&self.record.outline].into_iter().chain(attached).collect()
    }

    /// Where the answer of a turn comes from, as [`Chat::sources_of`]. `None` also where the file names places that its
    /// documents do not have.
    pub fn sources_of(&self, turn: usize) -> Option<&Sources> {
        let sources = self.record.conversation.turns.get(turn)?.sources.as_ref()?;
        sources.are_of(&self.document_texts()).then_some(sources)
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

    /// The session file that it was written to.
    pub(super) fn origin(&self) -> &Origin {
        &self.record.origin
    }

    /// Whether this is the same conversation as `later`, before that was written to the same session file.
    pub(super) fn is_earlier_state_of(&self, later: &SavedChat) -> bool {
        self.origin().is_same(later.origin())
    }

    /// Whether the file has a KV cache that the session of `later` can use: it was made in the same way.
    pub(super) fn has_cache_for(&self, later: &SavedChat) -> bool {
        self.has_cache() && self.snapshot.is_like(&later.snapshot)
    }

    /// Compares the whole file with its checksum, and finds out whether it holds a conversation that can be restored, as
    /// far as that can be said without its model.
    ///
    /// # Errors
    /// Where the file is damaged.
    pub fn verify(&self) -> Result<(), EngineError> {
        self.snapshot.verify()?;
        self.check_turns()
    }

    /// Whether turns, messages and documents belong together.
    fn check_turns(&self) -> Result<(), EngineError> {
        let Record { conversation, documents, outline, attachments, .. } = &self.record;
        let Conversation { messages, timeline, turns } = conversation;
        let roles = messages.iter().map(|(role, _)| role.as_str());
        let texts = self.document_texts();
        match questions(roles) == Some(turns.len())
            && turns_fit(turns, timeline.len())
            && turns.iter().flat_map(|turn| &turn.sources).all(|sources| sources.are_of(&texts))
            && attachments.iter().all(|attachment| (1..=turns.len()).contains(&attachment.turn))
            && outline.is_of(documents)
            && attachments.iter().all(|attachment| attachment.outline.is_of(&attachment.text))
        {
            true => Ok(()),
            false => Err(self.damaged()),
        }
    }

    fn damaged(&self) -> EngineError {
        damaged(self.path(), "its turns or tokens are not those of a conversation with this model")
    }

    /// Writes a copy of another origin, with the cache if the file has one.
    pub(super) fn write_copy(&self, origin: &Origin, to: &mut dyn std::io::Write) -> Result<(), EngineError> {
        let record = Record { origin: origin.clone(), ..self.record.clone() };
        let record = serde_json::to_string(&record).map_err(|error| snapshot::unwritable(&error))?;
        self.snapshot.write_copy(record, to)
    }

    /// Writes the conversation without its cache.
    pub(super) fn write_without_cache(&self, to: &mut dyn std::io::Write) -> Result<(), EngineError> {
        self.snapshot.write_without_cache(to)
    }

    /// Restores from the KV cache of another file, if its session was made in the same way. The context and the chunk
    /// may have changed since.
    pub(super) fn add_cache(&mut self, older: SavedChat) {
        if older.has_cache_for(self) {
            let mut cache = older.snapshot;
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

    /// Prepares it for a model. Returns whether the model's file was replaced since it was saved: the conversation then
    /// goes on without its cache, and all of it is read again with the next question. If the session had a head profile of
    /// the old model, [`SavedChat::set_profile`] has to give it another one before it is restored.
    ///
    /// The model's fingerprint is needed ([`Model::identify`]).
    ///
    /// # Errors
    /// Where it was made with another model.
    pub fn adapt_to(&mut self, model: &Model) -> Result<bool, EngineError> {
        let is_replaced = self.snapshot.adapt_to(model)?;
        if is_replaced {
            (self.cache, self.is_outdated) = (None, true);
        }
        Ok(is_replaced)
    }

    /// Gives its session a head profile.
    pub fn set_profile(&mut self, profile: Option<HeadProfile>) {
        self.snapshot.set_profile(profile);
    }

    /// Restores the conversation. Of `options`, the preamble is ignored: it is the saved one. What the cache
    /// lacks is read together with the next question.
    ///
    /// # Errors
    /// If it was made with another model, does not fit the free memory of the host or the device, or the file
    /// is damaged.
    pub fn restore(self, engine: &Arc<Engine>, options: ChatOptions) -> Result<Chat, EngineError> {
        self.check_turns()?;
        let vocabulary = engine.spec().n_vocab;
        let Conversation { timeline, turns, .. } = &self.record.conversation;
        let replaced = turns.iter().flat_map(|turn| &turn.replaced);
        if !self.is_outdated && timeline.iter().chain(replaced).any(|token| *token as usize >= vocabulary) {
            return Err(self.damaged());
        }
        let Record { conversation, documents, names, outline, attachments, settings, .. } = self.record;
        let Conversation { messages, timeline, turns } = conversation;
        let system = messages.first().filter(|(role, _)| role == "system").map(|(_, text)| text.as_str());
        let has_answers = messages.iter().any(|(role, _)| role == "assistant");
        let preamble = match has_answers && !self.is_outdated {
            // They are read before the first question that gets an answer, or again.
            false => Preamble::new(engine.model().chat_format()?, system, &documents)?,
            true => Preamble::unencoded(system, &documents),
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
        let preamble = preamble.with_names(names).with_outline(outline);
        let mut chat = Chat::new(session, ChatOptions { preamble, ..options })?;
        chat.messages = messages.into_iter().map(|(role, content)| Message::new(role, content)).collect();
        (chat.timeline, chat.turns, chat.attachments) = (timeline, turns, attachments);
        if self.is_outdated {
            chat.encode_again()?;
        }
        chat.settings = settings;
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

/// The number of questions among these roles; `None` where they are not those of a conversation. Questions that follow
/// each other have no answers, but the last of them.
fn questions<'a>(roles: impl Iterator<Item = &'a str>) -> Option<usize> {
    let mut questions = 0;
    let mut last = "system";
    for role in roles {
        match (last, role) {
            ("system", "system") | ("user", "assistant") => {}
            (_, "user") => questions += 1,
            _ => return None,
        }
        last = role;
    }
    Some(questions)
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
    fn questions_may_have_no_answer() {
        for (roles, found) in [
            ("", Some(0)),
            ("s", Some(0)),
            ("su", Some(1)),
            ("suaua", Some(2)),
            ("uuauuua", Some(5)),
            ("a", None),
            ("sa", None),
            ("uaa", None),
            ("uas", None),
            ("uj", None),
        ] {
            let name = |role| match role {
                's' => "system",
                'u' => "user",
                'a' => "assistant",
                _ => "judge",
            };
            assert_eq!(questions(roles.chars().map(name)), found, "{roles}");
        }
    }

    #[test]
    fn every_turn_must_fit_the_timeline_that_undo_leaves() {
        let turn = |question, answer, replaced: usize| Turn {
            question,
            answer,
            replaced: vec![7; replaced],
            ..Turn::default()
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
