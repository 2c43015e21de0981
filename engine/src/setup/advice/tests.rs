//! What auto chooses with less and less memory, on the host and on an emulated GPU.

use std::sync::Arc;

use ggml::Type;

use super::choice::{MAX_PLANNINGS, Search};
use super::offers::changes;
use super::recipes::TYPES;
use super::{Advice, Offer, Offers, Reason};
use crate::error::Shortage;
use crate::kv::{KvBudget, PolicyChoice};
use crate::setup::decision::{Decider, copies};
use crate::setup::loaded::{plan_session, promise};
use crate::setup::plan::DRIVER_BYTES;
use crate::setup::planner::{Precision, plannings};
use crate::setup::{Context, DeviceRequest, Ledger, Setup, SetupOptions};
use crate::{DeviceKind, DeviceOptions, Engine, EngineError, EngineOptions, Model, ModelSource, Session};

/// Weights are read from the file again and again where they do not fit beside the cache.
#[test]
fn a_cache_leaves_main_memory_for_the_weights() {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let (prompt, context) = (100, 8000);
    let options = |memory: Option<usize>| SetupOptions {
        context: Context::Tokens(context),
        device: DeviceRequest::Cpu,
        gpu_memory: Vec::from_iter(memory),
        ..SetupOptions::default()
    };
    let needed = |types: (Type, Type)| {
        let policy = Some(PolicyChoice::default());
        let options = SetupOptions { policy, k_type: Some(types.0), v_type: Some(types.1), ..options(None) };
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
        device: DeviceKind::Emulated(0).into(),
        gpu_memory: vec![DRIVER_BYTES + free],
        k_type: types.map(|types| types.0),
        v_type: types.map(|types| types.1),
        ..SetupOptions::default()
    };
    let setup = |free, types| {
        let options = SetupOptions { policy: Some(PolicyChoice::default()), ..options(free, types) };
        Setup::resolve(&model, &options, prompt, &mut ()).expect("a setup")
    };
    let needed = |setup: &Setup| setup.plan().device_total(0);
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
    assert!(!unchanged.fits() && unchanged.engine_options().devices[0].layers < 4);
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
    assert!(first(setup(1 << 30, None).plan().weights.devices[0], None).is_none());
}

/// Sessions of the embedded model with a limit on the memory of the CPU, or of an emulated GPU.
fn limited(device: DeviceRequest, memory: usize) -> SetupOptions {
    SetupOptions {
        context: Context::Tokens(4000),
        device,
        gpu_memory: vec![memory],
        profile_folder: None,
        ..SetupOptions::default()
    }
}

/// For the CPU and an emulated GPU: the limit that holds a full cache, and the one that holds the weights.
fn limits(model: &Arc<Model>) -> [(DeviceRequest, usize, usize); 2] {
    [DeviceRequest::Cpu, DeviceKind::Emulated(0).into()].map(|device| {
        let full = Setup::resolve(model, &limited(device.clone(), 1 << 30), 3900, &mut ()).expect("a setup");
        let (plan, weights) = (full.plan(), &full.plan().weights);
        match device {
            DeviceRequest::Cpu => (device, plan.total() + (1 << 20), weights.on_host()),
            _ => {
                let fixed = DRIVER_BYTES + plan.devices[0].overhead;
                (device, fixed + plan.device_allocated(0) + (1 << 20), fixed + weights.devices[0])
            }
        }
    })
}

/// However much memory there is, the choice plans few sessions with graphs.
#[test]
fn a_choice_plans_three_sessions_at_most() {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    for (device, full, weights) in limits(&model) {
        let mut chosen = Vec::new();
        for step in 0..=30 {
            let options = limited(device.clone(), weights + (full - weights) * step / 30);
            let before = plannings();
            let setup = Setup::resolve(&model, &options, 3900, &mut ()).expect("a setup");
            assert!(plannings() - before <= MAX_PLANNINGS, "{step}");
            let policy = setup.session_options().policy.name();
            assert!(setup.advice().is_some() || policy == "full", "{step}");
            chosen.push((policy, setup.session_options().types));
            drop(setup);
            let before = plannings();
            Offers::find(&model, &options, 3900, 4000).expect("offers");
            assert!(plannings() - before <= MAX_PLANNINGS, "{step}");
        }
        chosen.dedup();
        assert!(chosen.len() > 4, "{chosen:?}");
    }
}

/// Where arithmetic was wrong, the last planning is for something that needs clearly less, or the smallest.
#[test]
fn the_last_planning_is_for_what_needs_clearly_less() {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    for (device, full, weights) in limits(&model) {
        let options = limited(device.clone(), weights + (full - weights) / 2);
        let decider = Decider::new(&model, &options, &mut ()).expect("a device");
        let search = Search::with_context(&decider, &options, 3900, 4000);
        let unchanged = search.fitting(Offer::default(), Precision::Graphs).expect("no interrupt");
        let wrong = search.by_arithmetic(None, &[]).expect("no interrupt")[0].offer.clone();
        // Its graphs are known from then on.
        search.fitting(wrong.clone(), Precision::Graphs).expect("no interrupt");
        let others = search.by_arithmetic(None, &[(wrong.clone(), None)]).expect("no interrupt");
        // The one that did not fit, said to need so many bytes.
        let chosen = |bytes| {
            let known = vec![(Offer { bytes, ..wrong.clone() }, None)];
            let before = plannings();
            let chosen = search.planned(unchanged.as_ref(), known, 1).expect("no interrupt");
            assert_eq!(plannings() - before, 1, "{device:?}");
            let [chosen] = &chosen[..] else { panic!("{device:?}: {} candidates", chosen.len()) };
            assert!(chosen.decision.fits && !chosen.offer.is_none(), "{:?}", chosen.offer);
            chosen.offer.clone()
        };
        let less = chosen(others[0].offer.bytes / 9 * 10 + 10);
        assert!(less.is_same(&others[0].offer), "{less:?}");
        let smallest = chosen(0);
        let is_smallest = |other: &Offer| smallest.is_same(other) || smallest.bytes < other.bytes;
        assert!(others.iter().all(|other| is_smallest(&other.offer)), "{smallest:?}");
    }
}

/// Arithmetic chooses what a search would choose that plans everything with graphs.
#[test]
fn the_choice_is_that_of_an_exhaustive_search() {
    let mut different = Vec::new();
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    for (device, full, weights) in limits(&model) {
        for step in 0..24 {
            let options = limited(device.clone(), weights + (full - weights) * step / 23);
            let decider = Decider::new(&model, &options, &mut ()).expect("a device");
            let search = Search::with_context(&decider, &options, 3900, 4000);
            let unchanged = search.fitting(Offer::default(), Precision::Graphs).expect("no interrupt");
            let all = changes(&model).into_iter().map(|change| {
                let planned = search.fitting(change.clone(), Precision::Graphs).expect("no interrupt");
                (change, planned)
            });
            let all = Vec::from_iter(all);
            let best = search.by_arithmetic(unchanged.as_ref(), &all).expect("no interrupt");
            let is_enough =
                unchanged.as_ref().is_some_and(|found| found.decision.fits || !found.decision.weights_fit);
            let expected = match best.into_iter().next().filter(|_| !is_enough) {
                Some(best) => best.offer,
                None => Offer::default(),
            };
            let setup = Setup::resolve(&model, &options, 3900, &mut ()).expect("a setup");
            let chosen = setup.advice().map_or(Offer::default(), |advice| advice.offer.clone());
            if !chosen.is_same(&expected) {
                different.push((device.clone(), step, chosen, expected));
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

/// Two sessions that are planned at the same time are not promised the same memory.
#[test]
fn two_threads_do_not_get_the_same_memory() {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let options = |ledger: &Ledger, policy| SetupOptions {
        ledger: ledger.clone(),
        policy,
        ..limited(DeviceRequest::Cpu, 1 << 30)
    };
    let full = Some(PolicyChoice::default());
    let needed = {
        let ledger = Ledger::with_limit(1 << 30);
        let setup = Setup::resolve(&model, &options(&ledger, full.clone()), 3900, &mut ()).expect("a setup");
        assert_eq!(ledger.reserved(), setup.needed() + copies(setup.plan()));
        ledger.reserved()
    };
    let both = |ledger: &Ledger, policy: Option<PolicyChoice>| {
        let resolve = || Setup::resolve(&model, &options(ledger, policy.clone()), 3900, &mut ());
        std::thread::scope(|scope| {
            let threads = [scope.spawn(resolve), scope.spawn(resolve)];
            threads.map(|thread| thread.join().expect("no panic"))
        })
    };
    // With a policy one is refused, and told why.
    let ledger = Ledger::with_limit(2 * needed - 1);
    let [one, other] = both(&ledger, full.clone());
    let (setup, error) = match (one, other) {
        (Ok(setup), Err(error)) | (Err(error), Ok(setup)) => (setup, error),
        (one, _) => panic!("one of two: {}", one.is_ok()),
    };
    assert!(matches!(error, EngineError::Memory(shortage) if shortage.reserved == needed), "{error}");
    assert!(error.to_string().contains("reserved for other sessions"), "{error}");
    // What was promised is the session's until it is dropped.
    let session = setup.start(&mut ()).expect("a session");
    drop(setup);
    assert!(ledger.reserved() > 0);
    drop(session);
    assert_eq!(ledger.reserved(), 0);
    // Without one, one gets less.
    let ledger = Ledger::with_limit(2 * needed - 1);
    let setups = both(&ledger, None).map(|setup| setup.expect("a setup"));
    let changed = setups.iter().filter(|setup| setup.advice().is_some()).count();
    assert!(changed == 1 && ledger.reserved() < 2 * needed, "{changed}");
}

/// The same for the memory of a device that sessions of one engine share. It is allocated when it is needed.
#[test]
fn sessions_of_an_engine_do_not_get_the_same_memory_of_a_device() {
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let options = |memory| SetupOptions {
        policy: Some(PolicyChoice::default()),
        ..limited(DeviceKind::Emulated(0).into(), memory)
    };
    let setup = Setup::resolve(&model, &options(1 << 30), 3900, &mut ()).expect("a setup");
    let asked = setup.session_options();
    let load = |memory| {
        let devices = vec![DeviceOptions { memory, ..DeviceOptions::all(DeviceKind::Emulated(0)) }];
        let options = EngineOptions { devices, ..EngineOptions::default() };
        Engine::load(&model, &options, &mut |_| ()).expect("an engine")
    };
    let (_, plan) = plan_session(&load(None), asked.clone(), None, 3900).expect("a plan");
    // When one session has its store, the other would fit beside that, but not beside all that the first will need.
    let device = plan.devices[0];
    let engine = load(Some(plan.device_allocated(0) + device.store + device.residual / 2));
    let promised = || promise(&engine, asked.clone(), None, 3900, None);
    let first = promised().expect("there is room");
    let session = Session::new(&engine, first.session).expect("a session");
    let error = promised().err().expect("a refusal");
    assert!(matches!(error, EngineError::Memory(Shortage { on_device: true, reserved: 1.., .. })), "{error}");
    drop((session, first.reservations));
    promised().expect("the memory is free again");
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
