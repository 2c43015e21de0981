//! Compares flags with a saved session before anything is loaded. Flags cannot change a saved session but its context,
//! and the command that started it also continues it.

use std::sync::Arc;

use anyhow::Result;
use longhand::setup::{HeadSource, Profiles};
use longhand::{Model, SessionOptions, SetupOptions};
use terminal::prefill::PrefillArg;

/// Describes each flag in `given` that differs from the saved session, for example `-ctk q8_0 (not f16)`.
pub fn differences(saved: &SessionOptions, given: &SetupOptions, model: &Arc<Model>) -> Result<Vec<String>> {
    let spec = model.spec();
    let mut differences = Vec::new();
    let mut compare = |flag: &str, saved: String, given: Option<String>| {
        if let Some(given) = given.filter(|given| *given != saved) {
            differences.push(format!("{flag} {saved} (not {given})"));
        }
    };
    compare("-ctk", saved.types.0.name().into(), given.k_type.map(|ty| ty.name().into()));
    compare("-ctv", saved.types.1.name().into(), given.v_type.map(|ty| ty.name().into()));
    let prefill = |prefill| PrefillArg::from(prefill).name().to_owned();
    compare("--prefill", prefill(saved.prefill), given.prefill.map(prefill));

    let choice = given.policy.as_ref().unwrap_or(&saved.policy);
    // The budget is applied only to the saved policy: another one may need a head profile that the session
    // lacks.
    let same = choice.name() == saved.policy.name() && choice.uses_profile() == saved.policy.uses_profile();
    let policy = match given.budget.filter(|_| same) {
        Some(budget) => {
            SessionOptions { policy: choice.clone(), ..saved.clone() }.within(budget, spec)?.policy
        }
        None => choice.clone(),
    };
    if policy != saved.policy {
        differences.push(format!("--policy {} (not {policy})", saved.policy));
    } else if let HeadSource::File(path) = &given.heads {
        let profile = Profiles::new(model, given).read(path, &policy, &mut ())?;
        if !saved.profile.as_ref().is_some_and(|saved| saved.keeps_as(&profile)) {
            let which = if saved.profile.is_some() { "another" } else { "no" };
            differences.push(format!("{which} head profile (--heads)"));
        }
    }
    Ok(differences)
}
