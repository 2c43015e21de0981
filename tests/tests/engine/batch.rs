//! Answers of several sessions that are computed together: the tokens, log-probabilities and rows are those of each alone.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use ggml::Type;
use longhand::generation::{Batch, GenerateOptions, Generated, Sampler, SamplerOptions, Stop, generate_with};
use longhand::setup::plan::{Plan, PlanOptions};
use longhand::testing::kv::{Layout, PolicyChoice};
use longhand::testing::outline::tensor_outlines;
use longhand::{Engine, EngineError, EngineOptions, InterruptFlag, Session, SessionOptions};
use models::tokenizer::Tokenizer;
use tests::fixtures::{
    bounded_policies, embedded_model, family_cases, family_model, family_model_with, golden_cases,
    golden_model, options, plan_options, random_tokens, session, sync, tiny_model, with_policy,
};
use tests::{device_tolerance, devices, engine_options, host_devices, is_gpu, rounds_alike};

/// Tokens of each answer.
const LIMIT: usize = 12;

/// What an answer was, and the log-probability of each of its tokens.
type Answer = (Generated, Vec<f32>);

/// The answer of a session behind its text. `begun` is called when the first token is known.
fn answer(
    session: &mut Session,
    tokenizer: &Tokenizer,
    begun: &(dyn Fn() + Sync),
) -> Result<Answer, EngineError> {
    let ends = (0..session.engine().spec().n_vocab as u32).filter(|token| tokenizer.is_eog(*token));
    let logit_bias = ends.map(|token| (token, f32::NEG_INFINITY)).collect();
    let mut sampler = Sampler::new(SamplerOptions { logit_bias, ..SamplerOptions::greedy() })?;
    let options = GenerateOptions { limit: LIMIT, logprobs: Some(1), ..GenerateOptions::default() };
    let mut logprobs = Vec::new();
    let generated = generate_with(session, tokenizer, &mut sampler, &options, &mut |piece| {
        if logprobs.is_empty() {
            begun();
        }
        logprobs.extend(piece.logprobs.map(|of_token| of_token.token.logprob));
        ControlFlow::Continue(())
    })?;
    Ok((generated, logprobs))
}

/// Sessions with these options, each behind a text of its own.
fn sessions(engine: &Arc<Engine>, of_sessions: &[SessionOptions]) -> Vec<Session> {
    let read = |(number, options): (usize, &SessionOptions)| {
        let mut session = session(engine, options.clone());
        sync(&mut session, &random_tokens(engine, 17 + 8 * number, 3 + number as u64));
        session
    };
    of_sessions.iter().enumerate().map(read).collect()
}

/// What sessions that compute together have answered.
struct Together {
    answers: Vec<Result<Answer, EngineError>>,
    /// In how many passes they were computed.
    passes: usize,
    batch: Arc<Batch>,
}

fn together(sessions: &mut [Session], tokenizer: &Tokenizer) -> Together {
    let passes = Arc::new(AtomicUsize::new(0));
    let counted = passes.clone();
    let batch = Batch::join(
        sessions,
        Box::new(move |compute| {
            counted.fetch_add(1, Ordering::Relaxed);
            compute();
        }),
    );
    let batch = batch.expect("sessions of one engine");
    batch.wait_for_all();
    let all_have_begun = Barrier::new(sessions.len());
    let begun = &|| {
        all_have_begun.wait();
    };
    let answers = thread::scope(|scope| {
        let begin = |session| scope.spawn(move || answer(session, tokenizer, begun));
        let answers: Vec<_> = sessions.iter_mut().map(begin).collect();
        answers.into_iter().map(|answer| answer.join().expect("no panic")).collect()
    });
    Together { answers, passes: passes.load(Ordering::Relaxed), batch }
}

/// Compares the answers of sessions with these options with those that each gives alone.
fn compare(name: &str, engine: &Arc<Engine>, of_sessions: &[SessionOptions], tolerance: f32) {
    let Ok(tokenizer) = Tokenizer::from_gguf(engine.file()) else { panic!("{name} has no tokenizer") };
    let mut alone = sessions(engine, of_sessions);
    let mut batched = sessions(engine, of_sessions);
    let wanted: Vec<Answer> = (alone.iter_mut())
        .map(|session| answer(session, &tokenizer, &|| ()).unwrap_or_else(|error| panic!("{name}: {error}")))
        .collect();
    let Together { answers, passes, .. } = together(&mut batched, &tokenizer);
    if of_sessions.iter().all(|options| options.draft == 0) {
        assert_eq!(passes, LIMIT - 1, "{name}: each pass computes a token of all");
    }
    for (number, (answer, wanted)) in answers.into_iter().zip(wanted).enumerate() {
        let (answer, logprobs) = answer.unwrap_or_else(|error| panic!("{name}, {number}: {error}"));
        let same = same_tokens(name, number, &answer.tokens, &wanted.0.tokens);
        // Where they part there were two tokens that were about as likely.
        for (have, want) in logprobs.iter().zip(&wanted.1).take(same + 1) {
            assert!((have - want).abs() <= tolerance, "{name}, {number}: {logprobs:?}, {:?}", wanted.1);
        }
        if same < answer.tokens.len() {
            continue;
        }
        assert_eq!(batched[number].tokens(), alone[number].tokens());
        for layer in (0..engine.spec().n_layers).filter(|_| devices().is_empty()) {
            let [have, want] = [&batched, &alone].map(|all| all[number].store().positions(layer));
            assert_eq!(have, want, "{name}, {number}, layer {layer}");
        }
    }
}

/// Whether a token beside others is rounded as it is alone, with the weights of this model.
fn is_rounded_alike(name: &str) -> bool {
    rounds_alike() || name.contains("f32") || name.contains("f16")
}

/// How many tokens two answers of a session begin with in common: all of them, where rounding is the same.
fn same_tokens(name: &str, session: usize, have: &[u32], want: &[u32]) -> usize {
    if !is_gpu() && is_rounded_alike(name) {
        assert_eq!(have, want, "{name}, {session}");
    }
    have.iter().zip(want).take_while(|(have, want)| have == want).count()
}

fn without_drafts(options: SessionOptions) -> SessionOptions {
    SessionOptions { draft: 0, ..options }
}

/// Log-probabilities differ by rounding only, most where numbers are rounded to few bits.
fn tolerance(name: &str) -> f32 {
    match name.contains("f32") {
        true => 2e-5 + 10.0 * device_tolerance(),
        false if is_rounded_alike(name) => 2e-2 + device_tolerance(),
        false => 0.1 + device_tolerance(),
    }
}

#[test]
fn answers_are_those_of_each_alone() {
    for case in golden_cases() {
        let name = case["name"].as_str().expect("a name");
        let engine = golden_model(name);
        compare(name, &engine, &[(); 3].map(|()| without_drafts(options(80, "full"))), tolerance(name));
    }
}

#[test]
fn all_architectures_answer_together() {
    for case in family_cases() {
        let name = case["name"].as_str().expect("a name");
        let engine = family_model(name);
        compare(name, &engine, &[(); 3].map(|()| without_drafts(options(48, "full"))), tolerance(name));
    }
}

/// Single tokens and drafts on a device, which gets the embeddings that layers have of their own for the tokens of all sessions.
#[test]
fn layers_that_share_rows_answer_together() {
    let name = "gemma4-shared-kv-f32";
    let on_device = EngineOptions { devices: host_devices(&[usize::MAX]), ..engine_options() };
    let engine = family_model_with(name, &on_device);
    assert_eq!(engine.layers_on_devices(), engine.spec().n_layers);
    for drafts in [[0, 0, 0], [0, 7, 15]] {
        let of_sessions = drafts.map(|draft| SessionOptions { draft, ..options(48, "full") });
        compare(name, &engine, &of_sessions, 1e-2 + device_tolerance());
    }
}

#[test]
fn each_session_has_a_policy_of_its_own() {
    let engine = tiny_model();
    let policies: Vec<PolicyChoice> = bounded_policies(24, 200);
    for types in [(Type::F32, Type::F32), (Type::F16, Type::F16)] {
        let of_sessions: Vec<SessionOptions> = (policies.iter())
            .map(|policy| SessionOptions { types, ..with_policy(&engine, policy, options(200, "full")) })
            .map(without_drafts)
            .collect();
        let name = if types.0 == Type::F32 { "f32" } else { "f16" };
        compare(name, &engine, &of_sessions, tolerance(name));
    }
}

/// Drafts of several tokens, single tokens, recorded attention and contexts of other sizes share a pass.
#[test]
fn drafts_and_single_tokens_are_computed_together() {
    let engine = tiny_model();
    let plain = options(100, "full");
    let of_sessions = [
        SessionOptions { draft: 15, ..plain.clone() },
        SessionOptions { draft: 0, record_attention: true, ..plain.clone() },
        SessionOptions { draft: 7, context: 300, ..plain.clone() },
        SessionOptions { draft: 15, ..options(100, "streaming:sinks=4,window=24,slack=9") },
    ];
    compare("f32", &engine, &of_sessions, tolerance("f32"));
}

/// More sessions than fit one pass.
#[test]
fn passes_have_a_bound() {
    let engine = tiny_model();
    let tokenizer = Tokenizer::from_gguf(engine.file()).expect("a tokenizer");
    let of_sessions = vec![without_drafts(options(400, "full")); 40];
    let mut alone = sessions(&engine, &of_sessions);
    let mut batched = sessions(&engine, &of_sessions);
    let Together { answers, passes, .. } = together(&mut batched, &tokenizer);
    let fewest = (40 * (LIMIT - 1)).div_ceil(31);
    assert!((fewest..2 * LIMIT).contains(&passes), "{passes}");
    for (session, answers) in alone.iter_mut().zip(answers) {
        let wanted = answer(session, &tokenizer, &|| ()).expect("an answer");
        let same = same_tokens("one of 40, f32", 0, &answers.expect("an answer").0.tokens, &wanted.0.tokens);
        assert!(same > 0, "they begin with the same token");
    }
}

/// What computing together takes is planned, a share with each session.
#[test]
fn memory_is_planned() {
    for (name, draft) in
        [("llama-gqa-llama3rope-f32", 0), ("llama-gqa-llama3rope-f32", 15), ("qwen3-wide-mqa-q6_k", 15)]
    {
        let engine = golden_model(name);
        let tokenizer = Tokenizer::from_gguf(engine.file()).expect("a tokenizer");
        let mut sessions =
            sessions(&engine, &[(); 3].map(|()| SessionOptions { draft, ..options(80, "full") }));
        let compute = |sessions: usize, layout: &Layout| {
            let options = PlanOptions { draft, sessions, ..plan_options(&engine, 80, 32) };
            let plan = Plan::new(engine.spec(), &tensor_outlines(engine.file()), layout, &options);
            plan.expect("a plan").places().map(|place| place.compute).sum::<usize>()
        };
        let [alone, shared] = [1, 3].map(|n| compute(n, sessions[0].store().layout()));
        let Together { answers, batch, .. } = together(&mut sessions, &tokenizer);
        answers.into_iter().for_each(|answer| drop(answer.expect("an answer")));
        let (planned, taken) = (3 * (shared - alone), batch.compute_bytes());
        assert!((1..=planned).contains(&taken), "{name}, {draft}: {taken} taken, {planned} planned");
    }
}

/// Who stops ends its own answer, and nobody else's.
#[test]
fn an_answer_that_is_stopped_stops_no_other() {
    let engine = embedded_model();
    let tokenizer = Tokenizer::from_gguf(engine.file()).expect("a tokenizer");
    let of_sessions = [(); 2].map(|()| without_drafts(options(80, "full")));
    let mut alone = sessions(&engine, &of_sessions);
    let mut batched = sessions(&engine, &of_sessions);
    let stop = InterruptFlag::new();
    batched[0].set_interrupt(&stop);
    stop.set();
    let Together { answers, .. } = together(&mut batched, &tokenizer);
    let answers: Vec<Generated> = answers.into_iter().map(|answer| answer.expect("an answer").0).collect();
    assert_eq!((&answers[0].stop, answers[0].tokens.len()), (&Stop::Interrupted, 1));
    assert_eq!(answers[1].tokens, answer(&mut alone[1], &tokenizer, &|| ()).expect("an answer").0.tokens);
}

#[test]
fn sessions_that_cannot_compute_together_are_refused() {
    let (one, other) = (tiny_model(), tiny_model());
    let plain = || options(80, "full");
    let f16 = SessionOptions { types: (Type::F16, Type::F16), ..plain() };
    for mut sessions in [
        Vec::new(),
        vec![session(&one, plain()), session(&other, plain())],
        vec![session(&one, plain()), session(&one, f16)],
    ] {
        let error = Batch::join(&mut sessions, Box::new(|compute| compute())).err().expect("refused");
        assert!(error.to_string().contains("compute together"), "{error}");
    }
}
