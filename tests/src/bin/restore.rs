//! Reads a text, saves the session and restores it in the same run: times and file sizes, and whether the logits are
//! equal.
//!
//! Usage: `cargo run --release -p tests --bin restore -- MODEL.gguf TOKENS POLICY...`

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use longhand::setup::{Context, HeadSource};
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{Model, ModelSource, Session, Setup, SetupOptions};
use models::random::Random;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(tokens)) = (args.next(), args.next()) else {
        return Err("give a model file, a number of tokens, and policies".into());
    };
    let (model, tokens) = (Model::open(ModelSource::File(PathBuf::from(model)))?, tokens.parse::<usize>()?);
    let mut random = Random(1);
    let text: Vec<u32> = (0..tokens).map(|_| random.below(model.spec().n_vocab) as u32).collect();
    println!("| policy | read | saved | restored | file | read / restored |");
    println!("|---|---|---|---|---|---|");
    for policy in args {
        let options = SetupOptions {
            policy: Some(policy.parse()?),
            context: Context::Tokens(tokens + 1),
            heads: HeadSource::Assumed(Some(0.6)),
            ..SetupOptions::default()
        };
        let mut session = Setup::resolve(&model, &options, tokens, &mut ())?.start(&mut ())?;
        // The weights come into memory, and their check is not counted.
        session.sync(&text[..1], &mut |_| ())?;
        session.clear()?;
        let started = Instant::now();
        session.sync(&text, &mut |_| ())?;
        let read = started.elapsed().as_secs_f64();

        let folder = tempfile::tempdir()?;
        let path = folder.path().join("session");
        let started = Instant::now();
        snapshot::save(&session, "", &path)?;
        let saved = started.elapsed().as_secs_f64();
        let bytes = path.metadata()?.len();
        forget_pages(&path)?;

        let engine = session.engine().clone();
        let before: Vec<u32> = session.logits().iter().map(|logit| logit.to_bits()).collect();
        drop(session);
        let started = Instant::now();
        let restored: Session = Snapshot::open(&path)?.restore(&engine)?;
        let time = started.elapsed().as_secs_f64();
        if !restored.logits().iter().map(|logit| logit.to_bits()).eq(before) {
            return Err(format!("{policy}: the restored logits differ").into());
        }
        let mib = bytes as f64 / f64::from(1 << 20);
        println!(
            "| {policy} | {read:.1} s | {saved:.2} s | {time:.2} s | {mib:.1} MiB | {:.0} |",
            read / time
        );
    }
    Ok(())
}

/// The file is read from the disk again, where the system can be asked for that.
fn forget_pages(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    #[cfg(target_os = "linux")]
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}
