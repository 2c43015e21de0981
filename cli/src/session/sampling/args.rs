//! Flags for sampling and for the length of an answer.

use clap::Args;
use terminal::values;

use crate::failure::{Failure, Hinted};
use crate::session::sampling::{self, Values};

/// Flags of commands that generate. What they leave open is decided by [`Sampling`](crate::session::sampling::Sampling).
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Generation")]
pub struct SamplingArgs {
    /// Maximum tokens of an answer; -1 or -2 for no limit but the context [default: 2048 in ask, 1024 in chat, 4096 with a
    /// model that can think]
    #[arg(short = 'n', long = "n-predict", visible_alias = "predict", value_name = "TOKENS", value_parser = values::integer)]
    pub n_predict: Option<i64>,
    /// Temperature; 0 is greedy [default: 0 in ask, with documents, and with the built-in model; else that of the model
    /// file, or 0.8]
    #[arg(long, visible_alias = "temperature")]
    pub temp: Option<f32>,
    /// Sample from the k most likely tokens; 0 or -1 for all [default: that of the model file in chat, or 40]
    #[arg(long, value_parser = values::integer)]
    pub top_k: Option<i64>,
    /// Sample from the smallest set of most likely tokens with this total probability [default: that of the model file in
    /// chat, or 0.95]
    #[arg(long)]
    pub top_p: Option<f32>,
    /// Sample from tokens with at least this fraction of the most likely token's probability [default: that of the model
    /// file in chat, or 0.05]
    #[arg(long)]
    pub min_p: Option<f32>,
    /// Penalty on recent tokens; 1 is off [default: 1, or that of the model file in a chat without documents]
    #[arg(long)]
    pub repeat_penalty: Option<f32>,
    /// Penalty on recent tokens, however often they came; 0 is off [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    pub presence_penalty: Option<f32>,
    /// Penalty on recent tokens, for each time that they came; 0 is off [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    pub frequency_penalty: Option<f32>,
    /// Makes a token likelier, less likely or impossible: TOKEN+1, TOKEN-1, TOKEN-inf, where TOKEN is a number that
    /// `longhand tokenize` prints; can be repeated
    #[arg(long, value_name = "TOKEN+BIAS")]
    pub logit_bias: Vec<String>,
    /// Number of recent tokens that are penalised; -1 for all, 0 for none [default: that of the model file in chat, or
    /// 64]
    #[arg(long, value_parser = values::integer)]
    pub repeat_last_n: Option<i64>,
    /// Random seed; -1 for a different one each time [default: -1]
    #[arg(short = 's', long, value_parser = values::integer)]
    pub seed: Option<i64>,
}

impl SamplingArgs {
    /// The values of the flags that were given.
    ///
    /// # Errors
    /// Where a value is out of range.
    pub fn values(&self) -> Result<Values, Failure> {
        let of = |flag: &str, value: Option<i64>, parse: fn(i64) -> Result<usize, Failure>| {
            let failed =
                |n: i64, error: Failure| Failure::usage(format!("{flag} {n}: {error}"), error.hint());
            value.map(|n| parse(n).map_err(|error| failed(n, error))).transpose()
        };
        let logit_bias = self.logit_bias.iter().flat_map(|text| text.split(',')).map(|text| {
            sampling::logit_bias(text)
                .map_err(|error| Failure::usage(format!("--logit-bias {text}: {error}"), error.hint()))
        });
        let logit_bias = logit_bias.collect::<Result<Vec<_>, _>>()?;
        let values = Values {
            temperature: self.temp,
            top_k: of("--top-k", self.top_k, sampling::top_k)?,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: of("--repeat-last-n", self.repeat_last_n, sampling::repeat_last_n)?,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: Some(logit_bias).filter(|biases| !biases.is_empty()),
            seed: self.seed.and_then(sampling::seed),
            answer_limit: of("-n", self.n_predict, sampling::answer_limit)?,
        };
        values.check().map_err(Hinted::into_failure)?;
        Ok(values)
    }
}
