//! One test: brings a session to its depth, runs the test, and takes the time, again and again.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use longhand::heads::HeadProfile;
use longhand::policy::PolicyChoice;
use longhand::setup::{fit, smallest};
use longhand::{Engine, EngineError, Session, SessionOptions, SetupOptions};

use crate::app::App;
use crate::failure::Failure;
use crate::progress::ProgressBar;

/// What is measured: a prompt or a generation, at a depth. All in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Tokens read at once; 0 in a generation.
    pub prompt: usize,
    /// Tokens read one by one; 0 in a prompt.
    pub generate: usize,
    /// Tokens seen before.
    pub depth: usize,
}

impl Test {
    /// Tokens of the session at the end.
    pub fn tokens(&self) -> usize {
        self.depth + self.prompt + self.generate
    }
}

/// llama-bench's names.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generate {
            0 => write!(f, "pp{}", self.prompt)?,
            n => write!(f, "tg{n}")?,
        }
        match self.depth {
            0 => Ok(()),
            depth => write!(f, " @ d{depth}"),
        }
    }
}

/// Under what tests are measured.
pub struct Bench<'a> {
    /// The loaded model.
    pub engine: &'a Arc<Engine>,
    /// What sessions are made with.
    pub asked: &'a SetupOptions,
    /// The head profile, for policies that use one.
    pub profile: Option<HeadProfile>,
    /// Whether the depth is made of random rows.
    pub random_fill: bool,
}

/// A test with its measurements.
#[derive(Clone, Debug)]
pub struct Case {
    /// What was measured.
    pub test: Test,
    /// Under which policy.
    pub policy: PolicyChoice,
    /// KV heads that kept everything; `None` where the policy makes no difference between them.
    pub retrieval_heads: Option<usize>,
    /// Time of every run.
    pub times: Vec<Duration>,
    /// Time in which rows were chosen and moved when the prompt was read, or the text before it.
    pub compressing: Duration,
    /// Bytes of live rows, mean of before and after a run.
    pub kv_bytes: usize,
    /// Bytes of live rows if everything were kept.
    pub kv_full: usize,
    /// A hash of the last logits: equal settings give equal results.
    pub logits_hash: u64,
}

impl Case {
    fn tokens(&self) -> usize {
        self.test.prompt + self.test.generate
    }

    /// Tokens per second: mean and standard deviation over the runs.
    pub fn speed(&self) -> (f64, f64) {
        mean_and_deviation(self.times.iter().map(|time| self.tokens() as f64 / time.as_secs_f64()))
    }

    /// Nanoseconds of a run: mean and standard deviation.
    pub fn nanoseconds(&self) -> (f64, f64) {
        mean_and_deviation(self.times.iter().map(|time| time.as_secs_f64() * 1e9))
    }

    /// Tokens per second of every run.
    pub fn samples(&self) -> Vec<f64> {
        self.times.iter().map(|time| self.tokens() as f64 / time.as_secs_f64()).collect()
    }
}

/// Refuses a test that does not fit the memory whatever the head profile is.
pub fn refuse_early(engine: &Engine, asked: &SetupOptions, test: Test) -> Result<()> {
    let profile = Some(smallest(engine.head_shape()?)?);
    let options = SessionOptions { profile, ..asked.session(test.tokens() + 1) };
    fit(engine, options, asked.budget, test.tokens())?;
    Ok(())
}

impl Bench<'_> {
    /// Runs a test `repetitions` times after a warm-up.
    pub fn measure(&self, app: &App, test: Test, repetitions: u32) -> Result<Case> {
        let length = test.tokens();
        let options = SessionOptions { profile: self.profile.clone(), ..self.asked.session(length + 1) };
        let (options, _) = fit(self.engine, options, self.asked.budget, length)?;
        let policy = options.policy.clone();
        let mut runner = Runner {
            app,
            session: Session::new(self.engine, options)?,
            tokens: tokens(length, self.engine.spec().n_vocab),
            test,
            random_fill: self.random_fill,
        };
        runner.warm_up()?;
        let (mut times, mut before, mut after) =
            (Vec::new(), runner.session.kv_usage(), runner.session.kv_usage());
        for _ in 0..repetitions {
            runner.fill()?;
            before = runner.session.kv_usage();
            times.push(runner.time()?);
            after = runner.session.kv_usage();
        }
        Ok(Case {
            test,
            retrieval_heads: policy.uses_profile().then_some(after.full_heads),
            policy,
            times,
            compressing: runner.session.compressing(),
            kv_bytes: before.bytes.midpoint(after.bytes),
            kv_full: before.full_bytes.midpoint(after.full_bytes),
            logits_hash: hash(runner.session.logits()),
        })
    }
}

struct Runner<'a> {
    app: &'a App,
    session: Session,
    tokens: Vec<u32>,
    test: Test,
    random_fill: bool,
}

impl Runner<'_> {
    /// The same work once without depth, so that graphs are built and memory is there.
    fn warm_up(&mut self) -> Result<()> {
        let interrupt = &self.app.interrupt;
        let Test { prompt, generate, .. } = self.test;
        let (session, tokens) = (&mut self.session, &self.tokens);
        interrupt.reading(|| -> Result<(), EngineError> {
            if prompt > 0 {
                session.sync(&tokens[..prompt], &mut |_| ())?;
            }
            for token in &tokens[..generate.min(2)] {
                session.push(*token)?;
            }
            session.clear()
        })?;
        Ok(())
    }

    /// Brings the session to its depth.
    fn fill(&mut self) -> Result<()> {
        let depth = self.test.depth;
        let (session, tokens) = (&mut self.session, &self.tokens[..depth]);
        let mut bar = ProgressBar::new(&self.app.console, format!("filling to {depth}"));
        self.app.interrupt.reading(|| -> Result<(), EngineError> {
            if depth > 0 && session.tokens().len() > depth && session.can_return_to(depth) {
                // What came after is taken back, which may compute the last token again.
                let kept = session.tokens()[..depth].to_vec();
                return session.sync(&kept, &mut |_| ()).map(|_| ());
            }
            session.clear()?;
            match self.random_fill {
                true if depth > 0 => session.fill_random(depth, 1),
                _ => session.sync(tokens, &mut |progress| bar.progress(progress)).map(|_| ()),
            }
        })?;
        Ok(())
    }

    /// Runs the test once.
    fn time(&mut self) -> Result<Duration> {
        let Test { prompt, generate, depth } = self.test;
        let session = &mut self.session;
        // Random rows come with tokens of their own.
        let mut text: Vec<u32> = session.tokens().to_vec();
        text.extend(&self.tokens[depth..depth + prompt]);
        let next = &self.tokens[depth..depth + generate];
        let (done, time) = self.app.interrupt.reading(|| {
            let started = Instant::now();
            let done = match generate {
                0 => session.sync(&text, &mut |_| ()).map(|_| ()),
                _ => next.iter().try_for_each(|token| session.push(*token)),
            };
            (done, started.elapsed())
        });
        done?;
        if time.is_zero() {
            return Err(
                Failure::new("a run took no measurable time", "measure more tokens with -p or -n").into()
            );
        }
        Ok(time)
    }
}

/// The same tokens in every run: any of the vocabulary, in no order.
fn tokens(count: usize, vocabulary: usize) -> Vec<u32> {
    let mut state = 1u64;
    let mut next = || {
        // Knuth's multiplier; the high bits are good.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % vocabulary.max(1) as u64) as u32
    };
    (0..count).map(|_| next()).collect()
}

/// FNV-1a over the bits.
fn hash(logits: &[f32]) -> u64 {
    let bytes = logits.iter().flat_map(|logit| logit.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Mean and sample standard deviation; 0 for one value, as llama-bench prints it.
fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    if count < 2.0 {
        return (mean, 0.0);
    }
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_statistics() {
        let test = |prompt, generate, depth| Test { prompt, generate, depth }.to_string();
        assert_eq!([test(512, 0, 0), test(0, 128, 32768)], ["pp512", "tg128 @ d32768"]);
        let (mean, deviation) = mean_and_deviation([1.0, 2.0, 3.0].into_iter());
        assert_eq!((mean, deviation), (2.0, 1.0));
        assert_eq!(mean_and_deviation([4.0].into_iter()), (4.0, 0.0));
        assert!(tokens(1000, 32).iter().all(|token| *token < 32));
        assert_ne!(hash(&[1.0]), hash(&[2.0]));
    }
}
