//! Examples: those that `longhand` alone prints, and those at the end of every command's help. All of them
//! work as they are, once the files they name are there.

/// What `longhand` alone prints.
pub const START: &str = "\
longhand answers questions about long documents, with a model on this machine.

Try it with the small built-in model:
  longhand demo
  longhand ask \"The pass key is 9078648. What is the pass key?\"
  longhand chat

See what fits a GPU before you download a model, and which models you already have:
  longhand plan --shape llama-3.1-8b -c 100k --gpu 4090
  longhand models

With your own model and document: longhand ask MODEL FILE \"QUESTION\"
All commands: longhand --help
";

/// An example: what it is for, and the command line.
type Example = (&'static str, &'static str);

/// The examples of each command, by its name after `longhand`.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "demo",
        &[
            ("the whole demonstration, less than a minute", "longhand demo"),
            ("a shorter document with fewer facts", "longhand demo --tokens 2k --facts 3"),
        ],
    ),
    (
        "chat",
        &[
            ("with the small built-in model", "longhand chat"),
            ("about a document", "longhand chat model.gguf book.txt"),
            ("with a conversation that can be continued", "longhand chat -f book.txt --session book.session"),
        ],
    ),
    (
        "ask",
        &[
            ("one question", "longhand ask \"The pass key is 9078648. What is the pass key?\""),
            (
                "two questions about a document",
                "longhand ask model.gguf book.txt \"Who is the narrator?\" \"Where does it end?\"",
            ),
            (
                "each document on its own, for a program",
                "longhand ask --each --json *.txt \"Who is the narrator?\"",
            ),
        ],
    ),
    (
        "read",
        &[
            ("over night, for questions tomorrow", "longhand read book.txt -m model.gguf --disk-cache 20GiB"),
            (
                "with the cache that the questions will use",
                "longhand read book.txt --policy razor --disk-cache 20GiB",
            ),
        ],
    ),
    (
        "documents",
        &[
            ("the documents that need not be read again", "longhand documents"),
            ("remove one of them", "longhand documents remove book.txt"),
        ],
    ),
    (
        "documents list",
        &[("a table", "longhand documents list"), ("for a program", "longhand documents list --json")],
    ),
    (
        "documents remove",
        &[
            ("by the name of the file", "longhand documents remove book.txt"),
            ("all of them", "longhand documents remove --all"),
        ],
    ),
    (
        "sessions",
        &[
            ("the kept conversations", "longhand sessions list"),
            ("in which one was it?", "longhand sessions search favorite number"),
            ("are they undamaged?", "longhand sessions verify"),
        ],
    ),
    (
        "sessions list",
        &[("a table", "longhand sessions list"), ("for a program", "longhand sessions list --json")],
    ),
    (
        "sessions show",
        &[
            ("the last conversation", "longhand sessions show"),
            ("a session file", "longhand sessions show book.session"),
        ],
    ),
    (
        "sessions search",
        &[
            ("lines with both words", "longhand sessions search favorite number"),
            ("for a program", "longhand sessions search favorite --json"),
        ],
    ),
    (
        "sessions verify",
        &[
            ("all kept conversations", "longhand sessions verify"),
            ("a session file", "longhand sessions verify book.session"),
        ],
    ),
    (
        "sessions export",
        &[
            ("the last conversation as Markdown", "longhand sessions export > conversation.md"),
            ("a session file", "longhand sessions export book.session"),
        ],
    ),
    ("sessions rename", &[("a name that says more", "longhand sessions rename book book-first-reading")]),
    (
        "sessions fork",
        &[
            ("another way to go on", "longhand sessions fork book"),
            ("with a name", "longhand sessions fork book book-questions"),
        ],
    ),
    ("sessions remove", &[("all kept conversations", "longhand sessions remove --all")]),
    (
        "plan",
        &[
            ("does a context of 100,000 tokens fit here?", "longhand plan model.gguf -c 100k"),
            (
                "and on a GPU, before the download?",
                "longhand plan --shape llama-3.1-8b:q4_k_m -c 100k --gpu 4090",
            ),
            ("every policy and type", "longhand plan --shape llama-3.1-8b -c 100k --memory 16GiB --all"),
        ],
    ),
    (
        "policies",
        &[
            ("all policies", "longhand policies"),
            (
                "one of them, with a parameter",
                "longhand ask --policy razor:buffer=256 -f book.txt \"Who is the narrator?\"",
            ),
        ],
    ),
    (
        "heads",
        &[
            ("find the retrieval heads of a model", "longhand heads calibrate model.gguf"),
            ("draw those of the built-in model", "longhand heads show"),
        ],
    ),
    (
        "heads calibrate",
        &[
            ("once for each model", "longhand heads calibrate model.gguf"),
            ("with a copy to look at", "longhand heads calibrate --period 500 --out heads.json"),
        ],
    ),
    (
        "heads show",
        &[
            ("the built-in model", "longhand heads show"),
            ("a profile in a file", "longhand heads show --heads heads.json"),
        ],
    ),
    (
        "heads import",
        &[
            ("for a model file", "longhand heads import retrieval.json -m model.gguf"),
            (
                "for a well-known model",
                "longhand heads import duo-attention:llama-3.1-8b-instruct --shape llama-3.1-8b --out heads.json",
            ),
        ],
    ),
    (
        "heads random",
        &[
            ("the profile to compare with", "longhand heads calibrate --out heads.json"),
            ("as many heads, at random", "longhand heads random heads.json --seed 2 --out random.json"),
        ],
    ),
    (
        "bench",
        &[
            ("reading 512 tokens and generating 128", "longhand bench model.gguf -p 512 -n 128"),
            (
                "generating after 2,000 tokens",
                "longhand bench -p 0 -n 32 -d 2000 -r 2 --policy \"full;razor\"",
            ),
        ],
    ),
    (
        "recall",
        &[
            ("all policies, about half an hour", "longhand recall"),
            (
                "two policies, quickly",
                "longhand recall -c 2k --questions 10 --kv-budget 25% --policy \"razor;streaming\"",
            ),
        ],
    ),
    (
        "eval",
        &[
            (
                "a few texts of RULER, with a quarter of the cache",
                "longhand eval niah_single_1 vt -m model.gguf -c 1k --samples 2 --policy \"razor;snapkv\"",
            ),
            (
                "all of RULER on a model, with its essays and question sets",
                "longhand eval ruler -m model.gguf --data ruler -c 4096,8192",
            ),
            (
                "the second of eight parts, for a cluster",
                "longhand eval ruler -m model.gguf --data ruler --shard 2/8",
            ),
        ],
    ),
    ("devices", &[("a table", "longhand devices"), ("for a program", "longhand devices --json")]),
    (
        "serve",
        &[
            ("for programs on this machine", "longhand serve model.gguf"),
            (
                "questions about a document, for four people at once",
                "longhand serve model.gguf -f book.txt -np 4",
            ),
            (
                "for a network, with the keys in a file",
                "longhand serve model.gguf --host 0.0.0.0 --api-key-file keys.txt",
            ),
        ],
    ),
    (
        "rpc-server",
        &[
            ("for programs on this machine, and for ssh", "longhand rpc-server"),
            ("for a network without strangers", "longhand rpc-server --host 0.0.0.0 --port 50052"),
        ],
    ),
    (
        "models",
        &[
            ("all that are found", "longhand models"),
            ("with those of a folder", "longhand models --model-folders . --json"),
            (
                "one of Hugging Face, downloaded once",
                "longhand chat -hf Qwen/Qwen2.5-7B-Instruct-GGUF:Q4_K_M",
            ),
        ],
    ),
    (
        "completions",
        &[("for this shell", "longhand completions bash"), ("for fish", "longhand completions fish")],
    ),
    (
        "man",
        &[("the page of a command", "longhand man ask"), ("the pages of all commands", "longhand man man1")],
    ),
    (
        "config",
        &[("what holds, and why", "longhand config"), ("where the config file is", "longhand config path")],
    ),
    (
        "inspect",
        &[
            ("a model file", "longhand inspect model.gguf"),
            ("the built-in model, for a program", "longhand inspect --json"),
        ],
    ),
    (
        "text",
        &[
            ("what a model reads of a document", "longhand text book.txt"),
            ("with the notes, for a program", "longhand text --json book.txt"),
        ],
    ),
    (
        "tokenize",
        &[
            ("a text", "longhand tokenize -p \"Who wrote it?\""),
            ("a file, with another model's vocabulary", "longhand tokenize model.gguf -f book.txt"),
        ],
    ),
    (
        "logits",
        &[
            ("three tokens of the built-in model", "longhand logits --tokens 5,6,7 -o logits.npy"),
            (
                "another model, as exactly as possible",
                "longhand logits model.gguf --tokens 5,6,7 -o logits.npy -ctk f32 -ctv f32",
            ),
        ],
    ),
];

/// The end of a command's help, for example of `longhand heads show`; empty for commands without examples.
pub fn of_command(name: &str) -> String {
    let name = name.trim_start().strip_prefix("longhand ").unwrap_or_default();
    let examples = EXAMPLES.iter().find(|(command, _)| *command == name).map_or(&[][..], |(_, list)| list);
    let mut text = String::new();
    for (what, line) in examples {
        text += if text.is_empty() { "Examples:\n" } else { "\n" };
        text += &format!("  # {what}\n  {line}\n");
    }
    text.trim_end().to_owned()
}
