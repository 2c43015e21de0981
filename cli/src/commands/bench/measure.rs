//! Runs one test several times and measures its time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use longhand::heads::HeadProfile;
use longhand::policy::PolicyChoice;
use longhand::setup::{check_session, fit_session};
use longhand::{Engine, EngineError, Session, SessionOptions, SetupOptions};
use terminal::progress::ProgressBar;

use crate::app::App;
use crate::failure::Failure;

/// A test: a prompt or a generation at a depth, all in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Tokens of the prompt; 0 in a generation test.
    pub prompt: usize,
    /// Decode steps; 0 in a prompt test.
    pub generate: usize,
    /// Tokens in the cache before the test.
    pub depth: usize,
}

impl Test {
    /// Tokens in the session after the test.
    pub fn tokens(&self) -> usize {
        self.depth + self.measured()
    }

    /// Tokens that are read or generated while time is measured.
    fn measured(&self) -> usize {
        self.prompt + self.generate
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

/// What the tests of one policy have in common.
pub struct Bench<'a> {
    /// The loaded model.
    pub engine: &'a Arc<Engine>,
    /// Options of sessions.
    pub options: &'a SetupOptions,
    /// The head profile, for policies that use one.
    pub profile: Option<HeadProfile>,
    /// Whether the cache is filled with random rows.
    pub random_fill: bool,
}

/// Mean and sample standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation; 0 for one value, as in llama-bench.
    pub deviation: f64,
}

/// The measurements of a test.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The test.
    pub test: Test,
    /// The policy.
    pub policy: PolicyChoice,
    /// KV heads that kept everything; `None` if the policy uses no head profile.
    pub retrieval_heads: Option<usize>,
    /// Time of every run.
    pub times: Vec<Duration>,
    /// Time of every decode step of all runs, the shortest first; empty for prompts.
    steps: Vec<Duration>,
    /// Time for choosing and moving rows in the last prefill.
    pub compressing: Duration,
    /// Operations of a token on average; a multiplication and an addition are two.
    pub operations: f64,
    /// Bytes of live rows, the mean of before and after the last run.
    pub kv_bytes: usize,
    /// The same for a cache that keeps everything.
    pub kv_full: usize,
    /// A hash of the last logits, to compare runs.
    pub logits_hash: u64,
}

impl Measurement {
    /// Tokens per second over the runs.
    pub fn speed(&self) -> Statistics {
        Statistics::of(&self.samples())
    }

    /// Nanoseconds of the runs.
    pub fn nanoseconds(&self) -> Statistics {
        Statistics::of(&self.times.iter().map(|time| time.as_secs_f64() * 1e9).collect::<Vec<_>>())
    }

    /// Time that so many percent of the decode steps take at most; `None` for prompts.
    pub fn step_percentile(&self, percent: usize) -> Option<Duration> {
        percentile(&self.steps, percent)
    }

    /// Tokens per second of every run.
    pub fn samples(&self) -> Vec<f64> {
        self.times.iter().map(|time| self.test.measured() as f64 / time.as_secs_f64()).collect()
    }
}

/// Refuses a test that does not fit the memory whatever the head profile is.
pub fn refuse_early(engine: &Engine, options: &SetupOptions, test: Test) -> Result<()> {
    Ok(check_session(engine, options, test.tokens() + 1, test.tokens())?)
}

impl Bench<'_> {
    /// Runs a test `repetitions` times after a warm-up.
    pub fn measure(&self, app: &App, test: Test, repetitions: u32) -> Result<Measurement> {
        let length = test.tokens();
        let options = SessionOptions { profile: self.profile.clone(), ..self.options.session(length + 1) };
        let (options, _) = fit_session(self.engine, options, self.options.budget, length)?;
        let policy = options.policy.clone();
        let mut runner = Runner {
            app,
            session: app.interrupt.new_session(self.engine, options)?,
            tokens: tokens(length, self.engine.spec().n_vocab),
            test,
            random_fill: self.random_fill,
        };
        runner.warm_up()?;
        let (mut times, mut steps) = (Vec::new(), Vec::new());
        let (mut before, mut after) = (runner.session.kv_usage(), runner.session.kv_usage());
        for _ in 0..repetitions {
            runner.fill()?;
            before = runner.session.kv_usage();
            times.push(runner.time(&mut steps)?);
            after = runner.session.kv_usage();
        }
        steps.sort_unstable();
        let multiplications = runner.session.multiplications(test.depth, test.measured(), test.generate > 0);
        Ok(Measurement {
            test,
            retrieval_heads: policy.uses_retrieval_heads().then_some(after.full_heads),
            policy,
            times,
            steps,
            compressing: runner.session.compressing(),
            operations: 2.0 * multiplications / test.measured() as f64,
            kv_bytes: before.bytes.midpoint(after.bytes),
            kv_full: before.full_bytes.midpoint(after.full_bytes),
            logits_hash: hash(runner.session.logits()),
        })
    }
}

/// A test and its session.
struct Runner<'a> {
    app: &'a App,
    session: Session,
    tokens: Vec<u32>,
    test: Test,
    random_fill: bool,
}

impl Runner<'_> {
    /// Runs the test without depth, so that graphs are built and memory is allocated. Two decode steps are
    /// enough.
    fn warm_up(&mut self) -> Result<()> {
        let interrupt = &self.app.interrupt;
        let Test { prompt, generate, .. } = self.test;
        let (session, tokens) = (&mut self.session, &self.tokens);
        interrupt.computing(|| -> Result<(), EngineError> {
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

    /// Fills the cache to the depth.
    fn fill(&mut self) -> Result<()> {
        let depth = self.test.depth;
        let (session, tokens) = (&mut self.session, &self.tokens[..depth]);
        let mut bar = ProgressBar::new(&self.app.console, format!("filling to {depth}"));
        self.app.interrupt.computing(|| -> Result<(), EngineError> {
            if depth > 0 && session.tokens().len() > depth && session.can_return_to(depth) {
                // Removing the tokens of the last run may compute the token before them again.
                let kept = session.tokens()[..depth].to_vec();
                return session.sync(&kept, &mut |_| ()).map(|_| ());
            }
            session.clear()?;
            match self.random_fill {
                true if depth > 0 => session.fill_random(depth, 1),
                _ => session.sync(tokens, &mut |progress| bar.show(progress)).map(|_| ()),
            }
        })?;
        Ok(())
    }

    /// Runs the test once and returns its time. Adds the time of each decode step to `steps`.
    fn time(&mut self, steps: &mut Vec<Duration>) -> Result<Duration> {
        let Test { prompt, generate, depth } = self.test;
        let session = &mut self.session;
        // With random rows, the tokens before the test are random too.
        let mut text: Vec<u32> = session.tokens().to_vec();
        text.extend(&self.tokens[depth..depth + prompt]);
        let next = &self.tokens[depth..depth + generate];
        let (result, time) = self.app.interrupt.computing(|| {
            let started = Instant::now();
            let result = match generate {
                0 => session.sync(&text, &mut |_| ()).map(|_| ()),
                _ => next.iter().try_for_each(|token| {
                    let before = started.elapsed();
                    session.push(*token)?;
                    steps.push(started.elapsed() - before);
                    Ok(())
                }),
            };
            (result, started.elapsed())
        });
        result?;
        if time.is_zero() {
            return Err(
                Failure::new("a run took no measurable time", "measure more tokens with -p or -n").into()
            );
        }
        Ok(time)
    }
}

/// Pseudo-random tokens, the same in every run.
fn tokens(count: usize, vocabulary: usize) -> Vec<u32> {
    let mut state = 1u64;
    let mut next = || {
        // A linear congruential generator with Knuth's multiplier. Its high bits are good.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % vocabulary.max(1) as u64) as u32
    };
    (0..count).map(|_| next()).collect()
}

/// The value of a sorted list that so many percent of its values do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// FNV-1a over the bits of the logits.
fn hash(logits: &[f32]) -> u64 {
    let bytes = logits.iter().flat_map(|logit| logit.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl Statistics {
    fn of(values: &[f64]) -> Statistics {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if count < 2.0 { 0.0 } else { (squares / (count - 1.0)).sqrt() };
        Statistics { mean, deviation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_statistics() {
        let test = |prompt, generate, depth| Test { prompt, generate, depth }.to_string();
        assert_eq!([test(512, 0, 0), test(0, 128, 32768)], ["pp512", "tg128 @ d32768"]);
        assert_eq!(Statistics::of(&[1.0, 2.0, 3.0]), Statistics { mean: 2.0, deviation: 1.0 });
        assert_eq!(Statistics::of(&[4.0]), Statistics { mean: 4.0, deviation: 0.0 });
        let steps: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&steps, 50), Some(Duration::from_millis(100)));
        assert_eq!(percentile(&steps, 99), Some(Duration::from_millis(198)));
        assert_eq!(percentile(&steps[..3], 99), Some(Duration::from_millis(3)));
        assert_eq!(percentile(&[], 99), None);
        assert!(tokens(1000, 32).iter().all(|token| *token < 32));
        assert_ne!(hash(&[1.0]), hash(&[2.0]));
    }
}
