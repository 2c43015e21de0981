//! Numbers of heads: scores that were measured or published.

use serde::{Deserialize, Serialize};

use super::error::{HeadsError, shorten};
use super::shape::HeadShape;

/// What a column of a [`ScoreMap`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoresPer {
    /// A query head.
    QueryHead,
    /// A KV head.
    KvHead,
}

/// One number for each head of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreMap {
    /// What the numbers are: "induction", "echo", or the name of a published map's values.
    pub name: String,
    /// Whether they are per query head or per KV head.
    pub per: ScoresPer,
    /// `[layers, columns]`, layer by layer.
    pub values: Vec<f32>,
}

impl ScoreMap {
    /// Checks length and finiteness against a shape.
    pub(super) fn check(&self, shape: &HeadShape) -> Result<(), HeadsError> {
        check_scores(&self.name, &self.values, shape, self.per)
    }
}

/// Refuses scores of the wrong length and scores that are not finite.
pub(super) fn check_scores(
    name: &str,
    values: &[f32],
    shape: &HeadShape,
    per: ScoresPer,
) -> Result<(), HeadsError> {
    let columns = shape.columns(per);
    let needed = shape.layers() * columns;
    if values.len() != needed {
        return Err(HeadsError::Length { what: shorten(name), found: values.len(), needed });
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => {
            Err(HeadsError::NotFinite { what: shorten(name), layer: at / columns, head: at % columns })
        }
        None => Ok(()),
    }
}
