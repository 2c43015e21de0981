//! Answers prompts greedily, to compare the tokens with llama.cpp's (`tests/peer/greedy.py`). Reads and writes
//! what `tests/peer/answers.cpp` does with `--leads`.
//!
//! Usage: `cargo run --release -p tests --bin greedy -- MODEL.gguf CONTEXT TYPE_K TYPE_V [THREADS]`; `LONGHAND_TEST_DEVICE`
//! names the devices (see `tests::devices`).

use std::io::BufRead as _;

use anyhow::{Context as _, Result, bail};
use longhand::setup::{Context, DeviceRequest};
use longhand::{Model, ModelSource, Session, Setup, SetupOptions, Type};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, context, k_type, v_type, threads @ ..] = arguments.as_slice() else {
        bail!("usage: greedy MODEL CONTEXT TYPE_K TYPE_V [THREADS]");
    };
    let model = Model::open(ModelSource::File(path.into()))?;
    let options = SetupOptions {
        threads: threads.first().map(|count| count.parse()).transpose()?,
        device: DeviceRequest::Devices(tests::devices()),
        context: Context::Tokens(context.parse()?),
        k_type: Some(type_of(k_type)?),
        v_type: Some(type_of(v_type)?),
        ..SetupOptions::default()
    };
    let mut session = Setup::resolve(&model, &options, 0, &mut ())?.start(&mut ())?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (limit, ids) = line.split_once(' ').context("a line is a limit and token ids")?;
        let ids = ids.split(' ').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
        println!("{}", answer(&mut session, &ids, limit.parse()?)?.join(" "));
    }
    Ok(())
}

fn type_of(name: &str) -> Result<Type> {
    let types = [Type::F32, Type::F16, Type::Q8_0, Type::Q4_0, Type::IQ4_NL];
    types.into_iter().find(|kind| kind.name() == name).with_context(|| format!("{name} is not a cache type"))
}

/// The tokens of an answer as `ID:SECOND:LEAD`. The answer goes on behind a token that ends a generation.
fn answer(session: &mut Session, ids: &[u32], limit: usize) -> Result<Vec<String>> {
    session.clear()?;
    session.sync(ids, &mut |_| {})?;
    let mut tokens = Vec::new();
    while tokens.len() < limit {
        if let Some(token) = tokens.last().map(|(token, _)| *token) {
            session.push(token)?;
        }
        tokens.push(best_two(session.logits()));
    }
    Ok(tokens.into_iter().map(|(token, rest)| format!("{token}:{rest}")).collect())
}

/// The token with the largest logit, then `SECOND:LEAD`: the next token and how far its logit is behind.
fn best_two(logits: &[f32]) -> (u32, String) {
    let best_but = |left_out: Option<usize>| {
        let of = |id: &usize| if Some(*id) == left_out { f32::NEG_INFINITY } else { logits[*id] };
        (0..logits.len()).rev().max_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or_default()
    };
    let best = best_but(None);
    let second = best_but(Some(best));
    (best as u32, format!("{second}:{}", logits[best] - logits[second]))
}
