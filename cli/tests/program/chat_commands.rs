//! The commands of `chat` that show and change what the model has read: the KV cache, the policy, the settings, the
//! system message and the last question.

use crate::common::{
    DOCUMENT, KEY, KEY_IS, NUMBER, NUMBER_IS, Run, changed_model, file, longhand, longhand_with_input,
    scratch,
};

/// A chat about the document, with some text before and behind it.
fn chat(name: &str, flags: &[&str], lines: &[&str]) -> Run {
    let around = "The sun was warm. ".repeat(20);
    let document = file(&format!("{name}.txt"), format!("{around}{DOCUMENT}{around}"));
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    longhand_with_input(&[&["chat", "--private", "-f", &document], flags].concat(), input.as_bytes())
}

/// The lines of `/kv` that begin with a name.
fn values<'a>(out: &'a str, name: &str) -> Vec<&'a str> {
    out.lines().filter_map(|line| line.strip_prefix(name)).map(str::trim).collect()
}

#[test]
fn kv_maps_the_rows_of_all_heads() {
    let out = chat("kv", &["--policy", "razor:buffer=50,ratio=100,slack=0"], &["/kv", NUMBER, "/kv"]).ok();
    assert!(out.starts_with("the KV cache is empty: nothing was read yet\n"), "{out}");
    let map = out.split_once("(down)\n").expect("a map").1;
    let rows: Vec<&str> = map.lines().collect();
    assert_eq!(rows[0], "layer 0 1 2 3");
    let marks: Vec<&str> = rows[1..5].iter().flat_map(|row| row.split_whitespace().skip(1)).collect();
    let retrieval = marks.iter().filter(|mark| **mark == "@").count();
    assert!(marks.len() == 16 && retrieval > 0, "{out}");
    assert!(out.contains(&format!("@: {retrieval} retrieval heads keep all rows\n")), "{out}");
    let bounded = 16 - retrieval;
    assert!(out.contains(&format!(": {bounded} heads keep 5")), "{out}");
    let number = |text: &str| text.replace(',', "").parse::<usize>().expect("a number");
    let tokens = number(values(&out, "tokens")[0]);
    let kept = (retrieval * tokens) + bounded * 54;
    assert!(
        values(&out, "rows")[0].replace(',', "").starts_with(&format!("{kept} of {} ", 16 * tokens)),
        "{out}"
    );
    assert_eq!(
        number(values(&out, "evicted")[0].trim_end_matches(" rows")),
        bounded * (tokens - 54),
        "{out}"
    );
    assert_eq!(
        values(&out, "entries")[0].replace(',', ""),
        format!("{bounded} each the mean of {} rows", tokens - 54)
    );
}

#[test]
fn kv_says_what_other_types_and_policies_keep() {
    let flags = ["-ctk", "q8_0", "-ctv", "q8_0"];
    let out = chat("kv-full", &flags, &[NUMBER, "/kv", "/policy streaming:window=60,slack=0", "/kv"]).ok();
    let (full, bounded) =
        out.split_once("KV heads").expect("a map").1.split_once("KV heads").expect("two maps");
    assert!(full.contains("#: 16 heads keep all rows\n") && full.contains("evicted  nothing yet\n"), "{out}");
    assert!(full.contains("(100.0 %)\n         all rows in f16: "), "{out}");
    assert!(bounded.contains(": 16 heads keep 64 rows") && bounded.contains("entries  none"), "{out}");
}

#[test]
fn kv_shows_where_the_rows_of_a_head_lie() {
    let lines = [NUMBER, "/kv 2.1", "/policy snapkv:window=8,capacity=40", "/kv 3.3"];
    let out = chat("kv-head", &[], &lines).ok();
    let (full, bounded) = out.split_once("layer 3, KV head 3").expect("two heads");
    assert!(full.contains("layer 2, KV head 1 (both from 0): keeps all rows\n"), "{out}");
    assert!(full.contains("########\n0   ") && !full.contains("spans"), "{out}");
    assert!(bounded.starts_with(" (both from 0): a bounded head\nrows     40 of "), "{out}");
    assert!(bounded.contains("\nwindow   ") && bounded.contains("\nothers   "), "{out}");
    let spans = bounded.split_once("what is kept in []\n").expect("spans").1;
    assert!((1..=6).contains(&spans.lines().count()), "{out}");
    let of_text = |line: &str| {
        let (position, words) = line.trim_start().split_once(' ').expect("a position");
        position.replace(',', "").parse::<usize>().is_ok() && words.contains('[') && words.contains(']')
    };
    assert!(spans.lines().all(of_text), "{out}");
    // Each character stands for as many tokens.
    let strip = bounded.lines().skip_while(|line| !line.is_empty()).nth(1).expect("a strip");
    assert!(strip.len() <= 80 && strip.chars().all(|c| c == '.' || c == '#' || c.is_ascii_digit()), "{out}");
}

#[test]
fn heads_that_do_not_exist_are_errors() {
    let heads = ["4.0", "0.4", "1", "1.2.3", "-1.0", "1.x", "99999999999999999999.0"];
    let lines: Vec<String> = heads.iter().map(|head| format!("/kv {head}")).collect();
    let run = chat("kv-none", &[], &lines.iter().map(String::as_str).collect::<Vec<_>>());
    for head in heads {
        assert!(run.stderr.contains(&format!("error: there is no head {head}\n")), "{head}: {}", run.stderr);
    }
    let hint = "hint: give a layer from 0 to 3 and a KV head from 0 to 3, for example /kv 2.0\n";
    assert_eq!(run.stderr.matches(hint).count(), heads.len(), "{}", run.stderr);
    assert_eq!(run.ok(), "");
}

#[test]
fn heads_are_shown_as_longhand_heads_shows_them() {
    let shown = longhand(&["heads", "show"]).ok();
    let out = chat("heads", &["--policy", "razor"], &["/heads"]).ok();
    let numbers = out.strip_prefix(&shown).expect("the same picture");
    let numbers = numbers.trim_end().strip_prefix("by layer, from 0: ").expect("the layers");
    let sum: usize = numbers.split(' ').map(|number| number.parse::<usize>().expect("a number")).sum();
    assert!(shown.contains(&format!("\n{sum} of 16 KV heads keep everything")), "{shown}{out}");
    let out = chat("no-heads", &[], &["/heads", "/policy tova", "/heads"]).ok();
    assert!(out.contains("the policy full uses no retrieval heads: every head keeps every row\n"), "{out}");
    assert!(out.contains("tova:capacity=1024 uses no retrieval heads: it treats all heads alike\n"), "{out}");
}

#[test]
fn the_policy_is_shown_with_its_parameters() {
    let flags = ["--policy", "snapkv:capacity=200", "-ctk", "q8_0", "--prefill", "streaming", "-c", "4000"];
    let out = chat("policy", &flags, &["/policy", "/policy full", "/policy"]).ok();
    for part in [
        "policy   snapkv:window=32,capacity=200\n",
        "         capacity=200: ",
        "         heads=off: ",
        "budget   200 rows of a bounded head, and up to ",
        "types    q8_0 keys, f16 values\n",
        "prefill  streaming\n",
        "under another one: full, streaming,",
        "policy   full\nbudget   none: every head keeps every row\ntypes    q8_0 keys, f16 values\n",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[test]
fn a_conversation_goes_on_under_another_policy() {
    let lines = [
        NUMBER,
        "/policy razor:buffer=60,ratio=100",
        KEY,
        "/policy h2o 40%",
        "/undo",
        KEY,
        "/policy full",
        NUMBER,
    ];
    let run = chat("change", &[], &lines);
    for part in [
        "the policy is razor:buffer=60,ratio=100,sinks=4 now",
        "the policy is h2o:heavy=",
        "the policy is full now",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    assert_eq!(run.stderr.matches("\nreading the conversation again: ").count(), 3, "{}", run.stderr);
    assert_eq!(run.ok(), format!("{NUMBER_IS}\n{KEY_IS}\n{KEY_IS}\n{NUMBER_IS}\n"));
}

#[test]
fn a_conversation_is_kept_with_its_new_policy_and_system_message() {
    let session = scratch("files").join("changed.session");
    let _ = std::fs::remove_file(&session);
    let document = file("changed.txt", DOCUMENT);
    let flags = ["chat", "--session", session.to_str().expect("text")];
    let input = format!("{NUMBER}\n/policy tova:capacity=400\n/system Be kind.\n");
    assert_eq!(
        longhand_with_input(&[&flags[..], &["-f", &document]].concat(), input.as_bytes()).ok(),
        format!("{NUMBER_IS}\n")
    );
    let resumed = longhand_with_input(&flags, format!("/system\n{KEY}\n/edit {NUMBER}\n").as_bytes());
    assert!(resumed.stderr.contains(", policy tova:capacity=400, "), "{}", resumed.stderr);
    assert_eq!(resumed.ok(), format!("Be kind.\n{KEY_IS}\n{NUMBER_IS}\n"));
    // Without a question there is nothing to keep.
    let run = longhand_with_input(&["chat"], b"/policy tova\n/system Be kind.\n");
    assert!(run.stderr.contains("the policy is tova") && !run.stderr.contains("kept: "), "{}", run.stderr);
}

#[test]
fn policies_that_cannot_be_used_change_nothing() {
    let lines = [
        "/policy rasor",
        "/policy streaming:windo=3",
        "/policy streaming 2",
        "/policy full 50%",
        "/policy full",
        NUMBER,
        "/stats",
    ];
    let run = chat("no-policy", &[], &lines);
    run.says(&[
        "there is no such policy\nhint: did you mean `razor`? ",
        "it has no parameter `windo`\nhint: did you mean `window`? ",
        "not a budget: 2 what?\nhint: ",
        "no budget can be set\nhint: ",
        "error: the policy is full already\n",
    ]);
    let out = run.ok();
    assert!(out.starts_with(NUMBER_IS) && out.contains("(100.0 %)"), "{out}");
}

#[test]
fn settings_change_between_answers() {
    let lines = [
        "/set",
        "/set n 2",
        NUMBER,
        "/set --n=-1",
        "/regen",
        "/set temp 60",
        "/set top-p=1",
        "/set seed 7",
        "/set",
    ];
    let run = chat("set", &[], &lines);
    for part in
        ["n is 2 now\n", "(cut off after 2 tokens", "n is -1 now\n", "temp is 60 now\n", "seed is 7 now\n"]
    {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let out = run.ok();
    let settings = |text: &str| {
        let of = |name: &str| {
            let line = text.lines().find(|line| line.split(' ').next() == Some(name)).expect(name);
            line.split_whitespace().nth(1).expect("a value").to_owned()
        };
        ["temp", "top-k", "top-p", "n"].map(of)
    };
    let (before, after) = out.split_once(NUMBER_IS).expect("an answer");
    assert_eq!(settings(before), ["0", "40", "0.95", "100"]);
    assert_eq!(settings(after), ["60", "40", "1", "-1"]);
    // Seeds repeat what they gave.
    let wild = |seed: &str, lines: &[&str]| {
        let flags = ["--temp", "60", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-n", "12", "-s", seed];
        chat("seeds", &flags, lines).ok()
    };
    let (first, second) = (wild("1", &[NUMBER]), wild("2", &[NUMBER]));
    assert_ne!(first, second);
    let again = wild("1", &[NUMBER, "/set seed 2", "/regen", "/set seed 1", "/regen"]);
    assert_eq!(again, format!("{first}{second}{first}"));
}

#[test]
fn settings_have_the_names_and_limits_of_flags() {
    let lines = [
        "/set tmp 1",
        "/set temp",
        "/set temp x",
        "/set top-p 3",
        "/set n -5",
        "/set seed y",
        "/set temperature 0.25",
    ];
    let run = chat("bad-set", &[], &lines);
    run.says(&[
        "error: there is no setting tmp\nhint: did you mean `temp`? set one of temp, top-k, ",
        "error: no value is given for temp\nhint: give one, for example: /set temp 0\n",
        "error: temp x: not a number that it can be\nhint: ",
        "error: top-p is 3, but must be between 0 and 1\nhint: ",
        "error: n -5: not a number of tokens\nhint: give 0 or more, or -1 for no limit\n",
        "error: seed y: not a number",
        "temp is 0.25 now\n",
    ]);
    assert_eq!(run.ok(), "");
}

#[test]
fn the_system_message_changes_before_and_after_the_first_question() {
    let lines = ["/system", "/system Be kind.", NUMBER, "/system", "/system \"\"", "/system", KEY];
    let run = chat("system", &[], &lines);
    assert_eq!(run.stderr.matches("the system message is changed\n").count(), 2, "{}", run.stderr);
    assert_eq!(run.stderr.matches("reading the conversation again: ").count(), 1, "{}", run.stderr);
    let none = "there is no system message; /system TEXT sets one\n";
    assert_eq!(run.ok(), format!("{none}{NUMBER_IS}\nBe kind.\n{none}{KEY_IS}\n"));
    let refusing = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No system message') }}\
                    {% endif %}{{ m.content }}{% endfor %}";
    let model = changed_model("no-system.gguf", |writer| _ = writer.set("tokenizer.chat_template", refusing));
    let run = chat("no-system", &["-m", &model, "-n", "2"], &["/system Be kind.", "/system"]);
    assert!(run.stderr.contains("refuses this conversation: \"No system message\""), "{}", run.stderr);
    assert_eq!(run.ok(), none);
}

#[test]
fn an_edited_question_replaces_the_last_one() {
    let lines =
        ["/edit", &format!("/edit {NUMBER}"), KEY, "/edit", &format!("/edit {NUMBER}"), "/undo", "/undo"];
    let run = chat("edit", &[], &lines);
    assert_eq!(run.stderr.matches("error: there is no question to change\n").count(), 2, "{}", run.stderr);
    assert!(run.stderr.contains("hint: give the new one: /edit NEW QUESTION\n"), "{}", run.stderr);
    assert_eq!(run.stderr.matches("removed the last question").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("error: there is no question to remove\n"), "{}", run.stderr);
    assert_eq!(run.ok(), format!("{KEY_IS}\n{NUMBER_IS}\n"));
    // One that does not fit leaves the old one.
    let long = format!("/edit {}", "why ".repeat(3000));
    let run = chat("edit-long", &["-c", "400"], &[KEY, &long, "/regen"]);
    assert!(run.stderr.contains("error: the context is full"), "{}", run.stderr);
    assert_eq!(run.ok(), format!("{KEY_IS}\n{KEY_IS}\n"));
}

#[test]
fn a_mistyped_command_is_corrected() {
    let run = chat("typo", &[], &["/polcy", "/hepl", "/zzz"]);
    run.says(&[
        "there is no command /polcy\nhint: did you mean `/policy`? type /help",
        "there is no command /hepl\nhint: did you mean `/help`? type /help",
        "there is no command /zzz\nhint: type /help",
    ]);
    assert_eq!(run.ok(), "");
}

/// The last token of an answer is not computed where the context is full: it is not counted there.
#[test]
fn no_more_tokens_than_the_context_has_are_counted() {
    let name = "full-context";
    chat(name, &[], &[]).ok();
    let document = scratch("files").join(format!("{name}.txt")).display().to_string();
    let asked = longhand(&["ask", "--json", "-f", &document, KEY]).json();
    let context = (asked["prompt_tokens"].as_u64().expect("a number") + 4).to_string();
    let run = chat(name, &["-c", &context], &[KEY, "/stats"]);
    assert!(run.stderr.contains("cut off because the context is full"), "{}", run.stderr);
    let stats = run.stdout.lines().find(|line| line.starts_with("tokens ")).expect(&run.stdout);
    assert!(stats.ends_with(&format!(" {context} of {context}")), "{stats}");
}
