//! Settings: the config file, the environment, and which of them wins.

use std::process::Command;

use crate::common::{ANSWER_LIMIT, DOCUMENT, Run, command, file, finished, scratch};

/// A command with a config file of its own.
fn configured(name: &str, config: &str, args: &[&str]) -> Command {
    let folder = scratch(&format!("config-{name}"));
    std::fs::create_dir_all(folder.join("longhand")).expect("a folder");
    std::fs::write(folder.join("longhand/config.toml"), config).expect("a config file");
    let mut command = command(args);
    command.env("XDG_CONFIG_HOME", folder).env_remove("LONGHAND_DISK_CACHE").env_remove("LONGHAND_THREADS");
    command.env_remove(ANSWER_LIMIT);
    command
}

fn run(name: &str, config: &str, args: &[&str]) -> Run {
    finished(configured(name, config, args).output().expect("the program starts"))
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let config = "policy = \"streaming:window=64\"\ncache-type-k = \"q8_0\"\nn-predict = 1\n";
    let ask = ["ask", "--json", "Why?"];
    let object = run("order", config, &ask).json();
    assert_eq!(
        (&object["policy"], &object["type_k"]),
        (&"streaming:sinks=4,window=64".into(), &"q8_0".into())
    );
    assert_eq!((&object["type_v"], &object["answers"][0]["tokens"]), (&"f16".into(), &1.into()));
    let mut with_variable = configured("order", config, &ask);
    with_variable.env("LONGHAND_POLICY", "tova").env("LONGHAND_SEED", "");
    let object = finished(with_variable.output().expect("starts")).json();
    assert_eq!((&object["policy"], &object["type_k"]), (&"tova:capacity=1024".into(), &"q8_0".into()));
    let mut with_flag = configured("order", config, &[&ask[..], &["--policy", "full"]].concat());
    with_flag.env("LONGHAND_POLICY", "tova");
    assert_eq!(finished(with_flag.output().expect("starts")).json()["policy"], "full");
}

/// Commands that compare policies are not limited to that of the settings.
#[test]
fn settings_of_sessions_are_for_ask_and_chat() {
    let config = "policy = \"streaming\"\ncache-type-k = \"q8_0\"\nctx-size = 2000\n";
    let plan = |config: &str| run("sessions", config, &["plan", "--json", "--memory", "1GiB"]).json();
    let with_settings = plan(config);
    assert_eq!(with_settings["plans"].as_array().map(Vec::len), Some(19 * 4));
    assert_eq!(with_settings, plan(""));
}

/// A model that is given in any way wins over the setting.
#[test]
fn the_model_of_the_settings_is_a_default() {
    let config = "model = \"no/such.gguf\"\n";
    let needle = file("configured.gguf", models::embedded::needle());
    run("model", config, &["ask", "Why?"]).assert_failed(1, "no/such.gguf");
    run("model", config, &["tokenize", "-p", "x"]).assert_failed(1, "no/such.gguf");
    for args in [
        &["ask", &needle, "Why?"][..],
        &["ask", "-m", &needle, "Why?"],
        &["tokenize", &needle, "-p", "x"],
        &["inspect", "-m", &needle, "--json"],
        &["plan", "--shape", "llama-3.2-1b", "--memory", "99GiB"],
        &["demo", "--tokens", "1k", "--facts", "1"],
    ] {
        println!("{args:?}");
        run("model", config, args).ok();
    }
    let mut variable = configured("model", config, &["ask", "Why?"]);
    variable.env("LONGHAND_MODEL", &needle);
    finished(variable.output().expect("starts")).ok();
}

/// What a saved conversation has decided, settings do not contradict.
#[test]
fn a_saved_conversation_keeps_its_own_settings() {
    let saved = scratch("config-resume").join("saved.session");
    let _ = std::fs::remove_file(&saved);
    let document = file("config-document.txt", DOCUMENT);
    let session = ["--session", saved.to_str().expect("text")];
    run("resume", "", &[&["chat", "-f", &document, "-c", "500"][..], &session].concat()).ok();
    assert!(saved.exists());
    let config =
        "policy = \"tova\"\nctx-size = 600\nsystem-prompt = \"Be brief.\"\ncache-type-k = \"q8_0\"\n";
    let again = run("resume", config, &[&["chat"][..], &session].concat());
    assert!(again.stderr.contains("policy full, context 500"), "{}", again.stderr);
    again.ok();
    run("resume", "", &[&["chat", "--policy", "tova"][..], &session].concat())
        .assert_failed(2, "saved.session");
}

#[test]
fn errors_in_settings_say_where() {
    for (config, part, hint) in [
        ("threads = 2\ntemprature = 1\n", "config.toml, line 2: there is no setting `temprature`", "`temp"),
        (
            "threads = 0\n",
            "config.toml, line 1: threads = 0: not a number of threads",
            "hint: give a number from 1",
        ),
        ("\npolicy = \"rasor\"\n", "line 2: policy = rasor: policy `rasor`", "did you mean `razor`?"),
        ("memory = 24\n", "line 1: memory = 24: not a size: 24 what?", "24GiB or 24MiB"),
        ("temp = \"hot\"\n", "line 1: temp = hot: not a value", "--help"),
        ("quiet = 1\n", "line 1: quiet = 1: neither true nor false", "true or false"),
        ("model-folders = [\"models\"]\n", "models is not an absolute path", "~/"),
        ("model = \n", "line 1: ", "in quotes"),
    ] {
        let found = run("wrong", config, &["devices"]);
        assert!(found.stderr.contains(hint), "{}", found.stderr);
        found.assert_failed(2, part);
    }
    let mut variable = configured("wrong", "", &["devices"]);
    variable.env("LONGHAND_TOP_K", "many");
    let found = finished(variable.output().expect("starts"));
    found.assert_failed(2, "the environment variable LONGHAND_TOP_K: top-k = many: not a whole number");
    // Help, and the way to the file, are there all the same.
    for args in [&["--help"][..], &["help", "config"], &["--version"], &["config", "path"]] {
        run("wrong", "x\n", args).ok();
    }
    let folder = scratch("config-folder");
    std::fs::create_dir_all(folder.join("longhand/config.toml")).expect("a folder");
    let found = command(&["devices"]).env("XDG_CONFIG_HOME", folder).output().expect("starts");
    finished(found).assert_failed(1, "it is not a regular file");
}

#[test]
fn config_shows_what_holds_and_where_it_comes_from() {
    let mut show = configured("show", "# mine\nthreads = 2\nquiet = true\n", &["config"]);
    show.env("LONGHAND_TOP_K", "5").env("LONGHAND_TREADS", "3");
    let text = finished(show.output().expect("starts")).ok();
    let row = |name: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(name)).expect(name);
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert!(row("threads").starts_with("2 /") && row("threads").ends_with("longhand/config.toml, line 2"));
    assert_eq!(row("top-k"), "5 the environment variable LONGHAND_TOP_K");
    assert_eq!((row("top-p").as_str(), row("policy").as_str()), ("0.95 default", "not set default"));
    assert!(row("quiet").starts_with("true"), "{text}");
    let note = "note: LONGHAND_TREADS belongs to no setting; did you mean LONGHAND_THREADS?";
    assert!(text.lines().any(|line| line == note), "{text}");
    let path = run("show", "", &["config", "path"]).ok();
    assert!(path.ends_with("config-show/longhand/config.toml\n"), "{path}");
    let object = run("show", "threads = 3", &["config", "--json"]).json();
    assert_eq!(object["settings"]["threads"]["values"][0], "3");
    assert_eq!(object["settings"]["seed"]["from"], "default");
    assert!(crate::common::longhand(&["config"]).ok().contains("(does not exist)"));
    // `text` is a command of the program, and none below `config`.
    let wrong = crate::common::longhand(&["config", "set"]);
    assert!(!wrong.stderr.contains("did you mean"), "{}", wrong.stderr);
    wrong.assert_failed(2, "unrecognized subcommand 'set'");
    let topic = crate::common::longhand(&["help", "plam"]);
    assert!(topic.stderr.contains("hint: did you mean `plan`? "), "{}", topic.stderr);
}

#[test]
fn quiet_can_be_a_setting() {
    let ask = ["ask", "The pass key is 9078648. What is the pass key?"];
    assert!(!run("quiet", "", &ask).stderr.is_empty());
    assert_eq!(run("quiet", "quiet = true\nno-repack = true\n", &ask).stderr, "");
}
