//! KV budgets as users give them (rows a head, bytes, or a share of the full cache), turned into a policy's
//! parameters.

use models::spec::ModelSpec;

use super::policy::MIN_ROWS;
use super::{Layout, PolicyChoice, StoreOptions};
use crate::heads::HeadProfile;
use crate::{EngineError, Hint};

/// How much may be kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KvBudget {
    /// Rows of a bounded head after an eviction.
    Rows(usize),
    /// Bytes of the store.
    Bytes(usize),
    /// Bytes of the store as a share, from 0 to 1, of a cache that keeps everything. Layers with a sliding window keep
    /// their window, and recurrent ones their state: the share is one of the other layers.
    Share(f64),
}

impl KvBudget {
    /// `choice` with parameters such that it keeps as much as the budget allows, and not more. `profile` must
    /// be given for policies that use one.
    pub fn apply(
        self,
        choice: &PolicyChoice,
        spec: &ModelSpec,
        profile: Option<&HeadProfile>,
        options: StoreOptions,
    ) -> Result<PolicyChoice, EngineError> {
        if choice.scope_options(spec).is_some() {
            return Err(EngineError::Policy {
                given: choice.to_string(),
                reason: "on a model with ALiBi its windows follow from the weights, so no budget can be set"
                    .into(),
                hint: Hint::OtherPolicy("snapkv"),
            });
        }
        let layout = |choice: &PolicyChoice| Layout::new(spec, choice, profile, options);
        let (bytes, budget) = match self {
            KvBudget::Rows(rows) => return choice.with_rows(rows, options.context),
            KvBudget::Bytes(bytes) => (bytes, format!("{bytes} bytes")),
            KvBudget::Share(share) => {
                let full = layout(&PolicyChoice::default())?;
                let fixed = full.fixed_bytes();
                let bytes = ((full.bytes() - fixed) as f64 * share) as usize + fixed;
                (bytes, format!("{} % ({bytes} bytes)", share * 100.0))
            }
        };
        let bytes_of = |rows: usize| -> Result<usize, EngineError> {
            Ok(layout(&choice.with_rows(rows, options.context)?)?.bytes())
        };
        let min = bytes_of(MIN_ROWS)?;
        if min > bytes {
            return Err(EngineError::Policy {
                given: choice.to_string(),
                reason: format!(
                    "a KV budget of {budget} is too small for {} tokens: it needs at least {min} bytes",
                    options.context
                ),
                hint: Hint::LargerBudget,
            });
        }
        // Bisection: `fits` rows fit, `too_many` do not.
        let (mut fits, mut too_many) = (MIN_ROWS, options.context.max(MIN_ROWS) + 1);
        while too_many - fits > 1 {
            let rows = fits + (too_many - fits) / 2;
            if bytes_of(rows)? <= bytes {
                fits = rows;
            } else {
                too_many = rows;
            }
        }
        choice.with_rows(fits, options.context)
    }
}

#[cfg(test)]
mod tests {
    use ggml::Type;
    use models::shapes::ModelShape;

    use super::*;

    #[test]
    fn budgets_reach_from_the_fewest_rows_to_the_whole_session() {
        let spec = ModelShape::parse("llama-3.2-1b").expect("a known shape").0.spec();
        let options = StoreOptions { context: 1000, types: (Type::F16, Type::F16), reserve: None };
        let streaming: PolicyChoice = "streaming".parse().expect("a policy");
        let fitted = |bytes| KvBudget::Bytes(bytes).apply(&streaming, &spec, None, options);
        let bytes = |rows| {
            let choice = streaming.with_rows(rows, options.context).expect("enough rows");
            Layout::new(&spec, &choice, None, options).expect("a layout").bytes()
        };

        let min = bytes(MIN_ROWS);
        assert_eq!(fitted(min).expect("fits").to_string(), "streaming:sinks=4,window=12");
        let error = fitted(min - 1).expect_err("too small").to_string();
        assert!(
            error.contains(&format!("{} bytes", min - 1)) && error.contains(&format!("least {min} bytes"))
        );

        assert_eq!(fitted(bytes(500)).expect("fits").to_string(), "streaming:sinks=4,window=496");
        assert_eq!(fitted(bytes(500) - 1).expect("fits").to_string(), "streaming:sinks=4,window=495");
        assert_eq!(fitted(usize::MAX).expect("fits").to_string(), "streaming:sinks=4,window=996");
    }
}
