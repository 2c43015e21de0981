//! Layers on RPC servers, on the loopback: they compute what portable devices of this process compute, bit for bit. A step
//! sends little, and a server that is lost is an error that names it.

use std::sync::Arc;

use longhand::reading::Prefill;
use longhand::rpc::RpcProblem;
use longhand::testing::placement::Place;
use longhand::testing::snapshot::{self, Snapshot};
use longhand::{
    DeviceKind, DeviceOptions, Engine, EngineError, EngineOptions, ModelSource, Session, SessionOptions,
};
use tests::fixtures::{family_model_with, options, random_tokens, session, sync};
use tests::servers::TestServer;

use crate::placements::logits;

/// The last layers on devices, so many on each, with weights as in the file.
fn engine_options(devices: &[(DeviceKind, usize)]) -> EngineOptions {
    let device =
        |(kind, layers): &(DeviceKind, usize)| DeviceOptions { layers: *layers, ..DeviceOptions::all(*kind) };
    let devices = devices.iter().map(device).collect();
    EngineOptions { threads: Some(1), repack: false, devices, ..EngineOptions::default() }
}

/// The embedded model of four layers.
fn embedded(devices: &[(DeviceKind, usize)]) -> Arc<Engine> {
    Engine::open(&ModelSource::Embedded, &engine_options(devices)).expect("the embedded model opens")
}

#[test]
fn servers_compute_what_devices_of_this_process_do() {
    let servers = [TestServer::start(), TestServer::start()];
    let layers = |counts: [usize; 2]| {
        let portable = [0, 1].map(|number| (DeviceKind::Portable(number), counts[number]));
        let remote = [0, 1].map(|number| (servers[number].device, counts[number]));
        [portable, remote]
    };
    let [portable, remote] = layers([1, 2]).map(|devices| embedded(&devices));
    for (policy, prefill) in [
        ("full", Prefill::Exact),
        ("full", Prefill::Streaming),
        ("h2o:heavy=16,recent=8", Prefill::Exact),
        ("kvzip:heads=off,capacity=20,recent=10,slack=0", Prefill::Exact),
        ("lagkv:sinks=3,lag=16,ratio=0.25", Prefill::Streaming),
    ] {
        assert!(
            logits(&portable, policy, prefill) == logits(&remote, policy, prefill),
            "{policy} {prefill:?}"
        );
    }
    // Experts on the host, in the middle of layers on servers; layers with windows; recurrent layers.
    for name in ["qwen2moe-gqa-f32", "gpt-oss-window-f32", "qwen3next-gqa-f32"] {
        let [portable, remote] = layers([1, 1]).map(|devices| {
            let options = EngineOptions { host_experts: 1, ..engine_options(&devices) };
            family_model_with(name, &options)
        });
        let policy = "h2o:heavy=16,recent=8";
        assert!(
            logits(&portable, policy, Prefill::Exact) == logits(&remote, policy, Prefill::Exact),
            "{name}"
        );
    }
}

#[test]
fn a_session_moves_to_a_server_and_back() {
    let server = TestServer::start();
    let engines = [vec![], vec![(server.device, 3)], vec![]].map(|devices| embedded(&devices));
    let folder = tempfile::tempdir().expect("a folder");
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    for policy in ["full", "h2o:heavy=48,recent=16"] {
        let mut original = session(&engines[0], options(300, policy));
        sync(&mut original, &random_tokens(&engines[0], 80, 9));
        snapshot::save(&original, "mine", &first).expect("saved");
        let restored = Snapshot::open(&first).expect("opens").restore(&engines[1]).expect("restored");
        snapshot::save(&restored, "mine", &second).expect("saved again");
        let bytes = [&first, &second].map(|path| std::fs::read(path).expect("the file"));
        assert!(bytes[0] == bytes[1], "{policy}");
    }
}

#[test]
fn an_answer_is_undone_on_a_server() {
    let server = TestServer::start();
    let engine = embedded(&[(server.device, 3)]);
    let tokens = random_tokens(&engine, 60, 4);
    for policy in ["full", "streaming:sinks=4,window=100"] {
        let mut undone = session(&engine, options(200, policy));
        sync(&mut undone, &tokens[..50]);
        let mut direct = session(&engine, options(200, policy));
        sync(&mut direct, &tokens[..50]);
        sync(&mut undone, &tokens);
        sync(&mut undone, &tokens[..50]);
        for session in [&mut undone, &mut direct] {
            sync(session, &[&tokens[..50], &[7]].concat());
        }
        assert!(undone.logits() == direct.logits(), "{policy}");
    }
}

/// Bytes that each of some decode steps sends to a server.
fn bytes_of_steps(session: &mut Session, engine: &Engine, steps: u32) -> Vec<u64> {
    let server = engine.backends().at(Place::Device(0));
    let mut tokens = session.tokens().to_vec();
    let step = |token: u32| {
        let before = server.traffic().expect("a server").0;
        tokens.push(token);
        sync(session, &tokens);
        server.traffic().expect("a server").0 - before
    };
    (1..=steps).map(step).collect()
}

/// The graph of a step has some hundred tensors of 296 bytes each on the wire. It is sent with the first step.
#[test]
fn a_step_sends_numbers_and_not_the_graph() {
    let server = TestServer::start();
    let engine = embedded(&[(server.device, 4)]);
    // Evictions are graphs of their own, and the step after them sends its graph again.
    for (policy, min_short) in [("full", 7), ("streaming:sinks=4,window=40", 4)] {
        let mut session = session(&engine, SessionOptions { chunk: 64, ..options(200, policy) });
        sync(&mut session, &random_tokens(&engine, 60, 5));
        let bytes = bytes_of_steps(&mut session, &engine, 8);
        println!("{policy}: bytes sent by a step: {bytes:?}");
        assert!(bytes[0] > 50_000, "{policy} {bytes:?}");
        let short = bytes.iter().filter(|bytes| **bytes < 5_000).count();
        assert!(short >= min_short, "{policy} {bytes:?}");
    }
}

#[test]
fn a_lost_server_is_an_error_that_names_it() {
    let servers = [TestServer::start(), TestServer::start()];
    let engine = embedded(&[(servers[0].device, 1), (servers[1].device, 2)]);
    let mut session = session(&engine, options(200, "tova:capacity=64"));
    let tokens = random_tokens(&engine, 70, 9);
    sync(&mut session, &tokens[..60]);
    let [kept, lost] = servers;
    let address = lost.address.clone();
    drop(lost);
    let error = session.sync(&tokens, &mut |_| {}).map(|_| ()).expect_err("a server is lost");
    let EngineError::Compute(ggml::Error::Rpc { server, problem }) = &error else { panic!("{error}") };
    assert!(*server == address && matches!(problem, RpcProblem::Lost(_)), "{error}");
    assert!(error.hint().is_some());
    let again = session.sync(&tokens, &mut |_| {}).map(|_| ()).expect_err("it stays lost");
    assert_eq!(again.to_string(), error.to_string());
    drop(session);
    drop(engine);
    // The other server goes on.
    let engine = embedded(&[(kept.device, 2)]);
    sync(&mut tests::fixtures::session(&engine, options(200, "full")), &tokens);
}
