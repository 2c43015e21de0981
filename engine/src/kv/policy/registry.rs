//! The list of policies: the built-in ones, and those that a caller adds.

use std::sync::{PoisonError, RwLock};

use super::builtin::BUILT_IN;
use super::{ParameterValues, PolicyEntry};

static REGISTERED: RwLock<Vec<&'static PolicyEntry>> = RwLock::new(Vec::new());

/// All policies: the built-in ones first, then the registered ones in the order of their registration.
pub fn policies() -> impl Iterator<Item = &'static PolicyEntry> {
    BUILT_IN.iter().chain(REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone())
}

/// Adds a policy to the list of this process; it cannot be removed.
///
/// # Errors
/// A name that is taken, or a name, parameter or default that the parser could not read back.
pub fn register(entry: &'static PolicyEntry) -> Result<(), RegisterError> {
    let invalid = |reason: String| RegisterError::Invalid { name: entry.name.to_owned(), reason };
    entry.check().map_err(invalid)?;
    ParameterValues::defaults(entry)
        .build()
        .map_err(|reason| invalid(format!("its defaults are refused: {reason}")))?;
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if BUILT_IN.iter().chain(registered.iter().copied()).any(|other| other.name == entry.name) {
        return Err(RegisterError::NameTaken { name: entry.name.to_owned() });
    }
    registered.push(entry);
    Ok(())
}

/// A policy that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another policy has this name.
    #[error("there is already a policy `{name}`")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The entry cannot be used.
    #[error("policy `{name}` cannot be registered: {reason}")]
    Invalid {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use ggml::Type;

    use super::*;
    use crate::Hint;
    use crate::heads::{HeadProfile, HeadShape};
    use crate::kv::policy::by_position::full;
    use crate::kv::policy::{
        EvictionPlan, HeadMode, LaneStatus, Measure, Parameter, Policy, PolicyChoice, PolicyFactory,
        ScoreInput, Scoring,
    };
    use crate::kv::{KvBudget, Layout, StoreOptions};

    fn refused(text: &str, part: &str) {
        let error = text.parse::<PolicyChoice>().expect_err(text);
        let text = format!("{error}; {}", error.hint().expect("a hint"));
        assert!(text.contains(part), "{text}");
    }

    /// The built-in policies that bound heads.
    fn bounding() -> impl Iterator<Item = &'static PolicyEntry> {
        BUILT_IN.iter().filter(|entry| entry.factory.is_some())
    }

    #[test]
    fn every_built_in_policy_is_parsed_from_its_name() {
        for entry in &BUILT_IN {
            assert_eq!(entry.check(), Ok(()), "{}", entry.name);
            let choice: PolicyChoice = entry.name.parse().expect(entry.name);
            assert_eq!(choice.name(), entry.name);
            let again: PolicyChoice = choice.to_string().parse().expect("the printed policy is parsed");
            assert_eq!(again.to_string(), choice.to_string());
            assert_eq!(
                (choice.uses_profile(), choice.is_compensated()),
                (entry.default_heads != HeadMode::Off, entry.default_compensation)
            );
        }
    }

    /// A head keeps at most the rows of the budget and at least half of them, in sessions of any length.
    #[test]
    fn budgets_are_kept() {
        for entry in bounding() {
            let choice: PolicyChoice = entry.name.parse().expect(entry.name);
            for (rows, context) in [(16, 100), (100, 1000), (4096, 100_000), (30_000, 32_768), (5000, 4096)] {
                let fitted = choice.with_rows(rows, context).expect("enough rows");
                let budget = fitted.policy().expect("bounded").budget(context);
                assert!(budget <= rows, "{fitted} keeps {budget} rows instead of {rows} of {context}");
                let again: PolicyChoice = fitted.to_string().parse().expect("the printed policy is parsed");
                assert_eq!(again.policy().expect("bounded").budget(context), budget, "{fitted}");
                if rows < context {
                    assert!(2 * budget >= rows, "{fitted} keeps only {budget} rows of {rows}");
                }
            }
            let error = choice.with_rows(15, 100).expect_err("too few");
            assert_eq!(error.hint(), Some(Hint::advice("keep at least 16 rows a head")));
        }
        let full = PolicyChoice::default();
        assert_eq!(full.name(), "full");
        assert!(full.with_rows(100, 1000).is_err());
        // Fewer rows are protected where the budget does not hold them.
        let protecting: PolicyChoice = "l2:sinks=4,recent=64".parse().expect("a policy");
        for (rows, want) in [
            (16, "l2:keep=0.5,after=2048,rows=16,sinks=4,recent=8"),
            (500, "l2:keep=0.5,after=2048,rows=500,sinks=4,recent=64"),
        ] {
            assert_eq!(protecting.with_rows(rows, 1000).expect("enough rows").to_string(), want);
        }
    }

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
            ("kvzip", 20, "kvzip:capacity=20,recent=10,slack=2"),
            ("kvzip-plus", 20, "kvzip-plus:capacity=20,recent=10,slack=2"),
            ("kvzap", 20, "kvzap:capacity=20,recent=10,slack=2"),
            ("lagkv", 4096, "lagkv:sinks=16,lag=512,ratio=0.029296875"),
            ("lagkv", 40, "lagkv:sinks=5,lag=17,ratio=0"),
        ] {
            let choice: PolicyChoice = text.parse().expect(text);
            assert_eq!(choice.with_rows(rows, 100_000).expect(text).to_string(), fitted);
        }
    }

    #[test]
    fn policies_are_printed_with_their_main_parameters() {
        let shown: Vec<String> = BUILT_IN
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
            "kvzip:capacity=1024,recent=64",
            "kvzip-plus:capacity=1024,recent=64",
            "kvzap:capacity=1024,recent=64",
        ];
        assert_eq!(shown, want);
    }

    #[test]
    fn the_usage_of_a_policy_has_all_parameters_and_defaults() {
        let want = [
            "streaming:sinks=4,window=1024,slack=-1,heads=off,compensation=off",
            "razor:buffer=4000,ratio=5,sinks=4,induction=0.14,echo=0.01,eps=0.001,rigorous=off,slack=-1,heads=on,compensation=on",
            "l2:keep=0.5,after=2048,rows=0,sinks=0,recent=0,skip=2,order=low,slack=-1,heads=off,compensation=off",
            "lagkv:sinks=16,lag=512,ratio=0.25,v_weight=1,heads=off,compensation=off",
            "locallag:sinks=16,lag=512,ratio=0.25,v_weight=1,heads=off,compensation=off",
            "lag-l2:sinks=16,lag=512,ratio=0.25,heads=off,compensation=off",
            "snapkv:window=32,capacity=1024,kernel=5,pool=avg,slack=512,heads=off,compensation=off",
            "slimkv:window=32,capacity=1024,kernel=5,pool=avg,combine=product,slack=512,heads=off,compensation=off",
            "ahakv:budget=1000,recent=32,kernel=5,lambda=entropy,slack=0,heads=off,compensation=off",
            "h2o:heavy=512,recent=512,slack=0,heads=off,compensation=off",
            "tova:capacity=1024,protect_last=off,slack=0,heads=off,compensation=off",
            "kvzip:capacity=1024,recent=64,later=-1,slack=64,heads=shares,compensation=off",
            "kvzip-plus:capacity=1024,recent=64,later=-1,slack=64,heads=shares,compensation=off",
            "kvzap:capacity=1024,recent=64,slack=64,heads=shares,compensation=off",
        ];
        let usages: Vec<String> = bounding().map(PolicyEntry::usage).collect();
        assert_eq!(usages, want.map(|list| format!("its parameters, with their defaults, are {list}")));
        assert_eq!(full::ENTRY.usage(), "`full` has no parameters");
    }

    #[test]
    fn no_two_policies_have_the_same_summary() {
        let summaries: HashSet<&str> = BUILT_IN.iter().map(|entry| entry.summary).collect();
        assert_eq!(summaries.len(), BUILT_IN.len());
    }

    #[test]
    fn the_values_of_a_choice_number_its_names() {
        let parameters = BUILT_IN.iter().flat_map(PolicyEntry::parameters);
        for parameter in parameters.filter(|parameter| !parameter.choices.is_empty()) {
            let last = parameter.choices.len() as f64 - 1.0;
            assert!(parameter.is_integer, "{parameter:?}");
            assert_eq!((parameter.min, parameter.max), (0.0, last), "{parameter:?}");
        }
    }

    #[test]
    fn every_policy_takes_heads_and_compensation() {
        for entry in bounding() {
            let choice: PolicyChoice =
                format!("{}:heads=on,compensation=on", entry.name).parse().expect(entry.name);
            assert!(choice.uses_profile() && choice.is_compensated());
            let choice: PolicyChoice =
                format!("{}:heads=off,compensation=off", entry.name).parse().expect(entry.name);
            assert!(!choice.uses_shares() && !choice.uses_retrieval_heads() && !choice.is_compensated());
            assert_eq!(choice.uses_profile(), choice.predicts_scores());
        }
    }

    #[test]
    fn equal_policies_have_the_same_name_and_the_same_values() {
        let choice = |text: &str| -> PolicyChoice { text.parse().expect(text) };
        assert_eq!(choice("h2o"), choice("h2o:heavy=512"));
        assert_ne!(choice("h2o"), choice("h2o:heavy=500"));
        assert_ne!(choice("lagkv"), choice("locallag"));
    }

    #[test]
    fn invalid_policies_are_refused() {
        refused("rasor", "there is no such policy");
        refused("razor:window=3", "no parameter");
        refused("razor:buffer", "NAME=VALUE");
        refused("razor:buffer=-1", "cannot be");
        refused("razor:buffer=1.5", "`buffer` is a whole number from 1 to 1000000000: smallest window");
        refused("razor:ratio=0", "`ratio` is a number from 1 to 1000000000: after N tokens");
        refused("snapkv:pool=min", "`pool` is one of avg, max: ");
        refused("razor:ratio=NaN", "cannot be");
        refused("razor:buffer=1,buffer=2", "twice");
        refused("razor:compensation=2", "cannot be");
        refused("full:x=1", "no parameter");
        refused("full:heads=on", "`full` has no parameters");
        refused(
            "razor:window=3",
            "its parameters, with their defaults, are razor:buffer=4000,ratio=5,sinks=4,",
        );
        refused("snapkv:kernel=4", "odd");
        refused("ahakv:kernel=2", "odd");
        refused("snapkv:capacity=16", "does not hold");
        refused("ahakv:budget=32", "leaves none");
        refused("l2:rows=10,sinks=8,recent=8", "do not fit");
        refused("l2:order=up", "cannot be");
        refused(
            "streaming:slack=-2",
            "`slack` is a whole number from -1 to 1000000000: rows beyond the window",
        );
    }

    /// Keeps the rows whose values have the largest norms.
    #[derive(Debug)]
    struct LargeValues(usize);

    impl Policy for LargeValues {
        fn budget(&self, _context: usize) -> usize {
            self.0
        }

        fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
            let scoring = Scoring::of_all_rows(vec![ScoreInput::Value(Measure::Norm)]);
            (status.live > self.0).then(|| EvictionPlan::single(0..status.seen, self.0, Some(scoring)))
        }
    }

    const LARGE_VALUES: PolicyEntry = PolicyEntry {
        name: "test-large-values",
        summary: "the values of largest norm",
        parameters: &[Parameter::rows("rows", "rows kept", 1024.0, 1.0)],
        default_heads: HeadMode::Off,
        default_compensation: false,
        factory: Some(PolicyFactory {
            build: |values| match values.count("rows") {
                13 => Err("13 rows are refused".into()),
                rows => Ok(Arc::new(LargeValues(rows))),
            },
            fit: |values, rows, _| values.set("rows", rows),
        }),
    };

    #[test]
    fn a_registered_policy_works_like_a_built_in_one() {
        static ENTRY: PolicyEntry = LARGE_VALUES;
        refused("test-large-values", "there is no such policy");
        register(&ENTRY).expect("a new name");
        assert_eq!(policies().take(BUILT_IN.len()).last().map(|entry| entry.name), Some("kvzap"));
        assert!(policies().any(|entry| entry.name == ENTRY.name));
        let choice: PolicyChoice = "test-large-values:rows=500,heads=on".parse().expect("a policy");
        assert_eq!(choice.to_string(), "test-large-values:rows=500,heads=on");
        assert!(choice.uses_profile() && !choice.is_compensated());
        assert_eq!(choice.policy().expect("bounded").slack(1000), 0);
        let fitted = choice.with_rows(100, 1000).expect("enough rows");
        assert_eq!(fitted.to_string(), "test-large-values:rows=100,heads=on");
        assert_eq!(fitted.policy().expect("bounded").budget(1000), 100);
        let spec = models::shapes::ModelShape::parse("llama-3.2-1b").expect("a known shape").0.spec();
        let options = StoreOptions { context: 1000, types: (Type::F16, Type::F16), reserve: None };
        let profile = HeadProfile::uniform(HeadShape::new(16, 32, 8).expect("a shape"), false);
        let fitted = KvBudget::Share(0.5).apply(&choice, &spec, Some(&profile), options).expect("fits");
        let store = Layout::new(&spec, &fitted, Some(&profile), options).expect("a layout");
        let full = store.full_bytes(1000);
        assert!((full * 49 / 100..=full / 2).contains(&store.bytes()), "{fitted}: {}", store.bytes());
        refused("test-large-values:rows=0", "`rows` is a whole number from 1");
        refused("test-large-values:rows=13", "13 rows are refused");
        assert_eq!(register(&ENTRY), Err(RegisterError::NameTaken { name: ENTRY.name.into() }));
    }

    #[test]
    fn entries_that_the_parser_could_not_read_back_are_not_registered() {
        const fn with(name: &'static str, parameters: &'static [Parameter]) -> PolicyEntry {
            PolicyEntry { name, parameters, ..LARGE_VALUES }
        }
        const ROWS: Parameter = Parameter::rows("rows", "rows kept", 1024.0, 1.0);
        static ENTRIES: [PolicyEntry; 9] = [
            with("", &[ROWS]),
            with("a:b", &[ROWS]),
            with("a b", &[ROWS]),
            with("test-a", &[Parameter::rows("rows=", "rows kept", 1.0, 1.0)]),
            with("test-b", &[ROWS, ROWS]),
            with("test-c", &[ROWS, Parameter::switch("heads", "a common parameter")]),
            with("test-d", &[Parameter::rows("rows", "rows kept", 0.0, 1.0)]),
            with("test-e", &[ROWS, Parameter::choice("kind", "a choice", &["a,b"])]),
            with("test-f", &[Parameter::rows("rows", "rows kept", 13.0, 1.0)]),
        ];
        for entry in &ENTRIES {
            let error = register(entry).expect_err(entry.name);
            assert!(matches!(error, RegisterError::Invalid { .. }), "{error}");
            assert!(policies().all(|other| other.name != entry.name));
        }
        static TAKEN: PolicyEntry = with("razor", &[ROWS]);
        assert_eq!(register(&TAKEN), Err(RegisterError::NameTaken { name: "razor".into() }));
    }
}
