//! Answers of a given shape. A grammar says which tokens may come next; all others are banned before one is sampled. Grammars
//! are compiled and followed by llguidance. JSON schemas are checked before (`schema`), because they may come from anywhere.
//!
//! Where a model thinks before it answers, the grammar begins behind the thinking (`state`).

mod schema;
pub(super) mod state;

use std::sync::Arc;
use std::{fmt, thread};

use llguidance::Matcher;
use llguidance::api::TopLevelGrammar;
use thiserror::Error;

use crate::model::grammar_tokens::GrammarTokens;
use crate::{ChatFormat, Hint};

/// Bytes of the text of a grammar or a regular expression.
const MAX_BYTES: usize = 64 << 10;
/// Bytes of stack for compiling: references of schemas and rules of grammars follow each other.
const STACK_BYTES: usize = 64 << 20;

/// The shape of an answer, compiled for the tokens of a model. Clones are cheap, and each answer begins anew.
///
/// ```
/// use longhand::generation::Constraint;
/// use longhand::{Model, ModelSource};
///
/// let model = Model::open(ModelSource::Embedded)?;
/// let schema = r#"{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}"#;
/// Constraint::json_schema(model.chat_format()?, schema)?;
/// let error = Constraint::json_schema(model.chat_format()?, r#"{"not": {"type": "string"}}"#).expect_err("refused");
/// assert_eq!(error.to_string(), "the JSON schema at #: the keyword \"not\" is not supported");
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone)]
pub struct Constraint {
    /// Before its first token.
    matcher: Arc<Matcher>,
    tokens: Arc<GrammarTokens>,
    /// Whether the shape begins with the first token, also where the model could think before.
    begins_at_once: bool,
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Constraint").finish_non_exhaustive()
    }
}

/// A shape that answers cannot be given.
///
/// ```
/// use longhand::error::ConstraintError;
/// use longhand::generation::Constraint;
/// use longhand::{Model, ModelSource};
///
/// let model = Model::open(ModelSource::Embedded)?;
/// let error = Constraint::json_schema(model.chat_format()?, "false").expect_err("nothing is valid");
/// assert!(matches!(error, ConstraintError::Unsatisfiable { .. }));
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ConstraintError {
    /// The schema is no JSON.
    #[error("the JSON schema is not JSON: {what}")]
    Json {
        /// What is wrong, and where.
        what: String,
    },
    /// The schema says something that is wrong or not supported.
    #[error("the JSON schema at {at}: {what}")]
    Schema {
        /// Where, as a JSON pointer: `#/properties/name`.
        at: String,
        /// What is wrong there.
        what: String,
    },
    /// The grammar is wrong.
    #[error("the grammar: {what}")]
    Grammar {
        /// What is wrong, and where.
        what: String,
    },
    /// No text is valid.
    #[error("no answer can have this shape: {why}")]
    Unsatisfiable {
        /// Why not.
        why: String,
    },
    /// It takes too much time or memory.
    #[error("the shape of the answer is too complex: {what}")]
    TooComplex {
        /// What is too much.
        what: String,
    },
    /// The model's tokens cannot be used.
    #[error("{what}")]
    Tokens {
        /// What is wrong with them.
        what: String,
    },
}

impl ConstraintError {
    /// What the caller can do about the error.
    pub fn hint(&self) -> Hint {
        Hint::advice(match self {
            ConstraintError::Json { .. } => "give a JSON schema",
            ConstraintError::Schema { .. } => "change the schema there",
            ConstraintError::Grammar { .. } => {
                "write it as a Lark grammar, as llguidance reads it: start: \"yes\" | \"no\""
            }
            ConstraintError::Unsatisfiable { .. } => "remove what contradicts itself",
            ConstraintError::TooComplex { .. } => "use a simpler one",
            ConstraintError::Tokens { .. } => "use another model, or ask without a shape",
        })
    }
}

impl Constraint {
    /// Answers that are JSON, and valid by a JSON schema. `format` is that of the model that answers.
    ///
    /// The JSON stands on one line, and properties in the order of the schema. Unless `additionalProperties` is false, an object
    /// may have others. `format` of a string is checked where it is a date, a time, an address or the like.
    ///
    /// # Errors
    /// Where the text is no JSON schema, refers to another file, or contradicts itself. Where it has a keyword that would be
    /// ignored (such as `not`, `if`, `contains`, `uniqueItems`), or `oneOf` with alternatives that may be valid at once. Where
    /// it is too large, or would take too much time or memory.
    pub fn json_schema(format: &ChatFormat, schema: &str) -> Result<Constraint, ConstraintError> {
        let schema = schema::prepare(schema)?;
        if schema == serde_json::Value::Bool(false) {
            return Err(ConstraintError::Unsatisfiable { why: "the schema is false".into() });
        }
        Constraint::compile(format, TopLevelGrammar::from_json_schema(schema), of_schema)
    }

    /// Answers that a grammar describes: [llguidance's variant of Lark](https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md),
    /// not llama.cpp's GBNF.
    ///
    /// # Errors
    /// Where the grammar is wrong, or too large. It cannot contain a JSON schema (`%json`), and its special tokens are refused:
    /// an answer is text.
    pub fn grammar(format: &ChatFormat, grammar: &str) -> Result<Constraint, ConstraintError> {
        if grammar.contains("::=") {
            let what = "this is GBNF, not Lark".into();
            return Err(ConstraintError::Grammar { what });
        }
        if grammar.contains("%json") {
            let what = "a JSON schema in a grammar is not supported".into();
            return Err(ConstraintError::Grammar { what });
        }
        check_size(grammar, MAX_BYTES)?;
        Constraint::compile(format, TopLevelGrammar::from_lark(grammar.to_owned()), of_grammar)
    }

    /// Answers that a regular expression of the crate [regex](https://docs.rs/regex/latest/regex/#syntax) matches from their
    /// beginning to their end.
    ///
    /// # Errors
    /// Where the expression is wrong, or too large.
    pub fn regex(format: &ChatFormat, regex: &str) -> Result<Constraint, ConstraintError> {
        check_size(regex, MAX_BYTES)?;
        Constraint::compile(format, TopLevelGrammar::from_regex(regex), of_grammar)
    }

    /// The same for an answer without thinking: its first token is the first of the shape. That is needed where the prompt ends
    /// with a part of the answer, as of a [`ForcedCall`](crate::tools::ForcedCall).
    pub fn beginning_at_once(self) -> Constraint {
        Constraint { begins_at_once: true, ..self }
    }

    /// `explain` makes an error of llguidance's.
    fn compile(
        format: &ChatFormat,
        grammar: TopLevelGrammar,
        explain: fn(String) -> ConstraintError,
    ) -> Result<Constraint, ConstraintError> {
        let tokens = format.grammar_tokens().map_err(|what| ConstraintError::Tokens { what })?;
        let compiling = || {
            let matcher = Matcher::new(tokens.factory.create_parser(grammar));
            if let Some(error) = matcher.get_error() {
                return Err(explain(error));
            }
            // Whether anything can begin it.
            let mut first = matcher.deep_clone();
            let forced = first.compute_ff_tokens();
            state::next_tokens(&mut first, &tokens)?;
            let consumed = forced.first().map_or(Ok(()), |token| first.consume_token(*token));
            consumed.map_err(|error| state::failed(&error.to_string()))?;
            Ok(matcher)
        };
        let compiled = thread::scope(|scope| {
            let builder = thread::Builder::new().name("grammar".into()).stack_size(STACK_BYTES);
            let thread = builder.spawn_scoped(scope, compiling).map_err(|error| error.to_string())?;
            thread.join().map_err(|_| "it cannot be compiled".to_owned())
        });
        let matcher = compiled.map_err(|what| ConstraintError::TooComplex { what })??;
        Ok(Constraint { matcher: Arc::new(matcher), tokens, begins_at_once: false })
    }
}

fn check_size(text: &str, max: usize) -> Result<(), ConstraintError> {
    let what = || format!("it has {} bytes, and at most {max} are compiled", text.len());
    if text.len() > max { Err(ConstraintError::TooComplex { what: what() }) } else { Ok(()) }
}

/// What is wrong with a schema.
fn of_schema(error: String) -> ConstraintError {
    let line = first_line(&error);
    let schema = |what: String| ConstraintError::Schema { at: "#".into(), what };
    if let Some((_, why)) = line.split_once("Unsatisfiable schema: ") {
        return ConstraintError::Unsatisfiable { why: why.to_owned() };
    }
    if line.starts_with("oneOf constraints are not supported") {
        return schema(
            "two alternatives of oneOf may be valid at once; give each another type, or a required property with another const"
                .into(),
        );
    }
    match too_complex(&line) {
        Some(error) => error,
        None => schema(line),
    }
}

/// What is wrong with a grammar.
fn of_grammar(error: String) -> ConstraintError {
    let line = first_line(&error);
    if line.starts_with("panic: ") {
        let what = "it cannot be compiled; tokens such as <|im_end|> cannot be in an answer".into();
        return ConstraintError::Grammar { what };
    }
    too_complex(&line).unwrap_or(ConstraintError::Grammar { what: line })
}

/// Where an error of llguidance is about a limit, or a fault of its own.
fn too_complex(line: &str) -> Option<ConstraintError> {
    let is_fault = line.starts_with("panic: ");
    let is_limit =
        ["too large", "too big", "too many", "Too many", "too complex", "exceeded", "is max", "max is"]
            .iter()
            .any(|words| line.contains(words));
    let what = if is_fault { "it cannot be compiled".to_owned() } else { line.to_owned() };
    (is_fault || is_limit).then_some(ConstraintError::TooComplex { what })
}

/// The line of an error that says what is wrong. Of a regular expression that is the last one.
fn first_line(error: &str) -> String {
    let line = |text: &str| shortened(text.lines().next().unwrap_or_default().trim());
    match error.split_once("\nerror: ") {
        Some((_, what)) => format!("a regular expression: {}", line(what)),
        None => line(error),
    }
}

/// As much of a text as an error shows.
fn shortened(text: &str) -> String {
    const CHARACTERS: usize = 200;
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
