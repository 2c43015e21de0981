//! Readings that take long: they survive the end of the process, `read` reads ahead, and `documents` lists what was read.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{DOCUMENT, Run, command, file, finished, many_tokens, scratch, tokens};

const QUESTION: &str = "What is Mary's favorite number?";
const ANSWER: &str = "Mary's favorite number is 34251.";

/// A folder for caches that is empty, and a document.
struct Setting {
    cache: PathBuf,
    document: String,
}

impl Setting {
    fn new(name: &str, count: usize) -> Setting {
        let cache = scratch(&format!("reading-{name}"));
        let _ = fs::remove_dir_all(&cache);
        let text = format!("{name}. {ANSWER} {}", tokens(count));
        Setting { cache, document: file(&format!("reading-{name}.txt"), text) }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("XDG_CACHE_HOME", &self.cache).env_remove("LONGHAND_DISK_CACHE");
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        finished(self.command(args).output().expect("it runs"))
    }

    fn ask(&self, more: &[&str]) -> Run {
        self.run(&[&["ask", "-f", &self.document, QUESTION], more].concat())
    }

    /// Starts a command, and waits until a part of the reading is kept.
    fn begin(&self, args: &[&str]) -> Child {
        // With one thread that takes some seconds.
        let mut command = self.command(&[args, &["-t", "1"]].concat());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        while self.files("part").is_empty() {
            if let Some(status) = child.try_wait().expect("known") {
                panic!("it has ended before it kept anything: {status}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    /// The cached files with this extension.
    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache.join("longhand/documents")).into_iter().flatten().flatten();
        let is_wanted = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
        entries.map(|entry| entry.path()).filter(is_wanted).collect()
    }

    fn documents(&self) -> Vec<Value> {
        self.run(&["documents", "--json"]).json().as_array().expect("a list").clone()
    }
}

fn terminate(child: &Child) {
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
}

fn name(path: &str) -> String {
    Path::new(path).file_name().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn a_killed_reading_goes_on_with_the_next_question() {
    for (number, flags) in
        [&["--policy", "full"][..], &["--policy", "razor", "--prefill", "streaming"]].into_iter().enumerate()
    {
        let setting = Setting::new(&format!("killed-{number}"), many_tokens());
        let ask = ["ask", "-f", &setting.document, QUESTION];
        let mut child = setting.begin(&[&ask[..], flags].concat());
        child.kill().expect("killed");
        child.wait().expect("ended");
        let [entry] = &setting.documents()[..] else { panic!("one reading") };
        assert_eq!(
            (&entry["complete"], &entry["names"][0]),
            (&false.into(), &name(&setting.document).into())
        );
        let percent = (entry["share"].as_f64().expect("a share") * 100.0 + 1e-6).floor();
        let resumed = setting.ask(flags);
        let found = format!("found {}: {percent} % read", name(&setting.document));
        assert!(resumed.stderr.contains(&found), "{found}: {}", resumed.stderr);
        assert!(setting.files("part").is_empty(), "it is finished");
        assert_eq!(resumed.ok().trim(), ANSWER);
    }
}

#[test]
fn an_interrupted_question_keeps_what_was_read() {
    let setting = Setting::new("interrupted", many_tokens());
    let child = setting.begin(&["ask", "-f", &setting.document, QUESTION]);
    terminate(&child);
    let run = finished(child.wait_with_output().expect("ended"));
    assert_eq!(run.code, Some(143), "{}", run.stderr);
    assert!(run.stderr.contains(" is read and kept"), "{}", run.stderr);
    let resumed = setting.ask(&[]);
    assert!(resumed.stderr.contains("found ") && resumed.stderr.contains(" % read"), "{}", resumed.stderr);
    assert_eq!(resumed.ok().trim(), ANSWER);
}

#[test]
fn documents_are_read_ahead_and_found() {
    let setting = Setting::new("ahead", many_tokens());
    let read = ["read", &setting.document, "--policy", "razor"];
    let child = setting.begin(&read);
    terminate(&child);
    let run = finished(child.wait_with_output().expect("ended"));
    assert!(run.stderr.contains("hint: the same command goes on"), "{}", run.stderr);
    run.assert_failed(143, "is read and kept");

    let run = setting.run(&read);
    assert!(run.stderr.contains("found ") && run.stderr.contains(" % read"), "{}", run.stderr);
    let report = run.ok();
    let lines: Vec<&str> = report.lines().collect();
    let [kept] = &setting.files("read")[..] else { panic!("one file") };
    assert!(lines[0].contains(&name(&setting.document)) && lines[0].contains(" tokens in "), "{report}");
    assert!(lines[1].contains(&kept.display().to_string()), "{report}");
    let command = lines[2].strip_prefix("ask   longhand ").expect(&report);
    assert!(command.contains("--policy razor") && setting.files("part").is_empty(), "{report}");

    // The command that was printed finds it.
    let words: Vec<String> =
        command.split(' ').map(|word| word.trim_matches('\'').replace("QUESTION", QUESTION)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let asked = setting.run(&words);
    assert!(asked.stderr.contains("read before: "), "{}", asked.stderr);
    assert_eq!(asked.ok().trim(), ANSWER);
    assert!(setting.run(&read).ok().contains("which were read before"));
}

#[test]
fn what_cannot_be_kept_is_not_read_ahead() {
    let setting = Setting::new("too-large", 2_000);
    let read = |limit: &str| setting.run(&["read", &setting.document, "--disk-cache", limit]);
    read("100KiB").assert_failed(1, "what is read could not be kept");
    read("0").assert_failed(2, "--disk-cache is 0");
    assert!(read("1GiB").ok().contains("kept "));
    setting.run(&["read"]).assert_failed(2, "FILE");
    setting.run(&["read", "model.gguf", &setting.document]).assert_failed(2, "model.gguf is a model file");
}

#[test]
fn documents_that_were_read_are_listed_and_removed() {
    let setting = Setting::new("listed", 800);
    assert!(setting.run(&["documents"]).stderr.contains("no document that was read is kept"));
    let other = file("reading-other.txt", DOCUMENT.repeat(20));
    for args in [&[setting.document.as_str()][..], &[&other], &[&other, "--policy", "razor"]] {
        setting.run(&[&["read"], args].concat()).ok();
    }
    let documents = setting.documents();
    assert_eq!(documents.len(), 3);
    assert!(documents.iter().all(|entry| entry["complete"] == true && entry["tokens"].as_u64() > Some(500)));
    let table = setting.run(&["documents"]).ok();
    // With two lines of titles.
    assert!(table.lines().count() == 5 && table.contains("reading-other.txt"), "{table}");
    assert!(table.contains("complete") && table.contains("razor"), "{table}");

    setting.run(&["documents", "remove", "nothing.txt"]).assert_failed(1, "no document named nothing.txt");
    setting.run(&["documents", "remove"]).assert_failed(2, "NAME");
    let id = documents[0]["id"].as_str().expect("an id");
    assert!(setting.run(&["documents", "remove", &id[..8]]).stderr.contains("removed "));
    assert_eq!(setting.documents().len(), 2);
    // By its name, with whatever model and policy it was read.
    setting.run(&["read", &other, "--policy", "razor"]).ok();
    assert_eq!(
        setting.run(&["documents", "remove", "reading-other.txt"]).stderr.matches("removed ").count(),
        2
    );
    assert_eq!(setting.documents().len(), 1);
    setting.run(&["read", &other]).ok();

    // Another document of the same name, and one that was read together with another.
    let folder = scratch("reading-elsewhere");
    let same = folder.join("reading-other.txt");
    fs::write(&same, DOCUMENT.repeat(25)).expect("written");
    let same = same.to_str().expect("text").to_owned();
    setting.run(&["read", &same]).ok();
    let refused = setting.run(&["documents", "remove", "reading-other.txt"]);
    for entry in setting.documents() {
        let is_meant = entry["names"][0] == "reading-other.txt";
        assert_eq!(
            refused.stderr.contains(entry["id"].as_str().expect("an id")),
            is_meant,
            "{}",
            refused.stderr
        );
    }
    refused.assert_failed(1, "reading-other.txt is the name of different documents: ");
    assert_eq!(setting.documents().len(), 3);
    let id = setting.documents()[0]["id"].as_str().expect("an id").to_owned();
    setting.run(&["documents", "remove", &id]).ok();
    setting.run(&["read", &same, &setting.document]).ok();
    setting
        .run(&["documents", "remove", "reading-other.txt"])
        .assert_failed(1, "reading-other.txt is the name of different documents: ");
    let id = setting.documents()[0]["id"].as_str().expect("an id").to_owned();
    setting.run(&["documents", "remove", &id]).ok();

    // A damaged file is listed and removed. One that only has such a name is somebody else's.
    let [first, second] = &setting.files("read")[..] else { panic!("two files") };
    fs::write(first, "LHSTATE5 and no more").expect("written");
    let theirs = first.with_file_name("0123456789abcdef.read");
    fs::write(&theirs, "a letter").expect("written");
    let damaged = setting.documents();
    assert_eq!(damaged.iter().filter(|entry| entry["error"].is_string()).count(), 1, "{damaged:?}");
    assert!(setting.run(&["documents"]).ok().contains("damaged") && second.exists());
    setting.run(&["documents", "remove", "--all"]).ok();
    assert!(setting.documents().is_empty());
    assert_eq!(fs::read_to_string(&theirs).expect("it stays"), "a letter");
}
