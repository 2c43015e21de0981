//! Another program that answers the same prompts with a full cache, to compare with. It gets a prompt as a line of
//! numbers: the most tokens of the answer, then the token ids. It writes the ids of the answer as a line. There is one
//! process for each cache type; tests/peer/answers.cpp is such a program for llama.cpp.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;

use longhand::Type;
use terminal::failure::Failure;

/// Longest line that a program may write, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// A program as given with `--peer`: its name, and how it is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCommand {
    /// Its name in tables.
    pub name: String,
    /// The program and its arguments.
    words: Vec<String>,
}

impl FromStr for PeerCommand {
    type Err = Failure;

    /// Parses `NAME=COMMAND`. The command is split at white space.
    fn from_str(text: &str) -> Result<PeerCommand, Failure> {
        let (name, command) = text.split_once('=').unwrap_or_default();
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if name.is_empty() || words.is_empty() {
            let hint = "for example --peer \"llama.cpp=./answers model.gguf {context} {type_k} {type_v}\"";
            return Err(Failure::usage("a peer is given as NAME=COMMAND", hint));
        }
        Ok(PeerCommand { name: name.to_owned(), words })
    }
}

/// A running program.
pub struct Peer {
    name: String,
    child: Child,
    prompts: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the program for a context of `context` tokens and keys and values of these types. They take the places of
    /// `{context}`, `{type_k}` and `{type_v}` in its arguments.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(command: &PeerCommand, context: usize, types: (Type, Type)) -> Result<Peer, Failure> {
        let replaced = |word: &String| {
            word.replace("{context}", &context.to_string())
                .replace("{type_k}", types.0.name())
                .replace("{type_v}", types.1.name())
        };
        let words: Vec<String> = command.words.iter().map(replaced).collect();
        let child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&command.name, &format!("cannot start {}: {error}", words[0])))?;
        Peer::of(&command.name, child)
            .ok_or_else(|| failed(&command.name, "cannot be written to or read from"))
    }

    fn of(name: &str, mut child: Child) -> Option<Peer> {
        let (prompts, answers) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        Some(Peer { name: name.to_owned(), child, prompts, answers })
    }

    /// Its answer to a prompt, of at most `limit` tokens.
    ///
    /// # Errors
    /// Where it has ended, or its line is not one of token ids below `vocabulary`.
    pub fn answer(&mut self, prompt: &[u32], limit: usize, vocabulary: usize) -> Result<Vec<u32>, Failure> {
        let line = self.exchange(prompt, limit).map_err(|error| failed(&self.name, &error.to_string()))?;
        let ids: Result<Vec<u32>, _> = line.split_ascii_whitespace().map(str::parse).collect();
        match ids {
            Ok(ids) if ids.len() <= limit && ids.iter().all(|id| (*id as usize) < vocabulary) => Ok(ids),
            _ => Err(failed(&self.name, &format!("not a line of at most {limit} token ids: {line:.100}"))),
        }
    }

    fn exchange(&mut self, prompt: &[u32], limit: usize) -> io::Result<String> {
        let mut line = limit.to_string();
        prompt.iter().for_each(|id| line.push_str(&format!(" {id}")));
        line.push('\n');
        // A program that has ended is noticed when its answer is read.
        let _ = self.prompts.write_all(line.as_bytes()).and_then(|()| self.prompts.flush());
        let mut answer = String::new();
        (&mut self.answers).take(MAX_LINE).read_line(&mut answer)?;
        match answer.ends_with('\n') {
            true => Ok(answer),
            false => Err(io::Error::other("it has ended without an answer")),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be in the middle of an answer.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(name: &str, what: &str) -> Failure {
    Failure::new(format!("{name}: {what}"), "see what the program itself has printed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    const TYPES: (Type, Type) = (Type::Q8_0, Type::Q4_0);

    #[cfg(unix)]
    fn ask(command: &str) -> Result<Vec<u32>, Failure> {
        let command = command.parse()?;
        Peer::start(&command, 100, TYPES)?.answer(&[7, 8], 3, 1000)
    }

    #[test]
    fn programs_without_a_name_or_a_command_are_refused() {
        for text in ["", "llama.cpp", "=cat", "llama.cpp= "] {
            text.parse::<PeerCommand>().expect_err(text);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_program_answers_each_prompt_with_a_line_of_token_ids() {
        // `cat` gives back the limit and the prompt.
        assert_eq!(ask("echo=cat"), Ok(vec![3, 7, 8]));
        let command = "echo=echo {context} 2".parse().expect("a command");
        assert_eq!(Peer::start(&command, 100, TYPES).expect("runs").answer(&[], 2, 101), Ok(vec![100, 2]));
    }

    #[cfg(unix)]
    #[test]
    fn other_lines_and_an_end_are_errors() {
        for (command, part) in [
            ("none=/nowhere/at/all", "none: cannot start /nowhere/at/all"),
            ("end=true", "end: "),
            ("types=echo {type_k}/{type_v}", "not a line of at most 3 token ids: q8_0/q4_0"),
            ("many=echo 1 2 3 4", "not a line"),
            ("large=echo 1000", "not a line"),
        ] {
            let error = ask(command).expect_err(command).to_string();
            assert!(error.contains(part), "{command}: {error}");
        }
    }
}
