//! What auto chooses with less and less memory, on the host and on an emulated GPU.

use ggml::Type;

use super::recipes::TYPES;
use super::{Advice, Offers, Reason};
use crate::kv::KvBudget;
use crate::setup::plan::DRIVER_BYTES;
use crate::setup::planner::plannings;
use crate::setup::{DeviceRequest, Setup, SetupOptions};
use crate::{Context, DeviceKind, Model, ModelSource};

/// Weights are read from the file again and again where they do not fit beside the cache.
#[test]
fn a_cache_leaves_main_memory_for_the_weights() {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let (prompt, context) = (100, 8000);
    let options = |memory: Option<usize>| SetupOptions {
        context: Context::Tokens(context),
        device: DeviceRequest::Cpu,
        gpu_memory: memory,
        ..SetupOptions::default()
    };
    let needed = |types: (Type, Type)| {
        let options = SetupOptions { k_type: Some(types.0), v_type: Some(types.1), ..options(None) };
        let setup = Setup::resolve(&model, &options, context, &mut ()).expect("a setup");
        (setup.plan().total(), setup.plan().weights.on_host())
    };
    let first_of = |options: &SetupOptions| {
        Offers::find(&model, options, prompt, context).expect("offers").offers[0].clone()
    };
    let first = |memory| first_of(&options(Some(memory)));
    let ((full, weights), (eight_bits, _)) = (needed(TYPES[0]), needed(TYPES[1]));
    assert!(first(full).is_none());
    assert_eq!(first(full - 1).types, Some(TYPES[1]), "a text that fills the context may follow");
    assert!(first_of(&SetupOptions { only_text: true, ..options(Some(full - 1)) }).is_none());
    assert_eq!(first(eight_bits - 1).types, Some(TYPES[2]));
    assert!(first(weights - 1).is_none(), "nothing is gained");
}

/// With a GPU the first offer leaves all layers there, if any does.
#[test]
fn a_smaller_cache_comes_before_fewer_layers_on_the_gpu() {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let (prompt, context) = (3900, 4000);
    let options = |free: usize, types: Option<(Type, Type)>| SetupOptions {
        context: Context::Tokens(context),
        device: DeviceRequest::Device(DeviceKind::Emulated),
        gpu_memory: Some(DRIVER_BYTES + free),
        k_type: types.map(|types| types.0),
        v_type: types.map(|types| types.1),
        ..SetupOptions::default()
    };
    let setup =
        |free, types| Setup::resolve(&model, &options(free, types), prompt, &mut ()).expect("a setup");
    let needed = |setup: &Setup| setup.plan().device_allocated() + setup.plan().device_overhead;
    let eight_bits = needed(&setup(1 << 30, Some(TYPES[1])));
    // The residual stream leaves the GPU before layers do.
    let smallest = needed(&setup(eight_bits - 1, Some(TYPES[1])));
    assert!(smallest < eight_bits && eight_bits < needed(&setup(1 << 30, None)));

    let first = |free, types| {
        let offers = Offers::find(&model, &options(free, types), prompt, context).expect("offers");
        assert!(offers.free.is_some_and(|free| offers.offers.iter().all(|offer| offer.bytes <= free)));
        offers.offers[0].clone()
    };
    assert!(first(1 << 30, None).is_none(), "nothing has to change");
    let unchanged = setup(smallest, None);
    assert!(!unchanged.fits() && unchanged.engine_options().device.is_some_and(|gpu| gpu.layers < 4));
    let offer = first(smallest, None);
    assert_eq!((offer.policy, offer.types), (None, Some(TYPES[1])));
    let offer = first(smallest - 1, None);
    assert_eq!((offer.policy, offer.types), (None, Some(TYPES[2])));
    // Types that were asked for stay. Another policy may still leave all layers on the GPU.
    assert!(first(smallest, Some(TYPES[0])).is_none());
    let full = needed(&setup(1 << 30, None));
    let mut between = (1..8).map(|n| first(smallest + (full - smallest) * n / 8, Some(TYPES[0])));
    assert!(between.any(|offer| offer.policy.is_some() && offer.types.is_none()));
    // Without room for the weights nothing is gained.
    assert!(first(setup(1 << 30, None).plan().weights.device, None).is_none());
}

/// However much memory there is, the choice plans few sessions with graphs, and what it gives fits.
#[test]
fn a_choice_plans_three_sessions_at_most() {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let (prompt, context) = (3900, 4000);
    let options = |device, memory| SetupOptions {
        context: Context::Tokens(context),
        device,
        gpu_memory: Some(memory),
        profile_folder: None,
        ..SetupOptions::default()
    };
    for (device, beside) in
        [(DeviceRequest::Cpu, 0), (DeviceRequest::Device(DeviceKind::Emulated), DRIVER_BYTES)]
    {
        let all = options(device, beside + (1 << 30));
        let full = Setup::resolve(&model, &all, prompt, &mut ()).expect("a setup");
        let (plan, weights) = (full.plan(), full.plan().weights);
        let (needed, fixed) = match device {
            DeviceRequest::Cpu => (plan.total(), weights.on_host()),
            _ => (plan.device_allocated() + plan.device_overhead, weights.device + plan.device_overhead),
        };
        let mut chosen = Vec::new();
        for step in 0..=40 {
            let memory = beside + fixed + (needed - fixed) * step / 40;
            let before = plannings();
            let setup = Setup::resolve(&model, &options(device, memory), prompt, &mut ()).expect("a setup");
            assert!(plannings() - before <= 3, "{} plannings at {memory}", plannings() - before);
            assert_eq!(setup.advice().is_none(), step == 40 || !setup.fits(), "{step}");
            chosen.push(setup.advice().map(|advice| advice.offer.clone()));
            let before = plannings();
            Offers::find(&model, &options(device, memory), prompt, context).expect("offers");
            assert!(plannings() - before <= 3, "{} plannings at {memory}", plannings() - before);
        }
        chosen.dedup_by_key(|offer| offer.as_ref().map(|offer| (offer.policy, offer.types, offer.streaming)));
        assert!(chosen.len() > 4, "{chosen:?}");
    }
}

/// A budget without a policy chooses one.
#[test]
fn a_budget_without_a_policy_has_one_chosen() {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let advice = |budget| {
        let options = SetupOptions {
            context: Context::Tokens(4000),
            device: DeviceRequest::Cpu,
            budget: Some(budget),
            profile_folder: None,
            ..SetupOptions::default()
        };
        let before = plannings();
        let setup = Setup::resolve(&model, &options, 3900, &mut ()).expect("a setup");
        assert!(plannings() - before <= 3);
        let advice = setup.advice().cloned().expect("a policy was chosen");
        (advice, setup.session_options().policy.name())
    };
    let is_advised = |reason| matches!(reason, Reason::Budget { is_advised: true });
    let (Advice { reason, offer }, policy) = advice(KvBudget::Share(0.3));
    assert!(is_advised(reason) && policy == "kvzip", "{offer:?}");
    let (Advice { reason, offer }, policy) = advice(KvBudget::Share(1.0));
    assert!(is_advised(reason) && policy == "full" && offer.is_none(), "{offer:?}");
    let (Advice { reason, .. }, policy) = advice(KvBudget::Share(0.1));
    assert!(!is_advised(reason) && policy == "kvzip");
}
