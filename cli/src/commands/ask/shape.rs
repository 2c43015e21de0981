//! Flags for the shape of answers.

use std::path::{Path, PathBuf};

use clap::Args;
use longhand::ChatFormat;
use longhand::error::ConstraintError;
use longhand::generation::Constraint;
use models::regular_file;

use crate::failure::{Failure, Hinted};

/// Largest size of a file with a schema or a grammar, in bytes. The library has a limit of its own.
const MAX_BYTES: u64 = 1 << 20;

/// The shape of answers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Answers")]
pub struct ShapeArgs {
    /// Answer with JSON that is valid by this JSON schema, also -jf: a file, or the schema itself if it begins with {. The
    /// model does not see the schema: say in the question what is wanted. The exit code is 4 if an answer is incomplete
    #[arg(short = 'j', long, visible_alias = "json-schema-file", value_name = "FILE")]
    json_schema: Option<PathBuf>,
    /// Answer with text that the grammar in this file describes. It is written in llguidance's variant of Lark, not in
    /// llama.cpp's GBNF
    #[arg(long, value_name = "FILE", conflicts_with = "json_schema")]
    grammar_file: Option<PathBuf>,
}

impl ShapeArgs {
    /// Whether answers are JSON.
    pub fn is_json(&self) -> bool {
        self.json_schema.is_some()
    }

    /// The shape, for a model with this format; `None` if answers may be any text.
    ///
    /// # Errors
    /// A file cannot be read, or what it says cannot be used.
    pub fn constraint(&self, format: &ChatFormat) -> Result<Option<Constraint>, Failure> {
        if let Some(given) = &self.json_schema {
            if let Some(schema) = given.to_str().filter(|text| text.trim_start().starts_with('{')) {
                return Constraint::json_schema(format, schema)
                    .map(Some)
                    .map_err(|error| failed("--json-schema", error));
            }
            return from_file(given, |text| Constraint::json_schema(format, text)).map(Some);
        }
        let file = self.grammar_file.as_deref();
        file.map(|file| from_file(file, |text| Constraint::grammar(format, text))).transpose()
    }
}

fn from_file(
    file: &Path,
    compile: impl FnOnce(&str) -> Result<Constraint, ConstraintError>,
) -> Result<Constraint, Failure> {
    let text = regular_file::read_text(file, MAX_BYTES).map_err(|error| {
        Failure::usage(format!("{}: {error}", file.display()), "give a file with a JSON schema or a grammar")
    })?;
    compile(&text).map_err(|error| failed(&file.display().to_string(), error))
}

fn failed(what: &str, error: ConstraintError) -> Failure {
    Failure::usage(format!("{what}: {error}"), error.hint_with_flags().unwrap_or_default())
}
