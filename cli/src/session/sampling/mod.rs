//! How tokens are sampled and how long an answer may be, and why. What was given wins. Where an answer can be right or
//! wrong (in `ask`, about documents, with the built-in model) the most likely token is the default, because sampling
//! makes answers worse there. Elsewhere the model file may recommend values; else there are defaults.

pub mod args;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use longhand::error::SamplerError;
use longhand::generation::{Sampler, SamplerOptions};
use longhand::{Chat, ChatFormat, EngineError};
use models::chat::may_think;
use models::gguf::{GgufFile, Value};

use crate::failure::Failure;

/// Most tokens of an answer by default: in `ask`, where nothing goes on with an answer that was cut off, in `chat`, and
/// with models that may think before they answer.
const ASK_LIMIT: usize = 2048;
const CHAT_LIMIT: usize = 1024;
const THINKING_LIMIT: usize = 4096;
/// Stands for no limit, and for all tokens.
pub const NO_LIMIT: usize = usize::MAX;

/// Values of settings; `None` where they are not said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    pub temperature: Option<f32>,
    /// 0 for all tokens.
    pub top_k: Option<usize>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repeat_penalty: Option<f32>,
    /// [`NO_LIMIT`] for all tokens.
    pub repeat_last_n: Option<usize>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    /// Tokens and what is added to their logits; [`f32::NEG_INFINITY`] bans one.
    pub logit_bias: Option<Vec<(u32, f32)>>,
    pub seed: Option<u64>,
    /// Most tokens of an answer, or [`NO_LIMIT`].
    pub answer_limit: Option<usize>,
}

/// A setting that flags, `/set` and saved conversations have.
pub struct Setting {
    /// Its name, and others that are understood.
    pub names: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
    /// The end of its name in model files, after `general.sampling.`.
    key: Option<&'static str>,
    /// Its value as it is written.
    pub show: fn(&Values) -> Option<String>,
    /// Sets it to a written value.
    pub set: fn(&mut Values, &str) -> Result<(), Failure>,
}

/// A setting that is a number.
macro_rules! number {
    ($names:expr, $key:expr, $help:expr, $field:ident) => {
        Setting {
            names: $names,
            help: $help,
            key: $key,
            show: |values| values.$field.map(|value| value.to_string()),
            set: |values, text| parse(text).map(|value| values.$field = Some(value)),
        }
    };
}

/// A setting whose negative numbers mean something.
macro_rules! signed {
    ($names:expr, $key:expr, $help:expr, $field:ident, $parse:expr) => {
        Setting {
            names: $names,
            help: $help,
            key: $key,
            show: |values| values.$field.map(written),
            set: |values, text| {
                values.$field = Some($parse(parse(text)?)?);
                Ok(())
            },
        }
    };
}

/// All settings.
pub const SETTINGS: [Setting; 11] = [
    number!(&["temp", "temperature"], Some("temp"), "0 takes the most likely token", temperature),
    signed!(&["top-k"], Some("top_k"), "most likely tokens to sample from; 0: all", top_k, top_k),
    number!(&["top-p"], Some("top_p"), "their total probability", top_p),
    number!(&["min-p"], Some("min_p"), "least share of the largest probability", min_p),
    number!(
        &["repeat-penalty"],
        Some("penalty_repeat"),
        "penalty on recent tokens; 1 is off",
        repeat_penalty
    ),
    signed!(
        &["repeat-last-n"],
        Some("penalty_last_n"),
        "tokens that count as recent; -1: all",
        repeat_last_n,
        repeat_last_n
    ),
    number!(&["presence-penalty"], None, "penalty on tokens that came; 0 is off", presence_penalty),
    number!(&["frequency-penalty"], None, "penalty for each time a token came; 0 is off", frequency_penalty),
    Setting {
        names: &["logit-bias"],
        help: "such as 15043+1,29-inf: token 15043 likelier, 29 never; off: none",
        key: None,
        show: |values| {
            let one = |(token, bias): &(u32, f32)| format!("{token}{bias:+}");
            let all = |biases: &Vec<_>| biases.iter().map(one).collect::<Vec<_>>().join(",");
            values.logit_bias.as_ref().map(all).map(|text| if text.is_empty() { "off".into() } else { text })
        },
        set: |values, text| {
            let biases =
                if text == "off" { Ok(Vec::new()) } else { text.split(',').map(logit_bias).collect() };
            values.logit_bias = Some(biases?);
            Ok(())
        },
    },
    Setting {
        names: &["seed", "s"],
        help: "random seed; -1: another one",
        key: None,
        show: |values| values.seed.map(|seed| seed.to_string()),
        set: |values, text| {
            let given = text.parse().map_or_else(|_| parse(text).map(seed), |seed| Ok(Some(seed)))?;
            values.seed = Some(given.unwrap_or_else(any_seed));
            Ok(())
        },
    },
    signed!(
        &["n", "n-predict", "predict"],
        None,
        "most tokens of an answer; -1: no limit",
        answer_limit,
        answer_limit
    ),
];

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, Failure> {
    let hint = "/set shows the settings and their values";
    text.parse().map_err(|_| Failure::usage("not a number that it can be", hint))
}

fn written(value: usize) -> String {
    if value == NO_LIMIT { "-1".to_owned() } else { value.to_string() }
}

/// The maximum tokens of an answer that `-n` says. llama.cpp has -1 for no limit and -2 for the rest of the context,
/// which limits answers here in any case.
pub fn answer_limit(n: i64) -> Result<usize, Failure> {
    match n {
        -2 | -1 => Ok(NO_LIMIT),
        n => usize::try_from(n)
            .map_err(|_| Failure::usage("not a number of tokens", "give 0 or more, or -1 for no limit")),
    }
}

/// The tokens that `--top-k` says. As in llama.cpp, 0 and less are all.
pub fn top_k(n: i64) -> Result<usize, Failure> {
    Ok(usize::try_from(n).unwrap_or(0))
}

/// The tokens that `--repeat-last-n` says.
pub fn repeat_last_n(n: i64) -> Result<usize, Failure> {
    match n {
        -1 => Ok(NO_LIMIT),
        n => usize::try_from(n)
            .map_err(|_| Failure::usage("not a number of tokens", "give 0 or more, or -1 for all tokens")),
    }
}

/// The token and the bias that `--logit-bias` says, as llama.cpp writes them: `15043+1`, `15043-0.5`, `15043-inf`.
pub fn logit_bias(text: &str) -> Result<(u32, f32), Failure> {
    let text = text.trim();
    let parsed = text
        .find(['+', '-'])
        .map(|at| text.split_at(at))
        .and_then(|(token, bias)| Some((token.parse().ok()?, bias.parse().ok()?)));
    let hint = "give the number of a token and its bias, such as 15043+1, or 15043-inf for never; `longhand tokenize` prints \
                the numbers of tokens";
    parsed.ok_or_else(|| Failure::usage("not a token and its bias", hint))
}

/// The seed that `--seed` says; `None` for a different one each time.
pub fn seed(seed: i64) -> Option<u64> {
    u64::try_from(seed).ok()
}

fn any_seed() -> u64 {
    // Short enough to be typed again.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64 & 0xFFFF_FFFF)
}

impl Values {
    /// Refuses values that a sampler cannot have.
    pub fn check(&self) -> Result<(), SamplerError> {
        Sampler::new(self.options()).map(|_| ())
    }

    /// These values, and others where they are not said.
    pub fn or(self, others: &Values) -> Values {
        Values {
            temperature: self.temperature.or(others.temperature),
            top_k: self.top_k.or(others.top_k),
            top_p: self.top_p.or(others.top_p),
            min_p: self.min_p.or(others.min_p),
            repeat_penalty: self.repeat_penalty.or(others.repeat_penalty),
            repeat_last_n: self.repeat_last_n.or(others.repeat_last_n),
            presence_penalty: self.presence_penalty.or(others.presence_penalty),
            frequency_penalty: self.frequency_penalty.or(others.frequency_penalty),
            logit_bias: self.logit_bias.or_else(|| others.logit_bias.clone()),
            seed: self.seed.or(others.seed),
            answer_limit: self.answer_limit.or(others.answer_limit),
        }
    }

    /// As options of a sampler, which has its own defaults.
    fn options(&self) -> SamplerOptions {
        let default = SamplerOptions::default();
        SamplerOptions {
            temperature: self.temperature.unwrap_or(default.temperature),
            top_k: self.top_k.unwrap_or(default.top_k),
            top_p: self.top_p.unwrap_or(default.top_p),
            min_p: self.min_p.unwrap_or(default.min_p),
            repeat_penalty: self.repeat_penalty.unwrap_or(default.repeat_penalty),
            repeat_last_n: self.repeat_last_n.unwrap_or(default.repeat_last_n),
            presence_penalty: self.presence_penalty.unwrap_or(default.presence_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(default.frequency_penalty),
            logit_bias: self.logit_bias.clone().unwrap_or(default.logit_bias),
            seed: self.seed.unwrap_or(default.seed),
        }
    }

    /// The values that a conversation was saved with. Those that make no sense are left out.
    pub fn of_saved(saved: &BTreeMap<String, String>) -> Values {
        let mut values = Values::default();
        for (name, text) in saved {
            let mut changed = values.clone();
            let setting = SETTINGS.iter().find(|setting| setting.names[0] == name);
            if setting.is_some_and(|setting| (setting.set)(&mut changed, text).is_ok())
                && changed.check().is_ok()
            {
                values = changed;
            }
        }
        values
    }

    /// These values as a conversation is saved with.
    fn to_saved(&self) -> BTreeMap<String, String> {
        let named = |setting: &Setting| Some((setting.names[0].to_owned(), (setting.show)(self)?));
        SETTINGS.iter().filter_map(named).collect()
    }

    /// What a model file recommends, and what is to be said about values that are of no use.
    pub fn of_model(file: &GgufFile) -> (Values, Vec<String>) {
        const PREFIX: &str = "general.sampling.";
        /// They only mean something with others.
        const DETAILS: [&str; 4] = ["sequence", "xtc_threshold", "mirostat_tau", "mirostat_eta"];
        let (mut values, mut notes) = (Values::default(), Vec::new());
        for (key, value) in file.metadata() {
            let Some(name) = key.strip_prefix(PREFIX).filter(|name| !DETAILS.contains(name)) else {
                continue;
            };
            let text = match value {
                Value::F32(number) => Some(number.to_string()),
                value => value
                    .as_float()
                    .map(|number| number.to_string())
                    .or_else(|| value.as_int().map(|number| number.to_string())),
            };
            let setting = SETTINGS.iter().find(|setting| setting.key == Some(name));
            let mut changed = values.clone();
            let problem = match (setting, text) {
                (Some(setting), Some(text)) => match (setting.set)(&mut changed, &text) {
                    Ok(()) => changed.check().err().map(|error| error.to_string()),
                    Err(error) => Some(format!("{text} is {error}")),
                },
                (Some(_), None) => Some("it is not a number".to_owned()),
                // Off.
                (None, Some(text)) if text.parse() == Ok(0.0) => continue,
                (None, _) => Some("longhand does not have this kind of sampling".to_owned()),
            };
            match problem {
                Some(why) => notes.push(format!("note: {key} of the model file is not used: {why}")),
                None => values = changed,
            }
        }
        (values, notes)
    }
}

/// The values where nothing else says them.
fn defaults(seed: u64, answer_limit: usize) -> Values {
    let options = SamplerOptions::default();
    Values {
        temperature: Some(options.temperature),
        top_k: Some(options.top_k),
        top_p: Some(options.top_p),
        min_p: Some(options.min_p),
        repeat_penalty: Some(options.repeat_penalty),
        repeat_last_n: Some(options.repeat_last_n),
        presence_penalty: Some(options.presence_penalty),
        frequency_penalty: Some(options.frequency_penalty),
        logit_bias: Some(options.logit_bias),
        seed: Some(seed),
        answer_limit: Some(answer_limit),
    }
}

/// The default of the flag with this name, where it does not depend on what is answered; a model file may recommend
/// another value.
pub fn default_text(flag: &str) -> Option<String> {
    match flag {
        "seed" => Some("-1".to_owned()),
        "temp" | "n-predict" => None,
        flag => SETTINGS
            .iter()
            .find(|setting| setting.names[0] == flag)
            .and_then(|setting| (setting.show)(&defaults(0, CHAT_LIMIT))),
    }
}

/// Why the most likely token is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exact {
    /// `ask` is used in scripts, which want the same answer each time.
    Ask,
    /// The built-in model has one right answer to each question.
    BuiltIn,
    /// The answer is in the documents.
    Documents,
}

/// How tokens are sampled and how long an answer may be.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// What flags, settings and `/set` say, or said when the conversation was saved.
    pub given: Values,
    exact: Option<Exact>,
    /// What the model file recommends.
    model: Values,
    defaults: Values,
}

impl Sampling {
    /// With these values given. `format`: of the model, which may think unless that is turned off.
    pub fn new(given: Values, exact: Option<Exact>, format: &ChatFormat, thinking: Option<bool>) -> Sampling {
        let thinks = thinking.unwrap_or_else(|| may_think(format.tokenizer()));
        let limit = match exact {
            _ if thinks => THINKING_LIMIT,
            Some(Exact::Ask) => ASK_LIMIT,
            _ => CHAT_LIMIT,
        };
        Sampling { given, exact, model: Values::default(), defaults: defaults(any_seed(), limit) }
    }

    /// The same with what a model file recommends.
    pub fn with_model(self, model: Values) -> Sampling {
        Sampling { model, ..self }
    }

    /// The conversation has documents now, or no longer has any.
    pub fn set_documents(&mut self, has_documents: bool) {
        match self.exact {
            None if has_documents => self.exact = Some(Exact::Documents),
            Some(Exact::Documents) if !has_documents => self.exact = None,
            _ => {}
        }
    }

    /// From the strongest on: values, and why they are in force.
    fn layers(&self) -> [(Values, &'static str); 4] {
        let (exact, why) = match self.exact {
            None => (Values::default(), ""),
            Some(exact) => {
                let why = match exact {
                    Exact::Ask => "default of ask",
                    Exact::BuiltIn => "built-in",
                    Exact::Documents => "documents",
                };
                // A penalty would keep the model from quoting.
                let repeat_penalty = self.model.repeat_penalty.map(|_| 1.0);
                (Values { temperature: Some(0.0), repeat_penalty, ..Values::default() }, why)
            }
        };
        [
            (self.given.clone(), "given"),
            (exact, why),
            (self.model.clone(), "model file"),
            (self.defaults.clone(), "default"),
        ]
    }

    /// All values that are in force.
    fn values(&self) -> Values {
        self.layers().into_iter().fold(Values::default(), |values, (layer, _)| values.or(&layer))
    }

    /// The value of a setting that is in force, and why.
    pub fn in_force(&self, setting: &Setting) -> (String, &'static str) {
        let layers = self.layers();
        let found = layers.iter().find_map(|(layer, why)| Some(((setting.show)(layer)?, *why)));
        found.unwrap_or_default()
    }

    /// The temperature and why: `temp 0 (documents)`.
    pub fn temperature(&self) -> String {
        let (value, why) = self.in_force(&SETTINGS[0]);
        format!("temp {value} ({why})")
    }

    /// What the model file recommends and is in force: `temp 0.6, top-k 20`; empty if there is nothing.
    pub fn recommended(&self) -> String {
        let of_model = |setting: &Setting| {
            (setting.show)(&self.model)?;
            let (value, why) = self.in_force(setting);
            (why == "model file").then(|| format!("{} {value}", setting.names[0]))
        };
        SETTINGS.iter().filter_map(of_model).collect::<Vec<_>>().join(", ")
    }

    /// How tokens are sampled.
    pub fn options(&self) -> SamplerOptions {
        self.values().options()
    }

    /// Maximum tokens of an answer; `None` for no limit but the context.
    pub fn answer_limit(&self) -> Option<usize> {
        self.values().answer_limit.filter(|limit| *limit != NO_LIMIT)
    }

    /// Whether the user has limited answers, or has said that there is no limit.
    pub fn has_given_limit(&self) -> bool {
        self.given.answer_limit.is_some()
    }

    /// Lets a conversation be answered so. What was given is saved with it.
    pub fn apply(&self, chat: &mut Chat) -> Result<(), EngineError> {
        let options = self.options();
        if *chat.sampling() != options {
            chat.set_sampling(options)?;
        }
        chat.set_answer_limit(self.answer_limit());
        chat.set_settings(self.given.to_saved());
        Ok(())
    }
}
