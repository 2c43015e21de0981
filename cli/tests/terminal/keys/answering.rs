//! The input line while the model works: what is typed is shown below the answer, messages wait, Esc stops.

use std::fs;

use super::{KEY_IS, NUMBER_IS, QUIT_HINT, UP};
use crate::common::{DOCUMENT, endless_model, file, scratch, talking_model};
use crate::pty::{Terminal, WORKING};

/// Arguments of a chat whose answers do not end.
fn endless(model: &str) -> [&str; 8] {
    ["-m", model, "--temp", "0", "-n", "100000", "-c", "30000"]
}

/// A chat in the middle of an answer that does not end.
fn answering(name: &str) -> Terminal {
    let model = endless_model(&format!("answering-{name}.gguf"));
    let chat = Terminal::chat(&format!("answering-{name}"), &endless(&model));
    chat.send("Why?\r");
    chat.wait_for("!!!!");
    chat
}

/// The rows between the question and the line that says that the model works.
fn answer_of(chat: &Terminal) -> String {
    let shown = chat.contents();
    let behind = shown.split_once("> Why?\n").expect("a question").1;
    behind.split_once(WORKING).expect("work").0.trim_end().to_owned()
}

#[test]
fn what_is_typed_is_seen_below_the_answer() {
    let mut chat = answering("seen");
    chat.send("typed 中文");
    chat.wait_for_row("> typed 中文|");
    assert!(chat.contents().contains(&format!("{WORKING}\n> typed")), "{}", chat.contents());
    let before = answer_of(&chat).len();
    chat.wait_until("more of the answer", |screen| {
        let shown = screen.contents();
        shown.split_once(WORKING).is_some_and(|(above, _)| above.len() > before + 100)
    });
    // All of it is the answer, and the text stands below it once.
    let answer = answer_of(&chat);
    assert!(answer.lines().all(|row| row.trim_matches('!').is_empty()), "{answer}");
    assert_eq!(chat.contents().matches("> typed").count(), 1, "{}", chat.contents());
    chat.send("\x03");
    chat.wait_for("(interrupted)");
    chat.wait_for_end_of_work();
    chat.wait_for_row("> typed 中文|");
    chat.send("\x15");
    chat.wait_for_row("> |");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
    assert!(chat.is_as_before());
}

#[test]
fn messages_wait_for_the_answer_and_can_be_taken_back() {
    let mut chat = answering("waiting");
    chat.send("/nope\r/one\r/two\r");
    chat.wait_for("next: /nope\nnext: /one\nnext: /two\n");
    chat.send(UP);
    chat.wait_for_row("> /two|");
    assert!(!chat.contents().contains("next: /two"), "{}", chat.contents());
    // It is changed and sent again. Then the line is a draft, and Up is the history's.
    chat.send("x\rdraft");
    chat.wait_for("next: /one\nnext: /twox\n");
    chat.send(UP);
    chat.wait_for_row("> /twox|");
    chat.send("\x1b[B");
    chat.wait_for_row("> draft|");
    chat.send("\x03");
    chat.wait_for("no command /twox");
    chat.wait_for_end_of_work();
    chat.wait_for_row("> draft|");
    let shown = chat.contents();
    let order = ["(interrupted)", "no command /nope", "no command /one", "no command /twox"];
    let places: Vec<_> = order.iter().map(|text| shown.find(text)).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{shown}");
    assert!(!shown.contains("next: "), "{shown}");
    chat.send("\x15");
    chat.wait_for_row("> |");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn esc_stops_an_answer_and_never_quits() {
    let mut chat = answering("esc");
    // Keys that begin with Esc are no Esc.
    chat.send("ab\x1b[D\x1bOD\x1b\x1b[C\x1bb\x1b[1;5C\x1b[I");
    chat.wait_for_row("> ab|");
    assert!(chat.contents().contains(WORKING), "{}", chat.contents());
    chat.send("\x1b");
    chat.wait_for("(interrupted)");
    chat.wait_for_row("> ab|");
    // What was written is kept.
    chat.send("\x15");
    chat.wait_for_prompt();
    chat.send("/continue\r");
    chat.wait_until("work again", |screen| screen.contents().contains(WORKING));
    // An Esc too many does nothing.
    chat.send("\x1b\x1b");
    chat.wait_until("a second stop", |screen| screen.contents().matches("(interrupted)").count() == 2);
    chat.wait_for_prompt();
    assert!(!chat.contents().contains(QUIT_HINT), "{}", chat.contents());
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
    assert!(chat.is_as_before());
}

#[test]
fn esc_ends_a_search_before_it_stops_an_answer() {
    let mut chat = answering("search");
    chat.send("\x12Wh");
    chat.wait_for_row("(search \"Wh\") Why?|");
    chat.send("\x1b");
    chat.wait_for_row("> Why?|");
    assert!(chat.contents().contains(WORKING), "{}", chat.contents());
    chat.send("\x1b");
    chat.wait_for("(interrupted)");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn the_end_of_input_waits_and_a_second_ctrl_c_quits() {
    let mut chat = answering("end");
    chat.send("\x04");
    chat.wait_for("next: /exit\n");
    chat.send(UP);
    chat.wait_until("taken back", |screen| !screen.contents().contains("next: "));
    chat.send("\x04\x1b");
    assert_eq!(chat.exit_code(), Some(0));
    assert!(chat.is_as_before());
    assert!(chat.bytes().contains("kept: longhand chat --resume"), "{}", chat.contents());

    let mut chat = answering("twice");
    chat.send("typed");
    chat.wait_for_row("> typed|");
    chat.send("\x03\x03");
    // The second one may come when the answer has stopped already.
    chat.press_ctrl_c_until_the_end();
    assert_eq!(chat.exit_code(), Some(130));
    assert!(chat.is_as_before());
}

#[test]
fn a_resize_leaves_one_line_below_the_answer() {
    let chat = answering("resized");
    let text = "0123456789".repeat(4);
    chat.send(&text);
    chat.wait_for_row(&format!("> {text}|"));
    for columns in [30, 100, 50] {
        chat.resize(columns);
        let in_row = (text.len() + 2) % usize::from(columns);
        let last = if text.len() + 2 < usize::from(columns) {
            format!("> {text}")
        } else {
            text[text.len() - in_row..].to_owned()
        };
        chat.wait_for_row(&format!("{last}|"));
    }
    chat.send("\x03");
    chat.wait_for("(interrupted)");
    chat.wait_for_end_of_work();
    chat.wait_for_row(&format!("> {text}|"));
    let below = chat.contents().rsplit_once("(interrupted)").expect("the end").1.to_owned();
    assert_eq!(below.trim(), format!("> {text}"), "{}", chat.contents());
}

#[test]
fn an_answer_has_the_rows_that_it_has_without_a_line_below() {
    // A word is a token, and no token may be there twice.
    let text = "A **bold** word, `code`, 中文中文, plus one long sentence wrapped at its words.\n\n```\nlet x = 1; // this \
                line needs more columns than any terminal here has, but nobody breaks rows inside\n```\n- end\n";
    let pieces: Vec<&str> = text.split_inclusive(' ').collect();
    let model = talking_model("answering-rows.gguf", &pieces, None);
    let mut chat = Terminal::chat("answering-rows", &["-m", &model, "--temp", "0"]);
    chat.wait_for_prompt();
    chat.resize(40);
    chat.send("\x0cWhy?\r");
    chat.wait_for(" t/s");
    chat.wait_for_prompt();
    let shown = chat.contents();
    let rows = "A bold word, code, 中文中文, plus one\nlong sentence wrapped at its words.\n\n```\n\
                let x = 1; // this line needs more columns than any terminal here has, but nobody breaks rows inside\n";
    let without_breaks = |text: &str| text.replace('\n', "");
    assert!(shown.contains(rows.split("let").next().unwrap_or_default()), "{shown}");
    assert!(without_breaks(&shown).contains(&without_breaks(rows)), "{shown}");
    assert!(shown.contains("• end\n") || shown.contains("- end\n"), "{shown}");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn plain_answers_have_no_line_below_and_esc_stops_them() {
    let model = endless_model("answering-plain.gguf");
    let args = [&endless(&model)[..], &["--plain"]].concat();
    let mut chat = Terminal::chat("answering-plain", &args);
    chat.send("Why?\r");
    chat.wait_for("!!!!");
    chat.send("typed\x1b");
    chat.wait_for("(interrupted)");
    chat.wait_for_row("> typed|");
    let bytes = chat.bytes();
    assert!(!bytes.contains(WORKING) && !bytes.contains(" t/s"), "{bytes}");
    let answer = bytes.split_once('!').expect("an answer").1.split_once("(interrupted)").expect("its end").0;
    assert!(!answer.contains('\x1b'), "{answer}");
    chat.send("\x15\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

/// A document and a question that is asked while it is read: the progress is above the line.
#[test]
fn what_is_typed_is_seen_while_a_question_waits_for_its_document() {
    let document = super::reading::long_document("answering-document.txt");
    let mut chat = Terminal::chat("answering-document", &["-f", &document, "-t", "1", "--policy", "full"]);
    chat.send("What is Mary's favorite number?\r");
    chat.wait_for("reading [");
    chat.send("What is the pass key?");
    chat.wait_for_row("> What is the pass key?|");
    chat.send("\r");
    chat.wait_for(NUMBER_IS);
    chat.wait_for(KEY_IS);
    chat.wait_for_prompt();
    assert!(!chat.contents().contains("reading ["), "{}", chat.contents());
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn words_that_quit_other_programs_quit() {
    for word in ["exit", "quit", ":q", "/bye", "/quit"] {
        let mut chat = Terminal::chat("farewell", &[]);
        chat.wait_for_prompt();
        chat.send(&format!("{word}\r"));
        assert_eq!(chat.exit_code(), Some(0), "{word}");
        assert!(chat.is_as_before());
    }
}

#[test]
fn a_dropped_file_is_read_and_a_mentioned_one_too() {
    let folder = scratch("keys-dropped");
    let path = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    fs::write(path("my numbers.txt"), DOCUMENT).expect("a file");
    fs::write(path("keys.txt"), "The gardens are green. The pass key is 9078648. The boat sleeps.")
        .expect("a file");
    fs::write(path("number"), "x").expect("a file");
    let mut chat =
        Terminal::chat_again("dropped", &["-c", "4000"], |command| _ = command.current_dir(&folder));
    chat.wait_for_prompt();
    // As terminals insert it: quoted, or for a shell.
    chat.paste(&format!("'{}' ", path("my numbers.txt")));
    chat.send("\r");
    chat.wait_for("read my numbers.txt: ");
    chat.wait_for_prompt();
    chat.send("/files drop\r");
    chat.wait_for("gave up my numbers.txt");
    chat.send(&format!("\x0c{}\r", path("my numbers.txt").replace(' ', "\\ ")));
    // What took long to read is found on the disk, and not read again.
    chat.wait_for("my numbers.txt: 54 tokens");
    chat.wait_for_prompt();
    chat.send("What is Mary's favorite number?\r");
    chat.wait_for(NUMBER_IS);
    chat.wait_for_prompt();
    chat.send("@keys.txt What is the pass key?\r");
    chat.wait_for("keys.txt: ");
    chat.wait_for(KEY_IS);
    chat.wait_for_prompt();
    // A word that is also the name of a file is a word.
    chat.send("\x0cnumber\r");
    chat.wait_for("note: number is there, but is not read; /read number reads it");
    chat.wait_for_prompt();
    chat.send("/files\r");
    chat.wait_for("> /files\nmy numbers.txt\nkeys.txt\n");
    chat.send("/tmp\r");
    chat.wait_for("there is no command /tmp");
    chat.send("/exit\r");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn a_question_about_a_document_that_cannot_be_read_is_not_asked() {
    let broken = file("keys-broken.pdf", "%PDF-1.4\nnothing");
    let mut chat = Terminal::chat("broken-mention", &[]);
    chat.wait_for_prompt();
    chat.send(&format!("@{broken} why?\r"));
    chat.wait_for("the question was not asked");
    chat.wait_until("the question to be changed", |screen| screen.contents().trim_end().ends_with("why?"));
    chat.send("\x03/stats\r");
    chat.wait_for("tokens    0 of");
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}

#[test]
fn lists_and_notes_fit_a_narrow_terminal() {
    let chat = Terminal::chat("narrow", &[]);
    chat.wait_for_prompt();
    chat.resize(30);
    let lists = [
        ("/help", "takes it back."),
        ("/stats", "answered"),
        ("/model", "OWNER/REPOSITORY"),
        ("/kv", "nothing was read yet"),
        ("/set", "/set temp 0.8"),
    ];
    for (command, last) in lists {
        chat.send(&format!("\x0c{command}\r"));
        chat.wait_for(last);
        chat.wait_for_prompt();
    }
    // Between the bytes of words there is no line break of the terminal: every row ends in a written one.
    let bytes = chat.bytes();
    let help =
        bytes.split_once("Conversation\r\n").expect("help").1.split_once("takes it").expect("its end").0;
    for row in help.split("\r\n") {
        assert!(row.chars().count() <= 30, "{row:?}");
    }
}

#[test]
fn ctrl_c_leaves_the_conversation_and_its_model() {
    // Long enough that Ctrl-C comes while it is read again.
    let document = file("keys-left.txt", DOCUMENT.repeat(40));
    let model = talking_model("keys-other.gguf", &["I am", " another one."], None);
    let mut chat = Terminal::chat("left", &["-f", &document]);
    chat.wait_for_prompt();
    for (question, answer) in
        [("What is the pass key?", KEY_IS), ("What is Mary's favorite number?", NUMBER_IS)]
    {
        chat.send(&format!("{question}\r"));
        chat.wait_for(answer);
        chat.wait_for_prompt();
    }
    for (number, command) in ["/compact", &format!("/model {model}")].iter().enumerate() {
        chat.send(&format!("{command}\r\x03"));
        chat.wait_until("nothing changed", |screen| {
            screen.contents().matches("interrupted: nothing has changed\n").count() == number + 1
        });
        chat.wait_for_prompt();
    }
    chat.send("\x0c/history\r/model\r");
    chat.wait_for("file      built in");
    chat.wait_for_prompt();
    let shown = chat.contents();
    assert!(shown.contains(&format!("> What is the pass key?\n{KEY_IS}\n")), "{shown}");
    assert!(shown.contains(NUMBER_IS) && !shown.contains("talked about"), "{shown}");
    chat.send("\x0cWhat is the pass key?\r");
    chat.wait_for(KEY_IS);
    chat.send("\x04");
    assert_eq!(chat.exit_code(), Some(0));
}
