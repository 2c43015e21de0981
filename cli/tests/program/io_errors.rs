//! Every use of a file (opening, reading, writing, renaming …) fails with EIO in turn, by a library that the program
//! loads first. The program then ends with an error that names the file. What was there before is unchanged, and
//! nothing else is left behind.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{DOCUMENT, Run, command, scratch, with_input};

/// The use that means every rename.
const RENAMES: usize = 0;

/// A command that reads and writes files of one folder. `{}` is the folder.
struct Case {
    args: &'static [&'static str],
    input: &'static str,
    /// The file that it writes.
    output: Option<&'static str>,
    /// Whether what is written is a cache, which the program can do without.
    is_cache: bool,
}

/// A model. Commands that name it read it where it is, outside of their folder.
const MODEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/models/llama-gqa-llama3rope-f32.gguf");

const CASES: [Case; 6] = [
    Case::new(&["logits", "-t", "1", "-m", "{}/model.gguf", "--tokens", "1,2", "-o", "{}/out"], Some("out")),
    Case::new(&["heads", "import", "{}/map.tsv", "--out", "{}/out"], Some("out")),
    Case::new(&["heads", "calibrate", "-t", "1", "--period", "100", MODEL, "--out", "{}/out"], Some("out")),
    Case { is_cache: true, ..Case::new(&["heads", "calibrate", "-t", "1", "--period", "100", MODEL], None) },
    Case::new(&["ask", "-t", "1", "-f", "{}/document.txt", "What is the pass key?"], None),
    Case {
        input: "What is Mary's favorite number?\n",
        ..Case::new(&["chat", "-t", "1", "--session", "{}/session"], Some("session"))
    },
];

impl Case {
    const fn new(args: &'static [&'static str], output: Option<&'static str>) -> Case {
        Case { args, input: "", output, is_cache: false }
    }

    fn command(&self, folder: &Path) -> Command {
        let path = folder.to_str().expect("a path that is text");
        let args: Vec<String> = self.args.iter().map(|arg| arg.replace("{}", path)).collect();
        let mut command = command(&args.iter().map(String::as_str).collect::<Vec<_>>());
        if self.is_cache {
            command.env("XDG_CACHE_HOME", folder);
        }
        command
    }

    fn run(&self, command: &mut Command) -> Run {
        // What is rescued of a conversation is written here.
        with_input(command.current_dir(scratch("io-errors/rescued")), self.input.as_bytes())
    }
}

/// The library of `failing_files.c`; `None` without a C compiler.
fn library() -> Option<PathBuf> {
    let library = scratch("io-errors").join("failing_files.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failing_files.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
    let status = compiler.status().ok()?;
    assert!(status.success(), "the library is compiled");
    Some(library)
}

/// Permissions and bytes of files, by their path in a folder.
type Files = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// All files below a folder.
fn files(folder: &Path) -> Files {
    let mut all = Files::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), PathBuf::from(entry.file_name()));
        if path.is_dir() {
            all.extend(files(&path).into_iter().map(|(inner, file)| (name.join(inner), file)));
        } else {
            let mode = entry.metadata().expect("metadata").permissions().mode() & 0o777;
            all.insert(name, (mode, fs::read(&path).expect("a file")));
        }
    }
    all
}

/// Makes the folder hold these files and no others.
fn restore(folder: &Path, wanted: &Files) {
    if folder.exists() {
        fs::remove_dir_all(folder).expect("removed");
    }
    fs::create_dir_all(folder).expect("a folder");
    for (name, (mode, bytes)) in wanted {
        fs::write(folder.join(name), bytes).expect("a file");
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(*mode)).expect("permissions");
    }
}

/// The files that the commands read, and older ones that they replace.
fn inputs(case: &Case, folder: &Path) -> Files {
    let mut inputs: Files = [
        ("model.gguf", fs::read(MODEL).expect("the model")),
        ("document.txt", DOCUMENT.into()),
        ("map.tsv", "0\t1\t0\t1\n".repeat(4).into()),
        ("config.json", r#"{"sink_size": 64, "recent_size": 256}"#.into()),
        ("out", "older".into()),
    ]
    .map(|(name, bytes)| (name.into(), (0o640, bytes)))
    .into();
    if case.is_cache {
        inputs.clear();
    }
    if case.output == Some("session") {
        restore(folder, &Files::new());
        let first = Case { input: DOCUMENT, ..Case::new(case.args, case.output) };
        first.run(&mut first.command(folder)).ok();
        inputs.extend(files(folder));
    }
    inputs
}

#[test]
fn every_input_or_output_error_leaves_files_as_they_were() {
    let Some(library) = library() else { return println!("skipped: no C compiler") };
    let (folder, report) = (scratch("io-errors").join("files"), scratch("io-errors").join("report"));
    for case in &CASES {
        let before = inputs(case, &folder);
        restore(&folder, &before);
        let complete = case.run(&mut case.command(&folder)).ok();
        let after = files(&folder);
        assert!(case.output.is_none_or(|name| after.get(Path::new(name)) != before.get(Path::new(name))));
        let mut errors = 0;
        for number in RENAMES.. {
            restore(&folder, &before);
            let _ = fs::remove_file(&report);
            let mut command = case.command(&folder);
            command.env("LD_PRELOAD", &library).env("FAILING_FOLDER", &folder);
            command.env("FAILING_USE", number.to_string()).env("FAILING_REPORT", &report);
            let run = case.run(&mut command);
            let (found, failed) = (files(&folder), fs::read_to_string(&report).ok());
            let what = format!("{:?}, use {number}: {failed:?} fails: {}", case.args, run.stderr);
            // A conversation is also saved after each answer; what was saved then can be resumed.
            let is_resumed =
                || case.output == Some("session") && case.run(&mut case.command(&folder)).code == Some(0);
            if run.code == Some(0) {
                // A conversation is complete without its KV cache.
                let lacks_cache = run.stderr.contains("is kept, without its KV cache") && is_resumed();
                assert!(case.is_cache || found == after || lacks_cache, "{what}");
                assert_eq!(run.stdout, complete, "{what}");
            } else {
                assert_eq!(run.code, Some(1), "{what}");
                assert!(failed.is_some(), "{what}");
                assert!(run.stderr.contains("error: ") && run.stderr.contains("\nhint: "), "{what}");
                assert!(run.stderr.contains(folder.to_str().expect("text")), "{what}");
                assert!(!case.is_cache && !run.stderr.contains("panicked"), "{what}");
                errors += 1;
                assert!(found == before || is_resumed(), "{what}");
            }
            let litter = |name: &PathBuf| name.extension().is_some_and(|extension| extension == "tmp");
            assert!(!found.keys().any(litter), "{what}");
            if failed.is_none() && number != RENAMES {
                println!("{:?}: {} uses, {errors} errors", case.args, number - 1);
                break;
            }
        }
        assert!(case.is_cache || errors > 2, "{:?}: {errors} errors", case.args);
    }
}
