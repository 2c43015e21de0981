//! Policies: what the heads that may forget keep. The registry at the end is the one list that the command line's help,
//! the parser and the tests are made from.

mod full;
mod razor;
mod streaming;

use crate::EngineError;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

/// Decides what bounded heads keep. Heads that the profile marks as retrieval heads keep everything, under policies that
/// use a profile.
pub trait Policy: fmt::Debug {
    /// Whether any head is bounded at all.
    fn bounds(&self) -> Option<Bounds> {
        None
    }

    /// Whether retrieval heads keep everything, so that a head profile is needed.
    fn uses_profile(&self) -> bool {
        false
    }
}

/// The rows that a bounded head keeps: the first `sinks` and the last `window`, as a rule of how many tokens it has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Rows kept from the beginning.
    pub sinks: usize,
    /// Recent rows kept at least.
    pub window: usize,
    /// Keep at least this share of all tokens seen: window = max(window, floor(seen · share)); 0 for a fixed window.
    pub share: f64,
    /// Whether one entry stands for all rows that left.
    pub compensated: bool,
    /// Rows that may gather beyond the window before they leave together; `None` takes an eighth of the window.
    pub slack: Option<usize>,
}

impl Bounds {
    /// Recent rows kept after `seen` tokens.
    pub fn window(&self, seen: usize) -> usize {
        // The tolerance keeps floor(29/0.29) and the like exact (SPEC section 0).
        self.window.max((seen as f64 * self.share + 1e-6).floor() as usize)
    }

    /// Positions `[sinks, horizon)` have left after `seen` tokens.
    pub fn horizon(&self, seen: usize) -> usize {
        seen.saturating_sub(self.window(seen)).max(self.sinks)
    }

    /// Rows that may gather beyond the window, in a session of `context` tokens.
    pub fn slack(&self, context: usize) -> usize {
        self.slack.unwrap_or_else(|| (self.window(context) / 8).clamp(1, 512))
    }
}

/// A policy with its parameters, as written on the command line: `razor:buffer=4000,ratio=5`.
#[derive(Clone, Debug)]
pub struct PolicyChoice {
    entry: &'static Entry,
    values: Vec<f64>,
    policy: Rc<dyn Policy>,
}

impl PolicyChoice {
    /// The policy's name.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// The decisions.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// A parameter's value.
    pub fn value(&self, name: &str) -> Option<f64> {
        let index = self.entry.parameters.iter().position(|parameter| parameter.name == name)?;
        Some(self.values[index])
    }
}

impl Default for PolicyChoice {
    fn default() -> Self {
        "full".parse().expect("`full` is in the registry and has no parameters")
    }
}

impl fmt::Display for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = self.entry.parameters.iter().zip(&self.values);
        let shown: Vec<String> = parameters
            .filter(|(parameter, value)| **value != parameter.default || parameter.always_shown)
            .map(|(parameter, value)| format!("{}={value}", parameter.name))
            .collect();
        f.write_str(self.entry.name)?;
        if shown.is_empty() { Ok(()) } else { write!(f, ":{}", shown.join(",")) }
    }
}

impl FromStr for PolicyChoice {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<PolicyChoice, EngineError> {
        let wrong = |reason: String, hint: String| EngineError::Policy { given: text.into(), reason, hint };
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, settings),
            None => (text, ""),
        };
        let entry = REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let names: Vec<&str> = REGISTRY.iter().map(|entry| entry.name).collect();
            wrong(format!("there is no policy `{name}`"), format!("policies are {}", names.join(", ")))
        })?;
        let mut values: Vec<f64> = entry.parameters.iter().map(|parameter| parameter.default).collect();
        let mut set = vec![false; values.len()];
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{setting}` is not NAME=VALUE"), entry.usage()))?;
            let index = entry
                .parameters
                .iter()
                .position(|parameter| parameter.name == key.trim())
                .ok_or_else(|| wrong(format!("it has no parameter `{key}`"), entry.usage()))?;
            let parameter = &entry.parameters[index];
            if std::mem::replace(&mut set[index], true) {
                return Err(wrong(format!("`{key}` is given twice"), "give each parameter once".into()));
            }
            let value: f64 = match value.trim() {
                "on" => 1.0,
                "off" => 0.0,
                number => number
                    .parse()
                    .map_err(|_| wrong(format!("`{value}` is not a number"), parameter.usage()))?,
            };
            if !(parameter.least..=parameter.most).contains(&value)
                || (parameter.whole && value.fract() != 0.0)
            {
                return Err(wrong(format!("`{key}` cannot be {value}"), parameter.usage()));
            }
            values[index] = value;
        }
        let policy = (entry.make)(&values);
        Ok(PolicyChoice { entry, values, policy })
    }
}

/// A policy's entry in the registry.
#[derive(Debug)]
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Its parameters, in the order in which `make` takes their values.
    pub parameters: &'static [Parameter],
    make: fn(&[f64]) -> Rc<dyn Policy>,
}

impl Entry {
    /// `razor:buffer=4000,ratio=5,…`
    pub fn usage(&self) -> String {
        if self.parameters.is_empty() {
            return format!("`{}` has no parameters", self.name);
        }
        let list: Vec<String> = self.parameters.iter().map(|p| format!("{}={}", p.name, p.default)).collect();
        format!("its parameters, with their defaults, are {}:{}", self.name, list.join(","))
    }
}

/// A parameter of a policy.
#[derive(Debug)]
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
    /// Whether the value is shown even where it is the default.
    pub always_shown: bool,
}

impl Parameter {
    fn usage(&self) -> String {
        let kind = if self.whole { "a whole number" } else { "a number" };
        format!("`{}` is {kind} from {} to {}: {}", self.name, self.least, self.most, self.meaning)
    }
}

/// A parameter that counts rows.
const fn rows(name: &'static str, meaning: &'static str, default: f64, least: f64) -> Parameter {
    Parameter { name, meaning, default, least, most: 1e9, whole: true, always_shown: true }
}

/// Every policy there is.
pub const REGISTRY: &[Entry] = &[full::ENTRY, streaming::ENTRY, razor::ENTRY];

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, part: &str) {
        let error = text.parse::<PolicyChoice>().expect_err(text).to_string();
        assert!(error.contains(part) && error.contains("hint:"), "{error}");
    }

    #[test]
    fn every_policy_is_made_from_its_name() {
        for entry in REGISTRY {
            let choice: PolicyChoice = entry.name.parse().expect(entry.name);
            assert_eq!(choice.name(), entry.name);
            let again: PolicyChoice = choice.to_string().parse().expect("what is shown is understood");
            assert_eq!(again.to_string(), choice.to_string());
        }
    }

    #[test]
    fn nonsense_is_refused() {
        refused("rasor", "there is no policy");
        refused("razor:window=3", "no parameter");
        refused("razor:buffer", "NAME=VALUE");
        refused("razor:buffer=-1", "cannot be");
        refused("razor:buffer=1.5", "cannot be");
        refused("razor:ratio=NaN", "cannot be");
        refused("razor:buffer=1,buffer=2", "twice");
        refused("full:x=1", "no parameter");
    }

    #[test]
    fn the_papers_window() {
        let choice: PolicyChoice = "razor".parse().expect("defaults");
        let bounds = choice.policy().bounds().expect("razor bounds heads");
        assert_eq!((bounds.window(100), bounds.window(20_000), bounds.window(100_004)), (4000, 4000, 20_000));
        assert_eq!((bounds.horizon(4004), bounds.horizon(4005)), (4, 5));
    }
}
