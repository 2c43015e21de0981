//! `longhand ask`: questions about documents, asked one after the other in one session.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use longhand::text::{sanitize_for_terminal, split_thinking};
use longhand::{
    Chat, ChatFormat, ChatOptions, Context, DocumentCache, EngineError, Generated, Model, ModelSource,
    Preamble, Reading, SetupOptions, Stop, needed_context,
};
use models::embedded::EMBEDDED_NAME;
use serde_json::{Value, json};

use crate::answer::AnswerView;
use crate::app::App;
use crate::args::answer::AnswerArgs;
use crate::args::disk::DiskArgs;
use crate::args::model::{ModelArgs, check_question, is_model};
use crate::args::sampling::SamplingArgs;
use crate::args::session::{PrefillArg, SessionArgs};
use crate::documents::Documents;
use crate::failure::Failure;
use crate::json_stream::JsonStream;
use crate::{format, offers, turn};

/// Maximum tokens of an answer without -n.
const ANSWER_LIMIT: usize = 256;

/// Ask questions about documents, one after the other in one session.
///
/// The documents are read first, and found again the next time. Each question is a turn. Answers go to stdout, each
/// on a line of its own, on a terminal below its question; programs should use --json. Without a model, the small
/// built-in one answers.
#[derive(Debug, Args)]
#[command(override_usage = "longhand ask [OPTIONS] [MODEL] [-f FILE]... QUESTION...")]
pub struct AskArgs {
    /// One or more questions. Without -m, a first argument that is a file, ends in .gguf or is a name in
    /// `longhand models` is the model
    #[arg(value_name = "MODEL] [QUESTION")]
    arguments: Vec<String>,
    /// Document to ask about: a file (text, HTML, PDF, DOCX, EPUB), a folder, or a pattern such as 'src/**/*.rs'. - is
    /// stdin; a document that is piped in needs no -f. Repeat for several
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A question, asked before those given as arguments; can be repeated, and is enough alone
    #[arg(short = 'p', long = "prompt", value_name = "QUESTION")]
    prompts: Vec<String>,
    /// System message, also -sys
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// Print one JSON object with answers, timings and KV cache sizes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    session: SessionArgs,
    /// Read the documents together with the first question. Policies that choose rows by the attention of the last
    /// tokens (snapkv, slimkv, ahakv, tova) then keep what this question needs. Nothing is kept for the next time
    #[arg(long, help_heading = "Cache")]
    query_aware: bool,
    #[command(flatten)]
    disk: DiskArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    answer: AnswerArgs,
}

impl AskArgs {
    /// The model, if it is the first positional argument: a file, or the name of a model before a question.
    fn positional_model(&self) -> Option<&Path> {
        let first = self.arguments.first().filter(|_| !self.model.is_named())?;
        let before_question = self.arguments.len() + self.prompts.len() > 1;
        (is_model(first) || (before_question && self.model.is_name(first))).then_some(Path::new(first))
    }

    /// The questions, those of -p first.
    ///
    /// # Errors
    /// Where there is no question, one is empty, or one was probably meant as the model.
    fn questions(&self) -> Result<Vec<String>, Failure> {
        let model = self.positional_model();
        let positional = self.arguments.iter().skip(usize::from(model.is_some()));
        let model_given = model.is_some() || self.model.is_named();
        positional.clone().try_for_each(|question| check_question(question, model_given))?;
        let questions: Vec<String> = self.prompts.iter().chain(positional).cloned().collect();
        let problem = match &questions[..] {
            [] => "there is no question",
            _ if questions.iter().any(|question| question.trim().is_empty()) => "a question is empty",
            _ => return Ok(questions),
        };
        Err(Failure::usage(problem, "for example: longhand ask -f report.txt \"Who wrote it?\""))
    }
}

/// Runs the command.
pub fn run(app: &App, args: &AskArgs) -> Result<()> {
    let app = &app.with_plain(args.answer.plain);
    let sampling = args.sampling.validate(0.0, ANSWER_LIMIT)?;
    let questions = args.questions()?;
    let source = args.model.source(app, args.positional_model())?;
    let options = args.session.apply(args.model.setup_options(app))?;
    // Later questions may be read with all that was said before.
    let options = SetupOptions { only_text: questions.len() == 1, ..options };
    let model = Model::open(source.clone())?;
    // Before the documents are read: the process that this starts would keep a copy of them.
    let chat_format = &args.answer.chat_format(&model)?;
    let documents = match args.files.is_empty() {
        true => Documents::piped(app)?,
        false => Documents::read(&args.files)?,
    };
    let preamble = Preamble::new(chat_format, args.system_prompt.as_deref(), documents.text())?;
    let document_tokens = preamble.document_tokens();
    documents.announce(app, chat_format, document_tokens)?;
    let preamble = preamble.with_names(documents.names());
    drop(documents);
    let prompt_tokens = preamble.prompt(chat_format, &questions[0])?.len();
    let trained = model.spec().n_ctx_train;
    let limit = sampling.answer_limit;
    let needed = needed(chat_format, trained, prompt_tokens, &questions[1..], limit)?;
    let context = match options.context {
        Context::AsNeeded => needed,
        given => given.tokens(prompt_tokens, trained),
    };
    if context <= prompt_tokens {
        let offers = app.interrupt.computing(|| offers::find(&model, &options, prompt_tokens, needed))?;
        let message = format!(
            "the first turn (documents, question and chat template) has {prompt_tokens} tokens, but the context is \
             {context}"
        );
        return Err(Failure::context_too_small(message, &offers).into());
    }
    let options = SetupOptions { context: Context::Tokens(context), ..options };
    let session = app.start_within_memory(&model, &options, prompt_tokens)?;
    let retrieval = session.options().profile.as_ref();
    let retrieval = retrieval.filter(|_| session.options().policy.uses_retrieval_heads());
    let retrieval_heads = retrieval.map(|profile| profile.retrieval_count());
    let thinking = args.answer.thinking();
    let chat_options = ChatOptions { preamble, sampling: sampling.options, answer_limit: limit, thinking };
    let mut chat = Chat::new(session, chat_options)?;

    let file = match &source {
        ModelSource::File(path) => path.display().to_string(),
        _ => EMBEDDED_NAME.to_owned(),
    };
    let session = chat.session().options();
    let before_answers = json!({
        "model": model.name(),
        "file": file,
        "policy": session.policy.to_string(),
        "retrieval_heads": retrieval_heads,
        "kv_heads": model.spec().all_kv_heads(),
        "type_k": session.types.0.name(),
        "type_v": session.types.1.name(),
        "prefill": PrefillArg::from(session.prefill).name(),
        "threads": chat.session().engine().threads(),
        "context": context,
        "document_tokens": document_tokens,
        "prompt_tokens": prompt_tokens,
        "query_aware": args.query_aware,
    });
    let mut asked = Asked {
        json: args.json.then_some(before_answers),
        hides_thinking: args.answer.hides_thinking(),
        together: args.query_aware,
        cache: args.disk.documents(),
        ..Asked::default()
    };
    app.interrupt.end_in_order();
    let answered = app.interrupt.in_steps(|| asked.ask_all(app, &mut chat, &questions));
    let ended = asked.end(app, &chat);
    match app.interrupt.ending() {
        Some(signal) if answered.is_err() => {
            Err(Failure::silent(u8::try_from(128 + signal).unwrap_or(1)).into())
        }
        _ => answered.and(ended),
    }
}

/// Questions that were asked, and what answering them took.
#[derive(Default)]
struct Asked {
    /// With --json, the fields before the answers.
    json: Option<Value>,
    hides_thinking: bool,
    /// Whether the documents are read together with the first question.
    together: bool,
    cache: Option<DocumentCache>,
    /// With --json, from the first answer on.
    stream: Option<JsonStream>,
    first_reading: Option<Reading>,
    steps: usize,
    decoding: Duration,
}

impl Asked {
    /// Asks the questions one after the other and prints each answer as soon as it is there.
    fn ask_all(&mut self, app: &App, chat: &mut Chat, questions: &[String]) -> Result<()> {
        for (number, question) in questions.iter().enumerate() {
            let interrupted = |in_answer| Failure::interrupted_after(number, questions.len(), in_answer);
            let reading = match self.read(app, chat, question) {
                Err(error) if error.is_interrupt() => {
                    turn::keep_reading(app, chat, self.cache.as_ref());
                    return Err(interrupted(false).into());
                }
                reading => reading?,
            };
            self.first_reading.get_or_insert(reading);
            if let (Some(before), None) = (&self.json, &self.stream) {
                self.stream = Some(JsonStream::begin(&app.console, before, "answers")?);
            }
            if self.json.is_none() && app.console.stdout_terminal() {
                app.console.print(&heading(number, question, |text| app.console.paint(36, text)))?;
            }
            let mut view = self.json.is_none().then(|| AnswerView::new(app.console, self.hides_thinking));
            let answer = turn::generate(app, chat, &mut |piece| {
                view.as_mut().map_or(Ok(()), |view| view.push(piece))
            })?;
            self.steps += answer.steps;
            self.decoding += answer.elapsed;
            if let Some(stream) = &mut self.stream {
                stream.push(&app.console, &answer_object(question, reading, &answer))?;
            }
            if let Some(view) = &mut view {
                view.finish()?;
            }
            if answer.stop == Stop::Interrupted {
                return Err(interrupted(true).into());
            }
        }
        Ok(())
    }

    /// Reads a question; before the first one, the documents.
    fn read(&self, app: &App, chat: &mut Chat, question: &str) -> Result<Reading, EngineError> {
        let documents = match self.together {
            true => Reading::default(),
            false => {
                turn::announce_reading(app, chat, self.cache.as_ref())?;
                turn::read_documents(app, chat, self.cache.as_ref())?
            }
        };
        Ok(documents + turn::read(app, chat, question)?)
    }

    /// Prints what answering took, and the end of the JSON object.
    fn end(self, app: &App, chat: &Chat) -> Result<()> {
        let Some(read) = self.first_reading else { return Ok(()) };
        let usage = chat.session().kv_usage();
        app.console.note(&format!(
            "{}: {} tokens read, {} t/s; {} decode steps, {} t/s; KV cache {}, {} of a full one",
            chat.session().options().policy,
            format::count(read.tokens),
            format::speed(format::rate(read.tokens, read.elapsed)),
            format::count(self.steps),
            format::speed(format::rate(self.steps, self.decoding)),
            format::bytes(usage.bytes),
            format::percent(usage.share()),
        ));
        let Some(stream) = self.stream else { return Ok(()) };
        let after_answers = json!({
            "kv_bytes_full": usage.full_bytes,
            "kv_bytes_kept": usage.bytes,
            "kv_share": usage.share(),
            "kv_bytes_allocated": usage.allocated,
        });
        stream.end(&app.console, &after_answers)
    }
}

/// The question above its answer, for a terminal.
fn heading(number: usize, question: &str, paint: impl Fn(&str) -> String) -> String {
    let gap = if number == 0 { "" } else { "\n" };
    format!("{gap}{}\n", paint(&format!("> {}", sanitize_for_terminal(question.trim()))))
}

/// A question and its answer as JSON.
fn answer_object(question: &str, reading: Reading, answer: &Generated) -> Value {
    let (thinking, text) = split_thinking(&answer.text);
    json!({
        "question": question,
        "thinking": thinking,
        "answer": text.trim(),
        "tokens": answer.tokens.len(),
        "stop": answer.stop.name(),
        "timings": {
            "prompt_tokens": reading.tokens,
            "prompt_seconds": reading.elapsed.as_secs_f64(),
            "prompt_tps": format::rate(reading.tokens, reading.elapsed),
            "answer_seconds": answer.elapsed.as_secs_f64(),
            "answer_tps": answer.steps_per_second(),
        },
    })
}

/// Tokens of a context for a first turn of `prompt` tokens, the other questions and all answers.
fn needed(
    format: &ChatFormat,
    trained: usize,
    prompt: usize,
    other_questions: &[String],
    answer_limit: Option<usize>,
) -> Result<usize> {
    Ok(match answer_limit {
        Some(limit) => needed_context(format, prompt, other_questions, limit)?,
        None => needed_context(format, prompt, other_questions, ANSWER_LIMIT)?.max(trained),
    })
}
