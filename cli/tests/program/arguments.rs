//! What arguments without a flag are, and what users of other programs type.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use crate::common::endless_model;
use crate::common::{DOCUMENT, Run, command, file, finished, longhand, longhand_with_input, scratch};

const QUESTION: &str = "What is the pass key?";
const ANSWER: &str = "The pass key is 9078648.\n";

/// A folder with a model, two documents and a folder of documents.
fn folder(name: &str) -> PathBuf {
    let folder = scratch("arguments").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("texts")).expect("a folder");
    let put = |name: &str, content: &[u8]| fs::write(folder.join(name), content).expect("a file");
    put("model.gguf", models::embedded::needle());
    put("book.txt", DOCUMENT.as_bytes());
    put("my notes.md", b"# Notes\n\nThe boat is old.\n");
    put("texts/key.txt", DOCUMENT.as_bytes());
    put("texts/other.txt", b"The small bird left the garden. The pass key is 11112.");
    put("texts/picture.png", b"\x89PNG\r\n\x1a\n\0\0");
    folder
}

fn run(folder: &Path, args: &[&str]) -> Run {
    finished(command(args).current_dir(folder).output().expect("the program starts"))
}

#[test]
fn documents_need_no_flag() {
    let folder = folder("documents");
    for args in [
        &["ask", "book.txt", QUESTION][..],
        &["ask", "model.gguf", "book.txt", "my notes.md", QUESTION],
        &["ask", "book.txt", "model.gguf", QUESTION],
        &["ask", QUESTION, "book.txt"],
        &["ask", "-p", QUESTION, "book.txt"],
        &["ask", "-m", "model.gguf", "./book.txt", QUESTION],
        &["ask", "texts/k*.txt", QUESTION],
        &["chat", "book.txt", "-p", QUESTION],
        &["chat", "model.gguf", "my notes.md", "book.txt", "-p", QUESTION],
        &["run", "model.gguf", "book.txt", "-p", QUESTION],
        &["book.txt", "-p", QUESTION],
        &["-q", "model.gguf", "book.txt", "-p", QUESTION],
        &["-m", "model.gguf", "-f", "book.txt", "-p", QUESTION],
        &["--file=book.txt", "-p", QUESTION],
        &["-m", "model.gguf", "-f", "book.txt", "-p", QUESTION, "-no-cnv"],
        &["-m", "model.gguf", "-st", "-p", QUESTION, "-f", "book.txt", "-ngl", "all"],
    ] {
        let run = run(&folder, args);
        assert_eq!(run.stdout, ANSWER, "{args:?}: {}", run.stderr);
        assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    }
    let whole = run(&folder, &["ask", "texts", QUESTION]);
    for part in
        ["texts: 2 files, ", "note: texts is a folder here and is read as a document; -p texts asks it"]
    {
        assert!(whole.stderr.contains(part), "{part}: {}", whole.stderr);
    }
    let piped = longhand_with_input(&["ask", "-", QUESTION], DOCUMENT.as_bytes());
    assert_eq!(piped.ok(), ANSWER);
    // What is piped in beside documents is not read: a script may call the program in a loop. That is said.
    let book = folder.join("book.txt");
    let beside = longhand_with_input(&["ask", book.to_str().expect("text"), QUESTION], b"other.txt\n");
    assert!(beside.stderr.contains("note: what is piped in is not read"), "{}", beside.stderr);
    let nothing = longhand_with_input(&["ask", book.to_str().expect("text"), QUESTION], b"");
    assert!(!nothing.stderr.contains("piped in"), "{}", nothing.stderr);
}

/// A path that does not exist is no question, and neither are models, web addresses and conversations.
#[test]
fn paths_that_do_not_exist_are_errors() {
    let folder = folder("missing");
    fs::write(folder.join("old.session"), "x").expect("a file");
    for (args, code, part, hint) in [
        (
            &["ask", "bok.txt", QUESTION][..],
            1,
            "bok.txt: No such file or folder",
            "did you mean `book.txt`? ",
        ),
        (&["ask", "x.pdf"], 1, "x.pdf: No such file or folder", "give it with -p"),
        (&["ask", "./nothing", QUESTION], 1, "./nothing: No such file", "check the path"),
        (&["ask", "model.gguf", "no/such.docx", QUESTION], 1, "no/such.docx: No such file", "check the path"),
        (&["ask", "my book.pdf", QUESTION], 1, "my book.pdf: No such file", "give it with -p"),
        (&["chat", "x.pdf"], 1, "x.pdf: No such file", "check the path"),
        (&["chat", "my book.pdf"], 1, "my book.pdf: No such file", "check the path"),
        (&["x.pdf"], 1, "x.pdf: No such file", "check the path"),
        (&["ask", "ftp://example.com/a.pdf", QUESTION], 2, "is an address that is not read", "give its path"),
        (
            &["chat", "https://huggingface.co/a/b"],
            2,
            "is an address that is not read",
            "-hf OWNER/REPOSITORY",
        ),
        (&["ask", "file:///books/a.pdf", QUESTION], 2, "is an address", "give its path: /books/a.pdf"),
        (&["ask", "old.session", QUESTION], 2, "is a saved conversation", "chat --session old.session"),
        (
            &["chat", "book.txt", QUESTION],
            2,
            "is neither a file nor",
            "longhand ask book.txt 'What is the pass key?'",
        ),
    ] {
        let run = run(&folder, args);
        assert!(run.stderr.contains(hint), "{args:?}: {}", run.stderr);
        run.assert_failed(code, part);
    }
    // A question may name a file that is given, and a note says where one is not.
    let named = run(&folder, &["ask", "book.txt", "What is the pass key in book.txt"]);
    assert!(!named.stderr.contains("which is not read"), "{}", named.stderr);
    let unread = run(&folder, &["ask", "-n", "1", "What is the pass key in book.txt?"]);
    assert!(
        unread.stderr.contains("note: the question names book.txt, which is not read"),
        "{}",
        unread.stderr
    );
}

#[test]
fn a_question_without_quotes_is_an_error() {
    for args in [
        &["ask", "Who", "is", "the", "narrator?"][..],
        &["ask", "-p", "Why?", "Who", "is", "the", "narrator?"],
        &["ask", "-m", "model.gguf", "Who", "is", "the", "narrator?"],
    ] {
        let run = longhand(args);
        assert!(
            run.stderr.contains("put it in quotes: \"Who is the narrator?\""),
            "{args:?}: {}",
            run.stderr
        );
        run.assert_failed(2, "the question is in several arguments: Who is the narrator?");
    }
    let apostrophe = longhand(&["ask", "Who's", "the", "narrator?"]);
    assert!(apostrophe.stderr.contains("\"Who's the narrator?\""), "{}", apostrophe.stderr);
    // A word before a question is no question, also where a model is given.
    let word = longhand(&["ask", "-m", "model.gguf", "report", QUESTION]);
    assert!(word.stderr.contains("if it is a question, give it with -p"), "{}", word.stderr);
    word.assert_failed(1, "report: No such file or folder");
    // Questions of one word are possible.
    for args in [
        &["ask", "--json", "-n", "1", "Why?", "How?"][..],
        &["ask", "--json", "-n", "1", "-p", "Why", "-p", "How"],
    ] {
        assert_eq!(longhand(args).json()["answers"].as_array().map(Vec::len), Some(2), "{args:?}");
    }
}

#[test]
fn ask_says_that_the_built_in_model_answers() {
    let document = file("arguments.txt", DOCUMENT);
    let run = longhand(&["ask", &document, QUESTION]);
    assert!(run.stderr.contains("No model is named, so the small built-in model answers."), "{}", run.stderr);
    assert!(run.stderr.contains("longhand ask MODEL FILE \"QUESTION\""), "{}", run.stderr);
    let model = file("arguments.gguf", models::embedded::needle());
    for args in [&["ask", &model, &document, QUESTION][..], &["ask", "-q", &document, QUESTION]] {
        assert!(!longhand(args).stderr.contains("built-in"), "{args:?}");
    }
}

/// Words of Ollama and llama.cpp do what they mean, or name what does.
#[test]
fn words_of_other_programs_are_understood() {
    let folder = folder("habits");
    for (args, part, hint) in [
        (&["server"][..], "'server'", "`longhand serve MODEL` answers other programs"),
        (&["pull", "qwen3:4b"], "'pull'", "longhand chat -hf OWNER/REPOSITORY:Q4_K_M"),
        (&["rm", "qwen3:4b"], "'rm'", "`longhand models --json` prints its path"),
        (&["ps"], "'ps'", "`longhand devices`"),
        (&["What is it"], "'What is it'", "longhand ask 'What is it'"),
        (
            &["run", "model.gguf", QUESTION],
            "neither a file",
            "longhand ask model.gguf 'What is the pass key?'",
        ),
        (&["chat", "-st", "model.gguf"], "--single-turn", "`longhand ask` answers and ends"),
        (&["chat", "-no-cnv", "model.gguf"], "--no-conversation", "`longhand ask` answers and ends"),
        (&["ask", "-hff", "x.gguf", QUESTION], "--hf-file", "-hf OWNER/REPOSITORY:FILE.gguf"),
        (
            &["ask", "--grammar=x", QUESTION],
            "--grammar",
            "`longhand ask` has --json-schema, and --grammar-file",
        ),
        (&["ask", "--mmproj", "x.gguf", QUESTION], "--mmproj", "text only"),
        (&["-m", "model.gguf", "--context-shift"], "--context-shift", "nothing is ever cut off"),
    ] {
        let run = run(&folder, args);
        let found = run.stderr.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_default();
        assert!(found.contains(hint), "{args:?}: {}", run.stderr);
        run.assert_failed(2, part);
    }
    // Unknown words are still those of clap.
    let typo = longhand(&["chta"]);
    assert!(typo.stderr.contains("similar subcommand exists: 'chat'"), "{}", typo.stderr);
    for args in [&["ls"][..], &["list"], &["models"]] {
        assert!(run(&folder, args).ok().contains("longhand chat -hf"), "{args:?}");
    }
    assert_eq!(run(&folder, &["show", "model.gguf"]).ok(), run(&folder, &["inspect", "model.gguf"]).ok());
    let flags = "-i -cnv --jinja -co -st -no-cnv -ngl all --no-display-prompt --no-warmup --no-context-shift --simple-io";
    let flags: Vec<&str> = flags.split(' ').collect();
    let accepted =
        run(&folder, &[&["ask"], &flags[..], &["-m", "model.gguf", "book.txt", QUESTION]].concat());
    for flag in
        ["-cnv and -i are", "--jinja is", "--color is", "-no-cnv and -st are", "--no-context-shift is"]
    {
        assert!(accepted.stderr.contains(&format!("note: {flag} not used: ")), "{flag}: {}", accepted.stderr);
    }
    assert_eq!(accepted.ok(), ANSWER);
}

#[test]
fn each_document_is_asked_about_on_its_own() {
    let folder = folder("each");
    let rows = run(&folder, &["ask", "--each", "texts", "book.txt", QUESTION, "Who is old?"]);
    assert!(rows.stderr.contains("texts: 1 binary left out"), "{}", rows.stderr);
    let text = rows.ok();
    let cells: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let names: Vec<&str> = cells.iter().map(|row| row[0]).collect();
    assert_eq!(names, ["texts/key.txt", "texts/other.txt", "book.txt"], "{text}");
    assert!(cells.iter().all(|row| row.len() == 3), "{text}");
    assert_eq!((cells[0][1], cells[2][1]), (ANSWER.trim_end(), ANSWER.trim_end()));

    // One that cannot be read does not stop the others.
    let args = ["ask", "--each", "--json", "no/such.pdf", "texts/*", QUESTION];
    let mut objects = run(&folder, &args);
    let text = std::mem::take(&mut objects.stdout);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object on a line")).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0]["document"], "no/such.pdf");
    assert!(lines[0]["error"].as_str().is_some_and(|error| error.contains("No such file")), "{text}");
    assert_eq!(
        (&lines[1]["document"], &lines[1]["answers"][0]["answer"]),
        (&"texts/key.txt".into(), &ANSWER.trim_end().into())
    );
    assert!(lines[2]["kv_bytes_kept"].as_u64() > Some(0) && lines[2]["document_tokens"].as_u64() > Some(5));
    objects.assert_failed(1, "1 of 3 documents could not be read or answered");

    // Nor does one that does not fit the context.
    fs::write(folder.join("long.txt"), DOCUMENT.repeat(20)).expect("a file");
    let mut small = run(&folder, &["ask", "--each", "-c", "300", "long.txt", "book.txt", QUESTION]);
    assert_eq!(std::mem::take(&mut small.stdout), format!("book.txt\t{ANSWER}"));
    small.assert_failed(1, "error: long.txt: the first turn");
    run(&folder, &["ask", "--each", QUESTION]).assert_failed(2, "--each is given, but no document");
}

#[cfg(unix)]
#[test]
fn what_was_printed_of_each_document_stays_after_an_interrupt() {
    let (model, document) = (endless_model("endless-each.gguf"), file("each.txt", DOCUMENT));
    let mut args = vec!["ask", "--each", "--json", "-m", &*model, "-n", "200"];
    args.extend([&*document; 400]);
    args.push(QUESTION);
    let mut ask = crate::common::Running::start(&args);
    ask.wait_for("\n");
    ask.interrupt();
    let run = ask.finish();
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    let whole =
        run.stdout.lines().filter(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()).count();
    assert!((1..400).contains(&whole) && whole == run.stdout.lines().count(), "{}", run.stdout);
    assert!(
        run.stderr.contains(&format!("error: interrupted; {whole} documents were answered")),
        "{}",
        run.stderr
    );
}

#[test]
fn prompts_are_saved_by_name() {
    let config = scratch("arguments-config");
    fs::create_dir_all(config.join("longhand/prompts")).expect("a folder");
    fs::write(config.join("longhand/prompts/key.txt"), format!("{QUESTION}\n")).expect("a prompt");
    let document = file("prompts.txt", DOCUMENT);
    let run = |args: &[&str]| {
        finished(command(args).env("XDG_CONFIG_HOME", &config).output().expect("the program starts"))
    };
    assert_eq!(run(&["ask", &document, "--prompt-name", "key"]).ok(), ANSWER);
    assert_eq!(run(&["chat", &document, "--prompt-name", "key"]).ok(), ANSWER);
    let both =
        run(&["ask", "--json", &document, "--prompt-name", "key", "-p", "Who?", "Why is it so?"]).json();
    let asked = |number: usize| both["answers"][number]["question"].as_str();
    assert_eq!([asked(0), asked(1), asked(2)], [Some("Who?"), Some(QUESTION), Some("Why is it so?")]);
    assert!(run(&["config"]).ok().contains("\nsaved prompts, for --prompt-name: key\n"));
    assert_eq!(run(&["config", "--json"]).json()["prompts"][0], "key");
    for command in ["ask", "chat"] {
        let wrong = run(&[command, &document, "--prompt-name", "keyy"]);
        assert!(
            wrong.stderr.contains("hint: did you mean `key`? use one of key; or write one to "),
            "{}",
            wrong.stderr
        );
        wrong.assert_failed(2, "there is no saved prompt named keyy");
    }
}

/// Whoever may write to the folder could write what is asked.
#[cfg(unix)]
#[test]
fn prompts_of_a_folder_that_others_may_write_to_are_not_asked() {
    use std::os::unix::fs::PermissionsExt as _;

    let config = scratch("arguments-open-config");
    let folder = config.join("longhand/prompts");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("key.txt"), QUESTION).expect("a prompt");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("permissions");
    let document = file("open-prompts.txt", DOCUMENT);
    let run = |args: &[&str]| {
        finished(command(args).env("XDG_CONFIG_HOME", &config).output().expect("the program starts"))
    };
    for command in ["ask", "chat"] {
        run(&[command, &document, "--prompt-name", "key"])
            .assert_failed(1, "saved prompts cannot be used: other users may write to the folder ");
    }
    assert!(!run(&["config"]).ok().contains("saved prompts"));
}

#[test]
fn bench_prints_json_either_way() {
    for flags in [&["--json"][..], &["-o", "json"]] {
        let run = longhand(&[&["bench", "-p", "8", "-n", "0", "-r", "1"], flags].concat());
        assert_eq!(run.json()[0]["n_prompt"], 8, "{flags:?}");
    }
}
