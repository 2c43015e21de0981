//! Layers on two devices and the host. They compute what one device computes, and the plan knows the bytes of each. Faults
//! and interrupts may come in each place. Layers are shared by memory, or as it is asked for. The host stands in for all
//! devices: portable ones where `LONGHAND_TEST_DEVICE` names one, otherwise emulated ones.

use std::sync::Arc;

use longhand::error::Shortage;
use longhand::heads::SelectionRule;
use longhand::policy::PolicyChoice;
use longhand::progress::Notice;
use longhand::reading::Prefill;
use longhand::setup::plan::{DRIVER_BYTES, Plan, PlanOptions};
use longhand::setup::{Context, DeviceRequest, GpuLayers, fit_session};
use longhand::testing::calibrate::{CalibrationOptions, calibrate};
use longhand::testing::outline::tensor_outlines;
use longhand::testing::placement::Place;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{
    DeviceKind, Engine, EngineError, EngineOptions, InterruptFlag, Model, ModelSource, Session,
    SessionOptions, Setup, SetupOptions,
};
use models::arch::Arch;
use models::shapes::FileType;
use tests::fixtures::{
    blamed_tensor, family_model_with, file_with_experts, half_retrieval, options, plan_options,
    random_tokens, session, sync,
};
use tests::{emulated, host_devices, is_portable};

use crate::placements::{Notices, check_interrupted, logits};

const PREFILLS: [Prefill; 2] = [Prefill::Exact, Prefill::Streaming];

/// The last layers on devices, so many on each, with weights as in the file.
pub fn engine_options(layers: &[usize]) -> EngineOptions {
    EngineOptions {
        threads: Some(1),
        repack: false,
        devices: host_devices(layers),
        ..EngineOptions::default()
    }
}

/// The embedded model of four layers.
fn embedded(layers: &[usize]) -> Arc<Engine> {
    Engine::open(&ModelSource::Embedded, &engine_options(layers)).expect("the embedded model opens")
}

#[test]
fn two_devices_compute_the_same_as_one() {
    let policies = [
        ("full", Prefill::Exact),
        ("full", Prefill::Streaming),
        ("h2o:heavy=16,recent=8", Prefill::Exact),
        ("kvzip:heads=off,capacity=20,recent=10,slack=0", Prefill::Exact),
        ("kvzip-plus:heads=off,capacity=20,recent=10,slack=0", Prefill::Exact),
    ];
    for (one, two, policies) in [(3, [1, 2], &policies[..]), (4, [3, 1], &policies[1..2])] {
        let (one, two) = (embedded(&[one]), embedded(&two));
        for (policy, prefill) in policies.iter().copied() {
            let case = format!("{policy} {prefill:?} {:?}", two.placement());
            assert!(logits(&one, policy, prefill) == logits(&two, policy, prefill), "{case}");
        }
    }
    // RoPE factors, recurrent layers, windows with sinks, and experts of the first or of both devices on the host.
    for name in ["qwen2moe-gqa-f32", "qwen3next-gqa-f32", "gpt-oss-window-f32"] {
        let layers = family_model_with(name, &engine_options(&[])).spec().n_layers;
        for (host_experts, host_residual) in [(0, false), (layers - 1, false), (layers, false), (1, true)] {
            let [one, two] = [&[layers][..], &[layers - 1, 1]].map(|counts| {
                let options = EngineOptions { host_experts, host_residual, ..engine_options(counts) };
                family_model_with(name, &options)
            });
            for (policy, prefill) in &policies[..3] {
                let same = logits(&one, policy, *prefill) == logits(&two, policy, *prefill);
                assert!(same, "{name} {policy} {prefill:?}, {host_experts} {host_residual}");
            }
        }
    }
}

/// Every named intermediate is there, in the order of computation.
#[test]
fn intermediates_are_those_of_one_device() {
    let open = |layers: &[usize]| {
        let options = EngineOptions { trace: true, ..engine_options(layers) };
        Engine::open(&ModelSource::Embedded, &options).expect("the embedded model opens")
    };
    let [one, two] = [&[3][..], &[1, 2]].map(open);
    let tokens = random_tokens(&one, 45, 3);
    let mut sessions =
        [one, two].map(|engine| session(&engine, SessionOptions { chunk: 64, ..options(60, "full") }));
    for part in [&tokens[..40], &tokens[40..41], &tokens[41..]] {
        let [one, two] =
            sessions.each_mut().map(|session| session.intermediates(part).expect("intermediates"));
        assert!(one.len() > 4 * 9 && one == two);
    }
}

#[test]
fn calibration_finds_the_same_heads() {
    let source = ModelSource::Bytes(file_with_experts(Arch::Qwen2Moe, FileType::F16).into());
    let profiles = [&[2][..], &[1, 1]].map(|layers| {
        let engine = Engine::open(&source, &engine_options(layers)).expect("the model opens");
        let options = CalibrationOptions { period: 12, chunk: 20, ..CalibrationOptions::default() };
        let (rule, flag) = (SelectionRule::default(), InterruptFlag::new());
        let profile = calibrate(&engine, &options, &rule, &flag, &mut |_| ());
        let profile = profile.expect("a profile");
        (profile.scores().to_vec(), profile.row_shares(0.3))
    });
    assert!(profiles[0] == profiles[1]);
}

/// A saved session goes on wherever its layers are, and saving it again gives the same bytes.
#[test]
fn sessions_move_between_placements() {
    let placements = [&[1, 2][..], &[3], &[], &[2, 2], &[1, 2]].map(embedded);
    let folder = std::env::temp_dir().join(format!("longhand-several-devices-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let [first, second] = ["first", "second"].map(|name| folder.join(name));
    for policy in ["full", "h2o:heavy=48,recent=16"] {
        for pair in placements.windows(2) {
            let asked = SessionOptions { profile: Some(half_retrieval(&pair[0])), ..options(300, policy) };
            let mut original = session(&pair[0], asked);
            sync(&mut original, &random_tokens(&pair[0], 80, 9));
            snapshot::save(&original, "mine", &first).expect("saved");
            let restored = Snapshot::open(&first).expect("opens").restore(&pair[1]).expect("restored");
            snapshot::save(&restored, "mine", &second).expect("saved again");
            let bytes = [&first, &second].map(|path| std::fs::read(path).expect("the file"));
            assert!(bytes[0] == bytes[1], "{policy} {:?}", pair[1].placement());
            assert_eq!(original.logits(), restored.logits());
        }
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// A question after a text is undone, and another one asked: rows, sums and logits are those of one device.
#[test]
fn an_undone_question_leaves_what_one_device_has() {
    for policy in ["full", "h2o:heavy=16,recent=8", "kvzip:heads=off,capacity=20,recent=10,slack=0"] {
        let [one, two] = [&[3][..], &[1, 2]].map(|layers| {
            let engine = embedded(layers);
            let mut session = session(&engine, options(120, policy));
            let [text, first, second] =
                [(60, 1), (20, 2), (9, 3)].map(|(n, seed)| random_tokens(&engine, n, seed));
            sync(&mut session, &text);
            let read = session.logits().to_vec();
            sync(&mut session, &[&text[..], &first].concat());
            let computed = sync(&mut session, &[&text[..], &second].concat());
            assert_eq!(computed, second.len(), "the text stays read: {policy}");
            sync(&mut session, &text);
            assert!(session.logits() == read, "{policy}");
            sync(&mut session, &[&text[..], &second].concat());
            session.logits().to_vec()
        });
        assert!(one == two, "{policy}");
    }
}

/// A text that is interrupted in any place, and read on, ends with the same rows and logits.
#[test]
fn an_interrupted_text_goes_on() {
    let options_of_engine = EngineOptions { host_experts: 2, ..engine_options(&[1, 1]) };
    let name = "qwen2moe-gqa-f32";
    let engine = family_model_with(name, &options_of_engine);
    let places: Vec<Place> = engine.placement().places().collect();
    check_interrupted(name, &engine, &places, &[1, 9, 26, 40, 75], 2);
}

/// If one of the devices is lost, at whatever operation, the result is an error and not a panic.
#[test]
fn a_lost_device_is_an_error() {
    for (device, operations) in [(0, 0), (0, 20), (1, 1), (1, 20)] {
        let engine = embedded(&[1, 2]);
        let mut session = session(&engine, options(200, "tova:capacity=64"));
        engine.backends().at(Place::Device(device)).lose_after(operations);
        let mut result = session.sync(&random_tokens(&engine, 70, 9), &mut |_| {}).map(|_| ());
        for _ in 0..10 {
            result = result.and_then(|()| session.push(1));
        }
        let error = result.expect_err("the device is lost");
        assert!(matches!(error, EngineError::Compute(ggml::Error::Device(_))), "{error}");
    }
}

/// NaN in weights of each place.
#[test]
fn damaged_weights_are_named() {
    for layer in 0..4 {
        let name = format!("blk.{layer}.ffn_down.weight");
        let found = blamed_tensor(models::embedded::needle(), &name, &engine_options(&[1, 2]));
        assert_eq!(found, Some(name));
    }
}

/// The plan's bytes are those that each device allocates, and limits of exactly what was allocated are enough.
#[test]
fn planned_bytes_cover_allocated_ones() {
    let experts = ModelSource::Bytes(file_with_experts(Arch::Qwen2Moe, FileType::Q8_0).into());
    let cases = [
        (ModelSource::Embedded, engine_options(&[1, 2])),
        (experts.clone(), EngineOptions { host_residual: true, ..engine_options(&[1, 1]) }),
        (experts.clone(), engine_options(&[1, 1])),
        (experts, EngineOptions { host_experts: 1, ..engine_options(&[1, 1]) }),
    ];
    let policies = [("full", PREFILLS[0]), ("full", PREFILLS[1]), ("h2o:heavy=32,recent=32", PREFILLS[0])];
    for (number, (source, placed)) in cases.into_iter().enumerate() {
        // The embedded model takes a while.
        for (policy, prefill) in policies.into_iter().take(if number == 0 { 1 } else { policies.len() }) {
            let run = |limits: [usize; 2]| -> Result<(Vec<usize>, Plan), EngineError> {
                let mut options = placed.clone();
                for (device, limit) in options.devices.iter_mut().zip(limits) {
                    device.memory = Some(limit);
                }
                let engine = Engine::open(&source, &options)?;
                let asked = SessionOptions { prefill, chunk: 64, ..tests::fixtures::options(220, policy) };
                let mut session = Session::new(&engine, asked)?;
                session.sync(&random_tokens(&engine, 200, 9), &mut |_| {})?;
                session.push(1)?;
                let options = PlanOptions { repack: false, prefill, ..plan_options(&engine, 200, 64) };
                let outline = tensor_outlines(engine.file());
                let plan = Plan::new(engine.spec(), &outline, session.store().layout(), &options)?;
                assert_eq!(plan.weights, engine.weight_bytes());
                let peak = |device| engine.backends().at(Place::Device(device)).memory_used();
                Ok(([0, 1].map(|device| peak(device).map_or(0, |(_, peak)| peak)).to_vec(), plan))
            };
            let (peaks, plan) = run([1 << 30; 2]).expect("a gibibyte is enough");
            for (device, peak) in peaks.iter().enumerate() {
                let planned = plan.device_allocated(device);
                let case = format!("{policy} {prefill:?} {:?}, device {device}", placed.devices);
                // What the last graphs of a split model take with portable operations is known to 1 %.
                let more = if is_portable() { planned / 100 } else { 0 };
                assert!(*peak <= planned + more + 65536, "{case}: {planned} planned, {peak} allocated");
                assert!(planned <= peak * 13 / 10, "{case}: {planned} planned, {peak} allocated");
                let mut less = [1 << 30; 2];
                less[device] = peak - 1;
                let error = run(less).expect_err("a byte less than the peak");
                assert!(matches!(error, EngineError::Compute(ggml::Error::OverBudget { .. })), "{error}");
            }
            run([peaks[0], peaks[1]]).expect("the peaks are enough");
        }
    }
}

/// A session is refused before it is made where one of the devices has too little memory.
#[test]
fn each_device_has_to_hold_a_session() {
    let weights = embedded(&[2, 2]).weight_bytes().devices;
    for device in 0..2 {
        let mut options = engine_options(&[2, 2]);
        for (number, device) in options.devices.iter_mut().enumerate() {
            device.memory = Some(weights[number] + (1 << 30));
        }
        options.devices[device].memory = Some(weights[device] + 100_000);
        let engine = Engine::open(&ModelSource::Embedded, &options).expect("enough for the weights");
        let asked = SessionOptions { context: 4096, ..SessionOptions::default() };
        let error = fit_session(&engine, asked, None, 4000).expect_err("it does not fit");
        assert!(matches!(error, EngineError::Memory(Shortage { on_device: true, .. })), "{error}");
    }
}

/// Options for two devices with so much memory each beside the driver's.
fn two_devices(memory: [usize; 2]) -> SetupOptions {
    let kinds = host_devices(&[0, 0]).iter().map(|device| device.kind).collect();
    SetupOptions {
        context: Context::Tokens(2000),
        prefill: Some(Prefill::Streaming),
        device: DeviceRequest::Devices(kinds),
        gpu_memory: memory.map(|bytes| DRIVER_BYTES + bytes).to_vec(),
        policy: Some(PolicyChoice::default()),
        ..SetupOptions::default()
    }
}

/// How many layers each device has.
fn decided(options: &SetupOptions) -> Result<(Vec<usize>, Plan), EngineError> {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model opens");
    let mut notices = Notices::default();
    let setup = Setup::resolve(&model, options, 2000, &mut notices)?;
    let told = notices.0.iter().find_map(|notice| match notice {
        Notice::LayersOnDevices { on_devices, .. } => Some(on_devices.iter().map(|(_, n)| *n).collect()),
        _ => None,
    });
    // Where nothing fits, that is told instead.
    let told: Vec<usize> = told.unwrap_or(vec![0; 2]);
    let used: Vec<usize> = setup.engine_options().devices.iter().map(|device| device.layers).collect();
    assert_eq!(told.iter().copied().filter(|layers| *layers > 0).collect::<Vec<_>>(), used);
    Ok((told, setup.plan().clone()))
}

#[test]
fn layers_are_shared_by_memory() {
    let layers = |memory| decided(&two_devices(memory)).expect("a setup").0;
    assert_eq!(layers([1 << 30; 2]), [3, 1], "the output matrix counts as a layer");
    assert_eq!(layers([1 << 30, 3 << 30]), [2, 2]);
    assert_eq!(layers([8 << 30, 1 << 30]), [4, 0]);
    // What a device cannot hold goes to the other one, and then to the host.
    let bytes = |counts: &[f64]| {
        let shared = SetupOptions { gpu_shares: counts.to_vec(), ..two_devices([1 << 30; 2]) };
        let (_, plan) = decided(&shared).expect("a setup");
        [0, 1].map(|device| plan.device_total(device))
    };
    let (even, all_on_last) = (bytes(&[3.0, 2.0]), bytes(&[0.0, 1.0]));
    assert_eq!(layers([even[0] - 1, all_on_last[1]]), [0, 4]);
    let [first, last] = bytes(&[2.0, 3.0]);
    assert_eq!(layers([first, last]), [2, 2]);
    let some = layers([first, last / 2]);
    assert!(some[0] > 0 && some.iter().sum::<usize>() < 4, "{some:?}");
    assert_eq!(layers([0, 0]), [0, 0]);
}

#[test]
fn layers_are_shared_as_asked_for() {
    let shared = |shares: &[f64], layers| {
        let options =
            SetupOptions { gpu_shares: shares.to_vec(), gpu_layers: layers, ..two_devices([1 << 30; 2]) };
        decided(&options).map(|(layers, _)| layers)
    };
    for (shares, expected) in [
        (&[1.0, 1.0][..], [3, 1]),
        (&[3.0, 1.0], [4, 0]),
        (&[1.0, 3.0], [2, 2]),
        (&[0.25, 0.75], [2, 2]),
        (&[5.0], [4, 0]),
        (&[0.0, 2.0], [0, 4]),
    ] {
        assert_eq!(shared(shares, GpuLayers::Auto).expect("a setup"), expected, "{shares:?}");
    }
    assert_eq!(shared(&[1.0, 1.0], GpuLayers::Count(2)).expect("a setup"), [2, 0]);
    for (shares, part) in [
        (&[0.0, 0.0][..], "no device would have a layer"),
        (&[1.0, -1.0], "-1"),
        (&[f64::NAN, 1.0], "NaN"),
        (&[f64::INFINITY, 1.0], "inf"),
        (&[1.0, 1.0, 1.0], "3 shares, and 2 GPUs"),
    ] {
        let error = shared(shares, GpuLayers::Auto).expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn impossible_lists_of_devices_are_refused() {
    let [one, other] = [emulated(0), emulated(1)];
    let setup = |devices: Vec<DeviceKind>, memory: usize| {
        let device = DeviceRequest::Devices(devices);
        decided(&SetupOptions { device, gpu_memory: vec![1 << 30; memory], ..two_devices([0; 2]) })
            .expect_err("refused")
            .to_string()
    };
    let error = setup(vec![one, other, one], 1);
    assert!(error.contains("emulated:0") && error.contains("twice"), "{error}");
    let error = setup((0..17).map(emulated).collect(), 1);
    assert!(error.contains("at most 16"), "{error}");
    let error = setup(vec![one, other], 3);
    assert!(error.contains("3 limits on memory") && error.contains("2 GPUs"), "{error}");
    // The same of an engine's own options.
    let open = |layers: &[usize]| Engine::open(&ModelSource::Embedded, &engine_options(layers));
    let error = open(&[1, 5]).err().expect("refused").to_string();
    assert!(error.contains("the model has 4"), "{error}");
    assert_eq!(open(&[9, 1]).expect("the first one has what is left").placement().counts(), [3, 1]);
    let mut twice = engine_options(&[1, 1]);
    twice.devices[1].kind = twice.devices[0].kind;
    let error = Engine::open(&ModelSource::Embedded, &twice).err().expect("refused").to_string();
    assert!(error.contains("twice"), "{error}");
}
