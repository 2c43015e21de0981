//! How long documents take to read, by how fast the machine was last time.

use std::fs;
use std::process::Stdio;

use crate::common::{DOCUMENT, command, file, finished, scratch};

#[test]
fn a_reading_is_announced_with_the_speed_of_the_last_one() {
    let cache = scratch("speeds-cache");
    let speeds = cache.join("longhand/speeds.json");
    let _ = fs::remove_dir_all(&cache);
    let run = |verb: &str, number: usize, question: &[&str]| {
        let text = format!("{number} {}", DOCUMENT.repeat(20));
        let document = file(&format!("speeds-{number}.txt"), text);
        let mut command = command(&[&[verb, "-f", &document], question].concat());
        command.env("XDG_CACHE_HOME", &cache).env_remove("LONGHAND_DISK_CACHE").stdin(Stdio::null());
        finished(command.output().expect("it runs"))
    };
    let ask = |number| run("ask", number, &["What is Mary's favorite number?"]).stderr;
    assert!(!ask(1).contains("takes about"));
    let known = fs::read_to_string(&speeds).expect("a file");
    let mut entries: Vec<(String, [f64; 2])> = serde_json::from_str(&known).expect("speeds");
    assert!(entries.len() == 1 && entries[0].1.iter().all(|seconds| *seconds > 0.0), "{known}");
    let write = |entries: &[(String, [f64; 2])]| {
        fs::write(&speeds, serde_json::to_string(entries).expect("JSON")).expect("written");
    };
    // Without a terminal there is nobody to ask.
    entries[0].1 = [100.0, 100.0];
    write(&entries);
    let shown = ask(3);
    assert!(shown.contains("reading ") && shown.contains(" min, at the speed of last time"), "{shown}");
    // Two numbers: of the tokens, and of the square of the text.
    for (number, pace, unit) in [(4, [1.0, 0.0], " min "), (5, [1.0, 1e6], " h ")] {
        entries[0].1 = pace;
        write(&entries);
        let shown = ask(number);
        let (_, time) = shown.split_once("takes about ").expect("a time");
        assert!(time.split(',').next().is_some_and(|time| time.contains(unit)), "{pace:?}: {shown}");
    }
    for damaged in ["", "[[\"x\", [1e999, 1]]]", "[", "[[1, 2]]", "[[\"one number\", 3.5]]"] {
        fs::write(&speeds, damaged).expect("written");
        assert!(!ask(2).contains("takes about"), "{damaged}");
    }
    // What was read before takes no time. `read` keeps also what is read in an instant.
    run("read", 6, &[]).ok();
    entries[0].1 = [100.0, 100.0];
    write(&entries);
    let shown = ask(6);
    assert!(!shown.contains("takes about"), "{shown}");
}
