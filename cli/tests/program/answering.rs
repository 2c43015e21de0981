//! What reaches the model, how answers are sampled, and what is said about answers that are incomplete.

use models::gguf::GgufFile;
use models::gguf::write::{GgufWriter, MetaValue};

use crate::common::{
    ANSWER_LIMIT, DOCUMENT, NUMBER, NUMBER_IS, Run, changed_model, command, endless_model, file, longhand,
    longhand_with_input, scratch, talking_model, with_input,
};

const CHAT_ML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

/// Runs the program with its own limit of answers.
fn with_default_limit(args: &[&str], input: &str) -> Run {
    with_input(command(args).env_remove(ANSWER_LIMIT), input.as_bytes())
}

/// The embedded model with its weights and other metadata. Returns its path.
fn with_metadata(name: &str, change: impl FnOnce(&mut GgufWriter)) -> String {
    let needle = GgufFile::from_bytes(models::embedded::needle()).expect("the embedded model");
    let mut writer = GgufWriter::with_metadata_of(&needle);
    writer.tensors_of(&needle);
    change(&mut writer);
    file(name, writer.to_bytes_with_data_of(&needle).expect("a file in memory"))
}

fn with_template(name: &str, template: &str) -> String {
    with_metadata(name, |writer| _ = writer.set("tokenizer.chat_template", template))
}

/// A chat that gets these lines.
fn chat(args: &[&str], lines: &[&str]) -> Run {
    longhand_with_input(&[&["chat", "--private"], args].concat(), (lines.join("\n") + "\n").as_bytes())
}

/// The value of a setting and why it is in force, from what `/set` has printed.
fn setting<'a>(out: &'a str, name: &str) -> [&'a str; 2] {
    let line = out.lines().rfind(|line| line.starts_with(&format!("{name} "))).expect(name);
    let mut words = line.split_whitespace().skip(1);
    [words.next().expect("a value"), words.next().expect("a reason")]
}

#[test]
fn a_template_that_wants_parts_gets_them() {
    let parts = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}{% for c in message['content'] %}{% if c['type'] == 'text' %}{{ c['text'] }}{% endif %}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}";
    let document = file("parts.txt", DOCUMENT);
    let args = ["-f", &document, "-n", "20"];
    for (name, template) in [
        ("parts-loop.gguf", parts),
        ("parts-index.gguf", &CHAT_ML.replace("m.content", "m.content[0]['text']")),
    ] {
        let model = with_template(name, template);
        let answer = longhand(&[&["ask", "-m", &model], &args[..], &[NUMBER, NUMBER]].concat()).ok();
        assert_eq!(answer, format!("{NUMBER_IS}\n{NUMBER_IS}\n"), "{name}");
    }
}

#[test]
fn a_message_that_the_template_loses_is_an_error() {
    let document = file("lost.txt", DOCUMENT);
    for (name, content, part) in [
        ("lost-cut.gguf", "m.content[:100]", "cuts or changes question 1 (with its documents)"),
        ("lost-upper.gguf", "m.content | upper", "cuts or changes question 1"),
        ("lost-none.gguf", "''", "leaves out question 1"),
        ("lost-twice.gguf", "m.content ~ m.content", "repeats question 1"),
    ] {
        let model = with_template(name, &CHAT_ML.replace("m.content", content));
        longhand(&["ask", "-m", &model, "-f", &document, NUMBER]).assert_failed(1, part);
    }
    let model =
        with_template("lost-user.gguf", &CHAT_ML.replace("m.content", "m.content if m.role == 'user'"));
    longhand(&["ask", "-m", &model, "-sys", "Be brief.", NUMBER]).assert_failed(1, "the system message");
    // A template that keeps the last messages only.
    let model = with_template("lost-last.gguf", &CHAT_ML.replace("in messages", "in messages[-2:]"));
    let run = longhand(&["ask", "-m", &model, "-n", "4", "-f", &document, NUMBER, NUMBER]);
    assert!(run.stderr.contains("leaves out question 1") && run.code == Some(1), "{}", run.stderr);
}

#[test]
fn a_model_without_a_template_is_probably_a_base_model() {
    let without = |writer: &mut GgufWriter| _ = writer.set("tokenizer.chat_template", "");
    let model = changed_model("base.gguf", without);
    for args in [&["ask", "-m", &model, "-n", "1", "Why?"][..], &["chat", "-m", &model, "--private"]] {
        let run = longhand(args);
        let note = "note: the model file has no chat template. It is probably a base model";
        assert!(run.stderr.contains(note) && run.stderr.contains("ChatML"), "{}", run.stderr);
    }
    let run = longhand(&["ask", "-n", "1", "Why?"]);
    assert!(!run.stderr.contains("template"), "{}", run.stderr);
}

#[test]
fn answers_about_documents_are_greedy_by_default() {
    let model = with_template("temperature.gguf", CHAT_ML);
    let document = file("temperature.txt", DOCUMENT);
    let read = format!("/read {document}");
    let temperature = |args: &[&str], lines: &[&str]| {
        let out = chat(&[&["-m", &model], args].concat(), &[lines, &["/set"]].concat()).ok();
        setting(&out, "temp").map(str::to_owned)
    };
    assert_eq!(temperature(&[], &[]), ["0.8", "default"]);
    assert_eq!(temperature(&["-f", &document], &[]), ["0", "documents"]);
    assert_eq!(temperature(&["-f", &document, "--temp", "0.3"], &[]), ["0.3", "given"]);
    assert_eq!(temperature(&[], &[&read]), ["0", "documents"]);
    assert_eq!(temperature(&[], &[&read, "/files drop"]), ["0.8", "default"]);
    assert_eq!(temperature(&["--temp", "0.3"], &[&read]), ["0.3", "given"]);
    assert_eq!(temperature(&[], &["/set temp 0.5", &read]), ["0.5", "given"]);
    let run = chat(&["-m", &model], &[&read]);
    let note = "answers are sampled with temp 0 (documents) now, not with temp 0.8 (default)";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    // The built-in model is always greedy.
    assert_eq!(setting(&chat(&[], &["/set"]).ok(), "temp"), ["0", "built-in"]);
}

#[test]
fn the_model_file_recommends_how_to_sample() {
    let model = with_metadata("recommends.gguf", |writer| {
        writer.set("general.sampling.temp", 0.6f32);
        writer.set("general.sampling.top_k", MetaValue::I32(20));
        writer.set("general.sampling.top_p", 0.9f32);
        writer.set("general.sampling.min_p", -3.0f32);
        writer.set("general.sampling.penalty_repeat", 1.1f32);
        writer.set("general.sampling.penalty_last_n", MetaValue::I32(-1));
        writer.set("general.sampling.mirostat", MetaValue::I32(2));
    });
    let document = file("recommends.txt", DOCUMENT);
    let run = chat(&["-m", &model, "--top-p", "0.7"], &["/set"]);
    run.says(&[
        "note: general.sampling.min_p of the model file is not used: min-p is -3, but must be between 0 and 1",
        "note: general.sampling.mirostat of the model file is not used",
        "temp 0.6, top-k 20, repeat-penalty 1.1, repeat-last-n -1",
    ]);
    let out = run.ok();
    let all = ["temp", "top-k", "top-p", "min-p", "repeat-penalty", "repeat-last-n"]
        .map(|name| setting(&out, name)[0]);
    assert_eq!(all, ["0.6", "20", "0.7", "0.05", "1.1", "-1"]);
    assert!(out.contains("0.6        model file") && out.contains("0.7        given"), "{out}");
    let out = chat(&["-m", &model, "-f", &document], &["/set"]).ok();
    assert_eq!(setting(&out, "temp"), ["0", "documents"]);
    assert_eq!(setting(&out, "repeat-penalty"), ["1", "documents"]);
    // Values of any type and size are no error.
    let odd = with_metadata("odd.gguf", |writer| {
        writer.set("general.sampling.temp", f32::NAN);
        writer.set("general.sampling.top_k", "many");
        writer.set("general.sampling.penalty_last_n", MetaValue::I64(-7));
        writer.set("general.sampling.top_p", MetaValue::U64(1));
    });
    let run = chat(&["-m", &odd], &["/set"]);
    assert_eq!(run.stderr.matches(" of the model file is not used: ").count(), 3, "{}", run.stderr);
    let out = run.ok();
    assert_eq!(["temp", "top-k", "top-p"].map(|name| setting(&out, name)[0]), ["0.8", "40", "1"]);
}

#[test]
fn a_resumed_conversation_is_sampled_as_before() {
    let model = with_template("resumed-temp.gguf", CHAT_ML);
    let document = file("resumed-temp.txt", DOCUMENT);
    let folder = scratch("resumed-temp");
    let resumed = |name: &str, first: &[&str], lines: &[&str], again: &[&str]| {
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        let session = ["chat", "-m", &model, "-n", "3", "--session", path.to_str().expect("text")];
        let input = lines.join("\n") + "\n";
        longhand_with_input(&[&session, first].concat(), input.as_bytes()).ok();
        let out = longhand_with_input(&[&session, again].concat(), b"/set\n").ok();
        setting(&out, "temp").map(str::to_owned)
    };
    assert_eq!(resumed("documents", &["-f", &document], &[NUMBER], &[]), ["0", "documents"]);
    assert_eq!(resumed("none", &[], &["Hi"], &[]), ["0.8", "default"]);
    assert_eq!(resumed("given", &["--temp", "0.3"], &["Hi"], &[]), ["0.3", "given"]);
    assert_eq!(resumed("set", &["-f", &document], &[NUMBER, "/set temp 0.4"], &[]), ["0.4", "given"]);
    assert_eq!(resumed("changed", &["--temp", "0.3"], &["Hi"], &["--temp", "0.2"]), ["0.2", "given"]);
    let read = format!("/read {document}");
    assert_eq!(resumed("later", &[], &["Hi", &read, NUMBER], &[]), ["0", "documents"]);
}

#[test]
fn an_answer_that_is_cut_off_is_said_to_be() {
    let model = endless_model("cut-off.gguf");
    let ask = |args: &[&str]| longhand(&[&["ask", "-m", &model], args].concat());
    let run = ask(&["-n", "12", "Why?"]);
    assert!(run.stderr.contains("note: the answer was cut off after 12 tokens; -n "), "{}", run.stderr);
    assert_eq!(run.code, Some(0));
    let run = ask(&["-n", "12", "Why?", "How?"]);
    assert!(
        run.stderr.contains("note: question 2: the answer was cut off after 12 tokens"),
        "{}",
        run.stderr
    );
    let run = ask(&["-n", "-1", "-c", "40", "Why?"]);
    assert!(
        run.stderr.contains("the answer was cut off because the context of 40 tokens is full; -c"),
        "{}",
        run.stderr
    );
    for (args, stop, code) in [
        (&["-n", "12"][..], "length", 4),
        (&["-n", "-2", "-c", "40"], "context", 4),
        (&["-n", "0"], "length", 0),
    ] {
        let run = ask(&[args, &["--json", "Why?"]].concat());
        assert_eq!(run.code, Some(code), "{args:?}: {}", run.stderr);
        assert_eq!(run.json()["answers"][0]["stop"], stop);
    }
    // The default has room for answers, and the context for the default.
    let object = with_default_limit(&["ask", "-m", &model, "--json", "Why?"], "").json();
    assert_eq!(
        (&object["answers"][0]["tokens"], &object["answers"][0]["stop"]),
        (&2048.into(), &"length".into())
    );
    let run = chat(&["-m", &model, "-n", "12"], &["Why?"]);
    assert!(run.stderr.contains("(cut off after 12 tokens; /continue goes on"), "{}", run.stderr);
    // A complete answer is not.
    let run = longhand(&["ask", "-f", &file("complete.txt", DOCUMENT), NUMBER]);
    assert!(!run.stderr.contains("cut off"), "{}", run.stderr);
}

#[test]
fn thinking_that_takes_all_tokens_leaves_no_answer() {
    let model = talking_model("only-thinks.gguf", &["<think>", "Hm", ", well", "</think>", "Yes."], None);
    let ask = |n: &str| longhand(&["ask", "-m", &model, "-n", n, "Why?"]);
    let run = ask("3");
    let note = "note: there is no answer: the thinking before it was cut off after 3 tokens; -n";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    assert!(!ask("6").stderr.contains("cut off"));
    let run = chat(&["-m", &model, "-n", "3"], &["Why?"]);
    assert!(run.stderr.contains("(no answer yet: the thinking was cut off after 3 tokens"), "{}", run.stderr);
    // Its answers may be longer by default.
    for flags in [&[][..], &["--think", "hide"]] {
        let out = with_default_limit(&[&["chat", "--private", "-m", &model], flags].concat(), "/set\n").ok();
        assert_eq!(setting(&out, "n"), ["4096", "default"]);
    }
}

#[test]
fn negative_numbers_mean_what_they_mean_in_llama_cpp() {
    let given = |flags: &[&str], name: &str| {
        let out = chat(flags, &["/set"]).ok();
        setting(&out, name)[0].to_owned()
    };
    assert_eq!(given(&["--repeat-last-n", "-1"], "repeat-last-n"), "-1");
    assert_eq!(given(&["--repeat-last-n", "0"], "repeat-last-n"), "0");
    assert_eq!(given(&["--top-k", "-1"], "top-k"), "0");
    assert_eq!(given(&["--top-k=-3"], "top-k"), "0");
    assert_eq!(given(&["-n", "-1"], "n"), "-1");
    assert_eq!(given(&["-n", "-2"], "n"), "-1");
    assert_ne!(given(&["--seed", "-1"], "seed"), "-1");
    assert_eq!(given(&["-s", "5"], "seed"), "5");
    // A penalty on all tokens of a long text.
    let document = file("penalty.txt", DOCUMENT.repeat(20));
    let args = ["ask", "-f", &document, "--repeat-last-n", "-1", "--repeat-penalty", "1.0001", NUMBER];
    assert_eq!(longhand(&args).ok(), format!("{NUMBER_IS}\n"));
    for (flags, part) in [
        (["--repeat-last-n", "-2"], "--repeat-last-n -2: not a number of tokens"),
        (["-n", "-3"], "-n -3: not a number of tokens"),
        (["--presence-penalty", "inf"], "presence-penalty is inf, but must be finite"),
        (["--frequency-penalty", "nan"], "frequency-penalty is NaN, but must be finite"),
        (["--logit-bias", "15043"], "--logit-bias 15043: not a token and its bias"),
        (["--logit-bias", "x+1"], "--logit-bias x+1: not a token and its bias"),
        (["--logit-bias", "3+inf"], "logit-bias is inf, but must be finite, or -inf"),
        (["--temp", "nan"], "temperature is NaN, but must be 0 or more"),
        (["--temp", "inf"], "temperature is inf"),
    ] {
        longhand(&[&["ask"], &flags[..], &["Why?"]].concat()).assert_failed(2, part);
    }
    let out = chat(&[], &["/set repeat-last-n -1", "/set top-k -1", "/set n -2", "/set"]).ok();
    assert_eq!(["repeat-last-n", "top-k", "n"].map(|name| setting(&out, name)[0]), ["-1", "0", "-1"]);
}

#[test]
fn tokens_can_be_banned_and_penalised() {
    let document = file("banned.txt", DOCUMENT);
    let ids: Vec<u32> =
        serde_json::from_str(&longhand(&["tokenize", "-q", "-p", NUMBER_IS]).ok()).expect("an array");
    let banned: Vec<String> = ids[ids.len() / 2..].iter().map(|id| format!("{id}-inf")).collect();
    let out = longhand(&["ask", "-f", &document, "--logit-bias", &banned.join(","), NUMBER]).ok();
    assert!(out != format!("{NUMBER_IS}\n"), "{out}");
    let beyond = longhand(&["ask", "--logit-bias", "999999+1", NUMBER]);
    beyond.assert_failed(1, "logit-bias for token 999999: the model's tokens are 0 to 2047");
    // Each is a flag, a setting of a chat, and a part of what is kept.
    let flags = ["--presence-penalty", "-0.5", "--logit-bias", "5+1", "--logit-bias", "6-inf"];
    let out = chat(&flags, &["/set"]).ok();
    let all = ["presence-penalty", "frequency-penalty", "logit-bias"].map(|name| setting(&out, name)[0]);
    assert_eq!(all, ["-0.5", "0", "5+1,6-inf"]);
    let path = scratch("biased").join("session");
    let session = ["chat", "--session", path.to_str().expect("text")];
    let input = format!("/set frequency-penalty 0.25\n/set logit-bias 7-1.5\n{NUMBER}\n");
    longhand_with_input(&session, input.as_bytes()).ok();
    let out = longhand_with_input(&session, b"/set\n").ok();
    assert_eq!(["frequency-penalty", "logit-bias"].map(|name| setting(&out, name)[0]), ["0.25", "7-1.5"]);
    let out = chat(&[], &["/set logit-bias 7-1.5", "/set logit-bias off", "/set"]).ok();
    assert_eq!(setting(&out, "logit-bias")[0], "off");
}
