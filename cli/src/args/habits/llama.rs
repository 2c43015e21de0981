//! Flags of llama.cpp, so that its command lines can be reused. Flags with one dash and several letters
//! (`-ctk`) become long flags, which clap can parse. Flags that longhand does not need are accepted with a
//! note. Errors about flags name the long flag; clap would read `-hf` as `-h f`.

use std::ffi::OsString;

use clap::{ArgAction, Args};

/// Flags with several letters and the long flags they become, and flags that give another one a value.
const FLAGS: &[(&str, &str)] = &[
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-ub", "--ubatch-size"),
    ("-sys", "--system-prompt"),
    ("-ngl", "--n-gpu-layers"),
    ("-ncmoe", "--n-cpu-moe"),
    ("-cmoe", "--n-cpu-moe=all"),
    ("--cpu-moe", "--n-cpu-moe=all"),
    ("-fa", FLASH_ATTN),
    ("-tb", "--threads-batch"),
    ("-hf", "--hf-repo"),
    ("-hfr", "--hf-repo"),
    ("-hff", "--hf-file"),
    ("-hft", "--hf-token"),
    ("-hfd", "--hf-repo-draft"),
    ("-mu", "--model-url"),
    ("-md", "--model-draft"),
    ("-sysf", "--system-prompt-file"),
    ("-dev", "--device"),
    ("-cnv", "--conversation"),
    ("-no-cnv", "--no-conversation"),
    ("-st", "--single-turn"),
    ("-if", "--interactive-first"),
    ("-co", COLOR),
    ("-sm", "--split-mode"),
    ("-mg", "--main-gpu"),
    ("-ts", "--tensor-split"),
    ("-nkvo", "--no-kv-offload"),
    ("-pg", "--prompt-gen"),
    ("-jf", "--json-schema"),
    ("-np", "--parallel"),
];

const FLASH_ATTN: &str = "--flash-attn";
const COLOR: &str = "--color";
/// Values of `--flash-attn` and `--color`. Older command lines give none.
const SWITCH_VALUES: [&str; 5] = ["on", "off", "auto", "0", "1"];

/// Flags of llama.cpp that have no effect.
#[derive(Clone, Debug, Args)]
pub struct UnusedArgs {
    #[arg(
        long,
        hide = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        value_parser = SWITCH_VALUES
    )]
    flash_attn: Option<String>,
    #[arg(long, hide = true, value_parser = terminal::values::threads)]
    threads_batch: Option<usize>,
    #[arg(long, hide = true)]
    mlock: bool,
    #[arg(long, hide = true)]
    no_mmap: bool,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = SWITCH_VALUES)]
    color: Option<String>,
    #[arg(long, hide = true)]
    jinja: bool,
    #[arg(long, hide = true)]
    conversation: bool,
    #[arg(long, short = 'i', hide = true, alias = "interactive-first")]
    interactive: bool,
    #[arg(long, hide = true, alias = "display-prompt")]
    no_display_prompt: bool,
    #[arg(long, hide = true)]
    no_context_shift: bool,
    #[arg(long, hide = true, action = ArgAction::Count, aliases = ["warmup", "mmap", "log-disable", "perf", "no-perf", "simple-io"])]
    no_warmup: u8,
}

impl UnusedArgs {
    /// A note for each of these flags that was given.
    pub fn notes(&self) -> Vec<&'static str> {
        let all: [(bool, &str); 10] = [
            (self.flash_attn.is_some(), "-fa is not used: attention never stores the matrix of scores"),
            (self.threads_batch.is_some(), "-tb is not used: prefill uses the -t threads too"),
            (self.mlock, "--mlock is not used: the system may drop pages of the model file from memory"),
            (
                self.no_mmap,
                "--no-mmap is not used: the file is mapped; weights are copied where that is faster",
            ),
            (self.color.is_some(), "--color is not used: a terminal has colours, unless NO_COLOR is set"),
            (self.jinja, "--jinja is not used: chat templates are always rendered"),
            (
                self.conversation || self.interactive,
                "-cnv and -i are not used: `chat` is a conversation, `ask` answers and ends",
            ),
            (self.no_display_prompt, "--no-display-prompt is not used: stdout has no prompts"),
            (self.no_context_shift, "--no-context-shift is not used: the context never shifts"),
            (
                self.no_warmup > 0,
                "llama.cpp's flags for warm-up, mapping, logs and timings are not used: they change no answer",
            ),
        ];
        all.into_iter().filter_map(|(given, note)| given.then_some(note)).collect()
    }
}

/// Replaces flags of several letters by long flags. Arguments after `--` stay as they are.
pub fn translate(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut after_dashes = false;
    let mut translated: Vec<OsString> = Vec::new();
    for argument in arguments {
        after_dashes |= argument == "--";
        let Some(text) = argument.to_str().filter(|_| !after_dashes) else {
            translated.push(argument);
            continue;
        };
        if let Some(flag) = translated.last_mut().filter(|flag| *flag == FLASH_ATTN || *flag == COLOR)
            && SWITCH_VALUES.contains(&text)
        {
            // The value is optional, so clap needs it in the same argument.
            flag.push("=");
            flag.push(text);
            continue;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        translated.push(match FLAGS.iter().find(|(short, _)| *short == name) {
            Some((_, long)) => value.map_or((*long).into(), |value| format!("{long}={value}").into()),
            None => argument,
        });
    }
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flags_before_the_double_dash_change() {
        let given =
            ["longhand", "-ctk", "f32", "-ctv=q8_0", "-cmoe", "-c", "5", "--", "-ctk"].map(OsString::from);
        let expected = [
            "longhand",
            "--cache-type-k",
            "f32",
            "--cache-type-v=q8_0",
            "--n-cpu-moe=all",
            "-c",
            "5",
            "--",
            "-ctk",
        ];
        assert_eq!(translate(given.to_vec()), expected.map(OsString::from));
    }

    #[test]
    fn the_value_of_flash_attn_is_optional() {
        let translated = |arguments: &[&str]| translate(arguments.iter().map(OsString::from).collect());
        assert_eq!(translated(&["-fa", "auto", "Why?"]), ["--flash-attn=auto", "Why?"]);
        assert_eq!(translated(&["-fa", "Why?"]), ["--flash-attn", "Why?"]);
        assert_eq!(translated(&["--flash-attn", "1", "1"]), ["--flash-attn=1", "1"]);
        assert_eq!(translated(&["-fa", "--", "on"]), ["--flash-attn", "--", "on"]);
    }
}
