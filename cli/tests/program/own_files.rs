//! The program removes and replaces its own files only, and trusts no folder that others can write to.
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{
    DOCUMENT, KEY, NUMBER, NUMBER_IS, Run, add_program, command, file, golden_model, scratch, with_input,
};

/// A policy that reads a text twice and keeps little of it. Writing that takes far less than a tenth of the reading time, on any
/// machine, so that the document is kept.
const SAVED: [&str; 8] =
    ["--policy", "kvzip:heads=off", "--kv-budget", "20%", "-ctk", "q4_0", "-ctv", "q4_0"];

/// A user with folders of its own below one that is empty at first.
struct User(PathBuf);

impl User {
    fn new(name: &str) -> User {
        let folder = scratch("own-files").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        User(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("text").to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("HOME", &self.0).env("XDG_CACHE_HOME", self.path("cache"));
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_CONFIG_HOME", self.path("config"));
        command.env_remove("LONGHAND_DISK_CACHE").current_dir(&self.0);
        command
    }

    fn run(&self, args: &[&str], input: &str) -> Run {
        with_input(&mut self.command(args), input.as_bytes())
    }

    /// A chat about a document with these messages.
    fn chat(&self, args: &[&str], input: &str) -> Run {
        let document = file("own-files.txt", DOCUMENT.repeat(20));
        self.run(&[&["chat", "-t", "1", "-f", &document], args].concat(), input)
    }

    /// Finds the heads of a tiny model, in no time, and saves them.
    fn calibrate(&self) -> Command {
        self.command(&["heads", "calibrate", "-t", "1", "--period", "100", &tiny_model()])
    }

    /// A question about a document to that model, whose heads are needed. Its answer has no meaning.
    fn ask_with_heads(&self) -> Run {
        let (model, document) = (tiny_model(), file("tiny.txt", DOCUMENT));
        let args = ["ask", "-t", "1", "-m", &model, "--policy", "razor", "-n", "2", "-f", &document, KEY];
        self.run(&args, "")
    }

    /// All files and folders below, with their permissions.
    fn modes(&self) -> Vec<(String, u32)> {
        fn below(folder: &Path, root: &Path, all: &mut Vec<(String, u32)>) {
            for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
                let mode = entry.metadata().expect("metadata").permissions().mode() & 0o777;
                let path = entry.path();
                all.push((path.strip_prefix(root).expect("below").to_string_lossy().into_owned(), mode));
                if entry.file_type().expect("a type").is_dir() {
                    below(&path, root, all);
                }
            }
        }
        let mut all = Vec::new();
        below(&self.0, &self.0, &mut all);
        all.sort();
        all
    }
}

fn tiny_model() -> String {
    golden_model("qwen2-gqa-q8_0")
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
}

#[test]
fn files_beside_a_session_file_are_the_users() {
    let user = User::new("beside");
    let session = user.text("report");
    let theirs =
        ["report.tmp", "report.backup.tmp", "report.a.b.tmp", "report.cache", "report.longhand-draft.tmp"];
    for name in theirs {
        fs::write(user.path(name), format!("{name} is mine")).expect("a file");
    }
    let check = |moment: &str| {
        for name in theirs {
            let content = fs::read_to_string(user.path(name))
                .unwrap_or_else(|error| panic!("{name} {moment}: {error}"));
            assert_eq!(content, format!("{name} is mine"), "{moment}");
        }
    };
    user.chat(&["--session", &session], &format!("{NUMBER}\n/save\n{KEY}\n")).ok();
    check("after a chat");
    user.run(&["chat", "-t", "1", "--session", &session], &format!("/save\n{KEY}\n/undo\n")).ok();
    check("after another one");
    user.run(&["sessions", "verify", &session], "").ok();
    user.run(&["sessions", "remove", &session], "").ok();
    check("after the conversation was removed");
    assert!(!user.path("report").exists());
    // A name that a process may have left behind does not become the conversation.
    user.chat(&["--session", &session], &format!("{NUMBER}\n")).ok();
    check("after a new chat");

    // Another conversation of such a name is one of its own.
    let other = user.text("other.cache");
    user.chat(&["--session", &other], &format!("{KEY}\n")).ok();
    let before = fs::read(user.path("other.cache")).expect("a file");
    user.chat(&["--session", &user.text("other")], &format!("{NUMBER}\n")).ok();
    let out = user.run(&["chat", "-t", "1", "--session", &user.text("other")], "/history\n").ok();
    assert!(out.contains(NUMBER_IS) && !out.contains(KEY), "{out}");
    user.run(&["sessions", "remove", &user.text("other")], "").ok();
    assert!(fs::read(user.path("other.cache")).expect("a file") == before);
}

/// Where nobody has a umask, the folders are the user's alone.
#[test]
fn folders_and_files_are_private_whatever_the_umask() {
    for umask in ["000", "002", "077"] {
        let user = User::new(&format!("umask-{umask}"));
        let document = file("umask.txt", DOCUMENT.repeat(20));
        let ask = user.command(&[&["ask", "-t", "1", "-f", &document], &SAVED[..], &[NUMBER]].concat());
        let chat = user.command(&["chat", "-t", "1", "-f", &document]);
        // What identifies a model is remembered for files only, and first of all.
        let needle = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/needle/needle-q8_0.gguf");
        let of_file = user.command(&["ask", "-t", "1", "-m", needle, "-f", &document, NUMBER]);
        for program in [of_file, user.calibrate(), ask, chat] {
            let mut bash = Command::new("bash");
            bash.args(["-c", &format!("umask {umask} && exec \"$@\""), "bash"]).current_dir(&user.0);
            add_program(&mut bash, &program);
            with_input(&mut bash, format!("{NUMBER}\n").as_bytes()).ok();
        }
        let modes = user.modes();
        for folder in
            ["cache/longhand", "cache/longhand/documents", "cache/longhand/heads", "state/longhand/sessions"]
        {
            assert!(modes.contains(&(folder.to_owned(), 0o700)), "{umask} {folder}: {modes:?}");
        }
        for (name, mode) in modes.iter().filter(|(name, _)| name.contains("longhand")) {
            assert_eq!(mode & 0o077, 0, "{umask} {name} {mode:o}");
        }
    }
}

/// What others may have planted is not used, and the user is told.
#[test]
fn folders_that_others_can_write_to_are_not_used() {
    let user = User::new("planted");
    let ask = || {
        let document = file("planted.txt", DOCUMENT.repeat(20));
        let run = user.run(&[&["ask", "-t", "1", "-f", &document], &SAVED[..], &[NUMBER]].concat(), "");
        assert_eq!(run.stdout, format!("{NUMBER_IS}\n"), "{}", run.stderr);
        run.stderr
    };
    let answer = user.ask_with_heads().ok();
    assert!(!answer.trim().is_empty());
    ask();
    assert!(ask().contains("found again"));
    user.chat(&[], &format!("{NUMBER}\n")).ok();
    fs::create_dir_all(user.path("config/longhand")).expect("a folder");
    fs::write(user.path("config/longhand/config.toml"), "top-k = 7\n").expect("a file");
    let open = "other users may write to the folder";
    for mode in [0o777, 0o770, 0o702] {
        for folder in ["cache/longhand/documents", "cache/longhand"] {
            set_mode(&user.path(folder), mode);
            let stderr = ask();
            assert!(
                stderr.contains(open) && stderr.contains("note: the cache of documents that were read: "),
                "{stderr}"
            );
            assert!(!stderr.contains("found again"), "{stderr}");
            for args in [&["documents"][..], &["documents", "remove", "--all"]] {
                user.run(args, "").assert_failed(1, open);
            }
            set_mode(&user.path(folder), 0o700);
        }
        set_mode(&user.path("cache/longhand/heads"), mode);
        let run = user.ask_with_heads();
        assert!(run.stderr.contains(open) && run.stderr.contains("heads"), "{}", run.stderr);
        assert_eq!(run.ok(), answer);
        set_mode(&user.path("cache/longhand/heads"), 0o700);

        set_mode(&user.path("state/longhand/sessions"), mode);
        for args in [&["sessions", "list"][..], &["sessions", "verify"], &["chat", "-t", "1", "--resume"]] {
            user.run(args, "").assert_failed(1, open);
        }
        let kept = || {
            let mut modes = user.modes();
            modes.retain(|(name, _)| name.starts_with("state/longhand/sessions"));
            modes
        };
        let before = kept();
        let run = user.chat(&[], &format!("{NUMBER}\n"));
        assert!(
            run.stderr.contains("conversations cannot be kept in") && run.stderr.contains(open),
            "{}",
            run.stderr
        );
        assert!(run.ok().contains(NUMBER_IS));
        assert_eq!(kept(), before, "nothing is kept there");
        set_mode(&user.path("state/longhand/sessions"), 0o700);

        let config = user.path("config/longhand");
        set_mode(&config, mode);
        let run = user.run(&["config", "--json"], "");
        assert!(
            run.stderr.contains("config.toml is not used") && run.stderr.contains(open),
            "{}",
            run.stderr
        );
        assert!(run.json()["settings"]["top-k"]["values"].is_null());
        set_mode(&config, 0o700);
        assert_eq!(user.run(&["config", "--json"], "").json()["settings"]["top-k"]["values"][0], "7");
    }
    user.run(&["chat", "-t", "1", "--resume"], "/history\n").ok();
}

/// A link in place of a cache file is replaced. A text elsewhere stays as it is.
#[test]
fn links_in_place_of_caches_are_replaced() {
    let user = User::new("links");
    let documents = user.path("cache/longhand/documents");
    let use_all = || {
        let document = file("links.txt", DOCUMENT.repeat(60));
        user.run(&[&["ask", "-t", "1", "-f", &document], &SAVED[..], &[NUMBER]].concat(), "").ok();
        with_input(&mut user.calibrate(), b"").ok();
    };
    use_all();
    let precious = user.path("precious.txt");
    let cached = |folder: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(user.path("cache/longhand").join(folder)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| !path.is_dir()).collect()
    };
    let mut files: Vec<PathBuf> = ["", "heads", "documents"].into_iter().flat_map(cached).collect();
    assert!(files.iter().any(|path| path.ends_with("speeds.json")), "{files:?}");
    assert!(files.iter().any(|path| path.starts_with(&documents)), "{files:?}");
    files.sort();
    for target in [&precious, &user.path("nowhere")] {
        for path in &files {
            fs::remove_file(path).expect("removed");
            symlink(target, path).expect("a link");
        }
        fs::write(&precious, "a letter").expect("a file");
        use_all();
        assert_eq!(fs::read_to_string(&precious).expect("a file"), "a letter");
        assert!(!user.path("nowhere").exists());
        for path in &files {
            assert!(fs::symlink_metadata(path).expect("a file").is_file(), "{}", path.display());
        }
    }
}

/// Where there is no folder to keep things in, the program goes on with a note.
#[test]
fn a_home_that_is_no_folder_is_a_note() {
    let user = User::new("no-home");
    let document = file("no-home.txt", DOCUMENT.repeat(20));
    let no_home = |args: &[&str]| {
        let mut command = user.command(args);
        command.env("HOME", "/dev/null");
        for name in ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        with_input(&mut command, format!("{NUMBER}\n").as_bytes())
    };
    let ask = no_home(&[&["ask", "-t", "1", "-f", &document], &SAVED[..], &[NUMBER]].concat());
    assert!(ask.stderr.contains("note: the cache of documents that were read: "), "{}", ask.stderr);
    assert_eq!(ask.ok(), format!("{NUMBER_IS}\n"));
    let chat = no_home(&["chat", "-t", "1", "-f", &document]);
    assert!(chat.stderr.contains("conversations cannot be kept in /dev/null/"), "{}", chat.stderr);
    assert!(chat.ok().contains(NUMBER_IS));
    no_home(&["plan", "--memory", "1GiB"]).ok();
    no_home(&["models"]).ok();
    no_home(&["config"]).ok();
    no_home(&["sessions", "list"]).ok();

    let unset = |args: &[&str]| {
        let mut command = user.command(args);
        for name in ["HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        with_input(&mut command, format!("{NUMBER}\n").as_bytes())
    };
    let chat = unset(&["chat", "-t", "1", "-f", &document]);
    assert!(chat.stderr.contains("note: the conversation is not kept: "), "{}", chat.stderr);
    assert!(chat.ok().contains(NUMBER_IS));
    let private = unset(&["chat", "-t", "1", "--private", "-f", &document]);
    assert!(!private.stderr.contains("not kept"), "{}", private.stderr);
    let ask = unset(&[&["ask", "-t", "1", "-f", &document], &SAVED[..], &[NUMBER]].concat());
    assert!(ask.stderr.contains("note: what is read is not kept"), "{}", ask.stderr);
    assert_eq!(ask.ok(), format!("{NUMBER_IS}\n"));
    unset(&["sessions", "list"]).assert_failed(1, "there is no folder for kept conversations");
    assert!(unset(&["config"]).ok().starts_with("config file: none\n"));
}

#[test]
fn save_neither_follows_nor_replaces_a_link() {
    let user = User::new("save");
    symlink(user.path("target"), user.path("link")).expect("a link");
    fs::write(user.path("mine"), "mine").expect("a file");
    symlink(user.path("mine"), user.path("link-2")).expect("a link");
    for name in ["link", "link-2"] {
        let run = user.chat(&["--private"], &format!("{NUMBER}\n/save {}\n", user.text(name)));
        assert!(
            run.stderr.contains("link") && run.stderr.contains("exists already: it is a link"),
            "{}",
            run.stderr
        );
    }
    assert!(fs::symlink_metadata(user.path("link")).expect("the link").is_symlink());
    assert!(!user.path("target").exists());
    assert_eq!(fs::read_to_string(user.path("mine")).expect("a file"), "mine");
    let out = user.text("link");
    for args in
        [&["chat", "-t", "1", "--session", &out][..], &["logits", "-t", "1", "--tokens", "1", "-o", &out]]
    {
        user.run(args, "").assert_failed(1, "it is a link to a file that does not exist");
    }
    assert!(fs::symlink_metadata(user.path("link")).expect("the link").is_symlink());
}

/// A pipe, a device, or 20 GB in place of small files of the program and of the user.
#[test]
fn what_is_no_small_file_is_not_read() {
    let user = User::new("kinds");
    let document = file("kinds.txt", DOCUMENT.repeat(60));
    let answer = user.ask_with_heads().ok();
    assert!(!answer.trim().is_empty());
    let profile =
        fs::read_dir(user.path("cache/longhand/heads")).expect("a folder").next().expect("a profile");
    let profile = profile.expect("an entry").path();
    type Put = fn(&Path);
    let put: [(&str, Put); 3] = [
        ("pipe", |path| {
            let made = Command::new("mkfifo").arg(path).status().expect("mkfifo");
            assert!(made.success());
        }),
        ("device", |path| symlink("/dev/zero", path).expect("a link")),
        ("20 GB", |path| File::create(path).and_then(|file| file.set_len(20 << 30)).expect("a sparse file")),
    ];
    for (kind, put) in put {
        let config = user.path("config/longhand/config.toml");
        fs::create_dir_all(user.path("config/longhand")).expect("a folder");
        for path in [&user.path("cache/longhand/speeds.json"), &profile] {
            let _ = fs::remove_file(path);
            put(path);
        }
        // Documents were read before; others read again.
        let _ = fs::remove_dir_all(user.path("cache/longhand/documents"));
        let run = user.run(&["ask", "-t", "1", "-f", &document, NUMBER], "");
        assert_eq!(run.stdout, format!("{NUMBER_IS}\n"), "{kind}: {}", run.stderr);
        assert_eq!(user.ask_with_heads().ok(), answer, "{kind}");
        let _ = fs::remove_file(&config);
        put(&config);
        user.run(&["plan", "--memory", "1GiB"], "").assert_failed(1, "cannot be read: it is ");
        fs::remove_file(&config).expect("removed");
        let _ = fs::remove_file(&profile);
        let own = user.path("profile.json");
        let _ = fs::remove_file(&own);
        put(&own);
        let run = user.run(&["heads", "show", "--heads", own.to_str().expect("text")], "");
        assert_eq!(run.code, Some(1), "{kind}: {}", run.stderr);
    }
}

/// An evaluation replaces its own files and no others, and writes through no link.
#[test]
fn an_evaluation_replaces_only_its_own_files() {
    let user = User::new("eval");
    let eval = |folder: &str| {
        let args = ["eval", "needle", "-t", "1", "-c", "256", "--samples", "1", "--policy", "streaming"];
        user.run(&[&args[..], &["--full-types", "f16", "-o", folder]].concat(), "")
    };
    eval("out").ok();
    let names: Vec<String> = user
        .modes()
        .into_iter()
        .filter_map(|(name, _)| Some(name.strip_prefix("out/")?.to_owned()))
        .collect();
    let one_of = |part: &&str| {
        names.iter().find(|name| name.ends_with(*part)).unwrap_or_else(|| panic!("{part} {names:?}"))
    };
    let names = ["results.jsonl", "table.md", "summary.json", ".svg"].iter().map(one_of);
    // What it made, it replaces.
    eval("out").ok();
    let precious = user.path("precious");
    fs::write(&precious, "a letter").expect("a file");
    for name in names {
        let path = user.path("out").join(name);
        let made = fs::read(&path).expect("a file");
        fs::write(&path, "{").expect("a file");
        let run = eval("out");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "{", "{name}");
        run.assert_failed(1, name);
        for target in [&precious, &user.path("nowhere")] {
            fs::remove_file(&path).expect("removed");
            symlink(target, &path).expect("a link");
            eval("out").assert_failed(1, "is a link, which is not written through");
            assert!(fs::symlink_metadata(&path).expect("a link").is_symlink(), "{name}");
        }
        assert_eq!(fs::read_to_string(&precious).expect("a file"), "a letter", "{name}");
        assert!(!user.path("nowhere").exists(), "{name}");
        fs::remove_file(&path).expect("removed");
        fs::write(&path, made).expect("a file");
    }
    eval("out").ok();
}
