//! Characters that are invisible or change the direction of text: what the program quotes shows them as escapes.

use models::gguf::GgufFile;
use models::gguf::write::MetaValue;

use crate::common::{Run, changed_model, file, longhand, longhand_with_input};

/// One character of each kind.
const INVISIBLE: &str = "\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180b}\u{180e}\u{200b}\u{200d}\u{200e}\u{200f}\u{2028}\u{202a}\u{202e}\
    \u{2060}\u{2064}\u{2066}\u{2069}\u{206f}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{fffb}\u{1d173}\u{e0001}\u{e0041}\u{e007f}\u{e0100}";

/// Checks that an output has escapes for all these characters, or no character of them at all.
#[track_caller]
fn assert_shown(output: &str, expected: usize) {
    for c in INVISIBLE.chars() {
        assert!(!output.contains(c), "U+{:04X} is in {output:?}", u32::from(c));
        let escape = c.escape_unicode().to_string();
        let shown = output.matches(&escape).count();
        assert!(shown >= expected, "{escape} is {shown} times in {output}");
    }
}

#[track_caller]
fn assert_error_shows(run: Run) {
    assert!(run.code.is_some_and(|code| code != 0) && run.stderr.contains("error: "), "{}", run.stderr);
    assert!(run.stdout.is_empty(), "{}", run.stdout);
    assert_shown(&run.stderr, 1);
}

/// A model with invisible characters in its name, in a key and its value, and in an array.
fn model(name: &str) -> String {
    changed_model(name, |file| {
        file.set("general.name", format!("a{INVISIBLE}z").as_str());
        file.set(format!("general.key{INVISIBLE}"), format!("value{INVISIBLE}").as_str());
        file.set("general.tags", MetaValue::strings([INVISIBLE]));
    })
}

#[test]
fn inspect_shows_keys_values_and_the_name_of_the_file() {
    let path = model(&format!("file{}.gguf", &INVISIBLE[..30]));
    let out = longhand(&["inspect", &path]).ok();
    // The name, the key, its value, and the array; long values are cut.
    assert_shown(&out, 1);
    assert!(out.contains("general.key\\u{ad}\\u{34f}") && out.contains("\"value\\u{ad}\\u{34f}"), "{out}");
    assert!(out.starts_with('/') && out.contains("/file\\u{ad}\\u{34f}"), "{out}");
    // In JSON the data are the same, written with JSON's escapes.
    let text = longhand(&["inspect", "--json", &path]).ok();
    assert!(!text.contains(|c| INVISIBLE.contains(c)), "{text}");
    let object: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(object["metadata"]["general.name"], format!("a{INVISIBLE}z"));
    assert_eq!(object["metadata"][format!("general.key{INVISIBLE}")], format!("value{INVISIBLE}"));
    assert_eq!(object["file"], path);
}

#[test]
fn the_name_of_a_model_is_escaped_in_reports_and_notes() {
    let path = model("named.gguf");
    assert_shown(&longhand(&["plan", &path]).ok(), 1);
    assert_shown(&longhand(&["heads", "calibrate", &path, "--period", "100"]).ok(), 1);
    assert_shown(&longhand(&["chat", &path]).stderr, 1);
}

#[test]
fn errors_of_a_model_escape_what_they_quote() {
    let key = |name: &str| format!("tokenizer.{name}");
    let raises = format!("{{{{ raise_exception('Never{INVISIBLE}!') }}}}");
    for model in [
        changed_model("inv-arch.gguf", |file| _ = file.set("general.architecture", INVISIBLE)),
        changed_model("inv-tokenizer.gguf", |file| _ = file.set(key("ggml.model"), INVISIBLE)),
        changed_model("inv-pre.gguf", |file| _ = file.set(key("ggml.pre"), INVISIBLE)),
        changed_model("inv-template.gguf", |file| _ = file.set(key("chat_template"), raises.as_str())),
    ] {
        let run = longhand(&["ask", "-m", &model, "Why?"]);
        assert!(!run.stderr.contains(|c| INVISIBLE.contains(c)), "{}", run.stderr);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!(run.stderr.contains("\\u{ad}"), "{}", run.stderr);
    }
    let tensor = changed_model("inv-tensor.gguf", |file| {
        file.tensors_mut()[0].name = INVISIBLE.chars().filter(|c| u32::from(*c) < 0x2000).collect();
    });
    let run = longhand(&["ask", "-m", &tensor, "Why?"]);
    assert!(!run.stderr.contains(|c| INVISIBLE.contains(c)), "{}", run.stderr);
    assert!(longhand(&["inspect", &tensor]).ok().contains("\\u{ad}\\u{34f}\\u{61c}\\u{115f}"));
}

#[test]
fn errors_escape_arguments_and_names_of_files() {
    let missing = format!("no/such/{INVISIBLE}.gguf");
    for args in [
        &["ask", "--policy", INVISIBLE, "Why?"][..],
        &["ask", "--policy", &format!("razor:{INVISIBLE}=1"), "Why?"],
        &["ask", "-m", &missing, "Why?"],
        &["ask", "-f", &missing, "Why?"],
        &["ask", "-c", INVISIBLE, "Why?"],
        &["ask", "--heads", &missing, "--policy", "razor", "Why?"],
        &["chat", "--session", &format!("{missing}/x")],
        &["inspect", &missing],
        &["tokenize", &missing, "-p", "x"],
        &["logits", "--tokens", "1", "--out", &missing],
        &["logits", "--tokens", INVISIBLE, "--out", "x.npy"],
        &["plan", "--shape", INVISIBLE],
        &["heads", "show", "--heads", &missing],
        &["heads", "import", &missing],
        &["recall", "--policy", INVISIBLE],
        &["demo", "--kinds", INVISIBLE],
        &[INVISIBLE],
        &[&format!("--{INVISIBLE}")],
    ] {
        println!("{args:?}");
        assert_error_shows(longhand(args));
    }
}

#[test]
fn errors_escape_what_files_contain() {
    let profile = file("inv-heads.json", format!("{{\"format\": \"{INVISIBLE}\", \"version\": 1}}"));
    let run = longhand(&["heads", "show", "--heads", &profile]);
    assert!(
        run.stderr.contains("\\u{ad}") && !run.stderr.contains(|c| INVISIBLE.contains(c)),
        "{}",
        run.stderr
    );
    // What stands before the line separator is one word.
    let run = longhand_with_input(&["chat"], format!("/{INVISIBLE}\n").as_bytes());
    assert!(run.stderr.contains("no command /\\u{ad}\\u{34f}"), "{}", run.stderr);
    assert!(!run.stderr.contains(|c| INVISIBLE.contains(c)), "{}", run.stderr);
}

/// Documents and answers keep their characters.
#[test]
fn answers_keep_their_characters() {
    let needle = GgufFile::from_bytes(models::embedded::needle()).expect("the embedded model");
    let tokens = needle.strings("tokenizer.ggml.tokens").expect("strings").expect("tokens");
    let tokens = (0..tokens.len()).map(|i| match i {
        // U+200D as the vocabulary writes its bytes. With weights of zero the model generates this token only.
        0 => "\u{e2}\u{122}\u{12f}".as_bytes().to_vec(),
        _ => tokens.get(i).unwrap_or_default().to_vec(),
    });
    let tokens: Vec<Vec<u8>> = tokens.collect();
    let model = changed_model("inv-answer.gguf", |file| {
        file.set("tokenizer.ggml.tokens", MetaValue::strings(tokens));
    });
    assert_eq!(longhand(&["ask", "-m", &model, "-n", "2", "Why?"]).ok(), "\u{200d}\u{200d}\n");
    let object = longhand(&["ask", "--json", "-m", &model, "-n", "2", "Why?"]).json();
    assert_eq!(object["answers"][0]["answer"], "\u{200d}\u{200d}");
}
