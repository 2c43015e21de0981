//! What a session takes, for any placement of the layers and any context: the arithmetic behind
//! [`Setup`](super::Setup) and [`Forecast`](super::Forecast).

use models::shapes::{FileType, ModelShape};
use models::spec::ModelSpec;

use crate::heads::{HeadShape, HeadsError};
use crate::kv::{KvBudget, Layout, StoreOptions};
use crate::model::outline::{TensorOutline, tensor_outlines};
use crate::setup::plan::{Placement, Plan, PlanOptions};
use crate::{EngineError, Model, Prefill, SessionOptions};

/// A model as far as memory is concerned: of a file, or a well-known shape without weights.
#[derive(Clone, Debug)]
pub(super) struct ModelOutline {
    /// Sizes and settings.
    pub(super) spec: ModelSpec,
    /// Tensors.
    pub(super) tensors: Vec<TensorOutline>,
}

impl ModelOutline {
    /// The outline of a model file.
    pub(super) fn of_model(model: &Model) -> ModelOutline {
        ModelOutline { spec: model.spec().clone(), tensors: tensor_outlines(model.gguf()) }
    }

    /// The outline of a well-known shape.
    pub(super) fn of_shape(shape: &ModelShape, file_type: FileType) -> ModelOutline {
        let tensors = shape.tensors(file_type).into_iter();
        let tensors = tensors.map(|t| TensorOutline { name: t.name, dims: t.dims, ty: t.ty }).collect();
        ModelOutline { spec: shape.spec(), tensors }
    }

    /// The model's heads, for profiles.
    pub(super) fn head_shape(&self) -> Result<HeadShape, HeadsError> {
        HeadShape::new(self.spec.n_layers, self.spec.n_heads, self.spec.n_kv_heads)
    }
}

/// Plans sessions of one model.
pub(super) struct Planner<'a> {
    /// The model.
    pub(super) outline: &'a ModelOutline,
    /// Whether matrices are copied into a faster layout.
    pub(super) repack: bool,
    /// Threads that compute.
    pub(super) threads: usize,
    /// How much bounded heads keep, instead of the policy's own parameters.
    pub(super) budget: Option<KvBudget>,
    /// Blocks of the device, see [`PlanOptions::blocks`].
    pub(super) blocks: usize,
}

/// What a session would take.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The bytes.
    pub bytes: Plan,
    /// The session, its policy with the parameters that the budget allows.
    pub session: SessionOptions,
    /// Rows of every head.
    pub layout: Layout,
    /// Which layers are on the device.
    pub placement: Placement,
}

impl Planner<'_> {
    /// Plans `session`, whose first text has `prompt` tokens, with layers placed so.
    pub(super) fn plan(
        &self,
        session: &SessionOptions,
        prompt: usize,
        placement: Placement,
    ) -> Result<Planned, EngineError> {
        let spec = &self.outline.spec;
        session.check_context(spec)?;
        let session = match self.budget {
            Some(budget) => session.within(budget, spec)?,
            None => session.clone(),
        };
        let store_options = StoreOptions { context: session.context, types: session.types, reserve: None };
        let layout = Layout::new(spec, &session.policy, session.profile.as_ref(), store_options)?;
        let options = PlanOptions {
            repack: self.repack,
            prompt,
            chunk: session.chunk,
            exact: session.prefill == Prefill::Exact,
            threads: self.threads,
            placement,
            blocks: self.blocks,
        };
        let bytes = Plan::new(spec, &self.outline.tensors, &layout, &options)?;
        Ok(Planned { bytes, session, layout, placement })
    }
}

impl Planned {
    /// Rows that every KV head has room for, `[layers][KV heads]`.
    pub fn rows(&self) -> Vec<Vec<usize>> {
        (self.layout.layers.iter().zip(&self.layout.heads))
            .map(|(lanes, heads)| {
                let mut rows = vec![0; heads.n_kv_heads];
                for lane in lanes {
                    lane.kv_heads.iter().for_each(|head| rows[*head as usize] = lane.capacity);
                }
                rows
            })
            .collect()
    }

    /// Most rows that a bounded head has room for; `None` where no head is bounded.
    pub fn bounded_rows(&self) -> Option<usize> {
        let lanes = self.layout.layers.iter().flatten();
        let lanes = lanes.filter(|lane| lane.policy.is_some() && lane.window.is_none());
        lanes.map(|lane| lane.capacity).max()
    }
}
