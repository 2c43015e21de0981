//! Layers on a device of which a part is on the host: their experts, or the residual stream of a text. They compute the
//! same however a text is read, the plan knows their bytes, and the choice of layers moves the residual stream before
//! experts, and experts before layers. The device is the one that `LONGHAND_TEST_DEVICE` names; if it names none, the
//! emulated one.

use std::sync::Arc;

use longhand::heads::SelectionRule;
use longhand::policy::PolicyChoice;
use longhand::progress::Notice;
use longhand::reading::Prefill;
use longhand::setup::plan::{DRIVER_BYTES, Placement, Plan, PlanOptions};
use longhand::setup::{Context, DeviceRequest, GpuLayers, HostExperts};
use longhand::testing::calibrate::{CalibrationOptions, calibrate};
use longhand::testing::outline::tensor_outlines;
use longhand::testing::placement::Place;
use longhand::{
    DeviceOptions, Engine, EngineError, EngineOptions, InterruptFlag, Model, ModelSource, Observer, Progress,
    Session, SessionOptions, Setup, SetupOptions,
};
use models::arch::{Arch, FeedForward};
use models::shapes::FileType;
use tests::fixtures::{
    blamed_tensor, family_model_with, file_with_experts, half_retrieval, max_difference, options,
    plan_options, random_tokens, session, sync,
};
use tests::{host_device, is_host, is_portable, some_device};

const PREFILLS: [Prefill; 2] = [Prefill::Exact, Prefill::Streaming];

/// Weights as in the file: a device that the host stands in for then computes what the host computes.
fn engine_options(layers: usize, host_experts: usize) -> EngineOptions {
    let devices = vec![DeviceOptions { layers, ..some_device() }];
    EngineOptions { threads: Some(1), repack: false, devices, host_experts, ..EngineOptions::default() }
}

/// The same, with the residual stream on the host.
fn with_host_residual(layers: usize, host_experts: usize) -> EngineOptions {
    EngineOptions { host_residual: true, ..engine_options(layers, host_experts) }
}

/// Checks numbers of two placements of a model. A device that the host stands in for computes the same as the host, but for
/// GELU, which ggml looks up there. A GPU computes nearly the same.
#[track_caller]
fn check_same(engine: &Engine, one: &[f32], other: &[f32], case: &str) {
    let difference = max_difference(one, other);
    let max = one.iter().fold(1f32, |max, x| max.max(x.abs()));
    let is_exact = is_host() && engine.spec().feed_forward() != FeedForward::GeGlu;
    let tolerance = if is_exact { 0.0 } else { 1e-2 * max };
    assert!(difference <= tolerance, "{case}: {difference:e}, largest {max}");
}

/// Logits after a first text, steps, a second text, undo of the second text, and other steps.
pub fn logits(engine: &Arc<Engine>, policy: &str, prefill: Prefill) -> Vec<Vec<f32>> {
    let tokens = random_tokens(engine, 70, 5);
    let asked =
        SessionOptions { prefill, chunk: 20, profile: Some(half_retrieval(engine)), ..options(90, policy) };
    let mut session = session(engine, asked);
    let mut found = Vec::new();
    let steps = |session: &mut Session, tokens: &[u32], found: &mut Vec<Vec<f32>>| {
        for token in tokens {
            session.push(*token).expect("a step");
            found.push(session.logits().to_vec());
        }
    };
    sync(&mut session, &tokens[..45]);
    found.push(session.logits().to_vec());
    steps(&mut session, &tokens[45..48], &mut found);
    sync(&mut session, &tokens[..68]);
    found.push(session.logits().to_vec());
    assert_eq!(sync(&mut session, &tokens[..48]), 0, "the session goes back");
    assert_eq!(session.logits(), found[3]);
    steps(&mut session, &tokens[68..], &mut found);
    found
}

#[test]
fn experts_on_the_host_compute_the_same() {
    for name in [
        "qwen2moe-gqa-f32",
        "gpt-oss-window-f32",
        "deepseek2-groups-f32",
        "glm4moe-dense-first-f32",
        "mixtral-mha-q8_0",
        "qwen3next-gqa-f32",
        "gemma4-experts-f32",
    ] {
        let layers = family_model_with(name, &engine_options(0, 0)).spec().n_layers;
        let placements = [(layers, &[layers, layers - 1][..]), (layers - 1, &[layers])];
        for (on_device, host_experts) in placements.into_iter().filter(|(on_device, _)| *on_device > 0) {
            let open = |host_experts| family_model_with(name, &engine_options(on_device, host_experts));
            let (without, split) = (open(0), host_experts.iter().map(|layers| (layers, open(*layers))));
            // The first layers of some models have no experts.
            let is_split = |engine: &Engine| engine.placement().split_layers(engine.spec()) > 0;
            let split: Vec<_> = split.filter(|(_, engine)| is_split(engine)).collect();
            assert!(!split.is_empty(), "{name}: {on_device} of {layers} layers");
            for (policy, prefill) in [
                ("full", Prefill::Exact),
                ("full", Prefill::Streaming),
                ("h2o:heavy=16,recent=8", Prefill::Exact),
            ] {
                let want = logits(&without, policy, prefill);
                for (host_experts, engine) in &split {
                    let case = format!(
                        "{name} {policy} {prefill:?}, {on_device} layers, {host_experts} without experts"
                    );
                    for (want, found) in want.iter().zip(logits(engine, policy, prefill)) {
                        check_same(engine, want, &found, &case);
                    }
                }
            }
        }
    }
}

#[test]
fn a_residual_stream_on_the_host_computes_the_same() {
    for name in ["ernie4_5-tied-f32", "qwen3next-gqa-f32", "gemma4-experts-f32", "gpt-oss-window-f32"] {
        let layers = family_model_with(name, &engine_options(0, 0)).spec().n_layers;
        for on_device in (layers - 1..=layers).filter(|on_device| *on_device > 0) {
            let without = family_model_with(name, &engine_options(on_device, 0));
            let with =
                [0, layers].map(|experts| family_model_with(name, &with_host_residual(on_device, experts)));
            assert!(with.iter().all(|engine| engine.placement().has_host_residual()));
            assert!(!without.placement().has_host_residual());
            for policy in
                ["full", "h2o:heavy=16,recent=8", "kvzip-plus:heads=off,capacity=20,recent=10,slack=0"]
            {
                let want = logits(&without, policy, Prefill::Exact);
                for engine in &with {
                    for (want, found) in want.iter().zip(logits(engine, policy, Prefill::Exact)) {
                        let case = format!("{name} {policy}, {:?}", engine.placement());
                        check_same(engine, want, &found, &case);
                    }
                }
            }
        }
    }
}

/// Every named intermediate is there and stays readable.
#[test]
fn intermediates_are_the_same() {
    for name in ["qwen2moe-gqa-f32", "gpt-oss-window-f32"] {
        let engines = [0, usize::MAX].map(|host_experts| {
            let options = EngineOptions { trace: true, ..engine_options(usize::MAX, host_experts) };
            family_model_with(name, &options)
        });
        let tokens = random_tokens(&engines[0], 50, 3);
        let mut sessions = engines
            .each_ref()
            .map(|engine| session(engine, SessionOptions { chunk: 64, ..options(60, "full") }));
        for part in [&tokens[..40], &tokens[40..41], &tokens[41..]] {
            let [one, other] =
                sessions.each_mut().map(|session| session.intermediates(part).expect("intermediates"));
            assert_eq!(one.len(), other.len(), "{name}");
            for ((tensor, one), (same, other)) in one.iter().zip(&other) {
                assert_eq!(tensor, same);
                check_same(&engines[0], one, other, &format!("{name} {tensor}"));
            }
        }
    }
}

#[test]
fn calibration_finds_the_same_heads() {
    if !is_host() {
        return;
    }
    let source = ModelSource::Bytes(file_with_experts(Arch::Qwen2Moe, FileType::F16).into());
    let placements =
        [engine_options(2, 0), engine_options(2, 1), engine_options(2, 2), with_host_residual(2, 0)];
    let scores = placements.map(|options| {
        let engine = Engine::open(&source, &options).expect("the model opens");
        let options = CalibrationOptions { period: 12, chunk: 20, ..CalibrationOptions::default() };
        let profile =
            calibrate(&engine, &options, &SelectionRule::default(), &InterruptFlag::new(), &mut |_| ());
        let profile = profile.expect("a profile");
        (profile.scores().to_vec(), profile.row_shares(0.3))
    });
    assert!(scores.iter().all(|other| *other == scores[0]));
}

/// A text that is interrupted anywhere, on host or device, and read on ends with the same rows and logits.
#[test]
fn an_interrupted_text_goes_on() {
    if !is_host() {
        return;
    }
    let experts = (engine_options(usize::MAX, usize::MAX), &[Place::Host, Place::Device(0)][..]);
    let residual = (with_host_residual(usize::MAX, 0), &[Place::Device(0)][..]);
    let names = ["qwen2moe-gqa-f32", "qwen3next-gqa-f32"];
    for (name, (engine_options, places)) in
        names.into_iter().flat_map(|name| [(name, &experts), (name, &residual)])
    {
        let engine = family_model_with(name, engine_options);
        check_interrupted(name, &engine, places, &[1, 4, 9, 15, 26, 33, 40, 75, 131], 5);
    }
}

/// A text that is interrupted in each of `places` after so many operations there, and read on, ends with the same rows and
/// logits. In each place at least `least` interrupts come before its end.
pub fn check_interrupted(
    name: &str,
    engine: &Arc<Engine>,
    places: &[Place],
    operations: &[usize],
    least: usize,
) {
    let tokens = random_tokens(engine, 60, 4);
    for prefill in PREFILLS {
        let make = || {
            let asked = SessionOptions { prefill, chunk: 20, ..options(80, "h2o:heavy=16,recent=8") };
            session(engine, asked)
        };
        let mut fresh = make();
        sync(&mut fresh, &tokens);
        for place in places.iter().copied() {
            let (backend, mut interrupts) = (engine.backends().at(place), 0);
            for operations in operations.iter().copied() {
                let mut stopped = make();
                backend.interrupt_after(operations);
                interrupts += usize::from(stopped.sync(&tokens, &mut |_| ()).is_err());
                backend.interrupt_after(usize::MAX);
                stopped.interrupt().clear();
                sync(&mut stopped, &tokens);
                let case = format!("{name} {prefill:?} {place:?} after {operations}");
                assert_eq!(stopped.logits(), fresh.logits(), "{case}");
                let contents = [&stopped, &fresh].map(|session| session.store().contents().expect("rows"));
                assert!(contents[0] == contents[1], "{case}");
            }
            assert!(interrupts >= least, "{name} {prefill:?} {place:?}: {interrupts} interrupts");
        }
    }
}

/// The plan's bytes are those that are allocated in both places, and a limit of exactly what was allocated is enough.
#[test]
fn planned_bytes_cover_allocated_ones() {
    if !is_host() {
        return; // A GPU's alignment and number of blocks differ from the plan's.
    }
    let bytes = file_with_experts(Arch::Qwen2Moe, FileType::Q8_0);
    let source = ModelSource::Bytes(bytes.into());
    let mut weights = Vec::new();
    let on_device = [
        ("all", engine_options(2, 0)),
        ("all but the residual stream", with_host_residual(2, 0)),
        ("the experts of one layer", engine_options(2, 1)),
        ("no experts", engine_options(2, 2)),
        ("neither experts nor the residual stream", with_host_residual(2, 2)),
        ("one layer without experts", engine_options(1, 2)),
    ];
    for (name, placed) in on_device {
        for (policy, prefill) in [
            ("full", PREFILLS[0]),
            ("full", PREFILLS[1]),
            ("h2o:heavy=32,recent=32", PREFILLS[0]),
            ("kvzip:heads=off,capacity=60,recent=10", PREFILLS[0]),
        ] {
            let run = |memory| -> Result<(usize, Arc<Engine>, Session), EngineError> {
                let mut options = placed.clone();
                options.devices[0].memory = memory;
                let engine = Engine::open(&source, &options)?;
                let asked = SessionOptions { prefill, chunk: 64, ..tests::fixtures::options(160, policy) };
                let mut session = Session::new(&engine, asked)?;
                session.sync(&random_tokens(&engine, 140, 9), &mut |_| {})?;
                session.push(1)?;
                session.verify(&random_tokens(&engine, session.steps_at_once(17), 2))?;
                let (_, peak) = engine.backends().at(Place::Device(0)).memory_used().unwrap_or_default();
                Ok((peak, engine, session))
            };
            let (peak, engine, session) = run(Some(1 << 30)).expect("a gibibyte is enough");
            let options = PlanOptions { repack: false, prefill, draft: 16, ..plan_options(&engine, 140, 64) };
            let outline = tensor_outlines(engine.file());
            let plan =
                Plan::new(engine.spec(), &outline, session.store().layout(), &options).expect("a plan");
            let case = format!("{name} on the device, {policy} {prefill:?}");
            assert_eq!(plan.weights, engine.weight_bytes(), "{case}");
            let planned = plan.device_allocated(0);
            assert!(peak <= planned + 65536, "{case}: {planned} planned, {peak} allocated");
            assert!(planned <= peak * 13 / 10, "{case}: {planned} planned, {peak} allocated");
            let compute = session.compute_bytes();
            let planned: usize = plan.places().map(|place| place.compute).sum();
            // What the last graphs of a split model take with portable operations is known to 1 %.
            let more = if is_portable() { planned / 100 } else { 0 };
            assert!(compute <= planned + more, "{case}: {compute} allocated, {planned} planned");
            assert!(planned <= 2 * compute, "{case}: {compute} allocated, {planned} planned");
            run(Some(peak)).expect("the peak is enough");
            weights.push(plan.weights.devices[0]);
        }
    }
    weights.dedup();
    assert!(weights.is_sorted_by(|one, other| one > other), "{weights:?}");
}

/// NaN in experts on the host and on the device, and in what chooses them.
#[test]
fn damaged_experts_are_named() {
    let bytes = file_with_experts(Arch::GptOss, FileType::F16);
    for name in [
        "blk.0.ffn_gate_inp.weight",
        "blk.0.ffn_down_exps.weight",
        "blk.1.ffn_gate_inp.weight",
        "blk.1.ffn_up_exps.weight",
        "blk.1.attn_output.weight",
    ] {
        assert_eq!(blamed_tensor(&bytes, name, &engine_options(2, 1)).as_deref(), Some(name));
    }
}

#[derive(Default)]
pub struct Notices(pub Vec<Notice>);

impl Observer for Notices {
    fn progress(&mut self, _: Progress) {}

    fn notice(&mut self, notice: Notice) {
        self.0.push(notice);
    }
}

/// What [`Setup`] decides: layers on the device, of how many of the first the experts are not, and its notices.
fn decided(model: &Arc<Model>, options: SetupOptions) -> (Option<(usize, usize)>, Plan, Vec<Notice>) {
    let mut notices = Notices::default();
    let setup = Setup::resolve(model, &options, 220, &mut notices).expect("a setup");
    let engine = setup.engine_options();
    let device = engine.devices.first().map(|device| (device.layers, engine.host_experts));
    (device, setup.plan().clone(), notices.0)
}

/// With less and less memory the residual stream leaves the device, where a text is read layer by layer, and then
/// layers leave.
#[test]
fn the_residual_stream_leaves_the_device_before_layers() {
    let model = Model::open(ModelSource::Embedded).expect("the model opens");
    let asked = |bytes: usize, prefill| SetupOptions {
        context: Context::Tokens(2000),
        chunk: Some(100),
        prefill: Some(prefill),
        device: host_device().into(),
        gpu_memory: vec![DRIVER_BYTES + bytes],
        policy: Some(PolicyChoice::default()),
        ..SetupOptions::default()
    };
    let decided_for = |prompt, bytes, prefill| {
        let setup = Setup::resolve(&model, &asked(bytes, prefill), prompt, &mut ()).expect("a setup");
        let engine = setup.engine_options();
        ((engine.devices[0].layers, engine.host_residual), setup.plan().clone())
    };
    let decided = |bytes, prefill| decided_for(2000, bytes, prefill);
    let needed = |plan: &Plan| plan.device_total(0);

    let (placed, plan) = decided(1 << 30, Prefill::Exact);
    assert_eq!(placed, (4, false));
    let n_embd = model.spec().n_embd;
    let stream = |chunks: usize| chunks * 100 * n_embd * size_of::<f32>();
    assert_eq!((plan.host.residual, plan.devices[0].residual), (0, stream(20 + 1)));
    assert_eq!(decided(needed(&plan), Prefill::Exact).0, (4, false), "as much as it needs");

    let (placed, less) = decided(needed(&plan) - 1, Prefill::Exact);
    assert_eq!(placed, (4, true), "a byte less");
    assert_eq!((less.host.residual, less.devices[0].residual), (stream(20 + 1), stream(2)));
    assert_eq!(needed(&plan) - needed(&less), stream(20 + 1 - 2));
    assert_eq!(decided(needed(&less), Prefill::Exact).0, (4, true));
    assert_eq!(decided(needed(&less) - 1, Prefill::Exact).0.0, 3, "a byte less than that");

    // A conversation begins with a short text, and a document that fills the context may follow.
    let (placed, short) = decided_for(10, needed(&plan) - 1, Prefill::Exact);
    assert_eq!((placed, short.host.residual), ((4, true), 2 * 10 * n_embd * size_of::<f32>()));
    assert_eq!(decided_for(10, needed(&less) - 1, Prefill::Exact).0.0, 3);

    // Other texts have no such stream.
    let (placed, plan) = decided(1 << 30, Prefill::Streaming);
    assert_eq!(placed, (4, false));
    assert_eq!(decided(needed(&plan) - 1, Prefill::Streaming).0.0, 3);
}

/// With less and less memory, first the experts leave the device, from the first layer on, and then whole layers. The
/// residual stream has left before.
#[test]
fn experts_leave_the_device_before_layers() {
    let bytes = file_with_experts(Arch::Qwen3Moe, FileType::Q8_0);
    let model = Model::open(ModelSource::Bytes(bytes.into())).expect("the model opens");
    let asked = |bytes: usize| SetupOptions {
        context: Context::Tokens(220),
        device: host_device().into(),
        gpu_memory: vec![DRIVER_BYTES + bytes],
        policy: Some(PolicyChoice::default()),
        ..SetupOptions::default()
    };
    let needed = |host_experts| {
        let options = SetupOptions { host_experts: HostExperts::Count(host_experts), ..asked(1 << 30) };
        let (device, plan, notices) = decided(&model, options);
        assert_eq!(device, Some((2, host_experts)));
        let told = notices.contains(&Notice::ExpertsOnCpu { split: host_experts, on_gpu: 2 });
        assert_eq!(told, host_experts > 0, "{notices:?}");
        plan.device_total(0)
    };
    let [all, one, none] = [0, 1, 2].map(needed);
    assert!(all > one && one > none, "{all}, {one}, {none}");
    for (bytes, expected, split) in [
        (all, (2, 0), 0),
        (all - 1, (2, 1), 1),
        (one, (2, 1), 1),
        (one - 1, (2, 2), 2),
        (none, (2, 2), 2),
        (none - 1, (1, 2), 1),
    ] {
        let (device, _, notices) = decided(&model, asked(bytes));
        assert_eq!(device, Some(expected), "{bytes} bytes");
        let on_gpu = expected.0;
        let experts = Notice::ExpertsOnCpu { split, on_gpu };
        assert_eq!(notices.contains(&experts), split > 0, "{notices:?}");
        let layers = Notice::LayersOnGpu { on_gpu, layers: 2 };
        assert_eq!(notices.contains(&layers), on_gpu < 2, "{notices:?}");
    }
    // What is asked for stays, and whole layers leave instead.
    let options = SetupOptions { host_experts: HostExperts::Count(0), ..asked(all - 1) };
    assert_eq!(decided(&model, options).0, Some((1, 1)));
}

#[test]
fn layers_for_gpus_without_effect_are_told() {
    let model = Model::open(ModelSource::Embedded).expect("the model opens");
    let is_told = |device: DeviceRequest, gpu_layers, gpu_shares: &[f64]| {
        let gpu_shares = gpu_shares.to_vec();
        let options = SetupOptions { device, gpu_layers, gpu_shares, ..SetupOptions::default() };
        decided(&model, options).2.contains(&Notice::GpuLayersUnused)
    };
    assert!(is_told(DeviceRequest::Cpu, GpuLayers::Count(99), &[]));
    assert!(is_told(DeviceRequest::Cpu, GpuLayers::Auto, &[3.0, 1.0]));
    assert!(!is_told(DeviceRequest::Cpu, GpuLayers::Count(0), &[]));
    assert!(!is_told(host_device().into(), GpuLayers::Count(99), &[]));
}

#[test]
fn a_choice_of_experts_without_effect_is_told() {
    let told = |bytes: Vec<u8>, device, host_experts| {
        let model = Model::open(ModelSource::Bytes(bytes.into())).expect("the model opens");
        let options =
            SetupOptions { context: Context::Tokens(220), device, host_experts, ..SetupOptions::default() };
        let (device, _, notices) = decided(&model, options);
        let unused = notices.iter().find_map(|notice| match notice {
            Notice::HostExpertsUnused { has_experts } => Some(*has_experts),
            _ => None,
        });
        (device, unused)
    };
    let emulated = || DeviceRequest::from(host_device());
    let experts = || file_with_experts(Arch::Qwen3Moe, FileType::Q8_0);
    let dense = || models::embedded::needle().to_vec();
    assert_eq!(told(experts(), DeviceRequest::Cpu, HostExperts::Count(1)), (None, Some(true)));
    assert_eq!(told(dense(), emulated(), HostExperts::Count(1)), (Some((4, 0)), Some(false)));
    assert_eq!(
        told(experts(), emulated(), HostExperts::Count(99)),
        (Some((2, 2)), None),
        "more than there are"
    );
    for nothing in [HostExperts::Auto, HostExperts::Count(0)] {
        assert_eq!(told(experts(), DeviceRequest::Cpu, nothing), (None, None));
        assert_eq!(told(dense(), emulated(), nothing).1, None);
    }
    assert_eq!(
        Placement::new(2, 1).with_host_experts(0).host_experts(),
        1,
        "a layer on the host has them there"
    );
}
