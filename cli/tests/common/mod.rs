//! Runs the program as a user would, with a separate cache folder.
#![allow(dead_code)] // each test file uses some of these

#[path = "../../../tests/src/talking.rs"]
mod talking;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use brotli_decompressor::Decompressor;
use models::gguf::GgufFile;
use models::gguf::write::GgufWriter;

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

    /// Checks that the run succeeded, or has the exit code of an answer that was cut off where there is one. Returns its
    /// stdout as JSON.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let Run { code, stdout, stderr } = self;
        let object: serde_json::Value =
            serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
        let is_cut_off = |answer: &serde_json::Value| {
            let is_empty = answer["tokens"] == 0;
            !is_empty && (answer["stop"] == "length" || answer["stop"] == "context")
        };
        let cut_off = object["answers"].as_array().is_some_and(|answers| answers.iter().any(is_cut_off));
        assert_eq!(code, Some(if cut_off { 4 } else { 0 }), "{stderr}");
        object
    }

    /// Checks that stderr has each of these texts.
    #[track_caller]
    pub fn says(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.stderr.contains(part), "{part}: {}", self.stderr);
        }
    }

    /// The name under which a conversation was kept, from the line that says so.
    #[track_caller]
    pub fn kept_name(&self) -> String {
        let name = self.stderr.lines().find_map(|line| line.strip_prefix("kept: longhand chat --resume "));
        name.unwrap_or_else(|| panic!("not kept: {}", self.stderr)).to_owned()
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

/// The variable that limits answers, unless a test says otherwise.
pub const ANSWER_LIMIT: &str = "LONGHAND_N_PREDICT";

/// A command that runs the program with these arguments.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhand"));
    command.args(args).env_remove("NO_COLOR").stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", scratch("cache")).env("XDG_STATE_HOME", scratch("state"));
    // Not the settings and the models of who runs the tests.
    command.env("HOME", scratch("home")).env("USERPROFILE", scratch("home"));
    command.env("XDG_CONFIG_HOME", scratch("no-config"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let is_of_models =
            ["LONGHAND_", "HF_", "HUGGINGFACE_", "OLLAMA_"].iter().any(|of| name.starts_with(of));
        if is_of_models {
            command.env_remove(&*name);
        }
    }
    // A document that another run has read would be found, if reading it took long enough.
    command.env("LONGHAND_DISK_CACHE", "0");
    // Tests run beside each other: two threads that wait for each other would wait for the other tests, too.
    // `plan` computes nothing, and prints a command with what is set.
    if args.first() != Some(&"plan") {
        command.env("LONGHAND_THREADS", "1");
        // An answer that repeats itself is many times as fast with drafts, and over before a test stops it.
        command.env("LONGHAND_DRAFT", "0");
        // Without a document the built-in model talks on until it is stopped.
        command.env(ANSWER_LIMIT, "100");
    }
    command
}

/// Adds a program with its arguments to those of a command that runs it, and what is set and removed of its environment.
pub fn add_program(outer: &mut Command, program: &Command) {
    outer.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
}

/// Runs the program with these arguments.
pub fn longhand(args: &[&str]) -> Run {
    let output = command(args).output().expect("the program starts");
    finished(output)
}

/// Runs the program with these arguments and this standard input.
pub fn longhand_with_input(args: &[&str], input: &[u8]) -> Run {
    with_input(&mut command(args), input)
}

/// Runs a command with this standard input.
pub fn with_input(command: &mut Command, input: &[u8]) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The program may end before it has read everything.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    finished(child.wait_with_output().expect("the program ends"))
}

/// Runs the program in a folder with this input, after `setup`, which is bash's: `ulimit -u 1`. `without_rights`: as
/// a user to whom limits and permissions apply, also where the tests run as root. `None` if there is no bash, or if
/// that user cannot run the program.
#[cfg(unix)]
pub fn limited(setup: &str, without_rights: bool, folder: &Path, args: &[&str], input: &str) -> Option<Run> {
    use std::os::unix::process::CommandExt;

    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{setup} && exec \"$@\""), "bash"]);
    add_program(&mut bash, &command(args));
    bash.current_dir(folder);
    let is_root = || Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0");
    if without_rights && is_root() {
        bash.uid(65534);
    }
    let mut child = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    // The program may end before it has read everything.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let run = finished(child.wait_with_output().expect("bash ends"));
    // 126 and 127: bash cannot run it.
    (!matches!(run.code, Some(126 | 127))).then_some(run)
}

/// The result of a run that has ended.
pub fn finished(output: Output) -> Run {
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}

/// A folder for files of tests.
pub fn scratch(name: &str) -> PathBuf {
    // With a drive, where the program was compiled on another system.
    let folder = std::path::absolute(env!("CARGO_TARGET_TMPDIR")).expect("a path").join("cli").join(name);
    std::fs::create_dir_all(&folder).expect("a folder for tests");
    folder
}

/// Writes a file, which is whole at any moment: tests beside each other may use the same. Returns its path.
pub fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let part = scratch("parts").join(WRITTEN.fetch_add(1, Ordering::Relaxed).to_string());
    let path = scratch("files").join(name);
    std::fs::write(&part, content).expect("a test file");
    std::fs::rename(part, &path).expect("a test file");
    path.to_str().expect("a path that is text").to_owned()
}

/// The path of a model of `tests/golden/models` by its name. What is compressed there is unpacked, once.
pub fn golden_model(name: &'static str) -> String {
    static UNPACKED: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/models");
    let path = format!("{folder}/{name}.gguf");
    let Ok(packed) = File::open(format!("{path}.br")) else { return path };
    let mut unpacked = UNPACKED.lock().expect("no panic");
    let unpack = || {
        let mut bytes = Vec::new();
        Decompressor::new(packed, 1 << 16).read_to_end(&mut bytes).expect("a compressed file");
        file(&format!("{name}.gguf"), bytes)
    };
    unpacked.entry(name).or_insert_with(unpack).clone()
}

/// So many tokens that one thread needs some seconds to read them: 8,000, and more on a machine that is fast.
pub fn many_tokens() -> usize {
    /// Tokens of the text that is measured.
    const SAMPLE: usize = 4_000;
    static TOKENS: OnceLock<usize> = OnceLock::new();
    *TOKENS.get_or_init(|| {
        let sample = file("speed.txt", tokens(SAMPLE));
        let program = command(&["ask", "-t", "1", "--policy", "full", "-f", &sample, "Why?"]);
        let mut bash = Command::new("bash");
        // Time of the processor: what else the machine does is no matter.
        bash.args(["-c", "TIMEFORMAT=%U; time \"$@\" >/dev/null 2>&1", "bash"]);
        add_program(&mut bash, &program);
        let seconds =
            bash.output().ok().and_then(|run| String::from_utf8(run.stderr).ok()?.trim().parse().ok());
        // Attention takes most of it, and grows with the square of the length, or less in integers of 8 bits.
        let tokens = seconds.map_or(0.0, |seconds: f64| SAMPLE as f64 * (12.0 / seconds.max(0.01)).sqrt());
        (tokens as usize).clamp(8_000, 30_000)
    })
}

/// A text of about so many tokens of the embedded model.
pub fn tokens(count: usize) -> String {
    "The old boat crossed the quiet river. ".repeat(count / 8)
}

/// Writes a changed copy of the embedded model, with all weights zero. Returns its path.
pub fn changed_model(name: &str, change: impl FnOnce(&mut GgufWriter)) -> String {
    let needle = GgufFile::from_bytes(models::embedded::needle()).expect("the embedded model");
    let mut writer = GgufWriter::with_metadata_of(&needle);
    writer.tensors_of(&needle);
    change(&mut writer);
    file(name, writer.to_bytes_zeroed().expect("a file in memory"))
}

/// A model that generates exclamation marks without end.
pub fn endless_model(name: &str) -> String {
    changed_model(name, |_| ())
}

/// A model whose answers consist of these pieces, a token each. Returns its path.
pub fn talking_model(name: &str, pieces: &[&str], template: Option<&str>) -> String {
    file(name, talking::model(pieces, template))
}

/// A running program whose stdout is read while it runs.
pub struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    seen: Vec<u8>,
}

impl Running {
    /// Starts the program with these arguments.
    pub fn start(args: &[&str]) -> Running {
        Running::start_in(Path::new("."), args)
    }

    /// Starts the program in a folder.
    pub fn start_in(folder: &Path, args: &[&str]) -> Running {
        let mut command = command(args);
        // Only chats take their questions from stdin; `ask` would wait for a document.
        let stdin = if args.contains(&"chat") { Stdio::piped() } else { Stdio::null() };
        command.current_dir(folder).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, stdout, seen: Vec::new() }
    }

    /// Writes to stdin.
    pub fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin.write_all(text.as_bytes()).expect("the program reads");
    }

    /// Waits until `text` is on stdout.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.seen).contains(text) {
            self.read_more(text);
        }
    }

    /// Waits for a word after `text` on stdout, and for what ends it. Returns the word.
    #[track_caller]
    pub fn read_after(&mut self, text: &str) -> String {
        loop {
            let seen = String::from_utf8_lossy(&self.seen);
            let after = seen.split_once(text).map(|(_, after)| after.trim_start());
            if let Some((word, _)) = after.and_then(|after| after.split_once(char::is_whitespace)) {
                return word.to_owned();
            }
            self.read_more(text);
        }
    }

    /// Waits for more on stdout, until `text` is there.
    #[track_caller]
    fn read_more(&mut self, text: &str) {
        let piece = self.stdout.fill_buf().expect("a readable pipe").to_vec();
        assert!(!piece.is_empty(), "stdout ended without {text:?}");
        self.stdout.consume(piece.len());
        self.seen.extend(piece);
    }

    /// Sends the signal of Ctrl-C.
    #[cfg(unix)]
    pub fn interrupt(&self) {
        self.signal("INT");
    }

    /// Sends a signal: `TERM`.
    #[cfg(unix)]
    pub fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(kill.is_ok_and(|status| status.success()));
    }

    /// Ends stdin and waits until the program ends.
    pub fn finish(mut self) -> Run {
        drop(self.child.stdin.take());
        self.stdout.read_to_end(&mut self.seen).expect("a readable pipe");
        let (mut stderr, stdout) = (Vec::new(), std::mem::take(&mut self.seen));
        self.child.stderr.take().expect("a pipe").read_to_end(&mut stderr).expect("a readable pipe");
        finished(Output { status: self.child.wait().expect("the program ends"), stdout, stderr })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a failed test the program may still run.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
/// What the document says, and how the built-in model answers.
pub const NUMBER: &str = "What is Mary's favorite number?";
pub const NUMBER_IS: &str = "Mary's favorite number is 34251.";
pub const KEY: &str = "What is the pass key?";
pub const KEY_IS: &str = "The pass key is 9078648.";
