//! From settings to the options of a session: the head profile, a word about contexts beyond the model's training, and a refusal
//! where the memory is not there, before anything is allocated.

use anyhow::Result;
use engine::devices::Place;
use engine::kv::{KvBudget, Layout, StoreOptions};
use engine::outline::tensor_outlines;
use engine::plan::{Plan, PlanOptions};
use engine::{Engine, Prefill, SessionOptions};

use crate::args::App;
use crate::args::session::SessionSettings;
use crate::failure::Failure;
use crate::{format, memory, profiles};

/// Options for a session of `context` tokens whose first text has `prompt` tokens.
pub fn options(
    app: &App,
    engine: &Engine,
    settings: &SessionSettings,
    context: usize,
    prompt: usize,
) -> Result<SessionOptions> {
    note_beyond_training(app, engine, context);
    let mut options = settings.options(context);
    refuse_early(engine, &options, settings.budget, prompt)?;
    options.profile = profiles::for_policy(app, engine, &options.policy, settings.heads.as_deref())?;
    let options = within(engine, options, settings.budget)?;
    check_memory(engine, &options, prompt)?;
    Ok(options)
}

/// Refuses what cannot be whatever the profile says, before one is made.
pub fn refuse_early(
    engine: &Engine,
    options: &SessionOptions,
    budget: Option<KvBudget>,
    prompt: usize,
) -> Result<()> {
    let least = profiles::least(engine.head_shape()?)?;
    let options = SessionOptions { profile: Some(least), ..options.clone() };
    check_memory(engine, &within(engine, options, budget)?, prompt)
}

/// The options with the policy's parameters set to what the budget allows.
pub fn within(engine: &Engine, options: SessionOptions, budget: Option<KvBudget>) -> Result<SessionOptions> {
    let Some(budget) = budget else { return Ok(options) };
    let room = StoreOptions { context: options.context, types: options.types, reserve: None };
    let policy = budget.apply(&options.policy, engine.spec(), options.profile.as_ref(), room)?;
    Ok(SessionOptions { policy, ..options })
}

/// Says so where there is room for more tokens than the model was trained for.
pub fn note_beyond_training(app: &App, engine: &Engine, context: usize) {
    let trained = engine.spec().n_ctx_train;
    if context > trained {
        app.console.note(&format!(
            "note: a context of {} tokens is more than the {} that the model was trained for; \
             what lies beyond may not be understood",
            format::count(context),
            format::count(trained)
        ));
    }
}

/// Refuses a session that does not fit the memory that is free, here or on the device.
pub fn check_memory(engine: &Engine, options: &SessionOptions, prompt: usize) -> Result<()> {
    let plan = plan(engine, options, prompt)?;
    let device = engine.devices().at(Place::Device);
    let (here, there) =
        (plan.total() - plan.weights.on_host(), plan.device_allocated() - plan.weights.device);
    for (needed, free, place) in
        [(here, memory::available(), ""), (there, device.memory_left().filter(|_| there > 0), " on the GPU")]
    {
        let Some(free) = free.filter(|free| needed > *free) else { continue };
        return Err(Failure::new(
            format!(
                "a context of {} tokens needs {} besides the weights{place}, but {} are free",
                format::count(options.context),
                format::bytes(needed),
                format::bytes(free)
            ),
            match place {
                "" => "see `longhand plan` for what takes less: a policy, -ctk q8_0 -ctv q8_0, a smaller -c",
                _ => "see `longhand plan` for what takes less: a policy, -ctk q8_0 -ctv q8_0, a smaller -c; or leave layers on the CPU with -ngl",
            },
        )
        .into());
    }
    Ok(())
}

/// Bytes of the host that a session whose first text has `prompt` tokens takes besides the weights.
pub fn needed(engine: &Engine, options: &SessionOptions, prompt: usize) -> Result<usize> {
    let plan = plan(engine, options, prompt)?;
    Ok(plan.total() - plan.weights.on_host())
}

fn plan(engine: &Engine, options: &SessionOptions, prompt: usize) -> Result<Plan> {
    let spec = engine.spec();
    let room = StoreOptions { context: options.context, types: options.types, reserve: None };
    let layout = Layout::new(spec, &options.policy, options.profile.as_ref(), room)?;
    let how = PlanOptions {
        repack: false,
        prompt,
        chunk: options.chunk,
        exact: options.prefill == Prefill::Exact,
        threads: engine.threads(),
        on_device: engine.devices().placement().on_device(),
        blocks: engine.devices().at(Place::Device).blocks(),
    };
    Ok(Plan::new(spec, &tensor_outlines(engine.file()), &layout, &how)?)
}
