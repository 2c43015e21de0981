//! A policy as users write it, `razor:buffer=4000,ratio=5`: parsed, printed and fitted to a budget.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use models::spec::{ModelSpec, PositionEncoding};

use super::by_position::full;
use super::{AccumulatedAttention, HeadMode, MIN_ROWS, ParameterValues, Policy, PolicyEntry, policies};
use crate::heads::{HeadProfile, ProfileGap};
use crate::kv::alibi::ScopeOptions;
use crate::{EngineError, Hint};

static FULL: PolicyEntry = full::ENTRY;

/// A policy with its parameters, as users write it: `razor:buffer=4000,ratio=5`.
///
/// ```
/// use longhand::policy::PolicyChoice;
///
/// let choice: PolicyChoice = "razor:buffer=256".parse()?;
/// assert_eq!(choice.to_string(), "razor:buffer=256,ratio=5,sinks=4");
/// assert!(choice.uses_profile() && choice.is_compensated());
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicyChoice {
    values: ParameterValues,
    policy: Option<Arc<dyn Policy>>,
}

impl PolicyChoice {
    pub(super) fn new(values: ParameterValues) -> Result<PolicyChoice, String> {
        Ok(PolicyChoice { policy: values.build()?, values })
    }

    /// A policy of this crate that users cannot choose.
    pub(crate) fn internal(entry: &'static PolicyEntry, policy: Arc<dyn Policy>) -> PolicyChoice {
        PolicyChoice { values: ParameterValues::defaults(entry), policy: Some(policy) }
    }

    /// The policy's description.
    pub fn entry(&self) -> &'static PolicyEntry {
        self.values.entry
    }

    /// The policy's name.
    pub fn name(&self) -> &'static str {
        self.entry().name
    }

    /// The policy of bounded heads; `None` where no head is bounded.
    pub fn policy(&self) -> Option<Arc<dyn Policy>> {
        self.policy.clone()
    }

    /// Whether a head profile is needed: not all heads keep equally many rows, or the scores of rows are predicted.
    pub fn uses_profile(&self) -> bool {
        self.common("heads") != HeadMode::Off as usize || self.predicts_scores()
    }

    /// Whether retrieval heads keep everything.
    pub fn uses_retrieval_heads(&self) -> bool {
        self.common("heads") == HeadMode::On as usize
    }

    /// Whether each head keeps a share of the rows that the head profile gives.
    pub fn uses_shares(&self) -> bool {
        self.common("heads") == HeadMode::Shares as usize
    }

    /// What the policy needs and a profile has not; `None` where it has all.
    pub fn gap_in(&self, profile: &HeadProfile) -> Option<ProfileGap> {
        if self.uses_shares() && profile.row_shares(1.0).is_none() {
            return Some(ProfileGap::RowShares);
        }
        (self.predicts_scores() && !profile.predicts_rows()).then_some(ProfileGap::RowPredictors)
    }

    /// Whether rows are scored by a second reading of the first text, which [`Prefill::Streaming`](crate::reading::Prefill::Streaming) has
    /// not.
    pub fn reads_twice(&self) -> bool {
        matches!(self.accumulated(), Some(AccumulatedAttention::SecondReading(_)))
    }

    /// Whether the scores of rows are predicted, by what the head profile has for it.
    pub fn predicts_scores(&self) -> bool {
        self.accumulated() == Some(AccumulatedAttention::Predicted)
    }

    fn accumulated(&self) -> Option<AccumulatedAttention> {
        self.policy.as_ref().and_then(|policy| policy.needs().accumulated)
    }

    /// Whether one entry stands for the evicted rows.
    pub fn is_compensated(&self) -> bool {
        self.common("compensation") != 0
    }

    /// The value of a common parameter; 0 for a policy that has none.
    fn common(&self, name: &str) -> usize {
        let has_common = self.policy.is_some() && self.entry().factory.is_some();
        if has_common { self.values.count(name) } else { 0 }
    }

    /// How attention scopes are computed, where each head's window follows from the model's weights: under
    /// `razor` on models with ALiBi. The head profile then holds the scopes.
    pub fn scope_options(&self, spec: &ModelSpec) -> Option<ScopeOptions> {
        let epsilon = self
            .value("eps")
            .filter(|_| self.uses_retrieval_heads())
            .filter(|_| spec.position_encoding.is_alibi())?;
        Some(ScopeOptions { epsilon, rigorous: self.value("rigorous").is_some_and(|value| value != 0.0) })
    }

    /// Refuses what makes no sense for a model, whatever its heads are.
    pub fn check(&self, spec: &ModelSpec) -> Result<(), EngineError> {
        if spec.position_encoding == PositionEncoding::Learned && self.reads_twice() {
            return Err(EngineError::Policy {
                given: self.to_string(),
                reason: "it reads a text a second time behind itself, and the model has no positions there"
                    .into(),
                hint: Hint::OtherPolicy("snapkv"),
            });
        }
        let given = self.values.index("compensation").is_some_and(|index| self.values.given[index]);
        if spec.position_encoding.is_alibi() && self.is_compensated() && given {
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

    /// The same policy with parameters such that a bounded head keeps at most `rows` rows in a session of
    /// `context` tokens.
    pub fn with_rows(&self, rows: usize, context: usize) -> Result<PolicyChoice, EngineError> {
        let wrong =
            |reason: String, hint: Hint| EngineError::Policy { given: self.to_string(), reason, hint };
        let Some(factory) = &self.entry().factory else {
            return Err(wrong(
                "it keeps every row, so no budget can be set".into(),
                Hint::OtherPolicy("razor"),
            ));
        };
        if rows < MIN_ROWS {
            return Err(wrong(
                format!("a head cannot keep only {rows} rows"),
                Hint::advice(format!("keep at least {MIN_ROWS} rows a head")),
            ));
        }
        let mut values = self.values.clone();
        (factory.fit)(&mut values, rows, context);
        Self::new(values).map_err(|reason| wrong(reason, Hint::LargerBudget))
    }
}

/// Equal policies have the same name and the same values, whether given or default.
impl PartialEq for PolicyChoice {
    fn eq(&self, other: &PolicyChoice) -> bool {
        self.name() == other.name() && self.values.values == other.values.values
    }
}

impl Default for PolicyChoice {
    /// `full`.
    fn default() -> Self {
        PolicyChoice { values: ParameterValues::defaults(&FULL), policy: None }
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
            .map(|(parameter, (value, _))| format!("{}={}", parameter.name, parameter.format_value(*value)))
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
        let entry = policies().find(|entry| entry.name == name).ok_or_else(|| {
            let names: Vec<&str> = policies().map(|entry| entry.name).collect();
            wrong("there is no such policy".into(), format!("use one of {}", names.join(", ")))
        })?;
        let mut values = ParameterValues::defaults(entry);
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
                parameter.parse(value.trim()).map_err(|reason| wrong(reason, parameter.usage()))?;
        }
        PolicyChoice::new(values).map_err(|reason| wrong(reason, entry.usage()))
    }
}
