//! Layers on the devices of `longhand rpc-server`, on the loopback; servers that are not there, and one that is killed.

use crate::common::{Running, longhand};
#[cfg(unix)]
use crate::common::{endless_model, scratch};

const QUESTION: &str = "Mary's favorite number is 34251. What is Mary's favorite number?";

/// A server on a free port, and its address.
fn server(args: &[&str]) -> (Running, String) {
    let mut server = Running::start(&[&["rpc-server", "--port", "0", "--device", "cpu"], args].concat());
    let address = server.read_after("listening on ").trim_end_matches(',').to_owned();
    (server, address)
}

#[test]
fn an_answer_comes_from_two_servers() {
    let (first, one) = server(&[]);
    let (_second, two) = server(&["--memory", "1GiB"]);
    let both = format!("{one},{two}");
    let run = longhand(&["ask", "--rpc", &both, "--tensor-split", "1,1", QUESTION]);
    run.says(&[&format!("on rpc:0 ({one})"), &format!("on rpc:1 ({two})")]);
    assert_eq!(run.ok().trim(), "Mary's favorite number is 34251.");
    let devices = longhand(&["devices", "--json", "--rpc", &both]).json();
    assert_eq!(
        (&devices["rpc"][0]["device"], &devices["rpc"][1]["server"]),
        (&"rpc:0".into(), &two.as_str().into())
    );
    assert_eq!(devices["rpc"][1]["free"], 1u64 << 30);
    assert!(longhand(&["devices", "--rpc", &one]).ok().contains(&one));
    let plan = longhand(&["plan", "--shape", "qwen2.5-0.5b", "-c", "1k", "--rpc", &two, "--device", "rpc:0"]);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    #[cfg(unix)]
    {
        first.signal("TERM");
        let run = first.finish();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.says(&["is connected", "has left"]);
    }
    #[cfg(not(unix))]
    drop(first);
}

/// The error names the machine, and the conversation goes on elsewhere.
#[cfg(unix)]
#[test]
fn a_killed_server_costs_the_answer_and_not_the_conversation() {
    let model = endless_model("rpc-endless.gguf");
    let (server, address) = server(&[]);
    let folder = scratch("rpc-killed");
    let mut chat = Running::start_in(
        &folder,
        &["chat", &model, "-c", "4k", "-n", "3000", "--temp", "0", "--rpc", &address],
    );
    chat.write("Begin.\n");
    chat.wait_for("!!!!");
    server.signal("KILL");
    let run = chat.finish();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    run.says(&[
        &format!("error: RPC server {address}: the connection was lost"),
        "hint: start the server there",
    ]);
    assert_eq!(run.stderr.matches("the connection was lost").count(), 1, "{}", run.stderr);
    let name = run.kept_name();
    let resumed = longhand(&["chat", &model, "--resume", &name, "-n", "1", "--device", "cpu"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
}

#[test]
fn servers_that_cannot_be_used_are_named() {
    // A port where nobody may listen but the system.
    let nobody = "127.0.0.1:1";
    let ask = |servers: &str| longhand(&["ask", "--rpc", servers, "Why?"]);
    ask(nobody).assert_failed(1, &format!("RPC server {nobody}: no connection"));
    // Longer than a name may be: nobody is asked.
    ask(&"a".repeat(64)).assert_failed(1, "the name does not resolve");
    ask("box:port").assert_failed(1, "RPC server box:port: this is not an address");
    longhand(&["devices", "--rpc", nobody]).assert_failed(1, "no connection");
    longhand(&["ask", "--device", "rpc:0", "Why?"]).assert_failed(2, "there is no device rpc:0");
    for without in [["--device", "cpu"], ["-ngl", "0"]] {
        longhand(&[&["ask", "--rpc", nobody, "Why?"], &without[..]].concat())
            .assert_failed(2, "--rpc has no effect");
    }
    let (_server, address) = server(&[]);
    ask(&format!("{address},{address}")).assert_failed(1, "it was given twice");
    longhand(&["ask", "--rpc", &address, "--device", "rpc:1", "Why?"]).assert_failed(2, "no device rpc:1");
}

#[test]
fn a_server_says_who_can_reach_it() {
    let (open, address) = server(&["--host", "0.0.0.0"]);
    let port = address.rsplit(':').next().expect("a port").to_owned();
    longhand(&["rpc-server", "--port", &port, "--host", "0.0.0.0"])
        .assert_failed(1, "cannot listen on 0.0.0.0");
    #[cfg(unix)]
    {
        open.interrupt();
        let run = open.finish();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.says(&["warning: everybody who reaches 0.0.0.0", "no password and no encryption"]);
    }
    longhand(&["rpc-server", "--device", "rpc:0"]).assert_failed(2, "rpc:0 cannot be served");
}
