//! Tells the calls of an answer from its text, while it is generated.

use std::hash::{BuildHasher as _, RandomState};

use super::definitions::Tools;
use super::parse::{Read, Stop, Written, parse};
use super::syntax::{FENCE_END, OBJECT, Syntax, end_of, may_be_text};
use super::{ToolCall, ToolFormat};

/// What a piece of an answer adds to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolPiece {
    /// More text.
    Text(String),
    /// A call, which is complete. Its function is one of the given ones, and its arguments are a JSON object.
    Call(ToolCall),
    /// Text that begins as a call and is none.
    Malformed {
        /// All of it, with the marks.
        text: String,
        /// What is wrong.
        why: String,
    },
}

/// Tells the calls of an answer from its text. It takes the answer behind its thinking, with the tokens of
/// [`ToolFormat::control_tokens`] as their texts.
///
/// White space around calls belongs to neither. What is found does not depend on how the answer is split into pieces.
#[derive(Debug, Clone)]
pub struct ToolStream {
    syntax: &'static Syntax,
    tools: Tools,
    phase: Phase,
    /// Text that may begin a call, or a call that has begun, with the white space before it.
    held: String,
    /// What ends the calls that came last, and is no text.
    end: Option<&'static str>,
    /// The numbers of the calls so far.
    ids: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// At the beginning, behind a call, or within a group of calls: what has been skipped, and whether it begins a group.
    Between {
        skipped: String,
        is_group: bool,
    },
    Text,
    /// In a call: bytes before its mark, and the mark.
    Call {
        before: usize,
        begin: &'static str,
    },
}

impl Phase {
    const BETWEEN: Phase = Phase::Between { skipped: String::new(), is_group: false };
}

impl ToolStream {
    /// For an answer in this format. Only these functions can be called.
    pub fn new(format: &ToolFormat, tools: Tools) -> ToolStream {
        ToolStream {
            syntax: format.syntax(),
            tools,
            phase: Phase::BETWEEN,
            held: String::new(),
            end: None,
            ids: Vec::new(),
        }
    }

    /// Takes a piece of the text. Returns what it adds.
    pub fn push(&mut self, piece: &str) -> Vec<ToolPiece> {
        self.held += piece;
        // A long call is not read again and again: it ends in one of these.
        let is_long = matches!(self.phase, Phase::Call { .. }) && self.held.len() > 1024;
        if is_long && !piece.contains(['}', ']', '>']) {
            return Vec::new();
        }
        let mut pieces = Vec::new();
        while self.step(&mut pieces, false) {}
        pieces
    }

    /// Ends the text. Returns what was held back.
    pub fn finish(&mut self) -> Vec<ToolPiece> {
        let mut pieces = Vec::new();
        while self.step(&mut pieces, true) {}
        pieces
    }

    /// How many calls there are so far.
    pub fn calls(&self) -> usize {
        self.ids.len()
    }

    /// Goes on as far as it is clear what the text is. Returns whether there may be more.
    fn step(&mut self, pieces: &mut Vec<ToolPiece>, is_end: bool) -> bool {
        match std::mem::replace(&mut self.phase, Phase::Text) {
            Phase::Between { skipped, is_group } => self.between(skipped, is_group, pieces, is_end),
            Phase::Text => self.text(pieces, is_end),
            Phase::Call { before, begin } => self.call(before, begin, pieces, is_end),
        }
    }

    fn between(
        &mut self,
        mut skipped: String,
        mut is_group: bool,
        pieces: &mut Vec<ToolPiece>,
        is_end: bool,
    ) -> bool {
        let Syntax { begins, first, groups, ends, .. } = self.syntax;
        loop {
            if let Some(begin) = starts_with([*first, *begins], &self.held) {
                let before = skipped.len();
                self.held.insert_str(0, &skipped);
                self.phase = Phase::Call { before, begin };
                return true;
            }
            match self.is_at_end(is_end) {
                None => {
                    self.phase = Phase::Between { skipped, is_group };
                    return false;
                }
                Some(false) => {}
                Some(true) => {
                    self.held.drain(..self.end.take().map_or(0, str::len));
                    skipped.clear();
                    continue;
                }
            }
            let mark = starts_with([*groups, *ends], &self.held);
            let skip = match mark {
                Some(mark) => mark.len(),
                None => self.held.len() - self.held.trim_start().len(),
            };
            if skip == 0 {
                break;
            }
            is_group |= mark.is_some_and(|mark| groups.contains(&mark));
            skipped.extend(self.held.drain(..skip));
            if !is_group && !self.ids.is_empty() && mark.is_some_and(|mark| ends.contains(&mark)) {
                skipped.clear();
            }
        }
        let mut marks = [*first, *begins, *groups, *ends].into_iter().flatten().copied().chain(self.end);
        if !is_end && marks.any(|mark| mark.starts_with(&self.held)) {
            self.phase = Phase::Between { skipped, is_group };
            return false;
        }
        self.end = None;
        if is_group {
            push_malformed(pieces, skipped, "no call follows");
        } else if self.ids.is_empty() {
            push_text(pieces, &skipped);
        }
        !self.held.is_empty()
    }

    /// Whether the text goes on with the end of the calls that came last; `None` where that is not clear yet.
    fn is_at_end(&self, is_end: bool) -> Option<bool> {
        let Some(end) = self.end else { return Some(false) };
        let Some(rest) = self.held.strip_prefix(end) else { return Some(false) };
        let begins = || [self.syntax.first, self.syntax.begins].into_iter().flatten();
        // What stands behind three strokes may say that they begin another block of code.
        let is_over = end != FENCE_END
            || rest.starts_with(char::is_whitespace)
            || begins().any(|mark| rest.starts_with(mark));
        let may_be = rest.is_empty() || begins().any(|mark| mark.starts_with(rest));
        if is_over || is_end && rest.is_empty() {
            Some(true)
        } else if !is_end && may_be {
            None
        } else {
            Some(false)
        }
    }

    fn text(&mut self, pieces: &mut Vec<ToolPiece>, is_end: bool) -> bool {
        let Syntax { begins, groups, .. } = self.syntax;
        let marks = || [*begins, *groups].into_iter().flatten().copied();
        let found =
            marks().filter_map(|mark| Some((self.held.find(mark)?, usize::MAX - mark.len(), mark))).min();
        if let Some((at, _, mark)) = found {
            // White space before a call is no text. Where it is none after all, it is given back.
            let before = self.held[..at].trim_end().len();
            push_text(pieces, &self.held[..before]);
            self.held.drain(..before);
            self.phase = match groups.contains(&mark) {
                true => {
                    let skipped = self.held.drain(..at - before + mark.len()).collect();
                    Phase::Between { skipped, is_group: true }
                }
                false => Phase::Call { before: at - before, begin: mark },
            };
            return true;
        }
        let overlap = marks().map(|mark| overlap(&self.held, mark)).max().unwrap_or(0);
        let clear =
            if is_end { self.held.len() } else { self.held[..self.held.len() - overlap].trim_end().len() };
        let text: String = self.held.drain(..clear).collect();
        push_text(pieces, &text);
        false
    }

    fn call(
        &mut self,
        before: usize,
        begin: &'static str,
        pieces: &mut Vec<ToolPiece>,
        is_end: bool,
    ) -> bool {
        // An answer may be JSON that is no call.
        let may_be_text = may_be_text(begin);
        let start = before + if begin == OBJECT { 0 } else { begin.len() };
        let syntax = self.syntax;
        let (length, why) = match parse(syntax.body, begin, &self.held[start..], &self.tools) {
            // Without a mark and without arguments it is another object.
            Ok(Read::Calls(_, length))
                if may_be_text && !has_arguments(&self.held[start..start + length]) =>
            {
                (length, String::new())
            }
            Ok(Read::Header(length)) => {
                self.held.drain(..start + length);
                return !self.held.is_empty();
            }
            Ok(Read::Calls(calls, length)) => match self.checked(calls) {
                Ok(calls) => {
                    self.held.drain(..start + length);
                    pieces.extend(calls.into_iter().map(ToolPiece::Call));
                    self.phase = Phase::BETWEEN;
                    if begin != OBJECT {
                        self.end = end_of(begin);
                    }
                    return true;
                }
                Err(why) => (length, why),
            },
            Err(Stop::Incomplete) if !is_end => {
                self.phase = Phase::Call { before, begin };
                return false;
            }
            Err(Stop::Incomplete) if may_be_text => (self.held.len() - start, String::new()),
            Err(Stop::Incomplete) => (self.held.len() - start, "the answer ends within it".to_owned()),
            Err(Stop::Malformed(length, why)) => {
                (length, if may_be_text { String::new() } else { why.to_owned() })
            }
        };
        self.end = None;
        let text: String = self.held.drain(..start + length).collect();
        match why.is_empty() {
            true => push_text(pieces, &text),
            false => push_malformed(pieces, text, &why),
        }
        !self.held.is_empty()
    }

    /// The calls, where all are of known functions and have arguments.
    fn checked(&mut self, calls: Vec<Written>) -> Result<Vec<ToolCall>, String> {
        let mut checked = Vec::new();
        let mut ids = self.ids.clone();
        for Written { name, arguments, id } in calls {
            if !self.tools.has(&name) {
                let name: String = name.chars().take(64).collect();
                return Err(format!("there is no function {name:?}"));
            }
            let id = id.filter(|id| !id.is_empty() && !ids.contains(id)).unwrap_or_else(new_id);
            let call = ToolCall::new(id.as_str(), name, &arguments);
            checked.push(call.map_err(|_| "its arguments are no JSON object".to_owned())?);
            ids.push(id);
        }
        self.ids = ids;
        Ok(checked)
    }
}

/// Which of these marks a text starts with, the longest of several.
fn starts_with(marks: [&[&'static str]; 2], text: &str) -> Option<&'static str> {
    let marks = marks.into_iter().flatten().copied();
    marks.filter(|mark| text.starts_with(mark)).max_by_key(|mark| mark.len())
}

/// Bytes of the longest suffix of `text` that is a proper prefix of `mark`. A stream holds them back.
pub fn overlap(text: &str, mark: &str) -> usize {
    let mut starts = mark.char_indices().rev().map(|(at, _)| at);
    starts.find(|&at| text.ends_with(&mark[..at])).unwrap_or(0)
}

/// Whether the text of an object has arguments of a call.
fn has_arguments(object: &str) -> bool {
    ["\"arguments\"", "\"parameters\""].iter().any(|key| object.contains(key))
}

fn push_text(pieces: &mut Vec<ToolPiece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(ToolPiece::Text(last)) => last.push_str(text),
        _ => pieces.push(ToolPiece::Text(text.to_owned())),
    }
}

fn push_malformed(pieces: &mut Vec<ToolPiece>, text: String, why: &str) {
    pieces.push(ToolPiece::Malformed { text, why: why.to_owned() });
}

/// A number for a call. Mistral's templates want nine letters and digits.
pub(super) fn new_id() -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut number = RandomState::new().hash_one(());
    let digit = |_| {
        let digit = DIGITS[(number % 36) as usize];
        number /= 36;
        char::from(digit)
    };
    (0..9).map(digit).collect()
}
