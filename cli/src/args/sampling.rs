//! Flags for sampling and for the length of an answer.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use longhand::{Sampler, SamplerOptions};

use crate::failure::Failure;

/// Flags of commands that generate.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Generation")]
pub struct SamplingArgs {
    /// Maximum tokens of an answer; -1 for no limit but the context [default: 256 in ask, 1024 in chat]
    #[arg(
        short = 'n',
        long = "n-predict",
        visible_alias = "predict",
        value_name = "TOKENS",
        allow_negative_numbers = true
    )]
    pub n_predict: Option<i64>,
    /// Temperature; 0 is greedy [default: 0 in ask and with the built-in model, else 0.8]
    #[arg(long, visible_alias = "temperature")]
    pub temp: Option<f32>,
    /// Sample from the k most likely tokens; 0 for all
    #[arg(long, default_value_t = 40)]
    pub top_k: usize,
    /// Sample from the smallest set of most likely tokens with this total probability
    #[arg(long, default_value_t = 0.95)]
    pub top_p: f32,
    /// Sample from tokens with at least this fraction of the most likely token's probability
    #[arg(long, default_value_t = 0.05)]
    pub min_p: f32,
    /// Penalty on recent tokens; 1 is off
    #[arg(long, default_value_t = 1.0)]
    pub repeat_penalty: f32,
    /// Number of recent tokens that are penalised
    #[arg(long, default_value_t = 64)]
    pub repeat_last_n: usize,
    /// Random seed; -1 for a different one each time
    #[arg(short = 's', long, default_value_t = -1, allow_negative_numbers = true)]
    pub seed: i64,
}

/// How tokens are sampled and when an answer ends.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// How tokens are sampled.
    pub options: SamplerOptions,
    /// Maximum tokens of an answer; `None` for no limit.
    pub answer_limit: Option<usize>,
}

impl SamplingArgs {
    /// The values of the flags, with the command's defaults for the temperature and the tokens of an answer.
    ///
    /// # Errors
    /// Where a value is out of range.
    pub fn validate(&self, temperature: f32, answer_limit: usize) -> Result<Sampling, Failure> {
        let answer_limit = match self.n_predict {
            None => Some(answer_limit),
            Some(n) => self::answer_limit(n)
                .map_err(|error| Failure::usage(format!("-n {n}: {error}"), error.hint()))?,
        };
        let options = SamplerOptions {
            temperature: self.temp.unwrap_or(temperature),
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: self.repeat_last_n,
            seed: seed(self.seed),
        };
        // This sampler only checks the options before a model is opened.
        Sampler::new(options.clone())?;
        Ok(Sampling { options, answer_limit })
    }
}

/// The maximum tokens of an answer that `-n` says; `None` for no limit.
pub fn answer_limit(n: i64) -> Result<Option<usize>, Failure> {
    if n == -1 {
        return Ok(None);
    }
    let tokens = usize::try_from(n).map(Some);
    tokens.map_err(|_| Failure::usage("not a number of tokens", "give 0 or more, or -1 for no limit"))
}

/// The seed that `--seed` says: a different one each time if it is negative.
pub fn seed(seed: i64) -> u64 {
    match seed {
        ..0 => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64),
        seed => seed as u64,
    }
}
