//! Budgets as users think of them: rows a head, bytes, or a share of the full cache, turned into a policy's parameters.

use super::policy::registry::LEAST_ROWS;
use super::{Layout, PolicyChoice, Room};
use crate::heads::HeadProfile;
use crate::{EngineError, Hint};
use models::spec::ModelSpec;

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// Rows of a bounded head when a compression is over.
    Rows(usize),
    /// Bytes of the store.
    Bytes(usize),
    /// Bytes of the store as a share of those that a cache takes which keeps everything, between 0 and 1.
    Share(f64),
}

impl Budget {
    /// `choice` with parameters such that it keeps as much as the budget allows, and not more. `profile` must be given for
    /// policies that use one.
    pub fn apply(
        self,
        choice: &PolicyChoice,
        spec: &ModelSpec,
        profile: Option<&HeadProfile>,
        room: Room,
    ) -> Result<PolicyChoice, EngineError> {
        if choice.scopes(spec).is_some() {
            return Err(EngineError::Policy {
                given: choice.to_string(),
                reason: "on a model with ALiBi its windows follow from the weights, so no budget can be set"
                    .into(),
                hint: Hint::OtherPolicy("snapkv"),
            });
        }
        let layout = |choice: &PolicyChoice| Layout::new(spec, choice, profile, room);
        let (bytes, said) = match self {
            Budget::Rows(rows) => return choice.with_rows(rows, room.context),
            Budget::Bytes(bytes) => (bytes, format!("{bytes} bytes")),
            Budget::Share(share) => {
                let full = layout(&PolicyChoice::default())?.full_bytes(room.context);
                let bytes = (full as f64 * share) as usize;
                (bytes, format!("{} % ({bytes} bytes)", share * 100.0))
            }
        };
        let bytes_of = |rows: usize| -> Result<usize, EngineError> {
            Ok(layout(&choice.with_rows(rows, room.context)?)?.bytes())
        };
        let least = bytes_of(LEAST_ROWS)?;
        if least > bytes {
            return Err(EngineError::Policy {
                given: choice.to_string(),
                reason: format!(
                    "a KV budget of {said} is too small for {} tokens: it needs at least {least} bytes",
                    room.context
                ),
                hint: Hint::LargerBudget,
            });
        }
        let (mut fits, mut beyond) = (LEAST_ROWS, room.context.max(LEAST_ROWS) + 1);
        while beyond - fits > 1 {
            let rows = fits + (beyond - fits) / 2;
            if bytes_of(rows)? <= bytes {
                fits = rows;
            } else {
                beyond = rows;
            }
        }
        choice.with_rows(fits, room.context)
    }
}
