//! Named steps of the computation equal those of Hugging Face transformers. Where logits differ, the first step that
//! differs is where the mistake is. `golden/README.md` describes the steps.

use std::collections::BTreeMap;

use longhand::{Engine, EngineOptions, SessionOptions};
use tests::fixtures::{
    case_tokens, family_cases, family_model_with, golden_cases, golden_source, max_difference, session,
};
use tests::packed;
use tests::{device_tolerance, fixtures};

/// Numbers of each step of each model.
type Steps = BTreeMap<String, BTreeMap<String, Vec<f32>>>;

fn traced() -> EngineOptions {
    EngineOptions { trace: true, ..tests::engine_options() }
}

/// All tokens in one chunk.
fn options(context: usize) -> SessionOptions {
    SessionOptions { chunk: context, ..fixtures::options(context, "full") }
}

/// Every named step of a model equals that of transformers. The first that differs is where the mistake is.
#[test]
fn intermediates_equal_those_of_transformers() {
    let steps: Steps = packed::numbers("golden/intermediates.json.br");
    let golden = golden_cases().into_iter().filter(|case| case["intermediates"] == true);
    let mut compared = 0;
    for case in golden {
        let name = case["name"].as_str().expect("a name");
        let steps = &steps[name];
        let read = |step: &str| steps.get(step).unwrap_or_else(|| panic!("{name} has no {step}"));
        let engine = Engine::open(&golden_source(name), &traced()).expect("the model opens");
        let tokens = read("embd").len() / engine.spec().n_embd;
        let found = session(&engine, options(128))
            .intermediates(&case_tokens(&case)[..tokens])
            .expect("intermediates");
        // The steps and the residual stream of transformers, in longhand's order of computation.
        let mut residual = Vec::new();
        for (step, values) in &found {
            let want = match step.split_once('-') {
                Some(("ffn_inp", layer)) => {
                    let attended = read(&format!("attn_out-{layer}"));
                    residual.iter().zip(attended).map(|(a, b)| a + b).collect()
                }
                _ => read(step).clone(),
            };
            let difference = max_difference(values, &want);
            println!("{name:28} {step:14} {difference:.2e}");
            assert!(difference < 2e-5 + device_tolerance(), "{name}: {step} differs by {difference:.2e}");
            if step == "embd" || step.starts_with("l_out") {
                residual = want;
            }
        }
        // `ffn_inp` stands for `attn_out`.
        assert_eq!(
            found.len(),
            steps.len(),
            "{name}: {:?}",
            found.iter().map(|(step, _)| step).collect::<Vec<_>>()
        );
        compared += 1;
    }
    assert_eq!(compared, 2);
}

/// The steps of all families, of the last token: every fourth number.
#[test]
fn intermediates_of_families_equal_those_of_transformers() {
    let mut steps: Steps = packed::numbers("golden/families/intermediates.json.br");
    let mut failures = Vec::new();
    for case in family_cases() {
        let name = case["name"].as_str().expect("a name");
        let Some(mut want) = steps.remove(name) else {
            assert_ne!(case["reference"], "transformers", "{name} has no steps");
            continue;
        };
        let (engine, tokens) = (family_model_with(name, &traced()), case_tokens(&case));
        let found = session(&engine, options(tokens.len())).intermediates(&tokens);
        for (step, values) in found.expect("intermediates") {
            let Some(want) = want.remove(&step) else { continue };
            let last = &values[values.len() - values.len() / tokens.len()..];
            let have: Vec<f32> = last.iter().step_by(4).copied().collect();
            assert_eq!(have.len(), want.len(), "{name}: {step}");
            let difference = max_difference(&have, &want);
            let largest = want.iter().fold(1f32, |largest, x| largest.max(x.abs()));
            if difference > largest * (2e-5 + device_tolerance()) {
                failures
                    .push(format!("{name}: {step} differs by {difference:.1e}, the largest is {largest}"));
            }
        }
        // Models without a norm there have no such step. It is the residual stream, which has another name.
        want.retain(|step, _| !step.starts_with("attn_norm") && !step.starts_with("ffn_norm"));
        assert!(want.is_empty(), "{name} lacks {:?}", want.keys());
    }
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(steps.is_empty(), "no case has these names: {:?}", steps.keys());
}
