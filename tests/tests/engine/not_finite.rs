//! Weights that are not finite, and finite weights that make the computation overflow. An error names the
//! tensor where that begins, and the session is as it was before the text.

use std::io::Write;
use std::sync::Arc;

use longhand::error::NotFiniteOrigin;
use longhand::reading::Prefill;
use longhand::testing::kv::PolicyChoice;
use longhand::{Engine, EngineError, ModelSource, SessionOptions};
use models::gguf::GgufFile;
use models::gguf::write::{GgufWriter, TensorDecl};
use models::types::TensorType;
use tests::fixtures::{embedded_model, golden_source, options, random_tokens, session, sync, with_policy};

/// A golden model, one of whose tensors is changed by `change`, which gets its type and its bytes.
fn changed(name: &str, tensor: &str, change: impl Fn(TensorType, &mut [u8])) -> Arc<Engine> {
    let file = golden_source(name).open().expect("a model");
    changed_bytes(file.shard_bytes(0).to_vec(), tensor, change)
}

/// As [`changed`], of a model in memory.
fn changed_bytes(mut bytes: Vec<u8>, tensor: &str, change: impl Fn(TensorType, &mut [u8])) -> Arc<Engine> {
    let file = GgufFile::from_bytes(bytes.clone()).expect("a model");
    let info = file.tensor(tensor).unwrap_or_else(|| panic!("there is no {tensor}"));
    change(info.ty, &mut bytes[info.offset as usize..][..info.bytes as usize]);
    Engine::open(&ModelSource::Bytes(bytes.into()), &tests::engine_options()).expect("the model opens")
}

/// Puts a number that is not finite into the middle block: an element, or the scale of a quantised block.
fn damage(ty: TensorType, data: &mut [u8]) {
    let block = ty.block_bytes() as usize;
    let middle = data.len() / block / 2 * block;
    let block = &mut data[middle..middle + block];
    let (at, number): (usize, &[u8]) = match ty {
        TensorType::F32 => (0, &f32::NAN.to_le_bytes()),
        TensorType::F16 => (0, &0xfc00u16.to_le_bytes()), // -inf
        TensorType::BF16 => (0, &0x7fc0u16.to_le_bytes()),
        TensorType::Q8_0 | TensorType::Q4_0 | TensorType::Q5_0 | TensorType::Q4_K | TensorType::Q5_K => {
            (0, &0x7e00u16.to_le_bytes())
        }
        TensorType::Q6_K => (208, &0x7c00u16.to_le_bytes()),
        other => panic!("{other:?}"),
    };
    block[at..at + number.len()].copy_from_slice(number);
}

/// Multiplies an f32 tensor by a number.
fn scale(factor: f32) -> impl Fn(TensorType, &mut [u8]) {
    move |ty, data| {
        assert_eq!(ty, TensorType::F32);
        for bytes in data.chunks_exact_mut(4) {
            let x = f32::from_le_bytes(bytes.try_into().expect("four bytes"));
            bytes.copy_from_slice(&(x * factor).to_le_bytes());
        }
    }
}

/// Checks that reading a text is an error that names this tensor, in every way of reading, and that the
/// session is empty afterwards.
fn check(engine: &Arc<Engine>, tensor: &str) {
    let tokens = random_tokens(engine, 100, 41);
    let layers = engine.spec().n_layers;
    let layer = tensor.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok());
    let expected = NotFiniteOrigin { tensor: tensor.into(), layer, layers };
    for policy in ["full", "h2o:heavy=20,recent=20", "streaming:sinks=2,window=40"] {
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let options = SessionOptions { prefill, ..options(120, policy) };
            let mut session = session(engine, options);
            let error =
                session.sync(&tokens, &mut |_| ()).expect_err(&format!("{tensor} {policy} {prefill:?}"));
            assert!(error.hint().is_some(), "{error}");
            let EngineError::NotFinite { origin } = error else { panic!("{tensor}, {policy}: {error}") };
            assert_eq!(origin.as_ref(), Some(&expected), "{policy} {prefill:?}");
            assert!(session.tokens().is_empty() && session.logits().is_empty());
            assert_eq!(session.store().seen(), 0);
        }
    }
    let mut session = session(engine, options(120, "full"));
    let error = session.all_logits(&tokens).expect_err("not finite");
    assert!(matches!(error, EngineError::NotFinite { origin: Some(_) }), "{error}");
}

#[test]
fn damaged_weights_are_named() {
    for tensor in [
        "blk.0.attn_norm.weight",
        "blk.0.attn_q.weight",
        "blk.0.attn_k.weight",
        "blk.1.attn_v.weight",
        "blk.1.attn_output.weight",
        "blk.0.ffn_norm.weight",
        "blk.1.ffn_gate.weight",
        "blk.0.ffn_up.weight",
        "blk.1.ffn_down.weight",
        "output_norm.weight",
    ] {
        check(&changed("llama-gqa-llama3rope-f32", tensor, damage), tensor);
    }
    check(&changed("qwen2-gqa-f32", "blk.1.attn_k.bias", damage), "blk.1.attn_k.bias");
    check(&changed("qwen3-gqa-f32", "blk.0.attn_q_norm.weight", damage), "blk.0.attn_q_norm.weight");
    let everywhere = |_, data: &mut [u8]| data.fill(0xff); // f32: NaN
    check(&changed("llama-mha-f32", "token_embd.weight", everywhere), "token_embd.weight");
    check(&changed("llama-mha-f32", "output.weight", everywhere), "output.weight");
}

#[test]
fn damaged_weights_of_every_type_are_named() {
    for (model, tensors) in [
        ("llama-gqa-llama3rope-f16", ["blk.0.attn_k.weight", "blk.1.ffn_up.weight"]),
        ("baichuan-alibi-f16", ["blk.0.attn_q.weight", "blk.1.ffn_down.weight"]),
        ("qwen2-gqa-q8_0", ["blk.0.attn_output.weight", "blk.1.ffn_gate.weight"]),
        ("llama-wide-mqa-q4_k_m", ["blk.0.attn_q.weight", "blk.0.ffn_up.weight"]),
        ("qwen3-wide-mqa-q6_k", ["blk.0.attn_v.weight", "blk.0.ffn_down.weight"]),
    ] {
        for tensor in tensors {
            check(&changed(model, tensor, damage), tensor);
        }
    }
    for tensor in ["blk.0.attn_k.weight", "blk.1.ffn_gate.weight"] {
        check(&changed_bytes(bf16_model(), tensor, damage), tensor);
    }
}

/// A golden model with its matrices as bf16: the upper halves of f32.
fn bf16_model() -> Vec<u8> {
    let path = tests::data("golden/models/llama-gqa-llama3rope-f32.gguf");
    let file = GgufFile::open(&path).expect("a model");
    let mut writer = GgufWriter::with_metadata_of(&file);
    for tensor in file.tensors() {
        let ty = if tensor.dims.len() > 1 { TensorType::BF16 } else { tensor.ty };
        writer.tensor(&tensor.name, &tensor.dims, ty);
    }
    let mut bytes = Vec::new();
    let data = |tensor: &TensorDecl, out: &mut dyn Write| {
        let data = file.data(file.tensor(&tensor.name).expect("a tensor"));
        match tensor.ty {
            TensorType::BF16 => data.chunks_exact(4).try_for_each(|x| out.write_all(&x[2..])),
            _ => out.write_all(data),
        }
    };
    writer.write(&mut bytes, data).expect("a model in memory");
    bytes
}

/// Products with quantised weights hide NaN from the logits.
#[test]
fn damaged_weights_are_named_when_the_first_text_is_one_token() {
    for tensor in
        ["blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.ffn_gate.weight", "blk.1.ffn_up.weight"]
    {
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let engine = changed("qwen2-gqa-q8_0", tensor, damage);
            let mut session = session(&engine, SessionOptions { prefill, ..options(120, "full") });
            let error = session.sync(&[9], &mut |_| ()).expect_err(tensor);
            assert!(error.to_string().contains(tensor), "{error}");
        }
    }
}

#[test]
fn finite_weights_that_overflow_are_named() {
    for (tensor, factor) in [
        ("blk.1.ffn_down.weight", 3e38),
        ("blk.0.attn_v.weight", 1e38),
        ("blk.1.ffn_gate.weight", 3e38),
        ("output_norm.weight", 3e38),
    ] {
        let engine = changed("llama-gqa-llama3rope-f32", tensor, scale(factor));
        let error = session(&engine, options(120, "full"))
            .sync(&random_tokens(&engine, 100, 42), &mut |_| ())
            .expect_err("it overflows");
        assert!(error.to_string().contains(tensor), "{error}");
    }
    // Products with quantised weights turn NaN into arbitrary numbers.
    for tensor in ["blk.1.ffn_norm.weight", "output_norm.weight"] {
        let engine = changed("qwen2-gqa-q8_0", tensor, scale(3e38));
        let error = session(&engine, options(120, "full"))
            .sync(&random_tokens(&engine, 100, 42), &mut |_| ())
            .expect_err("it overflows");
        assert!(matches!(error, EngineError::NotFinite { origin: Some(_) }), "{error}");
    }
    // Keys that f16 cannot hold.
    let engine = changed("llama-gqa-llama3rope-f32", "blk.1.attn_k.weight", scale(1e7));
    let options = SessionOptions { types: (ggml::Type::F16, ggml::Type::F16), ..options(120, "full") };
    let mut session = session(&engine, options);
    let error = session.sync(&random_tokens(&engine, 100, 43), &mut |_| ()).expect_err("it overflows");
    assert!(error.to_string().contains("blk.1.attn_k.weight (layer 1 of 2)"), "{error}");
}

/// Of all embeddings one is damaged. Its rows hide in the store until later tokens attend to them.
#[test]
fn a_damaged_embedding_is_found_when_its_token_is_read() {
    const BAD: u32 = 7;
    // Its output matrix is another tensor.
    let engine = changed("llama-mha-f32", "token_embd.weight", |_, data| {
        let row = data.len() / 264;
        data[BAD as usize * row..][..row].fill(0xff);
    });
    assert_eq!((engine.spec().n_vocab, engine.spec().tied_output), (264, false));
    let good: Vec<u32> =
        random_tokens(&engine, 150, 44).into_iter().map(|t| if t == BAD { 8 } else { t }).collect();
    let mut bad = good.clone();
    bad[90] = BAD;
    for policy in
        ["full", "h2o:heavy=30,recent=30", "snapkv:window=8,capacity=60", "streaming:sinks=4,window=80"]
    {
        let policy: PolicyChoice = policy.parse().expect(policy);
        for prefill in [Prefill::Exact, Prefill::Streaming] {
            let options = SessionOptions { prefill, ..with_policy(&engine, &policy, options(200, "full")) };
            let mut session = session(&engine, options);
            sync(&mut session, &good[..50]);
            let contents = || session.store().contents().expect("the store");
            let before = (contents(), session.logits().to_vec());
            let named = |error: EngineError| {
                assert!(error.to_string().contains("from token_embd.weight on"), "{error}")
            };
            // In a later text, in a step, and in a text of one token.
            named(session.sync(&bad, &mut |_| ()).expect_err("a bad token"));
            assert_eq!(session.tokens(), &good[..50], "{policy}");
            assert!(
                (session.store().contents().expect("the store"), session.logits().to_vec()) == before,
                "{policy}"
            );
            // A caller that tries again meets the same error.
            let mut reading = session.read(&bad).expect("a reading");
            for _ in 0..2 {
                let error = loop {
                    match reading.step() {
                        Ok(progress) => assert!(progress.is_some_and(|progress| progress.share < 1.0)),
                        Err(error) => break error,
                    }
                };
                named(error);
                assert_eq!(reading.session().tokens(), &good[..50], "{policy}");
            }
            drop(reading);
            named(session.push(BAD).expect_err("a bad token"));
            assert!(
                (session.store().contents().expect("the store"), session.logits().to_vec()) == before,
                "{policy}"
            );
            named(session.sync(&[&good[..50], &[BAD]].concat(), &mut |_| ()).expect_err("a bad token"));
            assert!(
                (session.store().contents().expect("the store"), session.logits().to_vec()) == before,
                "{policy}"
            );
            sync(&mut session, &good);
        }
    }
}

/// Also where tokens are computed one at a time, and most of them have no logits.
#[test]
fn a_damaged_embedding_is_found_in_a_chunk_of_one_token() {
    const BAD: u32 = 7;
    let engine = changed("llama-mha-f32", "token_embd.weight", |_, data| {
        let row = data.len() / 264;
        data[BAD as usize * row..][..row].fill(0xff);
    });
    let mut tokens: Vec<u32> =
        random_tokens(&engine, 100, 44).into_iter().map(|t| if t == BAD { 8 } else { t }).collect();
    tokens[50] = BAD;
    let options = SessionOptions { prefill: Prefill::Streaming, chunk: 1, ..options(200, "full") };
    let mut session = session(&engine, options);
    let mut reading = session.read(&tokens).expect("a reading");
    let mut read = 0.0;
    let error = loop {
        match reading.step() {
            Ok(progress) => read = progress.expect("the text is not read").share,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("from token_embd.weight on"), "{error}");
    assert!(read < 0.6, "it was found after {read} of the text");
}

/// Sessions that read a text together.
#[test]
fn sessions_that_read_together_name_the_tensor_and_are_empty() {
    let engine = changed("llama-gqa-llama3rope-f32", "blk.1.ffn_up.weight", damage);
    let mut sessions =
        ["full", "h2o:heavy=20,recent=20"].map(|policy| session(&engine, options(120, policy)));
    let error = longhand::reading::sync_all(&mut sessions, &random_tokens(&engine, 60, 45), &mut |_| ())
        .expect_err("not finite");
    assert!(error.to_string().contains("blk.1.ffn_up.weight (layer 1 of 2)"), "{error}");
    assert!(sessions.iter().all(|session| session.tokens().is_empty()));
    // The embedded model is sound.
    sync(&mut session(&embedded_model(), options(120, "full")), &[1, 2, 3]);
}
