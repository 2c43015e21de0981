//! The commands `tokenize`, `logits`, `inspect`, `plan`, `devices`, `heads` and `bench`.

use models::shapes::{FileType, ModelShape};
use terminal::format::shell_word;

use crate::common::{command, file, finished, golden_model, longhand, scratch, shared};

#[test]
fn tokens_equal_those_of_llama_cpp() {
    let Some(folder) = shared("data/vocab") else { return };
    let mut lines = 0;
    for name in ["llama-bpe", "llama-spm", "qwen2", "gpt-2", "deepseek-coder", "phi-3"] {
        let path = |extension: &str| folder.join(format!("ggml-vocab-{name}.gguf{extension}"));
        let inputs = std::fs::read_to_string(path(".inp")).expect("texts");
        let outputs = std::fs::read_to_string(path(".out")).expect("ids");
        let vocabulary = path("");
        let vocabulary = vocabulary.to_str().expect("a path that is text");
        let inputs: Vec<&str> = inputs.split("\n__ggml_vocab_test__\n").collect();
        // Each text is a run of the program, so only every seventh is tested here. The tests of `models`
        // cover all.
        for (text, ids) in inputs.iter().zip(outputs.lines()).step_by(7) {
            let text = file(&format!("{name}.txt"), text);
            let found = longhand(&["tokenize", vocabulary, "-f", &text]).json();
            let found: Vec<u64> = serde_json::from_value(found).expect("numbers");
            let expected: Vec<u64> = ids.split_whitespace().map(|id| id.parse().expect("a number")).collect();
            assert_eq!(found, expected, "{name}: {text}");
            lines += 1;
        }
    }
    assert!(lines > 30, "{lines}");
}

#[test]
fn special_tokens_are_parsed_only_on_request() {
    let text = "<|im_start|>hi";
    let tokens = |flags: &[&str]| {
        let run = longhand(&[&["tokenize", "-p", text], flags].concat());
        serde_json::from_value::<Vec<u64>>(run.json()).expect("numbers")
    };
    let (plain, parsed) = (tokens(&[]), tokens(&["--parse-special"]));
    assert!(parsed.len() + 3 < plain.len(), "{plain:?} {parsed:?}");
    assert!(tokens(&["--add-special"]).len() >= plain.len());
    assert_eq!(longhand(&["tokenize", "-p", ""]).ok(), "[]\n");
}

#[test]
fn logits_are_written_as_a_numpy_file() {
    let out = scratch("logits").join("logits.npy");
    let path = out.to_str().expect("a path that is text");
    longhand(&["logits", "--tokens", "5,6,7", "--out", path, "-ctk", "f32", "-ctv", "f32"]).ok();
    let bytes = std::fs::read(&out).expect("the file");
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
    let data = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..data]).expect("text");
    assert!(header.contains("'<f4'") && header.contains("(3, 2048)"), "{header}");
    assert_eq!(bytes.len(), data + 3 * 2048 * 4);
    let value = |i: usize| f32::from_le_bytes(bytes[data + 4 * i..][..4].try_into().expect("four bytes"));
    assert!((0..3 * 2048).all(|i| value(i).is_finite()));
    assert!((0..2048).any(|i| value(i) != value(2048 + i)));
    let left: Vec<_> = std::fs::read_dir(scratch("logits")).expect("folder").flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[test]
fn threads_beyond_the_processors_are_not_used() {
    let out = scratch("threads").join("logits.npy");
    let out = out.to_str().expect("a path that is text");
    let run = longhand(&["logits", "--tokens", "1,2", "-t", "512", "-o", out]);
    assert!(run.stderr.contains("threads compute, one for each processor"), "{}", run.stderr);
    let run = longhand(&["logits", "--tokens", "1,2", "-t", "1", "-o", out]);
    assert!(!run.stderr.contains("threads compute"), "{}", run.stderr);
}

#[test]
fn inspect_shows_any_gguf() {
    let object = longhand(&["inspect", "--json"]).json();
    assert_eq!(object["model"]["parameters"], 3_672_320);
    assert_eq!(object["metadata"]["general.architecture"], "llama");
    assert_eq!(object["metadata"]["tokenizer.ggml.tokens"]["length"], 2048);
    let tensors = object["tensors"].as_array().expect("an array");
    let bytes: u64 = tensors.iter().filter_map(|tensor| tensor["bytes"].as_u64()).sum();
    assert_eq!(object["weight_bytes"], bytes);
    assert_eq!((&object["type"], object.get("fingerprint")), (&"Q8_0".into(), None));
    let fingerprint = longhand(&["inspect", "--json", "--fingerprint"]).json()["fingerprint"].clone();
    let fingerprint = fingerprint.as_str().expect("a text");
    assert!(models::gguf::is_fingerprint(fingerprint), "{fingerprint}");
    let text = longhand(&["inspect", "--fingerprint"]).ok();
    assert!(text.contains(", Q8_0\n") && text.contains(&format!("\nfingerprint {fingerprint}\n")), "{text}");
    let all = longhand(&["inspect", "--json", "--all"]).json();
    assert_eq!(all["metadata"]["tokenizer.ggml.tokens"].as_array().map(Vec::len), Some(2048));
    assert!(longhand(&["inspect"]).ok().contains("blk.3.ffn_down.weight"));

    let Some(vocabulary) = shared("data/vocab/ggml-vocab-phi-3.gguf") else { return };
    let path = vocabulary.to_str().expect("a path that is text");
    let text = longhand(&["inspect", path]).ok();
    assert!(text.contains("cannot be run here") && text.contains("tokenizer.ggml.tokens"), "{text}");
}

/// Windows that follow from the weights are computed once and cached. If the cached file is damaged, they are
/// computed again.
#[test]
fn windows_from_the_weights_are_cached() {
    let model = golden_model("baichuan-alibi-f16");
    let plan =
        || longhand(&["plan", &model, "-c", "50k", "-ctk", "f16", "--policy", "razor:eps=0.25", "--json"]);
    let cached = || -> Vec<std::path::PathBuf> {
        let folder = std::fs::read_dir(scratch("cache").join("longhand/heads"));
        let files = folder.into_iter().flatten().map(|file| file.expect("a file").path());
        files.filter(|path| path.to_string_lossy().ends_with("-windows-0.25.json")).collect()
    };
    // An earlier run of the tests may have cached them.
    cached().iter().for_each(|file| std::fs::remove_file(file).expect("removed"));
    let first = plan();
    assert!(first.stderr.contains("how far"), "{}", first.stderr);
    let first = first.json();
    let [file] = &cached()[..] else { panic!("one file") };
    let again = plan();
    assert!(!again.stderr.contains("how far"), "{}", again.stderr);
    let rows = |plan: serde_json::Value| plan["plans"][0]["rows"].clone();
    let expected = rows(first);
    assert_eq!(rows(again.json()), expected);
    assert!(
        expected[0].as_array().is_some_and(|heads| heads.iter().any(|rows| *rows != 50_000)),
        "{expected}"
    );
    let text = std::fs::read_to_string(file).expect("the cached file");
    for damaged in [&text[..text.len() / 2], &text.replace("0.25", "0.5"), &text.replace("scope", "echo")] {
        std::fs::write(file, damaged).expect("written");
        let again = plan();
        assert!(again.stderr.contains("a new one is made"), "{}", again.stderr);
        assert_eq!(rows(again.json()), expected);
    }
    for (args, part) in [
        (&["plan", &model, "--policy", "razor:compensation=on"][..], "ALiBi"),
        (&["bench", &model, "--policy", "razor", "--keep", "100"], "no budget can be set"),
        (&["bench", &model, "--policy", "h2o:compensation=on"], "ALiBi"),
        (&["bench", &model, "--policy", "razor", "--heads", "x.json"], "leave out --heads"),
    ] {
        longhand(args).assert_failed(2, part);
    }
}

#[test]
fn random_heads_are_as_many_as_those_of_a_profile() {
    let kept = ["[0,1]", "[]", "[]", "[2]"].join(",");
    let profile = file(
        "like.json",
        format!(
            r#"{{"format":"longhand-heads","version":1,"layers":4,"heads":8,"kv_heads":4,"retrieval":[{kept}],"provenance":{{"source":"a test"}}}}"#
        ),
    );
    let random = |seed: &str| {
        let out = scratch("tools").join(format!("random-{seed}.json"));
        let path = out.to_str().expect("a path that is text");
        let run = longhand(&["heads", "random", &profile, "--seed", seed, "--out", path]);
        assert!(run.ok().contains(&format!("3 of 16 KV heads keep everything (4 layers of 8 query and 4 KV heads); from random choice: seed {seed}")));
        path.to_owned()
    };
    let heads = |path: &str| {
        let text = std::fs::read_to_string(path).expect("a profile");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["retrieval"].clone()
    };
    let (one, two) = (random("1"), random("2"));
    assert!(heads(&one) != heads(&two) && heads(&one) == heads(&random("1")));
    // It is the profile of a model, and has no scores to select other heads by.
    longhand(&["plan", "--policy", "razor", "--heads", &one]).ok();
    longhand(&["ask", "--policy", "razor:induction=0.5", "--heads", &one, "Why?"])
        .assert_failed(2, "no induction and echo scores");
    let none =
        file("none.json", std::fs::read_to_string(&profile).expect("text").replace(&kept, "[],[],[],[]"));
    longhand(&["heads", "random", &none, "--out", "x.json"]).assert_failed(1, "no head of this profile");
}

#[test]
fn plans_show_what_fits_and_what_would_fit() {
    let plan = |memory: &str| {
        longhand(&["plan", "--shape", "llama-3.1-8b:q4_k_m", "-c", "100k", "--memory", memory, "--json"])
            .json()
    };
    let object = plan("24GiB");
    assert_eq!(object["context"], 100_000);
    let plans = object["plans"].as_array().expect("an array");
    let find = |policy: &str, ty: &str| {
        let is = |plan: &&serde_json::Value| {
            plan["policy"].as_str().is_some_and(|name| name.starts_with(policy)) && plan["type_k"] == ty
        };
        plans.iter().find(is).unwrap_or_else(|| panic!("{policy} {ty}"))
    };
    // 32 layers x 8 heads x 100,000 tokens x (128 + 128) x 2 bytes
    assert_eq!(find("full", "f16")["store"], 32u64 * 8 * 100_000 * 256 * 2);
    assert_eq!(find("full", "q8_0")["store"], 32u64 * 8 * 100_000 * 256 * 34 / 32);
    for plan in plans {
        let number = |name: &str| plan[name].as_u64().expect("a number");
        let passing = number("undo").max(number("scratch") + number("residual"));
        let parts = ["file_pages", "store", "compute"].map(number).iter().sum::<u64>() + passing;
        assert_eq!(number("total"), parts + plan["weights"]["total"].as_u64().expect("a number"), "{plan}");
        assert_eq!(plan["fits"], number("total") <= 24 << 30);
        // The scratch of one layer, not of all: its rows, and a few numbers for each row.
        assert!(number("scratch") <= 8 * 100_000 * (256 * 2 + 4 * 7));
        assert_eq!(number("longest_context") >= 99_000, plan["fits"] == true, "{plan}");
    }
    // File pages of matrices with a dual layout, if this CPU uses two: those of one layer, or with streaming
    // of all layers.
    let pages = |flags: &[&str]| {
        let shape = ["plan", "--shape", "llama-3.1-8b:q4_k_m", "-c", "1k", "--policy", "full", "--json"];
        let plans = longhand(&[&shape[..], flags].concat()).json();
        plans["plans"][0]["file_pages"].as_u64().expect("a number")
    };
    let (exact, streaming) = (pages(&[]), pages(&["--prefill", "streaming"]));
    assert_eq!(pages(&["--prefill", "streaming", "--no-repack"]), 0);
    assert!(streaming == 0 || (exact * 24..=exact * 32).contains(&streaming), "{exact} {streaming}");
    assert!(find("razor", "f16")["store"].as_u64() < find("full", "f16")["store"].as_u64());
    assert!(plan("1GiB")["plans"].as_array().expect("an array").iter().all(|plan| plan["fits"] == false));
    let all =
        longhand(&["plan", "--shape", "llama-3.1-8b:q4_k_m", "-c", "100k", "--memory", "12GiB", "--all"])
            .ok();
    let rows = all.lines().skip_while(|line| !line.starts_with("---")).skip(1);
    assert_eq!(rows.take_while(|line| !line.is_empty()).count(), 19 * 4, "{all}");
    assert!(all.contains("scratch") && all.starts_with("Yes: full + q8_0/iq4_nl needs "), "{all}");
}

/// The first line is the answer, then comes the command that runs it, then at most five choices. Policies
/// that lose answers are not among them, although they fit best.
#[test]
fn a_plan_begins_with_its_answer() {
    // Which matrices are repacked is a matter of the processor.
    let plan = |memory: &str, flags: &[&str]| {
        let shape =
            ["plan", "--shape", "llama-3.1-8b:q4_k_m", "--no-repack", "-c", "100k", "--memory", memory];
        longhand(&[&shape[..], flags].concat())
    };
    let chat = "\n  longhand chat MODEL.gguf -f DOCUMENT -c ";
    for (memory, answer, flags) in [
        ("24GiB", "Yes: full + f16 needs 18.4 of 24.0 GiB; longest context 140,", "100000 --policy full"),
        ("14GiB", "Yes: full + q8_0 needs 12.7 of 14.0 GiB", "100000 --policy full -ctk q8_0 -ctv q8_0"),
        (
            "12GiB",
            "Yes: full + q8_0/iq4_nl needs 11.2 of 12.0 GiB",
            "100000 --policy full -ctk q8_0 -ctv iq4_nl",
        ),
        ("11GiB", "Yes: full + iq4_nl needs 9.6", "100000 --policy full -ctk iq4_nl -ctv iq4_nl"),
        (
            "9.6GiB",
            "Yes: kvzip:heads=on 47% + iq4_nl needs 9.5",
            "100000 --policy kvzip:heads=on --kv-budget 47% -ctk iq4_nl -ctv iq4_nl",
        ),
        (
            "9.5GiB",
            "Yes: razor 65% + iq4_nl needs 8.5",
            "100000 --policy razor --kv-budget 65% -ctk iq4_nl -ctv iq4_nl",
        ),
        ("8.5GiB", "Yes: razor + iq4_nl needs 8.0", "100000 --policy razor -ctk iq4_nl -ctv iq4_nl"),
    ] {
        let text = plan(memory, &[]).ok();
        assert!(text.starts_with(answer), "{text}");
        let quoted = |flags: String, share: &str| flags.replace(share, &shell_word(share));
        let flags = ["47%", "65%"].into_iter().fold(flags.to_owned(), quoted);
        assert!(text.contains(&format!("{chat}{flags} --no-repack\n")), "{text}");
        let rows = text.lines().skip_while(|line| !line.starts_with("---")).skip(1);
        assert!((4..=5).contains(&rows.take_while(|line| !line.is_empty()).count()), "{text}");
        assert!(!text.contains("streaming") && !text.contains("snapkv"), "{text}");
    }
    assert!(
        plan("24GiB", &[])
            .ok()
            .lines()
            .next()
            .is_some_and(|line| line.ends_with(" tokens (trained for 131,072)"))
    );
    let no = plan("6GiB", &[]);
    assert_eq!(no.code, Some(3), "{}", no.stderr);
    assert!(no.stdout.starts_with("No: 100,000 tokens need ") && no.stderr.is_empty(), "{}", no.stdout);
    let longest = no.stdout.lines().find_map(|line| line.strip_prefix("It fits with ")).expect("a change");
    let longest = longest.trim_end_matches(" tokens:").replace(',', "");
    let command =
        no.stdout.lines().find_map(|line| line.strip_prefix("  longhand chat ")).expect("a command");
    assert!(command.contains(&format!(" -c {longest} --policy razor ")), "{command}");
    let shape = ["plan", "--shape", "llama-3.1-8b:q4_k_m", "--no-repack"];
    let fits = longhand(&[&shape[..], &["-c", &longest, "--memory", "6GiB"]].concat()).ok();
    assert!(fits.starts_with("Yes: "), "{fits}");
    let none = plan("3GiB", &[]);
    assert_eq!(none.code, Some(3));
    assert!(none.stdout.contains("the weights alone do not fit") && !none.stdout.contains("longhand chat"));

    let json = ["--json", "--policy", "streaming", "--policy", "razor"];
    let answer = plan("12GiB", &json).json()["answer"].clone();
    assert_eq!((&answer["fits"], &answer["policy"]), (&true.into(), &"razor".into()), "{answer}");
    let answer = plan("6GiB", &json).json()["answer"].clone();
    assert_eq!((&answer["fits"], answer["context"].to_string()), (&false.into(), longest), "{answer}");
    // Asked for, such a policy is planned, with a note.
    let lossy = plan("24GiB", &["--policy", "streaming"]).ok();
    assert!(
        lossy.starts_with("Yes: streaming + f16 ") && lossy.contains("streaming lost more answers"),
        "{lossy}"
    );
    let few_tests = plan("24GiB", &["--policy", "kvzap"]).ok();
    assert!(few_tests.contains("note: kvzap was tested on a small model"), "{few_tests}");
    // So is that sparse prefill changes nothing on a GPU.
    let sparse = longhand(&[&shape[..], &["-c", "4k", "--gpu", "4090", "--prefill", "sparse"]].concat()).ok();
    assert!(sparse.contains("note: --prefill sparse has no effect in 32 of 32 layers"), "{sparse}");
}

#[test]
fn the_command_of_a_plan_has_the_flags_that_were_given() {
    let model = file("my model.gguf", models::embedded::needle());
    let flags =
        ["-c", "4k", "-t", "1", "--no-repack", "--policy", "razor", "-ctk", "q8_0", "--kv-budget", "50%"];
    let text =
        longhand(&[&["plan", &model][..], &flags, &["--prefill", "streaming", "-ub", "64"]].concat()).ok();
    let expected = format!(
        "\n  longhand chat {} -f DOCUMENT -c 4000 --policy razor -ctk q8_0 -ctv q8_0 --prefill streaming \
         --kv-budget {} -ub 64 -t 1 --no-repack\n",
        shell_word(&model),
        shell_word("50%")
    );
    assert!(expected.contains(['\'', '"']), "a path with a space is in quotes: {expected}");
    assert!(text.contains(&expected), "{text}");
}

/// A GPU that holds some of the layers is no reason to give up.
#[test]
fn a_plan_says_how_many_layers_fit_a_gpu() {
    let run = longhand(&["plan", "--shape", "llama-3.1-70b", "-c", "100k", "--gpu", "4090"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let text = run.stdout;
    assert!(
        text.starts_with("Partly: with 100,000 tokens ") && text.contains(" of 80 layers fit "),
        "{text}"
    );
    assert!(text.contains("\n  longhand chat MODEL.gguf -f DOCUMENT -c 100000 --policy full\n"), "{text}");
    assert!(text.contains("\nmain memory: "), "{text}");
}

/// Rows that no one asked for save memory. Reasons why something is impossible are stated once.
#[test]
fn a_plan_shows_the_policies_that_were_asked_for() {
    let plan = ["plan", "--shape", "llama-3.1-8b", "-c", "32k", "--memory", "16GiB", "--policy"];
    let text = longhand(&[&plan[..], &["kvzip:heads=on,capacity=30000;full", "-ctk", "f16"]].concat()).ok();
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("---")).skip(1).take(2).collect();
    assert!(rows[0].starts_with("full ") && rows[1].starts_with("kvzip:heads=on,"), "{text}");
    // Where nothing that is advised is possible, the others are shown.
    let text = longhand(&[&plan[..plan.len() - 1], &["--kv-budget", "5%"]].concat()).ok();
    let row = text.lines().skip_while(|line| !line.starts_with("---")).nth(1);
    assert!(row.is_some_and(|row| row.split_whitespace().take(2).eq(["kvzip", "f16"])), "{text}");
    let text = longhand(&[&plan[..], &["full", "--kv-budget", "20%"]].concat());
    assert_eq!(
        text.stdout.matches("it keeps every row, so no budget can be set").count(),
        1,
        "{}",
        text.stdout
    );
    // Most layers of this model keep a window anyway, so some advised budgets are impossible.
    let gemma = ["plan", "--shape", "gemma-3-1b", "-c", "100k", "--memory", "24GiB"];
    let explains = |more: &[&str]| longhand(&[&gemma[..], more].concat()).ok().contains("is too small for");
    assert!(explains(&["--all"]) && !explains(&[]));
}

/// `--gpu` plans for a GPU by its name.
#[test]
fn plans_for_well_known_gpus() {
    let plan =
        |flags: &[&str]| longhand(&[&["plan", "--shape", "llama-3.1-8b", "-c", "100k"], flags].concat());
    let json = |flags: &[&str]| plan(&[flags, &["--json", "--policy", "full"]].concat()).json();
    assert_eq!(json(&["--gpu", "RTX 4090"]), {
        let mut same = json(&["--device", "cuda", "--memory", "24GiB"]);
        same["answer"]["command"] = "longhand chat MODEL.gguf -f DOCUMENT -c 100000 --policy full".into();
        same
    });
    plan(&["--gpu", "4091"]).assert_failed(2, "no GPU is known by this name");
    plan(&["--gpu", "4090", "--memory", "8GiB"]).assert_failed(2, "cannot be used with");
}

/// Without a head profile the plan of a shape assumes as many retrieval heads as real models have, and prints a note. A
/// profile of the shape is used.
#[test]
fn a_head_profile_changes_the_plan_of_a_shape() {
    let session = ["-c", "100k", "--policy", "razor", "-ctk", "f16", "--memory", "64GiB"];
    let shape = [&["plan", "--shape", "qwen2.5-32b:q4_k_m"][..], &session].concat();
    let kept = (0..64).map(|layer| if layer % 2 == 0 { "[0,5]" } else { "[]" }).collect::<Vec<_>>().join(",");
    let profile = |heads: usize| {
        let text = format!(
            r#"{{"format":"longhand-heads","version":1,"layers":64,"heads":{heads},"kv_heads":8,"retrieval":[{kept}],"provenance":{{"source":"a test","fingerprint":"of a file"}}}}"#
        );
        file(&format!("profile-{heads}.json"), text)
    };
    let heads = profile(40);
    let given = [&shape[..], &["--heads", &heads]].concat();
    let number = |args: &[&str], name: &str| {
        let object = longhand(&[args, &["--json"]].concat()).json();
        let number = if name == "store" { &object["plans"][0][name] } else { &object[name] };
        number.as_u64().expect("a number")
    };
    // 36 % of 64 x 8 KV heads.
    assert_eq!((number(&shape, "retrieval_heads"), number(&given, "retrieval_heads")), (184, 64));
    assert!(number(&given, "store") < number(&shape, "store"));
    let note = "give its profile with --heads FILE";
    assert!(longhand(&shape).ok().contains(note) && !longhand(&given).ok().contains(note));
    let mha = ["plan", "--shape", "tinyllama-160m", "--policy", "razor"];
    assert!(!longhand(&mha).ok().contains(note), "each query head has a KV head of its own");
    longhand(&[&shape[..], &["--heads", &profile(48)]].concat()).assert_failed(1, "of another model");
}

/// A plan for a GPU does not need the GPU.
#[test]
fn plans_for_a_gpu_need_no_gpu() {
    let plan = |shape: &str, flags: &[&str]| {
        let shape =
            ["plan", "--shape", shape, "-c", "100k", "--device", "cuda", "--json", "--policy", "razor"];
        longhand(&[&shape[..], flags].concat()).json()["plans"][0].clone()
    };
    let number = |plan: &serde_json::Value, name: &str| plan["device"][name].as_u64().expect("a number");
    let small = plan("llama-3.1-8b:q4_k_m", &["--memory", "24GiB"]);
    assert_eq!((number(&small, "layers"), &small["fits"]), (32, &true.into()));
    let parts = ["weights", "store", "scratch", "residual", "compute", "overhead"];
    assert_eq!(parts.iter().map(|part| number(&small, part)).sum::<u64>(), number(&small, "total"));
    assert!(number(&small, "overhead") > 512 << 20, "a limit on all memory includes the driver's");
    // All weights but the embedding, which stays on the host: q4_K has 144 bytes for 256 elements.
    let embedding = 128_256 * 4096 / 256 * 144;
    assert_eq!(small["weights"]["mapped"], embedding);
    assert!((4 << 30..5 << 30).contains(&number(&small, "weights")), "{small}");

    // Layers that do not fit stay on the host.
    let large = plan("qwen2.5-32b:q4_k_m", &["--memory", "12GiB"]);
    assert!((1..64).contains(&number(&large, "layers")) && large["fits"] == false, "{large}");
    assert!(number(&large, "total") <= 12 << 30, "{large}");
    let fewer = plan("qwen2.5-32b:q4_k_m", &["--memory", "12GiB", "-ngl", "10"]);
    assert_eq!((number(&fewer, "layers"), &fewer["fits"]), (10, &true.into()));
    assert_eq!(plan("qwen2.5-32b:q4_k_m", &["-ngl", "0"])["device"], serde_json::Value::Null);
    assert_eq!(plan("qwen2.5-32b:q4_k_m", &["--memory", "600MiB"])["device"]["layers"], 0);
}

/// Two GPUs hold what none of them holds, and each of them at most its own memory.
#[test]
fn plans_for_two_gpus() {
    let plan = |flags: &[&str]| {
        let shape = ["plan", "--shape", "qwen2.5-32b:q4_k_m", "-c", "32k", "--policy", "full", "-ctk", "f16"];
        longhand(&[&shape, flags].concat())
    };
    let both = plan(&["--gpu", "4090,3060", "--json"]).json();
    let devices = both["plans"][0]["devices"].as_array().expect("a list").clone();
    let numbers = |name: &str| -> Vec<u64> {
        devices.iter().map(|device| device[name].as_u64().expect("a number")).collect()
    };
    assert_eq!((&devices[1]["device"], &both["plans"][0]["fits"]), (&"cuda:1".into(), &true.into()));
    assert_eq!(numbers("memory"), [24 << 30, 12 << 30]);
    assert_eq!(numbers("layers").iter().sum::<u64>(), 64);
    assert!(numbers("total").iter().zip(numbers("memory")).all(|(total, memory)| *total <= memory));
    for part in ["layers", "weights", "store", "compute", "overhead", "total"] {
        assert_eq!(both["plans"][0]["device"][part], numbers(part).iter().sum::<u64>(), "{part}");
    }
    let same = plan(&["--device", "CUDA0,CUDA1", "--memory", "24GiB,12GiB", "--json"]).json();
    assert_eq!(same["plans"], both["plans"]);
    let text = plan(&["--gpu", "4090,3060"]).ok();
    assert!(text.contains("\ncuda:0: 44 layers, ") && text.contains("(of a 4090 and a 3060)"), "{text}");
    // Shares that were asked for stay, whatever they cost.
    let shared = plan(&["--gpu", "4090,3060", "-ts", "1,1", "--json"]).json()["plans"][0].clone();
    assert_eq!((&shared["fits"], &shared["devices"][0]["layers"]), (&false.into(), &28.into()), "{shared}");
    let answer = plan(&["--gpu", "4090,4090", "-ts", "3,1", "--json"]).json()["answer"].clone();
    let split = format!("--tensor-split {}", shell_word("3,1"));
    assert!(answer["command"].as_str().is_some_and(|command| command.contains(&split)), "{answer}");
    for (flags, part) in [
        (&["--gpu", "4090,3060", "-ts", "1,1,1"][..], "these are 3 shares, and 2 GPUs compute"),
        (&["--gpu", "4090,3060", "-ts", "0,0"], "no device would have a layer"),
        (&["--gpu", "4090,3060", "-ts", "1,-1"], "-1 is no number from 0 on"),
        (&["--gpu", "4090,3060", "-ts", "nan,1"], "NaN is no number from 0 on"),
        (&["--device", "cuda:0,cuda:1", "--memory", "8GiB,8GiB,8GiB"], "3 limits on memory: 2 GPUs compute"),
    ] {
        plan(flags).assert_failed(1, part);
    }
    plan(&["--gpu", "4090,3060", "-ts", "1,x"]).assert_failed(2, "`x` is not a share");
    plan(&["--gpu", "4090,4091"]).assert_failed(2, "no GPU is known by this name");
    plan(&["--device", "cuda:1,cuda:1"]).assert_failed(2, "cuda:1 is there twice");
}

/// Where a GPU has no room for the activations of a document, main memory has, and all layers are on the GPU.
#[test]
fn plans_move_activations_to_main_memory() {
    fn plan(context: &str) -> Vec<&str> {
        let shape = ["plan", "--shape", "qwen2.5-32b:q4_k_m", "--gpu", "4090", "--policy", "razor"];
        [&shape[..], &["-ctk", "iq4_nl", "-ctv", "iq4_nl", "-c", context]].concat()
    }
    let json = |context: &str| {
        let plan = longhand(&[&plan(context)[..], &["--json"]].concat()).json()["plans"][0].clone();
        let number = |value: &serde_json::Value| value.as_u64().expect("a number");
        assert_eq!((number(&plan["device"]["layers"]), &plan["fits"]), (64, &true.into()), "{plan}");
        (number(&plan["residual"]), number(&plan["device"]["residual"]))
    };
    // 5,120 numbers of 4 bytes a token, in chunks of 512, and one chunk more.
    let stream = |chunks: u64| 5120 * 4 * 512 * chunks;
    assert_eq!(json("51200"), (0, stream(101)));
    assert_eq!(json("102400"), (stream(201), stream(2)));
    let note = ", 1.96 GiB of it for the activations of the document";
    assert!(
        longhand(&plan("102400")).ok().contains(note)
            && !longhand(&plan("51200")).ok().contains("main memory")
    );
}

/// Experts leave the GPU before whole layers do. What is asked for stays.
#[test]
fn plans_for_a_gpu_move_experts_before_layers() {
    let plan = |flags: &[&str]| {
        let shape = ["plan", "--shape", "qwen3-30b-a3b:q4_k_m", "-c", "32k", "--device", "cuda", "--json"];
        longhand(&[&shape[..], &["--policy", "full", "-ctk", "f16"], flags].concat()).json()["plans"][0]
            .clone()
    };
    let number = |plan: &serde_json::Value, name: &str| plan["device"][name].as_u64().expect("a number");
    let placed = |plan: &serde_json::Value| (number(plan, "layers"), number(plan, "n_cpu_moe"));
    let large = plan(&["--memory", "48GiB"]);
    assert_eq!((placed(&large), &large["fits"]), ((48, 0), &true.into()));
    let medium = plan(&["--memory", "16GiB"]);
    assert_eq!((number(&medium, "layers"), &medium["fits"]), (48, &true.into()), "{medium}");
    assert!((1..48).contains(&number(&medium, "n_cpu_moe")), "{medium}");
    assert!((15 << 30..=16 << 30).contains(&number(&medium, "total")), "{medium}");
    let small = plan(&["--memory", "3GiB"]);
    assert_eq!((number(&small, "n_cpu_moe"), &small["fits"]), (48, &false.into()), "{small}");
    assert!((1..48).contains(&number(&small, "layers")), "{small}");

    let (none, ten) =
        (plan(&["--memory", "48GiB", "--cpu-moe"]), plan(&["--memory", "48GiB", "-ncmoe", "10"]));
    assert_eq!((placed(&none), placed(&ten)), ((48, 48), (48, 10)));
    assert_eq!(placed(&plan(&["--memory", "48GiB", "-ngl", "40", "-ncmoe", "10"])), (40, 10));
    // A router is f32.
    let router = 2048 * 128 * 4;
    assert!(number(&large, "weights") - number(&none, "weights") > 48 * router, "{none}");
    let on_host = |plan: &serde_json::Value| {
        plan["weights"]["total"].as_u64().expect("bytes") - number(plan, "weights")
    };
    assert!(on_host(&none) - on_host(&large) > 14 << 30, "{none}");
    // All that is in every layer is still there.
    assert_eq!(number(&large, "store"), number(&none, "store"));
}

#[test]
fn plans_tell_where_experts_are() {
    let plan = |shape: &str, flags: &[&str]| {
        longhand(&[&["plan", "--shape", shape, "-c", "16k", "--policy", "razor"], flags].concat()).ok()
    };
    let text = plan("gpt-oss-20b:mxfp4_moe", &["--gpu", "3070"]);
    assert!(text.starts_with("Yes: "), "{text}");
    assert!(
        text.contains("of the 24 layers on the GPU have their experts on the CPU (--n-cpu-moe)"),
        "{text}"
    );
    assert!(text.contains(" without experts"), "{text}");
    let text = plan("gpt-oss-20b:mxfp4_moe", &["--gpu", "3070", "--cpu-moe"]);
    assert!(text.contains("note: 24 of the 24 layers") && text.contains(" --n-cpu-moe all"), "{text}");
    let unused = |text: &str, why: &str| {
        assert!(text.contains(&format!("note: --n-cpu-moe has no effect: {why}")), "{text}");
    };
    unused(&plan("llama-3.2-1b", &["--gpu", "3070", "--cpu-moe"]), "the model has no experts");
    let on_cpu = ["--device", "cpu", "--memory", "64GiB", "-ncmoe", "3"];
    unused(&plan("gpt-oss-20b:mxfp4_moe", &on_cpu), "no GPU is planned for");
    unused(&longhand(&["ask", "--cpu-moe", "-n", "1", "Why?"]).stderr, "the model has no experts");
    let mut from_settings = command(&["plan", "--shape", "gpt-oss-20b:mxfp4_moe", "--gpu", "4090", "--json"]);
    let output = from_settings.env("LONGHAND_N_CPU_MOE", "5").output().expect("the program starts");
    assert_eq!(finished(output).json()["plans"][0]["device"]["n_cpu_moe"], 5);
}

/// The kernels of GPUs have smaller heads: ggml's operations compute these.
#[test]
fn a_model_with_large_heads_is_planned_for_a_gpu() {
    let like = ModelShape::find("qwen3-0.6b").expect("a shape");
    let shape = ModelShape { n_layers: 1, n_vocab: 300, head_dim: 512, ..*like };
    let mut bytes = Vec::new();
    shape.write_synthetic(FileType::Q8_0, &mut bytes, &mut |_, _| ()).expect("written");
    let model = file("large-heads.gguf", bytes);
    let note = "note: ggml's operations compute attention on the GPU";
    for device in [&["--gpu", "4090"][..], &["--device", "cuda", "--memory", "24GiB"]] {
        let plan = longhand(&[&["plan", "-m", &model], device].concat()).ok();
        assert!(plan.starts_with("Yes") && plan.contains(note), "{plan}");
    }
    let plan = longhand(&["plan", "-m", &model, "-c", "1000", "--device", "cpu"]).ok();
    assert!(plan.starts_with("Yes") && !plan.contains(note), "{plan}");
}

#[test]
fn policies_are_listed_with_their_parameters() {
    let list = longhand(&["policies"]).ok();
    for part in ["\nfull: ", "\nrazor: ", "\n  buffer=4000: ", "(avg, max)", "every policy but full:"] {
        assert!(list.contains(part), "{part} in {list}");
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let help = longhand(&["help", "policies"]).ok();
    assert!(words(&help).starts_with(&words(&list)), "{help}");
}

#[test]
fn devices_are_listed() {
    let object = longhand(&["devices", "--json"]).json();
    assert!(object["cpu"]["threads"].as_u64() > Some(0));
    let gpus = object["gpus"].as_array().expect("an array").len();
    assert_eq!(gpus == 0, object["problem"].is_string(), "{object}");
    assert!(longhand(&["devices"]).ok().contains("cpu"));
}

#[test]
fn published_head_maps_can_be_imported() {
    let map = "duo-attention:llama-3.1-8b-instruct";
    let out = scratch("files").join("duo.json");
    let out = out.to_str().expect("a path that is text");
    let text =
        longhand(&["heads", "import", map, "--shape", "llama-3.1-8b", "--share", "0.25", "--out", out]).ok();
    assert!(text.starts_with("64 of 256 KV heads keep everything"), "{text}");
    let text = longhand(&["heads", "import", map, "--shape", "llama-3.1-8b", "--out", out]).ok();
    assert!(text.starts_with("128 of 256 KV heads keep everything"), "{text}");
    let shown = longhand(&["heads", "show", "--heads", out]).ok();
    assert!(shown.lines().filter(|line| line.contains('!')).count() > 16, "{shown}");
    longhand(&["heads", "import", map]).assert_failed(1, "another model");
    longhand(&["heads", "import", map, "--shape", "llama-3.1-8b"]).assert_failed(2, "--shape needs --out");
    longhand(&["heads", "import", "duo-attention:gpt-2"])
        .assert_failed(1, "use one of duo-attention:llama-2-7b");
}

#[test]
fn an_imported_retrieval_head_file_can_be_used() {
    let scores: Vec<String> = (0..4)
        .flat_map(|layer| {
            (0..8).map(move |head| format!("\"{layer}-{head}\": [{}]", if layer == 3 { 0.5 } else { 0.0 }))
        })
        .collect();
    let map = file("retrieval.json", format!("{{{}}}", scores.join(", ")));
    let out = scratch("files").join("retrieval-heads.json");
    let out = out.to_str().expect("a path that is text");
    let text = longhand(&["heads", "import", &map, "--out", out]).ok();
    assert!(text.starts_with("4 of 16 KV heads keep everything"), "{text}");
    let object = longhand(&["ask", "--json", "--policy", "razor", "--heads", out, "-n", "4", "Why?"]).json();
    assert_eq!((&object["retrieval_heads"], &object["kv_heads"]), (&4.into(), &16.into()));
}

#[test]
fn bench_prints_llama_cpps_columns() {
    let args = [
        "bench",
        "-p",
        "16",
        "-n",
        "4",
        "-d",
        "0,32",
        "-r",
        "2",
        "--policy",
        "full;razor:buffer=8,ratio=5,sinks=2",
        "--heads-share",
        "0.25",
        "--fill",
        "random",
    ];
    let rows = longhand(&[&args[..], &["-o", "json"]].concat()).json();
    let rows = rows.as_array().expect("an array");
    assert_eq!(rows.len(), 8);
    for row in rows {
        for name in ["avg_ts", "avg_ns", "memory_bytes_per_second", "operations_per_second"] {
            assert!(row[name].as_f64() > Some(0.0), "{name}: {row}");
        }
        for name in ["n_prompt", "n_gen", "n_depth", "n_threads", "stddev_ts", "stddev_ns", "kv_bytes"] {
            assert!(row[name].is_number(), "{name}: {row}");
        }
        assert_eq!(row["samples_ns"].as_array().map(Vec::len), Some(2));
        assert_eq!(
            (&row["type_k"], &row["type_v"], &row["fill"]),
            (&"f16".into(), &"f16".into(), &"random".into())
        );
        assert_eq!(row["bytes_per_second"].is_number(), row["n_gen"] == 4);
    }
    let at_depth = |policy: &str| {
        let is = |row: &&serde_json::Value| {
            row["n_gen"] == 4
                && row["n_depth"] == 32
                && row["policy"].as_str().is_some_and(|p| p.starts_with(policy))
        };
        rows.iter().find(is).expect("a row")["kv_bytes"].as_u64().expect("a number")
    };
    // 32 to 36 tokens in 16 heads of 64 elements, f16
    assert_eq!(at_depth("full"), 34 * 16 * 256);
    assert!(at_depth("razor") < at_depth("full"));
    let table = longhand(&args).ok();
    assert!(table.starts_with("| model") && table.contains("tg4 @ d32") && table.contains(" ± "), "{table}");
    let csv = longhand(&[&args[..], &["-o", "csv"]].concat()).ok();
    assert_eq!(csv.lines().count(), 9);
}
