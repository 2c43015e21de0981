//! Conversations that are kept by themselves: what `chat --resume` and `longhand sessions` do with them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::{
    DOCUMENT, KEY, KEY_IS, NUMBER, NUMBER_IS, Run, command, file, finished, scratch, with_input,
};

/// A user with a state folder of its own, which is empty at first.
struct User(PathBuf);

impl User {
    fn new(name: &str) -> User {
        let folder = scratch("users").join(name);
        let _ = fs::remove_dir_all(&folder);
        User(folder)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("XDG_STATE_HOME", &self.0).env_remove("LONGHAND_DISK_CACHE");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str], input: &str) -> Run {
        with_input(&mut self.command(args), input.as_bytes())
    }

    fn folder(&self) -> PathBuf {
        self.0.join("longhand/sessions")
    }

    /// Names of all files in the folder of kept conversations.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }

    /// What `sessions list --json` prints.
    fn list(&self) -> Vec<Value> {
        self.run(&["sessions", "list", "--json"], "").json().as_array().expect("an array").clone()
    }
}

/// A chat that can be talked with.
struct Talk {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talk {
    fn start(user: &User, args: &[&str]) -> Talk {
        let mut child = user.command(args).spawn().expect("the program starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Talk { child, input, output }
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.input, "{question}").expect("the program reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    /// Waits until what follows an answer is done: the conversation is kept.
    fn settle(&mut self) {
        assert!(self.ask("/stats").starts_with("tokens "));
        for _ in 0..3 {
            self.output.read_line(&mut String::new()).expect("statistics");
        }
    }
}

#[test]
fn a_conversation_goes_on_without_a_file_and_without_a_model() {
    let user = User::new("goes-on");
    let document = file("The Boat.txt", DOCUMENT);
    let run = user.run(&["chat", "-f", &document], &format!("{NUMBER}\n"));
    assert_eq!(run.kept_name(), "the-boat");
    run.ok();
    let run = user.run(&["chat", "--resume"], &format!("{KEY}\n/stats\n"));
    assert!(run.stderr.contains(&format!("> {NUMBER}\n{NUMBER_IS}\n")), "{}", run.stderr);
    let out = run.ok();
    assert!(out.starts_with(&format!("{KEY_IS}\n")), "{out}");
    let read = out.lines().find(|line| line.starts_with("read")).expect("statistics").to_owned();
    let tokens: usize = read.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    assert!((1..40).contains(&tokens), "the document is not read again: {read}");

    // Another conversation about the same document has another name, which a number alone would not tell from the first.
    let run = user.run(&["chat", "-f", &document], &format!("{KEY}\n"));
    assert_eq!(run.kept_name(), "the-boat-what-is-the-pass-key");
    let names: Vec<_> = user.list().iter().map(|entry| entry["name"].as_str().map(str::to_owned)).collect();
    let expected = ["the-boat-what-is-the-pass-key", "the-boat"].map(|name| Some(name.to_owned()));
    assert_eq!(names, expected, "the last one first");
    // A name may be shortened as long as one conversation is meant.
    user.run(&["chat", "--resume", "the-boat-"], "").ok();
    user.run(&["chat", "--resume", "the"], "").assert_failed(1, "several kept conversations begin with the:");
    user.run(&["chat", "--resume", "nobody"], "").assert_failed(1, "no conversation named nobody is kept");
    user.run(&["chat", "--resume", "the-boat", "-sys", "Be brief."], "")
        .assert_failed(2, "no system message");
}

#[test]
fn nothing_is_kept_where_nothing_was_said_or_nobody_wants_it() {
    let user = User::new("nothing");
    let run = user.run(&["chat"], "/stats\n/exit\n");
    assert!(!run.stderr.contains("kept:"), "{}", run.stderr);
    let run = user.run(&["chat", "--private"], &format!("{DOCUMENT} {NUMBER}\n/save\n"));
    assert!(!run.stderr.contains("kept:"), "{}", run.stderr);
    assert!(run.stderr.contains("this conversation is kept nowhere"), "{}", run.stderr);
    run.ok();
    assert!(user.files().is_empty());
    user.run(&["chat", "--resume"], "").assert_failed(1, "no conversation is kept yet");
    user.run(&["chat", "--private", "--resume"], "").assert_failed(2, "cannot be used with");
}

#[test]
fn every_turn_is_kept_when_it_ends() {
    let user = User::new("killed");
    let mut talk = Talk::start(&user, &["chat", "-f", &file("turns.txt", DOCUMENT)]);
    assert_eq!(talk.ask(NUMBER), NUMBER_IS);
    assert_eq!(talk.ask(KEY), KEY_IS);
    talk.settle();
    talk.child.kill().expect("killed");
    talk.child.wait().expect("it ends");
    let run = user.run(&["sessions", "show", "turns"], "");
    let out = run.ok();
    assert!(out.contains(&format!("> {NUMBER}\n{NUMBER_IS}\n\n> {KEY}\n{KEY_IS}\n")), "{out}");
    let out = user.run(&["chat", "--resume", "turns"], &format!("{KEY}\n")).ok();
    assert_eq!(out.lines().last(), Some(KEY_IS), "{out}");
}

#[test]
fn a_new_conversation_leaves_the_last_one_as_it_was() {
    let user = User::new("clear");
    let document = file("clear.txt", DOCUMENT);
    user.run(&["chat", "-f", &document], &format!("{NUMBER}\n/clear\n{KEY}\n/undo\n{NUMBER}\n")).ok();
    let questions: Vec<_> = user.list().iter().map(|entry| entry["questions"].clone()).collect();
    assert_eq!(questions, [1, 1]);
    for (name, question) in [("clear", NUMBER), ("clear-what", NUMBER)] {
        let out = user.run(&["sessions", "export", name], "").ok();
        assert!(out.contains(&format!("## {question}\n")), "{out}");
    }
}

#[test]
fn two_programs_do_not_continue_one_conversation() {
    let user = User::new("two");
    user.run(&["chat", "-f", &file("two.txt", DOCUMENT)], &format!("{NUMBER}\n")).ok();
    let mut talk = Talk::start(&user, &["chat", "--resume"]);
    assert_eq!(talk.ask(KEY), KEY_IS);
    for args in [&["chat", "--resume"][..], &["sessions", "remove", "two"]] {
        user.run(args, "").assert_failed(1, "another longhand has this conversation open");
    }
    user.run(&["sessions", "verify"], "").ok();
    drop(talk.input);
    assert!(talk.child.wait().expect("it ends").success());
    user.run(&["chat", "--resume"], "").ok();
}

/// The caches of the conversations that were not used for longest go first; their words stay.
#[test]
fn old_caches_make_room_for_new_ones() {
    let user = User::new("room");
    let document = file("room.txt", DOCUMENT);
    let chat = |limit: &str| {
        let run = user.run(&["chat", "-f", &document, "--disk-cache", limit], &format!("{NUMBER}\n"));
        run.ok();
    };
    let caches = || -> Vec<bool> {
        let mut list = user.list();
        list.sort_by_key(|entry| entry["name"].as_str().map(str::to_owned));
        list.iter().map(|entry| entry["cache"].as_bool().expect("a flag")).collect()
    };
    (0..3).for_each(|_| chat("8GiB"));
    assert_eq!(caches(), [true; 3]);
    let bytes = user.list()[0]["bytes"].as_u64().expect("a number");
    chat(&format!("{}b", bytes * 3));
    assert_eq!(caches(), [false, true, true, true], "the oldest cache has gone");
    chat("1KiB");
    assert_eq!(caches(), [false, true, true, true, false], "one that does not fit removes nothing");
    let out = user.run(&["chat", "--resume", "room"], &format!("{KEY}\n")).ok();
    assert!(out.contains(KEY_IS), "{out}");
}

/// A folder that is reached through a link: a conversation does not count as another one.
#[cfg(unix)]
#[test]
fn a_conversation_in_a_linked_folder_makes_room_once() {
    let (user, real) = (User::new("linked"), User::new("linked-to"));
    fs::create_dir_all(&real.0).expect("a folder");
    let _ = fs::remove_file(&user.0);
    std::os::unix::fs::symlink(&real.0, &user.0).expect("a link");
    let document = file("linked.txt", DOCUMENT.repeat(4));
    for _ in 0..2 {
        user.run(&["chat", "-f", &document, "--disk-cache", "8GiB"], &format!("{NUMBER}\n")).ok();
    }
    let bytes = user.list()[0]["bytes"].as_u64().expect("a number");
    let limit = format!("{}b", bytes * 5 / 2);
    user.run(&["chat", "--resume", "linked-what", "--disk-cache", &limit], &format!("{KEY}\n")).ok();
    let caches: Vec<_> = user.list().iter().map(|entry| entry["cache"].clone()).collect();
    assert_eq!(caches, [true, true]);
}

/// A cache that is some turns old is beside the file. It is used with the context of the newer turns.
#[test]
fn an_older_cache_is_shown_and_used() {
    let user = User::new("older");
    user.run(&["chat", "-f", &file("older.txt", DOCUMENT)], &format!("{NUMBER}\n")).ok();
    user.run(&["chat", "--resume", "--disk-cache", "0"], &format!("/ctx 20k\n{KEY}\n")).ok();
    let out = user.run(&["sessions", "show"], "").ok();
    assert!(out.contains("KV cache   saved some turns ago; the rest is read again"), "{out}");
    assert_eq!(user.list()[0]["cache"], true);
    let out = user.run(&["chat", "--resume"], "/stats\n").ok();
    assert!(out.contains(" of 20,000"), "{out}");
}

/// A heart as an emoji, and characters that are joined, come back as they were typed.
#[test]
fn questions_keep_their_characters() {
    let user = User::new("characters");
    let question = "Mary\u{200c} likes ❤\u{fe0f}. What is Mary's favorite number?";
    user.run(&["chat", "-f", &file("characters.txt", DOCUMENT)], &format!("{question}\n")).ok();
    let shown = format!("> {question}\n");
    let out = user.run(&["sessions", "show"], "").ok();
    assert!(out.contains(&shown), "{out}");
    let run = user.run(&["chat", "--resume"], "/history\n");
    assert!(run.stderr.contains(&shown), "{}", run.stderr);
    let out = run.ok();
    assert!(out.contains(&shown), "{out}");
}

#[test]
fn conversations_are_shown_checked_exported_and_removed() {
    let user = User::new("manage");
    let run = user.run(&["sessions", "list"], "");
    assert!(run.stderr.contains("no conversation is kept yet"), "{}", run.stderr);
    run.ok();
    let document = file("manage.txt", DOCUMENT);
    user.run(&["chat", "-f", &document, "-sys", "Be brief."], &format!("{NUMBER}\n{KEY}\n")).ok();
    let out = user.run(&["sessions", "list"], "").ok();
    for part in ["manage", "needle", "manage.txt", " ago"] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
    let out = user.run(&["sessions", "export"], "").ok();
    assert_eq!(
        out,
        format!(
            "# Conversation with needle\n\nDocuments: manage.txt\n\nSystem message: Be brief.\n\n\
             ## {NUMBER}\n\n{NUMBER_IS}\n\nFrom:\n\n- manage.txt: {NUMBER_IS}\n\n\
             ## {KEY}\n\n{KEY_IS}\n\nFrom:\n\n- manage.txt: {KEY_IS}\n"
        )
    );
    let json = user.run(&["sessions", "export", "--json"], "").json();
    assert_eq!((&json["turns"][1]["answer"], &json["system"]), (&KEY_IS.into(), &"Be brief.".into()));
    assert_eq!(json["documents"][0], "manage.txt");

    // Damage is found without the model. A damaged conversation can be removed; another file cannot.
    let path = user.folder().join("manage.session");
    let mut bytes = fs::read(&path).expect("the file");
    let position = bytes.len() - 20;
    bytes[position] ^= 1;
    fs::write(&path, bytes).expect("damaged");
    let run = user.run(&["sessions", "verify"], "");
    assert!(run.stderr.contains("its checksum is wrong"), "{}", run.stderr);
    run.assert_failed(1, "1 of 1 conversations are damaged");
    user.run(&["sessions", "remove", &document], "").assert_failed(1, "not a saved session");
    assert!(Path::new(&document).exists());
    fs::write(user.folder().join("broken.session"), "nonsense").expect("a file");
    assert_eq!(user.list().len(), 2);
    user.run(&["sessions", "list"], "").ok();
    user.run(&["sessions", "remove", "manage", "broken"], "").ok();
    assert!(user.files().is_empty());
    user.run(&["sessions", "remove"], "").assert_failed(2, "required");
    user.run(&["sessions", "remove", "--all"], "").ok();
}

/// A conversation without a document is named after its first question.
#[test]
fn names_say_what_conversations_are_about() {
    let user = User::new("names");
    let question = "Mary's favorite number is 34251. What is it?";
    let first = "marys-favorite-number-is-34251-what-is";
    for name in [first.to_owned(), format!("{first}-2")] {
        assert_eq!(user.run(&["chat"], &format!("{question}\n")).kept_name(), name);
    }
    // Nothing that a shell or a terminal understands.
    let run = user.run(&["chat"], "../$(rm) \u{e0041}\u{202e}`x`; What is the pass key?\n");
    assert_eq!(run.kept_name(), "rm-x-what-is-the-pass-key");
    assert_eq!(user.files().len(), 3);
}

/// A file of any name may be in the folder.
#[test]
fn a_name_with_invisible_characters_is_shown_with_escapes_and_may_be_given_so() {
    let user = User::new("invisible");
    user.run(&["chat"], &format!("{NUMBER}\n")).ok();
    let path = user.folder().join(&user.files()[0]);
    fs::rename(path, user.folder().join("a\u{e0041}b.session")).expect("renamed");
    let out = user.run(&["sessions", "list"], "").ok();
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[2].starts_with("a\\u{e0041}b  needle"), "{out}");
    assert_eq!(lines[0].find("model"), lines[2].find("needle"), "columns are below each other: {out}");
    let name = user.run(&["chat", "--resume"], "").kept_name();
    user.run(&["chat", "--resume", &name], "").ok();
    user.run(&["sessions", "rename", &name, "plain"], "").ok();
    assert_eq!(user.files(), ["plain.session"]);
}

#[test]
fn conversations_are_renamed_copied_and_searched() {
    let user = User::new("rename");
    let document = file("rename.txt", DOCUMENT);
    user.run(&["chat", "-f", &document], &format!("{NUMBER}\n{KEY}\n")).ok();
    user.run(&["chat", "-f", &document], &format!("{KEY}\n")).ok();
    let other = "rename-what-is-the-pass-key";
    assert_eq!(user.files(), [format!("{other}.session"), "rename.session".to_owned()]);

    let run = user.run(&["sessions", "rename", "rename", "boat"], "");
    assert!(run.stderr.contains("renamed: longhand chat --resume boat\n"), "{}", run.stderr);
    run.ok();
    assert_eq!(user.files(), ["boat.session".to_owned(), format!("{other}.session")]);
    user.run(&["sessions", "rename", "boat", other], "").assert_failed(1, "is kept already");
    for name in ["", "../boat", "a/b", "-x", ".x", "a b", "a\u{e0041}", "CON", "nul.2", &"x".repeat(61)] {
        user.run(&["sessions", "rename", "--", "boat", name], "").assert_failed(2, "cannot be the name");
    }
    user.run(&["sessions", "rename", &document, "x"], "").assert_failed(1, "is not among the kept");
    user.run(&["sessions", "rename", "nobody", "x"], "").assert_failed(1, "no conversation named nobody");
    let mut talk = Talk::start(&user, &["chat", "--resume", "boat"]);
    assert_eq!(talk.ask(KEY), KEY_IS);
    user.run(&["sessions", "rename", "boat", "x"], "").assert_failed(1, "has this conversation open");
    drop(talk.input);
    assert!(talk.child.wait().expect("it ends").success());

    // Both copies go on, and nothing is read again.
    user.run(&["sessions", "fork", "boat"], "").ok();
    let run = user.run(&["sessions", "fork", "boat", "ship"], "");
    assert!(run.stderr.contains("kept: longhand chat --resume ship\n"), "{}", run.stderr);
    run.ok();
    user.run(&["sessions", "fork", "boat", "ship"], "").assert_failed(1, "is kept already");
    user.run(&["sessions", "verify"], "").ok();
    let out = user.run(&["chat", "--resume", "ship"], &format!("{NUMBER}\n/stats\n")).ok();
    assert!(out.starts_with(&format!("{NUMBER_IS}\n")), "{out}");
    let read = out.lines().find(|line| line.starts_with("read")).expect("statistics").to_owned();
    let tokens: usize = read.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    assert!((1..40).contains(&tokens), "the document is not read again: {read}");
    let questions =
        |name: &str| user.run(&["sessions", "export", name, "--json"], "").json()["turns"].clone();
    let count = |name: &str| questions(name).as_array().map_or(0, Vec::len);
    assert_eq!((count("boat"), count("boat-2"), count("ship")), (3, 3, 4));

    // All words, in any order, in questions and answers.
    let search = |words: &[&str]| user.run(&[&["sessions", "search"], words].concat(), "");
    let out = search(&["NUMBER", "favorite", "34251"]).ok();
    assert_eq!(out.matches(NUMBER_IS).count(), 4, "{out}");
    assert!(out.contains(&format!("boat-2\n    {NUMBER_IS}\n")) && !out.contains(other), "{out}");
    let out = search(&["what pass"]).ok();
    assert!(out.contains(&format!("{other}\n    > {KEY}\n")), "{out}");
    let json = user.run(&["sessions", "search", "34251", "--json"], "").json();
    assert_eq!(json.as_array().map(Vec::len), Some(4));
    assert_eq!(
        (&json[0]["name"], &json[0]["turn"], &json[0]["role"]),
        (&"ship".into(), &1.into(), &"answer".into())
    );
    let run = search(&["nowhere"]);
    assert!(run.stderr.contains("no kept conversation has nowhere"), "{}", run.stderr);
    assert_eq!(run.ok(), "");
    search(&[" "]).assert_failed(2, "no word");
}

/// A file that cannot be written does not end the conversation: the user is told and saves it elsewhere.
#[test]
fn a_conversation_that_cannot_be_kept_is_saved_elsewhere() {
    let user = User::new("elsewhere");
    fs::create_dir_all(&user.0).expect("a folder");
    fs::write(user.0.join("longhand"), "not a folder").expect("a file");
    let copy = user.0.join("copy");
    let copy = copy.to_str().expect("text");
    let document = file("elsewhere.txt", DOCUMENT);
    let run = user.run(&["chat", "-f", &document], &format!("{NUMBER}\n/save {copy}\n/save {copy}\n/exit\n"));
    assert!(run.stderr.contains("conversations cannot be kept in "), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("saved the conversation to {copy}")), "{}", run.stderr);
    assert!(run.stderr.contains("exists already"), "{}", run.stderr);
    run.ok();

    // A session file whose folder goes away: the first /exit says so, and the chat goes on.
    let folder = user.0.join("gone");
    fs::create_dir(&folder).expect("a folder");
    let session = folder.join("talk");
    let mut talk =
        Talk::start(&user, &["chat", "--session", session.to_str().expect("text"), "-f", &document]);
    assert_eq!(talk.ask(NUMBER), NUMBER_IS);
    talk.settle();
    fs::remove_dir_all(&folder).expect("removed");
    writeln!(talk.input, "/exit").expect("the program reads");
    assert_eq!(talk.ask(KEY), KEY_IS);
    let copy = format!("{copy}-2");
    writeln!(talk.input, "/save {copy}\n/exit").expect("the program reads");
    drop(talk.input);
    let run = finished(talk.child.wait_with_output().expect("the program ends"));
    assert!(run.stderr.contains("/save FILE saves the conversation elsewhere"), "{}", run.stderr);
    run.ok();
    let out = user.run(&["chat", "--session", &copy], &format!("{NUMBER}\n")).ok();
    assert!(out.ends_with(&format!("{NUMBER_IS}\n")), "{out}");
}

/// Kills the program at random moments while it saves. `LONGHAND_KILLS=1000` kills it a thousand times.
#[test]
fn a_killed_save_leaves_a_whole_conversation_and_no_litter() {
    let user = User::new("kills");
    let session = user.0.join("talk");
    fs::create_dir_all(&user.0).expect("a folder");
    let session = session.to_str().expect("text");
    // About 2 MB, so that a save takes a few milliseconds.
    let document = file("kills.txt", DOCUMENT.repeat(60));
    user.run(&["chat", "--session", session, "-f", &document], &format!("{NUMBER}\n")).ok();
    let files = || -> Vec<String> {
        let entries = fs::read_dir(&user.0).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
        names.filter(|name| name != "longhand").collect()
    };
    let kills = std::env::var("LONGHAND_KILLS").map_or(8, |text| text.parse().expect("a number"));
    let (mut random, mut in_a_save) = (random_numbers(), 0);
    for number in 0..kills {
        let mut talk = Talk::start(&user, &["chat", "--session", session]);
        assert_eq!(talk.ask(KEY), KEY_IS, "kill {number}");
        // It saves without pause now.
        let _ = talk.input.write_all("/save\n/undo\n/save\n/clear\n/save\n".repeat(200).as_bytes());
        std::thread::sleep(Duration::from_micros(random() % 40_000));
        talk.child.kill().expect("killed");
        talk.child.wait().expect("it ends");
        in_a_save += usize::from(files() != ["talk"]);
        user.run(&["chat", "--session", session], "/clear\n").ok();
        user.run(&["sessions", "verify", session], "").ok();
        assert_eq!(files(), ["talk"], "kill {number} leaves nothing else");
    }
    println!("{in_a_save} of {kills} kills were in the middle of a save");
    assert!(in_a_save > 0 || kills < 100);
}

/// Random numbers that differ from run to run.
fn random_numbers() -> impl FnMut() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let state = std::collections::hash_map::RandomState::new();
    let mut number = 0u64;
    move || {
        number += 1;
        let mut hasher = state.build_hasher();
        hasher.write_u64(number);
        hasher.finish()
    }
}
