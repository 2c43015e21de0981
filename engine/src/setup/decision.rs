//! How one session would run: where the layers are, and whether it fits. Nothing is loaded for it. `advice` compares
//! sessions by it, and [`Setup`](super::Setup) is made of the one that is chosen.

use std::cell::RefCell;
use std::sync::Arc;

use super::planner::{ModelOutline, Planner, Precision, count_planning, place};
use super::profiles::{Found, Profiles, assumed_share, smallest, spread};
use super::target::GpuLayers;
use super::{SetupOptions, Target, calibrate};
use crate::compute::row_groups::layers_without_groups;
use crate::devices::attention::DeviceAttention;
use crate::devices::ledger::{Ledger, Left, Reservation};
use crate::devices::memory::FreeMemory;
use crate::error::Shortage;
use crate::heads::HeadProfile;
use crate::kv::{KvBudget, PolicyChoice};
use crate::progress::{Notice, Observer};
use crate::session::Prefill;
use crate::setup::plan::{Measurements, Placement, Plan};
use crate::{DeviceOptions, EngineError, EngineOptions, Model, SessionOptions};

/// Decides about sessions of one model, on the same devices.
pub(super) struct Decider<'a> {
    pub(super) model: &'a Arc<Model>,
    /// Of the engine, and of head profiles. Policy, types and prefill are those of each session.
    options: &'a SetupOptions,
    outline: ModelOutline,
    target: Target,
    measurements: Measurements,
    /// What is known of the heads, by policy.
    heads: RefCell<Vec<(String, PlannedHeads)>>,
    /// What a calibration needs, by the place of the layers and whether it makes row predictors.
    calibrations: RefCell<Vec<((Placement, bool), usize)>>,
}

/// A session to decide about.
pub(super) struct Proposal {
    /// Without its head profile, which is in `heads`.
    pub(super) session: SessionOptions,
    pub(super) heads: PlannedHeads,
    /// How much bounded heads keep, instead of the policy's own parameters.
    pub(super) budget: Option<KvBudget>,
    /// Tokens of the first text.
    pub(super) prompt: usize,
    /// Tokens of the longest first text that there may be.
    pub(super) longest: usize,
    /// Whether a session that does not fit the host's memory is refused.
    pub(super) check_memory: bool,
}

/// How a session would run.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// The session, with its head profile where that is known, or none is needed.
    pub(super) session: SessionOptions,
    /// Whether it is.
    pub(super) known: bool,
    pub(super) plan: Plan,
    pub(super) placement: Placement,
    /// Tokens of the first text.
    pub(super) prompt: usize,
    /// Bytes of main memory besides the weights that the session is promised: what it is planned to take, or where only
    /// smaller heads than the assumed ones fit, the least that it may take.
    pub(super) promised: usize,
    /// How many sessions like this one are to have room.
    sessions: usize,
    /// See [`Setup::fits`](super::Setup::fits).
    pub(super) fits: bool,
    /// Whether the memory could hold the weights with the longest first text. If so, a smaller cache may fit.
    pub(super) weights_fit: bool,
    /// The main memory that was left.
    pub(super) left: Option<Left>,
    target: Target,
}

/// What is known of a session's heads before the model is loaded.
#[derive(Clone)]
pub(super) struct PlannedHeads {
    /// Whether there is a profile, or none is needed.
    known: bool,
    /// The profile, or an assumed one of the usual size.
    expected: Option<HeadProfile>,
    /// The profile, or one that takes no more memory than any other.
    smallest: Option<HeadProfile>,
}

impl PlannedHeads {
    pub(super) fn known(profile: Option<HeadProfile>) -> PlannedHeads {
        PlannedHeads { known: true, expected: profile.clone(), smallest: profile }
    }

    fn find(
        model: &Arc<Model>,
        options: &SetupOptions,
        policy: &PolicyChoice,
        observer: &mut dyn Observer,
    ) -> Result<PlannedHeads, EngineError> {
        let shape = model.head_shape()?;
        Ok(match Profiles::new(model, options).find(policy, observer)? {
            Found::NotNeeded => PlannedHeads::known(None),
            Found::Profile(profile) => PlannedHeads::known(Some(profile)),
            Found::Missing { .. } => PlannedHeads {
                known: false,
                expected: Some(spread(shape, assumed_share(shape))?),
                smallest: Some(smallest(shape)?),
            },
        })
    }
}

impl<'a> Decider<'a> {
    /// Finds the devices that `options` ask for.
    ///
    /// # Errors
    /// If the model's tensors do not fit its metadata, or a device cannot be used.
    pub(super) fn new(
        model: &'a Arc<Model>,
        options: &'a SetupOptions,
        observer: &mut dyn Observer,
    ) -> Result<Decider<'a>, EngineError> {
        model.check_tensors()?;
        Ok(Decider {
            target: Target::find(model, options, observer)?,
            outline: ModelOutline::of_model(model),
            measurements: Measurements::default(),
            heads: RefCell::default(),
            calibrations: RefCell::default(),
            model,
            options,
        })
    }

    fn planner(&self, budget: Option<KvBudget>) -> Planner<'_> {
        Planner::unloaded(&self.outline, &self.target, self.options, budget, &self.measurements)
    }

    fn check(&self, plan: &Plan, context: usize, left: Option<Left>) -> Result<(), EngineError> {
        check_unloaded(plan, self.options.sessions, context, left)
    }

    /// The main memory that is left for a session.
    fn left(&self) -> Option<Left> {
        self.options.ledger.left(0)
    }

    /// What is known of the heads of a session with `policy`.
    pub(super) fn heads(
        &self,
        policy: &PolicyChoice,
        observer: &mut dyn Observer,
    ) -> Result<PlannedHeads, EngineError> {
        let name = policy.to_string();
        if let Some((_, heads)) = self.heads.borrow().iter().find(|(other, _)| *other == name) {
            return Ok(heads.clone());
        }
        let heads = PlannedHeads::find(self.model, self.options, policy, observer)?;
        self.heads.borrow_mut().push((name, heads.clone()));
        Ok(heads)
    }

    /// The session that `options` ask for, with a first text of `prompt` tokens.
    ///
    /// # Errors
    /// If options contradict each other, or computing the windows of its heads would be in vain.
    pub(super) fn proposal(
        &self,
        options: &SetupOptions,
        prompt: usize,
        observer: &mut dyn Observer,
    ) -> Result<Proposal, EngineError> {
        let (spec, shape) = (self.model.spec(), self.model.head_shape()?);
        let session = options.session(options.context.tokens(prompt, spec.n_ctx_train));
        session.policy.check(spec)?;
        if session.policy.scope_options(spec).is_some() {
            // Windows take a while to compute: what does not fit whatever they are is refused before.
            let session = SessionOptions { profile: Some(smallest(shape)?), ..session.clone() };
            let wanted = self.target.wanted(spec.n_layers);
            let planner = self.planner(options.budget);
            let planned = planner.plan(&planner.prepare(&session)?, prompt, wanted, Precision::Graphs)?;
            self.check(&planned.bytes, session.context, self.left())?;
        }
        let longest = if options.only_text { prompt } else { session.context };
        let heads = self.heads(&session.policy, observer)?;
        Ok(Proposal { session, heads, budget: options.budget, prompt, longest, check_memory: true })
    }

    /// Decides about a session. With [`Precision::Arithmetic`] no graph is built for it, but once for each place of the
    /// layers those of a calibration, where its heads are not known.
    ///
    /// # Errors
    /// If options contradict each other, the session does not fit the free memory of the host, or the interrupt flag is
    /// set.
    pub(super) fn decide(&self, proposal: &Proposal, precision: Precision) -> Result<Decision, EngineError> {
        let Proposal { session, heads, budget, prompt, longest, check_memory } = proposal;
        let (prompt, longest, target) = (*prompt, *longest, &self.target);
        let layers = self.model.spec().n_layers;
        let planner = self.planner(*budget);
        let with = |profile: &Option<HeadProfile>| {
            planner.prepare(&SessionOptions { profile: profile.clone(), ..session.clone() })
        };
        // A budget may be too small for the expected profile and large enough for the real one.
        let prepared = with(&heads.expected).or_else(|_| with(&heads.smallest))?;
        let plan = |prompt, placement, precision| planner.plan(&prepared, prompt, placement, precision);
        if precision == Precision::Graphs {
            count_planning();
        }
        let placement =
            place(target, layers, precision, &|placement, precision| plan(longest, placement, precision));
        let planned = plan(prompt, placement, precision)?;
        let left = self.left();
        let mut promised = needed_by_all(&planned.bytes, self.options.sessions);
        if *check_memory && self.check(&planned.bytes, session.context, left).is_err() {
            // Only what does not fit whatever the heads do is refused.
            let smallest = planner.plan(&with(&heads.smallest)?, prompt, placement, precision)?;
            self.check(&smallest.bytes, session.context, left)?;
            promised = needed_by_all(&smallest.bytes, self.options.sessions);
        }
        if let Some(left) = left.filter(|_| *check_memory && !heads.known) {
            // Calibration comes before the session is made.
            let free = left.free.bytes.saturating_sub(copies(&planned.bytes));
            calibrate::check_memory(
                self.needed_to_calibrate(placement, session.policy.predicts_scores())?,
                free,
            )?;
        }
        // The steps of a setup are too short to look at the flag, and none of them resets it.
        self.options.interrupt.check()?;
        let at_most = plan(longest, placement, precision)?;
        let fits = target.fits(&at_most.bytes, placement, layers) != Some(false);
        if !fits && !target.devices.is_empty() && precision == Precision::Graphs {
            // By these graphs smaller sessions are estimated, which leave all layers on the GPU.
            plan(longest, target.wanted(layers), precision)?;
        }
        let weights_fit =
            fits || target.holds_weights(&plan(longest, target.smallest(layers), precision)?.bytes);
        let session = prepared.session.clone();
        let profile = session.profile.clone().filter(|_| heads.known);
        Ok(Decision {
            session: SessionOptions { profile, ..session },
            known: heads.known,
            plan: planned.bytes,
            placement,
            prompt,
            promised,
            sessions: self.options.sessions,
            fits,
            weights_fit,
            left,
            target: target.clone(),
        })
    }

    /// The least bytes of main memory besides the weights that a calibration takes, which does not depend on the session.
    fn needed_to_calibrate(&self, placement: Placement, row_predictors: bool) -> Result<usize, EngineError> {
        let case = (placement, row_predictors);
        if let Some((_, needed)) = self.calibrations.borrow().iter().find(|(other, _)| *other == case) {
            return Ok(*needed);
        }
        let needed = calibrate::least_needed(&self.planner(None), placement, row_predictors)?;
        self.calibrations.borrow_mut().push((case, needed));
        Ok(needed)
    }
}

impl Decision {
    /// How the model is loaded for the session.
    pub(super) fn engine(&self, options: &SetupOptions) -> EngineOptions {
        // Devices without layers are left alone.
        let used = self.target.devices.iter().zip(self.placement.counts()).enumerate();
        let used = used.filter(|(_, (_, layers))| *layers > 0);
        let devices = used.map(|(number, (device, layers))| DeviceOptions {
            kind: device.kind,
            layers,
            memory: self.device_limit(number),
        });
        EngineOptions {
            devices: devices.collect(),
            host_experts: self.placement.host_experts(),
            host_residual: self.placement.has_host_residual(),
            ..options.engine()
        }
    }

    /// Bytes that the engine may allocate on a device, if that is known.
    fn device_limit(&self, device: usize) -> Option<usize> {
        let limit = self.target.devices[device].limit?;
        Some(limit.saturating_sub(self.plan.devices[device].overhead))
    }

    /// Tells what the user should know of it.
    pub(super) fn announce(&self, model: &Model, options: &SetupOptions, observer: &mut dyn Observer) {
        let spec = model.spec();
        if let Some(window) = spec.ignored_sliding_window {
            observer.notice(Notice::IgnoredWindow { window });
        }
        if self.session.prefill == Prefill::Sparse {
            let exact = layers_without_groups(spec, self.placement);
            if exact > 0 {
                observer.notice(Notice::LayersWithoutGroups { exact, layers: spec.n_layers });
            }
        }
        let devices = &self.target.devices;
        if devices.is_empty() {
            if let Some(limit) = options.gpu_memory.first().copied().filter(|_| !self.fits) {
                let (weights_alone, weights) = (!self.weights_fit, self.plan.weights.on_host());
                let needed = if weights_alone { weights } else { self.plan.total().max(limit + 1) };
                observer.notice(Notice::LimitNotKept { limit, needed, weights_alone });
            }
            return;
        }
        let (on_gpu, layers) = (self.placement.on_devices(), spec.n_layers);
        if on_gpu == 0 {
            if options.gpu_layers == GpuLayers::Auto {
                let (free, layers) = (self.target.limit().unwrap_or(0), self.target.fewest_layers());
                observer.notice(Notice::NothingFitsGpu { free, layers });
            }
            return;
        }
        if !self.target.is_as_asked(self.placement) {
            observer.notice(Notice::LayersTogether { layers: self.target.fewest_layers() });
        }
        if devices.len() > 1 || devices.iter().any(|device| device.kind.is_remote()) {
            let kinds = devices.iter().map(|device| device.kind);
            let on_devices = kinds.zip(self.placement.counts()).collect();
            observer.notice(Notice::LayersOnDevices { on_devices, on_host: layers - on_gpu });
        } else if on_gpu < layers {
            observer.notice(Notice::LayersOnGpu { on_gpu, layers });
        }
        if let Some(reason) = self.target.portable_reason(spec) {
            observer.notice(Notice::PortableOperations { reason });
        }
        let split = self.placement.split_layers(spec);
        if split > 0 {
            observer.notice(Notice::ExpertsOnCpu { split, on_gpu });
        }
        if self.placement.has_host_residual() && self.session.prefill.is_by_layer() {
            observer.notice(Notice::ResidualOnHost);
        }
    }

    /// Whether a GPU was to compute, even if nothing fits it.
    pub(super) fn is_for_gpu(&self) -> bool {
        !self.target.devices.is_empty()
    }

    /// Whether a GPU computes.
    pub(super) fn is_on_gpu(&self) -> bool {
        self.placement.on_devices() > 0
    }

    /// See [`Setup::is_expected_to_fit`](super::Setup::is_expected_to_fit).
    pub(super) fn is_expected_to_fit(&self) -> bool {
        check_unloaded(&self.plan, self.sessions, self.session.context, self.left).is_ok()
    }

    /// Promises the session its main memory, with what will be copied of the weights.
    ///
    /// # Errors
    /// If others were promised it meanwhile.
    pub(super) fn reserve(&self, ledger: &Ledger) -> Result<Reservation, EngineError> {
        let bytes = self.promised + copies(&self.plan);
        ledger.reserve(bytes, None).map_err(|left| left.error(self.session.context, bytes))
    }

    /// See [`Setup::needed`](super::Setup::needed).
    pub(super) fn needed(&self) -> usize {
        match self.is_on_gpu() {
            true => (0..self.plan.devices.len()).map(|device| self.plan.device_session(device)).sum(),
            false => needed_on_host(&self.plan),
        }
    }

    /// See [`Setup::free`](super::Setup::free).
    pub(super) fn free(&self) -> Option<usize> {
        let beside_weights = |(device, weights): (usize, &usize)| {
            self.device_limit(device).map(|memory| memory.saturating_sub(*weights))
        };
        match self.is_on_gpu() {
            true => self.plan.weights.devices.iter().enumerate().map(beside_weights).sum(),
            false => self.left.map(|left| left.free.bytes),
        }
    }
}

impl<'a> Planner<'a> {
    /// The planner for a model that is not loaded yet.
    pub(super) fn unloaded(
        outline: &'a ModelOutline,
        target: &Target,
        options: &SetupOptions,
        budget: Option<KvBudget>,
        measurements: &'a Measurements,
    ) -> Planner<'a> {
        let kernels = target.kernels(options.engine().threads());
        let attention = target.devices.iter().filter_map(|device| DeviceAttention::of(device.kind)).collect();
        Planner { outline, repack: options.repack, budget, kernels, attention, measurements }
    }
}

/// Bytes of main memory besides the weights.
pub(super) fn needed_on_host(plan: &Plan) -> usize {
    plan.total() - plan.weights.on_host()
}

/// The same of so many sessions.
fn needed_by_all(plan: &Plan, sessions: usize) -> usize {
    needed_on_host(plan).saturating_mul(sessions)
}

/// Bytes of weights that are copied in main memory.
pub(super) fn copies(plan: &Plan) -> usize {
    plan.weights.repacked + plan.weights.copied
}

/// Refuses so many sessions that will not fit what is `left` of main memory once the weights are loaded.
fn check_unloaded(
    plan: &Plan,
    sessions: usize,
    context: usize,
    left: Option<Left>,
) -> Result<(), EngineError> {
    let (needed, copies) = (needed_by_all(plan, sessions), copies(plan));
    match left {
        Some(Left { free, reserved }) if needed > free.bytes.saturating_sub(copies) => {
            let free = FreeMemory { bytes: free.bytes.saturating_sub(copies), ..free };
            Err(Left { free, reserved }.error(context, needed))
        }
        _ => Ok(()),
    }
}

impl Left {
    /// The error of a session of `context` tokens that needs so many bytes of main memory.
    pub(super) fn error(&self, context: usize, needed: usize) -> EngineError {
        let (FreeMemory { bytes: free, bound }, reserved) = (self.free, self.reserved);
        EngineError::Memory(Shortage {
            context,
            needed,
            free,
            on_device: false,
            bound: Some(bound),
            reserved,
        })
    }
}
