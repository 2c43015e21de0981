//! Keeps a conversation on the disk while it goes on, so that no end of the program loses it.
//!
//! The words are written after every turn. The KV cache can be large: it is written when that takes little time beside
//! what was computed since it was written last, and at the end. Where it cannot be written, the words still are.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use longhand::saved::{ChatFile, DocumentCache};
use longhand::{Chat, EngineError};
use terminal::{console, format};

use crate::app::App;
use crate::failure;
use crate::session::kept::KeptChats;

/// Writing the KV cache may take this long at any time.
const SHORT: Duration = Duration::from_millis(150);
/// Otherwise it may take this share of the time in which the cache was computed.
const SHARE: f64 = 0.1;
/// Before a KV cache of more bytes is written at the end, the user is told.
const LARGE: usize = 256 << 20;
/// What a failure to write the KV cache means.
const WITHOUT_CACHE: &str = "the text of the conversation is kept, without its KV cache";

/// Where and when a conversation is kept.
pub struct Keeper {
    place: KeptIn,
    /// Time spent on reading and answering since the KV cache was written, or could not be.
    computed: Duration,
    /// Most bytes of all kept KV caches.
    limit: u64,
    /// The failure that was reported last, and what it means.
    reported: Option<(String, &'static str)>,
    /// Where documents that were read are kept.
    documents: Option<DocumentCache>,
}

enum KeptIn {
    /// Nowhere, because the user wants it so.
    Private,
    /// Nowhere, because there is no folder for it.
    Nowhere,
    /// Among the kept conversations, once something was said. The title is the name of its first document. `first`: the
    /// first question of what a summary stands for, in place of the one that the summary answers.
    Kept { kept: KeptChats, title: String, first: Option<String>, file: Option<ChatFile> },
    /// A file that the user named.
    Named(ChatFile),
}

impl Keeper {
    /// Keeps nothing, because the user wants it so.
    pub fn private() -> Keeper {
        Keeper::at(KeptIn::Private, u64::MAX)
    }

    /// Keeps nothing, because there is no folder for it.
    pub fn nothing() -> Keeper {
        Keeper::at(KeptIn::Nowhere, u64::MAX)
    }

    /// Keeps a new conversation in the folder of kept ones, once something was said. All KV caches there take at
    /// most `limit` bytes.
    pub fn new(kept: KeptChats, title: String, limit: u64) -> Keeper {
        Keeper::at(KeptIn::Kept { kept, title, first: None, file: None }, limit)
    }

    /// Goes on keeping a conversation that is kept already.
    pub fn resumed(kept: KeptChats, title: String, file: ChatFile, limit: u64) -> Keeper {
        Keeper::at(KeptIn::Kept { kept, title, first: None, file: Some(file) }, limit)
    }

    /// Keeps a conversation in a file of the user's.
    pub fn named(file: ChatFile) -> Keeper {
        Keeper::at(KeptIn::Named(file), u64::MAX)
    }

    fn at(place: KeptIn, limit: u64) -> Keeper {
        Keeper { place, computed: Duration::ZERO, limit, reported: None, documents: None }
    }

    /// The same, which keeps documents that were read too.
    pub fn with_documents(self, documents: Option<DocumentCache>) -> Keeper {
        Keeper { documents, ..self }
    }

    /// Where documents that were read are kept.
    pub fn documents(&self) -> Option<&DocumentCache> {
        self.documents.as_ref()
    }

    /// Keeps the conversation after work that took so long. Failures are printed, each once.
    pub fn keep(&mut self, app: &App, chat: &Chat, work: Duration) {
        self.computed += work;
        if self.has_nothing_to_keep(chat) {
            return;
        }
        let cache = chat.time_to_write() <= SHORT.max(self.computed.mul_f64(SHARE));
        match self.write(chat, cache) {
            // That the text is kept does not say that the cache could be.
            Ok(None) => {
                let of_cache = |(_, meaning): &(_, &str)| !cache && *meaning == WITHOUT_CACHE;
                self.reported = self.reported.take().filter(of_cache);
            }
            Ok(Some(error)) => self.report(app, error, WITHOUT_CACHE),
            Err(error) => {
                self.report(app, error, "the conversation continues; /save FILE saves it elsewhere")
            }
        }
    }

    /// Prints a failure and what it means, unless it was the last one too.
    fn report(&mut self, app: &App, error: EngineError, meaning: &'static str) {
        let failed = Some((failure::report(&error.into()).text, meaning));
        if let Some((text, _)) = failed.as_ref().filter(|_| self.reported != failed) {
            app.console.note(text.trim_end());
            app.console.note(meaning);
        }
        self.reported = failed;
    }

    /// Whether the conversation is kept anywhere.
    pub fn has_place(&self) -> bool {
        !matches!(self.place, KeptIn::Private | KeptIn::Nowhere)
    }

    /// Whether an error would lose the conversation, and the user does not want that.
    pub fn is_missing(&self) -> bool {
        matches!(self.place, KeptIn::Nowhere)
    }

    /// The name under which the conversation is kept in the folder of kept ones.
    pub fn name(&self) -> Option<&str> {
        match &self.place {
            KeptIn::Kept { kept, file: Some(file), .. } => kept.name(file.path()),
            _ => None,
        }
    }

    /// The user's own file in which the conversation is kept.
    pub fn own_file(&self) -> Option<&Path> {
        match &self.place {
            KeptIn::Named(file) => Some(file.path()),
            _ => None,
        }
    }

    /// Another conversation begins. The last one stays as it was kept, except in a file of the user's.
    pub fn begin_another(&mut self) {
        if let KeptIn::Kept { first, file, .. } = &mut self.place {
            (*first, *file) = (None, None);
        }
        self.computed = Duration::ZERO;
    }

    /// The same where a summary takes the place of a conversation with this first question.
    pub fn begin_summary(&mut self, question: Option<String>) {
        let before = match &mut self.place {
            KeptIn::Kept { first, .. } => first.take(),
            _ => None,
        };
        self.begin_another();
        if let KeptIn::Kept { first, .. } = &mut self.place {
            *first = before.or(question);
        }
    }

    /// Keeps the conversation with its KV cache, and says where. Nothing is kept where nothing was said.
    pub fn finish(&mut self, app: &App, chat: &Chat) -> Result<()> {
        if self.has_nothing_to_keep(chat) {
            return Ok(());
        }
        let bytes = chat.session().kv_usage().bytes;
        if self.has_place() && bytes > LARGE && bytes as u64 <= self.limit {
            app.console.note(&format!("saving the KV cache ({})", format::bytes(bytes)));
        }
        if let Some(error) = self.write(chat, true)? {
            // Who saves now wants to know, also if nothing is new.
            self.reported = None;
            self.report(app, error, WITHOUT_CACHE);
        }
        match &self.place {
            KeptIn::Private | KeptIn::Nowhere => {}
            KeptIn::Named(file) => {
                app.console.note(&format!("saved the conversation to {}", file.path().display()));
            }
            KeptIn::Kept { kept, file, .. } => {
                if let Some(name) = file.as_ref().and_then(|file| kept.name(file.path())) {
                    app.console.note(&format!("kept: longhand chat --resume {}", console::visible(name)));
                }
            }
        }
        Ok(())
    }

    /// Whether nothing was said yet. Documents that were read are kept apart.
    fn has_nothing_to_keep(&self, chat: &Chat) -> bool {
        matches!(&self.place, KeptIn::Kept { file: None, .. }) && !chat.has_questions()
    }

    /// Writes the conversation; also its KV cache, if that is wanted and there is room. Returns the error with which
    /// the cache could not be written.
    fn write(&mut self, chat: &Chat, cache: bool) -> Result<Option<EngineError>, EngineError> {
        let bytes = chat.session().kv_usage().bytes as u64;
        let file = match &mut self.place {
            KeptIn::Private | KeptIn::Nowhere => return Ok(None),
            KeptIn::Named(file) => file,
            KeptIn::Kept { kept, title, first, file } => {
                let file = match file {
                    Some(file) => file,
                    None => {
                        let conversation = chat.conversation();
                        let asked = || conversation.first().map(|(question, _)| *question);
                        let question = first.as_deref().or_else(asked).unwrap_or_default();
                        file.insert(kept.add(title, question, chat)?)
                    }
                };
                if !cache || !kept.make_room(bytes, file.path(), self.limit) {
                    return file.save_conversation(chat).map(|()| None);
                }
                file
            }
        };
        if !cache {
            return file.save_conversation(chat).map(|()| None);
        }
        let failed = file.save(chat).err();
        if failed.is_some() {
            // The text is small: it may have room where the cache has none.
            file.save_conversation(chat)?;
        }
        self.computed = Duration::ZERO;
        Ok(failed)
    }
}
