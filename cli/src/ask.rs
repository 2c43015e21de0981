//! `longhand ask`: questions about documents, asked in turn in one session.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use longhand::{
    Chat, ChatFormat, ChatOptions, Context, Model, ModelSource, Preamble, Reading, SetupOptions,
    needed_context,
};
use models::embedded::EMBEDDED_NAME;
use serde_json::{Value, json};

use crate::app::App;
use crate::args::model::{ModelArgs, looks_like_model};
use crate::args::sampling::SamplingArgs;
use crate::args::session::{PrefillArg, SessionArgs};
use crate::failure::Failure;
use crate::{chat, documents, format};

/// Most tokens of an answer where -n does not say otherwise.
const ANSWER: usize = 256;

/// Ask questions about documents, one after the other in one session.
///
/// The documents and the first question form the first turn; each further question is another turn. Answers go to stdout, one per
/// line; use --json in programs. Without a model file, the small built-in model answers.
#[derive(Debug, Args)]
#[command(override_usage = "longhand ask [MODEL] -f FILE [-f FILE]... QUESTION...")]
pub struct AskArgs {
    /// Questions. Without -m, the first argument is the model if it ends in .gguf or is an existing file
    #[arg(value_name = "MODEL] [QUESTION")]
    arguments: Vec<String>,
    /// UTF-8 text file to ask about; - is stdin; repeat for several files
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A question, asked before those given as arguments; repeat for several questions
    #[arg(short = 'p', long = "prompt", value_name = "QUESTION")]
    prompts: Vec<String>,
    /// System message (-sys)
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// Print one JSON object with answers, timings and KV cache sizes
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
    /// The model given as an argument, and the questions.
    fn parts(&self) -> (Option<PathBuf>, Vec<String>) {
        let arguments = self.arguments.as_slice();
        let (model, rest) = match arguments.split_first() {
            Some((first, rest)) if self.model.model.is_none() && looks_like_model(first) => {
                (Some(PathBuf::from(first)), rest)
            }
            _ => (None, arguments),
        };
        (model, self.prompts.iter().chain(rest).cloned().collect())
    }
}

/// Runs the command.
pub fn run(app: &App, args: &AskArgs) -> Result<()> {
    let sampling = args.sampling.validate(0.0, ANSWER)?;
    let (argument, questions) = args.parts();
    if questions.is_empty() || questions.iter().any(|question| question.trim().is_empty()) {
        return Err(Failure::usage(
            if questions.is_empty() { "there is no question" } else { "a question is empty" },
            "for example: longhand ask -f report.txt \"Who wrote it?\"",
        )
        .into());
    }
    let source = args.model.source(argument.as_deref())?;
    let asked = args.session.apply(args.model.setup(app))?;
    let documents = documents::read_all(&args.files)?;
    let model = Model::open(source.clone())?;
    let chat_format = model.chat_format()?;
    let preamble = Preamble::new(chat_format, args.system_prompt.as_deref(), &documents)?;
    let document_tokens = preamble.document_tokens();
    let prompt_tokens = preamble.prompt(chat_format, &questions[0])?.len();
    let trained = model.spec().n_ctx_train;
    let context = context(chat_format, trained, asked.context, prompt_tokens, &questions, sampling.limit)?;
    let asked = SetupOptions { context: Context::Tokens(context), ..asked };
    let setup = app.resolve(&model, &asked, prompt_tokens)?;
    let session = app.interrupt.reading(|| setup.start(&mut app.reporter()))?;
    let heads = session.options().profile.as_ref().map(|profile| profile.retrieval_count());
    let mut chat = Chat::new(
        session,
        ChatOptions { preamble, sampling: sampling.options, answer_limit: sampling.limit },
    )?;

    let mut answers: Vec<Value> = Vec::new();
    let (mut read, mut steps, mut decoding) = (Reading::default(), 0, std::time::Duration::ZERO);
    for (number, question) in questions.iter().enumerate() {
        let reading = chat::read(app, &mut chat, question)?;
        if number == 0 {
            read = reading;
        }
        let answer = chat::generate(app, &mut chat, &mut |piece| match args.json {
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

    let (usage, options) = (chat.session().kv_usage(), chat.session().options());
    let policy = &options.policy;
    app.console.note(&format!(
        "{policy}: {} tokens read, {} t/s; {} steps, {} t/s; KV cache {} of {} ({})",
        format::count(read.tokens),
        format::speed(format::rate(read.tokens, read.elapsed)),
        format::count(steps),
        format::speed(format::rate(steps, decoding)),
        format::bytes(usage.bytes),
        format::bytes(usage.full_bytes),
        format::percent(usage.share()),
    ));
    if args.json {
        let file = match &source {
            ModelSource::File(path) => path.display().to_string(),
            _ => EMBEDDED_NAME.to_owned(),
        };
        app.console.print_json(&json!({
            "model": model.name(),
            "file": file,
            "policy": policy.to_string(),
            "retrieval_heads": heads,
            "kv_heads": model.spec().n_layers * model.spec().n_kv_heads,
            "type_k": options.types.0.name(),
            "type_v": options.types.1.name(),
            "prefill": PrefillArg::from(options.prefill).name(),
            "threads": chat.session().engine().threads(),
            "context": context,
            "document_tokens": document_tokens,
            "prompt_tokens": prompt_tokens,
            "answers": answers,
            "kv_bytes_full": usage.full_bytes,
            "kv_bytes_kept": usage.bytes,
            "kv_share": usage.share(),
            "kv_bytes_allocated": usage.allocated,
        }))?;
    }
    Ok(())
}

/// The context to use: the one given, if the first turn fits, else what everything needs.
fn context(
    format: &ChatFormat,
    trained: usize,
    asked: Context,
    prompt: usize,
    questions: &[String],
    limit: Option<usize>,
) -> Result<usize> {
    let needed = match limit {
        Some(limit) => needed_context(format, prompt, &questions[1..], limit)?,
        None => needed_context(format, prompt, &questions[1..], ANSWER)?.max(trained),
    };
    let context = match asked {
        Context::AsNeeded => needed,
        given => given.tokens(prompt, trained),
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
