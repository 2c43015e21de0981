//! Models with embeddings of each layer and with layers that attend to the rows of others (the small models of Gemma 4), with
//! layers on devices. The host looks the embeddings up, and layers that share rows are in one place. The devices are those that
//! the host stands in for.

use std::sync::Arc;

use longhand::policy::PolicyChoice;
use longhand::progress::Notice;
use longhand::reading::Prefill;
use longhand::setup::plan::{DRIVER_BYTES, Plan};
use longhand::setup::{Context, DeviceRequest, GpuLayers};
use longhand::testing::outline::tensor_outlines;
use longhand::testing::placement::Place;
use longhand::{Engine, EngineOptions, Model, ModelSource, Session, SessionOptions, Setup, SetupOptions};
use models::gguf::GgufFile;
use models::gguf::write::GgufWriter;
use models::spec::{KvSharing, ModelSpec, ModelTensors};
use models::types::TensorType;
use tests::fixtures::{
    Random, family_file, max_difference, model_in_memory, options, plan_options, random_tokens, session, sync,
};
use tests::{device_tolerance, host_devices, is_portable};

use crate::placements::{Notices, logits};
use crate::several_devices::engine_options;

const LAYERS: usize = 6;
/// The last two layers attend to the rows of the two before them.
const JOINT_LAYERS: usize = 4;

/// A random model like `gemma4-shared-kv-f32`, whose first layers share nothing.
fn file() -> Vec<u8> {
    let mut spec = spec_of("gemma4-shared-kv-f32");
    let sharing = spec.kv_sharing.expect("layers that share rows");
    spec.n_layers = LAYERS;
    // Wide, so that what passes to devices is a large part of what graphs take.
    spec.per_layer_width = Some(128);
    let local = spec.local_layers.as_mut().expect("local layers");
    local.is_local = (0..LAYERS).map(|layer| layer % 2 == 0).collect();
    spec.kv_sharing =
        Some(KvSharing { first_layer: 4, last_local: Some(2), last_global: Some(3), ..sharing });
    assert_eq!(spec.joint_layers(), JOINT_LAYERS);
    random_file(&spec)
}

fn spec_of(family: &str) -> ModelSpec {
    ModelSpec::from_gguf(&GgufFile::from_bytes(family_file(family)).expect("a file")).expect("a model")
}

/// A file with random weights.
fn random_file(spec: &ModelSpec) -> Vec<u8> {
    let mut writer = GgufWriter::new();
    for (key, value) in spec.metadata() {
        writer.set(key, value);
    }
    for need in ModelTensors::in_file(spec) {
        writer.tensor(&need.name, &need.dims, TensorType::F32);
    }
    let (mut bytes, mut random) = (Vec::new(), Random(7));
    let written = writer.write(&mut bytes, |tensor, out| {
        let numbers = tensor.bytes().expect("whole rows") / 4;
        // Large enough for attention that differs from token to token.
        (0..numbers).try_for_each(|_| {
            let number = random.below(2001) as f32 / 2500.0 - 0.4;
            // RoPE's factors must not be nearly zero.
            let number = if tensor.name == "rope_freqs.weight" { 1.0 } else { number };
            out.write_all(&number.to_le_bytes())
        })
    });
    written.expect("a file in memory");
    bytes
}

/// The model with so many layers on each device.
fn open(layers: &[usize]) -> Arc<Engine> {
    let engine = model_in_memory("the random model", file(), &engine_options(layers));
    assert_eq!(engine.placement().counts(), layers);
    engine
}

#[test]
fn devices_compute_what_the_host_computes() {
    let policies = [
        ("full", Prefill::Exact),
        ("full", Prefill::Streaming),
        ("h2o:heavy=16,recent=8", Prefill::Exact),
        ("kvzip-plus:heads=off,capacity=20,recent=10,slack=0", Prefill::Exact),
    ];
    let host = open(&[]);
    let want = policies.map(|(policy, prefill)| logits(&host, policy, prefill));
    for (layers, counts) in [
        (&[LAYERS][..], &[LAYERS][..]),
        (&[5], &[5]),
        (&[2], &[JOINT_LAYERS]),
        (&[2, 4], &[2, 4]),
        (&[3, 2], &[1, 4]),
    ] {
        for host_residual in [false, true] {
            let options = EngineOptions { host_residual, ..engine_options(layers) };
            let engine = model_in_memory("the random model", file(), &options);
            assert_eq!(engine.placement().counts(), counts);
            for ((policy, prefill), want) in policies.iter().zip(&want) {
                for (step, (want, found)) in want.iter().zip(logits(&engine, policy, *prefill)).enumerate() {
                    let difference = max_difference(want, &found);
                    let tolerance = 1e-2 + device_tolerance();
                    assert!(
                        difference < tolerance,
                        "{policy} {prefill:?} {layers:?}, {step}: {difference:e}"
                    );
                }
            }
        }
    }
}

/// Two devices compute bit for bit what one does.
#[test]
fn two_devices_compute_the_same_as_one() {
    let [one, two] = [&[LAYERS][..], &[2, 4]].map(open);
    for prefill in [Prefill::Exact, Prefill::Streaming] {
        assert!(logits(&one, "full", prefill) == logits(&two, "full", prefill), "{prefill:?}");
    }
}

/// Several tokens at once, all of which have logits.
#[test]
fn verified_tokens_are_the_same() {
    let [host, one, two] = [&[][..], &[LAYERS], &[2, 4]].map(|layers| {
        let engine = open(layers);
        let (mut session, tokens) = (session(&engine, options(60, "full")), random_tokens(&engine, 40, 5));
        sync(&mut session, &tokens[..31]);
        // Windows bound how many.
        let end = 31 + session.steps_at_once(9);
        assert!(end > 32);
        session.verify(&tokens[31..end]).expect("logits").to_vec()
    });
    for other in [one, two] {
        let difference = max_difference(&host, &other);
        assert!(difference < 1e-2 + device_tolerance(), "{difference:e}");
    }
}

/// What the host computes for devices is planned too.
#[test]
fn the_memory_of_all_places_is_planned() {
    // With so much slack whole chunks are read through all layers.
    let h2o = "h2o:heavy=40,recent=20,slack=80";
    for (layers, policy, prefill) in [
        (&[LAYERS][..], "full", Prefill::Exact),
        (&[LAYERS], "full", Prefill::Streaming),
        (&[LAYERS], h2o, Prefill::Exact),
        (&[LAYERS], h2o, Prefill::Streaming),
        (&[2, 4], "full", Prefill::Exact),
    ] {
        let mut options = engine_options(layers);
        options.devices.iter_mut().for_each(|device| device.memory = Some(1 << 30));
        let engine = Engine::open(&ModelSource::Bytes(file().into()), &options).expect("the model opens");
        let asked = SessionOptions { prefill, chunk: 64, ..tests::fixtures::options(300, policy) };
        let mut session = Session::new(&engine, asked).expect("a session");
        let tokens = random_tokens(&engine, 280, 9);
        // Windows take memory in a later text.
        for end in [200, tokens.len()] {
            session.sync(&tokens[..end], &mut |_| {}).expect("the text is read");
        }
        session.push(1).expect("a step");
        let mut options = plan_options(&engine, 200, 64);
        (options.repack, options.prefill) = (false, prefill);
        let outline = tensor_outlines(engine.file());
        let plan = Plan::new(engine.spec(), &outline, session.store().layout(), &options).expect("a plan");
        assert_eq!(plan.weights, engine.weight_bytes());
        let case = format!("{layers:?} {policy} {prefill:?}");
        let (compute, planned) =
            (session.compute_bytes(), plan.places().map(|place| place.compute).sum::<usize>());
        // As in other tests of devices, what graphs with portable operations take is known to 1 %.
        let more = if is_portable() { planned / 100 } else { 0 };
        assert!(compute <= planned + more, "{case}: {planned} planned, {compute} allocated");
        assert!(planned <= 2 * compute, "{case}: {planned} planned, {compute} allocated");
        for device in 0..layers.len() {
            let used = engine.backends().at(Place::Device(device)).memory_used();
            let (peak, planned) = (used.map_or(0, |(_, peak)| peak), plan.device_allocated(device));
            let case = format!("{case}, device {device}");
            assert!(peak <= planned + planned / 100 + 65536, "{case}: {planned} planned, {peak} allocated");
            assert!(planned <= peak * 13 / 10 + 65536, "{case}: {planned} planned, {peak} allocated");
        }
    }
}

/// Layers that share rows are on a device together, however few layers are asked for. A notice says so.
#[test]
fn layers_that_share_rows_are_placed_together() {
    let model = Model::open(ModelSource::Bytes(file().into())).expect("the model opens");
    let placed = |devices: usize, layers: GpuLayers, shares: &[f64], memory: &[usize]| {
        let kinds = host_devices(&vec![0; devices]).iter().map(|device| device.kind).collect();
        let options = SetupOptions {
            context: Context::Tokens(100),
            device: DeviceRequest::Devices(kinds),
            gpu_layers: layers,
            gpu_shares: shares.to_vec(),
            gpu_memory: memory.iter().map(|bytes| DRIVER_BYTES + bytes).collect(),
            policy: Some(PolicyChoice::default()),
            ..SetupOptions::default()
        };
        let mut notices = Notices::default();
        let setup = Setup::resolve(&model, &options, 50, &mut notices).expect("a setup");
        let devices = &setup.engine_options().devices;
        let layers: Vec<usize> = devices.iter().map(|device| device.layers).collect();
        let told = notices.0.contains(&Notice::LayersTogether { layers: JOINT_LAYERS });
        let nothing_fits = notices.0.iter().find_map(|notice| match notice {
            Notice::NothingFitsGpu { layers, .. } => Some(*layers),
            _ => None,
        });
        assert_eq!(nothing_fits, layers.is_empty().then_some(JOINT_LAYERS).filter(|_| !memory.is_empty()));
        (layers, told)
    };
    const ENOUGH: usize = 1 << 30;
    assert_eq!(placed(1, GpuLayers::Auto, &[], &[ENOUGH]), (vec![LAYERS], false));
    assert_eq!(placed(1, GpuLayers::Count(1), &[], &[ENOUGH]), (vec![JOINT_LAYERS], true));
    assert_eq!(placed(1, GpuLayers::Count(5), &[], &[ENOUGH]), (vec![5], false));
    assert_eq!(placed(1, GpuLayers::Count(0), &[], &[]), (vec![], false));
    assert_eq!(placed(2, GpuLayers::Auto, &[1.0, 1.0], &[ENOUGH; 2]), (vec![2, 4], true));
    assert_eq!(placed(2, GpuLayers::Auto, &[1.0, 3.0], &[ENOUGH; 2]), (vec![2, 4], false));
    // A small device does not get them for a small share.
    assert_eq!(placed(2, GpuLayers::Auto, &[2.0, 1.0], &[ENOUGH, 100_000]), (vec![LAYERS], true));
    // What fits neither device stays on the host.
    assert_eq!(placed(1, GpuLayers::Auto, &[], &[100_000]), (vec![], false));
}

#[test]
fn embeddings_of_layers_beside_experts_are_refused_on_devices() {
    let spec = ModelSpec { per_layer_width: Some(16), ..spec_of("gemma4-experts-f32") };
    let source = ModelSource::Bytes(random_file(&spec).into());
    let open = |layers: &[usize]| Engine::open(&source, &engine_options(layers));
    open(&[]).expect("the CPU computes it");
    let error = open(&[2]).err().expect("refused").to_string();
    assert!(error.contains("embeddings of each layer beside experts") && error.contains("CPU"), "{error}");
}
