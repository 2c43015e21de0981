//! The texts that calibration reads twice.

use std::fmt::Write as _;

use models::random::Random;
use models::spec::PositionEncoding;
use models::tokenizer::Tokenizer;

use crate::Engine;

/// Prose, a table, code and numbers.
pub(super) const MIXED: &str = include_str!("mixed.txt");

/// More kinds of text, for what predicts the scores of rows: manuals, descriptions and programs.
const OTHERS: [&str; 6] = [
    include_str!("chat.txt"),
    include_str!("rust.txt"),
    include_str!("serve.txt"),
    include_str!("python.txt"),
    include_str!("gpu.txt"),
    include_str!("architecture.txt"),
];

/// The most tokens of a text that is read for predictors.
pub(super) const MAX_TOKENS: usize = 1024;

/// How many texts there are with those for predictors.
pub(super) const COUNT: usize = 1 + OTHERS.len() + LISTS.len();

/// Made-up lists of records, numbers and sentences.
const LISTS: [fn(&mut Random) -> String; 3] = [records, table, sentences];

/// The tokens of [`MIXED`], and of the texts for predictors if these are asked for. None where the model has no tokenizer
/// for them, or too few positions.
pub(super) fn to_read_twice(engine: &Engine, row_predictors: bool) -> Vec<Vec<u32>> {
    const MIN_TOKENS: usize = 64;
    if engine.spec().position_encoding == PositionEncoding::Learned {
        return Vec::new();
    }
    let Ok(tokenizer) = Tokenizer::from_gguf(engine.file()) else { return Vec::new() };
    let tokens_of = |text: &str, most: usize| {
        let mut tokens = tokenizer.encode(text, true, false).unwrap_or_default();
        tokens.retain(|token| (*token as usize) < engine.spec().n_vocab);
        tokens.truncate(most.min(engine.spec().n_ctx_train / 2));
        tokens
    };
    let first = tokens_of(MIXED, usize::MAX);
    if first.len() < MIN_TOKENS {
        return Vec::new();
    }
    let mut all = vec![first];
    if row_predictors {
        all.extend(OTHERS.map(|text| tokens_of(text, MAX_TOKENS)));
        let mut random = Random(1);
        all.extend(LISTS.map(|list| tokens_of(&list(&mut random), MAX_TOKENS)));
    }
    all.retain(|tokens| tokens.len() >= MIN_TOKENS);
    all
}

const NAMES: [&str; 12] = [
    "amber", "birch", "copper", "delta", "ember", "falcon", "granite", "harbour", "indigo", "juniper",
    "lantern", "meadow",
];

fn name(random: &mut Random) -> &'static str {
    NAMES[random.below(NAMES.len())]
}

/// Keys and values without a meaning.
fn records(random: &mut Random) -> String {
    let mut text = String::new();
    for number in 0..200 {
        let (key, bits) = (name(random), random.bits());
        let _ = match number % 2 {
            0 => writeln!(text, "{key}-{}: {:08x}-{:04x}", random.below(1000), bits as u32, bits >> 48),
            _ => {
                writeln!(text, "{{\"id\": {}, \"name\": \"{key}\", \"code\": {}}}", number, bits % 10_000_000)
            }
        };
    }
    text
}

/// A table of numbers.
fn table(random: &mut Random) -> String {
    let mut text = String::from("date,item,count,price,total\n");
    for day in 0..200 {
        let (count, cents) = (1 + random.below(40), 50 + random.below(9000));
        let (price, total) = (cents as f64 / 100.0, (count * cents) as f64 / 100.0);
        let (month, day) = (1 + day / 28, 1 + day % 28);
        let _ = writeln!(text, "2024-{month:02}-{day:02},{},{count},{price:.2},{total:.2}", name(random));
    }
    text
}

/// Short sentences that repeat, with facts between them.
fn sentences(random: &mut Random) -> String {
    const PLAIN: [&str; 5] = [
        "The road goes along the river. ",
        "It rained for most of the week. ",
        "Nobody had seen the letter. ",
        "The shop opens at nine and closes at six. ",
        "There and back it takes an hour. ",
    ];
    let mut text = String::new();
    for number in 0..400 {
        text.push_str(PLAIN[random.below(PLAIN.len())]);
        if number % 8 == 0 {
            let (name, number) = (name(random), random.below(1_000_000));
            let _ = writeln!(text, "The number of the {name} box is {number}.");
        }
    }
    text
}
