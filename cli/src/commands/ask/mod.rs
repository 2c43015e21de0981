//! `longhand ask`: questions about documents, asked one after the other in one session.

mod each;
mod shape;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use longhand::generation::{Constraint, DraftCounts, Generated, Stop};
use longhand::reading::Reading;
use longhand::saved::DocumentCache;
use longhand::setup::{Context, Offers};
use longhand::text::{sanitize_for_terminal, split_thinking};
use longhand::{Chat, ChatFormat, ChatOptions, Model, ModelSource, Preamble, Session, SetupOptions};
use models::embedded::EMBEDDED_NAME;
use serde_json::{Value, json};
use terminal::answer::AnswerView;
use terminal::json_stream::JsonStream;
use terminal::prefill::PrefillArg;
use terminal::{format, stdin};

use crate::app::{App, Purpose};
use crate::args::answer::AnswerArgs;
use crate::args::disk::DiskArgs;
use crate::args::documents::DocumentArgs;
use crate::args::session::SessionArgs;
use crate::args::sources::SourcesArgs;
use crate::commands::ask::shape::ShapeArgs;
use crate::failure::{self, Failure};
use crate::models::args::ModelArgs;
use crate::session::checked::{self, Checker};
use crate::session::documents::Documents;
use crate::session::sampling::args::SamplingArgs;
use crate::session::sampling::{Exact, Sampling};
use crate::session::sources::AnswerSources;
use crate::session::{bare_arguments, prompts, turn};

/// The exit code of --json where an answer is incomplete.
const CUT_OFF: u8 = 4;
/// Least room for each answer where the model was trained for too short texts to hold its default limit.
const MIN_ANSWER: usize = 256;

/// Ask questions about documents, one after the other in one session.
///
/// The documents are read first, and found again the next time. Each question is a turn. Answers go to stdout, each
/// on a line of its own, on a terminal below its question; programs should use --json. Without a model, the small
/// built-in one answers.
#[derive(Debug, Args)]
#[command(override_usage = "longhand ask [OPTIONS] [MODEL] [FILE]... QUESTION...")]
pub struct AskArgs {
    /// A model, documents and questions. What exists as a file or a folder is a model or a document. A word before a
    /// question is a name in `longhand models`. All else is a question
    #[arg(value_name = "MODEL] [FILE]... [QUESTION")]
    arguments: Vec<OsString>,
    /// Document to ask about: a file (text, HTML, PDF, EPUB, office), pages of one (book.pdf:10-40), an https address, a folder,
    /// or a pattern such as 'src/**/*.rs'. - is stdin; a document that is piped in needs no -f. Repeat for several
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A question, asked before those given as arguments; can be repeated, and is enough alone
    #[arg(short = 'p', long = "prompt", value_name = "QUESTION")]
    prompts: Vec<String>,
    /// A saved prompt, asked after those of -p: the text of NAME.txt or NAME.md in the folder prompts beside the config
    /// file; can be repeated
    #[arg(long = "prompt-name", value_name = "NAME")]
    prompt_names: Vec<String>,
    /// Ask about each document on its own, also about each file of a folder or a pattern. Prints a row for each: its
    /// name and the answers, separated by tabs; with --json one object on a line. A document that cannot be read or
    /// answered does not stop the others
    #[arg(long)]
    each: bool,
    /// System message, also -sys
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// Print one JSON object with answers, timings and KV cache sizes. `stop` says why each answer has ended: `end` or
    /// `stop` if it is complete, `length` if -n has cut it off, `context` if the context is full, `interrupted`. The exit
    /// code is 4 if an answer was cut off
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    documents: DocumentArgs,
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
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(flatten)]
    sources: SourcesArgs,
    /// llama.cpp's flags for one answer without a conversation.
    #[arg(long, hide = true)]
    no_conversation: bool,
    #[arg(long, hide = true)]
    single_turn: bool,
}

impl AskArgs {
    /// Whether it is found out where answers come from.
    fn finds_sources(&self) -> bool {
        self.sources.are_on() || self.json && self.sources.unless_off()
    }

    /// Moves the arguments without a flag to where flags would have put them. Returns the questions: those of -p, saved
    /// ones, then the others.
    ///
    /// # Errors
    /// Where there is no question, one is empty, or an argument cannot be understood.
    fn sort(&mut self, app: &App) -> Result<Vec<String>, Failure> {
        let saved = self.prompt_names.iter().map(|name| prompts::load(name));
        let mut questions =
            self.prompts.iter().cloned().map(Ok).chain(saved).collect::<Result<Vec<_>, _>>()?;
        let has_question = !questions.is_empty();
        let bare = bare_arguments::of_ask(
            app,
            &std::mem::take(&mut self.arguments),
            &self.model,
            has_question,
            self.each,
        )?;
        self.model.add(bare.models);
        self.files.extend(bare.documents);
        questions.extend(bare.questions);
        let problem = match &questions[..] {
            [] => "there is no question",
            _ if questions.iter().any(|question| question.trim().is_empty()) => "a question is empty",
            _ => return Ok(questions),
        };
        Err(Failure::usage(
            problem,
            "for example: longhand ask report.txt \"Who wrote it?\"; -p gives a question of one word",
        ))
    }
}

/// Runs the command.
pub fn run(app: &App, mut args: AskArgs) -> Result<()> {
    // JSON is no Markdown.
    let app = &app.with_plain(args.answer.plain || args.shape.is_json());
    let given = args.sampling.values()?;
    let questions = args.sort(app)?;
    let source = args.model.source(app, None)?;
    app.introduce(&source, Purpose::Ask);
    if args.no_conversation || args.single_turn {
        app.console.note(
            "note: -no-cnv and -st are not used: `ask` answers and ends, with the model's chat template",
        );
    }
    bare_arguments::note_unread_files(app, &questions, &args.files);
    if !args.files.is_empty()
        && !args.files.iter().any(|path| path.as_os_str() == "-")
        && stdin::holds_unread()
    {
        app.console.note(
            "note: what is piped in is not read, because documents are given; - as a document reads it too",
        );
    }
    let options = args.answer.apply(args.session.apply(args.model.setup_options(app)?)?);
    let options = SetupOptions { record_attention: args.finds_sources(), ..options };
    // Later questions may be read with all that was said before.
    let options = SetupOptions { only_text: questions.len() == 1, ..options };
    let model = app.open(source.clone())?;
    // Before the documents are read: the process that this starts would keep a copy of them.
    let format = args.answer.chat_format(&model)?;
    app.note_template(&format);
    let constraint = args.shape.constraint(&format)?;
    let sampling = Sampling::new(given, Some(Exact::Ask), &format, args.answer.thinking());
    let file = match &source {
        ModelSource::File(path) => path.display().to_string(),
        _ => EMBEDDED_NAME.to_owned(),
    };
    let asking = Asking { app, args: &args, model, format, file, options, constraint, sampling, questions };
    if args.each {
        return each::run(&asking);
    }
    let documents = match args.files.is_empty() {
        true => Documents::piped(app)?,
        false => Documents::read(&args.files, &args.documents.options()?)?,
    };
    let preamble = asking.preamble(&documents)?;
    drop(documents);
    let (mut chat, before_answers) =
        asking.start(preamble, |options, prompt| app.start_within_memory(&asking.model, options, prompt))?;
    let mut asked = asking.asked();
    asked.json = args.json.then_some(before_answers);
    app.interrupt.end_in_order();
    let answered = app.interrupt.in_steps(|| asked.ask_all(app, &mut chat, &asking.questions));
    let is_cut_off = asked.is_cut_off && (args.json || asking.constraint.is_some());
    let ended = asked.end(app, &chat);
    ended_by_signal(app, &answered)?;
    answered.and(ended)?;
    match is_cut_off {
        true => Err(Failure::silent(CUT_OFF).into()),
        false => Ok(()),
    }
}

/// An error with the exit code of the signal that has ended the questions before all were answered, if one has.
fn ended_by_signal<T>(app: &App, answered: &Result<T>) -> Result<(), Failure> {
    match app.interrupt.ending() {
        Some(signal) if answered.is_err() => Err(Failure::silent(u8::try_from(128 + signal).unwrap_or(1))),
        _ => Ok(()),
    }
}

/// Questions that are asked, of one model.
struct Asking<'a> {
    app: &'a App,
    args: &'a AskArgs,
    model: Arc<Model>,
    format: ChatFormat,
    /// The model's file.
    file: String,
    options: SetupOptions,
    /// The shape of answers.
    constraint: Option<Constraint>,
    sampling: Sampling,
    questions: Vec<String>,
}

impl Asking<'_> {
    /// What is read before the first question. Says how large the documents are.
    fn preamble(&self, documents: &Documents) -> Result<Preamble> {
        documents.preamble(self.app, &self.format, self.args.system_prompt.as_deref())
    }

    /// A chat that begins with `preamble`, in a session that `start` makes for a first prompt of so many tokens. With it
    /// the fields of the JSON object before the answers.
    fn start(
        &self,
        preamble: Preamble,
        start: impl FnOnce(&SetupOptions, usize) -> Result<Session>,
    ) -> Result<(Chat, Value)> {
        let (model, questions) = (&self.model, &self.questions);
        let document_tokens = preamble.document_tokens();
        let prompt_tokens = preamble.prompt(&self.format, &questions[0])?.len();
        let trained = model.spec().n_ctx_train;
        let limit = self.sampling.answer_limit();
        let needed = needed(&self.format, trained, prompt_tokens, &questions[1..], &self.sampling)?;
        let context = match self.options.context {
            Context::AsNeeded => needed,
            given => given.tokens(prompt_tokens, trained),
        };
        if context <= prompt_tokens {
            let find = || Offers::find(model, &self.options, prompt_tokens, needed);
            let offers = self.app.interrupt.computing(find)?;
            let message = format!(
                "the first turn (documents, question and chat template) has {prompt_tokens} tokens, but the context is \
                 {context}"
            );
            return Err(failure::context_too_small(message, &offers).into());
        }
        let options = SetupOptions { context: Context::Tokens(context), ..self.options.clone() };
        let session = start(&options, prompt_tokens)?;
        let retrieval = session.options().profile.as_ref();
        let retrieval = retrieval.filter(|_| session.options().policy.uses_retrieval_heads());
        let retrieval_heads = retrieval.map(|profile| profile.retrieval_count());
        let thinking = self.args.answer.thinking();
        let sampling = self.sampling.options();
        let mut chat = Chat::new(session, ChatOptions { preamble, sampling, answer_limit: limit, thinking })?;
        chat.set_constraint(self.constraint.clone());
        let session = chat.session().options();
        let before_answers = json!({
            "model": model.name(),
            "file": self.file,
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
            "query_aware": self.args.query_aware,
        });
        Ok((chat, before_answers))
    }

    /// Nothing was asked yet.
    fn asked(&self) -> Asked {
        Asked {
            hides_thinking: self.args.answer.hides_thinking(),
            together: self.args.query_aware,
            reads_long: self.args.answer.yes,
            cache: match self.args.files.is_empty() {
                true => self.args.disk.documents(),
                false => self.args.disk.documents_or_note(&self.app.console),
            },
            prints_sources: self.args.sources.are_on() && !self.args.json,
            finds_sources: self.args.finds_sources(),
            compares: self.args.json,
            ..Asked::default()
        }
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
    /// Whether documents are read without asking, however long that takes.
    reads_long: bool,
    cache: Option<DocumentCache>,
    /// Whether the sources of each answer are printed, and whether they are found.
    prints_sources: bool,
    finds_sources: bool,
    /// Whether answers are compared with the documents also where they are not formatted.
    compares: bool,
    checker: Checker,
    /// With --json, from the first answer on.
    stream: Option<JsonStream>,
    /// Whether nothing is printed, and the answers are collected as JSON objects instead.
    collects: bool,
    collected: Vec<Value>,
    first_reading: Option<Reading>,
    /// Whether an answer is incomplete, although answers were wanted.
    is_cut_off: bool,
    steps: usize,
    decoding: Duration,
    drafts: DraftCounts,
}

impl Asked {
    /// Asks the questions one after the other and prints each answer as soon as it is there.
    fn ask_all(&mut self, app: &App, chat: &mut Chat, questions: &[String]) -> Result<()> {
        for (number, question) in questions.iter().enumerate() {
            let interrupted = |in_answer| Failure::interrupted_after(number, questions.len(), in_answer);
            let reading = match self.read(app, chat, question) {
                Err(error) if terminal::failure::is_interrupt(&error) && !error.is::<Failure>() => {
                    turn::keep_reading(app, chat, self.cache.as_ref());
                    return Err(interrupted(false).into());
                }
                reading => reading?,
            };
            self.first_reading.get_or_insert(reading);
            if let (Some(before), None) = (&self.json, &self.stream) {
                self.stream = Some(JsonStream::begin(&app.console, before, "answers")?);
            }
            let shows = self.json.is_none() && !self.collects;
            if shows && app.console.stdout_terminal() {
                app.console.print(&heading(number, question, |text| app.console.paint(36, text)))?;
            }
            // Nobody sees more than the answer where it is printed as it is.
            let is_compared = self.compares || app.console.formats_answers() && !self.collects;
            let known = is_compared.then(|| self.checker.known(chat)).flatten();
            let new_view = || AnswerView::new(app.console, self.hides_thinking).compared_with(known.clone());
            let mut view = shows.then(new_view);
            let answer = turn::generate(app, chat, &mut |piece| {
                view.as_mut().map_or(Ok(()), |view| view.push(piece))
            })?;
            self.steps += answer.steps;
            self.decoding += answer.elapsed;
            self.drafts += answer.drafts;
            if let Some(view) = &mut view {
                view.finish()?;
            }
            if let Some(line) =
                known.as_deref().filter(|_| shows).and_then(|known| checked::line(known, &answer.text))
            {
                app.console.status(&line);
            }
            let sources = self.sources_of(app, chat);
            let object = || {
                let mut object = answer_object(question, reading, &answer);
                object["sources"] = sources.as_ref().map_or(Value::Null, AnswerSources::json);
                if let Some(why) = sources.as_ref().and_then(|sources| sources.missing.as_ref()) {
                    object["no_sources"] = why.as_str().into();
                }
                let text = object["answer"].as_str().unwrap_or_default();
                object["not_in_documents"] = checked::json(known.as_deref(), text);
                object
            };
            if let Some(stream) = &mut self.stream {
                stream.push(&app.console, &object())?;
            }
            if self.collects && answer.stop != Stop::Interrupted {
                self.collected.push(object());
            }
            if let Some(sources) = sources.filter(|_| self.prints_sources) {
                app.console.note(sources.list().trim_end());
            }
            if answer.stop == Stop::Interrupted {
                return Err(interrupted(true).into());
            }
            if let Some(why) = cut_off(chat, &answer).filter(|_| chat.answer_limit() != Some(0)) {
                self.is_cut_off = true;
                let which =
                    if questions.len() > 1 { format!("question {}: ", number + 1) } else { String::new() };
                app.console.note(&format!("note: {which}{why}"));
            }
        }
        Ok(())
    }

    /// Where the last answer comes from, if that is wanted. `None` after Ctrl-C, and where it cannot be found out.
    fn sources_of(&self, app: &App, chat: &mut Chat) -> Option<AnswerSources> {
        if !self.finds_sources {
            return None;
        }
        match AnswerSources::of_last_answer(app, chat) {
            Ok(sources) => Some(sources),
            Err(error) if error.is_interrupt() => None,
            // The answer is there all the same.
            Err(error) => {
                app.console.note(failure::report(&error.into()).text.trim_end());
                None
            }
        }
    }

    /// Reads a question; before the first one, the documents.
    fn read(&self, app: &App, chat: &mut Chat, question: &str) -> Result<Reading> {
        chat.record_sources(self.finds_sources)?;
        let documents = match self.together {
            true => {
                let time = turn::announce_reading(app, chat, None)?;
                turn::confirm_reading(app, chat, time, self.reads_long)?;
                Reading::default()
            }
            false => match turn::begin_documents(app, chat, self.cache.as_ref(), self.reads_long)? {
                Some(reading) => turn::cost(&reading),
                None => turn::read_documents(app, chat, self.cache.as_ref())?,
            },
        };
        Ok(documents + turn::read(app, chat, question)?)
    }

    /// Prints what answering took, and the end of the JSON object.
    fn end(self, app: &App, chat: &Chat) -> Result<()> {
        let Some(read) = self.first_reading else { return Ok(()) };
        let usage = chat.session().kv_usage();
        app.console.note(&format!(
            "{}: {} tokens read, {} t/s; {} decode steps, {} t/s{}; KV cache {}, {} of a full one",
            chat.session().options().policy,
            format::count(read.tokens),
            format::speed(format::rate(read.tokens, read.elapsed)),
            format::count(self.steps),
            format::speed(format::rate(self.steps, self.decoding)),
            turn::drafts(self.drafts).map_or(String::new(), |drafts| format!(", {drafts}")),
            format::bytes(usage.bytes),
            format::percent(usage.share()),
        ));
        let Some(stream) = self.stream else { return Ok(()) };
        stream.end(&app.console, &cache_object(chat))
    }
}

/// Why an answer is incomplete, and what to do; `None` for one that is complete.
fn cut_off(chat: &Chat, answer: &Generated) -> Option<String> {
    let tokens = format::count(answer.tokens.len());
    let lacks_shape = if answer.is_complete { "" } else { ", before it had the shape that is asked for" };
    let (cause, remedy) = match answer.stop {
        Stop::Length => (format!("after {tokens} tokens"), "-n sets another limit, -n -1 none".to_owned()),
        Stop::Context => {
            let context = format::count(chat.session().options().context);
            (format!("because the context of {context} tokens is full"), "-c sets a larger one".to_owned())
        }
        Stop::Interrupted => return None,
        _ if answer.is_complete => return None,
        _ => ("by the model itself".to_owned(), "ask in another way".to_owned()),
    };
    Some(match split_thinking(&answer.text) {
        (Some(_), text) if text.trim().is_empty() => format!(
            "there is no answer: the thinking before it was cut off {cause}; {remedy}, and --think off turns thinking off \
             where the model has a switch for it"
        ),
        _ => format!("the answer was cut off {cause}{lacks_shape}; {remedy}"),
    })
}

/// The fields of the JSON object after the answers.
fn cache_object(chat: &Chat) -> Value {
    let usage = chat.session().kv_usage();
    json!({
        "kv_bytes_full": usage.full_bytes,
        "kv_bytes_kept": usage.bytes,
        "kv_share": usage.share(),
        "kv_bytes_allocated": usage.allocated,
    })
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
            "drafted": answer.drafts.made,
            "drafts_used": answer.drafts.used,
        },
    })
}

/// Tokens of a context for a first turn of `prompt` tokens, the other questions and all answers.
fn needed(
    format: &ChatFormat,
    trained: usize,
    prompt: usize,
    other_questions: &[String],
    sampling: &Sampling,
) -> Result<usize> {
    let with = |answer| format.needed_context(prompt, other_questions, answer);
    Ok(match sampling.answer_limit() {
        None => with(MIN_ANSWER)?.max(trained),
        Some(limit) if sampling.has_given_limit() => with(limit)?,
        // The default is no reason to leave the range that the model was trained for.
        Some(limit) => with(limit)?.min(trained.max(with(MIN_ANSWER)?)),
    })
}
