//! How much faster answers are with drafts, and whether they are the same: ten questions of each of four kinds, with and without
//! drafts in turns. Passages, tables and code are to be written again; of the rest, the answer is not in the text. Before that:
//! how long several tokens at once take, in steps of one token.
//!
//! Usage: `cargo run --release -p tests --bin drafts -- MODEL.gguf PROSE.txt CODE.rs [THREADS [POLICY]]`

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use longhand::generation::{Generated, Sampler, SamplerOptions, generate};
use longhand::{Message, Model, ModelSource, Session, Setup, SetupOptions};
use tests::fixtures::Random;

/// Questions of each kind.
const QUESTIONS: usize = 10;
/// Tokens of an answer at most.
const LIMIT: usize = 250;
/// Characters of a text.
const LENGTH: usize = 1500;
/// Numbers of tokens at once whose times are measured, one token first.
const COUNTS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
/// How often each is measured.
const ROUNDS: usize = 21;

struct Case {
    kind: &'static str,
    text: String,
    question: String,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, prose, code, rest @ ..] = arguments.as_slice() else {
        bail!("usage: drafts MODEL PROSE CODE [THREADS [POLICY]]");
    };
    let model = Model::open(ModelSource::File(path.into()))?;
    let options = SetupOptions {
        threads: rest.first().map(|count| count.parse()).transpose()?,
        policy: rest.get(1).map(|policy| policy.parse()).transpose()?,
        ..SetupOptions::default()
    };
    let setup = Setup::resolve(&model, &options, 2000, &mut ())?;
    let format = model.chat_format()?;
    let mut session = setup.start(&mut ())?;
    print_costs(&mut session)?;
    println!("| kind | times as fast | the slowest | tokens a second | drafted | right | the same texts |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for cases in cases(&read(prose)?, &read(code)?).chunks(QUESTIONS) {
        let (mut ratios, mut speeds, mut made, mut used, mut same) = (Vec::new(), Vec::new(), 0, 0, 0);
        for (number, case) in cases.iter().enumerate() {
            let messages = [Message::user(format!("{}\n\n{}", case.text, case.question))];
            let prompt = format.template().prompt(&messages, true)?.encode(format.tokenizer())?;
            let mut run = |draft| -> Result<Generated> {
                session = with_drafts(&session, draft)?;
                session.sync(&prompt, &mut |_| ())?;
                let mut sampler = Sampler::new(SamplerOptions::greedy())?;
                let mut go_on = |_: &str| ControlFlow::Continue(());
                Ok(generate(&mut session, format.tokenizer(), &mut sampler, &[], LIMIT, &mut go_on)?)
            };
            let order = if number % 2 == 0 { [0, 15] } else { [15, 0] };
            let answers = order.map(|draft| run(draft).map(|answer| (draft, answer)));
            let answers = answers.into_iter().collect::<Result<Vec<_>>>()?;
            let of =
                |draft: usize| answers.iter().filter(move |(of, _)| *of == draft).map(|(_, answer)| answer);
            let time = |draft| of(draft).map(|answer| answer.elapsed).sum::<Duration>().as_secs_f64();
            ratios.push(time(0) / time(15));
            let drafted = of(15).next().context("an answer")?;
            speeds.push(drafted.tokens.len() as f64 / time(15));
            (made, used) = (made + drafted.drafts.made, used + drafted.drafts.used);
            same += usize::from(of(0).all(|answer| answer.tokens == drafted.tokens));
        }
        ratios.sort_unstable_by(f64::total_cmp);
        speeds.sort_unstable_by(f64::total_cmp);
        println!(
            "| {} | {:.2} | {:.2} | {:.1} | {made} | {used} | {same} of {} |",
            cases[0].kind,
            ratios[ratios.len() / 2],
            ratios[0],
            speeds[speeds.len() / 2],
            ratios.len()
        );
    }
    Ok(())
}

/// The median of the times of several tokens at once, in those of one, after a text and after a longer one.
fn print_costs(session: &mut Session) -> Result<()> {
    println!("| tokens before | {} |", COUNTS.map(|count| format!("{count} at once")).join(" | "));
    println!("| ---: |{}", " ---: |".repeat(COUNTS.len()));
    for depth in [300, 1700] {
        let text: Vec<u32> = (0..depth).map(|number| 1000 + number * 7 % 5000).collect();
        session.sync(&text, &mut |_| ())?;
        let mut times = COUNTS.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (count, times) in COUNTS.into_iter().zip(&mut times) {
                let started = Instant::now();
                session.verify(&text[..count])?;
                times.push(started.elapsed().as_secs_f64());
            }
        }
        let medians = times.map(|mut times| {
            times.sort_unstable_by(f64::total_cmp);
            times[ROUNDS / 2]
        });
        let steps = medians.map(|time| format!("{:.2}", time / medians[0]));
        println!("| {depth} | {} |", steps.join(" | "));
    }
    println!();
    Ok(())
}

fn with_drafts(like: &Session, draft: usize) -> Result<Session> {
    Ok(Session::new(like.engine(), longhand::SessionOptions { draft, ..like.options().clone() })?)
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.to_owned())
}

/// All questions, those of a kind together.
fn cases(prose: &str, code: &str) -> Vec<Case> {
    let pieces = |text: &str| -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        let step = chars.len() / QUESTIONS;
        (0..QUESTIONS).map(|number| chars[number * step..].iter().take(LENGTH).collect()).collect()
    };
    let case =
        |kind, question: &'static str| move |text: String| Case { kind, text, question: question.to_owned() };
    let mut cases = Vec::new();
    cases.extend(pieces(prose).into_iter().map(case("passage", "Copy the text above word for word.")));
    cases.extend((0..QUESTIONS as u64).map(table).map(case("table", "Copy the table above.")));
    let renamed = "Write the code above again, with `self` renamed to `this` and nothing else changed.";
    cases.extend(pieces(code).into_iter().map(case("code with edits", renamed)));
    let free = "Write a poem about what happens in the text, in words of your own.";
    cases.extend(pieces(prose).into_iter().map(case("free text", free)));
    cases
}

/// A table of numbers.
fn table(seed: u64) -> String {
    let mut random = Random(seed);
    let mut table = String::from("| city | visitors | nights | revenue |\n| --- | --- | --- | --- |\n");
    for city in ["Aberdeen", "Bremen", "Córdoba", "Dublin", "Exeter", "Florence", "Ghent", "Hamburg"] {
        let numbers = [(); 3].map(|()| random.below(1_000_000).to_string());
        table += &format!("| {city} | {} |\n", numbers.join(" | "));
    }
    table
}
