//! Everything the program writes, where it cannot be written: an error that names the file, nothing lost, and no
//! temporary file left behind.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::common::{KEY_IS, Run, file, limited, scratch};

/// A command that writes a file. `{}` is its path.
struct Output {
    args: &'static [&'static str],
    input: &'static str,
    /// What is on stdout although the file cannot be written.
    stdout: &'static str,
}

const OUTPUTS: [Output; 4] = [
    Output { args: &["logits", "-t", "1", "--tokens", "1,2", "-o", "{}"], input: "", stdout: "" },
    Output {
        args: &["chat", "-t", "1", "--session", "{}"],
        input: "The pass key is 9078648. What is the pass key?\n",
        stdout: KEY_IS,
    },
    Output {
        args: &["heads", "calibrate", "-t", "1", "--period", "100", "--out", "{}"],
        input: "",
        stdout: "heads keep",
    },
    Output { args: &["heads", "import", "MAP", "--out", "{}"], input: "", stdout: "" },
];

/// What is wrong with the place of the file. Gives the path, and what bash sets up.
enum Fault {
    /// No byte can be written to a file.
    NoSpace,
    /// No byte can be written to a file, and there is an older one.
    NoSpaceForUpdate,
    /// Part of the path is a file.
    InsideFile,
    IsFolder,
    IsDevice,
    /// The folder may not be written to.
    ReadOnly,
}

/// An empty folder.
fn empty_folder(name: &str) -> PathBuf {
    let folder = scratch("file-faults").join(name);
    if folder.exists() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("permissions");
        fs::remove_dir_all(&folder).expect("removed");
    }
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn run(output: &Output, path: &str, setup: &str, folder: &Path, map: &str) -> Option<Run> {
    let args: Vec<&str> = output
        .args
        .iter()
        .map(|arg| match *arg {
            "{}" => path,
            "MAP" => map,
            arg => arg,
        })
        .collect();
    limited(setup, true, folder, &args, output.input)
}

#[test]
fn outputs_that_cannot_be_written_are_errors_and_leave_nothing_behind() {
    let map = file("faults-map.tsv", "0\t1\t0\t1\n".repeat(4));
    for (number, output) in OUTPUTS.iter().enumerate() {
        for fault in [
            Fault::NoSpace,
            Fault::NoSpaceForUpdate,
            Fault::InsideFile,
            Fault::IsFolder,
            Fault::IsDevice,
            Fault::ReadOnly,
        ] {
            let folder = empty_folder(&format!("output-{number}"));
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("permissions");
            let target = folder.join("out");
            let path = target.to_str().expect("a path that is text").to_owned();
            let (mut path, mut setup, mut left) = (path, "true".to_owned(), Vec::new());
            match fault {
                Fault::NoSpace => setup = "ulimit -f 0".into(),
                Fault::NoSpaceForUpdate => {
                    if output.args[0] == "chat" {
                        // A session that is there is continued: it must be one.
                        let saved = run(output, &path, "true", &folder, &map);
                        let Some(saved) = saved else { return println!("skipped: no other user here") };
                        saved.ok();
                    } else {
                        fs::write(&target, "older").expect("a file");
                    }
                    setup = "ulimit -f 0".into();
                    left = vec!["out"];
                }
                Fault::InsideFile => {
                    fs::write(&target, "a file").expect("a file");
                    path = format!("{path}/out");
                    left = vec!["out"];
                }
                Fault::IsFolder => {
                    fs::create_dir(&target).expect("a folder");
                    left = vec!["out"];
                }
                Fault::IsDevice => path = "/dev/full".into(),
                Fault::ReadOnly => {
                    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).expect("permissions");
                }
            }
            let before = fs::read(&target).ok();
            let Some(run) = run(output, &path, &setup, &folder, &map) else {
                return println!("skipped: no other user here");
            };
            let what = format!("{:?} {path} {setup}: {}", output.args, run.stderr);
            assert_eq!(run.code, Some(1), "{what}");
            assert!(run.stderr.contains("error: ") && run.stderr.contains("\nhint: "), "{what}");
            // An error about a part of the path names that part.
            assert!(run.stderr.contains(path.trim_end_matches("/out")), "{what}");
            assert!(!run.stderr.contains("panicked"), "{what}");
            // Other faults may be found before anything is computed.
            let late = match fault {
                Fault::NoSpaceForUpdate => true,
                Fault::NoSpace | Fault::ReadOnly => output.args[0] != "chat",
                _ => false,
            };
            assert!(!late || run.stdout.contains(output.stdout), "{what}{}", run.stdout);
            let mut found = entries(&folder);
            // The text of the conversation is saved, where it can be.
            found.retain(|name| !name.starts_with("longhand-conversation-"));
            assert_eq!(found, left, "{what}");
            assert!(fs::read(&target).ok() == before, "the older file is as it was: {what}");
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("permissions");
        }
    }
}

/// The text of a conversation is small. It is kept where the KV cache has no room.
#[test]
fn a_conversation_is_kept_without_a_cache_that_has_no_room() {
    let folder = empty_folder("no-room");
    let document = file("no-room.txt", crate::common::DOCUMENT.repeat(20));
    let session = folder.join("talk");
    let session = session.to_str().expect("text");
    // The cache takes more than 100 KiB.
    let questions = "What is the pass key?\nWhat is Mary's favorite number?\n";
    let args = ["chat", "-t", "1", "--session", session, "-f", &document];
    let run = limited("ulimit -f 100", false, &folder, &args, questions);
    let Some(run) = run else { return println!("skipped: no bash") };
    // Once after an answer, and at the end.
    assert_eq!(run.stderr.matches("error: ").count(), 2, "{}", run.stderr);
    assert_eq!(run.stderr.matches("is kept, without its KV cache").count(), 2, "{}", run.stderr);
    run.ok();
    assert_eq!(entries(&folder), ["talk"]);
    let shown = crate::common::longhand(&["sessions", "show", session]).ok();
    assert!(shown.contains("KV cache   not saved"), "{shown}");
    assert!(shown.contains(KEY_IS) && shown.contains("Mary's favorite number is 34251.\n"), "{shown}");
}

/// A head profile that cannot be cached is a note; it is made again the next time.
#[test]
fn a_cache_that_cannot_be_written_is_a_note() {
    let folder = empty_folder("cache");
    let cache = folder.join("cache-is-a-file");
    fs::write(&cache, "").expect("a file");
    let output = crate::common::command(&["heads", "calibrate", "--period", "100"])
        .env("XDG_CACHE_HOME", &cache)
        .output()
        .expect("the program ends");
    let run = crate::common::finished(output);
    assert!(run.stderr.contains("note: the head profile could not be cached: "), "{}", run.stderr);
    assert!(run.ok().contains("heads keep everything"));
    assert_eq!(entries(&folder), ["cache-is-a-file"]);
}

/// What a limit on the size of files (`ulimit -f`) forbids is an error of the write, and no end of the program. Nothing but
/// what was asked for is lost.
#[test]
fn a_cache_beyond_the_limit_on_file_sizes_is_a_note() {
    let document = file("limit.txt", crate::common::DOCUMENT.repeat(60));
    let folder = empty_folder("limit");
    let question = "What is Mary's favorite number?";
    let is = "Mary's favorite number is 34251.";
    let in_folder = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    let (caches, states, session) = (in_folder("cache"), in_folder("state"), in_folder("talk"));
    // The text is read twice and little of it is kept, so that it is written whatever the speed of the machine is. That
    // still takes more than a megabyte.
    let document_is_kept = ["--policy", "kvzip:heads=off", "--kv-budget", "50%"];
    let setup = format!(
        "export XDG_CACHE_HOME={caches} XDG_STATE_HOME={states} LONGHAND_DISK_CACHE=8GiB; ulimit -f 400"
    );
    let ask = [&["ask", "-t", "1", "-f", &document], &document_is_kept[..], &[question]].concat();
    let chat = ["chat", "-t", "1", "-f", &document];
    let named = ["chat", "-t", "1", "-f", &document, "--session", &session];
    for args in [&ask[..], &chat, &named] {
        let Some(run) = limited(&setup, false, &folder, args, &format!("{question}\n")) else {
            return println!("skipped: no bash");
        };
        let of_documents = run.stderr.contains("note: the cache of documents that were read: ");
        let of_conversation = run.stderr.contains("is kept, without its KV cache");
        assert!(of_documents || args[0] == "chat" && of_conversation, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("File too large"), "{args:?}: {}", run.stderr);
        assert!(run.ok().contains(is), "{args:?}");
    }
    let mut left = Vec::new();
    for place in [in_folder("cache/longhand/documents"), in_folder("state/longhand/sessions"), in_folder("")]
    {
        left.extend(entries(Path::new(&place)));
    }
    left.sort();
    assert_eq!(left, ["cache", "limit.session", "state", "talk"]);
    for name in ["limit", &session] {
        let mut command = crate::common::command(&["sessions", "show", name]);
        let shown =
            crate::common::finished(command.env("XDG_STATE_HOME", &states).output().expect("it ends")).ok();
        assert!(shown.contains(is), "{shown}");
    }
    // What was asked for is an error.
    let out = in_folder("out.npy");
    let logits = ["logits", "-t", "1", "--tokens", "1,2", "-o", &out];
    let run = limited("ulimit -f 1", false, &folder, &logits, "").expect("as above");
    assert!(run.stderr.contains("out.npy"), "{}", run.stderr);
    run.assert_failed(1, "File too large");
    assert!(!Path::new(&out).exists());
}
