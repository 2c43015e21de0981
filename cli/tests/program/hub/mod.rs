//! `-hf`: models of Hugging Face, from a server on this machine.
#![cfg(all(unix, feature = "download"))]

mod server;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Run, command, finished, limited, scratch};
use server::{COMMIT, Fault, Hub, REPOSITORY, WATCHDOG, checksum};

const Q8: &str = "needle-Q8_0.gguf";
const MODEL: &str = "acme/Needle-GGUF:Q8_0";

fn needle() -> &'static [u8] {
    models::embedded::needle()
}

/// A server with a model and files that are none.
fn hub() -> Hub {
    Hub::with(&[(Q8, needle()), ("mmproj-f16.gguf", b"no model"), ("README.md", b"about it")])
}

/// A cache folder of this name, which is emptied.
fn cache(name: &str) -> PathBuf {
    let folder = scratch("hub").join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn repository(cache: &Path) -> PathBuf {
    cache.join("models--acme--Needle-GGUF")
}

/// The file that is downloaded, until it is whole.
fn part(cache: &Path) -> PathBuf {
    repository(cache).join(format!("blobs/{}.longhand.incomplete", checksum(needle())))
}

fn at(hub: &Hub, cache: &Path, args: &[&str]) -> Command {
    let mut command = command(args);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().to_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command.env("HF_ENDPOINT", &hub.address).env("HF_HUB_CACHE", cache).env_remove("SSL_CERT_FILE");
    command
}

/// A run that reads the model's header. One that hangs is ended.
fn inspect(hub: &Hub, cache: &Path, model: &str, change: impl FnOnce(&mut Command)) -> Run {
    let mut command = at(hub, cache, &["inspect", "-hf", model]);
    change(&mut command);
    Running::start(command).finish()
}

#[track_caller]
fn assert_downloaded(cache: &Path, run: Run) {
    let named = repository(cache).join(format!("snapshots/{COMMIT}/{Q8}"));
    let out = run.ok();
    assert!(out.starts_with(&format!("{}: GGUF version", named.display())), "{out}");
    assert!(fs::read(&named).expect("a file") == needle());
    let link = fs::read_link(&named).expect("a link");
    assert_eq!(link, Path::new("../../blobs").join(checksum(needle())));
    assert_eq!(fs::read_to_string(repository(cache).join("refs/main")).expect("a file"), COMMIT);
    assert!(!part(cache).exists());
}

/// A program that runs, and is ended if it hangs.
struct Running {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    seen: String,
    ended: Option<mpsc::Sender<()>>,
    watchdog: Option<thread::JoinHandle<bool>>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (ended, has_ended) = mpsc::channel::<()>();
        let id = child.id().to_string();
        let watchdog = thread::spawn(move || {
            let is_late = has_ended.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout);
            is_late && Command::new("kill").args(["-KILL", &id]).status().is_ok()
        });
        Running { child, stderr, seen: String::new(), ended: Some(ended), watchdog: Some(watchdog) }
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(kill.is_ok_and(|status| status.success()));
    }

    /// Waits until a text is on stderr.
    fn wait_for(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let count = self.stderr.read_line(&mut self.seen).expect("a readable pipe");
            assert!(count > 0, "stderr ended without {text:?}: {}", self.seen);
        }
    }

    fn finish(mut self) -> Run {
        self.stderr.read_to_string(&mut self.seen).expect("a readable pipe");
        let mut stdout = Vec::new();
        self.child.stdout.take().expect("a pipe").read_to_end(&mut stdout).expect("a readable pipe");
        let status = self.child.wait().expect("it ends");
        drop(self.ended.take());
        let watchdog = self.watchdog.take().expect("a watchdog");
        assert!(!watchdog.join().expect("a watchdog"), "it does not end: {}", self.seen);
        finished(std::process::Output { status, stdout, stderr: std::mem::take(&mut self.seen).into_bytes() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a file has this many bytes.
#[track_caller]
fn wait_for_length(path: &Path, length: u64) {
    let begin = Instant::now();
    while fs::metadata(path).map_or(0, |file| file.len()) < length {
        assert!(begin.elapsed() < WATCHDOG, "{} stays too short", path.display());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_model_is_downloaded_once_and_found_again_without_a_network() {
    let (hub, cache) = (hub(), cache("fresh"));
    let run = inspect(&hub, &cache, MODEL, |_| ());
    assert!(
        run.stderr.contains("downloading needle-Q8_0.gguf (3.79 MiB) from 127.0.0.1\n"),
        "{}",
        run.stderr
    );
    assert_downloaded(&cache, run);
    let requests = hub.requests();
    assert_eq!(requests, 2);
    // By its quantisation, without one, by its name, and offline.
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
    assert_downloaded(&cache, inspect(&hub, &cache, REPOSITORY, |_| ()));
    assert_downloaded(&cache, inspect(&hub, &cache, "acme/Needle-GGUF:needle-q8_0.gguf", |_| ()));
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |command| _ = command.env("HF_HUB_OFFLINE", "1")));
    assert_eq!(hub.requests(), requests);
    let models = finished(at(&hub, &cache, &["models", "--json"]).output().expect("it starts")).json();
    assert_eq!(models[0]["name"], "acme/Needle-GGUF/needle-Q8_0.gguf");
    // What is not there is asked for, unless that is not allowed.
    let offline =
        inspect(&hub, &cache, "acme/Needle-GGUF:Q2_K", |command| _ = command.env("HF_HUB_OFFLINE", "yes"));
    assert!(offline.stderr.contains("here: -hf acme/Needle-GGUF:needle-Q8_0.gguf\n"), "{}", offline.stderr);
    offline.assert_failed(1, "acme/Needle-GGUF:Q2_K is not on this machine, and HF_HUB_OFFLINE");
    assert_eq!(hub.requests(), requests);
}

#[test]
fn commands_take_the_flag() {
    let (hub, cache) = (hub(), cache("commands"));
    let question = "The pass key is 9078648. What is the pass key?";
    let run = |args: &[&str]| Running::start(at(&hub, &cache, args)).finish();
    assert!(run(&["ask", "-t", "1", "-hf", MODEL, question]).ok().contains("9078648"));
    assert!(run(&["tokenize", "--hf-repo", MODEL, "-p", "a"]).ok().starts_with('['));
    let plan = run(&["plan", "-hf", MODEL, "-c", "1k", "--memory", "2GiB"]).ok();
    assert!(plan.contains("longhand chat -hf acme/Needle-GGUF:Q8_0 -f DOCUMENT"), "{plan}");
}

#[test]
fn a_cut_connection_is_made_again() {
    let (hub, cache) = (hub(), cache("cut"));
    hub.faults(&[Fault::CutAfter(1000), Fault::CutAfter(500), Fault::CutAfter(0)]);
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
    let ranges: Vec<bool> = [None, Some(1000), Some(1500), Some(1500)]
        .iter()
        .zip(hub.downloads())
        .map(|(begin, head)| match begin {
            None => !head.to_lowercase().contains("range: "),
            Some(begin) => head.to_lowercase().contains(&format!("range: bytes={begin}-\n")),
        })
        .collect();
    assert_eq!(ranges, [true; 4]);
}

#[test]
fn a_server_that_gives_no_more_bytes_fails_and_the_next_start_goes_on() {
    let (hub, cache) = (hub(), cache("dead"));
    hub.faults(&[Fault::CutAfter(2000), Fault::CutAfter(0), Fault::CutAfter(0), Fault::CutAfter(0)]);
    let failed = inspect(&hub, &cache, MODEL, |_| ());
    assert!(failed.stderr.contains("a download resumes"), "{}", failed.stderr);
    failed.assert_failed(1, "no answer of 127.0.0.1: ");
    assert_eq!(fs::metadata(part(&cache)).expect("a part").len(), 2000);
    let run = inspect(&hub, &cache, MODEL, |_| ());
    assert!(run.stderr.contains("from 127.0.0.1: 1.95 KiB are there"), "{}", run.stderr);
    assert_downloaded(&cache, run);
    assert_eq!(hub.downloads().len(), 5);
}

#[test]
fn ctrl_c_stops_at_once_and_the_next_start_goes_on() {
    let (hub, cache) = (hub(), cache("interrupt"));
    hub.faults(&[Fault::HoldAfter(4000)]);
    let running = Running::start(at(&hub, &cache, &["inspect", "-hf", MODEL]));
    wait_for_length(&part(&cache), 4000);
    running.signal("INT");
    let stopped = running.finish();
    assert!(stopped.stderr.contains("hint: run the command again: the download resumes"));
    stopped.assert_failed(130, "interrupted");
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
    assert!(hub.downloads()[1].to_lowercase().contains("range: bytes=4000-\n"));
}

#[test]
fn a_killed_download_goes_on() {
    let (hub, cache) = (hub(), cache("killed"));
    hub.faults(&[Fault::HoldAfter(4000)]);
    let running = Running::start(at(&hub, &cache, &["inspect", "-hf", MODEL]));
    wait_for_length(&part(&cache), 4000);
    running.signal("KILL");
    assert_eq!(running.finish().code, None);
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
    assert!(hub.downloads()[1].to_lowercase().contains("range: bytes=4000-\n"));
}

#[test]
fn two_programs_download_a_file_once() {
    let (hub, cache) = (hub(), cache("two"));
    hub.faults(&[Fault::HoldAfter(4000)]);
    let first = Running::start(at(&hub, &cache, &["inspect", "-hf", MODEL]));
    wait_for_length(&part(&cache), 4000);
    let mut second = Running::start(at(&hub, &cache, &["inspect", "-hf", MODEL]));
    second.wait_for("another program downloads needle-Q8_0.gguf; waiting for it\n");
    hub.go_on();
    assert_downloaded(&cache, first.finish());
    assert_downloaded(&cache, second.finish());
    assert_eq!(hub.downloads().len(), 1);
}

#[test]
fn a_damaged_file_is_not_taken() {
    let (hub, cache) = (hub(), cache("damaged"));
    hub.faults(&[Fault::Damage(3000)]);
    inspect(&hub, &cache, MODEL, |_| ())
        .assert_failed(1, "needle-Q8_0.gguf was damaged on its way: its checksum is another one");
    assert_eq!(fs::read_dir(repository(&cache).join("blobs")).expect("a folder").count(), 0);
    // A part that is damaged on the disk is downloaded anew.
    fs::write(part(&cache), b"GGUF, but of another file").expect("a file");
    let run = inspect(&hub, &cache, MODEL, |_| ());
    assert!(run.stderr.contains("what was there of the file is damaged"), "{}", run.stderr);
    assert_downloaded(&cache, run);
    // One that is too long, and one that is whole.
    for content in [[needle(), b"more"].concat(), needle().to_vec()] {
        fs::remove_dir_all(repository(&cache).join("snapshots")).expect("removed");
        fs::remove_file(repository(&cache).join("blobs").join(checksum(needle()))).expect("removed");
        fs::write(part(&cache), content).expect("a file");
        assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
    }
    assert_eq!(hub.downloads().len(), 4);
}

#[test]
fn a_server_without_ranges_sends_the_file_again() {
    let (hub, cache) = (hub(), cache("no-ranges"));
    hub.faults(&[Fault::CutAfter(5000), Fault::NoRanges]);
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
    assert_eq!(hub.downloads().len(), 2);
}

/// A time that lets a test see what takes minutes elsewhere: four times as long until a server is too slow.
fn in_seconds(command: &mut Command) {
    command.env("HF_HUB_DOWNLOAD_TIMEOUT", "2");
}

#[test]
fn a_server_that_begins_anew_each_time_is_given_up() {
    let (hub, cache) = (hub(), cache("anew"));
    let faults = [Fault::NoRangesCutAfter(5000), Fault::NoRangesCutAfter(6000)];
    hub.faults(&vec![faults; 20].concat());
    inspect(&hub, &cache, MODEL, |_| ()).assert_failed(1, "no answer of 127.0.0.1: ");
    assert!(hub.downloads().len() < 10, "{}", hub.downloads().len());
    // What is there is not thrown away.
    assert_eq!(fs::metadata(part(&cache)).expect("a part").len(), 6000);
    hub.faults(&[Fault::NoRanges]);
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
}

/// Beside each other: most of the time is waiting.
#[test]
fn what_comes_too_slowly_is_begun_again_and_ends() {
    thread::scope(|scope| {
        for case in [a_slow_list_ends, a_slow_download_is_begun_again, a_download_that_stays_slow_ends] {
            scope.spawn(case);
        }
    });
}

fn a_slow_list_ends() {
    let (hub, cache) = (hub(), cache("slow-list"));
    hub.list_faults(&[Fault::Drip]);
    inspect(&hub, &cache, MODEL, in_seconds).assert_failed(1, "127.0.0.1");
}

fn a_slow_download_is_begun_again() {
    let (hub, cache) = (hub(), cache("slow"));
    hub.faults(&[Fault::Drip]);
    let run = inspect(&hub, &cache, MODEL, in_seconds);
    let note = "127.0.0.1 sends less than 4.00 KiB a second for 8.0 s; connecting again\n";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    assert_downloaded(&cache, run);
}

fn a_download_that_stays_slow_ends() {
    let (hub, cache) = (hub(), cache("always-slow"));
    hub.faults(&[Fault::Drip, Fault::Drip, Fault::Drip]);
    let failed = inspect(&hub, &cache, MODEL, in_seconds);
    assert!(failed.stderr.contains("a download resumes"), "{}", failed.stderr);
    assert!(fs::metadata(part(&cache)).expect("a part").len() > 0);
    failed.assert_failed(1, "error: 127.0.0.1 sends less than 4.00 KiB a second");
}

#[test]
fn a_range_that_the_server_does_not_have_is_not_asked_for_again() {
    let (hub, cache) = (hub(), cache("range"));
    hub.faults(&[Fault::CutAfter(5000), Fault::Status(416, "content-range: bytes */5\r\n")]);
    let run = inspect(&hub, &cache, MODEL, |_| ());
    assert!(run.stderr.contains("status 416; beginning anew"), "{}", run.stderr);
    assert_downloaded(&cache, run);
    let has_range: Vec<bool> =
        hub.downloads().iter().map(|head| head.to_lowercase().contains("range: ")).collect();
    assert_eq!(has_range, [false, true, false]);
    // Once only.
    let cache = self::cache("no-range");
    hub.faults(&[Fault::CutAfter(5000), Fault::Status(416, ""), Fault::CutAfter(10), Fault::Status(416, "")]);
    inspect(&hub, &cache, MODEL, |_| ()).assert_failed(1, "answers with status 416");
}

#[test]
fn a_server_that_asks_to_wait_is_waited_for() {
    let (hub, cache) = (hub(), cache("wait"));
    hub.list_faults(&[Fault::Status(429, "retry-after: 1\r\n")]);
    hub.faults(&[Fault::Status(
        503,
        "date: Wed, 21 Oct 2015 07:28:00 GMT\r\nretry-after: Wed, 21 Oct 2015 07:28:01 GMT\r\n",
    )]);
    let run = inspect(&hub, &cache, MODEL, |_| ());
    for status in ["429 (too many requests)", "503"] {
        let note = format!("127.0.0.1 answers with status {status}; waiting 1.0 s as it asks\n");
        assert!(run.stderr.contains(&note), "{}", run.stderr);
    }
    assert_downloaded(&cache, run);
    // Not for hours, and not again and again.
    let cache = self::cache("wait-long");
    hub.list_faults(&[Fault::Status(429, "retry-after: 4000\r\n")]);
    let long = inspect(&hub, &cache, MODEL, |_| ());
    assert!(long.stderr.contains("hint: try again in 1 h 06 min"), "{}", long.stderr);
    long.assert_failed(1, "answers with status 429 (too many requests)");
    hub.list_faults(&vec![Fault::Status(429, "retry-after: 0\r\n"); 50]);
    inspect(&hub, &cache, MODEL, |_| ()).assert_failed(1, "answers with status 429");
    // Ctrl-C ends it.
    hub.list_faults(&[Fault::Status(429, "retry-after: 200\r\n")]);
    let mut running = Running::start(at(&hub, &cache, &["inspect", "-hf", MODEL]));
    running.wait_for("waiting 3 min 20 s as it asks\n");
    running.signal("INT");
    running.finish().assert_failed(130, "interrupted");
}

#[test]
fn a_web_page_is_not_taken_for_a_model() {
    let (hub, cache) = (hub(), cache("page"));
    hub.list_faults(&[Fault::WebPage(200)]);
    inspect(&hub, &cache, MODEL, |_| ()).assert_failed(1, "sends a web page instead of the list of files");
    hub.faults(&[Fault::CutAfter(5000), Fault::WebPage(200)]);
    inspect(&hub, &cache, MODEL, |_| ()).assert_failed(1, "sends a web page instead of needle-Q8_0.gguf");
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
}

/// The chat goes on after Ctrl-C, and so did the thread that downloads.
#[test]
fn ctrl_c_stops_a_download_of_a_chat() {
    let (hub, cache) = (hub(), cache("chat"));
    hub.faults(&[Fault::HoldAfter(4000)]);
    let mut command = at(&hub, &cache, &["chat", "--private"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let mut input = running.child.stdin.take().expect("a pipe");
    input.write_all(format!("/model -hf {MODEL}\n").as_bytes()).expect("a reader");
    wait_for_length(&part(&cache), 4000);
    running.signal("INT");
    running.wait_for("interrupted");
    hub.go_on();
    let lock = cache.join(format!(".locks/models--acme--Needle-GGUF/{}.lock", checksum(needle())));
    fs::File::open(lock).and_then(|file| file.lock()).expect("it becomes free");
    assert!(part(&cache).exists() && !repository(&cache).join("blobs").join(checksum(needle())).exists());
    // The chat is still there.
    input.write_all(b"/nothing\n").expect("a reader");
    running.wait_for("there is no command /nothing");
    drop(input);
    running.finish();
}

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

/// A pipe that is opened waits for another program.
#[test]
fn pipes_instead_of_parts_and_locks_are_not_waited_for() {
    let (hub, cache) = (hub(), cache("pipe-part"));
    let path = part(&cache);
    pipe(&path);
    inspect(&hub, &cache, MODEL, |_| ())
        .assert_failed(1, &format!("{}: it is not a regular file", path.display()));
    let cache = self::cache("pipe-lock");
    pipe(&cache.join(format!(".locks/models--acme--Needle-GGUF/{}.lock", checksum(needle()))));
    let failed = inspect(&hub, &cache, MODEL, |_| ());
    assert_eq!((failed.code, failed.stdout.len()), (Some(1), 0), "{}", failed.stderr);
}

#[test]
fn pipes_instead_of_models_and_tokens_are_not_waited_for() {
    let (hub, cache) = (hub(), cache("pipe-blob"));
    pipe(&repository(&cache).join("blobs").join(checksum(needle())));
    pipe(&repository(&cache).join(format!("snapshots/{COMMIT}/{Q8}")));
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
    let home = self::cache("pipe-home");
    pipe(&home.join("token"));
    let cache = self::cache("pipe-token");
    inspect(&hub, &cache, MODEL, |command| _ = command.env("HF_HOME", &home))
        .assert_failed(1, "token: it is not a regular file");
}

/// A part of a token is another token, and a part of the certificates may lack the one that is needed.
#[test]
fn tokens_and_certificates_that_are_too_large_are_not_cut() {
    let (hub, cache) = (hub(), cache("large-files"));
    let home = self::cache("large-home");
    fs::create_dir_all(&home).expect("a folder");
    fs::write(home.join("token"), format!("hf_{}", "a".repeat(5000))).expect("a file");
    inspect(&hub, &cache, MODEL, |command| _ = command.env("HF_HOME", &home))
        .assert_failed(1, "token: it is larger than 4096 bytes");
    let pem = home.join("large.pem");
    fs::File::create(&pem).and_then(|file| file.set_len((16 << 20) + 1)).expect("a sparse file");
    inspect(&hub, &cache, MODEL, |command| _ = command.env("SSL_CERT_FILE", &pem))
        .assert_failed(1, "large.pem: it is larger than 16777216 bytes");
    assert_eq!(hub.requests(), 0);
}

#[test]
fn a_token_with_other_characters_is_named() {
    let (hub, cache) = (hub(), cache("token-text"));
    for (token, wrong) in [("hf_abc\u{201d}def", "character 7"), ("hf_abc def", "character 7")] {
        let run = inspect(&hub, &cache, MODEL, |command| _ = command.env("HF_TOKEN", token));
        assert!(run.stderr.contains(wrong) && !run.stderr.contains("abc"), "{}", run.stderr);
        run.assert_failed(1, "HF_TOKEN is no token of Hugging Face");
    }
    assert_eq!(hub.requests(), 0);
    // A token that the server does not know.
    hub.list_faults(&[Fault::Status(
        401,
        "x-error-message: Invalid credentials in Authorization header\r\n",
    )]);
    let run = inspect(&hub, &cache, MODEL, |command| _ = command.env("HF_TOKEN", "hf_old"));
    assert!(run.stderr.contains("/settings/tokens"), "{}", run.stderr);
    run.assert_failed(1, "127.0.0.1 does not accept the token of HF_TOKEN: Invalid credentials");
}

#[test]
fn the_proxy_of_the_network_is_named() {
    let (hub, cache) = (hub(), cache("proxy"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let _ = lines.take_while(|line| !line.is_empty()).count();
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 407 X\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let to = |variable: &str, proxy: &str, exceptions: &str| {
        inspect(&hub, &cache, MODEL, |command| {
            command.env("HF_ENDPOINT", "https://hub.invalid").env(variable, proxy);
            command.env("NO_PROXY", exceptions).env("HF_HUB_DOWNLOAD_TIMEOUT", "5");
        })
    };
    let login = to("HTTPS_PROXY", &format!("http://me:secret@{proxy}"), "");
    let hint = format!("HTTPS_PROXY, such as http://NAME:PASSWORD@{proxy}");
    assert!(login.stderr.contains(&hint) && !login.stderr.contains("secret"), "{}", login.stderr);
    login.assert_failed(1, &format!("no answer of hub.invalid through the proxy {proxy}: "));
    to("all_proxy", "127.0.0.1:1", "").assert_failed(1, "through the proxy 127.0.0.1:1: ");
    to("ALL_PROXY", "socks5h://127.0.0.1:1", "").assert_failed(1, "ALL_PROXY names a SOCKS5h proxy");
    to("HTTPS_PROXY", "http://[", "").assert_failed(1, "HTTPS_PROXY is no address of a proxy");
    for exceptions in ["a.test, hub.invalid", ".invalid", "*"] {
        to("ALL_PROXY", "socks5h://127.0.0.1:1", exceptions).assert_failed(1, "no answer of hub.invalid: ");
    }
}

#[test]
fn a_damaged_file_in_the_cache_is_downloaded_again() {
    let (hub, cache) = (hub(), cache("again"));
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
    let blob = repository(&cache).join("blobs").join(checksum(needle()));
    let named = repository(&cache).join(format!("snapshots/{COMMIT}/{Q8}"));
    let again = || Running::start(at(&hub, &cache, &["inspect", "-hf", MODEL, "--redownload"])).finish();
    let run = again();
    assert!(run.stderr.contains("needle-Q8_0.gguf is undamaged: its checksum is right\n"), "{}", run.stderr);
    assert_downloaded(&cache, run);
    assert_eq!(hub.downloads().len(), 1);
    let mut other = needle().to_vec();
    other[3_000_000] ^= 1;
    for (content, note) in [
        (&needle()[..100_000], "needle-Q8_0.gguf is here, but not whole; it is downloaded again\n"),
        (&other, "needle-Q8_0.gguf is damaged: its checksum is another one; it is downloaded again\n"),
        (b"", "is here, but not whole"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "not whole"),
    ] {
        fs::write(&blob, content).expect("a file");
        let path = named.to_str().expect("text");
        for model in [&["-hf", MODEL][..], &["-m", "needle-q8_0"], &[path]] {
            if content.len() < needle().len() {
                let failed = Running::start(at(&hub, &cache, &[&["plan"], model].concat())).finish();
                let way_out = "-hf acme/Needle-GGUF:needle-Q8_0.gguf --redownload";
                assert!(failed.stderr.contains(way_out), "{}", failed.stderr);
                failed.assert_failed(1, "needle-Q8_0.gguf: ");
            }
        }
        let run = again();
        assert!(run.stderr.contains(note), "{}", run.stderr);
        assert_downloaded(&cache, run);
    }
    // A copy instead of a link, as programs make where links are not allowed.
    fs::remove_file(&named).expect("removed");
    fs::write(&named, &other).expect("a copy");
    assert_downloaded(&cache, again());
    // Without a network the damaged file stays.
    fs::write(&blob, &other).expect("a file");
    let mut offline = at(&hub, &cache, &["inspect", "-hf", MODEL, "--redownload"]);
    offline.env("HF_HUB_OFFLINE", "1");
    Running::start(offline).finish().assert_failed(1, "HF_HUB_OFFLINE does not allow");
    assert!(fs::read(&blob).expect("a file") == other);
    finished(at(&hub, &cache, &["inspect", "--redownload"]).output().expect("it starts"))
        .assert_failed(2, "--hf-repo");
}

#[test]
fn a_file_that_is_not_whole_is_not_taken() {
    let (hub, cache) = (hub(), cache("not-whole"));
    let blobs = repository(&cache).join("blobs");
    fs::create_dir_all(&blobs).expect("a folder");
    fs::write(blobs.join(checksum(needle())), &needle()[..5000]).expect("a file");
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
}

#[test]
fn the_main_model_is_told_from_its_helpers() {
    let hub = Hub::with(&[
        ("MTP/needle-Q8_0.gguf", b"a draft"),
        ("draft/a-Q8_0.gguf", b"a draft"),
        ("mtp-needle-Q8_0.gguf", b"a draft"),
        ("needle-smtp-MTP-Q8_0.gguf", needle()),
        ("needle.imatrix.gguf", b"statistics"),
    ]);
    for (name, model) in [("helpers", MODEL), ("helpers-any", REPOSITORY)] {
        let run = inspect(&hub, &cache(name), model, |_| ());
        assert!(run.ok().contains("needle-smtp-MTP-Q8_0.gguf: GGUF version"));
    }
    // Of several models the other one is named.
    let hub = Hub::with(&[("needle-7b-Q8_0.gguf", needle()), ("other-7b-Q8_0.gguf", needle())]);
    let run = inspect(&hub, &cache("helpers-several"), MODEL, |_| ());
    let note = "note: acme/Needle-GGUF has several models, and needle-7b-Q8_0.gguf is taken; for another one give its \
                file's name, such as -hf acme/Needle-GGUF:other-7b-Q8_0.gguf\n";
    assert!(run.stderr.contains(note), "{}", run.stderr);
}

#[test]
fn a_body_of_another_length_is_refused() {
    let (hub, cache) = (hub(), cache("length"));
    hub.faults(&[Fault::Longer(7)]);
    inspect(&hub, &cache, MODEL, |_| ()).assert_failed(1, "sends another number of bytes");
}

#[test]
fn refusals_say_what_to_do() {
    let (hub, cache) = (hub(), cache("refused"));
    for (fault, message, hint) in [
        (
            Fault::Status(401, "x-error-code: RepoNotFound\r\n"),
            "there is no repository acme/Needle-GGUF",
            "HF_TOKEN",
        ),
        (Fault::Status(404, ""), "there is no repository acme/Needle-GGUF", "check its name at"),
        (Fault::Status(403, ""), "allows no access to acme/Needle-GGUF", "a token that may read it"),
        (Fault::Status(418, "x-error-message: tea\r\n"), "answers with status 418: tea", "try again later"),
        (Fault::CutAfter(20), "broke off while it sent the list of files", "run the command again"),
    ] {
        hub.list_fault(fault);
        let run = inspect(&hub, &cache, MODEL, |_| ());
        assert!(run.stderr.contains(hint), "{hint}: {}", run.stderr);
        run.assert_failed(1, message);
    }
    let hub = self::hub();
    hub.faults(&[Fault::Status(403, "x-error-code: GatedRepo\r\n")]);
    let gated = inspect(&hub, &cache, MODEL, |_| ());
    assert!(gated.stderr.contains(&format!("accept its terms at {}/acme/Needle-GGUF", hub.address)));
    gated.assert_failed(1, "acme/Needle-GGUF is gated");
    // A busy server is asked again.
    hub.faults(&[Fault::Status(503, ""), Fault::Status(429, "")]);
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
    // Nobody listens.
    let nobody =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let other = self::cache("nobody");
    inspect(&hub, &other, MODEL, |command| _ = command.env("HF_ENDPOINT", format!("http://{nobody}")))
        .assert_failed(1, "no answer of 127.0.0.1: ");
    let encrypted = hub.address.replace("http:", "https:");
    inspect(&hub, &other, MODEL, |command| _ = command.env("HF_ENDPOINT", encrypted))
        .assert_failed(1, "no answer of 127.0.0.1: ");
    inspect(&hub, &other, MODEL, |command| _ = command.env("HF_ENDPOINT", "huggingface.co"))
        .assert_failed(2, "HF_ENDPOINT is huggingface.co");
    inspect(&hub, &other, MODEL, |command| _ = command.env("SSL_CERT_FILE", "/dev/null"))
        .assert_failed(1, "SSL_CERT_FILE: /dev/null: there is no certificate in it");
}

#[test]
fn a_server_that_hangs_is_given_up() {
    let (hub, cache) = (hub(), cache("hangs"));
    hub.faults(&[Fault::HoldAfter(0), Fault::HoldAfter(0), Fault::HoldAfter(0)]);
    let run = inspect(&hub, &cache, MODEL, |command| _ = command.env("HF_HUB_DOWNLOAD_TIMEOUT", "1"));
    run.assert_failed(1, "no answer of 127.0.0.1: timeout");
}

#[test]
fn an_unknown_quantisation_lists_those_that_are_there() {
    let hub = Hub::with(&[
        ("needle-Q4_K_M-00001-of-00002.gguf", b"a"),
        ("needle-UD-Q6_K.gguf", b"b"),
        ("red\u{1b}[31m.gguf", b"c"),
        ("../../needle-Q2_K.gguf", b"d"),
    ]);
    let cache = cache("unknown");
    let unknown = inspect(&hub, &cache, "acme/Needle-GGUF:Q9_K", |_| ());
    assert!(unknown.stderr.ends_with("hint: there are: Q4_K_M, UD-Q6_K\n"), "{}", unknown.stderr);
    unknown.assert_failed(2, "acme/Needle-GGUF has no Q9_K");
    inspect(&hub, &cache, "acme/Needle-GGUF:Q2_K", |_| ()).assert_failed(2, "has no Q2_K");
    inspect(&hub, &cache, REPOSITORY, |_| ()).assert_failed(1, "has 2 parts, and only 1 of them are");
    let none = Hub::with(&[("model.safetensors", b"a")]);
    inspect(&none, &cache, REPOSITORY, |_| ()).assert_failed(1, "acme/Needle-GGUF has no GGUF file");
    inspect(&none, &cache, "acme/other", |_| ()).assert_failed(1, "there is no repository acme/other");
}

#[test]
fn all_parts_of_a_split_model_are_downloaded() {
    let parts = ["needle-Q8_0-00001-of-00002.gguf", "needle-Q8_0-00002-of-00002.gguf"];
    let hub = Hub::with(&[(parts[0], b"the first"), (parts[1], b"the second")]);
    let cache = cache("split");
    inspect(&hub, &cache, MODEL, |_| ()).assert_failed(1, "not a GGUF file");
    let snapshot = repository(&cache).join("snapshots").join(COMMIT);
    assert_eq!(fs::read(snapshot.join(parts[1])).expect("a file"), b"the second");
    // Without the second part the model is not there.
    fs::remove_file(snapshot.join(parts[1])).expect("removed");
    let requests = hub.requests();
    inspect(&hub, &cache, MODEL, |_| ()).assert_failed(1, "not a GGUF file");
    assert_eq!(hub.requests(), requests + 1, "only the list: the file is there");
    assert!(snapshot.join(parts[1]).exists());
}

#[test]
fn a_token_is_for_the_hub_and_proxies_are_not_for_this_machine() {
    let (front, store, cache) = (hub(), hub(), cache("token"));
    front.faults(&[Fault::CutAfter(1000), Fault::Redirect(store.address.replace("127.0.0.1", "localhost"))]);
    let run = inspect(&front, &cache, MODEL, |command| {
        command.env("HF_TOKEN", "hf_secret").env("http_proxy", "http://127.0.0.1:1");
        command.env("ALL_PROXY", "http://127.0.0.1:1").env("HTTPS_PROXY", "http://127.0.0.1:1");
    });
    assert_downloaded(&cache, run);
    let has_token = |head: &String| head.contains("hf_secret");
    assert!(front.downloads().iter().all(has_token));
    let redirected = store.downloads();
    assert!(redirected.len() == 1 && !redirected.iter().any(has_token), "{redirected:?}");
    assert!(redirected[0].to_lowercase().contains("range: bytes=1000-\n"), "{redirected:?}");
    // The token of Hugging Face's own login.
    let (home, cache) = (scratch("hub").join("home"), self::cache("login"));
    fs::create_dir_all(&home).expect("a folder");
    fs::write(home.join("token"), "hf_login\n").expect("a file");
    assert_downloaded(&cache, inspect(&front, &cache, MODEL, |command| _ = command.env("HF_HOME", &home)));
    assert!(
        front
            .downloads()
            .last()
            .expect("a request")
            .to_lowercase()
            .contains("authorization: bearer hf_login\n")
    );
}

#[test]
fn a_full_disk_keeps_what_is_there() {
    let (hub, cache) = (hub(), cache("full"));
    let setup =
        format!("ulimit -f 1000; export HF_ENDPOINT={} HF_HUB_CACHE='{}'", hub.address, cache.display());
    let run = limited(&setup, false, Path::new("."), &["inspect", "-hf", MODEL], "").expect("bash");
    assert!(run.stderr.contains("HF_HUB_CACHE"), "{}", run.stderr);
    run.assert_failed(1, &format!("{}: File too large", part(&cache).display()));
    assert!(fs::metadata(part(&cache)).expect("a part").len() > 0);
    assert_downloaded(&cache, inspect(&hub, &cache, MODEL, |_| ()));
    // A model for which the disk is too small is not begun.
    let hub =
        Hub::with(&[("a-Q8_0-00001-of-00002.gguf", b"small"), ("a-Q8_0-00002-of-00002.gguf", b"large")]);
    hub.claim_length(1 << 60);
    let cache = self::cache("too-large");
    inspect(&hub, &cache, MODEL, |_| ()).assert_failed(1, "1024.0 PiB are needed, but only");
    assert!(hub.downloads().is_empty());
}
