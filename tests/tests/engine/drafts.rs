//! Drafted tokens that are computed at once: the logits, rows and answers are those of one step after another.

use std::ops::ControlFlow;
use std::sync::Arc;

use ggml::Type;
use longhand::generation::{
    DraftCounts, GenerateOptions, Generated, Piece, Sampler, SamplerOptions, generate, generate_with,
};
use longhand::testing::kv::PolicyChoice;
use longhand::{Chat, ChatOptions, Engine, EngineError, InterruptFlag, Session, SessionOptions};
use models::tokenizer::Tokenizer;
use tests::fixtures::{
    Random, bounded_policies, embedded_model, family_model, golden_cases, golden_model, max_difference,
    options, random_tokens, relative_difference, session, sync, tiny_model, with_cache_types, with_policy,
};
use tests::{device_tolerance, devices, rounds_alike};

/// What logits may differ by, in lengths of all logits: products and attention of several tokens are added up in another order.
/// Where weights or rows are f16, a difference in the last bit may round a number to another one.
fn tolerance(has_f16: bool) -> f32 {
    if has_f16 { 5e-3 + device_tolerance() } else { 1e-5 + 10.0 * device_tolerance() }
}

/// Every policy, with and without compensation entries and rows beyond the budget, and one that keeps everything. They act in
/// the first layers, too.
fn policies() -> Vec<PolicyChoice> {
    let more = [
        "full",
        "streaming:sinks=4,window=24,slack=9,compensation=on",
        "razor:buffer=24,ratio=5,sinks=4,slack=5",
        "l2:keep=0.5,skip=0,after=20",
        "lagkv:sinks=2,lag=8,ratio=0.5",
        "kvzip:heads=off,capacity=40,recent=8,slack=7",
    ];
    let more = more.map(|policy| policy.parse().unwrap_or_else(|error| panic!("{policy}: {error}")));
    // In the first layer, rows of the same token have the same predicted score but for rounding, so either may stay:
    // `prediction` compares scores.
    let bounded = bounded_policies(24, 400).into_iter().filter(|policy| !policy.predicts_scores());
    bounded.chain(more).collect()
}

#[test]
fn logits_of_verified_tokens_are_those_of_steps() {
    for case in golden_cases() {
        let name = case["name"].as_str().expect("a name");
        let engine = golden_model(name);
        let tokens = random_tokens(&engine, 60, 5);
        let [mut one, mut many] = [(); 2].map(|()| session(&engine, options(60, "full")));
        sync(&mut one, &tokens[..40]);
        sync(&mut many, &tokens[..40]);
        for (n, accepted) in [(1, 1), (2, 2), (7, 3), (14, 14)] {
            let at = many.tokens().len();
            let drafted = &tokens[at..at + n];
            let logits = many.verify(drafted).expect("logits").to_vec();
            assert_eq!(many.tokens().len(), at, "they do not count yet");
            let of_each = logits.chunks(engine.spec().n_vocab).zip(drafted);
            for (number, (logits, token)) in of_each.take(accepted).enumerate() {
                one.push(*token).expect("a step");
                let difference = relative_difference(logits, one.logits());
                assert!(
                    difference <= tolerance(name.ends_with("f16")),
                    "{name}, {number} of {n}: {difference:e}"
                );
            }
            many.accept(accepted).expect("they count");
            assert_eq!(many.tokens(), one.tokens());
            let difference = relative_difference(many.logits(), one.logits());
            assert!(difference <= tolerance(name.ends_with("f16")), "{name}: {difference:e}");
        }
    }
}

/// Whatever is drafted and accepted, every policy keeps what it keeps of steps, and the turn can be taken back.
#[test]
fn every_policy_keeps_the_same_rows() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, 200, 11);
    let mut at_once = Vec::new();
    for (policy, types) in with_cache_types(&engine, policies()) {
        // Where rows have few bits, rounding makes other numbers of them.
        if types == (Type::Q8_0, Type::Q4_0) {
            continue;
        }
        let start = || {
            let options = SessionOptions { types, ..with_policy(&engine, &policy, options(400, "full")) };
            let mut session = session(&engine, options);
            sync(&mut session, &tokens[..80]);
            session
        };
        let (mut one, mut many) = (start(), start());
        let before = many.logits().to_vec();
        let mut random = Random(3);
        let mut longest = 1;
        while many.tokens().len() < tokens.len() - 17 {
            let at = many.tokens().len();
            let n = many.steps_at_once(1 + random.below(17));
            longest = longest.max(n);
            let accepted = 1 + random.below(n);
            // What is not accepted would have been wrong.
            let mut drafted = tokens[at..at + n].to_vec();
            drafted[accepted..].fill(7);
            many.verify(&drafted).expect("logits");
            many.accept(accepted).expect("they count");
            tokens[at..at + accepted].iter().for_each(|token| one.push(*token).expect("a step"));
            // On a device, attention of several tokens is rounded to f16, which may change what policies choose.
            for layer in (0..engine.spec().n_layers).filter(|_| devices().is_empty()) {
                assert_eq!(many.store().positions(layer), one.store().positions(layer), "{policy}");
            }
            let difference = relative_difference(many.logits(), one.logits());
            assert!(
                difference <= tolerance(types.0 == Type::F16),
                "{policy} {types:?}, {at}: {difference:e}"
            );
        }
        assert_eq!(many.tokens(), one.tokens());
        at_once.push((policy.to_string(), longest));
        // Back to the first text.
        for session in [&mut one, &mut many] {
            sync(session, &tokens[..80]);
        }
        assert!(max_difference(many.logits(), one.logits()) <= 10.0 * device_tolerance(), "{policy}");
        assert!(max_difference(many.logits(), &before) <= 10.0 * device_tolerance(), "{policy}");
    }
    let longest = |name: &str| {
        at_once.iter().filter(|(policy, _)| policy.starts_with(name)).map(|(_, longest)| *longest).max()
    };
    for (policy, at_once) in [
        ("full", 15),
        ("streaming", 10),
        ("razor", 6),
        ("kvzip", 8),
        ("l2", 2),
        ("h2o", 1),
        ("snapkv", 1),
        ("ahakv", 1),
    ] {
        assert!(longest(policy) >= Some(at_once), "{policy}: {:?}", longest(policy));
        assert!(at_once > 1 || longest(policy) == Some(1), "{policy} records attention");
    }
}

#[test]
fn recurrent_layers_compute_one_step_at_a_time() {
    let engine = family_model("qwen35-gqa-f32");
    let mut session = session(&engine, options(48, "full"));
    sync(&mut session, &random_tokens(&engine, 20, 1));
    assert_eq!(session.steps_at_once(16), 1);
    assert!(session.verify(&[5, 6]).is_err());
}

fn answers(
    engine: &Arc<Engine>,
    policy: &PolicyChoice,
    types: (Type, Type),
    draft: usize,
) -> (Chat, Vec<Generated>) {
    let options = SessionOptions { draft, types, ..with_policy(engine, policy, options(400, "full")) };
    let session = Session::new(engine, options).expect("a session");
    let options =
        ChatOptions { answer_limit: Some(40), sampling: SamplerOptions::greedy(), ..ChatOptions::default() };
    let mut chat = Chat::new(session, options).expect("a chat");
    let questions = [
        "Mary's favorite number is 34251. The boat is old. The bird left the garden. Tom's favorite color is green. \
         What is Mary's favorite number?",
        "What is Tom's favorite color?",
    ];
    let answers = questions.map(|question| chat.ask(question, &mut |_| ()).expect("an answer"));
    (chat, answers.to_vec())
}

/// The same text and the same rows, under every policy and with every type.
#[test]
fn answers_are_the_same_with_drafts() {
    let engine = embedded_model();
    let predicted = bounded_policies(60, 400).into_iter().filter(PolicyChoice::predicts_scores);
    for (policy, types) in with_cache_types(&engine, policies().into_iter().chain(predicted).collect()) {
        let [(plain, steps), (drafted, at_once)] =
            [0, 15].map(|draft| answers(&engine, &policy, types, draft));
        // What the model does not know are tokens that are about as likely.
        let knows = steps[0].text.contains("34251") && steps[1].text.contains("green");
        if !knows && !rounds_alike() {
            continue;
        }
        for (steps, at_once) in steps.iter().zip(&at_once) {
            assert_eq!(steps.drafts, DraftCounts::default());
            assert_eq!((&at_once.text, &at_once.tokens), (&steps.text, &steps.tokens), "{policy} {types:?}");
            assert_eq!((at_once.steps, &at_once.stop), (steps.steps, &steps.stop), "{policy} {types:?}");
            assert!(at_once.drafts.used <= at_once.drafts.made, "{at_once:?}");
        }
        let [plain, drafted] = [&plain, &drafted].map(Chat::session);
        assert_eq!(drafted.tokens(), plain.tokens(), "{policy} {types:?}");
        // Where rows have few bits, rounding makes other numbers of them.
        let is_exact = devices().is_empty() && rounds_alike() && types != (Type::Q8_0, Type::Q4_0);
        for layer in (0..engine.spec().n_layers).filter(|_| is_exact) {
            assert_eq!(
                drafted.store().positions(layer),
                plain.store().positions(layer),
                "{policy} {types:?}"
            );
        }
        if policy.to_string() == "full" {
            assert!(at_once.iter().map(|answer| answer.drafts.used).sum::<usize>() > 4, "{at_once:?}");
        }
    }
}

/// Drawn at random, answers are the same too: every token is drawn from its own logits, with the same random numbers, penalties
/// and biases. So are log-probabilities, but for rounding.
#[test]
fn random_answers_are_the_same_with_drafts() {
    let engine = tiny_model();
    let tokenizer = Tokenizer::from_gguf(engine.file()).expect("a tokenizer");
    let piece = random_tokens(&engine, 12, 4);
    let of_seed = |seed| SamplerOptions { temperature: 0.3, seed, ..SamplerOptions::default() };
    let banned = piece[5];
    let all_of = |seed| SamplerOptions {
        repeat_penalty: 1.05,
        presence_penalty: 0.01,
        frequency_penalty: -0.01,
        logit_bias: vec![(piece[2], 0.1), (banned, f32::NEG_INFINITY)],
        ..of_seed(seed)
    };
    let options_with = |logprobs| GenerateOptions { limit: 80, logprobs, ..GenerateOptions::default() };
    for sampling in [&of_seed as &dyn Fn(u64) -> SamplerOptions, &all_of] {
        let mut used = 0;
        for seed in 0..3 {
            let [steps, at_once] = [0, 15].map(|draft| {
                let mut session = session(&engine, SessionOptions { draft, ..options(300, "full") });
                sync(&mut session, &piece.repeat(4));
                let mut sampler = Sampler::new(sampling(seed)).expect("a sampler");
                let (mut came, mut logprobs) = (Vec::new(), Vec::new());
                let mut on_piece = |piece: Piece| {
                    came.extend(piece.token);
                    logprobs.extend(piece.logprobs.cloned());
                    ControlFlow::Continue(())
                };
                let options = options_with(Some(3));
                let answer = generate_with(&mut session, &tokenizer, &mut sampler, &options, &mut on_piece);
                let answer = answer.expect("an answer");
                assert_eq!(answer.tokens, came);
                assert!(came.iter().eq(logprobs.iter().map(|one| &one.token.token)));
                (answer, logprobs)
            });
            assert_eq!(at_once.0.tokens, steps.0.tokens, "{seed}");
            assert!(sampling(seed).logit_bias.is_empty() || !steps.0.tokens.contains(&banned));
            for (a, b) in at_once.1.iter().zip(&steps.1) {
                assert!((a.token.logprob - b.token.logprob).abs() < 10.0 * tolerance(true), "{a:?} {b:?}");
                assert_eq!((a.top.len(), b.top.len()), (3, 3));
            }
            used += at_once.0.drafts.used;
        }
        assert!(used > 3, "{used}");
    }
}

/// What is not in the vocabulary cannot be biased, and an answer of which every token is banned is an error.
#[test]
fn biases_that_leave_nothing_are_errors() {
    let engine = tiny_model();
    let tokenizer = Tokenizer::from_gguf(engine.file()).expect("a tokenizer");
    let n_vocab = engine.spec().n_vocab as u32;
    for (bias, words) in [
        (vec![(n_vocab, 1.0)], "logit-bias for token"),
        ((0..n_vocab).map(|token| (token, f32::NEG_INFINITY)).collect(), "biases ban all tokens"),
    ] {
        let mut session = session(&engine, options(300, "full"));
        sync(&mut session, &random_tokens(&engine, 12, 4));
        let options = SamplerOptions { logit_bias: bias, ..SamplerOptions::greedy() };
        let mut sampler = Sampler::new(options).expect("a sampler");
        let mut go_on = |_: &str| ControlFlow::Continue(());
        let error = generate(&mut session, &tokenizer, &mut sampler, &[], 80, &mut go_on).expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// An answer that begins just before rows are evicted is drafted like others.
#[test]
fn an_answer_that_begins_before_an_eviction_is_drafted() {
    let engine = tiny_model();
    let tokenizer = Tokenizer::from_gguf(engine.file()).expect("a tokenizer");
    let mut session = session(&engine, options(300, "streaming:sinks=4,window=40,slack=12"));
    sync(&mut session, &random_tokens(&engine, 12, 4).repeat(4));
    while session.steps_at_once(2) == 2 {
        let token = session.tokens()[session.tokens().len() - 12];
        session.push(token).expect("a step");
    }
    let mut sampler = Sampler::new(SamplerOptions::greedy()).expect("a sampler");
    let mut go_on = |_: &str| ControlFlow::Continue(());
    let answer = generate(&mut session, &tokenizer, &mut sampler, &[], 100, &mut go_on).expect("an answer");
    assert!(answer.drafts.made > 0, "{answer:?}");
}

/// What answers attend to is recorded of drafted tokens, too.
#[test]
fn attention_of_drafted_tokens_is_recorded() {
    let engine = embedded_model();
    let tokens = random_tokens(&engine, 160, 9);
    let [one, many] = [1, 13].map(|at_once| {
        let mut session = session(&engine, options(200, "full"));
        session.record_attention(true).expect("memory");
        sync(&mut session, &tokens[..80]);
        while session.tokens().len() < tokens.len() {
            let at = session.tokens().len();
            // Some tokens are computed twice.
            session.verify(&tokens[at..tokens.len().min(at + at_once)]).expect("logits");
            session.accept((2 * at_once).div_ceil(3)).expect("they count");
        }
        session.attention_paid(&[80, 160], 0..80, &[]).expect("computes").expect("attention").remove(0).paid
    });
    assert!(one.iter().any(|paid| *paid > 0.0));
    assert!(relative_difference(&many, &one) <= 5e-2 + 10.0 * device_tolerance());
}

#[test]
fn what_cannot_be_verified_is_refused_and_changes_nothing() {
    let engine = embedded_model();
    let mut session = session(&engine, SessionOptions { chunk: 8, ..options(30, "full") });
    let tokens = random_tokens(&engine, 30, 2);
    sync(&mut session, &tokens[..20]);
    let before = session.logits().to_vec();
    for refused in [&tokens[..0], &tokens[..9], &[u32::MAX]] {
        assert!(session.verify(refused).is_err());
    }
    session.interrupt().set();
    assert!(session.verify(&tokens[20..24]).is_err_and(|error: EngineError| error.is_interrupt()));
    session.set_interrupt(&InterruptFlag::new());
    assert_eq!((session.tokens(), session.logits()), (&tokens[..20], &before[..]));
    // Nothing is accepted that was not verified for what the session holds now.
    session.accept(3).expect("nothing to accept");
    session.verify(&tokens[20..24]).expect("logits");
    session.push(tokens[20]).expect("a step");
    session.accept(3).expect("nothing to accept");
    assert_eq!(session.tokens(), &tokens[..21]);
    session.verify(&tokens[21..24]).expect("logits");
    session.clear().expect("empties");
    session.accept(3).expect("nothing to accept");
    assert!(session.tokens().is_empty());
    // To the end of the context.
    sync(&mut session, &tokens[..28]);
    assert_eq!(session.steps_at_once(16), 2);
    session.verify(&tokens[28..]).expect("logits");
    session.accept(usize::MAX).expect("they count");
    assert_eq!((session.tokens(), session.steps_at_once(16)), (&tokens[..], 0));
    assert!(session.verify(&[1]).is_err());
}
