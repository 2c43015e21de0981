//! The pictures of README.md and docs/chat.md: scenes that the real program plays in a terminal, drawn as SVG. `scripts/pictures.sh` puts
//! them into `docs`.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{add_program, command, scratch};
use crate::pty::Terminal;
use crate::svg;

const COLUMNS: u16 = 88;
/// Rows of the terminal; the picture ends after the last row with text.
const ROWS: u16 = 40;
/// Largest size of a picture, in bytes.
const MAX_BYTES: usize = 60_000;

/// What happens in a scene.
enum Step {
    /// Waits until this is shown.
    Wait(&'static str),
    /// Waits for an empty prompt, and types a line.
    Type(&'static str),
    /// Waits for an empty prompt.
    Prompt,
}
use Step::{Prompt, Type, Wait};

struct Scene {
    /// The file's name.
    name: &'static str,
    /// What is to be seen, for those who do not see it.
    title: &'static str,
    /// The command line, after `longhand`. It runs in a folder with the documents of [`documents`].
    command: &'static str,
    steps: &'static [Step],
}

const SCENES: &[Scene] = &[
    Scene {
        name: "chat",
        title: "A chat about two documents: answers with the pages they come from, and an invented number that is underlined",
        command: "chat --private -f journal.txt -f boat.pdf --policy razor:buffer=256",
        steps: &[
            Type("What is Mary's favorite number?"),
            Wait("from: journal.txt"),
            Type("What is the pass key?"),
            Wait("from: boat.pdf p. 2"),
            Type("What is the code of the lamp?"),
            Wait("not in the documents: "),
            Prompt,
        ],
    },
    Scene {
        name: "kv",
        title: "The rows that each KV head keeps of a document, and where the rows of one head lie",
        command: "chat -q --private -f journal.txt --policy razor:buffer=256",
        steps: &[
            Type("What is Mary's favorite number?"),
            Wait("is 34251."),
            Type("/kv"),
            Wait("rows"),
            Type("/kv 1.0"),
            Wait("window"),
            Prompt,
        ],
    },
];

/// A folder with a long document, in which a fact is far from the end, and a short one.
fn documents() -> std::path::PathBuf {
    let folder = scratch("pictures");
    let (subjects, verbs, objects) = (
        ["The old boat", "The quiet teacher", "A small bird", "The famous painter", "The tall farmer"],
        ["crossed", "described", "left", "remembered", "watched", "followed", "found"],
        ["the narrow bridge", "the green garden", "the cold river", "the empty road"],
    );
    let mut text = String::new();
    for n in 0..560 {
        text += &format!(
            "{} {} {}.{}",
            subjects[n % subjects.len()],
            verbs[n % verbs.len()],
            objects[n % objects.len()],
            if n % 8 == 7 { "\n" } else { " " }
        );
        if n == 60 {
            text += "Mary's favorite number is 34251. ";
        }
    }
    fs::write(folder.join("journal.txt"), text).expect("a document");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("documents/tests/fixtures/boat.pdf");
    fs::copy(fixture, folder.join("boat.pdf")).expect("a document");
    folder
}

/// Runs `longhand COMMAND` below a line that shows it, as a shell does.
fn start(scene: &Scene, folder: &Path) -> Terminal {
    let words: Vec<&str> = scene.command.split(' ').collect();
    let mut shell = Command::new("sh");
    shell.args(["-c", "printf '$ longhand %s\\n' \"$0\"; exec \"$@\"", scene.command]);
    add_program(&mut shell, &command(&words));
    shell.current_dir(folder).env("TERM", "xterm-256color");
    Terminal::start_sized(shell, ROWS, COLUMNS)
}

#[test]
fn scenes_are_played_and_drawn() {
    let folder = documents();
    for scene in SCENES {
        let terminal = start(scene, &folder);
        for step in scene.steps {
            match step {
                Wait(text) => terminal.wait_for(text),
                Type(line) => {
                    terminal.wait_for_prompt();
                    terminal.send(&format!("{line}\r"));
                }
                Prompt => terminal.wait_for_prompt(),
            }
        }
        let picture = terminal.look(|screen| svg::picture(screen, scene.title));
        assert!(picture.len() < MAX_BYTES, "{} has {} bytes", scene.name, picture.len());
        fs::write(folder.join(format!("{}.svg", scene.name)), picture).expect("a picture");
    }
}

#[test]
fn a_picture_has_the_colours_and_the_columns_of_the_screen() {
    let size = |n| std::num::NonZeroU16::new(n).expect("not 0");
    let mut parser = vt100::Parser::new(size(4), size(20), 0);
    parser.process("a<b  \x1b[1;31mred\x1b[0m\r\n  \x1b[7mX\x1b[0m 木 end".as_bytes());
    let svg = svg::picture(parser.screen(), "two & rows");
    for part in [
        "<title>two &amp; rows</title>",
        "viewBox=\"0 0 200 70\"",
        "x=\"16.0\" y=\"30.1\" textLength=\"25.2\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">a&lt;b</text>",
        "x=\"58.0\" y=\"30.1\" textLength=\"25.2\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\" \
         fill=\"#b42318\" font-weight=\"bold\">red</text>",
        "<rect x=\"32.8\" y=\"35.0\" width=\"8.4\" height=\"19.0\" fill=\"#1f2328\"/>",
        "x=\"49.6\" y=\"49.1\" textLength=\"50.4\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">木 end</text>",
    ] {
        assert!(svg.contains(part), "{part} is not in\n{svg}");
    }
}
