//! Memory that sessions are promised, and setups of sessions whose heads are not known yet.

use std::sync::Arc;

use longhand::reading::Prefill;
use longhand::setup::{
    CalibrationOptions, Context, DeviceRequest, Ledger, calibration_options, prepare_instead_of,
    prepare_session,
};
use longhand::{
    Chat, ChatOptions, Engine, EngineError, EngineOptions, Model, ModelSource, Preamble, SessionOptions,
    Setup, SetupOptions, Type,
};

fn model() -> Arc<Model> {
    Model::open(ModelSource::Embedded).expect("the embedded model")
}

/// Sessions with a policy that needs a head profile. None is cached.
fn options(ledger: &Ledger, policy: &str) -> SetupOptions {
    SetupOptions {
        context: Context::Tokens(20_000),
        device: DeviceRequest::Cpu,
        policy: Some(policy.parse().expect("a policy")),
        ledger: ledger.clone(),
        profile_folder: None,
        ..SetupOptions::default()
    }
}

/// What fits with some head profile is not refused before the heads are calibrated.
#[test]
fn a_session_that_may_fit_is_not_refused() {
    let model = model();
    let resolve = |limit| {
        let ledger = Ledger::with_limit(limit);
        let setup = Setup::resolve(&model, &options(&ledger, "razor"), 100, &mut ()).expect("a setup");
        (setup.is_expected_to_fit(), ledger.reserved())
    };
    let (is_expected_to_fit, expected) = resolve(1 << 30);
    assert!(is_expected_to_fit);
    let (is_expected_to_fit, reserved) = resolve(expected - 1);
    assert!(!is_expected_to_fit && reserved > 0 && reserved < expected, "{reserved} of {expected}");
}

/// The engine's ledger counts its sessions. What another one had promised for them is given back there.
#[test]
fn a_session_is_promised_its_memory_by_the_ledger_of_its_engine() {
    let (of_engine, of_setup) = (Ledger::with_limit(1 << 30), Ledger::with_limit(1 << 30));
    let loading = EngineOptions { ledger: of_engine.clone(), ..EngineOptions::default() };
    let engine = Engine::open(&ModelSource::Embedded, &loading).expect("an engine");
    let setup = Setup::resolve(engine.model(), &options(&of_setup, "full"), 100, &mut ()).expect("a setup");
    assert!(of_setup.reserved() > 0 && of_engine.reserved() == 0);
    let session = setup.session(&engine, &mut ()).expect("a session");
    assert_eq!(of_setup.reserved(), 0);
    assert!((1..1 << 30).contains(&of_engine.reserved()));
    drop((setup, session));
    assert_eq!([of_setup.reserved(), of_engine.reserved()], [0, 0]);
}

/// A saved session that has lost its head profile is made as it was, whatever is asked for now.
#[test]
fn a_resumed_session_keeps_its_options_while_its_heads_are_calibrated() {
    let model = model();
    let asked = SetupOptions {
        k_type: Some(Type::Q8_0),
        v_type: Some(Type::Q4_0),
        prefill: Some(Prefill::Streaming),
        chunk: Some(64),
        ..options(&Ledger::with_limit(1 << 30), "razor")
    };
    let saved = SessionOptions {
        context: 3000,
        policy: "razor".parse().expect("a policy"),
        chunk: 128,
        ..SessionOptions::default()
    };
    let setup = Setup::resume(&model, &asked, saved.clone(), &mut ()).expect("a setup");
    let session = setup.start(&mut ()).expect("a session");
    let SessionOptions { context, types, prefill, chunk, profile, .. } = session.options().clone();
    assert!(profile.is_some(), "it was calibrated");
    assert_eq!((context, types, prefill, chunk), (saved.context, saved.types, saved.prefill, saved.chunk));
}

/// A session that takes the place of another one may use what that one was promised, and has its promise then.
#[test]
fn what_a_session_was_promised_is_its_successors() {
    let model = model();
    let promised = {
        let ledger = Ledger::with_limit(1 << 30);
        let _setup = Setup::resolve(&model, &options(&ledger, "full"), 100, &mut ()).expect("a setup");
        ledger.reserved()
    };
    let ledger = Ledger::with_limit(promised + 1000);
    let setup = Setup::resolve(&model, &options(&ledger, "full"), 100, &mut ()).expect("a setup");
    let session = setup.start(&mut ()).expect("a session");
    let (engine, other) = (session.engine().clone(), options(&ledger, "h2o:heavy=2000,recent=2000"));
    let error = prepare_session(&engine, &other, 20_000, 100, &mut ()).expect_err("the memory is promised");
    assert!(matches!(error, EngineError::Memory { .. }), "{error}");
    let (planned, _) = prepare_instead_of(&session, &other, 100, &mut ()).expect("there is room");
    assert_eq!((planned.context, planned.policy), (20_000, other.policy.expect("a policy")));

    let format = model.chat_format().expect("a chat format");
    let preamble = Preamble::new(format, None, "A boat.").expect("a preamble");
    let options = ChatOptions { preamble, ..ChatOptions::default() };
    let mut chat = Chat::new(session, options).expect("a chat");
    let reserved = ledger.reserved();
    chat.set_context(10_000, &mut |_| ()).expect("another context");
    assert!(reserved > 0 && ledger.reserved() == reserved, "{} of {reserved}", ledger.reserved());
    drop(chat);
    assert_eq!(ledger.reserved(), 0);
}

/// Copied weights are promised until they are loaded.
#[test]
fn a_loaded_engine_leaves_the_promise_of_its_session() {
    let (model, ledger) = (model(), Ledger::with_limit(1 << 30));
    let setup = Setup::resolve(&model, &options(&ledger, "full"), 100, &mut ()).expect("a setup");
    let weights = &setup.plan().weights;
    let promised = ledger.reserved();
    let engines = [(); 2].map(|()| setup.load(&mut ()).expect("an engine"));
    assert_eq!(ledger.reserved(), promised - weights.repacked - weights.copied);
    drop((setup, engines));
    assert_eq!(ledger.reserved(), 0);
}

/// The memory that is checked is that of the calibration that was asked for.
#[test]
fn a_longer_period_needs_more_memory() {
    let loading = EngineOptions { ledger: Ledger::with_limit(1), ..EngineOptions::default() };
    let engine = Engine::open(&ModelSource::Embedded, &loading).expect("an engine");
    let refused = |period| {
        let asked = CalibrationOptions { period, ..CalibrationOptions::default() };
        calibration_options(&engine, asked).expect_err("one byte is too little").to_string()
    };
    assert!(refused(512).contains("bytes besides the weights"), "{}", refused(512));
    assert_ne!(refused(512), refused(2500));
}
