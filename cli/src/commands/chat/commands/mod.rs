//! The commands of a chat, and how a message is told from a command.

pub mod another_model;
pub mod compact;
pub mod copy;
pub mod documents;
pub mod export;
pub mod habits;
pub mod kv_head;
pub mod kv_map;
pub mod settings;
pub mod summary;
pub mod thinking;

use terminal::format;
use terminal::line::draft::DraftMessage;

/// A command of a chat.
pub struct Command {
    /// With its slash.
    pub name: &'static str,
    /// Whether a path may follow.
    pub takes_path: bool,
    /// What it does.
    help: &'static str,
}

impl Command {
    const fn new(name: &'static str, help: &'static str) -> Command {
        Command { name, takes_path: false, help }
    }

    const fn with_path(name: &'static str, help: &'static str) -> Command {
        Command { name, takes_path: true, help }
    }
}

/// The commands by what they are for, in the order of `/help`.
const GROUPS: [(&str, &[Command]); 5] = [
    (
        "Conversation",
        &[
            Command::new("/regen", "replace the last answer by a new one"),
            Command::new("/continue", "continue an answer that was cut off or interrupted"),
            Command::new("/edit", "change the last question and ask it again"),
            Command::new("/undo", "remove the last question and its answer"),
            Command::new(
                "/compact",
                "replace questions and answers by a summary, so that there is room for more",
            ),
            Command::new("/clear", "start a new conversation about the same documents"),
            Command::new("/history", "show the conversation so far"),
            Command::new("/copy", "copy the last answer; /copy code copies its last code block"),
            Command::new("/prompt", "list the saved prompts; /prompt NAME asks one"),
        ],
    ),
    (
        "Documents and files",
        &[
            Command::with_path("/read", "read a document: /read FILE, a folder or a pattern"),
            Command::new("/files", "list the documents; /files drop removes the unused ones"),
            Command::new("/show", "list pages and sections; /show 12 or /show NAME prints one"),
            Command::new("/find", "find words in the documents: /find notice period"),
            Command::new("/sources", "show where in the documents the last answer comes from"),
            Command::with_path("/save", "save the conversation now; /save FILE saves a copy to a new file"),
            Command::with_path("/export", "write the conversation to a new file as Markdown"),
        ],
    ),
    (
        "Model",
        &[
            Command::with_path("/model", "show the model; /model NAME goes on with another one"),
            Command::new("/system", "show the system message; /system TEXT changes it"),
            Command::new("/set", "show the sampling settings; /set temp 0.8 changes one"),
            Command::new("/think", "show what the model thought; /think on, off, show or hide"),
            Command::new("/ctx", "enlarge the context: /ctx 32k"),
            Command::new("/policy", "show the cache policy; /policy razor:buffer=500 changes it"),
        ],
    ),
    (
        "What the model has read",
        &[
            Command::new("/stats", "show tokens and KV cache size, and the speed of the last turn"),
            Command::new("/kv", "map of the rows that each head keeps; /kv 12.3 shows where"),
            Command::new("/heads", "show the model's retrieval heads"),
        ],
    ),
    (
        "Program",
        &[
            Command::new("/help", "show this list; /? does the same"),
            Command::new("/exit", "quit; Ctrl-D, exit and quit do the same"),
        ],
    ),
];

/// All commands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    GROUPS.iter().flat_map(|(_, commands)| *commands)
}

/// The keys, and other beginnings of a message.
const KEYS: [(&str, &str); 10] = [
    (
        "Ctrl-C",
        "stop reading or answering; at the prompt, empty the line, and if it is empty, press it twice to quit",
    ),
    ("Esc", "stop reading a question or answering it"),
    ("Alt-Enter", "begin a new line, as Ctrl-J does; or put \"\"\" around a message of several lines"),
    ("Up, Down", "earlier messages; Ctrl-R searches in them"),
    ("Tab", "complete a command or a path"),
    ("Ctrl-G", "edit the message in $VISUAL or $EDITOR"),
    ("Ctrl-Z", "suspend the program; fg continues it"),
    ("@FILE", "in a question: read this file before it is asked"),
    ("a path", "alone, or a file dropped on the terminal: read it, as /read does"),
    ("//", "send a message that begins with /"),
];

/// What the keys do while the model works.
const IN_WORK: &str =
    "What you send while the model works is the next message. Up on an empty line takes it back.";

/// Marks the beginning and the end of a message of several lines.
const QUOTES: &str = "\"\"\"";

/// What the user sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A command with its arguments, from the slash on.
    Command(String),
    /// A question for the model.
    Question(String),
    /// A question that is marked as one, by quotes or another slash, or pasted, or a saved prompt: nothing in it is a command
    /// or a path.
    Exact(String),
}

impl Message {
    /// What was sent.
    pub fn text(&self) -> &str {
        match self {
            Message::Command(text) | Message::Question(text) | Message::Exact(text) => text,
        }
    }

    /// A message that was edited; `None` if it is empty.
    pub fn from_draft(draft: &DraftMessage) -> Option<Message> {
        let text = draft.text();
        match draft.begins_with_paste() {
            true => (!text.trim().is_empty()).then_some(Message::Exact(text)),
            false => Message::from_text(&text),
        }
    }

    /// A message that was typed; `None` if it is empty. A command is a single line.
    pub fn from_text(text: &str) -> Option<Message> {
        // Programs of Windows write lines so.
        let text = text.replace("\r\n", "\n");
        let text = text.trim();
        let message = match text.strip_prefix(QUOTES) {
            Some(quoted) => {
                let quoted = quoted.strip_suffix(QUOTES).unwrap_or(quoted);
                Message::Exact(quoted.trim_matches('\n').to_owned())
            }
            None if text.starts_with("//") => Message::Exact(text[1..].to_owned()),
            None if text.starts_with('/') && !text.contains('\n') => Message::Command(text.to_owned()),
            None if is_farewell(text) => Message::Command("/exit".to_owned()),
            None => Message::Question(text.to_owned()),
        };
        match &message {
            Message::Question(text) | Message::Exact(text) if text.trim().is_empty() => None,
            _ => Some(message),
        }
    }
}

/// Whether a message begins with `"""` and its end is not there yet.
pub fn is_unfinished(text: &str) -> bool {
    let text = text.trim();
    text.strip_prefix(QUOTES).is_some_and(|rest| !rest.ends_with(QUOTES))
}

/// The text of `/help`, in lines of at most `width` columns where its words allow that.
pub fn help(width: usize) -> String {
    let line = |name: &str, help: &str| format::labelled(&format!("  {name:<11}"), help, width);
    let mut text = String::new();
    for (title, commands) in GROUPS {
        text += &format!("{title}\n");
        text.extend(commands.iter().map(|Command { name, help, .. }| line(name, help)));
    }
    text += "Keys\n";
    text.extend(KEYS.iter().map(|(key, help)| line(key, help)));
    text + &format::labelled("", IN_WORK, width)
}

/// Whether a line is what ends other programs. As a question it would be an odd one.
fn is_farewell(text: &str) -> bool {
    let words = ["exit", "quit", "exit()", "quit()", ":q", ":q!", ":wq", ":x"];
    words.contains(&text.to_lowercase().as_str())
}

/// A question as it is typed, so that [`Message::from_text`] gives it back.
pub fn typed(question: &str) -> String {
    let is_plain = question.trim() == question && !question.starts_with(QUOTES) && !is_farewell(question);
    match question.starts_with("//") || question.starts_with('/') && !question.contains('\n') {
        _ if !is_plain => format!("{QUOTES}\n{question}\n{QUOTES}"),
        true => format!("/{question}"),
        false => question.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_single_lines_that_begin_with_a_slash() {
        let command = |text: &str| Some(Message::Command(text.into()));
        let question = |text: &str| Some(Message::Question(text.into()));
        let exact = |text: &str| Some(Message::Exact(text.into()));
        for (text, expected) in [
            (" /help ", command("/help")),
            ("/save a b", command("/save a b")),
            ("/usr/bin\n/bin", question("/usr/bin\n/bin")),
            ("//usr/bin", exact("/usr/bin")),
            ("\"\"\"/help\"\"\"", exact("/help")),
            ("\"\"\"\n a\n/b\n\"\"\"", exact(" a\n/b")),
            ("\"\"\"\r\n a\r\n/b\r\n\"\"\"\r\n", exact(" a\n/b")),
            ("\"\"\"a", exact("a")),
            (" why? ", question("why?")),
            (" exit ", command("/exit")),
            ("Quit", command("/exit")),
            (":q", command("/exit")),
            ("\"\"\"exit\"\"\"", exact("exit")),
            ("exit now", question("exit now")),
            ("why\nexit", question("why\nexit")),
            ("\"\"\" \"\"\"", None),
            (" \n", None),
        ] {
            assert_eq!(Message::from_text(text), expected, "{text:?}");
        }
        let mut draft = DraftMessage::default();
        draft.insert_paste(&"/help ".repeat(1000));
        assert_eq!(Message::from_draft(&draft), exact(&"/help ".repeat(1000)));
    }

    #[test]
    fn questions_can_be_typed_again() {
        for text in [
            "why?",
            "/usr/bin",
            "//x",
            "/usr\n/bin",
            "//usr\n/bin",
            " a\n/b",
            "a\n\n b",
            "\"\"\"a",
            "a \"\"\"",
            "exit",
        ] {
            let Some(Message::Question(again) | Message::Exact(again)) = Message::from_text(&typed(text))
            else {
                panic!("{text:?} is no question")
            };
            assert_eq!(again, text);
            assert!(!is_unfinished(&typed(text)), "{text:?}");
        }
    }

    #[test]
    fn help_shows_every_command_once() {
        for Command { name, help: line, .. } in all() {
            assert_eq!(help(1000).matches(&format!("  {name:<11}{line}\n")).count(), 1, "{name}");
        }
        for width in [30, 80] {
            let help = help(width);
            assert!(help.lines().all(|line| line.chars().count() <= width), "{help}");
        }
    }

    #[test]
    fn quotes_end_at_the_end_of_a_line() {
        for text in ["\"\"\"", "\"\"\"a", "\"\"\"a\n\"\"\" b", "\"\"\"\"\""] {
            assert!(is_unfinished(text), "{text}");
        }
        for text in ["", "a", "\"\"", "a \"\"\"", "\"\"\"a\"\"\"", "\"\"\"\na\n\"\"\" ", "\"\"\"\"\"\""] {
            assert!(!is_unfinished(text), "{text}");
        }
    }
}
