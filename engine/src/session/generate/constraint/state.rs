//! How much of its shape an answer has so far, and what may come next.
//!
//! A model may think before it answers. Then marks come first, and the thinking is free; the shape begins behind it. What the
//! model's tokens make of the marks is looked up before, so that they count as tokens and never as text of the shape.

use std::collections::VecDeque;

use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;
use models::chat::{THINKING_MARKS, ThinkingMarks};
use models::tokenizer::{TokenKind, Tokenizer};

use super::{Constraint, ConstraintError, first_line};
use crate::model::grammar_tokens::GrammarTokens;
use crate::session::text::begun_thinking;
use crate::{EngineError, Hint};

/// Tokens of white space that may come between thinking and the shape.
const BLANKS: usize = 2;

/// Tokens that come before thinking or before an answer, and what follows them.
#[derive(Clone)]
struct Path {
    tokens: Vec<u32>,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    Thinking(&'static ThinkingMarks),
    Answer,
}

enum Phase {
    /// Nothing of the shape has come. One of these paths may come before it, or so many tokens of white space.
    Before { paths: Vec<Path>, blanks: usize },
    /// So many tokens of one of these paths have come.
    OnPath { paths: Vec<Path>, came: usize },
    /// The end of the thinking so far, which may be a part of the mark behind it.
    Thinking { marks: &'static ThinkingMarks, text: Vec<u8> },
    /// The shape has begun.
    Shape,
}

/// How much of its shape an answer has so far.
pub(crate) struct ShapeState<'a> {
    constraint: &'a Constraint,
    tokenizer: &'a Tokenizer,
    matcher: Matcher,
    phase: Phase,
    /// Tokens of the shape that must come next.
    forced: VecDeque<u32>,
}

impl<'a> ShapeState<'a> {
    /// Of an answer after a prompt that ends with these tokens.
    ///
    /// # Errors
    /// The constraint was made for other tokens.
    pub(crate) fn new(
        constraint: &'a Constraint,
        tokenizer: &'a Tokenizer,
        prompt: &[u32],
    ) -> Result<ShapeState<'a>, EngineError> {
        if constraint.tokens.usable.len() != tokenizer.n_vocab() {
            return Err(EngineError::Setting {
                what: "the shape of the answer".into(),
                reason: "it was compiled for another model".into(),
                hint: Hint::advice("compile it for the model that answers"),
            });
        }
        let thinking = begun_thinking(prompt, tokenizer);
        let phase = match thinking.marks {
            _ if constraint.begins_at_once => Phase::Before { paths: Vec::new(), blanks: 0 },
            Some(marks) => Phase::Thinking { marks, text: Vec::new() },
            None => Phase::Before { paths: paths(tokenizer, thinking.is_over), blanks: 0 },
        };
        let matcher = constraint.matcher.deep_clone();
        let mut state = ShapeState { constraint, tokenizer, matcher, phase, forced: VecDeque::new() };
        state.begin_if_nothing_precedes();
        Ok(state)
    }

    /// Tokens that must come next, the next one first. They need not be sampled.
    pub(crate) fn forced(&self) -> Vec<u32> {
        match &self.phase {
            Phase::Shape => self.forced.iter().copied().collect(),
            Phase::OnPath { paths, came } if paths.len() == 1 => paths[0].tokens[*came..].to_vec(),
            _ => Vec::new(),
        }
    }

    /// Sets the logits `[n_vocab]` of tokens that cannot come next to negative infinity.
    pub(crate) fn ban(&mut self, logits: &mut [f32]) -> Result<(), ConstraintError> {
        let mut allowed = match &self.phase {
            Phase::Thinking { .. } => return Ok(()),
            Phase::OnPath { paths, came } => {
                let mut allowed = SimpleVob::alloc(self.tokenizer.n_vocab());
                paths.iter().for_each(|path| allowed.allow_token(path.tokens[*came]));
                allowed
            }
            Phase::Before { .. } | Phase::Shape => next_tokens(&mut self.matcher, &self.constraint.tokens)?,
        };
        if let Phase::Before { paths, blanks } = &self.phase {
            paths.iter().for_each(|path| allowed.allow_token(path.tokens[0]));
            let blanks = self.constraint.tokens.blanks.iter().filter(|_| *blanks > 0);
            blanks.for_each(|blank| allowed.allow_token(*blank));
        }
        for (token, logit) in (0u32..).zip(logits) {
            if token as usize >= allowed.len() || !allowed.is_allowed(token) {
                *logit = f32::NEG_INFINITY;
            }
        }
        Ok(())
    }

    /// Whether a token holds the end of the thinking and already a part of the answer, which the shape could not see.
    pub(crate) fn splits(&self, token: u32) -> bool {
        let Phase::Thinking { marks, text } = &self.phase else { return false };
        let text = [text, self.bytes(token)].concat();
        find(&text, marks.ends).is_some_and(|end| !text[end..].iter().all(u8::is_ascii_whitespace))
    }

    /// The answer goes on with this token.
    pub(crate) fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        match &mut self.phase {
            Phase::Shape => return self.consume(token),
            Phase::Before { paths, blanks } => {
                paths.retain(|path| path.tokens[0] == token);
                if !paths.is_empty() {
                    let paths = std::mem::take(paths);
                    self.follow(paths, 1);
                } else if *blanks > 0 && self.constraint.tokens.blanks.contains(&token) {
                    *blanks -= 1;
                } else {
                    self.phase = Phase::Shape;
                    return self.consume(token);
                }
            }
            Phase::OnPath { paths, came } => {
                paths.retain(|path| path.tokens[*came] == token);
                let (paths, came) = (std::mem::take(paths), *came + 1);
                self.follow(paths, came);
            }
            Phase::Thinking { marks, text } => {
                text.extend_from_slice(self.tokenizer.token_bytes(token).unwrap_or_default());
                if find(text, marks.ends).is_none() {
                    text.drain(..text.len().saturating_sub(marks.ends.len() - 1));
                } else {
                    // What the marks put before an answer is the same each time.
                    let mut headers = marks.headers.iter();
                    let header = headers.find_map(|header| path(self.tokenizer, header, Then::Answer));
                    self.phase = match header {
                        Some(header) => Phase::OnPath { paths: vec![header], came: 0 },
                        None => Phase::Before { paths: Vec::new(), blanks: BLANKS },
                    };
                }
            }
        }
        self.begin_if_nothing_precedes();
        Ok(())
    }

    /// Whether the answer may end here.
    pub(crate) fn is_complete(&mut self) -> bool {
        matches!(self.phase, Phase::Shape | Phase::Before { .. })
            && self.matcher.is_accepting().unwrap_or(false)
    }

    /// Whether nothing can follow.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Shape) && self.matcher.stop_reason().is_ok() && self.matcher.is_stopped()
    }

    fn bytes(&self, token: u32) -> &'a [u8] {
        self.tokenizer.token_bytes(token).unwrap_or_default()
    }

    /// So many tokens of these paths have come.
    fn follow(&mut self, paths: Vec<Path>, came: usize) {
        self.phase = match paths.iter().find(|path| path.tokens.len() == came) {
            None => Phase::OnPath { paths, came },
            Some(Path { then: Then::Thinking(marks), .. }) => Phase::Thinking { marks, text: Vec::new() },
            Some(Path { then: Then::Answer, .. }) => Phase::Before { paths: Vec::new(), blanks: BLANKS },
        };
    }

    fn begin_if_nothing_precedes(&mut self) {
        if matches!(&self.phase, Phase::Before { paths, blanks: 0 } if paths.is_empty()) {
            self.phase = Phase::Shape;
            self.find_forced();
        }
    }

    fn consume(&mut self, token: u32) -> Result<(), ConstraintError> {
        self.matcher.consume_token(token).map_err(|error| failed(&error.to_string()))?;
        if self.forced.pop_front().is_none_or(|forced| forced != token) || self.forced.is_empty() {
            self.find_forced();
        }
        Ok(())
    }

    fn find_forced(&mut self) {
        self.forced.clear();
        if !self.matcher.is_stopped() {
            let forced = self.matcher.compute_ff_tokens();
            let usable = &self.constraint.tokens.usable;
            self.forced.extend(forced.into_iter().take_while(|token| usable.is_allowed(*token)));
        }
    }
}

/// The tokens that may come next; those that end an answer where nothing else can.
pub(super) fn next_tokens(
    matcher: &mut Matcher,
    tokens: &GrammarTokens,
) -> Result<SimpleVob, ConstraintError> {
    let reason = matcher.stop_reason();
    if !reason.is_ok() {
        return Err(failed(&matcher.get_error().unwrap_or_else(|| reason.to_string())));
    }
    let mut allowed = matcher.compute_mask_or_eos().map_err(|error| failed(&error.to_string()))?;
    allowed.and(&tokens.usable);
    match allowed.is_zero() && !matcher.is_stopped() {
        true => Err(failed("NoExtension")),
        false => Ok(allowed),
    }
}

/// What an error of llguidance in the course of an answer means.
pub(super) fn failed(error: &str) -> ConstraintError {
    match first_line(error) {
        line if line.starts_with("NoExtension") => {
            ConstraintError::Unsatisfiable { why: "no token can come next".into() }
        }
        line if line.starts_with("panic: ") => {
            ConstraintError::TooComplex { what: "it cannot be followed".into() }
        }
        what => ConstraintError::TooComplex { what },
    }
}

/// The paths on which an answer may begin. `is_answer`: there is no thinking any more.
fn paths(tokenizer: &Tokenizer, is_answer: bool) -> Vec<Path> {
    let of = |marks: &'static ThinkingMarks| {
        let thinking = path(tokenizer, marks.begins, Then::Thinking(marks)).filter(|_| !is_answer);
        thinking
            .into_iter()
            .chain(marks.headers.iter().filter_map(|header| path(tokenizer, header, Then::Answer)))
    };
    THINKING_MARKS.iter().flat_map(of).collect()
}

/// The tokens of a mark. `None` where the first of them is one of text: then nothing tells the mark from an answer.
fn path(tokenizer: &Tokenizer, mark: &str, then: Then) -> Option<Path> {
    let tokens = tokenizer.encode(mark, false, true).ok()?;
    let kind = tokens.first().and_then(|first| tokenizer.kind(*first));
    let is_mark = matches!(kind, Some(TokenKind::Control | TokenKind::UserDefined));
    is_mark.then_some(Path { tokens, then })
}

/// Where a mark ends in a text.
fn find(text: &[u8], mark: &str) -> Option<usize> {
    text.windows(mark.len()).position(|part| part == mark.as_bytes()).map(|at| at + mark.len())
}
