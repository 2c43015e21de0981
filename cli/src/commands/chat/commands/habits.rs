//! Commands of Ollama, llama-cli and other programs, for users whose fingers know them.

use std::borrow::Cow;

/// What a command of another program is here.
#[derive(Debug, PartialEq, Eq)]
pub enum Habit<'a> {
    /// This command.
    Command(Cow<'a, str>),
    /// There is no such command. This says what to do instead.
    Advice(&'static str),
}

/// What a command with its argument is here; `None` if no other program has it.
pub fn habit<'a>(name: &str, argument: &'a str) -> Option<Habit<'a>> {
    let command = |command: &'static str| Some(Habit::Command(command.into()));
    let with_argument = |command: &str| Some(Habit::Command(format!("{command} {argument}").into()));
    let advice = |advice| Some(Habit::Advice(advice));
    match (name, argument) {
        ("/bye" | "/quit" | "/q", "") => command("/exit"),
        ("/?" | "/h", _) => command("/help"),
        ("/new" | "/reset", "") => command("/clear"),
        ("/retry" | "/regenerate", "") => command("/regen"),
        ("/load" | "/run", _) => with_argument("/model"),
        ("/models" | "/list", "") => command("/model"),
        ("/add" | "/attach" | "/file" | "/glob", _) => with_argument("/read"),
        ("/image" | "/audio", _) => advice("longhand reads text only; /read FILE reads a document"),
        ("/show", "system") => command("/system"),
        ("/show", "parameters") => command("/set"),
        ("/show", "info" | "modelfile" | "template" | "license") => {
            advice("/model shows the model, /set the sampling, /system the system message, /stats the sizes")
        }
        ("/set", argument) => setting(argument),
        _ => None,
    }
}

/// Ollama's `/set`: other names of our settings, and switches that are commands here.
fn setting(argument: &str) -> Option<Habit<'_>> {
    let (name, value) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let value = value.trim();
    let command = |command: &'static str| Some(Habit::Command(command.into()));
    match name {
        "parameter" => {
            let (name, value) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
            let name = match name {
                "num_predict" => "n".to_owned(),
                "num_ctx" => return Some(Habit::Command(format!("/ctx {}", value.trim()).into())),
                name => name.replace('_', "-"),
            };
            Some(Habit::Command(format!("/set {name} {}", value.trim()).into()))
        }
        "system" => {
            let text = value.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(value);
            // Without a text, `/system` shows the message; with an empty one it removes it.
            Some(Habit::Command(format!("/system {}", if text.is_empty() { "\"\"" } else { text }).into()))
        }
        "think" => command("/think on"),
        "nothink" => command("/think off"),
        "verbose" | "quiet" => {
            Some(Habit::Advice("/stats shows tokens and speeds; --quiet starts a chat without notes"))
        }
        "history" | "nohistory" => {
            Some(Habit::Advice("`longhand chat --private` keeps nothing; /exit leaves this chat"))
        }
        "wordwrap" | "nowordwrap" | "format" | "noformat" => {
            Some(Habit::Advice("--plain starts a chat whose answers are shown as the model writes them"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_other_programs_are_ours() {
        for (name, argument, ours) in [
            ("/bye", "", "/exit"),
            ("/?", "", "/help"),
            ("/? ", "", ""),
            ("/load", "qwen", "/model qwen"),
            ("/glob", "*.rs", "/read *.rs"),
            ("/show", "system", "/system"),
            ("/set", "parameter temperature 0.7", "/set temperature 0.7"),
            ("/set", "parameter top_k 20", "/set top-k 20"),
            ("/set", "parameter num_ctx 4096", "/ctx 4096"),
            ("/set", "system \"Be brief.\"", "/system Be brief."),
            ("/set", "nothink", "/think off"),
        ] {
            let expected = (!ours.is_empty()).then_some(Habit::Command(ours.into()));
            assert_eq!(habit(name, argument), expected, "{name} {argument}");
        }
        assert!(matches!(habit("/set", "verbose"), Some(Habit::Advice(_))));
        // What is a command here stays one.
        for (name, argument) in
            [("/set", "temp 0.8"), ("/set", ""), ("/clear", ""), ("/read", "a"), ("/bye", "x")]
        {
            assert_eq!(habit(name, argument), None, "{name} {argument}");
        }
    }
}
