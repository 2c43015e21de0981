//! Sessions over many turns and interruptions, and the plan compared with what is allocated. Tests of every
//! policy are in `policies.rs`.

use ggml::{Backend, Type};
use longhand::reading::Prefill;
use longhand::setup::plan::{PlaceBytes, Placement, Plan};
use longhand::testing::Weights;
use longhand::testing::backends::Backends;
use longhand::testing::outline::tensor_outlines;
use longhand::{EngineError, Session, SessionOptions};
use models::gguf::GgufFile;
use models::gguf::write::{GgufWriter, MetaValue};
use models::spec::ModelSpec;
use tests::device_tolerance;
use tests::fixtures::{
    embedded_model, golden_source, half_retrieval, max_difference, options, plan_options, random_tokens,
    session, sync, tiny_model,
};

#[test]
fn twenty_turns_give_the_same_logits_as_one_text() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, 400, 7);
    let mut turns = session(&engine, options(400, "full"));
    for turn in 1..=20 {
        sync(&mut turns, &tokens[..20 * turn]);
    }
    let mut fresh = session(&engine, options(400, "full"));
    sync(&mut fresh, &tokens);
    assert_eq!(turns.tokens(), fresh.tokens());
    let difference = max_difference(turns.logits(), fresh.logits());
    assert!(difference < 1e-4 + device_tolerance(), "{difference:e}");
}

#[test]
fn a_changed_text_reuses_the_common_prefix() {
    let engine = tiny_model();
    let (first, other) = (random_tokens(&engine, 100, 1), random_tokens(&engine, 60, 2));
    let changed: Vec<u32> = first[..70].iter().chain(&other).copied().collect();
    let mut reused = session(&engine, options(200, "full"));
    sync(&mut reused, &first);
    assert_eq!(sync(&mut reused, &changed), 60);
    let mut fresh = session(&engine, options(200, "full"));
    sync(&mut fresh, &changed);
    let difference = max_difference(reused.logits(), fresh.logits());
    assert!(difference < 1e-4 + device_tolerance(), "{difference}");
    // The last token of a shorter text is computed again, for its logits.
    assert_eq!(sync(&mut reused, &changed[..50]), 1);
    fresh.clear().expect("clear");
    sync(&mut fresh, &changed[..50]);
    assert!(max_difference(reused.logits(), fresh.logits()) < 1e-4 + device_tolerance());
}

/// The bytes of the store, the tokens and the logits.
fn state(session: &Session) -> (Vec<u8>, Vec<u32>, Vec<f32>) {
    let rows = session.store().contents().expect("the store");
    (rows, session.tokens().to_vec(), session.logits().to_vec())
}

/// The pieces of two sessions' texts and the steps of a third session take turns. Each gives, bit for bit, what it gives
/// alone: in a first text, in a later one, and under policies that evict.
#[test]
fn pieces_of_sessions_that_take_turns_give_what_each_gives_alone() {
    let engine = tiny_model();
    let texts = [random_tokens(&engine, 260, 21), random_tokens(&engine, 170, 22)];
    let steps = random_tokens(&engine, 400, 23);
    for policy in [
        "full",
        "h2o:heavy=20,recent=20,compensation=on",
        "snapkv:window=16,capacity=40,slack=30",
        "streaming:sinks=4,window=40",
        "kvzip:heads=off,capacity=50,recent=10",
    ] {
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let make = || session(&engine, SessionOptions { prefill, chunk: 32, ..options(600, policy) });
            let case = format!("{policy} {prefill:?}");
            let mut alone = [make(), make()];
            let mut together = [make(), make()];
            let [mut answers, mut answers_alone] = [make(), make()];
            for session in [&mut answers, &mut answers_alone] {
                sync(session, &steps[..50]);
            }
            let mut pushed = 50;
            for ends in [[200, 100], [260, 170]] {
                for ((session, text), end) in alone.iter_mut().zip(&texts).zip(ends) {
                    sync(session, &text[..end]);
                }
                let mut readings = Vec::new();
                for ((session, text), end) in together.iter_mut().zip(&texts).zip(ends) {
                    readings.push(session.read(&text[..end]).expect("a reading"));
                }
                let (mut shares, mut last) = (vec![Vec::new(); 2], [false; 2]);
                while last != [true; 2] {
                    for (number, reading) in readings.iter_mut().enumerate() {
                        let progress = reading.step().expect("a piece");
                        last[number] = progress.is_none();
                        shares[number].extend(progress.map(|progress| progress.share));
                    }
                    answers.push(steps[pushed]).expect("a step");
                    pushed += 1;
                }
                drop(readings);
                for shares in shares {
                    assert!(shares.len() > 1 && shares.is_sorted(), "{case}: {shares:?}");
                    assert_eq!(shares.last(), Some(&1.0), "{case}");
                }
            }
            for token in &steps[50..pushed] {
                answers_alone.push(*token).expect("a step");
            }
            for (together, alone) in
                together.iter().chain([&answers]).zip(alone.iter().chain([&answers_alone]))
            {
                assert!(state(together) == state(alone), "{case}");
            }
        }
    }
}

/// A reading that is dropped in the middle pauses. Reading the same text again goes on, another text begins anew.
#[test]
fn a_reading_that_is_dropped_goes_on_or_is_given_up() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, 300, 24);
    for policy in ["full", "h2o:heavy=20,recent=20", "kvzip:heads=off,capacity=50,recent=10"] {
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let make = || session(&engine, SessionOptions { prefill, chunk: 32, ..options(300, policy) });
            let case = format!("{policy} {prefill:?}");
            let (mut whole, mut paused) = (make(), make());
            let mut pieces = 0;
            for end in [200, 260] {
                sync(&mut whole, &tokens[..end]);
                while paused.read(&tokens[..end]).expect("a reading").step().expect("a piece").is_some() {
                    pieces += 1;
                    assert!(tokens.starts_with(paused.tokens()));
                }
                assert!(state(&paused) == state(&whole), "{case}");
            }
            assert!(pieces > 8, "{case}: {pieces} pieces");
            // The turn is one, in however many pieces it was read.
            assert_eq!(sync(&mut whole, &tokens[..200]), sync(&mut paused, &tokens[..200]), "{case}");
            assert!(state(&paused) == state(&whole), "{case}");

            let mut given_up = make();
            let mut reading = given_up.read(&tokens[..200]).expect("a reading");
            assert!(reading.step().expect("a piece").is_some() && reading.step().expect("a piece").is_some());
            let some = (reading.session().tokens().len(), reading.session().first_text_share());
            drop(reading);
            assert_eq!((given_up.tokens().len(), given_up.first_text_share()), some, "{case}");
            assert!((some.0 > 0) != some.1.is_some_and(|share| share > 0.0), "{case}: {some:?}");
            let (other, mut fresh) = (&tokens[100..180], make());
            sync(&mut given_up, other);
            sync(&mut fresh, other);
            assert!(state(&given_up) == state(&fresh), "{case}");
        }
    }
}

/// Pieces are bounded: a chunk of one layer in a first text, a chunk of all layers in a later one.
#[test]
fn a_piece_is_a_chunk() {
    let engine = tiny_model();
    let (layers, tokens) = (engine.spec().n_layers, random_tokens(&engine, 551, 25));
    for (prefill, chunks_read) in [(Prefill::Exact, layers), (Prefill::Streaming, 1)] {
        let mut session = session(&engine, SessionOptions { prefill, chunk: 125, ..options(551, "full") });
        assert_eq!(pieces(&mut session, &tokens[..250]).len(), 2 * chunks_read, "{prefill:?}");
        assert_eq!(pieces(&mut session, &tokens[..550]).len(), 3, "a later text goes through all layers");
        assert_eq!(pieces(&mut session, &tokens), [1.0], "one token");
        assert!(pieces(&mut session, &tokens).is_empty());
    }
}

/// Some thousand embeddings are a piece of their own before the first layer.
#[test]
fn a_long_text_begins_with_a_piece_of_embeddings() {
    let engine = tiny_model();
    let (layers, tokens) = (engine.spec().n_layers, random_tokens(&engine, 9000, 25));
    let mut session = session(&engine, SessionOptions { chunk: 500, ..options(9000, "full") });
    let shares = pieces(&mut session, &tokens);
    assert_eq!(shares.len(), 1 + 18 * layers, "the first embeddings, and the rest with the first chunk");
    assert!(shares[0] == 0.0 && shares[1] > 0.0, "{shares:?}");
}

/// How far a session is after each piece of the tokens.
fn pieces(session: &mut Session, tokens: &[u32]) -> Vec<f64> {
    let mut reading = session.read(tokens).expect("a reading");
    std::iter::from_fn(|| reading.step().expect("a piece")).map(|progress| progress.share).collect()
}

/// Exact prefill and decoding token by token keep the same rows and the same compensation entries. This is
/// true for the first layer only: the inputs of later layers differ by design.
#[test]
fn compensation_entries_of_prefill_and_decoding_agree() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, 120, 5);
    let make = |prefill| {
        let policy = "razor:buffer=16,ratio=5,sinks=4,slack=0";
        let profile = Some(half_retrieval(&engine));
        session(&engine, SessionOptions { prefill, profile, ..options(120, policy) })
    };
    let mut exact = make(Prefill::Exact);
    sync(&mut exact, &tokens);
    let mut steps = make(Prefill::Streaming);
    for token in &tokens {
        steps.push(*token).expect("a step");
    }
    assert_eq!(exact.store().positions(0), steps.store().positions(0));
    let entries = |session: &Session| session.store().compensation(0).expect("sums");
    assert!(entries(&exact).iter().any(Option::is_some));
    for (a, b) in entries(&exact).into_iter().zip(entries(&steps)) {
        match (a, b) {
            (None, None) => {}
            (Some(a), Some(b)) => {
                assert_eq!((a.rows, b.rows), (120 - 24 - 4, 120 - 24 - 4));
                assert!(max_difference(&a.keys, &b.keys) < 1e-2);
                assert!(max_difference(&a.values, &b.values) < 1e-2);
            }
            _ => panic!("only one of the sessions has a compensation entry"),
        }
    }
}

#[test]
fn a_session_works_after_an_interrupted_prefill() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, 200, 9);
    for prefill in [Prefill::Exact, Prefill::Streaming] {
        let mut interrupted = session(&engine, SessionOptions { prefill, ..options(200, "full") });
        let flag = interrupted.interrupt().clone();
        let result = interrupted.sync(&tokens, &mut |progress| {
            if progress.share > 0.3 {
                flag.set();
            }
        });
        assert!(result.expect_err("interrupted").is_interrupt());
        flag.clear();
        assert_eq!(interrupted.tokens(), &tokens[..interrupted.tokens().len()]);
        sync(&mut interrupted, &tokens);
        let mut fresh = session(&engine, options(200, "full"));
        sync(&mut fresh, &tokens);
        assert!(max_difference(interrupted.logits(), fresh.logits()) < 1e-4 + device_tolerance());
    }
}

/// Interrupts during eviction or between chunks leave the store consistent, and no chunk is lost.
#[test]
fn an_interrupted_bounded_session_continues_where_it_stopped() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, 200, 11);
    let make = || {
        let policy = "razor:buffer=16,ratio=5,sinks=4";
        let options = SessionOptions {
            prefill: Prefill::Streaming,
            profile: Some(half_retrieval(&engine)),
            ..options(200, policy)
        };
        session(&engine, options)
    };
    let mut whole = make();
    sync(&mut whole, &tokens);
    let mut interrupted = make();
    let flag = interrupted.interrupt().clone();
    let mut interrupts = 0;
    while let Err(error) = interrupted.sync(&tokens, &mut |_| flag.set()) {
        assert!(error.is_interrupt(), "{error}");
        flag.clear();
        interrupts += 1;
    }
    flag.clear();
    assert!(interrupts > 3, "{interrupts} interrupts");
    assert_eq!(interrupted.store().positions(0), whole.store().positions(0));
    assert_eq!(max_difference(interrupted.logits(), whole.logits()), 0.0);
}

/// In a bounded session the last turn can be replaced by another one.
#[test]
fn a_bounded_session_undoes_a_turn() {
    let engine = tiny_model();
    let document = random_tokens(&engine, 150, 12);
    let turn =
        |seed| -> Vec<u32> { document.iter().copied().chain(random_tokens(&engine, 5, seed)).collect() };
    let make = || {
        let policy = "razor:buffer=64,ratio=5,sinks=4";
        session(&engine, SessionOptions { profile: Some(half_retrieval(&engine)), ..options(200, policy) })
    };
    let (mut undone, mut fresh) = (make(), make());
    sync(&mut undone, &document);
    sync(&mut undone, &turn(1));
    assert_eq!(sync(&mut undone, &turn(2)), 5);
    sync(&mut fresh, &document);
    sync(&mut fresh, &turn(2));
    assert_eq!(undone.store().positions(1), fresh.store().positions(1));
    assert!(max_difference(undone.logits(), fresh.logits()) < 1e-5 + device_tolerance());
}

#[test]
fn texts_tokens_and_options_that_do_not_fit_are_rejected() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, 40, 1);
    let mut session = session(&engine, options(32, "full"));
    let error = session.sync(&tokens, &mut |_| {}).expect_err("too long");
    assert!(matches!(error, EngineError::ContextFull { needed: 40, context: 32 }), "{error}");
    session.sync(&tokens[..32], &mut |_| {}).expect("exactly full");
    assert!(matches!(session.push(1), Err(EngineError::ContextFull { .. })));
    let outside = engine.spec().n_vocab as u32;
    assert!(matches!(session.sync(&[outside], &mut |_| {}), Err(EngineError::Token { .. })));
    assert!(Session::new(&engine, options(0, "full")).is_err());
    assert!(Session::new(&engine, options(32, "razor")).is_err(), "razor needs a profile");
}

/// A policy may have room for more rows than the context has left.
#[test]
fn intermediates_beyond_the_context_are_rejected() {
    let engine = tiny_model();
    let tokens = random_tokens(&engine, 110, 1);
    let mut session = session(&engine, options(100, "streaming:sinks=4,window=40"));
    sync(&mut session, &tokens[..90]);
    let computed = session.intermediates(&tokens[90..]).map(|found| found.len());
    let error = computed.expect_err("too many tokens");
    assert!(matches!(error, EngineError::ContextFull { needed: 110, context: 100 }), "{error}");
    assert_eq!(session.tokens(), &tokens[..90]);
    assert_eq!(session.intermediates(&[]).expect("nothing to compute"), []);
}

/// The plan's bytes of weights, and of matrices with a dual layout, are those that are loaded.
#[test]
fn planned_weight_bytes_equal_loaded_ones() {
    let golden = |name| golden_source(name).open();
    // With RoPE's factors in the file, two of them, and computed ones.
    let families = ["phi3-longrope-f32", "gpt-oss-window-f32"];
    let families =
        families.map(|name| longhand::ModelSource::Bytes(tests::fixtures::family_file(name).into()).open());
    let files =
        [golden("llama-wide-mqa-q4_k_m"), golden("llama-gqa-llama3rope-f32")].into_iter().chain(families);
    for file in files {
        let file = file.expect("the model opens");
        let all =
            file.u64(&format!("{}.block_count", file.required_str("general.architecture").expect("one")));
        let all = all.expect("a number").expect("a number") as usize;
        for (repack, on_device) in [(true, 0), (false, 0), (true, 1), (true, all)] {
            check_weight_bytes(&file, repack, on_device);
        }
    }
}

fn check_weight_bytes(file: &GgufFile, repack: bool, on_device: usize) {
    {
        let spec = ModelSpec::from_gguf(file).expect("a model");
        let device = emulator::backend(None).expect("starts");
        let host = Backend::cpu(1).expect("starts");
        let backends = Backends::new(host, vec![device], Placement::new(spec.n_layers, on_device));
        let (mut copied, mut total) = (0, 0);
        let loaded = Weights::load(file, &spec, repack, &backends, &mut |so_far, in_all| {
            (copied, total) = (so_far, in_all);
            Ok(())
        });
        let loaded = loaded.expect("weights");
        let planned = Weights::unallocated(&spec, &tensor_outlines(file), repack, backends.placement())
            .expect("weights without memory");
        assert_eq!(loaded.bytes, planned.bytes);
        assert_eq!(loaded.dual_layout_bytes, planned.dual_layout_bytes);
        assert_eq!(copied, total, "progress ends at the total");
        assert!(
            total >= loaded.bytes.repacked + loaded.bytes.copied
                && (on_device > 0) == (loaded.bytes.on_devices() > 0)
        );
        let repacked: usize = loaded.dual_layout_bytes.iter().sum();
        assert!(repacked <= loaded.bytes.repacked, "{repacked} of {}", loaded.bytes.repacked);
    }
}

/// A tied output matrix is copied to a device like other tensors: with progress, and so that it can be
/// interrupted.
#[test]
fn a_tied_output_matrix_is_copied_in_parts() {
    const VOCABULARY: u64 = 600_000;
    let file = tests::data("golden/models/llama-gqa-llama3rope-f32.gguf");
    let file = GgufFile::open(&file).expect("the model opens");
    let mut larger = GgufWriter::new();
    for (key, value) in file.metadata().filter(|(key, _)| !key.starts_with("tokenizer.")) {
        larger.set(key, MetaValue::from(value));
    }
    larger.set("llama.vocab_size", VOCABULARY as u32);
    // Weights may be zero, but not the factors of RoPE.
    for tensor in file.tensors().iter().filter(|tensor| tensor.name != "rope_freqs.weight") {
        let mut dims = tensor.dims.clone();
        if tensor.name == "token_embd.weight" {
            dims[1] = VOCABULARY;
        }
        larger.tensor(&tensor.name, &dims, tensor.ty);
    }
    let larger = GgufFile::from_bytes(larger.to_bytes_zeroed().expect("a model in memory")).expect("a model");
    let spec = ModelSpec::from_gguf(&larger).expect("a model");
    assert!(spec.tied_output && spec.n_vocab == VOCABULARY as usize);
    let device = emulator::backend(None).expect("starts");
    let placement = Placement::new(spec.n_layers, spec.n_layers);
    let backends = Backends::new(Backend::cpu(1).expect("starts"), vec![device], placement);
    let (mut before, mut largest) = (0, 0);
    let stopped = Weights::load(&larger, &spec, true, &backends, &mut |copied, all| {
        largest = largest.max(copied - before);
        before = copied;
        match copied > all / 2 {
            true => Err(ggml::Error::Interrupted.into()),
            false => Ok(()),
        }
    });
    let error = stopped.err().expect("interrupted");
    assert!(error.is_interrupt(), "{error}");
    let matrix = larger.tensor("token_embd.weight").expect("a tensor").bytes as usize;
    assert!(largest < matrix, "{largest} of {matrix} bytes at once");
}

/// Planned bytes of weights equal the allocated ones, those of the store but for alignment. Compute buffers
/// take at most the planned bytes, and at least half of them.
#[test]
fn planned_bytes_hold_allocated_ones() {
    let engine = embedded_model();
    let tokens = random_tokens(&engine, 350, 4);
    for (policy, types) in [
        ("full", (Type::F16, Type::F16)),
        ("streaming:window=64", (Type::Q8_0, Type::IQ4_NL)),
        ("h2o:heavy=32,recent=32", (Type::F16, Type::F16)),
        ("ahakv:budget=64", (Type::F16, Type::Q8_0)),
        ("razor:buffer=64,ratio=5,sinks=4", (Type::F16, Type::F16)),
    ] {
        let options = SessionOptions {
            context: 400,
            policy: policy.parse().expect("a policy"),
            profile: Some(half_retrieval(&engine)),
            types,
            chunk: 128,
            ..SessionOptions::default()
        };
        let mut session = session(&engine, options);
        sync(&mut session, &tokens);
        session.push(1).expect("a step");
        let placement = engine.backends().placement();
        let options = plan_options(&engine, 350, 128);
        let outline = tensor_outlines(engine.file());
        let plan = Plan::new(engine.spec(), &outline, session.store().layout(), &options).expect("a plan");
        assert_eq!(plan.weights, engine.weight_bytes());
        let planned = |part: fn(&PlaceBytes) -> usize| plan.places().map(part).sum::<usize>();
        let (predicted, allocated) = (planned(|place| place.store) as f64, session.store().bytes() as f64);
        // A GPU aligns and pads each tensor of a layer to larger multiples than the host.
        let alignment = 1024 * placement.on_devices();
        assert!(
            (allocated - predicted).abs() < 0.01 * predicted + alignment as f64,
            "{policy}: store {predicted} planned, {allocated} allocated"
        );
        let compute = session.compute_bytes();
        let planned = planned(|place| place.compute);
        assert!(
            compute <= planned && planned <= 2 * compute,
            "{policy}: {compute} allocated, {planned} planned"
        );
    }
}
