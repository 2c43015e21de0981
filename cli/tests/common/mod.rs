//! Runs the program as a user would, with a separate cache folder.
#![allow(dead_code)] // each test file uses some of these

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use models::gguf::GgufFile;
use models::gguf::write::{GgufWriter, MetaValue};

/// The result of a run.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Checks that the run succeeded. Returns its stdout.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }

    /// Checks that the run succeeded. Returns its stdout as JSON.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Checks that the run failed with this exit code: an `error: …` that contains `part`, a hint, nothing on
    /// stdout.
    #[track_caller]
    pub fn assert_failed(self, code: i32, part: &str) {
        let Run { code: found, stdout, stderr } = self;
        assert_eq!(found, Some(code), "{stderr}");
        assert!(stderr.lines().any(|line| line.starts_with("error: ")), "{stderr}");
        assert!(stderr.contains(part), "{part:?} is not in {stderr}");
        assert!(stderr.lines().any(|line| line.starts_with("hint: ")), "no hint: {stderr}");
        assert!(!stderr.contains("panicked") && stdout.is_empty(), "{stderr}{stdout}");
    }
}

/// A command that runs the program with these arguments.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhand"));
    command.args(args).env("XDG_CACHE_HOME", scratch("cache")).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// Runs the program with these arguments.
pub fn longhand(args: &[&str]) -> Run {
    let output = command(args).output().expect("the program starts");
    finished(output)
}

/// Runs the program with these arguments and this standard input.
pub fn longhand_with_input(args: &[&str], input: &[u8]) -> Run {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The program may end before it has read everything.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    finished(child.wait_with_output().expect("the program ends"))
}

fn finished(output: std::process::Output) -> Run {
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}

/// A folder for files of tests.
pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    std::fs::create_dir_all(&folder).expect("a folder for tests");
    folder
}

/// Writes a file. Returns its path.
pub fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    let path = scratch("files").join(name);
    std::fs::write(&path, content).expect("a test file");
    path.to_str().expect("a path that is text").to_owned()
}

/// Writes a changed copy of the embedded model, with all weights zero. Returns its path.
pub fn changed_model(name: &str, change: impl FnOnce(&mut GgufWriter)) -> String {
    let needle = GgufFile::from_bytes(models::embedded::needle()).expect("the embedded model");
    let mut writer = GgufWriter::new();
    for (key, value) in needle.metadata() {
        writer.set(key, MetaValue::from(value));
    }
    for tensor in needle.tensors() {
        writer.tensor(&tensor.name, &tensor.dims, tensor.ty);
    }
    change(&mut writer);
    file(name, writer.to_bytes_zeroed().expect("a file in memory"))
}

/// The path of data outside the repository; prints that the test is skipped if it is absent.
pub fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(path);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} does not exist", path.display());
    None
}

/// A short document with two facts.
pub const DOCUMENT: &str = "The old boat crossed the quiet river. Mary's favorite number is 34251. \
    Later that day the small bird left the garden. The pass key is 9078648. In the winter the \
    famous teacher described the narrow bridge.\n";
