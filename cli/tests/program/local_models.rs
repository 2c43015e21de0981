//! Models in the caches of other programs: `longhand models`, and models by name.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Run, command, finished, golden_model, longhand, scratch};

/// A home folder with models as the three programs keep them. The embedded model is Ollama's `needle:latest`.
fn home(name: &str) -> PathBuf {
    let home = scratch("homes").join(name);
    let _ = std::fs::remove_dir_all(&home);
    let put = |path: &str, content: &[u8]| {
        let path = home.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    };
    let [tiny, qwen] = ["llama-gqa-llama3rope-f16", "qwen2-gqa-q8_0"]
        .map(|name| std::fs::read(golden_model(name)).expect("a model"));
    let hub = ".cache/huggingface/hub/models--acme--Tiny-Llama-GGUF";
    put(&format!("{hub}/refs/main"), b"bbb");
    put(&format!("{hub}/snapshots/aaa/tiny-f16.gguf"), b"an old revision");
    put(&format!("{hub}/snapshots/bbb/tiny-f16.gguf"), &tiny);
    put(&format!("{hub}/snapshots/bbb/README.md"), b"about it");
    put(".lmstudio/models/acme/qwen/tiny-qwen-q8_0.gguf", &qwen);
    let manifest = |digest: &str| {
        let layer = |kind: &str, digest: &str| {
            format!(r#"{{"mediaType":"application/vnd.ollama.image.{kind}","digest":"{digest}","size":1}}"#)
        };
        let layers = [layer("license", "sha256:00"), layer("model", digest)].join(",");
        format!(r#"{{"schemaVersion":2,"layers":[{layers}]}}"#)
    };
    let hash = "ab".repeat(32);
    let library = ".ollama/models/manifests/registry.ollama.ai/library";
    put(&format!(".ollama/models/blobs/sha256-{hash}"), models::embedded::needle());
    put(&format!("{library}/needle/latest"), manifest(&format!("sha256:{hash}")).as_bytes());
    // Not used: a path instead of a hash, a missing blob, no JSON.
    put(".ollama/models/secret.gguf", &tiny);
    put(&format!("{library}/escape/latest"), manifest("sha256:../../secret.gguf").as_bytes());
    put(&format!("{library}/gone/latest"), manifest(&format!("sha256:{}", "cd".repeat(32))).as_bytes());
    put(&format!("{library}/damaged/latest"), b"{\"layers\": [");
    home
}

fn at(home: &Path, args: &[&str]) -> Command {
    let mut command = command(args);
    command.env("HOME", home).env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
    // The home folder and the settings of Windows.
    command.env("USERPROFILE", home).env("APPDATA", home.join(".config"));
    command
}

fn run(home: &Path, args: &[&str]) -> Run {
    finished(at(home, args).output().expect("the program starts"))
}

#[test]
fn models_of_three_programs_and_of_folders_are_listed() {
    let home = home("list");
    let more = home.join("more");
    std::fs::create_dir_all(more.join("deep")).expect("a folder");
    std::fs::write(more.join("deep/broken.gguf"), "no model").expect("a file");
    std::fs::write(more.join("part-00002-of-00003.gguf"), "no model").expect("a file");
    std::fs::create_dir_all(home.join(".config/longhand")).expect("a folder");
    std::fs::write(home.join(".config/longhand/config.toml"), "model-folders = [\"~/more\"]\n")
        .expect("a file");
    let objects = run(&home, &["models", "--json"]).json();
    let found: Vec<_> = objects.as_array().expect("an array").iter().collect();
    let names: Vec<&str> = found.iter().filter_map(|model| model["name"].as_str()).collect();
    let expected = [
        "acme/Tiny-Llama-GGUF/tiny-f16.gguf",
        "acme/qwen/tiny-qwen-q8_0.gguf",
        "deep/broken.gguf",
        "needle:latest",
    ];
    assert_eq!(names, expected);
    assert_eq!((&found[0]["architecture"], &found[0]["runs"]), (&"llama".into(), &true.into()));
    assert_eq!((&found[0]["from"], &found[0]["type"]), (&"Hugging Face".into(), &"F16".into()));
    assert!(
        found[0]["path"].as_str().is_some_and(|path| path.replace('\\', "/").contains("/bbb/")),
        "{}",
        found[0]
    );
    assert_eq!((&found[1]["from"], &found[1]["type"]), (&"LM Studio".into(), &"Q8_0".into()));
    assert_eq!((&found[2]["from"], &found[2]["runs"]), (&"model-folders".into(), &false.into()));
    assert_eq!(found[3]["bytes"], models::embedded::needle().len());
    let table = run(&home, &["models"]).ok();
    assert!(table.contains("\ndeep/broken.gguf: ") && table.contains("not a GGUF file"), "{table}");
    // The variables of Hugging Face's programs may name a folder from here on, or from the home folder on.
    std::fs::rename(home.join(".cache/huggingface"), home.join("elsewhere")).expect("moved");
    for (variable, value) in [("HF_HOME", "elsewhere"), ("HF_HUB_CACHE", "~/elsewhere/hub")] {
        let mut command = at(&home, &["models", "--json"]);
        command.current_dir(&home).env(variable, value);
        let objects = finished(command.output().expect("it starts")).json();
        assert_eq!(objects[0]["name"], "acme/Tiny-Llama-GGUF/tiny-f16.gguf", "{variable}");
    }
}

/// Without models, three to begin with are named. The planner's arithmetic says that they fit.
#[test]
fn a_machine_without_models_is_told_of_some() {
    let empty = scratch("homes").join("empty");
    let text = run(&empty, &["models"]).ok();
    assert!(
        text.starts_with("no models in the caches") && text.contains("Nothing was downloaded or checked"),
        "{text}"
    );
    let free = longhand(&["devices", "--json"]).json()["cpu"]["free"].as_u64();
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("longhand chat -hf ")).collect();
    assert_eq!(lines.len(), 3, "{text}");
    let sizes = lines.iter().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [repository, _, _, needed, unit, fits] = words[..] else { panic!("{line}") };
        assert!(repository.contains('/') && repository.ends_with(":Q4_K_M"), "{line}");
        let unit = if unit == "GiB" { 1u64 << 30 } else { 1 << 20 };
        let needed = (needed.parse::<f64>().expect("a number") * unit as f64) as u64;
        // Other programs take and free memory meanwhile.
        assert!(fits != "yes" || free.is_none_or(|free| needed < free + free / 2), "{line}: {free:?}");
        needed
    });
    assert!(sizes.collect::<Vec<_>>().is_sorted_by(|a, b| a > b), "{text}");
    assert_eq!(run(&empty, &["models", "--json"]).ok(), "[]\n");
}

/// On a terminal, long names are wrapped.
#[cfg(target_os = "linux")]
#[test]
fn lists_fit_the_terminal() {
    let home = home("narrow");
    for what in ["models", "policies", "config", "devices"] {
        let line = format!("stty cols 70; {} {what}", env!("CARGO_BIN_EXE_longhand"));
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).stdin(std::process::Stdio::null());
        for (name, value) in at(&home, &[]).get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let Ok(output) = script.output() else { return println!("skipped: there is no `script`") };
        let text = finished(output).ok();
        // A path of the settings' file is not broken.
        let wide = |line: &&str| line.trim_end().chars().count() > 70 && !line.starts_with("config file: ");
        assert_eq!(text.lines().filter(wide).collect::<Vec<_>>(), Vec::<&str>::new(), "{what}");
        // Nothing of a name is lost.
        let column = |line: &str| line.chars().take(20).collect::<String>().trim_end().to_owned();
        let names: String = text.lines().map(column).collect();
        assert!(what != "models" || names.contains("acme/Tiny-Llama-GGUF/tiny-f16.gguf"), "{text}");
    }
}

#[test]
fn a_model_can_be_given_by_name() {
    let home = home("names");
    let question = "The pass key is 9078648. What is the pass key?";
    for args in [
        &["ask", "needle", question][..],
        &["ask", "needle:latest", question],
        &["ask", "-m", "NEED", question],
    ] {
        println!("{args:?}");
        let run = run(&home, args);
        assert!(run.stdout.contains("9078648"), "{}{}", run.stdout, run.stderr);
    }
    for args in [&["inspect", "tiny-qwen"][..], &["inspect", "-m", "acme/qwen/tiny-qwen-q8_0.gguf"]] {
        assert!(run(&home, args).ok().contains("tiny-qwen-q8_0.gguf: GGUF version"));
    }
    // A word before a question is a model, also where it is a part of its name; alone it is a question.
    run(&home, &["ask", "tiny", question]).assert_failed(2, "tiny is part of the names of 2 models");
    let part = run(&home, &["ask", "need", question]);
    assert!(
        part.stderr.contains("note: need is the model ") && part.stdout.contains("9078648"),
        "{}",
        part.stderr
    );
    let typo = run(&home, &["ask", "neddle", question]);
    let hint = "hint: did you mean `needle`? `longhand models` lists the models (acme/Tiny-Llama-GGUF/tiny-f16.gguf, ";
    assert!(typo.stderr.contains(hint) && typo.stderr.contains("give it with -p"), "{}", typo.stderr);
    typo.assert_failed(1, "neddle: No such file, and no model on this machine has this name");
    let repository = run(&home, &["ask", "acme/Other-GGUF:Q8_0", question]);
    assert!(repository.stderr.contains("; -hf acme/Other-GGUF:Q8_0 downloads it"), "{}", repository.stderr);
    for args in [&["ask", "--json", "neddle"][..], &["ask", "--json", "-p", "neddle"]] {
        assert_eq!(run(&home, args).json()["answers"][0]["question"], "neddle");
    }
    run(&home, &["ask", "needle"]).assert_failed(2, "there is no question");
    let two = run(&home, &["inspect", "tiny"]);
    assert!(
        two.stderr.contains("hint: give more of the name: acme/Tiny-Llama-GGUF/tiny-f16.gguf, acme/qwen")
    );
    two.assert_failed(2, "tiny is part of the names of 2 models");
    let none = run(&home, &["inspect", "neddle"]);
    assert!(none.stderr.contains("hint: did you mean `needle`? `longhand models`"), "{}", none.stderr);
    none.assert_failed(1, "neddle: No such file, and no model on this machine");
    // What is meant is at Hugging Face.
    let remote = run(&home, &["inspect", "acme/Other-GGUF"]);
    assert!(remote.stderr.contains("; -hf acme/Other-GGUF downloads it from Hugging Face"));
    let address = "https://huggingface.co/acme/Other-GGUF/resolve/main/other-Q8_0.gguf?download=true";
    let address = run(&home, &["inspect", address]);
    assert!(address.stderr.contains("as -hf acme/Other-GGUF:other-Q8_0.gguf; "), "{}", address.stderr);
    address.assert_failed(1, "is an address, and -m takes files and names");

    // A file that exists wins.
    let folder = scratch("names");
    std::fs::write(folder.join("needle"), "no model").expect("a file");
    let run = at(&home, &["inspect", "needle"]).current_dir(folder).output().expect("starts");
    finished(run).assert_failed(1, "not a GGUF file");
}

/// The search ends, and says what it did not look at.
#[cfg(unix)]
#[test]
fn odd_entries_in_the_folders_do_not_stop_the_search() {
    use std::os::unix::fs::symlink;

    let home = home("entries");
    let hub = home.join(".cache/huggingface/hub");
    let ollama = home.join(".ollama/models");
    let pipe = |path: PathBuf| {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    };
    let before = run(&home, &["models", "--json"]).json();
    pipe(hub.join("models--acme--Pipe/refs/main"));
    pipe(hub.join("models--acme--Pipe/snapshots/aaa/pipe.gguf"));
    pipe(hub.join("models--acme--Pipe/snapshots/pipe"));
    pipe(ollama.join("manifests/registry.ollama.ai/library/pipe/latest"));
    pipe(ollama.join(format!("blobs/sha256-{}", "cd".repeat(32))));
    symlink("/dev/zero", hub.join("models--acme--Pipe/snapshots/aaa/zero.gguf")).expect("a link");
    symlink("/dev/zero", ollama.join("manifests/registry.ollama.ai/zero")).expect("a link");
    symlink("gone", hub.join("models--acme--Pipe/snapshots/aaa/gone.gguf")).expect("a link");
    // Folders that are found again below themselves are not listed twice.
    let studio = home.join(".lmstudio/models");
    symlink(&studio, studio.join("acme/again")).expect("a link");
    symlink("..", studio.join("acme/qwen/up")).expect("a link");
    assert_eq!(run(&home, &["models", "--json"]).json(), before);
    // More than anybody has.
    let many = studio.join("many");
    std::fs::create_dir_all(&many).expect("a folder");
    for i in 0..20_001 {
        std::fs::write(many.join(format!("{i}.txt")), "").expect("a file");
    }
    let listed = run(&home, &["models"]);
    assert!(listed.stderr.contains("models: only 20,000 entries were looked at"), "{}", listed.stderr);
    assert!(listed.ok().contains("needle:latest"));
    let unknown = run(&home, &["inspect", "no-such-model"]);
    assert!(unknown.stderr.contains("Not all folders were searched"), "{}", unknown.stderr);
}

#[cfg(unix)]
#[test]
fn folders_that_cannot_be_read_are_named() {
    use std::os::unix::fs::PermissionsExt;

    let home = scratch("homes").join("unreadable");
    let closed = home.join("closed");
    std::fs::create_dir_all(&closed).expect("a folder");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).expect("permissions");
    let args = ["models", "--model-folders", closed.to_str().expect("text")];
    let setup = format!("export HOME='{}'", home.display());
    let run = crate::common::limited(&setup, true, &home, &args, "");
    // Another user than root may not be able to run the program.
    if let Some(run) = run {
        assert!(run.stderr.contains("closed: Permission denied"), "{}", run.stderr);
    }
}

#[cfg(unix)]
#[test]
fn names_of_models_are_escaped_and_loops_end() {
    let home = home("odd");
    let folder = home.join(".lmstudio/models");
    std::fs::write(folder.join("red\u{1b}[31m\u{200b}.gguf"), "no model").expect("a file");
    std::os::unix::fs::symlink(&folder, folder.join("again")).expect("a link");
    std::process::Command::new("mkfifo").arg(folder.join("pipe.gguf")).status().expect("mkfifo");
    let table = run(&home, &["models"]).ok();
    assert!(!table.contains('\u{1b}') && !table.contains('\u{200b}') && table.contains("red"), "{table}");
    assert!(!table.contains("pipe.gguf"), "{table}");
}
