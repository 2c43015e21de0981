//! A policy of one's own, registered from outside the library:
//!
//!     cargo run --release -p longhand --example custom_policy

use std::error::Error;
use std::sync::Arc;

use longhand::policy::{
    self, EvictionPlan, HeadMode, LaneStatus, Measure, Parameter, Policy, PolicyEntry, PolicyFactory,
    ScoreInput, Scoring,
};
use longhand::setup::Context;
use longhand::{Chat, ChatOptions, Model, ModelSource, Preamble, Setup, SetupOptions};

/// Keeps the first and the last rows, and of those between them the ones whose values have the largest norms.
#[derive(Debug)]
struct LargeValues {
    rows: usize,
}

/// First rows that are kept.
const SINKS: usize = 4;
/// Last rows that are kept.
const RECENT: usize = 64;

impl Policy for LargeValues {
    fn budget(&self, _context: usize) -> usize {
        self.rows
    }

    fn plan_eviction(&self, status: &LaneStatus) -> Option<EvictionPlan> {
        (status.live > self.rows).then(|| {
            let scoring = Scoring::of_all_rows(vec![ScoreInput::Value(Measure::Norm)]);
            let between = SINKS..status.seen - RECENT;
            EvictionPlan::single(between, self.rows - SINKS - RECENT, Some(scoring))
        })
    }
}

/// How users write it: `large-values:rows=500`.
static LARGE_VALUES: PolicyEntry = PolicyEntry {
    name: "large-values",
    summary: "the first and last rows, and the values of largest norm",
    parameters: &[Parameter::rows("rows", "rows kept", 1024.0, 100.0)],
    default_heads: HeadMode::Off,
    default_compensation: false,
    factory: Some(PolicyFactory {
        build: |values| Ok(Arc::new(LargeValues { rows: values.count("rows") })),
        fit: |values, rows, _context| values.set("rows", rows.max(100)),
    }),
};

fn main() -> Result<(), Box<dyn Error>> {
    policy::register(&LARGE_VALUES)?;
    let model = Model::open(ModelSource::Embedded)?;
    let format = model.chat_format()?;
    let document =
        "The old boat crossed the quiet river. Mary's favorite number is 34251. It rained. ".repeat(20);
    for policy in ["full", "large-values:rows=400", "large-values:rows=100"] {
        let preamble = Preamble::new(format, None, &document)?;
        let options = SetupOptions {
            policy: Some(policy.parse()?),
            context: Context::Tokens(preamble.min_tokens() + 100),
            ..SetupOptions::default()
        };
        let setup = Setup::resolve(&model, &options, preamble.min_tokens(), &mut ())?;
        let chat_options = ChatOptions { preamble, ..ChatOptions::default() };
        let mut chat = Chat::new(setup.start(&mut ())?, chat_options)?;
        let answer = chat.ask("What is Mary's favorite number?", &mut |_| ())?;
        let kept = 100.0 * chat.session().kv_usage().share();
        println!("{policy}: {kept:.0} % of the cache kept: {}", answer.text.trim());
    }
    Ok(())
}
