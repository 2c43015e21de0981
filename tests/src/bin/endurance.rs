//! Chats with the built-in model for a number of tokens (questions, answers, other answers, undo, saving, new
//! conversations) and prints what the process takes meanwhile. Fails if memory, open files or files on disk
//! grow.
//!
//! Usage: `cargo run --release -p tests --bin endurance -- TOKENS POLICY`, for example `1000000 h2o`. A
//! million tokens take about ten minutes on two cores.

use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use longhand::generation::SamplerOptions;
use longhand::saved::SavedChat;
use longhand::setup::{Context, HeadSource};
use longhand::{Chat, ChatOptions, Model, ModelSource, Preamble, Setup, SetupOptions};
use models::random::Random;

/// Tokens of a conversation.
const CONTEXT: usize = 16_384;
/// Words of a question.
const QUESTION_WORDS: usize = 400;
/// Most tokens of an answer.
const ANSWER_TOKENS: usize = 200;
/// Lines that are printed, and intervals that are compared.
const REPORTS: usize = 20;
/// Growth of resident memory that is accepted: pages that the allocator keeps.
const ACCEPTED_BYTES: usize = 16 << 20;

/// What the process takes.
#[derive(Clone, Copy)]
struct Usage {
    resident: usize,
    open_files: usize,
    files: usize,
}

/// Tokens computed, and the time for them.
#[derive(Default)]
struct Speed {
    tokens: usize,
    elapsed: Duration,
}

impl Speed {
    fn add(&mut self, tokens: usize, elapsed: Duration) {
        self.tokens += tokens;
        self.elapsed += elapsed;
    }

    fn per_second(&self) -> f64 {
        self.tokens as f64 / self.elapsed.as_secs_f64()
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(Ok(tokens)), Some(policy)) =
        (arguments.first().map(|text| text.parse::<usize>()), arguments.get(1))
    else {
        eprintln!("usage: endurance TOKENS POLICY");
        return ExitCode::from(2);
    };
    let folder = std::env::temp_dir().join(format!("longhand-endurance-{}", std::process::id()));
    let result = fs::create_dir(&folder).map_err(Into::into).and_then(|()| run(tokens, policy, &folder));
    // What is left behind if this fails is in the folder for temporary files.
    let _ = fs::remove_dir_all(&folder);
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Chats for `tokens` tokens; gives whether nothing grew.
fn run(tokens: usize, policy: &str, folder: &Path) -> Result<bool, Box<dyn Error>> {
    let model = Model::open(ModelSource::Embedded)?;
    let options = SetupOptions {
        policy: Some(policy.parse()?),
        context: Context::Tokens(CONTEXT),
        heads: if policy.starts_with("razor") { HeadSource::Assumed(Some(0.15)) } else { HeadSource::Auto },
        ..SetupOptions::default()
    };
    let mut random = Random(1);
    let setup = Setup::resolve(&model, &options, 0, &mut ())?;
    let engine = setup.load(&mut ())?;
    let document = words(&mut random, 2000);
    let chat_options = |preamble| ChatOptions {
        preamble,
        // Far above what people use: the model rarely ends its answers, so that they reach their limit.
        sampling: SamplerOptions { temperature: 3.0, seed: 1, ..SamplerOptions::default() },
        answer_limit: Some(ANSWER_TOKENS),
        thinking: None,
    };
    let preamble = Preamble::new(model.chat_format()?, None, &document)?;
    let mut chat = Chat::new(setup.session(&engine, &mut ())?, chat_options(preamble))?;
    let path = folder.join("chat.session");

    let (mut computed, mut turns) = (0, 0usize);
    let (mut reading, mut generating) = (Speed::default(), Speed::default());
    let mut usages: Vec<Usage> = Vec::new();
    println!("  tokens  turns  resident MiB  open files  files  read t/s  generated t/s");
    while computed < tokens {
        turns += 1;
        if chat.tokens() + 2 * (QUESTION_WORDS + ANSWER_TOKENS) > CONTEXT {
            chat.clear();
        }
        let question = words(&mut random, QUESTION_WORDS);
        let read = chat.read(&question, &mut |_| ())?;
        reading.add(read.tokens, read.elapsed);
        computed += read.tokens;
        let answers = 1 + usize::from(turns % 3 == 0);
        for number in 0..answers {
            if number > 0 {
                let read = chat.retract_answer(&mut |_| ())?.map_or(0, |read| read.tokens);
                computed += read;
            }
            let answer = chat.answer(&mut |_| ControlFlow::Continue(()))?;
            generating.add(answer.steps, answer.elapsed);
            computed += answer.steps;
        }
        if turns % 5 == 0 {
            chat.undo();
        }
        if turns % 7 == 0 {
            chat.save(&path)?;
        }
        if turns % 70 == 0 {
            drop(chat);
            chat = SavedChat::open(&path)?.restore(&engine, chat_options(Preamble::default()))?;
        }
        if computed >= (usages.len() + 1) * tokens / REPORTS {
            let usage = usage(folder)?;
            usages.push(usage);
            println!(
                "{computed:8}  {turns:5}  {:12}  {:10}  {:5}  {:8.0}  {:13.0}",
                usage.resident >> 20,
                usage.open_files,
                usage.files,
                reading.per_second(),
                generating.per_second(),
            );
            (reading, generating) = Default::default();
        }
    }
    Ok(steady(&usages))
}

/// Whether the process took no more in the second half than in the first.
fn steady(usages: &[Usage]) -> bool {
    let (first, second) = usages.split_at(usages.len() / 2);
    let max = |usages: &[Usage], what: fn(&Usage) -> usize| usages.iter().map(what).max().unwrap_or(0);
    let growth = |what| max(second, what).saturating_sub(max(first, what));
    let grown = [
        ("resident bytes", growth(|usage| usage.resident), ACCEPTED_BYTES),
        ("open files", growth(|usage| usage.open_files), 0),
        ("files", growth(|usage| usage.files), 0),
    ];
    for (what, growth, accepted) in grown {
        println!("{what}: {growth} more in the second half, {accepted} accepted");
    }
    grown.iter().all(|(_, growth, accepted)| growth <= accepted)
}

/// What this process takes, as Linux tells.
fn usage(folder: &Path) -> Result<Usage, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let resident = line.trim().trim_end_matches("kB").trim().parse::<usize>()? * 1024;
    let count = |folder: PathBuf| Ok::<_, Box<dyn Error>>(fs::read_dir(folder)?.count());
    Ok(Usage { resident, open_files: count("/proc/self/fd".into())?, files: count(folder.to_owned())? })
}

/// A text of random words.
fn words(random: &mut Random, count: usize) -> String {
    const WORDS: [&str; 16] = [
        "river", "the", "of", "number", "old", "boat", "and", "quiet", "crossed", "Mary", "is", "favorite",
        "key", "pass", "house", "green",
    ];
    let words: Vec<&str> = (0..count).map(|_| WORDS[random.below(WORDS.len())]).collect();
    words.join(" ")
}
