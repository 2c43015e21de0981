//! Layers on GPUs by Vulkan: two compute what one does, saved sessions move to a GPU and back, and a GPU that is lost is an error that
//! names it. `scripts/vulkan/test.sh` has a driver that computes on the CPU, thrice.

use std::sync::Arc;

use longhand::{DeviceKind, DeviceOptions, Engine, EngineOptions, ModelSource};
use tests::fixtures::{max_difference, options, random_tokens, session, sync};

use crate::gpu::{check_loss, check_moves, check_same};

/// A model with its last layers on GPUs, so many on each.
fn open(source: &ModelSource, gpus: &[(usize, usize)]) -> Arc<Engine> {
    let device = |(number, layers): &(usize, usize)| DeviceOptions {
        layers: *layers,
        ..DeviceOptions::all(DeviceKind::Vulkan(*number))
    };
    let devices = gpus.iter().map(device).collect();
    let options = EngineOptions { threads: Some(1), repack: false, devices, ..EngineOptions::default() };
    Engine::open(source, &options).expect("the model opens")
}

/// The embedded model of four layers.
fn embedded(gpus: &[(usize, usize)]) -> Arc<Engine> {
    open(&ModelSource::Embedded, gpus)
}

/// The last token of a text is at any place of the memory that its positions are in.
#[test]
fn a_gpu_computes_what_the_host_does_after_texts_of_any_length() {
    let model = ModelSource::File(tests::data("golden/models/llama-gqa-llama3rope-f32.gguf"));
    let engines = [open(&model, &[]), open(&model, &[(0, usize::MAX)])];
    let tokens = random_tokens(&engines[0], 160, 1);
    for lengths in [&[1][..], &[2], &[7], &[9], &[33], &[100, 160], &[45, 46, 47]] {
        let [host, gpu] = engines.each_ref().map(|engine| {
            let mut session = session(engine, options(200, "full"));
            lengths.iter().for_each(|length| {
                sync(&mut session, &tokens[..*length]);
            });
            session.logits().to_vec()
        });
        let difference = max_difference(&host, &gpu);
        assert!(difference < 1e-2, "{lengths:?}: {difference}");
    }
}

#[test]
fn two_gpus_compute_what_one_does() {
    check_same([&embedded(&[(0, 3)]), &embedded(&[(0, 1), (1, 2)])], 1e-3);
}

#[test]
fn a_session_moves_to_a_gpu_and_back() {
    check_moves([&embedded(&[]), &embedded(&[(0, 3)])]);
}

/// On a GPU of its own: whatever else uses it fails too.
#[test]
fn a_lost_gpu_is_an_error_that_names_it() {
    const LOST: usize = 2;
    let engine = embedded(&[(LOST, 2)]);
    let tokens = random_tokens(&engine, 70, 9);
    check_loss(&engine, "Vulkan2");
    drop(engine);
    // The driver opens it again.
    let engine = embedded(&[(LOST, 2)]);
    sync(&mut session(&engine, options(200, "full")), &tokens);
}
