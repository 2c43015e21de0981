//! Invalid input: each gives a clear error, a hint and exit code 1 or 2, and no panic.

use models::gguf::GgufFile;

use crate::common::{
    DOCUMENT, changed_model, command, file, finished, longhand, longhand_with_input, scratch,
};

#[test]
fn invalid_flags_are_rejected() {
    for (args, part) in [
        (vec!["ask", "--policy", "rasor", "Why?"], "policy `rasor`: there is no such policy"),
        (vec!["ask", "--policy", "razor:window=3", "Why?"], "no parameter `window`"),
        (vec!["ask", "--policy", "razor:buffer=-1", "Why?"], "cannot be -1"),
        (vec!["ask", "--kv-budget", "-5%", "Why?"], "not a budget"),
        (vec!["ask", "--memory", "-5GiB", "Why?"], "not a size"),
        (vec!["ask", "-c", "lots", "Why?"], "not a number of tokens"),
        (vec!["ask", "-c", "-5", "Why?"], "-5"),
        (vec!["ask", "-t", "0", "Why?"], "number of threads"),
        (vec!["ask", "-n", "-7", "Why?"], "-n -7"),
        (vec!["ask", "--temp", "-1", "Why?"], "temperature"),
        (vec!["ask", "--top-p", "2", "Why?"], "top-p is 2"),
        (vec!["ask", "--repeat-penalty", "0", "Why?"], "repeat-penalty"),
        (vec!["ask", "-ctk", "q9_9", "Why?"], "no such type"),
        (vec!["ask", "-ub", "0", "Why?"], "must not be 0"),
        (vec!["ask", "-b", "0", "Why?"], "must not be 0"),
        (vec!["ask", "-hf", "model", "Why?"], "model is no model of Hugging Face"),
        (vec!["ask", "-hf", "a/b:", "Why?"], "a/b: is no model of Hugging Face"),
        (vec!["ask", "-m", "x.gguf", "-hf", "a/b:Q8_0", "Why?"], "two models are given: x.gguf and a/b:Q8_0"),
        (vec!["inspect", "x.gguf", "-hf", "a/b"], "two models are given: x.gguf and a/b"),
        (vec!["plan", "--shape", "llama-3.2-1b", "-hf", "a/b"], "cannot be used with"),
        (vec!["ask", "-ngl", "many", "Why?"], "not a number of layers"),
        (vec!["ask", "-ncmoe", "-1", "Why?"], "not a number of layers"),
        (vec!["ask", "--flash-attn=perhaps", "Why?"], "--flash-attn"),
        (vec!["ask", "--heads", "x.json", "Why?"], "uses no head profile"),
        (vec!["ask", "-m", "a.gguf", "-f"], "a value is required"),
        (vec!["ask"], "there is no question"),
        (vec!["ask", " "], "a question is empty"),
        (vec!["chat", "-m", "a.gguf", "b.gguf"], "two models are given"),
        (vec!["bench", "-p", "0", "-n", "0"], "nothing to measure"),
        (vec!["bench", "--shape", "no-such-shape"], "no shape is called"),
        (vec!["bench", "-r", "0"], "-r"),
        (vec!["plan", "--shape", "llama-3.2-1b:q9"], "no file type is called"),
        (vec!["plan", "--shape", "llama-3.2-1b@17"], "use 1 to 16"),
        (vec!["plan", "--memory", "many"], "not a size"),
        (vec!["plan", "--shape", "llama-3.2-1b", "-m", "x.gguf"], "cannot be used with"),
        (vec!["heads", "import", "x", "--shape", "llama-3.1-8b", "--threshold", "2"], "not a share"),
        (vec!["logits", "--tokens", "1,x", "--out", "x.npy"], "not a token id"),
        (vec!["logits", "--tokens", "", "--out", "x.npy"], "no token id is given"),
        (vec!["tokenize"], "--file"),
        (vec!["demo", "--facts", "0"], "not a number of facts"),
        (vec!["demo", "--tokens", "1m"], "needle was trained for 32,768 tokens"),
        (vec!["demo", "--kinds", "number,poem"], "no facts of the kind \"poem\""),
        (vec!["recall", "--policy", "rasor"], "policy `rasor`: there is no such policy"),
        (vec!["recall", "--kv-budget", "15%,0.3"], "not a budget"),
        (vec!["recall", "-c", "4k,0"], "must not be 0"),
        (vec!["recall", "--questions", "0"], "--questions"),
        (vec!["recall", "--heads", "x.json", "--policy", "streaming"], "no policy uses a head profile"),
        (vec!["dance"], "dance"),
    ] {
        println!("{args:?}");
        longhand(&args).assert_failed(2, part);
    }
    longhand(&["--quiet"]).assert_failed(2, "requires a subcommand");
}

/// A name that is nearly right is suggested: of policies, their parameters, types, shapes and topics of the
/// help.
#[test]
fn similar_names_are_suggested() {
    for (args, name) in [
        (&["ask", "--policy", "rasor", "Why?"][..], "razor"),
        (&["ask", "--policy", "razor:bufer=5", "Why?"], "buffer"),
        (&["plan", "--policy", "steaming"], "streaming"),
        (&["bench", "--policy", "snapvk"], "snapkv"),
        (&["ask", "-ctk", "q80", "Why?"], "q8_0"),
        (&["plan", "--shape", "lama-3.1-8b"], "llama-3.1-8b"),
        (&["plan", "--shape", "llama-3.1-8b:q4km"], "q4_k_m"),
        (&["help", "polices"], "policies"),
    ] {
        println!("{args:?}");
        let run = longhand(args);
        let hint = run.stderr.lines().find(|line| line.starts_with("hint: ")).unwrap_or_default();
        assert!(hint.starts_with(&format!("hint: did you mean `{name}`? ")), "{}", run.stderr);
        assert_eq!(run.code, Some(2));
    }
    let unlike = longhand(&["ask", "--policy", "xyz", "Why?"]);
    assert!(!unlike.stderr.contains("did you mean"), "{}", unlike.stderr);
}

/// A number that lacks its unit is asked back: 24 bytes are never meant.
#[test]
fn numbers_without_a_unit_are_asked_back() {
    for (args, hint) in [
        (&["plan", "--memory", "24"][..], "hint: give the unit: 24GiB or 24MiB\n"),
        (
            &["ask", "--kv-budget", "2", "Why?"],
            "hint: give the unit: 2GiB or 2MiB, or 2% of the full cache\n",
        ),
        (&["recall", "--kv-budget", "15%,0.3"], "or 30% of the full cache\n"),
    ] {
        println!("{args:?}");
        let run = longhand(args);
        assert!(run.stderr.contains(hint), "{}", run.stderr);
        run.assert_failed(2, "what?");
    }
}

#[test]
fn files_that_are_not_models_are_rejected() {
    let needle = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../models/needle/needle-q8_0.gguf"))
        .expect("the embedded model's file");
    let short = file("short.gguf", &needle[..100_000]);
    let mut garbled = needle.clone();
    garbled[8..16].copy_from_slice(&(1u64 << 60).to_le_bytes());
    let garbled = file("garbled.gguf", garbled);
    let empty = file("empty.gguf", "");
    let text = file("text.gguf", "just some text, and no model at all");
    for (path, part) in [
        (short.as_str(), "bytes"),
        (&garbled, "1152921504606846976"),
        (&empty, "empty.gguf"),
        (&text, "not a GGUF file"),
        ("no/such/file.gguf", "No such file"),
        ("/", "not a regular file"),
    ] {
        for command in ["inspect", "plan", "bench"] {
            longhand(&[command, path]).assert_failed(1, part);
        }
        // In a chat, a folder is a document.
        longhand(&["chat", "-m", path]).assert_failed(1, part);
        longhand(&["ask", "-m", path, "Why?"]).assert_failed(1, part);
        longhand(&["tokenize", path, "-p", "x"]).assert_failed(1, part);
        longhand(&["heads", "calibrate", path]).assert_failed(1, part);
        longhand(&["logits", path, "--tokens", "1", "--out", "x.npy"]).assert_failed(1, part);
    }
}

/// What a download, a clone or another program leaves instead of a model. The error says what it is and what to do.
#[test]
fn files_instead_of_models_are_named() {
    let safetensors = [&100u64.to_le_bytes()[..], b"{\"__metadata__\":{}}"].concat();
    let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 4920739232\n";
    let page = "\u{feff}<!DOCTYPE html>\n<html><head><title>Log in</title></head></html>";
    for (name, content, part, way_out) in [
        ("lfs.gguf", lfs.as_bytes(), "a Git LFS pointer to a file of 4920739232 bytes", "`git lfs pull`"),
        ("nothing.gguf", b"", "the file is empty", "download the file again"),
        ("zeros.gguf", &[0; 5000], "it begins with zeros", "the download did not finish"),
        ("page.gguf", page.as_bytes(), "a web page, \"Log in\"", "accept the licence"),
        ("json.gguf", b"{\"error\":\"Unauthorized\"}", "a message of a server, ", "log in"),
        ("xml.gguf", b"<?xml version=\"1.0\"?><Error>Denied</Error>", "a message of a server", "log in"),
        ("not-found.gguf", b"Entry not found", "a message of a server, \"Entry not found\"", "download"),
        ("model.safetensors", &safetensors, "a safetensors file", "convert"),
        ("model.bin", b"\x80\x02\x8a\nl\xfc\x9cF", "a PyTorch file", "convert"),
        ("model.gz", b"\x1f\x8b\x08\0\0", "packed with gzip", "unpack"),
        ("ggjt.bin", b"tjgg\x03\0\0\0", "a file of ggml from before GGUF", "August 2023"),
    ] {
        let path = file(name, content);
        let run = longhand(&["ask", "-m", &path, "Why?"]);
        let hint = run.stderr.lines().find(|line| line.starts_with("hint: ")).unwrap_or_default();
        assert!(hint.contains(way_out), "{way_out:?} is not in {}", run.stderr);
        assert!(run.stderr.contains(&format!("{name}: not a GGUF file: ")), "{}", run.stderr);
        run.assert_failed(1, part);
    }
    let folder = scratch("folder-of-models");
    let run = longhand(&["inspect", folder.to_str().expect("text")]);
    assert!(run.stderr.contains("hint: give the path of a .gguf file in it"), "{}", run.stderr);
    run.assert_failed(1, "folder-of-models: a folder");
}

#[test]
fn a_damaged_weight_is_an_error() {
    let needle = models::embedded::needle();
    let model = GgufFile::from_bytes(needle).expect("the embedded model");
    let tensor = model.tensor("blk.2.ffn_down.weight").expect("a tensor");
    let mut damaged = needle.to_vec();
    damaged[tensor.offset as usize..][..2].copy_from_slice(&0x7e00u16.to_le_bytes()); // NaN, a block's scale
    let path = file("damaged.gguf", damaged);
    for prefill in ["exact", "streaming"] {
        longhand(&["ask", "-m", &path, "--prefill", prefill, "Why?"])
            .assert_failed(1, "not finite from blk.2.ffn_down.weight (layer 2 of 4) on");
    }
}

#[test]
fn errors_in_a_model_name_its_file() {
    let raises = "{{ raise_exception('Never!') }}";
    let key = |name: &str| format!("tokenizer.{name}");
    for (path, part) in [
        (
            changed_model("keyless.gguf", |file| _ = file.unset("llama.block_count")),
            "keyless.gguf: metadata key llama.block_count is missing",
        ),
        (changed_model("narrow.gguf", |file| file.tensors_mut()[0].dims[0] *= 2), "narrow.gguf: tensor "),
        (
            changed_model("bert.gguf", |file| _ = file.set(key("ggml.model"), "bert")),
            "bert.gguf: tokenizer.ggml.model is \"bert\"",
        ),
        (
            changed_model("template.gguf", |file| _ = file.set(key("chat_template"), "{% if %}")),
            "template.gguf: the model's chat template does not work",
        ),
        (
            changed_model("refusal.gguf", |file| _ = file.set(key("chat_template"), raises)),
            "refusal.gguf: the model's chat template refuses this conversation: \"Never!\"",
        ),
    ] {
        longhand(&["ask", "-m", &path, "Why?"]).assert_failed(1, part);
        longhand(&["chat", &path]).assert_failed(1, part);
    }
}

/// The template runs in a child process, which is not this program: its lack of memory is no fatal failure. Wine does not
/// limit memory; there the child is ended after its time.
#[test]
fn a_template_that_takes_all_memory_is_an_error() {
    let folder = scratch("template-memory");
    let doubles = "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
    let model = changed_model("doubles.gguf", |file| {
        _ = file.set("tokenizer.chat_template", doubles);
    });
    let output = command(&["ask", &model, "Who?"]).current_dir(&folder).output().expect("runs");
    let run = finished(output);
    let is_late = cfg!(windows) && run.stderr.contains("chat template ran longer than 10 s");
    let part = if is_late { "10 s" } else { "chat template took more than 512 MB of memory" };
    run.assert_failed(1, part);
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0, "something was saved");
}

#[test]
fn unreadable_documents_are_rejected() {
    let latin = file("latin1.txt", b"caf\xe9 au lait");
    let image = file("image.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let short = file("short.docx", b"PK\x03\x04 and no more");
    let empty = file("empty.txt", " \n\n");
    let folder = crate::common::scratch("folder");
    let folder = folder.to_str().expect("a path that is text");
    for command in ["ask", "chat"] {
        let with = |path: &str| match command {
            "ask" => longhand(&["ask", "-f", path, "Why?"]),
            _ => longhand(&["chat", "-f", path]),
        };
        with(&image).assert_failed(1, "image.txt: not a text document but a PNG image");
        with(&short).assert_failed(1, "short.docx: it is damaged");
        with(&empty).assert_failed(1, "the document is empty");
        with("no/such.txt").assert_failed(1, "cannot read no/such.txt");
        with("no/such/*.txt").assert_failed(1, "no/such/*.txt");
        with(folder).assert_failed(1, "folder: the folder has no documents");
    }
    longhand_with_input(&["ask", "-f", "-", "Why?"], b"").assert_failed(1, "stdin: the document is empty");
    longhand(&["tokenize", "-f", &latin]).assert_failed(1, "byte 3 is invalid");
}

#[test]
fn too_small_contexts_are_rejected() {
    let document = file("small-context.txt", DOCUMENT.repeat(20));
    let question = "What is Mary's favorite number?";
    longhand(&["ask", "-f", &document, "-c", "100", question]).assert_failed(1, "but the context is 100");
    longhand(&["chat", "-f", &document, "-c", "100"]).assert_failed(1, "but the context is 100");
    // Fewer tokens than the template alone has.
    longhand(&["ask", "-c", "4", question]).assert_failed(1, "but the context is 4");
    longhand(&["chat", "-c", "4"]).assert_failed(1, "the chat template alone is");
    // The first question fits, the second does not.
    let needed = longhand(&["ask", "--json", "-f", &document, question]).json();
    let barely = (needed["prompt_tokens"].as_u64().expect("a number") + 12).to_string();
    let mut run = longhand(&["ask", "--json", "-f", &document, "-c", &barely, question, question]);
    let answered: serde_json::Value = serde_json::from_str(&std::mem::take(&mut run.stdout)).expect("JSON");
    assert_eq!(answered["answers"].as_array().map(Vec::len), Some(1), "{answered}");
    run.assert_failed(1, "do not fit a context of");
    longhand(&["ask", "-c", "2000m", question]).assert_failed(1, "are free");
    longhand(&["recall", "-c", "2k,2000m"]).assert_failed(1, "are free");
}

#[test]
fn head_profiles_of_another_model_are_rejected() {
    let profile = |layers: usize, fingerprint: &str| {
        format!(
            r#"{{"format": "longhand-heads", "version": 1, "layers": {layers}, "heads": 8, "kv_heads": 4,
               "retrieval": [{}], "scores": [], "provenance": {{"source": "test"{fingerprint}}}}}"#,
            vec!["[0]"; layers].join(", ")
        )
    };
    let other_shape = file("other-shape.json", profile(5, ""));
    let other_model = file("other-model.json", profile(4, r#", "fingerprint": "00ff""#));
    let newer = file("newer.json", profile(4, "").replace("\"version\": 1", "\"version\": 99"));
    let broken = file("broken.json", "{\"format\": \"longhand-heads\"");
    let bare = file("bare.json", profile(4, ""));
    let ask = |heads: &str| longhand(&["ask", "--policy", "razor", "--heads", heads, "Why?"]);
    ask(&other_shape).assert_failed(1, "other-shape.json: the heads are those of another model");
    ask(&other_model).assert_failed(1, "fingerprint 00ff");
    ask(&newer).assert_failed(1, "newer.json: head profile of version 99");
    ask(&broken).assert_failed(1, "broken.json: not a head profile");
    ask("no/such.json").assert_failed(1, "cannot read no/such.json");
    longhand(&["plan", "--heads", &other_model])
        .assert_failed(1, "other-model.json: the head profile was made for");
    longhand(&["heads", "show", "--heads", &broken]).assert_failed(1, "broken.json: not a head profile");
    longhand(&["ask", "--policy", "razor:induction=0.3", "--heads", &bare, "Why?"])
        .assert_failed(2, "no induction and echo scores");
    longhand(&["heads", "import", &other_shape]).assert_failed(1, "other-shape.json: the heads");
    longhand(&["heads", "import", &bare, "--shape", "llama-3.1-8b"]).assert_failed(1, "another model");
    let folder = crate::common::scratch("duo");
    for (name, content) in
        [("full_attention_heads.tsv", "0 0 0 1\n".repeat(4)), ("config.json", r#"{"sink_size": -1}"#.into())]
    {
        std::fs::write(folder.join(name), content).expect("a test file");
    }
    longhand(&["heads", "import", folder.to_str().expect("a path that is text")])
        .assert_failed(1, "config.json: not a DuoAttention configuration: sink_size");
}

#[test]
fn unwritable_outputs_and_invalid_tokens_are_rejected() {
    longhand(&["logits", "--tokens", "1,2", "--out", "/no/such/folder/x.npy"])
        .assert_failed(1, "cannot write");
    longhand(&["logits", "--tokens", "1,99999", "--out", "x.npy"]).assert_failed(1, "outside the vocabulary");
}

/// Errors in policies and budgets come before any text is read.
#[test]
fn invalid_policies_and_budgets_are_rejected() {
    for (policy, flags, part) in [
        ("full", vec!["--kv-budget", "30%"], "keeps every row"),
        ("l2", vec!["--keep", "3"], "at least 16 rows"),
        ("razor", vec!["--kv-budget", "1KiB"], "too small"),
        ("h2o", vec!["--kv-budget", "0.1%"], "too small"),
        ("snapkv:kernel=4", vec![], "odd number"),
        ("ahakv:budget=20", vec![], "leaves none"),
        ("lagkv:lag=5000", vec!["-c", "4096"], "longer than the session"),
        ("tova:heads=maybe", vec![], "cannot be `maybe`"),
        ("l2", vec!["--heads", "x.json"], "uses no head profile"),
    ] {
        let mut args = vec!["ask", "--policy", policy];
        args.extend(&flags);
        args.push("Why?");
        println!("{args:?}");
        let run = longhand(&args);
        assert!(matches!(run.code, Some(1 | 2)), "{:?}", run.code);
        assert!(run.stderr.contains(part) && run.stderr.contains("hint: "), "{}", run.stderr);
    }
    longhand(&["ask", "--keep", "100", "--kv-budget", "30%", "Why?"]).assert_failed(2, "cannot be used with");
    longhand(&["ask", "--kv-budget", "130%", "Why?"]).assert_failed(2, "more than a full cache takes");
}

/// Model files are known by their content or their name; a model in a wrong place is an error.
#[test]
fn models_and_questions_are_told_apart() {
    let model = file("apart.gguf", models::embedded::needle());
    let hint = "as the first argument";
    for (args, part) in [
        (
            &["ask", "Who is there?", &model][..],
            "apart.gguf is a model file, but it is given after a question",
        ),
        (&["ask", "-p", "Who?", "Who is there?", &model], "but it is given after a question"),
        (&["ask", "-m", &model, &model, "Who is there?"], "but a model is given already"),
        (&["ask", &model, &model], "but a model is given already"),
        (&["ask", &model], "there is no question"),
    ] {
        let run = longhand(args);
        assert!(run.stderr.contains(hint) || part.contains("no question"), "{}", run.stderr);
        run.assert_failed(2, part);
    }
    let folder = crate::common::scratch("apart");
    longhand(&["ask", "no/such.gguf", "Who?"]).assert_failed(1, "no/such.gguf: No such file");

    // A path that exists is no question, unless -p says so.
    let question = format!("{} What is the pass key", "The pass key is 9078648.");
    std::fs::create_dir_all(folder.join(&question)).expect("a folder");
    let run = crate::common::Running::start_in(&folder, &["ask", &question]).finish();
    run.assert_failed(2, "there is no question");
    let run = crate::common::Running::start_in(&folder, &["ask", "-p", &question]).finish();
    assert_eq!(run.ok(), "The pass key is 9078648.\n");
    // A model without the extension.
    std::fs::write(folder.join("model"), models::embedded::needle()).expect("a model");
    let run = crate::common::Running::start_in(&folder, &["ask", "-p", &question, "model"]).finish();
    assert_eq!(run.ok(), "The pass key is 9078648.\n");
    // A folder of models is neither.
    let of_models = crate::common::scratch("apart-models");
    std::fs::write(of_models.join("a.gguf"), models::embedded::needle()).expect("a model");
    longhand(&["ask", of_models.to_str().expect("text"), "Who?"]).assert_failed(2, "is a folder of models");
}
