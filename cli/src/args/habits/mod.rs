//! What users of other programs type: commands of Ollama, flags of llama-cli. Where longhand has the same, the words are
//! aliases, or flags in `llama`; for the others this file says what to use instead.

pub mod llama;
pub mod quotes;

use terminal::format::shell_word;

/// Commands of other programs, and what to do here.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["server", "start"], "`longhand serve MODEL` answers other programs"),
    (
        &["pull", "download", "get", "install"],
        "-hf downloads a model when it is used first: longhand chat -hf OWNER/REPOSITORY:Q4_K_M",
    ),
    (
        &["rm", "delete", "remove"],
        "delete the model's file: `longhand models --json` prints its path; `longhand sessions remove` removes \
         conversations",
    ),
    (
        &["ps", "stop", "unload"],
        "no model stays loaded when the program has ended; `longhand devices` shows the free memory",
    ),
    (&["generate", "prompt", "query"], "`longhand ask` answers questions, `longhand chat` is a conversation"),
    (&["cli", "interactive"], "`longhand chat` is a conversation, `longhand ask` answers and ends"),
    (&["info"], "`longhand inspect MODEL` shows what a model file contains"),
    (&["version"], "`longhand --version` prints the version"),
    #[cfg(feature = "lab")]
    (&["perplexity"], "`longhand eval perplexity` measures it"),
    #[cfg(not(feature = "lab"))]
    (
        &["eval", "recall", "perplexity"],
        "this longhand was built without the feature `lab`; build it with the default features",
    ),
    (&["fit", "fit-params"], "`longhand plan` says what fits the memory"),
    (
        &["create", "push", "cp", "quantize", "convert", "embed", "embedding", "rerank", "search", "launch"],
        "longhand runs GGUF files as they are, for text only; `longhand --help` lists the commands",
    ),
];

/// Flags of llama.cpp and Ollama that longhand does not have, and what to use instead.
const FLAGS: &[(&[&str], &str)] = &[
    (&["--single-turn"], "`longhand ask` answers and ends"),
    (
        &["--no-conversation"],
        "`longhand ask` answers and ends; questions are always written in the model's chat template",
    ),
    (
        &["--no-jinja", "--chat-template", "--chat-template-file"],
        "the chat template is always the one in the model file",
    ),
    (&["--chat-template-kwargs", "--reasoning", "--reasoning-budget", "--reasoning-format"], "see --think"),
    (&["--system-prompt-file"], "give the text: --system-prompt \"$(cat FILE)\""),
    (&["--hf-file"], "give the file after a colon: -hf OWNER/REPOSITORY:FILE.gguf"),
    (&["--hf-token"], "set the environment variable HF_TOKEN"),
    (&["--offline"], "set HF_HUB_OFFLINE=1; a model that is here needs no network"),
    (&["--model-url"], "-hf OWNER/REPOSITORY:QUANT downloads from Hugging Face; download other files first"),
    (
        &["--prompt-cache", "--prompt-cache-all", "--slot-save-path"],
        "documents that were read are kept by themselves; `chat --session FILE` keeps a conversation",
    ),
    (
        &["--context-shift"],
        "nothing is ever cut off: a text that does not fit is an error; --policy says what is kept",
    ),
    (&["--fit", "--fit-target", "--fit-ctx"], "the default policy fits the memory; `longhand plan` says how"),
    (&["--escape", "--no-escape"], "texts are taken as they are; in bash, $'a\\nb' has a line break"),
    (
        &["--split-mode", "--main-gpu"],
        "layers are always whole; --device cuda:N computes on one GPU, --tensor-split 3,1 shares layers among several",
    ),
    (
        &["--no-kv-offload", "--kv-offload"],
        "keys and values are where their layer is; -ngl says how many layers the GPU has",
    ),
    (&["--model-draft", "--hf-repo-draft", "--draft-max", "--spec-type"], "longhand has no draft models"),
    (
        &["--lora", "--lora-scaled", "--control-vector"],
        "longhand has no adapters; merge them into the model file",
    ),
    (&["--mmproj", "--image", "--audio"], "longhand reads text only"),
    (
        &["--grammar", "--grammar-file", "--json-schema", "--json-schema-file"],
        "`longhand ask` has --json-schema, and --grammar-file for grammars in Lark",
    ),
    (&["--host", "--port", "--api-key"], "`longhand serve MODEL` is the server, and has these flags"),
    (
        &[
            "--rope-scaling",
            "--rope-scale",
            "--rope-freq-base",
            "--rope-freq-scale",
            "--yarn-ext-factor",
            "--yarn-orig-ctx",
        ],
        "positions are as the model file says; a copy of the file with other metadata changes them",
    ),
    (&["--verbose", "--log-file", "--log-verbosity"], "notes are on stderr: 2> FILE writes them to a file"),
    (&["--nowordwrap"], "--plain shows answers as the model writes them"),
    (&["--keepalive"], "no model stays loaded when the program has ended"),
    (&["--format"], "`ask --json` prints JSON around answers; `ask --json-schema FILE` gives them a form"),
    (&["--numa", "--prio", "--poll", "--cpu-mask", "--cpu-range"], "use numactl, nice or taskset"),
];

/// What to use here instead of a command of another program.
pub fn command_hint(command: &str) -> Option<&'static str> {
    find(COMMANDS, command)
}

/// What to use here instead of a flag of another program, with its dashes.
pub fn flag_hint(flag: &str) -> Option<&'static str> {
    find(FLAGS, flag)
}

fn find(table: &[(&[&str], &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(names, _)| names.contains(&name)).map(|(_, hint)| *hint)
}

/// What to do about a question where a command should be.
pub fn question_hint(text: &str) -> Option<String> {
    text.contains(char::is_whitespace)
        .then(|| format!("to ask a question: longhand ask {}", shell_word(text)))
}
