//! The description of a policy: its name, parameters and defaults, and how it is made from their values.

use std::sync::Arc;

use super::{Parameter, Policy};

/// The description of a policy.
#[derive(Debug)]
pub struct PolicyEntry {
    /// Name before the `:`, of ASCII letters, digits, `-` and `_`.
    pub name: &'static str,
    /// What it keeps, in a line.
    pub summary: &'static str,
    /// Its own parameters.
    pub parameters: &'static [Parameter],
    /// Default of the parameter `heads`.
    pub default_heads: HeadMode,
    /// Default of the parameter `compensation`: whether one entry stands for all evicted rows.
    pub default_compensation: bool,
    /// Makes the policy; `None` for a policy that bounds no head.
    pub factory: Option<PolicyFactory>,
}

/// How many rows the heads keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadMode {
    /// All as many.
    Off,
    /// Retrieval heads keep everything, the others as many as each other.
    On,
    /// Each keeps a share that calibration found; as many on average as the policy says.
    Shares,
}

/// Makes a policy from its parameters.
#[derive(Clone, Copy, Debug)]
pub struct PolicyFactory {
    /// Makes the policy; an error is the reason why the parameters do not fit together.
    pub build: fn(values: &ParameterValues) -> Result<Arc<dyn Policy>, String>,
    /// Sets the parameters such that a head keeps at most `rows` rows (at least [`MIN_ROWS`]) in a session of
    /// `context` tokens.
    pub fit: fn(values: &mut ParameterValues, rows: usize, context: usize),
}

/// The smallest number of rows that a budget can give a head.
pub const MIN_ROWS: usize = 16;

/// Parameters of every policy that bounds heads.
pub const COMMON_PARAMETERS: &[Parameter] = &[
    Parameter::choice(
        "heads",
        "which heads keep more (needs a head profile): with on, retrieval heads keep everything; with shares, each head \
         its own share of rows",
        &["off", "on", "shares"],
    ),
    Parameter::switch("compensation", "whether one entry stands for all evicted rows"),
];

impl PolicyEntry {
    /// All parameters, the common ones last.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        let common = if self.factory.is_some() { COMMON_PARAMETERS } else { &[] };
        self.parameters.iter().chain(common)
    }

    /// A parameter's default for this policy.
    pub fn default(&self, parameter: &Parameter) -> f64 {
        match parameter.name {
            "heads" => f64::from(self.default_heads as u8),
            "compensation" => f64::from(self.default_compensation),
            _ => parameter.default,
        }
    }

    /// A sentence with all parameters and their defaults: `…razor:buffer=4000,ratio=5,…`
    pub fn usage(&self) -> String {
        if self.factory.is_none() {
            return format!("`{}` has no parameters", self.name);
        }
        let list: Vec<String> =
            self.parameters().map(|p| format!("{}={}", p.name, p.format_value(self.default(p)))).collect();
        format!("its parameters, with their defaults, are {}:{}", self.name, list.join(","))
    }

    /// Refuses names and defaults that the parser could not read back.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_name = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        if !is_name(self.name) {
            return Err("a name consists of ASCII letters, digits, `-` and `_`".into());
        }
        for (number, parameter) in self.parameters().enumerate() {
            let Parameter { name, choices, .. } = parameter;
            if !is_name(name) || !choices.iter().all(|choice| is_name(choice)) {
                return Err(format!(
                    "the name of the parameter `{name}` or of a choice is not made of letters, digits, `-` and `_`"
                ));
            }
            if self.parameters().take(number).any(|other| other.name == *name) {
                return Err(format!("two parameters are called `{name}`"));
            }
            let default = self.default(parameter);
            if parameter.parse(&parameter.format_value(default)).ok() != Some(default) {
                return Err(format!("the default of `{name}` is not one of its values"));
            }
        }
        Ok(())
    }
}

/// The values of a policy's parameters, by name.
#[derive(Clone, Debug)]
pub struct ParameterValues {
    pub(super) entry: &'static PolicyEntry,
    /// In the order of the entry's parameters.
    pub(super) values: Vec<f64>,
    /// Which of them the user has given.
    pub(super) given: Vec<bool>,
}

impl ParameterValues {
    pub(super) fn defaults(entry: &'static PolicyEntry) -> ParameterValues {
        let values: Vec<f64> = entry.parameters().map(|p| entry.default(p)).collect();
        ParameterValues { entry, given: vec![false; values.len()], values }
    }

    /// The policy with these parameters; `None` for one that bounds no head.
    pub(super) fn build(&self) -> Result<Option<Arc<dyn Policy>>, String> {
        self.entry.factory.as_ref().map(|factory| (factory.build)(self)).transpose()
    }

    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.entry.parameters().position(|parameter| parameter.name == name)
    }

    /// A parameter's value; 0 for one that the policy does not have.
    pub fn get(&self, name: &str) -> f64 {
        debug_assert!(self.index(name).is_some(), "{} has no parameter {name}", self.entry.name);
        self.index(name).map_or(0.0, |index| self.values[index])
    }

    /// The value of a parameter that counts something, or the index of a choice.
    pub fn count(&self, name: &str) -> usize {
        self.get(name) as usize
    }

    /// The value of a switch.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) != 0.0
    }

    /// The value of a parameter of whole numbers; `None` for -1, where the policy chooses.
    pub fn optional_count(&self, name: &str) -> Option<usize> {
        (self.get(name) >= 0.0).then_some(self.count(name))
    }

    /// Sets a parameter; does nothing for one that the policy does not have.
    pub fn set(&mut self, name: &str, value: impl Into<ParameterValue>) {
        if let (Some(index), ParameterValue(value)) = (self.index(name), value.into()) {
            self.values[index] = value;
        }
    }
}

/// The value of a parameter, made from a count or a fraction.
pub struct ParameterValue(f64);

impl From<f64> for ParameterValue {
    fn from(value: f64) -> ParameterValue {
        ParameterValue(value)
    }
}

impl From<usize> for ParameterValue {
    fn from(value: usize) -> ParameterValue {
        ParameterValue(value as f64)
    }
}
