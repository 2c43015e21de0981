//! Files that become shorter while they are mapped.
#![cfg(unix)]

use std::fs::{self, File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use models::LoadError;
use models::arch::Arch;
use models::gguf::GgufFile;

use crate::common::{bytes, tiny_model};

fn model(name: &str) -> PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes(&tiny_model(Arch::Llama))).expect("a test file");
    path
}

fn cut(path: &std::path::Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(bytes)).expect("a shorter file");
}

#[test]
fn what_is_left_can_be_read_and_the_rest_is_zero_and_an_error() {
    let (path, other) = (model("cut.gguf"), GgufFile::open(&model("whole.gguf")).expect("a model"));
    let file = GgufFile::open(&path).expect("a model");
    let whole: Vec<Vec<u8>> = file.tensors().iter().map(|tensor| file.data(tensor).to_vec()).collect();
    assert!(file.shard_bytes(0).len() > 3 * 4096, "the test needs several pages");
    file.check_complete().expect("complete");
    cut(&path, 4096);
    // Threads read the same pages at the same time.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (tensor, whole) in file.tensors().iter().zip(&whole) {
                    let left = 4096u64.saturating_sub(tensor.offset).min(tensor.bytes) as usize;
                    let data = file.data(tensor);
                    assert_eq!(data[..left], whole[..left], "{}", tensor.name);
                    assert!(data[left..].iter().all(|byte| *byte == 0), "{}", tensor.name);
                }
            });
        }
    });
    let error = file.check_complete().expect_err("lost");
    let LoadError::Lost { path: named, opened_bytes, bytes: 4096 } = &error else { panic!("{error:?}") };
    assert_eq!((named, *opened_bytes), (&path, file.shard_bytes(0).len() as u64));
    assert!(error.to_string().contains("cut.gguf became shorter while it was in use"), "{error}");
    other.check_complete().expect("another file is not lost");

    // The content may have changed in between, so the file stays lost.
    fs::write(&path, bytes(&tiny_model(Arch::Llama))).expect("a test file");
    file.check_complete().expect_err("still lost");
    GgufFile::open(&path).expect("a model").check_complete().expect("complete");
}

/// The last page of a shorter file ends in zeros that no signal tells of.
#[test]
fn a_file_that_lost_a_few_bytes_is_an_error() {
    let path = model("few.gguf");
    let file = GgufFile::open(&path).expect("a model");
    cut(&path, file.shard_bytes(0).len() as u64 - 1);
    assert!(matches!(file.check_complete(), Err(LoadError::Lost { .. })));
}

const CHILD: &str = "LONGHAND_TEST_BUS_ERROR";

/// A fault in memory of others ends the process as before.
#[test]
fn faults_elsewhere_are_not_handled() {
    if std::env::var_os(CHILD).is_some() {
        let _model = GgufFile::open(&model("handled.gguf")).expect("a model");
        let path = model("elsewhere.gguf");
        // SAFETY: the map is only read; that this fails is the test.
        let map = unsafe { memmap2::Mmap::map(&File::open(&path).expect("a file")) }.expect("a map");
        cut(&path, 0);
        println!("{}", map[0]);
        return;
    }
    let this = std::env::current_exe().expect("this program");
    let test = ["lost::faults_elsewhere_are_not_handled", "--exact", "--nocapture"];
    let run = Command::new(this).args(test).env(CHILD, "1").output().expect("it starts");
    assert_eq!(run.status.signal(), Some(libc::SIGBUS), "{run:?}");
}
