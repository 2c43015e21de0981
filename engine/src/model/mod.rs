//! A model file, opened and checked once, before any weight is read. Planning, tokenising and loading all
//! start from it.

pub(crate) mod grammar_tokens;
pub mod outline;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Instant, SystemTime};

use ggml::InterruptFlag;
use models::LoadError;
use models::chat::{ChatError, ChatTemplate, Message, NextTurn, Prompt, ToolFormat, Tools};
use models::embedded::EMBEDDED_NAME;
use models::gguf::{Blob, GgufFile};
use models::spec::{ModelSpec, ModelTensors};
use models::tokenizer::{Tokenizer, TokenizerError};

use self::grammar_tokens::GrammarTokens;
use crate::files::fingerprints::{self, FileState};
use crate::heads::{HeadShape, HeadsError};
use crate::progress::Task;
use crate::{EngineError, Progress};

/// Where a model comes from.
///
/// ```
/// use longhand::{Model, ModelSource};
///
/// let missing = Model::open(ModelSource::File("no/such/model.gguf".into()));
/// assert!(missing.is_err_and(|error| error.to_string().contains("no/such/model.gguf")));
/// ```
#[derive(Clone, Debug)]
pub enum ModelSource {
    /// A GGUF file (any part of a split one).
    File(PathBuf),
    /// The small model inside the program.
    Embedded,
    /// A GGUF file in memory, used in place: `ModelSource::Bytes(vector.into())`.
    Bytes(Blob),
}

impl<P: Into<PathBuf>> From<P> for ModelSource {
    fn from(path: P) -> ModelSource {
        ModelSource::File(path.into())
    }
}

/// A model file: metadata and tensor descriptions, checked. Weights are read by
/// [`Engine::load`](crate::Engine::load).
///
/// ```
/// let model = longhand::Model::open(longhand::ModelSource::Embedded)?;
/// assert_eq!((model.name(), model.spec().n_layers), ("needle", 4));
/// # Ok::<(), longhand::EngineError>(())
/// ```
pub struct Model {
    name: String,
    /// `None` if it is not a file.
    file: Option<PathBuf>,
    gguf: GgufFile,
    spec: ModelSpec,
    identity: OnceLock<Identity>,
    /// The file in which fingerprints are remembered.
    fingerprints: Option<PathBuf>,
    format: OnceLock<ChatFormat>,
}

/// What a model is identified by.
struct Identity {
    fingerprint: String,
    /// Its files as they were before they were read for it; `None` where it is in memory.
    files: Option<Vec<FileState>>,
}

impl Model {
    /// Opens a model file. No weights are read.
    ///
    /// # Errors
    /// Where the file cannot be read, is damaged, or its architecture is not supported.
    pub fn open(source: impl Into<ModelSource>) -> Result<Arc<Model>, EngineError> {
        Model::open_with(source, None)
    }

    /// As [`Model::open`], with a file in which the fingerprints of model files are remembered, such as
    /// `fingerprints.json` in [`folders::cache`](crate::files::folders::cache). It need not exist. Where a model file has not
    /// changed since, it is not read again for its fingerprint.
    ///
    /// # Errors
    /// As for [`Model::open`].
    pub fn open_with(
        source: impl Into<ModelSource>,
        fingerprints: Option<PathBuf>,
    ) -> Result<Arc<Model>, EngineError> {
        let source = source.into();
        let gguf = source.open()?;
        let spec = ModelSpec::from_gguf(&gguf);
        gguf.check_complete()?;
        let spec = spec?;
        let name = match &source {
            ModelSource::Embedded => EMBEDDED_NAME.to_owned(),
            _ if !spec.name.is_empty() => spec.name.clone(),
            ModelSource::File(path) => {
                path.file_stem().map_or("model".into(), |stem| stem.to_string_lossy().into_owned())
            }
            ModelSource::Bytes(_) => "model".to_owned(),
        };
        let file = match source {
            ModelSource::File(path) => Some(std::path::absolute(&path).unwrap_or(path)),
            ModelSource::Embedded | ModelSource::Bytes(_) => None,
        };
        let (identity, format) = (OnceLock::new(), OnceLock::new());
        Ok(Arc::new(Model { name, file, gguf, spec, identity, fingerprints, format }))
    }

    /// The name its author gave, else that of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The absolute path of its file, if it is a file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Metadata and tensors of the file.
    pub fn gguf(&self) -> &GgufFile {
        &self.gguf
    }

    /// Bytes of its files, which are mapped.
    pub(crate) fn mapped_bytes(&self) -> usize {
        (0..self.gguf.shards()).map(|shard| self.gguf.shard_bytes(shard).len()).sum()
    }

    /// Sizes and settings of the model.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// Identifies the model by its settings and every byte of its weights. Head profiles, saved sessions and cached
    /// documents carry it. Copies, renamed and split files have the same one.
    ///
    /// The first call reads the whole file, unless its fingerprint is remembered ([`Model::open_with`]). That takes as
    /// long as the disk needs: [`Model::identify`] can be stopped and reports progress.
    ///
    /// # Errors
    /// Where the file is no longer complete.
    pub fn fingerprint(&self) -> Result<&str, EngineError> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        self.identify(threads, &InterruptFlag::new(), &mut |_| ())
    }

    /// As [`Model::fingerprint`], with this many threads. The interrupt flag stops it.
    ///
    /// # Errors
    /// Where the file is no longer complete, or the flag is set.
    pub fn identify(
        &self,
        threads: usize,
        interrupt: &InterruptFlag,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<&str, EngineError> {
        if let Some(fingerprint) = self.known_fingerprint() {
            return Ok(fingerprint);
        }
        let (started, size) =
            (Instant::now(), self.gguf.tensors().iter().map(|tensor| tensor.bytes).sum::<u64>());
        let mut go_on = |done: u64| {
            let (share, elapsed) = (done as f64 / size as f64, started.elapsed());
            progress(Progress { task: Task::Identify, share, size: size as usize, elapsed, left: None });
            !interrupt.is_set()
        };
        let (time, files) = (SystemTime::now(), fingerprints::states(&self.gguf));
        let fingerprint = self.gguf.fingerprint(threads, &mut go_on);
        // Weights that are copied when the model is loaded would be in memory twice until then.
        self.gguf.tensors().iter().for_each(|tensor| self.gguf.release_pages(tensor));
        let fingerprint = fingerprint.ok_or(ggml::Error::Interrupted)?;
        self.gguf.check_complete()?;
        if let (Some(path), Some(files)) = (&self.fingerprints, &files)
            && fingerprints::states(&self.gguf).as_ref() == Some(files)
        {
            // Without it the file is read again the next time.
            let _ = fingerprints::remember(path, files, &fingerprint, time);
        }
        Ok(&self.identity.get_or_init(|| Identity { fingerprint, files }).fingerprint)
    }

    /// The fingerprint where it is known without reading the file: it was asked for before, or is remembered.
    pub fn known_fingerprint(&self) -> Option<&str> {
        if self.identity.get().is_none()
            && let (Some(path), Some(files)) = (&self.fingerprints, fingerprints::states(&self.gguf))
            && let Some(fingerprint) = fingerprints::find(path, &files)
        {
            let _ = self.identity.set(Identity { fingerprint, files: Some(files) });
        }
        self.identity.get().map(|identity| &*identity.fingerprint)
    }

    /// An error if the file was changed since its fingerprint is known. What was computed with it may then be of other
    /// weights, and must not be kept.
    pub(crate) fn check_unchanged(&self) -> Result<(), EngineError> {
        let Some(Identity { files: Some(before), .. }) = self.identity.get() else { return Ok(()) };
        let is_same = fingerprints::states(&self.gguf)
            .is_some_and(|now| now.iter().zip(before).all(|(now, before)| now.has_content_of(before)));
        match is_same {
            true => Ok(()),
            false => {
                let path = self.file.clone().unwrap_or_default();
                Err(LoadError::Changed { path }.into())
            }
        }
    }

    /// The model's heads, for profiles.
    pub fn head_shape(&self) -> Result<HeadShape, HeadsError> {
        HeadShape::new(self.spec.n_layers, self.spec.n_heads, self.spec.n_kv_heads)
    }

    /// Refuses a model whose tensors do not fit its metadata.
    pub(crate) fn check_tensors(&self) -> Result<(), EngineError> {
        ModelTensors::from_gguf(&self.gguf, &self.spec)?;
        Ok(())
    }

    /// Tokenizer and chat template. They are read on the first call.
    ///
    /// # Errors
    /// Where the file has no vocabulary or one that does not fit the model, or the template cannot be read.
    pub fn chat_format(&self) -> Result<&ChatFormat, EngineError> {
        if let Some(format) = self.format.get() {
            return Ok(format);
        }
        let format = ChatFormat::new(self);
        self.gguf.check_complete()?; // before errors in the content, which may be zeros
        let format = format?;
        Ok(self.format.get_or_init(|| format))
    }
}

impl ModelSource {
    /// Opens and checks the file, whether or not it has a model that can be computed.
    ///
    /// # Errors
    /// Where it cannot be read or is no GGUF file.
    pub fn open(&self) -> Result<GgufFile, EngineError> {
        Ok(match self {
            ModelSource::File(path) => GgufFile::open(path)?,
            ModelSource::Embedded => GgufFile::from_bytes(models::embedded::needle())?,
            ModelSource::Bytes(bytes) => GgufFile::from_bytes(bytes.clone())?,
        })
    }
}

/// How a model's file writes conversations: its tokenizer and chat template.
///
/// ```
/// let model = longhand::Model::open(longhand::ModelSource::Embedded)?;
/// assert!(model.chat_format()?.count("How many tokens are this?")? > 5);
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChatFormat {
    tokenizer: Arc<Tokenizer>,
    template: ChatTemplate,
    /// The model's file, for errors.
    path: Option<PathBuf>,
    /// Made when the first grammar needs them.
    grammar_tokens: Arc<OnceLock<Result<Arc<GrammarTokens>, String>>>,
}

impl ChatFormat {
    fn new(model: &Model) -> Result<ChatFormat, EngineError> {
        let path = model.gguf.path().map(PathBuf::from);
        let tokenizer = Tokenizer::from_gguf(&model.gguf)
            .map_err(|error| EngineError::Tokenizer { path: path.clone(), error })?;
        if tokenizer.n_vocab() > model.spec.n_vocab {
            return Err(EngineError::Vocabulary {
                path,
                tokens: tokenizer.n_vocab(),
                rows: model.spec.n_vocab,
            });
        }
        let template = ChatTemplate::from_gguf(&model.gguf, &tokenizer)
            .map_err(|error| EngineError::Chat { path: path.clone(), error })?;
        Ok(ChatFormat { tokenizer: Arc::new(tokenizer), template, path, grammar_tokens: Arc::default() })
    }

    /// The same for a model that thinks before it answers, or does not.
    ///
    /// # Errors
    /// Where the chat template knows no switch for it.
    pub fn with_thinking(&self, thinks: bool) -> Result<ChatFormat, EngineError> {
        let template = self.template.with_thinking(thinks).map_err(|error| self.chat_error(error))?;
        Ok(ChatFormat { template, ..self.clone() })
    }

    /// The same format, with which the model may call these functions.
    ///
    /// # Errors
    /// The chat template does not write them, or refuses a conversation with them.
    pub fn with_tools(&self, tools: &Tools) -> Result<ChatFormat, EngineError> {
        let template = self.template.with_tools(tools).map_err(|error| self.chat_error(error))?;
        Ok(ChatFormat { template, ..self.clone() })
    }

    /// How the model writes calls of functions; `None` if its chat template knows no tools, or writes calls in a way that is
    /// not known. It does not depend on the functions and takes a few renderings, so that it is worth keeping.
    ///
    /// # Errors
    /// The chat template exceeds a limit.
    pub fn tool_format(&self) -> Result<Option<ToolFormat>, EngineError> {
        ToolFormat::of(&self.template).map_err(|error| self.chat_error(error))
    }

    /// Text to tokens and back.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The tokens as grammars see them, or why they cannot.
    pub(crate) fn grammar_tokens(&self) -> Result<Arc<GrammarTokens>, String> {
        self.grammar_tokens.get_or_init(|| GrammarTokens::new(&self.tokenizer).map(Arc::new)).clone()
    }

    /// The chat template.
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// Tokens that a session of several questions needs: the `first` prompt, and for every later question its tokens, what
    /// the chat template writes around it, and `answer` tokens.
    ///
    /// # Errors
    /// A question cannot be encoded.
    pub fn needed_context(
        &self,
        first: usize,
        later: &[String],
        answer: usize,
    ) -> Result<usize, EngineError> {
        /// No known template writes more around a turn.
        const TEMPLATE_TOKENS: usize = 64;
        let answer = answer.max(1); // an answer of no tokens still needs a place to begin
        let mut needed = first.saturating_add(answer);
        for question in later {
            needed = needed.saturating_add(self.count(question)? + TEMPLATE_TOKENS).saturating_add(answer);
        }
        Ok(needed)
    }

    /// The number of tokens of a plain text: no template, no control tokens.
    pub fn count(&self, text: &str) -> Result<usize, EngineError> {
        Ok(self.encode_text(text)?.len())
    }

    /// The tokens of a plain text: no template, no control tokens.
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        self.tokenizer.encode(text, false, false).map_err(|error| self.tokenizer_error(error))
    }

    /// A conversation, rendered up to where the next answer begins.
    pub fn prompt(&self, messages: &[Message]) -> Result<Prompt, EngineError> {
        self.template.prompt(messages, true).map_err(|error| self.chat_error(error))
    }

    /// What the model reads before its next answer, given that it has read and written everything before.
    pub fn next_turn(&self, messages: &[Message]) -> Result<NextTurn, EngineError> {
        self.template.next_turn(messages).map_err(|error| self.chat_error(error))
    }

    /// The tokens of a rendered prompt.
    pub fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>, EngineError> {
        prompt.encode(&self.tokenizer).map_err(|error| self.chat_error(error))
    }

    fn chat_error(&self, error: ChatError) -> EngineError {
        EngineError::Chat { path: self.path.clone(), error }
    }

    fn tokenizer_error(&self, error: TokenizerError) -> EngineError {
        EngineError::Tokenizer { path: self.path.clone(), error }
    }
}
