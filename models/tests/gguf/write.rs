//! The reader reads what the writer writes, and invalid files cannot be written.

use std::io::{ErrorKind, Write};

use models::arch::Arch;
use models::gguf::write::{GgufWriter, MetaValue};
use models::gguf::{GgufFile, TensorType, Value, ValueType};

use crate::common::tiny_model;

#[test]
fn values_of_every_type_are_read_back() {
    let values = [
        ("u8", MetaValue::U8(200)),
        ("i8", MetaValue::I8(-100)),
        ("u16", MetaValue::U16(60_000)),
        ("i16", MetaValue::I16(-30_000)),
        ("u32", MetaValue::U32(4_000_000_000)),
        ("i32", MetaValue::I32(-2_000_000_000)),
        ("u64", MetaValue::U64(u64::MAX)),
        ("i64", MetaValue::I64(i64::MIN)),
        ("f32", MetaValue::F32(0.1)),
        ("f64", MetaValue::F64(-0.0)),
        ("yes", MetaValue::Bool(true)),
        ("no", MetaValue::Bool(false)),
        ("text", "grüße".into()),
        ("empty", "".into()),
        ("bytes", MetaValue::String(vec![0xff, 0, 0xfe])),
        ("texts", MetaValue::strings(["", "one", "two\n"])),
        ("no_texts", MetaValue::strings::<&str>([])),
        ("floats", MetaValue::f32s([1.5, f32::INFINITY])),
        ("ints", MetaValue::i32s([-1, 0, 1])),
        ("bools", MetaValue::Array(ValueType::Bool, vec![true.into(), false.into()])),
    ];
    let mut writer = GgufWriter::new();
    for (key, value) in &values {
        writer.set(*key, value.clone());
    }
    let file = GgufFile::from_bytes(writer.to_bytes_zeroed().unwrap()).unwrap();
    assert_eq!(file.metadata().map(|(k, _)| k).collect::<Vec<_>>(), values.clone().map(|(k, _)| k));
    for (key, value) in &values {
        assert_eq!(&MetaValue::from(file.get(key).unwrap()), value, "{key}");
        assert_eq!(file.get(key).unwrap().ty(), value.ty(), "{key}");
    }

    assert_eq!(file.u64("u64").unwrap(), Some(u64::MAX));
    assert_eq!(file.u32("u8").unwrap(), Some(200));
    assert_eq!(
        file.u32("u64").unwrap_err().to_string().lines().next(),
        Some("metadata key u64 is 18446744073709551615, but must be below 2^32")
    );
    assert_eq!(file.f32("f32").unwrap(), Some(0.1));
    assert_eq!(file.bool("yes").unwrap(), Some(true));
    assert_eq!(file.str("text").unwrap(), Some("grüße"));
    assert_eq!(file.str("absent").unwrap(), None);
    assert!(file.required_str("absent").unwrap_err().to_string().contains("metadata key absent is missing"));
    assert!(
        file.str("bytes")
            .unwrap_err()
            .to_string()
            .contains(r#"metadata key bytes is not UTF-8: "\xff\0\xfe""#)
    );
    let Some(Value::String(raw)) = file.get("bytes") else { panic!() };
    assert_eq!(raw.as_bytes(), [0xff, 0, 0xfe]);

    let texts = file.strings("texts").unwrap().unwrap();
    assert_eq!(texts.iter().collect::<Vec<_>>(), [b"".as_slice(), b"one", b"two\n"]);
    assert_eq!((texts.text(1), texts.get(3)), (Some("one"), None));
    assert!(file.strings("no_texts").unwrap().unwrap().is_empty());
    let ints = file.ints("ints").unwrap().unwrap();
    assert_eq!((ints.len(), [0, 1, 2].map(|i| ints.int(i))), (3, [Some(-1), Some(0), Some(1)]));
    assert_eq!((ints.int(3), ints.int(usize::MAX), ints.float(0)), (None, None, None));
    let floats = file.floats("floats").unwrap().unwrap();
    assert_eq!([0, 1, 2].map(|i| floats.float(i)), [Some(1.5), Some(f64::INFINITY), None]);
    assert!(file.ints("floats").is_err() && file.floats("ints").is_err() && file.ints("bools").is_err());
    assert_eq!(file.get("texts").unwrap().to_string(), r#"["", "one", "two\n"]"#);
}

#[test]
fn tensors_of_every_type_are_read_back() {
    let mut writer = GgufWriter::new();
    for &ty in TensorType::ALL {
        writer.tensor(format!("t.{ty}"), &[512, 3, 2], ty);
    }
    let mut out = Vec::new();
    let size = writer
        .write(&mut out, |tensor, out| {
            let fill = tensor.ty.id() as u8;
            // In several writes, as for a large tensor.
            (0..tensor.bytes().unwrap()).try_for_each(|_| out.write_all(&[fill]))
        })
        .unwrap();
    assert_eq!(size, out.len() as u64);
    let file = GgufFile::from_bytes(out).unwrap();
    assert_eq!(file.tensors().len(), TensorType::ALL.len());
    for (tensor, &ty) in file.tensors().iter().zip(TensorType::ALL) {
        assert_eq!((tensor.ty, tensor.elements()), (ty, 512 * 3 * 2));
        assert_eq!(tensor.bytes, 512 / ty.block_elems() * ty.block_bytes() * 6);
        assert_eq!(tensor.offset % 32, 0);
        assert!(file.data(tensor).iter().all(|&b| b == ty.id() as u8), "{ty}");
    }
}

#[test]
fn a_copy_has_the_same_metadata_and_weights() {
    let original = GgufFile::from_bytes(models::embedded::needle()).unwrap();
    let mut writer = GgufWriter::new();
    for (key, value) in original.metadata() {
        writer.set(key, value);
    }
    for tensor in original.tensors() {
        writer.tensor(&tensor.name, &tensor.dims, tensor.ty);
    }
    let mut out = Vec::new();
    writer.write(&mut out, |t, out| out.write_all(original.data(original.tensor(&t.name).unwrap()))).unwrap();
    assert!(out == models::embedded::needle(), "the copy differs from the original");
}

#[test]
fn other_alignments_are_read_back() {
    let mut writer = tiny_model(Arch::Llama);
    writer.align(4096);
    let file = GgufFile::from_bytes(writer.to_bytes_zeroed().unwrap()).unwrap();
    assert_eq!(file.alignment(), 4096);
    assert!(file.tensors().iter().all(|t| t.offset % 4096 == 0));
}

#[test]
fn invalid_files_are_not_written() {
    let kind = |writer: &GgufWriter| writer.to_bytes_zeroed().unwrap_err().kind();
    let mut writer = GgufWriter::new();
    writer.tensor("half a block", &[16], TensorType::Q8_0);
    assert_eq!(kind(&writer), ErrorKind::InvalidInput);
    let mut writer = GgufWriter::new();
    writer.tensor("too large", &[1 << 40, 1 << 40], TensorType::F32);
    assert_eq!(kind(&writer), ErrorKind::InvalidInput);
    let mut writer = GgufWriter::new();
    writer.tensor("a", &[1 << 61], TensorType::F32).tensor("b", &[1 << 61], TensorType::F32);
    assert_eq!(kind(&writer), ErrorKind::InvalidInput);
    let mut writer = GgufWriter::new();
    writer.set("mixed", MetaValue::Array(ValueType::U8, vec![MetaValue::U8(1), MetaValue::I8(1)]));
    assert_eq!(kind(&writer), ErrorKind::InvalidInput);

    let mut writer = GgufWriter::new();
    writer.tensor("t", &[8], TensorType::F32);
    for written in [0, 31, 33] {
        let result = writer.write(&mut Vec::new(), |_, out| out.write_all(&vec![0; written]));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidData, "{written} bytes");
    }
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert_eq!(
        writer.write(&mut Full, |_, out| out.write_all(&[0; 32])).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
}
