//! A session that is kept is as it was made. Flags that ask for another one are found here, before anything is loaded; those that ask
//! for the same, as when a command is given again, are as good as none.

use anyhow::Result;
use engine::SessionOptions;
use engine::heads::{HeadProfile, HeadShape};
use engine::kv::StoreOptions;
use models::gguf::GgufFile;
use models::spec::ModelSpec;

use crate::args::session::{PrefillArg, SessionSettings};
use crate::profiles;

/// What the kept session has, for every flag that asks for something else.
pub fn differences(kept: &SessionOptions, asked: &SessionSettings, model: &GgufFile) -> Result<Vec<String>> {
    let spec = ModelSpec::from_gguf(model)?;
    let mut others = Vec::new();
    let mut compare = |flag: &str, kept: String, asked: Option<String>| {
        if let Some(asked) = asked.filter(|asked| *asked != kept) {
            others.push(format!("{flag} {kept} (not {asked})"));
        }
    };
    let context = asked.context.map(|context| if context == 0 { spec.n_ctx_train } else { context });
    compare("-c", kept.context.to_string(), context.map(|context| context.to_string()));
    compare("-ctk", kept.types.0.name().into(), asked.types.0.map(|ty| ty.name().into()));
    compare("-ctv", kept.types.1.name().into(), asked.types.1.map(|ty| ty.name().into()));
    let prefill = |prefill| PrefillArg::from(prefill).name().to_owned();
    compare("--prefill", prefill(kept.prefill), asked.prefill.map(prefill));

    let choice = asked.policy.as_ref().unwrap_or(&kept.policy);
    // A budget says nothing of another policy: it does not even have the profile that it needs.
    let same = choice.name() == kept.policy.name() && choice.uses_profile() == kept.policy.uses_profile();
    let policy = match asked.budget.filter(|_| same) {
        Some(budget) => {
            let room = StoreOptions { context: kept.context, types: kept.types, reserve: None };
            budget.apply(choice, &spec, kept.profile.as_ref(), room)?
        }
        None => choice.clone(),
    };
    if policy != kept.policy {
        others.push(format!("--policy {} (not {policy})", kept.policy));
    } else if let Some(path) = &asked.heads {
        let shape = HeadShape::new(spec.n_layers, spec.n_heads, spec.n_kv_heads)?;
        let profile = profiles::given(path, shape, &model.fingerprint(), &policy)?;
        if kept.profile.as_ref().map(HeadProfile::retrieval) != Some(profile.retrieval()) {
            let which = if kept.profile.is_some() { "another" } else { "no" };
            others.push(format!("{which} head profile (--heads)"));
        }
    }
    Ok(others)
}
