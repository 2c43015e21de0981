//! `longhand demo`: reads a long document with facts at known depths, and asks about every fact, under four
//! policies: `full`, `razor`, and `streaming` with the same window and with the same bytes as `razor`.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use facts::{DocumentOptions, FactDocument, FactKind};
use longhand::generation::Stop;
use longhand::policy::PolicyChoice;
use longhand::setup::{Context, prepare_session};
use longhand::store::KvUsage;
use longhand::{Chat, ChatOptions, Engine, ModelSource, Preamble, Session, SetupOptions};
use serde_json::json;
use terminal::table::Table;
use terminal::{format, values};

use crate::app::App;
use crate::failure::Failure;
use crate::models::args::ModelArgs;
use crate::session::turn;

/// RazorAttention with the paper's C and number of sinks. Its S0 of 4000 is scaled down for the small model.
const RAZOR: &str = "razor:buffer=256,ratio=5,sinks=4";
/// Maximum tokens of an answer. Facts have about ten.
const ANSWER_LIMIT: usize = 32;
/// Tokens for the chat template and the first question.
const TEMPLATE_TOKENS: usize = 64;
/// Decode steps that are timed after the last answer, because the answers are too short to measure.
const TIMED_STEPS: usize = 256;
/// Blocks of these steps. The result is the median of their speeds.
const TIMED_BLOCKS: usize = 16;

/// See which facts of a long document are found under several cache policies.
///
/// Makes a document with facts at known depths and asks about each of them under four policies: `full`, `razor`,
/// `streaming` with razor's window, and `streaming` with as many bytes as razor.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Length of the document in tokens
    #[arg(long, default_value = "8192", value_parser = values::positive)]
    tokens: usize,
    /// Number of facts in the document; each is asked about
    #[arg(long, default_value_t = DocumentOptions::default().facts, value_name = "N")]
    facts: usize,
    /// Kinds of facts, comma-separated: number, passkey, secret, code, phone, city, hidden (an object's
    /// place), color, food, animal, born (a year) [default: those that the
    /// built-in model answers best]
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Random seed of the document
    #[arg(short = 's', long, default_value_t = DocumentOptions::default().seed)]
    seed: u64,
    /// Print the table as a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// The results of one policy.
struct Outcome {
    policy: PolicyChoice,
    /// Of the KV store after the document and the first question were read.
    usage: KvUsage,
    /// Questions with a correct answer.
    answered: usize,
    /// Questions.
    asked: usize,
    /// Tokens per second.
    prefill_tps: f64,
    /// Tokens per second.
    decode_tps: f64,
}

/// Runs the command.
pub fn run(app: &App, args: &DemoArgs) -> Result<()> {
    let demo = Demo::new(app, args)?;
    demo.print_introduction()?;
    let full = demo.run("full".parse()?)?;
    let razor = demo.run(RAZOR.parse()?)?;
    let same_window = demo.run(streaming_with_same_window(&razor)?)?;
    let same_bytes = demo.run(streaming_with_same_bytes(&razor)?)?;
    let outcomes = [full, razor, same_window, same_bytes];
    if args.json {
        return app.console.print_json(&outcomes.iter().map(Outcome::object).collect::<Vec<_>>());
    }
    app.console.print(&format!("\n{}", table(&outcomes)))?;
    Ok(())
}

/// A document and a loaded model.
struct Demo<'a> {
    app: &'a App,
    engine: Arc<Engine>,
    options: SetupOptions,
    document: FactDocument,
    preamble: Preamble,
    /// Tokens of the document.
    tokens: usize,
    /// Tokens of the context.
    context: usize,
    /// Whether to print only the JSON result.
    quiet: bool,
}

impl<'a> Demo<'a> {
    fn new(app: &'a App, args: &DemoArgs) -> Result<Self> {
        let source = args.model.source(app, None)?;
        if args.facts == 0 || args.facts > 100 {
            return Err(Failure::usage(
                format!("--facts {}: not a number of facts", args.facts),
                "give a number from 1 to 100",
            )
            .into());
        }
        let model = app.open(source.clone())?;
        let trained = model.spec().n_ctx_train;
        if args.tokens > trained {
            return Err(Failure::usage(
                format!(
                    "--tokens {}: {} was trained for {} tokens",
                    args.tokens,
                    model.name(),
                    format::count(trained)
                ),
                format!("give at most {trained}"),
            )
            .into());
        }
        let chat_format = model.chat_format()?;
        let count = |text: &str| chat_format.count(text).unwrap_or(0);
        let document_options = DocumentOptions {
            tokens: args.tokens,
            facts: args.facts,
            seed: args.seed,
            kinds: kinds(&args.kinds)?,
            ..DocumentOptions::default()
        };
        let document = FactDocument::generate(&document_options, &count);
        let tokens = count(&document.text);
        let questions: Vec<String> = document.facts.iter().map(|fact| fact.question.clone()).collect();
        let prompt = tokens + TEMPLATE_TOKENS;
        let context = chat_format.needed_context(prompt, &questions, ANSWER_LIMIT)? + TIMED_STEPS;
        if matches!(source, ModelSource::Embedded) && tokens > 16_384 {
            app.console.note("note: the built-in model was trained on documents of up to 16,384 tokens");
        }
        let preamble = Preamble::new(chat_format, None, &document.text)?;
        let options = SetupOptions {
            context: Context::Tokens(context),
            policy: Some(PolicyChoice::default()),
            ..args.model.setup_options(app)?
        };
        let engine = app.load(&app.resolve(&model, &options, tokens)?)?;
        Ok(Demo { app, engine, options, document, preamble, tokens, context, quiet: args.json })
    }

    /// Prints to stdout, unless only JSON is wanted.
    fn print(&self, text: &str) -> Result<()> {
        if !self.quiet {
            self.app.console.print(text)?;
        }
        Ok(())
    }

    fn print_introduction(&self) -> Result<()> {
        let model = self.engine.model();
        self.print(&format!(
            "Document: {} tokens with {} facts. Model: {}, {} threads.\nEach policy reads the document once and \
             answers a question about each fact:\n",
            format::count(self.tokens),
            self.document.facts.len(),
            self.app.console.sanitize(model.name()),
            self.engine.threads()
        ))?;
        for fact in &self.document.facts {
            self.print(&format!("  at {:3.0} %  {}\n", fact.depth * 100.0, fact.text))?;
        }
        Ok(())
    }

    /// Reads the document under a policy and asks about every fact.
    fn run(&self, policy: PolicyChoice) -> Result<Outcome> {
        let Demo { app, engine, document, .. } = self;
        let options = SetupOptions { policy: Some(policy.clone()), ..self.options.clone() };
        let mut reporter = app.reporter();
        let (session_options, _) = app
            .interrupt
            .computing(|| prepare_session(engine, &options, self.context, self.tokens, &mut reporter))?;
        drop(reporter);
        self.print(&format!("\n{policy}\n"))?;
        let chat_options = ChatOptions {
            preamble: self.preamble.clone(),
            answer_limit: Some(ANSWER_LIMIT),
            ..ChatOptions::default()
        };
        let mut chat = Chat::new(app.interrupt.new_session(engine, session_options)?, chat_options)?;
        let (mut answered, mut prefill_tps, mut usage) = (0, 0.0, chat.session().kv_usage());
        for (number, fact) in document.facts.iter().enumerate() {
            let reading = turn::read(app, &mut chat, &fact.question)?;
            if number == 0 {
                prefill_tps = format::rate(reading.tokens, reading.elapsed);
                usage = chat.session().kv_usage();
            }
            let answer = turn::generate(app, &mut chat, &mut |_| Ok(()))?;
            if answer.stop == Stop::Interrupted {
                return Err(Failure::interrupted().into());
            }
            let correct = fact.is_answered_by(&answer.text);
            answered += usize::from(correct);
            let mark = if correct { app.console.paint(32, "✓") } else { app.console.paint(31, "✗") };
            let answer = app.console.sanitize(answer.text.trim());
            self.print(&format!("  {mark} {} {answer}\n", fact.question))?;
        }
        Ok(Outcome {
            policy,
            usage,
            answered,
            asked: document.facts.len(),
            prefill_tps,
            decode_tps: decode_speed(app, chat.into_session())?,
        })
    }
}

/// StreamingLLM with the window of `razor`'s bounded heads.
fn streaming_with_same_window(razor: &Outcome) -> Result<PolicyChoice> {
    let value = |name| razor.policy.value(name).unwrap_or_default();
    let window = (razor.usage.tokens as f64 / value("ratio").max(1.0)).max(value("buffer")) as usize;
    Ok(format!("streaming:sinks={},window={window}", value("sinks")).parse()?)
}

/// StreamingLLM with as many bytes as `razor`.
fn streaming_with_same_bytes(razor: &Outcome) -> Result<PolicyChoice> {
    let sinks = razor.policy.value("sinks").unwrap_or(4.0) as usize;
    let rows = razor.usage.bytes * razor.usage.tokens / razor.usage.full_bytes.max(1);
    Ok(format!("streaming:sinks={sinks},window={}", rows.saturating_sub(sinks).max(1)).parse()?)
}

/// Kinds of facts by name, or the default kinds if there are no names.
fn kinds(names: &[String]) -> Result<Vec<FactKind>, Failure> {
    let kind = |name: &String| {
        FactKind::ALL.into_iter().find(|kind| kind.name() == name.trim()).ok_or_else(|| {
            let all: Vec<&str> = FactKind::ALL.iter().map(|kind| kind.name()).collect();
            Failure::usage(
                format!("there are no facts of the kind {name:?}"),
                format!("use one of {}", all.join(", ")),
            )
        })
    };
    match names.is_empty() {
        true => Ok(DocumentOptions::default().kinds),
        false => names.iter().map(kind).collect(),
    }
}

/// Decode steps per second, without sampling: the median over blocks of steps.
fn decode_speed(app: &App, mut session: Session) -> Result<f64> {
    let tokens = session.tokens()[..TIMED_STEPS.min(session.tokens().len())].to_vec();
    let mut speeds = Vec::new();
    for block in tokens.chunks_exact(TIMED_STEPS / TIMED_BLOCKS) {
        let started = Instant::now();
        app.interrupt.computing(|| block.iter().try_for_each(|token| session.push(*token)))?;
        speeds.push(format::rate(block.len(), started.elapsed()));
    }
    speeds.sort_by(f64::total_cmp);
    Ok(speeds.get(speeds.len() / 2).copied().unwrap_or(0.0))
}

impl Outcome {
    fn object(&self) -> serde_json::Value {
        json!({
            "policy": self.policy.to_string(),
            "kv_bytes": self.usage.bytes,
            "kv_share": self.usage.share(),
            "answered": self.answered,
            "asked": self.asked,
            "prefill_tps": self.prefill_tps,
            "decode_tps": self.decode_tps,
        })
    }
}

fn table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new(["policy", ">KV kept", ">of full", ">facts", ">prefill t/s", ">decode t/s"]);
    for outcome in outcomes {
        table.row([
            outcome.policy.to_string(),
            format::bytes(outcome.usage.bytes),
            format::percent(outcome.usage.share()),
            format!("{} of {}", outcome.answered, outcome.asked),
            format::speed(outcome.prefill_tps),
            format::speed(outcome.decode_tps),
        ]);
    }
    table.plain()
}
