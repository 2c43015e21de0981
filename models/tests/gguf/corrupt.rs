//! Damaged and hostile files: each must give an error that says what is wrong and what to do, and never a
//! panic, an endless loop or an allocation larger than the file justifies.

use std::io::Write;

use models::LoadError;
use models::arch::{Arch, NormKind};
use models::gguf::write::{GgufWriter, MetaValue, TensorDecl};
use models::gguf::{GgufFile, TensorType, Value, ValueType};
use models::spec::{KvHeads, ModelSpec, ModelTensors};

use crate::common::{Raw, bytes, tiny_model, tiny_spec};

/// Runs everything that reads a file.
fn load(bytes: Vec<u8>) -> Result<(), LoadError> {
    let file = GgufFile::from_bytes(bytes)?;
    read_all(&file);
    let spec = ModelSpec::from_gguf(&file)?;
    ModelTensors::from_gguf(&file, &spec)?;
    Ok(())
}

/// Reads everything in a file.
fn read_all(file: &GgufFile) {
    for (key, value) in file.metadata() {
        assert_eq!(file.get(key), Some(value));
        let _ = (file.u64(key), file.f32(key), file.bool(key), file.str(key), value.to_string());
        if let Value::Array(array) = value {
            assert!((0..array.len()).all(|i| array.get(i).is_some()), "{key}");
            assert!(array.get(array.len()).is_none());
        }
    }
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor).len() as u64, tensor.bytes, "{}", tensor.name);
        assert!(tensor.bytes > 0);
    }
    let fingerprint = file.fingerprint(2, &mut |_| true).unwrap();
    assert!(models::gguf::is_fingerprint(&fingerprint), "{fingerprint}");
}

/// The file is refused with a message that contains `expected`, and with a hint.
fn check(what: &str, bytes: Vec<u8>, expected: &str) {
    match load(bytes) {
        Ok(()) => panic!("{what}: loaded, but should give an error with \"{expected}\""),
        Err(e) => {
            let text = e.to_string();
            assert!(text.contains(expected), "{what}: \"{expected}\" is not in: {text}");
            assert!(!e.hint().is_empty(), "{what}: no hint for: {text}");
            assert!(text.len() < 2000, "{what}: {} bytes of message", text.len());
            assert!(
                !text.contains(|c: char| c.is_control() && c != '\n'),
                "{what}: control characters in: {text:?}"
            );
        }
    }
}

#[test]
fn undamaged_files_are_loaded() {
    for &arch in Arch::ALL {
        load(bytes(&tiny_model(arch))).unwrap_or_else(|e| panic!("{}: {e}", arch.name()));
    }
}

#[test]
fn damaged_headers_are_errors() {
    check("nothing", vec![], "the file is empty");
    check("too short for the magic number", b"GG".to_vec(), "begins with \"GG\"");
    check("another format", b"PK\x03\x04 and more".to_vec(), "packed with ZIP");
    check("no format", b"\xff\x03\x04 and more".to_vec(), r#"begins with "\xff\u{3}\u{4} ""#);
    check("no version", b"GGUF".to_vec(), "at byte 4: the version needs 4 bytes, but 0 are left");
    for version in [0, 1, 4, 77, u32::MAX] {
        check(
            "version",
            Raw::with_version(version, 0, 0).0,
            &format!("GGUF version {version}, but only versions 2 and 3"),
        );
    }
    for version in [1u32, 2, 3] {
        check("big-endian", Raw::with_version(version.swap_bytes(), 0, 0).0, "big-endian");
    }
}

#[test]
fn counts_larger_than_the_file_are_errors() {
    let string = 8u32;
    let array = 9u32;
    let tensor = |dims: &[u64]| Raw::new(1, 0).tensor("t", dims, 0, 0).data(64);
    for huge in [1 << 60, 1 << 63, u64::MAX, 1 << 33] {
        check("tensors", Raw::new(huge, 0).put(&[0; 64]).0, "at byte 8: the number of tensors");
        check("keys", Raw::new(0, huge).put(&[0; 64]).0, "at byte 16: the number of metadata keys");
        check(
            "length of a key",
            Raw::new(0, 1).u64(huge).put(&[0; 64]).0,
            "the name of metadata key 0 needs",
        );
        let text = Raw::new(0, 1).key("k", string, &huge.to_le_bytes()).put(&[0; 64]).0;
        check("length of a text", text, "the value of metadata key \"k\" needs");
        for element in [0u32, 6, 7, 8, 9, 10, 12] {
            let list = Raw::new(0, 1).key("k", array, &element.to_le_bytes()).u64(huge).put(&[0; 64]).0;
            check("length of a list", list, "the number of elements of the value of metadata key \"k\"");
        }
        let name = Raw::new(1, 0).u64(huge).put(&[0; 64]).0;
        check("length of a tensor's name", name, "the name of tensor 0 needs");
        check("dimension", tensor(&[huge]), "tensor \"t\"");
        check("dimensions", tensor(&[huge, huge, huge, huge]), "tensor \"t\"");
        check("offset", Raw::new(1, 0).tensor("t", &[8], 0, huge & !31).data(64), "tensor \"t\"");
    }
    // The product is 2^64, which wraps to 0.
    check("product", tensor(&[1 << 32, 1 << 32]), "its size [4294967296, 4294967296] overflows");
    // Too many, although the file is large enough for them.
    check("a million keys", Raw::new(0, 1 << 20).put(&vec![0; 15 << 20]).0, "no model has more than");
}

#[test]
fn damaged_keys_and_values_are_errors() {
    let key = |name: &str, ty: u32, value: &[u8]| Raw::new(0, 1).key(name, ty, value).0;
    check("no name", key("", 4, &[0; 4]), "the length of the name of metadata key 0 is 0");
    check(
        "long name",
        key(&"k".repeat(65_536), 4, &[0; 4]),
        "the length of the name of metadata key 0 is 65536",
    );
    check(
        "name of other bytes",
        Raw::new(0, 1).string(b"a\xffb").u32(4).u32(0).0,
        r#"is not UTF-8: "a\xffb""#,
    );
    check("type 13", key("k", 13, &[0; 8]), "the type of the value of metadata key \"k\" is 13");
    check(
        "type of elements",
        key("k", 9, &[99, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        "elements of the value of metadata key \"k\" is 99",
    );
    check("boolean", key("k", 7, &[2]), "booleans are 0 or 1");
    check(
        "list of booleans",
        key("k", 9, &[7, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2]),
        "element 2 of the value of metadata key \"k\" is 2",
    );
    check("value cut off", key("k", 10, &[0; 7]), "needs 8 bytes, but 7 are left");
    check("escape codes in a name", Raw::new(0, 1).key("\x1b[2J", 13, &[0; 8]).0, r#""\u{1b}[2J""#);
    let twice = Raw::new(0, 2).key("k", 0, &[1]).key("k", 0, &[2]).0;
    check("key twice", twice, "metadata key \"k\" occurs twice");
    let cut = Raw::new(0, 1)
        .key("k", 9, &8u32.to_le_bytes())
        .u64(3)
        .string(b"one")
        .string(b"two")
        .u64(9)
        .put(b"three")
        .0;
    check(
        "a list's last text cut off",
        cut,
        "element 2 of the value of metadata key \"k\" needs 9 bytes, but 5 are left",
    );
}

#[test]
fn arrays_of_arrays_are_errors() {
    let nested = Raw::new(0, 1).string(b"k").u32(9).u32(9).u64(1).u32(0).u64(2).put(&[5, 6]).0;
    check("an array of an array", nested, "arrays of arrays are not supported");
}

#[test]
fn messages_stay_short_where_a_value_is_large() {
    let mut writer = tiny_model(Arch::Llama);
    writer.set("llama.block_count", MetaValue::strings(vec![[b'x'; 500]; 50]));
    let error = load(bytes(&writer)).unwrap_err().to_string();
    assert!(
        error.contains("expected an integer, found array of str [\"xxx") && error.len() < 4000,
        "{error}"
    );
}

#[test]
fn damaged_tensor_descriptions_are_errors() {
    let one = |dims: &[u64], ty: u32| Raw::new(1, 0).tensor("t", dims, ty, 0).data(1024);
    check(
        "no name",
        Raw::new(1, 0).tensor("", &[8], 0, 0).data(64),
        "the length of the name of tensor 0 is 0",
    );
    check(
        "long name",
        Raw::new(1, 0).tensor(&"n".repeat(64), &[8], 0, 0).data(64),
        "the length of the name of tensor 0 is 64",
    );
    check("no dimensions", one(&[], 0), "it has 0 dimensions");
    check("five dimensions", one(&[1; 5], 0), "it has 5 dimensions");
    check(
        "a million dimensions",
        Raw::new(1, 0).string(b"t").u32(1 << 20).data(1024),
        "it has 1048576 dimensions",
    );
    check("a dimension of zero", one(&[8, 0, 8], 0), "a dimension of [8, 0, 8] is zero");
    for removed in [4, 5, 31, 33, 36, 38, 43, 1 << 31] {
        check("type", one(&[32], removed), &format!("its type {removed} is unknown or was removed"));
    }
    check("half a block", one(&[48], 2), "its rows have 48 elements, but q4_0 is stored in blocks of 32");
    check("half a block of 256", one(&[128, 2], 12), "but q4_K is stored in blocks of 256");
    check("beyond the end", one(&[257], 0), "reach beyond the end of the file");
    check("unaligned", Raw::new(1, 0).tensor("t", &[8], 0, 8).data(64), "not a multiple of the alignment 32");

    let two = |offset: u64, second: &str| {
        Raw::new(2, 0).tensor("a", &[16], 0, 0).tensor(second, &[8], 0, offset).data(96)
    };
    assert_eq!(GgufFile::from_bytes(two(64, "b")).unwrap().tensors().len(), 2);
    check(
        "overlap",
        two(32, "b"),
        "tensor \"b\": its data begin at byte 128, inside those of tensor \"a\", which end at byte 160",
    );
    check("the same data", two(0, "b"), "inside those of tensor");
    check("name twice", two(64, "a"), "tensor \"a\" occurs twice");
}

#[test]
fn alignments_are_checked() {
    let aligned = |ty: u32, value: &[u8]| {
        Raw::new(1, 1).key("general.alignment", ty, value).tensor("t", &[8], 0, 0).data(4096)
    };
    for (good, start) in [(1u32, 90), (4, 92), (64, 128), (1024, 1024)] {
        let file = GgufFile::from_bytes(aligned(4, &good.to_le_bytes())).unwrap();
        assert_eq!((file.alignment(), file.tensors()[0].offset), (good as usize, start));
    }
    for bad in [0u32, 3, 33, 1 << 17, 1 << 31, u32::MAX] {
        check(
            "alignment",
            aligned(4, &bad.to_le_bytes()),
            &format!("general.alignment is {bad}, but an alignment is a power of two"),
        );
    }
    check("negative", aligned(5, &(-32i32).to_le_bytes()), "general.alignment is -32");
    check(
        "a float",
        aligned(6, &32f32.to_le_bytes()),
        "general.alignment: expected an integer, found f32 32",
    );
}

#[test]
fn files_truncated_at_any_byte_are_errors() {
    for &arch in Arch::ALL {
        let mut whole = bytes(&tiny_model(arch));
        let end = {
            let file = GgufFile::from_bytes(whole.clone()).unwrap();
            file.tensors().iter().map(|t| t.offset + t.bytes).max().unwrap() as usize
        };
        whole.truncate(end); // what follows is padding
        load(whole.clone()).unwrap();
        // At every byte before the weights, and at some bytes of the weights.
        let data = GgufFile::from_bytes(whole.clone()).unwrap().tensors()[0].offset as usize;
        for len in (0..=data).chain((data..end).step_by(97)).chain([end - 1]) {
            check(&format!("{} of {end} bytes", len), whole[..len].to_vec(), "");
        }
    }
}

/// Every byte before the weights is replaced by others. If the file is still valid, everything in it can be
/// read.
#[test]
fn files_with_any_byte_changed_are_errors_or_valid() {
    let whole = bytes(&tiny_model(Arch::Llama));
    let data = GgufFile::from_bytes(whole.clone()).unwrap().tensors()[0].offset as usize;
    let mut refused = 0;
    for at in 0..data {
        for damage in [0x00, 0x01, 0x7f, 0x80, 0xff, whole[at] ^ 0x20] {
            let mut bytes = whole.clone();
            bytes[at] = damage;
            if let Err(e) = load(bytes) {
                assert!(!e.hint().is_empty(), "byte {at}: {e}");
                refused += 1;
            }
        }
    }
    assert!(refused > data, "only {refused} of {} damaged files were refused", data * 6);
}

/// The tiny model with changed metadata is refused with a message that contains `expected`.
fn set(key: &str, value: MetaValue) -> impl Fn(&mut GgufWriter) {
    move |writer| {
        writer.set(key, value.clone());
    }
}

fn check_spec(arch: Arch, change: impl Fn(&mut GgufWriter), expected: &str) {
    let mut writer = tiny_model(arch);
    change(&mut writer);
    check(&format!("{} {expected}", arch.name()), bytes(&writer), expected);
}

#[test]
fn missing_keys_are_errors() {
    check_spec(
        Arch::Llama,
        |w| {
            w.unset("general.architecture");
        },
        "metadata key general.architecture is missing",
    );
    for key in [
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.layer_norm_rms_epsilon",
    ] {
        for &arch in Arch::ALL {
            let key = match (key, arch.decl().norm) {
                ("attention.layer_norm_rms_epsilon", NormKind::Layer) => "attention.layer_norm_epsilon",
                _ => key,
            };
            let key = format!("{}.{key}", arch.name());
            check_spec(
                arch,
                |w| {
                    w.unset(&key);
                },
                &format!("metadata key {key} is missing"),
            );
        }
    }
}

#[test]
fn keys_with_a_default_may_be_missing() {
    let mut writer = tiny_model(Arch::Llama);
    for key in ["rope.freq_base", "rope.dimension_count", "vocab_size"] {
        writer.unset(&format!("llama.{key}"));
    }
    let file = GgufFile::from_bytes(bytes(&writer)).unwrap();
    let mut expected = tiny_spec(Arch::Llama);
    assert_eq!(ModelSpec::from_gguf(&file).unwrap(), expected);

    // Without a list of tokens, their number is that of the embedding's rows. The default number of KV heads
    // is that of query heads.
    writer.unset("tokenizer.ggml.tokens").unset("llama.attention.head_count_kv");
    let file = GgufFile::from_bytes(bytes(&writer)).unwrap();
    expected.n_kv_heads = 4;
    assert_eq!(ModelSpec::from_gguf(&file).unwrap(), expected);
}

#[test]
fn values_of_the_wrong_type_are_errors() {
    let text = |key: &'static str| {
        move |w: &mut GgufWriter| {
            w.set(key, "four");
        }
    };
    check_spec(
        Arch::Llama,
        text("llama.block_count"),
        "llama.block_count: expected an integer, found str \"four\"",
    );
    check_spec(
        Arch::Llama,
        text("llama.rope.freq_base"),
        "llama.rope.freq_base: expected a float, found str",
    );
    check_spec(
        Arch::Llama,
        text("tokenizer.ggml.tokens"),
        "tokenizer.ggml.tokens: expected an array of texts",
    );
    check_spec(
        Arch::Llama,
        |w| {
            w.set("llama.block_count", 2.0);
        },
        "expected an integer, found f32 2",
    );
    check_spec(
        Arch::Llama,
        |w| {
            w.set("llama.block_count", true);
        },
        "expected an integer, found bool true",
    );
    check_spec(
        Arch::Llama,
        |w| {
            w.set("llama.attention.layer_norm_rms_epsilon", 1u32);
        },
        "expected a float, found u32 1",
    );
    check_spec(
        Arch::Llama,
        |w| {
            w.set("general.architecture", 7u32);
        },
        "general.architecture: expected a text, found u32 7",
    );
    check_spec(
        Arch::Llama,
        |w| {
            w.set("llama.block_count", MetaValue::strings(["2"]));
        },
        "found array of str [\"2\"]",
    );
    let bad_text = MetaValue::String(b"lla\xc3".to_vec());
    check_spec(
        Arch::Llama,
        |w| {
            w.set("general.architecture", bad_text.clone());
        },
        r#"general.architecture is not UTF-8: "lla\xc3""#,
    );
    check_spec(
        Arch::Llama,
        |w| {
            w.set("general.name", bad_text.clone());
        },
        "general.name is not UTF-8",
    );
}

#[test]
fn integers_of_any_width_are_accepted() {
    let mut writer = tiny_model(Arch::Llama);
    writer.set("llama.block_count", MetaValue::I64(2));
    writer.set("llama.embedding_length", MetaValue::U8(16));
    writer.set("llama.context_length", MetaValue::U64(64));
    writer.set("llama.attention.head_count", MetaValue::I16(4));
    writer.set("llama.rope.freq_base", MetaValue::F64(10_000.0));
    // Some converters write a value per layer even if it is the same for all.
    writer.set("llama.feed_forward_length", MetaValue::i32s([24, 24]));
    let file = GgufFile::from_bytes(bytes(&writer)).unwrap();
    assert_eq!(ModelSpec::from_gguf(&file).unwrap(), tiny_spec(Arch::Llama));
}

#[test]
fn values_out_of_range_are_errors() {
    let set = |key: &'static str, value: MetaValue| {
        move |w: &mut GgufWriter| {
            w.set(format!("llama.{key}"), value.clone());
        }
    };
    let u = MetaValue::U32;
    let cases: &[(&str, MetaValue, &str)] = &[
        ("block_count", u(0), "llama.block_count is 0, but it has to be 1 to"),
        ("block_count", u(1 << 31), "llama.block_count is 2147483648"),
        ("block_count", MetaValue::U64(u64::MAX), "llama.block_count is 18446744073709551615"),
        ("block_count", MetaValue::I32(-2), "llama.block_count is -2, but cannot be negative"),
        ("block_count", u(3), "the 20 tensors of the file do not make so many layers"),
        ("block_count", u(1), "tensor \"blk.1.attn_norm.weight\" is not part of the llama architecture"),
        ("embedding_length", u(0), "llama.embedding_length is 0"),
        ("embedding_length", u(u32::MAX), "llama.embedding_length is 4294967295"),
        (
            "embedding_length",
            u(24),
            "token_embd.weight has shape [16, 10], but the metadata ask for [24, 10]",
        ),
        ("feed_forward_length", u(0), "llama.feed_forward_length is 0"),
        (
            "feed_forward_length",
            u(25),
            "blk.0.ffn_gate.weight has shape [16, 24], but the metadata ask for [16, 25]",
        ),
        (
            "feed_forward_length",
            MetaValue::i32s([24, 32]),
            "llama.feed_forward_length = [24, 32] is not supported: layers of unequal size",
        ),
        ("feed_forward_length", MetaValue::i32s([24]), "there are 2 layers"),
        ("feed_forward_length", MetaValue::i32s([]), "there are 2 layers"),
        ("feed_forward_length", MetaValue::i32s([-1, -1]), "llama.feed_forward_length is -1"),
        (
            "feed_forward_length",
            MetaValue::f32s([24.0, 24.0]),
            "expected an array of integers, found array of f32",
        ),
        ("attention.head_count", u(0), "llama.attention.head_count is 0"),
        ("attention.head_count", u(1 << 20), "llama.attention.head_count is 1048576"),
        ("attention.head_count_kv", u(0), "llama.attention.head_count_kv is 0"),
        ("attention.head_count_kv", u(3), "it has to divide the 4 query heads"),
        ("attention.head_count_kv", u(8), "it has to divide the 4 query heads"),
        ("attention.key_length", u(0), "llama.attention.key_length is 0"),
        ("attention.key_length", u(7), "RoPE needs an even number"),
        ("attention.key_length", u(1 << 16), "llama.attention.key_length is 65536"),
        (
            "attention.value_length",
            u(4),
            "llama.attention.value_length = 4 is not supported: keys have 8 elements",
        ),
        ("attention.layer_norm_rms_epsilon", MetaValue::F32(0.0), "it has to lie between 0 and 1"),
        ("attention.layer_norm_rms_epsilon", MetaValue::F32(-1e-5), "it has to lie between 0 and 1"),
        (
            "attention.layer_norm_rms_epsilon",
            MetaValue::F32(f32::NAN),
            "is NaN, but it has to lie between 0 and 1",
        ),
        ("attention.layer_norm_rms_epsilon", MetaValue::F64(1e300), "is inf, but"),
        ("context_length", u(0), "llama.context_length is 0"),
        ("context_length", u(1 << 31), "llama.context_length is 2147483648"),
        ("rope.dimension_count", u(16), "llama.rope.dimension_count is 16, but a head has only 8 elements"),
        ("rope.dimension_count", u(4), "llama.rope.dimension_count = 4 is not supported"),
        ("rope.dimension_count", u(0), "llama.rope.dimension_count is 0"),
        ("rope.freq_base", MetaValue::F32(0.0), "llama.rope.freq_base is 0"),
        ("rope.freq_base", MetaValue::F32(f32::INFINITY), "llama.rope.freq_base is inf"),
        ("rope.freq_base", MetaValue::F32(-10_000.0), "llama.rope.freq_base is -10000"),
        ("rope.scaling.factor", MetaValue::F32(-2.0), "llama.rope.scaling.factor is -2"),
        ("rope.scaling.factor", MetaValue::F32(f32::NAN), "llama.rope.scaling.factor is NaN"),
        ("rope.scaling.factor", MetaValue::F32(1e-39), "but it has to be 0.000001 to 1000000, or 0"),
        ("rope.scaling.factor", MetaValue::F32(1e7), "llama.rope.scaling.factor is 10000000, but"),
        ("rope.scale_linear", MetaValue::F32(f32::NAN), "llama.rope.scale_linear is NaN"),
        ("rope.scale_linear", MetaValue::F32(1e-39), "llama.rope.scale_linear is 0.0"),
        ("rope.scaling.attn_factor", MetaValue::F32(2.0), "only YaRN scales attention"),
    ];
    for (key, value, expected) in cases {
        check_spec(Arch::Llama, set(key, value.clone()), expected);
    }
    // The list of tokens takes precedence over `vocab_size`.
    check_spec(
        Arch::Llama,
        |w| {
            w.set("tokenizer.ggml.tokens", MetaValue::strings(["a", "b"]));
        },
        "token_embd.weight has shape [16, 10], but the metadata ask for [16, 2]",
    );
    check_spec(
        Arch::Llama,
        |w| {
            w.set("tokenizer.ggml.tokens", MetaValue::Array(ValueType::String, vec![]));
        },
        "llama.vocab_size is 0",
    );
    check_spec(
        Arch::Llama,
        |w| {
            w.unset("llama.attention.key_length").unset("llama.attention.value_length");
            w.set("llama.attention.head_count", 6u32);
        },
        "it has to divide the embedding length 16",
    );
}

#[test]
fn unsupported_settings_are_errors() {
    let u = MetaValue::U32;
    let f = MetaValue::F32;
    let cases: &[(Arch, &str, MetaValue, &str)] = &[
        (
            Arch::Llama,
            "general.architecture",
            "mamba".into(),
            "\"mamba\" is not supported; supported are llama, qwen2, qwen3, qwen2moe",
        ),
        (Arch::Llama, "general.architecture", "Llama".into(), "\"Llama\" is not supported"),
        (Arch::Llama, "general.architecture", "\x1b[31m".into(), r#""\u{1b}[31m" is not supported"#),
        (Arch::Llama, "general.type", "adapter".into(), "general.type = \"adapter\" is not supported"),
        (
            Arch::Qwen3,
            "qwen3.expert_group_count",
            u(8),
            "qwen3.expert_group_count = 8 is not supported: it means a mixture of experts",
        ),
        (Arch::Qwen3, "qwen3.expert_count", u(128), "qwen3.expert_count = 128 is not supported"),
        (
            Arch::Llama,
            "llama.rope.scaling.type",
            "longrope".into(),
            "llama.rope.scaling.type = \"longrope\" is not supported",
        ),
        (
            Arch::Llama,
            "llama.rope.scaling.type",
            "su".into(),
            "llama.rope.scaling.type = \"su\" is not supported",
        ),
        (
            Arch::Llama,
            "llama.rope.scaling.alpha",
            f(1000.0),
            "llama.rope.scaling.alpha = 1000 is not supported",
        ),
        (
            Arch::Llama,
            "llama.logit_scale",
            f(0.0625),
            "llama.logit_scale = 0.0625 is not supported: it means scaled output logits",
        ),
        (Arch::Llama, "llama.attn_logit_softcapping", f(50.0), "soft-capped attention logits"),
        (Arch::Llama, "llama.final_logit_softcapping", f(30.0), "soft-capped output logits"),
        (Arch::Llama, "llama.residual_scale", f(0.22), "scaled residuals"),
        (Arch::Llama, "llama.embedding_scale", f(12.0), "scaled embeddings"),
        (Arch::Llama, "llama.attention.scale", f(0.015), "a custom attention scale"),
        (Arch::Llama, "llama.attention.max_alibi_bias", f(8.0), "ALiBi"),
        (Arch::Llama, "llama.attention.causal", false.into(), "an encoder"),
        (Arch::Llama, "llama.attention.causal", u(1), "llama.attention.causal = 1 is not supported"),
        (Arch::Llama, "llama.use_parallel_residual", true.into(), "parallel residuals"),
        (Arch::Qwen2, "qwen2.pooling_type", u(3), "an embedding or ranking model"),
        (
            Arch::Qwen2,
            "qwen2.attention.sliding_window",
            u(32),
            "qwen2.attention.sliding_window = 32 is not supported",
        ),
        (
            Arch::Qwen3,
            "qwen3.attention.sliding_window",
            u(63),
            "qwen3.attention.sliding_window = 63 is not supported",
        ),
        (
            Arch::Baichuan,
            "baichuan.block_count",
            u(39),
            "baichuan.block_count = 39 is not supported: the position encoding is only known for models with 32 and 40 layers",
        ),
        (
            Arch::Llama,
            "llama.brand_new",
            u(1),
            "\"llama.brand_new\" = 1 is not supported: its effect is unknown",
        ),
    ];
    for (arch, key, value, expected) in cases {
        check_spec(*arch, set(key, value.clone()), expected);
    }
}

#[test]
fn settings_without_effect_are_accepted() {
    let mut writer = tiny_model(Arch::Llama);
    writer.set("llama.expert_count", 0u32);
    writer.set("llama.expert_used_count", 0u32);
    writer.set("llama.logit_scale", 1.0);
    writer.set("llama.attention.causal", true);
    writer.set("llama.pooling_type", 0u32);
    writer.set("llama.tensor_data_layout", "Meta AI original pth");
    writer.set("llama.rope.scaling.type", "none");
    writer.set("llama.rope.scaling.finetuned", true);
    writer.set("qwen2.expert_count", 60u32); // of another architecture
    let mut expected = tiny_spec(Arch::Llama);
    let spec = |w: &GgufWriter| ModelSpec::from_gguf(&GgufFile::from_bytes(bytes(w)).unwrap()).unwrap();
    assert_eq!(spec(&writer), expected);
    // As in Mistral 7B v0.1: reported, not applied.
    writer.set("llama.attention.sliding_window", 32u32);
    expected.ignored_sliding_window = Some(32);
    assert_eq!(spec(&writer), expected);

    // A window as long as the context, or 0, has no effect.
    for window in [0u32, 64, 4096] {
        let mut writer = tiny_model(Arch::Qwen2);
        writer.set("qwen2.attention.sliding_window", window);
        assert_eq!(spec(&writer), tiny_spec(Arch::Qwen2));
    }
}

#[test]
fn invalid_yarn_values_are_errors() {
    let with = |changes: &'static [(&'static str, f32)]| {
        move |w: &mut GgufWriter| {
            w.set("llama.rope.scaling.type", "yarn");
            for &(key, value) in changes {
                w.set(format!("llama.rope.scaling.{key}"), value);
            }
        }
    };
    check_spec(
        Arch::Llama,
        with(&[("factor", 0.5)]),
        "llama.rope.scaling.factor is 0.5, but YaRN stretches by 1 or more",
    );
    check_spec(Arch::Llama, with(&[("yarn_beta_fast", 0.0)]), "llama.rope.scaling.yarn_beta_fast is 0");
    check_spec(Arch::Llama, with(&[("yarn_beta_slow", 40.0)]), "it has to be more than the slow beta 40");
    check_spec(Arch::Llama, with(&[("yarn_ext_factor", 7.0)]), "llama.rope.scaling.yarn_ext_factor is 7");
    check_spec(Arch::Llama, with(&[("attn_factor", 0.0)]), "llama.rope.scaling.attn_factor is 0");
    for (key, value) in
        [("attn_factor", 1e30), ("attn_factor", 1e-39), ("yarn_beta_fast", 1e30), ("factor", 1e30)]
    {
        let expected = format!("llama.rope.scaling.{key} is {value}, but it has to be 0.000001 to 1000000");
        let change = move |w: &mut GgufWriter| {
            w.set("llama.rope.scaling.type", "yarn");
            w.set(format!("llama.rope.scaling.{key}"), value);
        };
        check_spec(Arch::Llama, change, &expected);
    }
    check_spec(Arch::Llama, with(&[("yarn_attn_factor", 0.0)]), "llama.rope.scaling.yarn_attn_factor is 0");
    // Other programs use these with other types of scaling, too.
    for (key, value) in [("yarn_attn_factor", 2.0), ("yarn_ext_factor", 1.0), ("attn_factor", 2.0)] {
        for kind in ["linear", "none"] {
            let change = move |w: &mut GgufWriter| {
                w.set("llama.rope.scaling.type", kind);
                w.set(format!("llama.rope.scaling.{key}"), value);
            };
            check_spec(Arch::Llama, change, &format!("llama.rope.scaling.{key}"));
        }
    }
    check_spec(
        Arch::Llama,
        with(&[("original_context_length", 4.0)]),
        "original_context_length: expected an integer",
    );
}

/// The tiny model with one tensor changed is refused with a message that contains `expected`.
fn check_tensor(arch: Arch, name: &str, change: impl Fn(&mut TensorDecl), expected: &str) {
    let mut writer = tiny_model(arch);
    let tensor = writer.tensors_mut().iter_mut().find(|t| t.name == name);
    change(tensor.unwrap_or_else(|| panic!("no tensor {name}")));
    check(&format!("{} {name}", arch.name()), bytes(&writer), expected);
}

#[test]
fn missing_and_wrong_tensors_are_errors() {
    let rename = |t: &mut TensorDecl| t.name = "other".into();
    check_tensor(
        Arch::Llama,
        "blk.1.ffn_down.weight",
        rename,
        "tensor blk.1.ffn_down.weight [24, 16] is missing",
    );
    check_tensor(Arch::Llama, "token_embd.weight", rename, "tensor token_embd.weight [16, 10] is missing");
    check_tensor(Arch::Qwen2, "blk.0.attn_q.bias", rename, "tensor blk.0.attn_q.bias [32] is missing");
    check_tensor(
        Arch::Qwen3,
        "blk.1.attn_k_norm.weight",
        rename,
        "tensor blk.1.attn_k_norm.weight [8] is missing",
    );
    let shape = |dims: &'static [u64]| move |t: &mut TensorDecl| t.dims = dims.to_vec();
    check_tensor(
        Arch::Llama,
        "blk.0.attn_k.weight",
        shape(&[16, 32]),
        "blk.0.attn_k.weight has shape [16, 32], but the metadata ask for [16, 16]",
    );
    check_tensor(Arch::Llama, "blk.0.attn_k.weight", shape(&[256]), "has shape [256]");
    check_tensor(Arch::Llama, "blk.0.attn_k.weight", shape(&[16, 16, 2]), "has shape [16, 16, 2]");
    check_tensor(Arch::Llama, "output_norm.weight", shape(&[1, 16]), "has shape [1, 16]");
    let ty = |ty: TensorType| move |t: &mut TensorDecl| t.ty = ty;
    check_tensor(
        Arch::Llama,
        "blk.0.attn_norm.weight",
        ty(TensorType::F16),
        "tensor blk.0.attn_norm.weight is of type f16, but norms",
    );
}

#[test]
fn shapes_may_end_in_ones() {
    let mut writer = tiny_model(Arch::Llama);
    for tensor in writer.tensors_mut() {
        tensor.dims.resize(4, 1);
    }
    load(bytes(&writer)).unwrap();
}

#[test]
fn unknown_tensors_and_files_without_tensors_are_errors() {
    let mut writer = tiny_model(Arch::Llama);
    writer.tensor("blk.0.attn_q.scale", &[1], TensorType::F32);
    check(
        "a scale nobody would apply",
        bytes(&writer),
        "tensor \"blk.0.attn_q.scale\" is not part of the llama architecture",
    );

    let mut writer = tiny_model(Arch::Llama);
    writer.tensors_mut().clear();
    check("no tensors", bytes(&writer), "the file has a vocabulary but no tensors");
}

#[test]
fn version_2_is_read_like_version_3() {
    let mut old = bytes(&tiny_model(Arch::Llama));
    old[4] = 2;
    let file = GgufFile::from_bytes(old.clone()).unwrap();
    assert_eq!(file.version(), 2);
    load(old).unwrap();
}

#[test]
fn rope_factors_are_checked() {
    let with = |factor: f32| {
        let mut writer = tiny_model(Arch::Llama);
        writer.tensor("rope_freqs.weight", &[4], TensorType::F32);
        let mut out = Vec::new();
        let data = [1.0, factor, 2.0, 8.0].map(f32::to_le_bytes).concat();
        let write = |t: &TensorDecl, out: &mut dyn Write| match t.name.as_str() {
            "rope_freqs.weight" => out.write_all(&data),
            _ => out.write_all(&vec![0; t.bytes().unwrap() as usize]),
        };
        writer.write(&mut out, write).unwrap();
        out
    };
    load(with(4.0)).unwrap();
    load(with(1e30)).unwrap();
    for bad in [0.0, -1.0, 1e-40, 1e-7, f32::NAN, f32::INFINITY] {
        check("factor", with(bad), &format!("tensor \"rope_freqs.weight\": it contains {bad:?}, but"));
    }
    check_spec(
        Arch::Qwen2,
        |w| {
            w.tensor("rope_freqs.weight", &[4], TensorType::F32);
        },
        "tensor \"rope_freqs.weight\" is not part of the qwen2 architecture",
    );
}

/// Settings of single architectures with values that no model has.
#[test]
fn hostile_settings_of_architectures_are_errors() {
    for (arch, key) in [
        (Arch::Granite, "attention.scale"),
        (Arch::Granite, "embedding_scale"),
        (Arch::Granite, "residual_scale"),
        (Arch::Granite, "logit_scale"),
        (Arch::MiniCpm, "logit_scale"),
        (Arch::CommandR, "logit_scale"),
        (Arch::Mpt, "attention.clamp_kqv"),
        (Arch::Mistral3, "attention.temperature_scale"),
    ] {
        for value in [f32::NAN, f32::INFINITY, -1.0, 1e-30, 1e30] {
            let key = format!("{}.{key}", arch.name());
            let expected = format!("{key} is {value}, but it has to be 0.000001 to 1000000, or 0");
            check_spec(arch, set(&key, value.into()), &expected);
        }
    }
    for bias in [0.0, -8.0, 101.0, f32::NAN, f32::INFINITY] {
        let key = "mpt.attention.max_alibi_bias";
        let expected = format!("{key} is {bias}, but it has to be above 0, for ALiBi, and at most 100");
        check_spec(Arch::Mpt, set(key, bias.into()), &expected);
    }
    for (arch, key, value, expected) in [
        (Arch::Gemma, "gemma.logit_scale", MetaValue::F32(0.5), "logit_scale = 0.5 is not supported"),
        (Arch::Granite, "granite.rope.scaling.finetuned", MetaValue::Bool(false), "it switches RoPE off"),
        (Arch::StableLm, "stablelm.use_parallel_residual", MetaValue::U32(1), "expected a bool"),
        (Arch::Gpt2, "gpt2.attention.layer_norm_epsilon", MetaValue::F32(f32::NAN), "between 0 and 1"),
        (Arch::ChatGlm, "chatglm.rope.dimension_count", MetaValue::U32(3), "RoPE rotates pairs"),
        (Arch::ChatGlm, "chatglm.rope.dimension_count", MetaValue::U32(10), "a head has only 8 elements"),
        (Arch::Olmo2, "olmo2.rope.dimension_count", MetaValue::U32(4), "RoPE rotates all 8 elements"),
        (Arch::Qwen3, "qwen3.attention.sliding_window", MetaValue::U32(8), "sliding_window = 8 is not"),
        (Arch::Mistral3, "mistral3.attention.temperature_scale", MetaValue::U32(1), "expected a float"),
        (Arch::Gpt2, "gpt2.context_length", MetaValue::U32(65), "position_embd.weight has shape [16, 64]"),
    ] {
        check_spec(arch, set(key, value), expected);
    }
}

/// Ministral 3: queries are scaled by position, and YaRN changes magnitudes by a multiplier.
#[test]
fn hostile_settings_of_scales_by_position_are_errors() {
    let yarn = |w: &mut GgufWriter| {
        w.set("mistral3.rope.scaling.type", "yarn");
        w.set("mistral3.rope.scaling.factor", 4.0f32);
        w.set("mistral3.attention.temperature_scale", 0.1f32);
    };
    for value in [f32::NAN, f32::INFINITY, -1.0, 1e30] {
        let key = "mistral3.rope.scaling.yarn_log_multiplier";
        let with_multiplier = |w: &mut GgufWriter| {
            yarn(w);
            w.set(key, value);
        };
        check_spec(Arch::Mistral3, with_multiplier, &format!("{key} is {value}, but it has to be"));
    }
    for length in [0u32, 1 << 31] {
        let key = "mistral3.attention.temperature_length";
        let with_length = |w: &mut GgufWriter| {
            yarn(w);
            w.set(key, length);
        };
        check_spec(Arch::Mistral3, with_length, &format!("{key} is {length}, but it has to be 1 to"));
    }
}

/// DeepSeek-V2: the sizes of latent vectors, and the scale of attention.
#[test]
fn hostile_settings_of_latent_attention_are_errors() {
    let (u, f) = (MetaValue::U32, MetaValue::F32);
    for (key, value, expected) in [
        ("attention.kv_lora_rank", u(0), "kv_lora_rank is 0, but it has to be 1 to 4096"),
        ("attention.kv_lora_rank", u(1 << 31), "kv_lora_rank is 2147483648, but it has to be 1 to 4096"),
        ("attention.kv_lora_rank", u(6), "key_length is 8, but it has to be 10, for a latent vector of 6"),
        ("attention.kv_lora_rank", f(4.0), "kv_lora_rank"),
        ("attention.key_length_mla", u(0), "key_length_mla is 0, but it has to be 1 to 4096"),
        ("attention.key_length_mla", u(4), "key_length_mla is 4, but it has to be more than the 4 rotated"),
        ("attention.key_length_mla", u(1 << 31), "key_length_mla is 2147483648, but it has to be"),
        ("attention.key_length_mla", u(16), "blk.0.attn_q.weight has shape [16, 32], but the metadata ask"),
        ("attention.value_length_mla", u(0), "value_length_mla is 0, but it has to be 1 to 4096"),
        ("attention.value_length_mla", u(1 << 31), "value_length_mla is 2147483648, but it has to be"),
        ("attention.value_length_mla", u(8), "blk.0.attn_v_b.weight has shape [4, 4, 4], but the metadata"),
        ("attention.key_length", u(1 << 31), "key_length is 2147483648, but it has to be 8, for a latent"),
        ("attention.value_length", u(8), "value_length is 8, but it has to be 4, for a latent vector of 4"),
        ("attention.head_count_kv", u(4), "head_count_kv is 4, but it has to be 1, for a latent vector"),
        ("attention.head_count", u(1 << 31), "head_count is 2147483648, but it has to be"),
        ("rope.dimension_count", u(0), "rope.dimension_count is 0, but it has to be 1 to"),
        ("rope.dimension_count", u(1 << 31), "rope.dimension_count is 2147483648, but it has to be"),
        ("attention.scale", f(f32::NAN), "attention.scale is NaN, but it has to be"),
        ("attention.temperature_scale", f(f32::NAN), "temperature_scale is NaN, but it has to be"),
        ("nextn_predict_layers", u(2), "nextn_predict_layers is 2, but it has to be less than the 2 layers"),
    ] {
        check_spec(Arch::DeepSeek2, set(&format!("deepseek2.{key}"), value), expected);
    }
    for key in ["kv_lora_rank", "key_length_mla", "value_length_mla"].map(|key| format!("attention.{key}")) {
        let key = format!("deepseek2.{key}");
        let remove = |w: &mut GgufWriter| {
            w.unset(&key);
        };
        check_spec(Arch::DeepSeek2, remove, &format!("metadata key {key} is missing"));
    }
    for value in [f32::NAN, f32::INFINITY, -0.1, 1e30] {
        let yarn = |w: &mut GgufWriter| {
            w.unset("deepseek2.attention.scale");
            w.set("deepseek2.rope.scaling.type", "yarn");
            w.set("deepseek2.rope.scaling.factor", 4.0f32);
            w.set("deepseek2.rope.scaling.yarn_log_multiplier", value);
        };
        check_spec(Arch::DeepSeek2, yarn, &format!("yarn_log_multiplier is {value}, but it has to be"));
    }
}

/// Converters leave out what a model's own settings do not have.
#[test]
fn settings_that_follow_from_others_may_be_missing() {
    let mut latent = tiny_model(Arch::DeepSeek2);
    latent.unset("deepseek2.attention.head_count_kv");
    load(bytes(&latent)).expect("latent attention has one KV head");
    let mut experts = tiny_model(Arch::Qwen35Moe);
    let file = GgufFile::from_bytes(bytes(&experts)).expect("a file");
    let width = ModelSpec::from_gguf(&file).expect("a model").n_ff as u32;
    experts.unset("qwen35moe.feed_forward_length").set("qwen35moe.expert_feed_forward_length", width);
    load(bytes(&experts)).expect("all layers have experts, whose width is known");
    check_spec(
        Arch::Qwen35,
        |w| _ = w.unset("qwen35.feed_forward_length"),
        "qwen35.feed_forward_length is missing",
    );
}

/// Files from before llama.cpp absorbed the matrices have one tensor for keys and values.
#[test]
fn old_files_with_latent_attention_are_refused() {
    let old = |w: &mut GgufWriter| {
        w.unset("deepseek2.attention.key_length_mla");
        w.unset("deepseek2.attention.value_length_mla");
        w.tensors_mut()[2].name = "blk.0.attn_kv_b.weight".into();
    };
    check_spec(Arch::DeepSeek2, old, "convert the model again, or get a newer file");
}

#[test]
fn tensors_of_latent_attention_have_to_be_there() {
    for name in ["attn_kv_a_mqa", "attn_kv_a_norm", "attn_k_b", "attn_v_b", "attn_q"] {
        let name = format!("blk.1.{name}.weight");
        let rename = |w: &mut GgufWriter| {
            w.tensors_mut().iter_mut().filter(|t| t.name == name).for_each(|t| t.name += "x");
        };
        check_spec(Arch::DeepSeek2, rename, &format!("tensor {name}"));
    }
}

/// Experts are chosen from some of several equal groups.
#[test]
fn hostile_groups_of_experts_are_errors() {
    let groups = |experts: u32, used: u32, groups: u32, used_groups: u32| {
        move |w: &mut GgufWriter| {
            w.set("qwen3moe.expert_count", experts);
            w.set("qwen3moe.expert_used_count", used);
            w.set("qwen3moe.expert_group_count", groups);
            w.set("qwen3moe.expert_group_used_count", used_groups);
        }
    };
    for (settings, expected) in [
        (groups(6, 2, 4, 2), "expert_group_count is 4, but it has to divide the 6 experts"),
        (groups(6, 2, 3, 4), "expert_group_used_count is 4, but it has to be 1 to 3"),
        (groups(6, 3, 3, 1), "these groups have 2 experts, and a token uses 3"),
    ] {
        check_spec(Arch::Qwen3Moe, settings, expected);
    }
}

/// Numbers of experts, how they are chosen, and the layers that have them.
#[test]
fn hostile_settings_of_experts_are_errors() {
    let (u, f) = (MetaValue::U32, MetaValue::F32);
    for (arch, key, value, expected) in [
        (Arch::Qwen3Moe, "expert_count", u(0), "expert_count is 0, but it has to be 2 to 4096"),
        (Arch::Qwen3Moe, "expert_count", u(1), "expert_count is 1, but it has to be 2 to 4096"),
        (Arch::Qwen3Moe, "expert_count", u(1 << 31), "expert_count is 2147483648, but it has to be 2 to"),
        (Arch::Qwen3Moe, "expert_count", MetaValue::I32(-1), "expert_count"),
        (
            Arch::Qwen3Moe,
            "expert_count",
            u(3),
            "ffn_gate_inp.weight has shape [16, 2], but the metadata ask for",
        ),
        (Arch::Qwen3Moe, "expert_used_count", u(0), "expert_used_count is 0, but it has to be 1 to 2"),
        (Arch::Qwen3Moe, "expert_used_count", u(3), "expert_used_count is 3, but it has to be 1 to 2"),
        (Arch::Qwen3Moe, "expert_used_count", u(1 << 31), "expert_used_count is 2147483648"),
        (
            Arch::Qwen3Moe,
            "expert_weights_scale",
            f(f32::NAN),
            "expert_weights_scale is NaN, but it has to be",
        ),
        (Arch::Qwen3Moe, "expert_weights_scale", f(-1.0), "expert_weights_scale is -1, but it has to be"),
        (Arch::Qwen3Moe, "expert_weights_norm", u(1), "expected a bool"),
        (
            Arch::Qwen3Moe,
            "expert_gating_func",
            u(4),
            "expert_gating_func = 4 is not supported: known are 1, 2",
        ),
        (
            Arch::Qwen3Moe,
            "expert_gating_func",
            u(1 << 31),
            "expert_gating_func = 2147483648 is not supported",
        ),
        (Arch::Qwen3Moe, "expert_group_count", u(4), "expert_group_count is 4, but it has to be 1 to 2"),
        (Arch::Qwen3Moe, "expert_group_count", u(1 << 31), "expert_group_count is 2147483648, but it has"),
        (Arch::Qwen3Moe, "expert_group_used_count", u(2), "group_used_count is 2, but it has to be 1 to 1"),
        (Arch::Qwen3Moe, "expert_group_used_count", u(1 << 31), "group_used_count is 2147483648, but it"),
        (Arch::Qwen3Moe, "expert_feed_forward_length", u(0), "expert_feed_forward_length is 0, but it has"),
        (
            Arch::Qwen3Moe,
            "expert_feed_forward_length",
            u(1 << 31),
            "expert_feed_forward_length is 2147483648",
        ),
        (
            Arch::Qwen3Moe,
            "expert_feed_forward_length",
            u(12),
            "has shape [16, 24, 2], but the metadata ask for",
        ),
        (
            Arch::Qwen3Moe,
            "leading_dense_block_count",
            u(1),
            "tensor blk.0.ffn_gate.weight [16, 24] is missing",
        ),
        (Arch::Qwen3Moe, "leading_dense_block_count", u(1 << 31), "but there are 2 layers"),
        (
            Arch::Qwen3Moe,
            "interleave_moe_layer_step",
            u(0),
            "interleave_moe_layer_step is 0, but it has to be 1",
        ),
        (Arch::Qwen2Moe, "expert_shared_feed_forward_length", u(1 << 31), "but it has to be 1 to 16777216"),
        (Arch::Qwen2Moe, "expert_shared_feed_forward_length", u(5), "shexp.weight has shape"),
        (Arch::Qwen3Moe, "expert_shared_count", u(1), "ffn_gate_shexp.weight [16, 24] is missing"),
        (
            Arch::Qwen3Moe,
            "expert_shared_count",
            u(1 << 31),
            "expert_shared_count is 2147483648, but it has to be",
        ),
        (
            Arch::Glm4Moe,
            "nextn_predict_layers",
            u(2),
            "nextn_predict_layers is 2, but it has to be less than",
        ),
        (Arch::Glm4Moe, "nextn_predict_layers", u(1 << 31), "nextn_predict_layers is 2147483648, but it has"),
        (Arch::Llama, "expert_count", u(8), "llama.expert_used_count"),
    ] {
        let key = format!("{}.{key}", arch.name());
        check_spec(arch, set(&key, value), expected);
    }
    for key in ["qwen3moe.expert_count", "qwen3moe.expert_used_count"] {
        let remove = |w: &mut GgufWriter| {
            w.unset(key);
        };
        check_spec(Arch::Qwen3Moe, remove, &format!("metadata key {key} is missing"));
    }
}

#[test]
fn impossible_recurrent_layers_are_errors() {
    let u = |n: u32| MetaValue::U32(n);
    let flags = |flags: &[bool]| {
        MetaValue::Array(ValueType::Bool, flags.iter().copied().map(MetaValue::Bool).collect())
    };
    for (key, value, expected) in [
        ("ssm.conv_kernel", u(0), "ssm.conv_kernel is 0, but it has to be 1"),
        ("ssm.conv_kernel", u(1 << 31), "ssm.conv_kernel is 2147483648, but it has to be"),
        (
            "ssm.conv_kernel",
            u(2),
            "ssm.conv_kernel is 2, but sizes that can be computed are [3, 4, 5, 9, 15]",
        ),
        ("ssm.conv_kernel", u(5), "ssm_conv1d.weight has shape"),
        ("ssm.state_size", u(0), "ssm.state_size is 0, but it has to be 1"),
        ("ssm.state_size", u(48), "sizes that can be computed are [16, 32, 64, 128]"),
        ("ssm.group_count", u(3), "ssm.group_count is 3, but it has to divide the 1 heads of values"),
        ("ssm.group_count", u(0), "ssm.group_count is 0"),
        ("ssm.time_step_rank", u(1 << 31), "ssm.time_step_rank is 2147483648"),
        ("ssm.inner_size", u(17), "ssm.inner_size is 17, but 1 heads of 16 elements are 16"),
        ("attention.recurrent_layers", flags(&[true]), "2 times true or false"),
        ("attention.recurrent_layers", flags(&[true, true]), "at least one layer has to attend"),
        ("attention.recurrent_layers", u(1), "a list with a flag for each layer"),
        ("attention.recurrent_layers", flags(&[false, true]), "blk.0.attn_q.weight"),
        ("rope.dimension_sections", MetaValue::i32s([1, 0, 0, 3]), "have a position that texts do not have"),
        ("rope.dimension_sections", MetaValue::i32s([1, 1]), "it has to be four sizes"),
        ("rope.dimension_sections", MetaValue::i32s([-1, 1, 1, 1]), "it has to be four sizes"),
    ] {
        check_spec(Arch::Qwen35, set(&format!("qwen35.{key}"), value), expected);
    }
    for (sections, expected) in [
        (&[1, 1, 1, 1][..], "some of the 4 pairs of elements have a position that texts do not have"),
        (&[2, 2], "it has to be four sizes"),
        (&[1, 1, 1, 0, 0], "it has to be four sizes"),
        (&[1, 5000, 1, 0], "it has to be four sizes"),
    ] {
        let value = MetaValue::i32s(sections.iter().copied());
        check_spec(Arch::Glm4, set("glm4.rope.dimension_sections", value), expected);
    }
    let interval = |every: u32| {
        move |w: &mut GgufWriter| {
            w.unset("qwen35.attention.recurrent_layers");
            w.set("qwen35.full_attention_interval", every);
        }
    };
    check_spec(Arch::Qwen35, interval(0), "full_attention_interval is 0");
    check_spec(Arch::Qwen35, interval(3), "full_attention_interval = 3 is not supported: at least one layer");
    let old = |w: &mut GgufWriter| {
        let mut tensors = w.tensors_mut().iter_mut();
        let qkv = tensors.find(|tensor| tensor.name == "blk.0.attn_qkv.weight").expect("a tensor");
        qkv.name = "blk.0.ssm_in.weight".into();
    };
    check_spec(Arch::Qwen35, old, "convert the model again");
    let mut writer = tiny_model(Arch::Qwen35);
    interval(2)(&mut writer);
    load(bytes(&writer)).expect("every second layer attends");
}

#[test]
fn experts_of_other_shapes_are_errors() {
    let dims = |name: &'static str, dims: [u64; 3]| {
        move |w: &mut GgufWriter| {
            w.tensors_mut().iter_mut().filter(|t| t.name == name).for_each(|t| t.dims = dims.to_vec())
        }
    };
    for (name, found) in [
        ("blk.0.ffn_gate_exps.weight", [16, 24, 3]),
        ("blk.0.ffn_up_exps.weight", [24, 16, 2]),
        ("blk.1.ffn_down_exps.weight", [24, 17, 2]),
    ] {
        let expected =
            format!("{name} has shape [{}, {}, {}], but the metadata ask for", found[0], found[1], found[2]);
        check_spec(Arch::Qwen3Moe, dims(name, found), &expected);
    }
    for (arch, name) in [
        (Arch::Qwen3Moe, "blk.1.ffn_gate_inp.weight"),
        (Arch::Qwen3Moe, "blk.0.ffn_down_exps.weight"),
        (Arch::Qwen2Moe, "blk.0.ffn_gate_inp_shexp.weight"),
        (Arch::GptOss, "blk.1.attn_sinks.weight"),
        (Arch::GptOss, "blk.0.ffn_gate_inp.bias"),
        (Arch::GptOss, "blk.0.ffn_down_exps.bias"),
        (Arch::Glm4Moe, "blk.1.exp_probs_b.bias"),
    ] {
        let remove = |w: &mut GgufWriter| w.tensors_mut().retain(|t| t.name != name);
        check_spec(arch, remove, &format!("tensor {name}"));
    }
}

/// Layers that predict several tokens are at the end of a file.
#[test]
fn layers_that_predict_several_tokens_are_ignored() {
    let with_layer = |arch: Arch, count: u32| {
        let mut writer = tiny_model(arch);
        let layers = tiny_spec(arch).n_layers as u32;
        writer.set(format!("{}.block_count", arch.name()), layers + 1);
        writer.set(format!("{}.nextn_predict_layers", arch.name()), count);
        writer.tensor(format!("blk.{layers}.nextn.eh_proj.weight"), &[32, 16], TensorType::F32);
        load(bytes(&writer))
    };
    for arch in [Arch::Glm4Moe, Arch::Glm4, Arch::Exaone4] {
        with_layer(arch, 1).expect("loads");
        assert!(with_layer(arch, 0).is_err());
    }
}

/// A tensor that holds several matrices has the rows of all of them.
#[test]
fn fused_tensors_of_another_size_are_errors() {
    check_spec(
        Arch::Gpt2,
        |w| {
            w.tensors_mut()
                .iter_mut()
                .filter(|t| t.name == "blk.1.attn_qkv.weight")
                .for_each(|t| t.dims[1] -= 8)
        },
        "blk.1.attn_qkv.weight has shape [16, 56], but the metadata ask for [16, 64]",
    );
    check_spec(
        Arch::Phi3,
        |w| {
            w.tensors_mut()
                .iter_mut()
                .filter(|t| t.name == "blk.0.ffn_up.weight")
                .for_each(|t| t.dims[1] /= 2)
        },
        "blk.0.ffn_up.weight has shape [16, 24], but the metadata ask for [16, 48]",
    );
    check_spec(
        Arch::Gpt2,
        |w| w.tensors_mut().retain(|t| t.name != "blk.0.attn_qkv.bias"),
        "blk.0.attn_qkv.bias [64] is missing",
    );
}

#[test]
fn an_unknown_architecture_names_its_relatives() {
    check_spec(
        Arch::Llama,
        set("general.architecture", "qwen9".into()),
        "\"qwen9\" is not supported; its relatives qwen2, qwen3, qwen2moe, qwen3moe, qwen35, qwen35moe, qwen3next are; all supported are llama",
    );
    for (name, relatives) in [
        ("gemma3n", "its relatives gemma, gemma2, gemma3, gemma4 are; all "),
        ("granitehybrid", "its relative granite is; all "),
        ("falcon-h1", "its relative falcon is; all "),
        ("nemotron_h_moe", "its relative nemotron is; all "),
        ("llama4", "its relative llama is; all "),
        // Names that only begin alike.
        ("minimax-m2", ""),
        ("arcee", ""),
        ("gptj", ""),
        ("phimoe", ""),
        ("llada", ""),
        ("", ""),
    ] {
        let expected = format!("\"{name}\" is not supported; {relatives}supported are llama, ");
        check_spec(Arch::Llama, set("general.architecture", name.into()), &expected);
    }
}

/// Windows, their layers and RoPE bases, and soft caps.
#[test]
fn invalid_windows_are_errors() {
    let (u, f) = (MetaValue::U32, MetaValue::F32);
    let pattern =
        |flags: &[bool]| MetaValue::Array(ValueType::Bool, flags.iter().map(|flag| (*flag).into()).collect());
    let cases: &[(&str, MetaValue, &str)] = &[
        (
            "attention.sliding_window",
            u(0),
            "gemma3.attention.sliding_window is 0, but it has to be 1 to 2147483647",
        ),
        ("attention.sliding_window", u(1 << 31), "gemma3.attention.sliding_window is 2147483648"),
        ("attention.sliding_window", f(8.0), "gemma3.attention.sliding_window"),
        ("attention.sliding_window_pattern", u(0), "it has to be 1 to 4096"),
        ("attention.sliding_window_pattern", pattern(&[true]), "a list of 1"),
        (
            "attention.sliding_window_pattern",
            pattern(&[true; 3]),
            "it has to be a number, or 2 times true or false",
        ),
        ("attention.sliding_window_pattern", MetaValue::i32s([1, 0]), "2 times true or false"),
        ("rope.freq_base_swa", f(f32::NAN), "gemma3.rope.freq_base_swa"),
        ("rope.freq_base_swa", f(0.0), "it has to be 1 or more"),
        ("attn_logit_softcapping", f(50.0), "soft-capped attention logits"),
    ];
    for (key, value, expected) in cases {
        let change = |w: &mut GgufWriter| {
            w.set("gemma3.attention.sliding_window", 8u32);
            w.set(format!("gemma3.{key}"), value.clone());
        };
        check_spec(Arch::Gemma3, change, expected);
    }
    for cap in [f32::NAN, f32::INFINITY, -50.0] {
        check_spec(
            Arch::Gemma2,
            set("gemma2.attn_logit_softcapping", f(cap)),
            "gemma2.attn_logit_softcapping",
        );
    }
    // Architectures without local layers do not read these keys.
    check_spec(Arch::Llama, set("llama.attention.sliding_window_pattern", u(2)), "its effect is unknown");
    check_spec(Arch::Qwen2, set("qwen2.rope.freq_base_swa", f(1e4)), "its effect is unknown");
}

/// A tiny Gemma 4 with a local and a global layer, which differ in their heads.
fn gemma4(w: &mut GgufWriter) {
    w.set("gemma4.attention.sliding_window", 8u32);
    let flags = MetaValue::Array(ValueType::Bool, vec![true.into(), false.into()]);
    w.set("gemma4.attention.sliding_window_pattern", flags);
    w.set("gemma4.attention.head_count_kv", MetaValue::i32s([4, 2]));
    w.set("gemma4.attention.key_length_swa", 4u32);
    w.set("gemma4.attention.value_length_swa", 4u32);
}

#[test]
fn heads_of_local_layers_are_read() {
    let mut writer = tiny_model(Arch::Gemma4);
    gemma4(&mut writer);
    let spec = ModelSpec::from_gguf(&GgufFile::from_bytes(bytes(&writer)).unwrap()).unwrap();
    let heads = [0, 1].map(|layer| spec.kv_heads(layer));
    assert_eq!(heads, [KvHeads { count: 4, dim: 4 }, KvHeads { count: 2, dim: 8 }]);
    assert_eq!([0, 1].map(|layer| spec.rope(layer).map(|rope| rope.n_dims)), [Some(4), Some(8)]);
    assert_eq!([0, 1].map(|layer| spec.has_rope_factors(layer)), [false, true]);
    assert_eq!((spec.attention.scale, spec.all_kv_heads()), (1.0, 6));
    // The file that this specification gives is read as the same.
    let mut again = GgufWriter::new();
    spec.metadata().into_iter().for_each(|(key, value)| _ = again.set(key, value));
    ModelTensors::in_file(&spec)
        .iter()
        .for_each(|need| _ = again.tensor(&need.name, &need.dims, TensorType::F32));
    let file = GgufFile::from_bytes(bytes(&again)).unwrap();
    assert_eq!(ModelSpec::from_gguf(&file).unwrap(), spec);
    ModelTensors::from_gguf(&file, &spec).expect("all tensors");
}

#[test]
fn hostile_settings_of_gemma_4_are_errors() {
    let (u, f) = (MetaValue::U32, MetaValue::F32);
    for (key, value, expected) in [
        (
            "attention.head_count_kv",
            MetaValue::i32s([3, 2]),
            "head_count_kv is 3, but it has to divide the 4 query",
        ),
        (
            "attention.head_count_kv",
            MetaValue::i32s([2, 3]),
            "head_count_kv is 3, but it has to divide the 4 query",
        ),
        ("attention.head_count_kv", MetaValue::i32s([0, 2]), "head_count_kv is 0, but it has to be 1 to"),
        ("attention.head_count_kv", MetaValue::i32s([-1, 2]), "head_count_kv is -1, but it has to be 1 to"),
        ("attention.head_count_kv", MetaValue::i32s([2]), "head_count_kv is a list of 1"),
        ("attention.key_length_swa", u(0), "key_length_swa is 0, but it has to be 1 to 4096"),
        ("attention.key_length_swa", u(5), "key_length_swa is 5, but RoPE needs an even number"),
        ("attention.key_length_swa", u(1 << 31), "key_length_swa is 2147483648, but it has to be 1 to 4096"),
        ("attention.key_length_swa", f(4.0), "key_length_swa"),
        ("attention.value_length_swa", u(8), "keys have 4 elements, and both have to be of one size"),
        (
            "rope.dimension_count_swa",
            u(6),
            "rope.dimension_count_swa is 6, but it has to be even, and at most the 4",
        ),
        ("rope.dimension_count_swa", u(3), "rope.dimension_count_swa is 3, but it has to be even"),
        ("rope.dimension_count_swa", u(0), "rope.dimension_count_swa is 0, but it has to be 1 to"),
        (
            "attention.shared_kv_layers",
            u(2),
            "shared_kv_layers is 2, but it has to be less than the 2 layers",
        ),
        ("attention.shared_kv_layers", u(1), "layer 1 is global, and no such layer has keys and values"),
        ("attention.shared_kv_layers", u(u32::MAX), "it has to be less than the 2 layers"),
        ("embedding_length_per_layer_input", u(1 << 31), "it has to be 1 to 8388608"),
        ("embedding_length_per_layer_input", u(4), "per_layer_token_embd.weight"),
        ("expert_count", u(1), "expert_count is 1, but it has to be 2 to"),
        ("final_logit_softcapping", f(f32::NAN), "final_logit_softcapping is NaN"),
        ("sliding_window_pattern_of_heads", u(1), "its effect is unknown"),
    ] {
        let change = |w: &mut GgufWriter| {
            gemma4(w);
            w.set(format!("gemma4.{key}"), value.clone());
        };
        check_spec(Arch::Gemma4, change, expected);
    }
    // Two sizes of networks only where layers share keys and values.
    let widths = set("gemma4.feed_forward_length", MetaValue::i32s([24, 48]));
    check_spec(Arch::Gemma4, widths, "layers of unequal size");
    // Other architectures have heads of one size.
    check_spec(Arch::Gemma3, set("gemma3.attention.key_length_swa", u(8)), "its effect is unknown");
    let two = set("gemma3.attention.head_count_kv", MetaValue::i32s([4, 2]));
    check_spec(Arch::Gemma3, two, "layers of unequal size");
}

/// The second layer attends to the rows of the first. Converters write its own keys and values all the same.
#[test]
fn layers_without_keys_and_values_are_read() {
    let mut writer = tiny_model(Arch::Gemma4);
    writer.set("gemma4.attention.shared_kv_layers", 1u32);
    load(bytes(&writer)).expect("keys and values that are not used");
    writer
        .tensors_mut()
        .retain(|t| !["blk.1.attn_k.weight", "blk.1.attn_v.weight"].contains(&t.name.as_str()));
    let file = GgufFile::from_bytes(bytes(&writer)).unwrap();
    let spec = ModelSpec::from_gguf(&file).unwrap();
    assert_eq!([0, 1].map(|layer| spec.kv_layer(layer)), [0, 0]);
    assert_eq!((spec.last_kv_reader(0), spec.shares_kv(1), spec.all_kv_heads()), (1, true, 2));
    ModelTensors::from_gguf(&file, &spec).expect("the tensors that are used");
    writer.tensors_mut().retain(|t| t.name != "blk.0.attn_k.weight");
    check("a layer with rows needs keys", bytes(&writer), "blk.0.attn_k.weight");
}

/// As a number, as flags, and by the architecture. Without a window all layers are global.
#[test]
fn local_layers_are_read_as_in_llama_cpp() {
    let read = |arch: Arch, change: &dyn Fn(&mut GgufWriter)| {
        let mut writer = tiny_model(arch);
        change(&mut writer);
        let spec = ModelSpec::from_gguf(&GgufFile::from_bytes(bytes(&writer)).unwrap()).unwrap();
        let windows = [spec.window(0), spec.window(1)];
        (windows, [0, 1].map(|layer| spec.rope(layer).map(|rope| rope.base)))
    };
    let base = Some(10_000.0);
    assert_eq!(read(Arch::Gemma3, &|_| ()), ([None; 2], [base; 2]));
    let gemma3 = |w: &mut GgufWriter| {
        w.set("gemma3.attention.sliding_window", 8u32);
        w.set("gemma3.attention.sliding_window_pattern", 2u32);
        w.set("gemma3.rope.freq_base", 1e6);
        w.set("gemma3.rope.scaling.factor", 8.0);
    };
    assert_eq!(read(Arch::Gemma3, &gemma3), ([Some(8), None], [base, Some(1e6)]));
    assert_eq!(read(Arch::Gemma2, &|_| ()), ([Some(4096), None], [base; 2]));
    let cohere2 = |w: &mut GgufWriter| {
        w.set("cohere2.attention.sliding_window", 8u32);
        let flags = MetaValue::Array(ValueType::Bool, vec![false.into(), true.into()]);
        w.set("cohere2.attention.sliding_window_pattern", flags);
    };
    assert_eq!(read(Arch::Cohere2, &cohere2), ([None, Some(8)], [None, base]));
    assert_eq!(read(Arch::Exaone4, &|_| ()), ([None; 2], [base; 2]));
}
