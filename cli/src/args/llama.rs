//! llama.cpp's flags. Those of several letters behind one dash (`-ctk`), which no other program's conventions know, become the long
//! flags they mean; those for what longhand decides by itself are accepted with a word about what happens instead, so that a command
//! line can be taken over as it is. The others are refused by their long name and not as `-n gl`.

use std::ffi::OsString;

use clap::Args;

const FLAGS: &[(&str, &str)] = &[
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-ub", "--ubatch-size"),
    ("-sys", "--system-prompt"),
    ("-ngl", "--n-gpu-layers"),
    ("-fa", FLASH),
    ("-tb", "--threads-batch"),
    ("-hf", "--hf-repo"),
    ("-dev", "--device"),
    ("-cnv", "--conversation"),
    ("-pg", "--prompt-gen"),
];

const FLASH: &str = "--flash-attn";
/// What `--flash-attn` is followed by; older command lines have nothing there.
const FLASH_VALUES: [&str; 5] = ["on", "off", "auto", "0", "1"];

/// Flags of llama.cpp that change nothing here.
#[derive(Clone, Debug, Args)]
pub struct UnusedArgs {
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = FLASH_VALUES)]
    flash_attn: Option<String>,
    #[arg(long, hide = true, value_parser = super::values::threads)]
    threads_batch: Option<usize>,
    #[arg(long, hide = true)]
    mlock: bool,
    #[arg(long, hide = true)]
    no_mmap: bool,
}

impl UnusedArgs {
    /// What happens instead, for every flag that was given.
    pub fn notes(&self) -> Vec<&'static str> {
        let all = [
            (self.flash_attn.is_some(), "-fa is not used: attention never holds a whole matrix of scores"),
            (self.threads_batch.is_some(), "-tb is not used: -t threads read texts and answer"),
            (
                self.mlock,
                "--mlock is not used: the system may take back what it can read from the file again",
            ),
            (self.no_mmap, "--no-mmap is not used: the file is mapped, and copied where that is faster"),
        ];
        all.into_iter().filter_map(|(given, note)| given.then_some(note)).collect()
    }
}

/// The same arguments with long flags; what stands after `--` is left alone.
pub fn translate(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut literal = false;
    let mut all: Vec<OsString> = Vec::new();
    for argument in arguments {
        literal |= argument == "--";
        let Some(text) = argument.to_str().filter(|_| !literal) else {
            all.push(argument);
            continue;
        };
        if let Some(flag) = all.last_mut().filter(|flag| *flag == FLASH)
            && FLASH_VALUES.contains(&text)
        {
            // The value is optional, so clap wants it in the same argument.
            *flag = format!("{FLASH}={text}").into();
            continue;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        all.push(match FLAGS.iter().find(|(short, _)| *short == name) {
            Some((_, long)) => value.map_or((*long).into(), |value| format!("{long}={value}").into()),
            None => argument,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flags_before_the_double_dash_change() {
        let given = ["longhand", "-ctk", "f32", "-ctv=q8_0", "-c", "5", "--", "-ctk"].map(OsString::from);
        let want = ["longhand", "--cache-type-k", "f32", "--cache-type-v=q8_0", "-c", "5", "--", "-ctk"];
        assert_eq!(translate(given.to_vec()), want.map(OsString::from));
    }

    #[test]
    fn flash_attention_has_a_value_or_none() {
        let of = |arguments: &[&str]| translate(arguments.iter().map(OsString::from).collect());
        assert_eq!(of(&["-fa", "auto", "Why?"]), ["--flash-attn=auto", "Why?"]);
        assert_eq!(of(&["-fa", "Why?"]), ["--flash-attn", "Why?"]);
        assert_eq!(of(&["--flash-attn", "1", "1"]), ["--flash-attn=1", "1"]);
        assert_eq!(of(&["-fa", "--", "on"]), ["--flash-attn", "--", "on"]);
    }
}
