//! `longhand ask`: questions about documents, asked in turn in one session.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use engine::Session;
use models::chat::Message;
use serde_json::{Value, json};

use crate::args::App;
use crate::args::model::{ModelArgs, looks_like_model};
use crate::args::sampling::SamplingArgs;
use crate::args::session::{PrefillArg, SessionArgs, SessionSettings};
use crate::conversation::{Conversation, Reading, needed_context};
use crate::failure::Failure;
use crate::model::{self, Model};
use crate::{device, documents, format, opening};

/// Most tokens of an answer where -n does not say otherwise.
const ANSWER: usize = 256;

/// Asks questions about documents, one after the other in one session.
///
/// The documents and the first question are the first turn, every further question another one. Answers go to stdout, each ended
/// by a line break; --json for programs. Without a model the small one inside the program answers.
#[derive(Debug, Args)]
#[command(override_usage = "longhand ask [MODEL] -f FILE [-f FILE]... QUESTION...")]
pub struct AskArgs {
    /// Questions. The first argument is the model if it ends in .gguf or is an existing file (and -m is not given)
    #[arg(value_name = "MODEL] [QUESTION")]
    arguments: Vec<String>,
    /// Document in UTF-8; give it again for more documents; - is stdin
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A question, asked before those given as arguments
    #[arg(short = 'p', long = "prompt", value_name = "QUESTION")]
    prompts: Vec<String>,
    /// System message (-sys)
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// Print one JSON object: answers with timings, KV bytes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

impl AskArgs {
    /// The model given by place, and the questions.
    fn parts(&self) -> (Option<PathBuf>, Vec<String>) {
        let arguments = self.arguments.as_slice();
        let (place, rest) = match arguments.split_first() {
            Some((first, rest)) if self.model.model.is_none() && looks_like_model(first) => {
                (Some(PathBuf::from(first)), rest)
            }
            _ => (None, arguments),
        };
        (place, self.prompts.iter().chain(rest).cloned().collect())
    }
}

/// Runs the command.
pub fn run(app: &App, args: &AskArgs) -> Result<()> {
    let settings = args.session.validate()?;
    let sampling = args.sampling.validate(0.0, ANSWER)?;
    let (place, questions) = args.parts();
    if questions.is_empty() || questions.iter().any(|question| question.trim().is_empty()) {
        return Err(Failure::usage(
            if questions.is_empty() { "there is no question" } else { "a question is empty" },
            "for example: longhand ask -f report.txt \"Who wrote it?\"",
        )
        .into());
    }
    let documents = documents::read_all(&args.files)?;
    let source = args.model.source(place.as_deref())?;
    let expected = settings.options(device::expected_context(&settings, documents.len()));
    let options = device::engine_options(app, &args.model, &source, Some(&expected))?;
    let model = Model::open(app, &source, &options)?;

    let first = match documents.is_empty() {
        true => questions[0].clone(),
        false => format!("{}\n\n{}", documents.trim_end(), questions[0]),
    };
    let messages: Vec<Message> =
        args.system_prompt.iter().map(Message::system).chain([Message::user(first.as_str())]).collect();
    let prompt_tokens = model.prompt(&messages)?.len();
    let context = context(&model, &settings, prompt_tokens, &questions, sampling.limit)?;
    let options = opening::options(app, &model.engine, &settings, context, prompt_tokens)?;
    let heads = options.profile.as_ref().map(|profile| profile.retrieval_count());
    let session = Session::new(&model.engine, options)?;
    let mut conversation = Conversation::new(&model, session, sampling, args.system_prompt.as_deref());

    let mut answers: Vec<Value> = Vec::new();
    let (mut read, mut steps, mut decoding) = (Reading::default(), 0, std::time::Duration::ZERO);
    for (number, question) in questions.iter().enumerate() {
        let user = if number == 0 { first.clone() } else { question.clone() };
        let reading = conversation.read(app, user)?;
        if number == 0 {
            read = reading;
        }
        let answer = conversation.answer(app, &mut |piece| match args.json {
            true => Ok(()),
            false => app.console.print_foreign(piece),
        })?;
        if !args.json {
            app.console.print("\n")?;
        }
        steps += answer.steps;
        decoding += answer.elapsed;
        answers.push(json!({
            "question": question,
            "answer": answer.text.trim(),
            "tokens": answer.tokens.len(),
            "stop": answer.stop.name(),
            "timings": {
                "prompt_tokens": reading.tokens,
                "prompt_seconds": reading.elapsed.as_secs_f64(),
                "prompt_tps": format::rate(reading.tokens, reading.elapsed),
                "answer_seconds": answer.elapsed.as_secs_f64(),
                "answer_tps": answer.steps_per_second(),
            },
        }));
    }

    let store = conversation.session().store();
    let options = conversation.session().options();
    let policy = &options.policy;
    let full = store.layout().full_bytes(store.seen());
    let kept = store.live_bytes();
    app.console.note(&format!(
        "{policy}: {} tokens read, {} t/s; {} steps, {} t/s; KV cache {} of {} ({})",
        format::count(read.tokens),
        format::speed(format::rate(read.tokens, read.elapsed)),
        format::count(steps),
        format::speed(format::rate(steps, decoding)),
        format::bytes(kept),
        format::bytes(full),
        format::percent(format::share(kept, full)),
    ));
    if args.json {
        let document_tokens = model.tokenizer.encode(&documents, false, false).map_err(Failure::from)?.len();
        app.console.print_json(&json!({
            "model": model.name,
            "file": model::file_name(&source),
            "policy": policy.to_string(),
            "retrieval_heads": heads,
            "kv_heads": model.engine.spec().n_layers * model.engine.spec().n_kv_heads,
            "type_k": options.types.0.name(),
            "type_v": options.types.1.name(),
            "prefill": PrefillArg::from(options.prefill).name(),
            "threads": model.engine.threads(),
            "context": context,
            "document_tokens": document_tokens,
            "prompt_tokens": prompt_tokens,
            "answers": answers,
            "kv_bytes_full": full,
            "kv_bytes_kept": kept,
            "kv_share": format::share(kept, full),
            "kv_bytes_allocated": store.bytes(),
        }))?;
    }
    Ok(())
}

/// The context to use: the one given, if the first turn fits, else what everything needs.
fn context(
    model: &Model,
    settings: &SessionSettings,
    prompt: usize,
    questions: &[String],
    limit: Option<usize>,
) -> Result<usize> {
    let trained = model.engine.spec().n_ctx_train;
    let needed = match limit {
        Some(limit) => needed_context(&model.tokenizer, prompt, &questions[1..], limit)?,
        None => needed_context(&model.tokenizer, prompt, &questions[1..], ANSWER)?.max(trained),
    };
    let context = match settings.context {
        None => needed,
        Some(0) => trained,
        Some(context) => context,
    };
    if context <= prompt {
        return Err(Failure::new(
            format!(
                "the first turn (documents, question and chat template) is {prompt} tokens, \
                 but the context is {context}"
            ),
            format!(
                "give a larger context with -c {needed}, or leave -c out; `longhand plan` says what it costs"
            ),
        )
        .into());
    }
    Ok(context)
}
