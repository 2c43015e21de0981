//! The one list of policies: names, parameters, defaults and limits, from which the command line's help, the parser and the tests
//! are made; and a policy as users write it, `razor:buffer=4000,ratio=5`.

use super::{Policy, ahakv, full, h2o, l2, lagkv, razor, slimkv, snapkv, streaming, tova};
use crate::alibi::ScopeOptions;
use crate::{EngineError, Hint};
use models::spec::{ModelSpec, PositionEncoding};
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

/// Every policy there is.
pub const REGISTRY: &[Entry] = &[
    full::ENTRY,
    streaming::ENTRY,
    razor::ENTRY,
    l2::ENTRY,
    lagkv::LAGKV,
    lagkv::LOCALLAG,
    lagkv::LAG_L2,
    snapkv::ENTRY,
    slimkv::ENTRY,
    ahakv::ENTRY,
    h2o::ENTRY,
    tova::ENTRY,
];

/// A policy's entry in the registry.
#[derive(Debug)]
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// What it keeps, in a line.
    pub summary: &'static str,
    /// Its own parameters.
    pub parameters: &'static [Parameter],
    /// Whether retrieval heads keep everything where `heads` is not given.
    pub profile: bool,
    /// Whether one entry stands for all rows that left where `compensation` is not given.
    pub compensation: bool,
    /// How it is made; `None` for the policy that bounds no head.
    pub make: Option<Make>,
}

/// How a policy is made from its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Make {
    /// The policy, or why parameters do not go together.
    pub policy: fn(&Values) -> Result<Rc<dyn Policy>, String>,
    /// Sets parameters such that a head keeps at most so many rows (at least [`LEAST_ROWS`]) in a session of so many tokens.
    pub fit: fn(&mut Values, usize, usize),
}

/// The smallest number of rows a head can be told to keep.
pub const LEAST_ROWS: usize = 16;

/// Parameters that every policy has whose heads are bounded.
pub const COMMON: &[Parameter] = &[
    choice("heads", "whether retrieval heads keep everything (needs a head profile)", SWITCH, 0.0),
    choice("compensation", "whether one entry stands for the rows that left", SWITCH, 0.0),
];

/// The values of a parameter that is on or off.
pub(super) const SWITCH: &[&str] = &["off", "on"];

impl Entry {
    /// All parameters, the common ones last.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        let common = if self.make.is_some() { COMMON } else { &[] };
        self.parameters.iter().chain(common)
    }

    /// A parameter's value where none is given.
    pub fn default(&self, parameter: &Parameter) -> f64 {
        match parameter.name {
            "heads" => f64::from(self.profile),
            "compensation" => f64::from(self.compensation),
            _ => parameter.default,
        }
    }

    /// `razor:buffer=4000,ratio=5,…`
    pub fn usage(&self) -> String {
        if self.make.is_none() {
            return format!("`{}` has no parameters", self.name);
        }
        let list: Vec<String> =
            self.parameters().map(|p| format!("{}={}", p.name, p.shown(self.default(p)))).collect();
        format!("its parameters, with their defaults, are {}:{}", self.name, list.join(","))
    }
}

/// A parameter of a policy.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name before the `=`.
    pub name: &'static str,
    /// What it means, with unit and source.
    pub meaning: &'static str,
    /// Value where none is given.
    pub default: f64,
    /// Smallest value allowed.
    pub least: f64,
    /// Largest value allowed.
    pub most: f64,
    /// Whether only whole numbers make sense.
    pub whole: bool,
    /// Names of the values 0, 1, …; empty for numbers.
    pub names: &'static [&'static str],
    /// Whether the value is shown even where it is the default.
    pub always_shown: bool,
}

impl Parameter {
    fn usage(&self) -> String {
        if !self.names.is_empty() {
            return format!("`{}` is one of {}: {}", self.name, self.names.join(", "), self.meaning);
        }
        let kind = if self.whole { "a whole number" } else { "a number" };
        format!("`{}` is {kind} from {} to {}: {}", self.name, self.least, self.most, self.meaning)
    }

    /// A value as it is written.
    pub fn shown(&self, value: f64) -> String {
        match self.names.get(value as usize) {
            Some(name) => (*name).to_owned(),
            None => value.to_string(),
        }
    }

    /// A value from how it is written.
    fn read(&self, text: &str) -> Result<f64, (String, String)> {
        let wrong = |reason: String| Err((reason, self.usage()));
        if !self.names.is_empty() {
            return match self.names.iter().position(|name| *name == text) {
                Some(index) => Ok(index as f64),
                None => wrong(format!("`{}` cannot be `{text}`", self.name)),
            };
        }
        let Ok(value) = text.parse::<f64>() else { return wrong(format!("`{text}` is not a number")) };
        if !(self.least..=self.most).contains(&value) || (self.whole && value.fract() != 0.0) {
            return wrong(format!("`{}` cannot be {value}", self.name));
        }
        Ok(value)
    }
}

/// A parameter that is a number.
pub(super) const fn number(
    name: &'static str,
    meaning: &'static str,
    default: f64,
    (least, most): (f64, f64),
) -> Parameter {
    Parameter { name, meaning, default, least, most, whole: false, names: &[], always_shown: true }
}

/// A parameter that counts rows.
pub(super) const fn rows(name: &'static str, meaning: &'static str, default: f64, least: f64) -> Parameter {
    Parameter { whole: true, ..number(name, meaning, default, (least, 1e9)) }
}

/// A parameter that is one of several names.
pub(super) const fn choice(
    name: &'static str,
    meaning: &'static str,
    names: &'static [&'static str],
    default: f64,
) -> Parameter {
    let most = names.len() as f64 - 1.0;
    Parameter { whole: true, names, always_shown: false, ..number(name, meaning, default, (0.0, most)) }
}

/// The parameter `slack`; -1 leaves it to the policy.
pub(super) const fn slack(default: f64) -> Parameter {
    Parameter {
        always_shown: false,
        ..rows("slack", "rows that may gather beyond those kept before some leave", default, -1.0)
    }
}

/// A policy's parameters by name.
#[derive(Clone, Debug)]
pub struct Values {
    entry: &'static Entry,
    values: Vec<f64>,
    /// Which of them the user has written.
    given: Vec<bool>,
}

impl Values {
    fn defaults(entry: &'static Entry) -> Values {
        let values: Vec<f64> = entry.parameters().map(|p| entry.default(p)).collect();
        Values { entry, given: vec![false; values.len()], values }
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.entry.parameters().position(|parameter| parameter.name == name)
    }

    /// A parameter's value; 0 for one that the policy does not have.
    pub fn get(&self, name: &str) -> f64 {
        debug_assert!(self.index(name).is_some(), "{} has no parameter {name}", self.entry.name);
        self.index(name).map_or(0.0, |index| self.values[index])
    }

    /// A parameter that counts something or numbers a choice.
    pub fn count(&self, name: &str) -> usize {
        self.get(name) as usize
    }

    /// The parameter `slack`.
    pub fn slack(&self) -> Option<usize> {
        (self.get("slack") >= 0.0).then_some(self.count("slack"))
    }

    /// Sets a parameter.
    pub fn set(&mut self, name: &str, value: impl Into<Number>) {
        if let (Some(index), Number(value)) = (self.index(name), value.into()) {
            self.values[index] = value;
        }
    }
}

/// A parameter's value, from a count or a fraction.
pub struct Number(f64);

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number(value)
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Number {
        Number(value as f64)
    }
}

/// A policy with its parameters, as written on the command line: `razor:buffer=4000,ratio=5`.
#[derive(Clone, Debug)]
pub struct PolicyChoice {
    values: Values,
    policy: Option<Rc<dyn Policy>>,
}

impl PolicyChoice {
    fn new(values: Values) -> Result<PolicyChoice, String> {
        let policy = match &values.entry.make {
            Some(make) => Some((make.policy)(&values)?),
            None => None,
        };
        Ok(PolicyChoice { values, policy })
    }

    /// The policy's entry.
    pub fn entry(&self) -> &'static Entry {
        self.values.entry
    }

    /// The policy's name.
    pub fn name(&self) -> &'static str {
        self.entry().name
    }

    /// The decisions about bounded heads; `None` where no head is bounded.
    pub fn policy(&self) -> Option<Rc<dyn Policy>> {
        self.policy.clone()
    }

    /// Whether retrieval heads keep everything, so that a head profile is needed.
    pub fn uses_profile(&self) -> bool {
        self.policy.is_some() && self.values.get("heads") != 0.0
    }

    /// Whether one entry stands for the rows that left.
    pub fn is_compensated(&self) -> bool {
        self.policy.is_some() && self.values.get("compensation") != 0.0
    }

    /// What counts as out of sight where the windows of heads follow from the model's weights: under `razor` on models whose
    /// attention falls with the distance. The profile then says how far heads see ([`crate::alibi::profile`]).
    pub fn scopes(&self, spec: &ModelSpec) -> Option<ScopeOptions> {
        let epsilon = self
            .value("eps")
            .filter(|_| self.uses_profile() && spec.position_encoding == PositionEncoding::Alibi)?;
        Some(ScopeOptions { epsilon, rigorous: self.values.get("rigorous") != 0.0 })
    }

    /// Refuses what makes no sense for a model, whatever its heads do.
    pub fn check(&self, spec: &ModelSpec) -> Result<(), EngineError> {
        let given = self.values.index("compensation").is_some_and(|index| self.values.given[index]);
        if spec.position_encoding == PositionEncoding::Alibi && self.is_compensated() && given {
            return Err(EngineError::Policy {
                given: self.to_string(),
                reason: "the model's attention falls with the distance (ALiBi), and an entry that stands for many rows has none"
                    .into(),
                hint: Hint::advice("leave compensation=on out"),
            });
        }
        Ok(())
    }

    /// A parameter's value, if the policy has it.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.values.index(name).map(|index| self.values.values[index])
    }

    /// The same policy with parameters such that a bounded head keeps at most `rows` rows in a session of `context` tokens.
    pub fn with_rows(&self, rows: usize, context: usize) -> Result<PolicyChoice, EngineError> {
        let wrong =
            |reason: String, hint: Hint| EngineError::Policy { given: self.to_string(), reason, hint };
        let Some(make) = &self.entry().make else {
            return Err(wrong(
                "it keeps every row, so no budget can be set".into(),
                Hint::OtherPolicy("razor"),
            ));
        };
        if rows < LEAST_ROWS {
            return Err(wrong(
                format!("a head cannot keep only {rows} rows"),
                Hint::advice(format!("keep at least {LEAST_ROWS} rows a head")),
            ));
        }
        let mut values = self.values.clone();
        (make.fit)(&mut values, rows, context);
        Self::new(values).map_err(|reason| wrong(reason, Hint::LargerBudget))
    }
}

/// Whether they decide alike, whatever the user has written out.
impl PartialEq for PolicyChoice {
    fn eq(&self, other: &PolicyChoice) -> bool {
        self.name() == other.name() && self.values.values == other.values.values
    }
}

impl Default for PolicyChoice {
    fn default() -> Self {
        "full".parse().expect("`full` is in the registry and has no parameters")
    }
}

impl fmt::Display for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.entry();
        let shown: Vec<String> = entry
            .parameters()
            .zip(self.values.values.iter().zip(&self.values.given))
            .filter(|(parameter, (value, given))| {
                **given || **value != entry.default(parameter) || parameter.always_shown
            })
            .map(|(parameter, (value, _))| format!("{}={}", parameter.name, parameter.shown(*value)))
            .collect();
        f.write_str(entry.name)?;
        if shown.is_empty() { Ok(()) } else { write!(f, ":{}", shown.join(",")) }
    }
}

impl FromStr for PolicyChoice {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<PolicyChoice, EngineError> {
        let wrong = |reason: String, hint: String| EngineError::Policy {
            given: text.into(),
            reason,
            hint: Hint::advice(hint),
        };
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let entry = REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let names: Vec<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
            wrong("there is no such policy".into(), format!("use one of {}", names.join(", ")))
        })?;
        let mut values = Values::defaults(entry);
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{setting}` is not NAME=VALUE"), entry.usage()))?;
            let (index, parameter) = entry
                .parameters()
                .enumerate()
                .find(|(_, parameter)| parameter.name == key.trim())
                .ok_or_else(|| wrong(format!("it has no parameter `{key}`"), entry.usage()))?;
            if std::mem::replace(&mut values.given[index], true) {
                return Err(wrong(format!("`{key}` is given twice"), "give each parameter once".into()));
            }
            values.values[index] =
                parameter.read(value.trim()).map_err(|(reason, hint)| wrong(reason, hint))?;
        }
        PolicyChoice::new(values).map_err(|reason| wrong(reason, entry.usage()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, part: &str) {
        let error = text.parse::<PolicyChoice>().expect_err(text);
        let text = format!("{error}; {}", error.hint().expect("a hint"));
        assert!(text.contains(part), "{text}");
    }

    #[test]
    fn every_policy_is_made_from_its_name() {
        for entry in REGISTRY {
            let choice: PolicyChoice = entry.name.parse().expect(entry.name);
            assert_eq!(choice.name(), entry.name);
            let again: PolicyChoice = choice.to_string().parse().expect("what is shown is understood");
            assert_eq!(again.to_string(), choice.to_string());
            assert_eq!((choice.uses_profile(), choice.is_compensated()), (entry.profile, entry.compensation));
        }
    }

    /// What a policy is told to keep it keeps at most, whatever the length of the session, and most of it is used.
    #[test]
    fn budgets_are_kept() {
        for entry in REGISTRY.iter().filter(|entry| entry.make.is_some()) {
            let choice: PolicyChoice = entry.name.parse().expect(entry.name);
            for (rows, context) in [(16, 100), (100, 1000), (4096, 100_000), (30_000, 32_768), (5000, 4096)] {
                let fitted = choice.with_rows(rows, context).expect("rows enough");
                let budget = fitted.policy().expect("bounded").budget(context);
                assert!(budget <= rows, "{fitted} keeps {budget} rows instead of {rows} of {context}");
                let again: PolicyChoice = fitted.to_string().parse().expect("what is shown is understood");
                assert_eq!(again.policy().expect("bounded").budget(context), budget, "{fitted}");
                if rows < context {
                    assert!(2 * budget >= rows, "{fitted} keeps only {budget} rows of {rows}");
                }
            }
            let error = choice.with_rows(15, 100).expect_err("too few");
            assert_eq!(error.hint(), Some(Hint::advice("keep at least 16 rows a head")));
        }
        let full = PolicyChoice::default();
        assert!(full.with_rows(100, 1000).is_err());
        // What is protected gives way to a budget that does not hold it.
        let protecting: PolicyChoice = "l2:sinks=4,recent=64".parse().expect("a policy");
        for (rows, want) in [
            (16, "l2:keep=0.5,after=2048,rows=16,sinks=4,recent=8"),
            (500, "l2:keep=0.5,after=2048,rows=500,sinks=4,recent=64"),
        ] {
            assert_eq!(protecting.with_rows(rows, 1000).expect("rows enough").to_string(), want);
        }
    }

    /// What a budget makes of parameters that do not fit it.
    #[test]
    fn parameters_shrink_with_the_budget() {
        for (text, rows, fitted) in [
            ("l2:sinks=40,recent=40", 30, "l2:keep=0.5,after=2048,rows=30,sinks=15,recent=15"),
            ("streaming:sinks=40", 20, "streaming:sinks=10,window=10"),
            ("razor:sinks=40", 20, "razor:buffer=10,ratio=1000000000,sinks=10"),
            ("snapkv", 20, "snapkv:window=10,capacity=20,slack=2"),
            ("slimkv", 20, "slimkv:window=10,capacity=20,slack=2"),
            ("ahakv", 20, "ahakv:budget=20,recent=10"),
            ("h2o", 21, "h2o:heavy=11,recent=10"),
            ("tova", 20, "tova:capacity=20"),
            ("lagkv", 4096, "lagkv:sinks=16,lag=512,ratio=0.029296875"),
            ("lagkv", 40, "lagkv:sinks=5,lag=17,ratio=0"),
        ] {
            let choice: PolicyChoice = text.parse().expect(text);
            assert_eq!(choice.with_rows(rows, 100_000).expect(text).to_string(), fitted);
        }
    }

    /// Names with the parameters that matter most.
    #[test]
    fn policies_show_what_they_are() {
        let shown: Vec<String> = REGISTRY
            .iter()
            .map(|entry| entry.name.parse::<PolicyChoice>().expect(entry.name).to_string())
            .collect();
        let want = [
            "full",
            "streaming:sinks=4,window=1024",
            "razor:buffer=4000,ratio=5,sinks=4",
            "l2:keep=0.5,after=2048",
            "lagkv:sinks=16,lag=512,ratio=0.25",
            "locallag:sinks=16,lag=512,ratio=0.25",
            "lag-l2:sinks=16,lag=512,ratio=0.25",
            "snapkv:window=32,capacity=1024",
            "slimkv:window=32,capacity=1024",
            "ahakv:budget=1000,recent=32",
            "h2o:heavy=512,recent=512",
            "tova:capacity=1024",
        ];
        assert_eq!(shown, want);
    }

    #[test]
    fn any_score_goes_with_heads_and_compensation() {
        for entry in REGISTRY.iter().filter(|entry| entry.make.is_some()) {
            let choice: PolicyChoice =
                format!("{}:heads=on,compensation=on", entry.name).parse().expect(entry.name);
            assert!(choice.uses_profile() && choice.is_compensated());
            let choice: PolicyChoice =
                format!("{}:heads=off,compensation=off", entry.name).parse().expect(entry.name);
            assert!(!choice.uses_profile() && !choice.is_compensated());
        }
    }

    #[test]
    fn nonsense_is_refused() {
        refused("rasor", "there is no such policy");
        refused("razor:window=3", "no parameter");
        refused("razor:buffer", "NAME=VALUE");
        refused("razor:buffer=-1", "cannot be");
        refused("razor:buffer=1.5", "`buffer` is a whole number from 1 to 1000000000: S0");
        refused("razor:ratio=0", "`ratio` is a number from 1 to 1000000000: C");
        refused("snapkv:pool=min", "`pool` is one of avg, max: ");
        refused("razor:ratio=NaN", "cannot be");
        refused("razor:buffer=1,buffer=2", "twice");
        refused("razor:compensation=2", "cannot be");
        refused("full:x=1", "no parameter");
        refused("full:heads=on", "no parameter");
        refused("snapkv:kernel=4", "odd");
        refused("ahakv:kernel=2", "odd");
        refused("snapkv:capacity=16", "does not hold");
        refused("ahakv:budget=32", "leaves none");
        refused("l2:rows=10,sinks=8,recent=8", "do not fit");
        refused("l2:order=up", "cannot be");
    }
}
