//! A saved session stays as it was made. Flags that ask for another one are found here, before anything is loaded; flags that ask for
//! the same change nothing, so that a command can be given again.

use std::sync::Arc;

use anyhow::Result;
use longhand::heads::HeadProfile;
use longhand::setup::Profiles;
use longhand::{Context, HeadSource, Model, SessionOptions, SetupOptions};

use crate::args::session::PrefillArg;

/// What the saved session has, for every flag that asks for something else.
pub fn differences(saved: &SessionOptions, asked: &SetupOptions, model: &Arc<Model>) -> Result<Vec<String>> {
    let spec = model.spec();
    let mut others = Vec::new();
    let mut compare = |flag: &str, saved: String, asked: Option<String>| {
        if let Some(asked) = asked.filter(|asked| *asked != saved) {
            others.push(format!("{flag} {saved} (not {asked})"));
        }
    };
    let context = match asked.context {
        Context::AsNeeded => None,
        context => Some(context.tokens(0, spec.n_ctx_train).to_string()),
    };
    compare("-c", saved.context.to_string(), context);
    compare("-ctk", saved.types.0.name().into(), asked.k_type.map(|ty| ty.name().into()));
    compare("-ctv", saved.types.1.name().into(), asked.v_type.map(|ty| ty.name().into()));
    let prefill = |prefill| PrefillArg::from(prefill).name().to_owned();
    compare("--prefill", prefill(saved.prefill), asked.prefill.map(prefill));

    let choice = asked.policy.as_ref().unwrap_or(&saved.policy);
    // A budget says nothing of another policy: it does not even have the profile that it needs.
    let same = choice.name() == saved.policy.name() && choice.uses_profile() == saved.policy.uses_profile();
    let policy = match asked.budget.filter(|_| same) {
        Some(budget) => {
            SessionOptions { policy: choice.clone(), ..saved.clone() }.within(budget, spec)?.policy
        }
        None => choice.clone(),
    };
    if policy != saved.policy {
        others.push(format!("--policy {} (not {policy})", saved.policy));
    } else if let HeadSource::File(path) = &asked.heads {
        let profile = Profiles::new(model, asked).read(path, &policy)?;
        if saved.profile.as_ref().map(HeadProfile::retrieval) != Some(profile.retrieval()) {
            let which = if saved.profile.is_some() { "another" } else { "no" };
            others.push(format!("{which} head profile (--heads)"));
        }
    }
    Ok(others)
}
