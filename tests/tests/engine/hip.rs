//! Layers on a GPU of AMD, by HIP: it computes what the host does, and saved sessions move there and back. `cargo test -p tests
//! --features hip --test engine hip::` runs these where there is one. Never run so far.

use std::process::Command;
use std::sync::Arc;

use ggml::hip::NoHip;
use ggml::{Backend, Error};
use longhand::{DeviceKind, Engine};

use crate::gpu::{check_loss, check_moves, check_same, embedded_on};

fn embedded(layers: usize) -> Arc<Engine> {
    embedded_on(DeviceKind::Hip(0), layers)
}

#[test]
fn the_gpu_computes_what_the_host_does() {
    check_same([&embedded(0), &embedded(4)], 0.1);
}

#[test]
fn a_session_moves_to_the_gpu_and_back() {
    check_moves([&embedded(0), &embedded(3)]);
}

/// In a process of its own: the GPU stays lost until the program is started again.
#[test]
fn a_failed_gpu_is_an_error_that_names_it() {
    const ALONE: &str = "LONGHAND_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        check_loss(&embedded(2), "ROCm0");
        let another = Backend::hip(0, None).map(|_| ());
        let is_known = |text: &String| text.contains("ROCm0");
        assert!(matches!(&another, Err(Error::NoHip(NoHip::Device(text))) if is_known(text)), "{another:?}");
        return;
    }
    let this = std::env::current_exe().expect("this program");
    let test = ["hip::a_failed_gpu_is_an_error_that_names_it", "--exact", "--nocapture"];
    let run = Command::new(this).args(test).env(ALONE, "1").output().expect("it starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
