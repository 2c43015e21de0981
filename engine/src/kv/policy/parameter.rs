//! A parameter of a policy: its name, limits and default, and how a value is written.

use std::ops::RangeInclusive;

/// A parameter of a policy. Values are numbers; those of a choice number its names.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name before the `=`.
    pub name: &'static str,
    /// What it means, with unit and source.
    pub description: &'static str,
    /// The value where none is given.
    pub default: f64,
    /// Smallest value allowed.
    pub min: f64,
    /// Largest value allowed.
    pub max: f64,
    /// Whether only integers are allowed.
    pub is_integer: bool,
    /// The names of the values 0, 1, …; empty for numbers.
    pub choices: &'static [&'static str],
    /// Whether [`PolicyChoice`](super::PolicyChoice) prints the value even where it is the default.
    pub always_shown: bool,
}

impl Parameter {
    /// A number.
    pub const fn number(
        name: &'static str,
        description: &'static str,
        default: f64,
        range: RangeInclusive<f64>,
    ) -> Parameter {
        let (min, max) = (*range.start(), *range.end());
        Parameter {
            name,
            description,
            default,
            min,
            max,
            is_integer: false,
            choices: &[],
            always_shown: true,
        }
    }

    /// A number of rows, at least `min`.
    pub const fn rows(name: &'static str, description: &'static str, default: f64, min: f64) -> Parameter {
        Parameter { is_integer: true, ..Parameter::number(name, description, default, min..=1e9) }
    }

    /// One of several names, the first by default.
    pub const fn choice(
        name: &'static str,
        description: &'static str,
        choices: &'static [&'static str],
    ) -> Parameter {
        let range = 0.0..=choices.len() as f64 - 1.0;
        Parameter { is_integer: true, choices, ..Parameter::number(name, description, 0.0, range) }.hidden()
    }

    /// `off` (the default) or `on`.
    pub const fn switch(name: &'static str, description: &'static str) -> Parameter {
        Parameter::choice(name, description, &["off", "on"])
    }

    /// The parameter `slack`: rows beyond the budget that decode steps may add. With the value -1 the policy
    /// chooses.
    pub const fn slack(default: f64, min: f64) -> Parameter {
        Parameter::rows(
            "slack",
            "rows beyond those kept that a head may hold before some are evicted",
            default,
            min,
        )
        .hidden()
    }

    /// The same parameter, printed only where it is given or is not the default.
    pub const fn hidden(self) -> Parameter {
        Parameter { always_shown: false, ..self }
    }

    /// The same parameter with another description.
    pub const fn described(self, description: &'static str) -> Parameter {
        Parameter { description, ..self }
    }

    pub(super) fn usage(&self) -> String {
        if !self.choices.is_empty() {
            return format!("`{}` is one of {}: {}", self.name, self.choices.join(", "), self.description);
        }
        let kind = if self.is_integer { "a whole number" } else { "a number" };
        format!("`{}` is {kind} from {} to {}: {}", self.name, self.min, self.max, self.description)
    }

    /// A value as users write it.
    pub fn format_value(&self, value: f64) -> String {
        match self.choices.get(value as usize) {
            Some(name) => (*name).to_owned(),
            None => value.to_string(),
        }
    }

    /// A value from how users write it, or what is wrong with it.
    pub(super) fn parse(&self, text: &str) -> Result<f64, String> {
        if !self.choices.is_empty() {
            let index = self.choices.iter().position(|name| *name == text);
            return index.map(|index| index as f64).ok_or(format!("`{}` cannot be `{text}`", self.name));
        }
        let value = text.parse::<f64>().map_err(|_| format!("`{text}` is not a number"))?;
        if !(self.min..=self.max).contains(&value) || (self.is_integer && value.fract() != 0.0) {
            return Err(format!("`{}` cannot be {value}", self.name));
        }
        Ok(value)
    }
}
