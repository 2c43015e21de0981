//! Head profiles by model: a file that was named, else the one kept for the model's fingerprint, else a new calibration, which is
//! kept. Kept profiles lie in `$XDG_CACHE_HOME/longhand/heads` (or `~/.cache/longhand/heads`), one file a fingerprint.

use std::path::{Path, PathBuf};

use anyhow::Result;
use engine::Engine;
use engine::alibi::{self, ScopeOptions};
use engine::calibrate::{CalibrationOptions, calibrate};
use engine::heads::{HeadProfile, HeadShape, HeadsError, Provenance, SelectionRule};
use engine::kv::PolicyChoice;

use crate::args::App;
use crate::failure::Failure;
use crate::progress::ProgressBar;

/// The folder for what can be made again.
pub fn cache_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = folder("XDG_CACHE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".cache")))
        .or_else(|| folder("LOCALAPPDATA"))?;
    Some(base.join("longhand"))
}

/// Where the profile of a model is kept.
pub fn kept_path(fingerprint: &str) -> Option<PathBuf> {
    Some(cache_folder()?.join("heads").join(format!("{fingerprint}.json")))
}

/// The profile that is kept for a model, if there is one and it can be used; why not, where it cannot.
pub fn kept(shape: HeadShape, fingerprint: &str) -> Result<Option<HeadProfile>, String> {
    match kept_path(fingerprint) {
        Some(path) => read_kept(&path, shape, fingerprint),
        None => Ok(None),
    }
}

fn read_kept(path: &Path, shape: HeadShape, fingerprint: &str) -> Result<Option<HeadProfile>, String> {
    if !path.is_file() {
        return Ok(None);
    }
    HeadProfile::load_for(path, shape, Some(fingerprint)).map(Some).map_err(|error| error.to_string())
}

/// Keeps a profile for its model; that it cannot be kept is only worth a note.
pub fn keep(app: &App, profile: &HeadProfile, fingerprint: &str) -> Option<PathBuf> {
    let path = kept_path(fingerprint)?;
    write_kept(app, profile, &path).then_some(path)
}

fn write_kept(app: &App, profile: &HeadProfile, path: &Path) -> bool {
    let saved = profile.save(path);
    if let Err(error) = &saved {
        app.console.note(&format!("note: the head profile is not kept: {error}"));
    }
    saved.is_ok()
}

/// The profile a policy needs; `None` for policies that use none.
pub fn for_policy(
    app: &App,
    engine: &Engine,
    policy: &PolicyChoice,
    file: Option<&Path>,
) -> Result<Option<HeadProfile>> {
    policy.check(engine.spec())?;
    if let Some(options) = policy.scope_options(engine.spec()) {
        if file.is_some() {
            return Err(Failure::usage(
                format!(
                    "--heads is given, but the windows of {policy} follow from the model's weights (ALiBi)"
                ),
                "leave --heads out, or choose another policy with heads=on",
            )
            .into());
        }
        return windows(app, engine, &options).map(Some);
    }
    if !policy.uses_profile() {
        if file.is_some() {
            return Err(Failure::usage(
                format!("--heads is given, but the policy {policy} uses no head profile"),
                "add --policy razor or heads=on to the policy, or leave --heads out",
            )
            .into());
        }
        return Ok(None);
    }
    let (shape, fingerprint) = (engine.head_shape()?, engine.file().fingerprint());
    if let Some(path) = file {
        return given(path, shape, &fingerprint, policy).map(Some);
    }
    let profile = match kept(shape, &fingerprint) {
        Ok(Some(profile)) => profile,
        Ok(None) => new(app, engine, &fingerprint)?,
        Err(problem) => {
            app.console
                .note(&format!("note: the kept head profile cannot be used and is made again: {problem}"));
            new(app, engine, &fingerprint)?
        }
    };
    Ok(Some(profile.reselect(&rule(policy))?.unwrap_or(profile)))
}

/// The profile of a file, with heads chosen again where the policy has shares of its own.
pub fn given(path: &Path, shape: HeadShape, fingerprint: &str, policy: &PolicyChoice) -> Result<HeadProfile> {
    let rule = rule(policy);
    let profile = HeadProfile::load_for(path, shape, Some(fingerprint))?;
    if rule == SelectionRule::default() {
        return Ok(profile);
    }
    Ok(profile.reselect(&rule)?.ok_or_else(|| {
        Failure::usage(
            format!("{}: has no induction and echo scores to choose heads by", path.display()),
            "leave induction= and echo= out: the profile's own choice is used",
        )
    })?)
}

/// How far the heads of a model with ALiBi see: as kept for its fingerprint and these options, else from its weights.
fn windows(app: &App, engine: &Engine, options: &ScopeOptions) -> Result<HeadProfile> {
    let (shape, fingerprint) = (engine.head_shape()?, engine.file().fingerprint());
    let strict = if options.rigorous { "-rigorous" } else { "" };
    let path = kept_path(&format!("{fingerprint}-windows-{}{strict}", options.epsilon));
    let kept = path.as_ref().map_or(Ok(None), |path| read_kept(path, shape, &fingerprint));
    let parameters = alibi::provenance(options).parameters;
    let usable =
        |profile: &HeadProfile| profile.scopes(0).is_some() && profile.provenance().parameters == parameters;
    match kept {
        Ok(Some(profile)) if usable(&profile) => return Ok(profile),
        Ok(None) => {}
        Ok(Some(_)) => {
            app.console.note("note: the kept windows are others than their name says and are made again")
        }
        Err(problem) => {
            app.console.note(&format!("note: the kept windows cannot be used and are made again: {problem}"));
        }
    }
    app.console.note("computing how far the model's heads see (once; the result is kept)");
    let mut bar = ProgressBar::new(&app.console, "windows");
    let profile =
        app.interrupt.reading(|| alibi::profile(engine, options, &mut |progress| bar.reading(progress)))?;
    drop(bar);
    if let Some(path) = path {
        write_kept(app, &profile, &path);
    }
    Ok(profile)
}

/// A profile under which every policy keeps as little as under any other.
pub fn least(shape: HeadShape) -> Result<HeadProfile, HeadsError> {
    HeadProfile::from_scopes(shape, &vec![vec![0.0; shape.kv_heads()]; shape.layers()], Provenance::default())
}

/// Query heads marked where no profile is known: the paper's 14 % + 1 %.
pub const MARKED: f64 = 0.15;

/// A profile for planning: the one that is kept, else a made-up one.
pub fn guess(shape: HeadShape, fingerprint: &str) -> Result<HeadProfile> {
    match kept(shape, fingerprint) {
        Ok(Some(profile)) => Ok(profile),
        _ => spread(shape, MARKED),
    }
}

/// Calibrates and keeps.
fn new(app: &App, engine: &Engine, fingerprint: &str) -> Result<HeadProfile> {
    app.console.note("looking for the model's retrieval heads (once; the result is kept)");
    let profile = calibrated(app, engine, &CalibrationOptions::default(), &SelectionRule::default())?;
    keep(app, &profile, fingerprint);
    Ok(profile)
}

/// Calibrates with a progress bar.
pub fn calibrated(
    app: &App,
    engine: &Engine,
    options: &CalibrationOptions,
    rule: &SelectionRule,
) -> Result<HeadProfile> {
    let mut bar = ProgressBar::new(&app.console, "calibrating");
    Ok(app.interrupt.reading(|| calibrate(engine, options, rule, &mut |progress| bar.reading(progress)))?)
}

/// The shares that a policy asks for.
pub fn rule(policy: &PolicyChoice) -> SelectionRule {
    let paper = SelectionRule::default();
    SelectionRule {
        induction: policy.value("induction").unwrap_or(paper.induction),
        echo: policy.value("echo").unwrap_or(paper.echo),
        ..paper
    }
}

/// A made-up profile: this share of all query heads, evenly spread, for measuring and planning without a calibration.
pub fn spread(shape: HeadShape, share: f64) -> Result<HeadProfile> {
    let mut flags = vec![false; shape.all_kv_heads()];
    let marked = |heads: usize| (heads as f64 * share + 1e-9).floor() as usize;
    for head in (0..shape.all_heads()).filter(|head| marked(head + 1) > marked(*head)) {
        flags[head / shape.group()] = true;
    }
    let mut provenance = Provenance { source: "spread".to_owned(), ..Provenance::default() };
    provenance.parameters.insert("share".to_owned(), share.into());
    Ok(HeadProfile::new(shape, flags, Vec::new(), provenance)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_query_heads_is_spread_over_all_layers() {
        let shape = HeadShape::new(12, 12, 12).expect("a shape");
        let profile = spread(shape, 0.15).expect("a profile");
        assert_eq!(profile.retrieval_count(), 21); // floor(144 * 0.15)
        assert!((0..12).all(|layer| profile.layer(layer).contains(&true)));
        assert_eq!(spread(shape, 0.0).expect("none").retrieval_count(), 0);
        assert_eq!(spread(shape, 1.0).expect("all").retrieval_count(), 144);
    }
}
