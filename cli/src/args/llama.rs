//! llama.cpp's flags of several letters behind one dash (`-ctk`), which no other program's conventions know, as the long flags they
//! mean. Those that mean nothing here are translated too, so that they are refused by their name and not as `-n gl`.

use std::ffi::OsString;

const FLAGS: &[(&str, &str)] = &[
    ("-ctk", "--cache-type-k"),
    ("-ctv", "--cache-type-v"),
    ("-ub", "--ubatch-size"),
    ("-sys", "--system-prompt"),
    ("-ngl", "--n-gpu-layers"),
    ("-fa", "--flash-attn"),
    ("-tb", "--threads-batch"),
    ("-hf", "--hf-repo"),
    ("-dev", "--device"),
    ("-cnv", "--conversation"),
    ("-pg", "--prompt-gen"),
];

/// The same arguments with long flags; what stands after `--` is left alone.
pub fn translate(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut literal = false;
    let one = |argument: OsString| {
        literal |= argument == "--";
        let Some(text) = argument.to_str().filter(|_| !literal) else { return argument };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        match FLAGS.iter().find(|(short, _)| *short == name) {
            Some((_, long)) => value.map_or((*long).into(), |value| format!("{long}={value}").into()),
            None => argument,
        }
    };
    arguments.into_iter().map(one).collect()
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
}
