//! What a session takes, for any placement of the layers and any context: what [`Setup`](super::Setup) and
//! [`Forecast`](super::Forecast) decide by. Arithmetic decides where it can. Graphs are built for what is chosen, and
//! where the estimate of compute buffers is too rough to decide.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use models::shapes::{FileType, ModelShape};
use models::spec::ModelSpec;

use crate::devices::attention::DeviceAttention;
use crate::heads::{HeadShape, HeadsError};
use crate::kv::{KvBudget, Layout, StoreOptions};
use crate::model::outline::{TensorOutline, tensor_outlines};
use crate::setup::Target;
use crate::setup::plan::{Kernels, Measurements, PerPlace, Placement, Plan, PlanOptions};
use crate::{EngineError, Model, SessionOptions};

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
    /// How much bounded heads keep, instead of the policy's own parameters.
    pub(super) budget: Option<KvBudget>,
    /// See [`PlanOptions::kernels`].
    pub(super) kernels: PerPlace<Kernels>,
    /// The attention of devices that lack some.
    pub(super) attention: Vec<DeviceAttention>,
    /// What is known of graphs.
    pub(super) measurements: &'a Measurements,
}

/// How exactly a session is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// Compute buffers are those of the session's graphs, which are built unless they are known.
    Graphs,
    /// Compute buffers are those of the nearest graphs that are known.
    Arithmetic,
}

/// What a session would take.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// The bytes.
    pub(super) bytes: Plan,
    /// Which layers are where.
    pub(super) placement: Placement,
    /// The share by which compute buffers may differ; 0 where the graphs were built.
    margin: f64,
}

/// Plans a session with layers placed so.
pub(super) type PlanPlacement<'a> = &'a dyn Fn(Placement, Precision) -> Result<Planned, EngineError>;

/// A session whose rows are known.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    /// The session, its policy with the parameters that the budget allows.
    pub(super) session: SessionOptions,
    /// Rows of every head.
    pub(super) layout: Arc<Layout>,
}

impl Planner<'_> {
    /// Sets the policy's parameters to what the budget allows, and counts the rows.
    pub(super) fn prepare(&self, session: &SessionOptions) -> Result<Prepared, EngineError> {
        let spec = &self.outline.spec;
        session.check_context(spec)?;
        let session = match self.budget {
            Some(budget) => session.within(budget, spec)?,
            None => session.clone(),
        };
        self.attention.iter().try_for_each(|attention| attention.check_types(spec, session.types))?;
        let store_options = StoreOptions { context: session.context, types: session.types, reserve: None };
        let layout = Arc::new(Layout::new(spec, &session.policy, session.profile.as_ref(), store_options)?);
        Ok(Prepared { session, layout })
    }

    /// Plans a session whose first text has `prompt` tokens, with layers placed so.
    pub(super) fn plan(
        &self,
        prepared: &Prepared,
        prompt: usize,
        placement: Placement,
        precision: Precision,
    ) -> Result<Planned, EngineError> {
        let Prepared { session, layout } = prepared;
        let options = PlanOptions {
            repack: self.repack,
            prompt,
            chunk: session.chunk,
            prefill: session.prefill,
            record_attention: session.record_attention,
            draft: session.draft,
            sessions: session.sessions,
            placement,
            kernels: self.kernels.clone(),
        };
        let (spec, tensors, known) = (&self.outline.spec, &self.outline.tensors, self.measurements);
        let (bytes, margin) = match precision {
            Precision::Graphs => (Plan::measured(spec, tensors, layout, &options, known)?, 0.0),
            Precision::Arithmetic => Plan::estimated(spec, tensors, layout, &options, known)?,
        };
        Ok(Planned { bytes, placement, margin })
    }
}

thread_local! {
    static PLANNINGS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a session that is planned with graphs, for tests.
pub(super) fn count_planning() {
    PLANNINGS.set(PLANNINGS.get() + 1);
}

/// How many sessions this thread has planned with graphs.
pub fn plannings() -> usize {
    PLANNINGS.get()
}

/// How often a placement is searched for. Each search knows the graphs of the one before, so two are usual.
const MAX_SEARCHES: usize = 8;

/// Where `target` has a model's layers for a session that `plan` plans.
pub(super) fn place(target: &Target, layers: usize, precision: Precision, plan: PlanPlacement) -> Placement {
    let holds = |placement, devices: Range<usize>| {
        let Ok(estimate) = plan(placement, Precision::Arithmetic) else { return false };
        let are_enough = |plan: &Plan| target.devices_hold(plan, devices.clone());
        match (precision, estimate.is_held(&are_enough)) {
            (_, Some(known)) => known,
            (Precision::Arithmetic, None) => are_enough(&estimate.bytes),
            (Precision::Graphs, None) => {
                plan(placement, Precision::Graphs).is_ok_and(|planned| are_enough(&planned.bytes))
            }
        }
    };
    let mut chosen = target.choose(layers, &holds);
    if precision == Precision::Arithmetic {
        return chosen;
    }
    // The graphs of what was chosen may say otherwise. They are known from then on.
    for _ in 0..MAX_SEARCHES {
        let planned = plan(chosen, Precision::Graphs);
        if planned.is_ok_and(|planned| target.holds(&planned.bytes)) {
            break;
        }
        let next = target.choose(layers, &holds);
        if next == chosen {
            break;
        }
        chosen = next;
    }
    chosen
}

impl Planned {
    /// Whether the plan is one that `are_enough`; `None` where that depends on how much compute buffers differ.
    fn is_held(&self, are_enough: &dyn Fn(&Plan) -> bool) -> Option<bool> {
        let holds = |factor: f64| {
            let mut plan = self.bytes.clone();
            for place in plan.devices.iter_mut().chain([&mut plan.host]) {
                place.compute = (place.compute as f64 * factor) as usize;
            }
            are_enough(&plan)
        };
        match (holds((1.0 - self.margin).max(0.0)), self.margin.is_finite() && holds(1.0 + self.margin)) {
            (false, _) => Some(false),
            (true, true) => Some(true),
            (true, false) => (self.margin == 0.0).then_some(true),
        }
    }
}

impl Prepared {
    /// Rows that every KV head has room for, `[layers][KV heads]`.
    pub(super) fn rows(&self) -> Vec<Vec<usize>> {
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
    pub(super) fn bounded_rows(&self) -> Option<usize> {
        let lanes = self.layout.layers.iter().flatten();
        let lanes = lanes.filter(|lane| lane.policy.is_some() && lane.window.is_none());
        lanes.map(|lane| lane.capacity).max()
    }
}
