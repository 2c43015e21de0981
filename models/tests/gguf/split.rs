//! Models in several files, and paths that are not models.

use std::fs;
use std::path::{Path, PathBuf};

use models::LoadError;
use models::arch::Arch;
use models::gguf::write::{GgufWriter, MetaValue};
use models::gguf::{GgufFile, TensorInfo};
use models::spec::{ModelSpec, ModelTensors};

use crate::common::{bytes, file_of, tiny_model, tiny_spec_of};

/// Creates an empty folder of this name.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// The tiny model in `n` parts as llama.cpp's splitter writes them: metadata in the first, tensors in all.
fn parts(n: usize) -> Vec<GgufWriter> {
    let whole = tiny_model(Arch::Llama);
    let mut first = whole.clone();
    let tensors = std::mem::take(first.tensors_mut());
    let mut parts = vec![first];
    parts.resize_with(n, GgufWriter::new);
    for (i, part) in parts.iter_mut().enumerate() {
        part.set("split.no", MetaValue::U16(i as u16));
        part.set("split.count", MetaValue::U16(n as u16));
        part.set("split.tensors.count", MetaValue::I32(tensors.len() as i32));
    }
    for (i, tensor) in tensors.into_iter().enumerate() {
        parts[i * n / 20].tensors_mut().push(tensor);
    }
    parts
}

fn fingerprint(file: &GgufFile) -> String {
    file.fingerprint(2, &mut |_| true).unwrap()
}

fn write(folder: &Path, parts: &[GgufWriter]) -> Vec<PathBuf> {
    let n = parts.len();
    let paths: Vec<PathBuf> = (1..=n).map(|i| folder.join(format!("tiny-{i:05}-of-{n:05}.gguf"))).collect();
    for (path, part) in paths.iter().zip(parts) {
        fs::write(path, bytes(part)).unwrap();
    }
    paths
}

/// Opening the path is refused with a message that contains `expected`, and with a hint.
fn check(path: &Path, expected: &str) {
    match GgufFile::open(path) {
        Ok(_) => panic!("{}: opened, but should give an error with \"{expected}\"", path.display()),
        Err(e) => {
            let text = e.to_string();
            assert!(text.contains(expected), "\"{expected}\" is not in: {text}");
            assert!(!e.hint().is_empty(), "no hint for: {text}");
            let named = path.display().to_string();
            assert!(text.starts_with(&named) || text.contains("tiny-0000"), "no path in: {text}");
        }
    }
}

#[test]
fn opening_any_part_opens_all_parts() {
    let paths = write(&folder("any_part"), &parts(3));
    let mut fingerprints = Vec::new();
    for path in &paths {
        let file = GgufFile::open(path).unwrap();
        assert_eq!((file.shards(), file.tensors().len()), (3, 20));
        let spec = ModelSpec::from_gguf(&file).unwrap();
        ModelTensors::from_gguf(&file, &spec).unwrap();
        let shards: Vec<usize> = file.tensors().iter().map(|t| t.shard).collect();
        assert!(shards.is_sorted() && shards.contains(&0) && shards.contains(&2), "{shards:?}");
        for tensor in file.tensors() {
            assert_eq!(file.data(tensor).len() as u64, tensor.bytes);
            let before = file.data(tensor).to_vec();
            file.release_pages(tensor);
            assert_eq!(file.data(tensor), before, "{}", tensor.name);
        }
        fingerprints.push(fingerprint(&file));
    }
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 1);
}

#[test]
fn a_split_model_has_the_fingerprint_of_the_whole() {
    let zeroed = |w: &GgufWriter| w.to_bytes_zeroed().unwrap();
    let folder = folder("same_model");
    let split: Vec<PathBuf> = write(&folder, &parts(2));
    for (path, part) in split.iter().zip(parts(2)) {
        fs::write(path, zeroed(&part)).unwrap();
    }
    let of = |bytes| fingerprint(&GgufFile::from_bytes(bytes).unwrap());
    let whole = of(zeroed(&tiny_model(Arch::Llama)));
    assert_eq!(fingerprint(&GgufFile::open(&split[0]).unwrap()), whole);

    // Another setting changes the fingerprint; another name, and another order of the tensors, do not.
    let changed = |change: &dyn Fn(&mut GgufWriter)| {
        let mut writer = tiny_model(Arch::Llama);
        change(&mut writer);
        of(zeroed(&writer))
    };
    assert_ne!(changed(&|writer| _ = writer.set("llama.rope.freq_base", 500_000.0)), whole);
    assert_ne!(changed(&|writer| _ = writer.set("llama.rope.scaling.type", "none")), whole);
    assert_eq!(changed(&|writer| _ = writer.set("general.name", "renamed")), whole);
    assert_eq!(changed(&|writer| writer.tensors_mut().reverse()), whole);
}

/// A model of several layers, in which tensors of one kind come again and again.
#[test]
fn every_byte_of_every_tensor_counts() {
    let whole = bytes(&file_of(&tiny_spec_of(Arch::Qwen2, 12)));
    let file = GgufFile::from_bytes(whole.clone()).unwrap();
    let before = fingerprint(&file);
    for tensor in file.tensors() {
        for at in [0, tensor.bytes / 3, tensor.bytes - 1] {
            let mut edited = whole.clone();
            edited[(tensor.offset + at) as usize] ^= 1;
            let edited = fingerprint(&GgufFile::from_bytes(edited).unwrap());
            assert_ne!(edited, before, "byte {at} of {}", tensor.name);
        }
    }
}

#[test]
fn a_missing_part_is_an_error() {
    let paths = write(&folder("missing"), &parts(3));
    fs::remove_file(&paths[1]).unwrap();
    check(&paths[0], "part 2 of 3 is missing: there is no ");
    check(&paths[2], "tiny-00002-of-00003.gguf");
    check(&paths[1], "part 2 of 3 is missing"); // the path that the user gave does not exist
}

#[test]
fn inconsistent_parts_are_errors() {
    let change = |name: &str, n: usize, change: &dyn Fn(&mut Vec<GgufWriter>)| {
        let mut parts = parts(n);
        change(&mut parts);
        write(&folder(name), &parts)[0].clone()
    };
    check(&change("swapped", 2, &|p| p.swap(0, 1)), "part 1 of 2 says that it is number 2 of them");
    check(&change("twice", 2, &|p| p[1] = p[0].clone()), "part 2 of 2 says that it is number 1 of them");
    check(
        &change("count", 2, &|p| {
            p[1].set("split.count", MetaValue::U16(7));
        }),
        "part 2 of 2 says that there are 7",
    );
    check(
        &change("no_count", 2, &|p| {
            p[1].unset("split.count");
        }),
        "part 2 of 2 has no key split.count",
    );
    check(
        &change("no_number", 2, &|p| {
            p[0].unset("split.no");
        }),
        "part 1 of 2 has no key split.no",
    );
    check(
        &change("text", 2, &|p| {
            p[1].set("split.no", "1");
        }),
        "split.no: expected an integer, found str \"1\"",
    );
    let wrong_total = MetaValue::I32(21);
    check(
        &change("total", 2, &|p| {
            p[1].set("split.tensors.count", wrong_total.clone());
        }),
        "the parts have 20 tensors together, but part 2 says 21",
    );
    let same_tensor = |p: &mut Vec<GgufWriter>| {
        let name = p[0].tensors_mut()[3].name.clone();
        p[1].tensors_mut()[0].name = name;
    };
    check(&change("tensor_twice", 2, &same_tensor), "occurs twice");
}

#[test]
fn the_error_names_the_damaged_part() {
    let paths = write(&folder("damaged"), &parts(2));
    let whole = fs::read(&paths[1]).unwrap();
    fs::write(&paths[1], &whole[..whole.len() / 2]).unwrap();
    check(&paths[0], "tiny-00002-of-00002.gguf: ");
    fs::write(&paths[1], "").unwrap();
    check(&paths[0], "tiny-00002-of-00002.gguf: not a GGUF file");
}

#[test]
fn a_part_that_is_not_named_as_one_is_an_error() {
    let folder = folder("renamed");
    let path = folder.join("tiny.gguf");
    fs::write(&path, bytes(&parts(2)[0])).unwrap();
    check(&path, "this is one of 2 parts, but its name does not end in -00001-of-00002.gguf");
    assert!(matches!(GgufFile::from_bytes(bytes(&parts(2)[1])), Err(LoadError::Split { .. })));

    // A complete model may be named as the only part, with the keys or without.
    for (name, writer) in [("only", parts(1).remove(0)), ("plain", tiny_model(Arch::Llama))] {
        let path = folder.join(format!("{name}-00001-of-00001.gguf"));
        fs::write(&path, bytes(&writer)).unwrap();
        assert_eq!(GgufFile::open(&path).unwrap().tensors().len(), 20);
    }
}

#[test]
fn paths_that_are_not_models_are_errors() {
    let folder = folder("paths");
    check(&folder.join("none.gguf"), "none.gguf: ");
    check(&folder, "a folder, not a regular file");
    let empty = folder.join("empty.gguf");
    fs::write(&empty, "").unwrap();
    check(&empty, "not a GGUF file: the file is empty");
    if cfg!(unix) {
        check(Path::new("/dev/null"), "not a regular file"); // a device, which would never end
    }
}

#[test]
fn descriptions_of_other_files_give_no_access_outside_this_file() {
    let paths = write(&folder("foreign"), &parts(2));
    let file = GgufFile::open(&paths[0]).unwrap();
    let inside = file.tensors()[0].clone();
    for (shard, offset, bytes) in [(2, 0, 1), (0, u64::MAX, 1), (0, 64, u64::MAX), (1, 4096, 1 << 20)] {
        let foreign = TensorInfo { shard, offset, bytes, ..inside.clone() };
        assert!(file.data(&foreign).is_empty());
        file.release_pages(&foreign);
    }
}
