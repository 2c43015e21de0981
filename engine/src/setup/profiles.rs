//! Head profiles by model: one that is given, else the cached one of the model's fingerprint, else a new
//! calibration, which is cached. The default cache is `$XDG_CACHE_HOME/longhand/heads` (or
//! `~/.cache/longhand/heads`), one file for each fingerprint.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use models::regular_file;

use super::{HeadSource, SetupOptions};
use crate::devices::ledger::Left;
use crate::files::folders;
use crate::heads::{HeadProfile, HeadShape, HeadsError, ProfileGap, Provenance, SelectionRule};
use crate::kv::PolicyChoice;
use crate::kv::alibi::{self, ScopeOptions};
use crate::progress::{Notice, Observer, Task};
use crate::setup::calibrate::{CalibrationOptions, add_row_predictors, calibrate};
use crate::setup::loaded::calibration_within;
use crate::{Engine, EngineError, Hint, Model};

/// Share of the query heads that the paper's rule marks: 14 % + 1 %.
const MARKED: f64 = 0.15;
/// The largest share of KV heads that a calibration has marked on a real model with grouped heads: 33 % of
/// Qwen2.5-Coder 0.5B's (groups of 7), 36 % of 1.5B's (6), 27 % of SmolLM2 135M's (3). Heads that retrieve share
/// groups.
const MARKED_OF_GROUPS: f64 = 0.36;

/// The share of KV heads, from 0 to 1, that is assumed to keep everything under `razor` where no profile is known.
pub fn assumed_share(shape: HeadShape) -> f64 {
    (MARKED * shape.group() as f64).min(MARKED_OF_GROUPS)
}

/// The shares of heads that a policy asks for.
pub(super) fn policy_rule(policy: &PolicyChoice) -> SelectionRule {
    let paper = SelectionRule::default();
    SelectionRule {
        induction: policy.value("induction").unwrap_or(paper.induction),
        echo: policy.value("echo").unwrap_or(paper.echo),
        ..paper
    }
}

/// A profile with which every policy keeps the fewest rows: what does not fit with it fits with none.
pub fn smallest(shape: HeadShape) -> Result<HeadProfile, HeadsError> {
    HeadProfile::from_scopes(shape, &vec![vec![0.0; shape.kv_heads()]; shape.layers()], Provenance::default())
}

/// A made-up profile for planning and benchmarks: `share` of all KV heads, evenly spread.
pub fn spread(shape: HeadShape, share: f64) -> Result<HeadProfile, HeadsError> {
    let marked = |heads: usize| (heads as f64 * share + 1e-9).floor() as usize;
    let flags = (0..shape.all_kv_heads()).map(|head| marked(head + 1) > marked(head)).collect();
    let mut provenance = Provenance { source: "spread".to_owned(), ..Provenance::default() };
    provenance.parameters.insert("share".to_owned(), share.into());
    // It predicts nothing: all rows get the same score.
    let no_predictors = vec![Vec::new(); shape.all_kv_heads()];
    HeadProfile::new(shape, flags, Vec::new(), provenance)?.with_row_predictors(no_predictors)
}

/// What is known of a policy's profile before a model is loaded.
#[derive(Clone, Debug)]
pub enum Found {
    /// The policy uses no profile.
    NotNeeded,
    /// The profile.
    Profile(HeadProfile),
    /// It must be calibrated.
    Missing {
        /// Why the cached one cannot be used, where there is one.
        unusable: Option<String>,
        /// A profile that lacks row predictors only: they are added to it.
        base: Option<HeadProfile>,
    },
}

/// Finds the profiles of one model.
pub struct Profiles<'a> {
    model: &'a Arc<Model>,
    options: &'a SetupOptions,
}

impl<'a> Profiles<'a> {
    /// For `model`, as asked for in `options`.
    pub fn new(model: &'a Arc<Model>, options: &'a SetupOptions) -> Profiles<'a> {
        Profiles { model, options }
    }

    /// The profile that `policy` needs, as far as it is known without running the model.
    ///
    /// # Errors
    /// If a given profile cannot be used, or is given although the policy uses none.
    pub fn find(&self, policy: &PolicyChoice, observer: &mut dyn Observer) -> Result<Found, EngineError> {
        policy.check(self.model.spec())?;
        let unused = |reason: &str| {
            Err(EngineError::UnusedProfile { policy: policy.to_string(), reason: reason.into() })
        };
        let given = matches!(self.options.heads, HeadSource::File(_) | HeadSource::Profile(_));
        if let Some(options) = policy.scope_options(self.model.spec()) {
            return match given {
                true => unused("on a model with ALiBi its windows follow from the weights"),
                false => self.windows(&options, observer).map(Found::Profile),
            };
        }
        if self.model.spec().position_encoding.rope().is_none() {
            let refused = |reason: &str, hint| {
                Err(EngineError::Policy { given: policy.to_string(), reason: reason.into(), hint })
            };
            if policy.predicts_scores() {
                let reason = "row predictors, by which it scores rows, are found for models with RoPE only";
                return refused(reason, Hint::OtherPolicy("snapkv"));
            }
            if policy.uses_shares() {
                let hint = Hint::advice("use the policy with heads=off");
                return refused("shares of rows are found for models with RoPE only", hint);
            }
        }
        if !policy.uses_profile() {
            return if given { unused("it uses no head profile") } else { Ok(Found::NotNeeded) };
        }
        let shape = self.model.head_shape()?;
        let profile = match &self.options.heads {
            HeadSource::Auto => match self.cached(observer) {
                Ok(Some(profile)) => match policy.gap_in(&profile) {
                    Some(gap) => return Ok(missing(profile, gap)),
                    None => profile,
                },
                Ok(None) => return Ok(Found::Missing { unusable: None, base: None }),
                Err(error) => return Ok(Found::Missing { unusable: Some(error.to_string()), base: None }),
            },
            HeadSource::File(path) => return self.read(path, policy, observer).map(Found::Profile),
            HeadSource::Profile(profile) => {
                self.check(profile, observer)?;
                match policy.gap_in(profile) {
                    Some(gap) => return Ok(missing(profile.clone(), gap)),
                    None => profile.clone(),
                }
            }
            HeadSource::Assumed(share) => spread(shape, share.unwrap_or_else(|| assumed_share(shape)))?,
        };
        let profile = profile.reselect(&policy_rule(policy))?.unwrap_or(profile);
        Ok(Found::Profile(without_unused(profile, policy)))
    }

    /// The profile that `policy` needs, calibrated with `engine` where there is none; `None` where it uses
    /// none.
    ///
    /// # Errors
    /// If a given profile cannot be used, or calibration does not fit the free memory of the host.
    pub fn find_or_calibrate(
        &self,
        engine: &Arc<Engine>,
        policy: &PolicyChoice,
        observer: &mut dyn Observer,
    ) -> Result<Option<HeadProfile>, EngineError> {
        self.find_or_calibrate_within(engine, policy, engine.ledgers.0.left(0), 0, observer)
    }

    /// The same in what is `left` of main memory, for a session that will take `beside` bytes of it.
    pub(super) fn find_or_calibrate_within(
        &self,
        engine: &Arc<Engine>,
        policy: &PolicyChoice,
        left: Option<Left>,
        beside: usize,
        observer: &mut dyn Observer,
    ) -> Result<Option<HeadProfile>, EngineError> {
        let base = match self.find(policy, observer)? {
            Found::NotNeeded => return Ok(None),
            Found::Profile(profile) => return Ok(Some(profile)),
            Found::Missing { unusable, base } => {
                if let Some(reason) = unusable {
                    observer.notice(Notice::UnusableProfile { reason });
                }
                base
            }
        };
        observer.notice(Notice::Begins(Task::Calibrate));
        let asked =
            CalibrationOptions { row_predictors: policy.predicts_scores(), ..CalibrationOptions::default() };
        let options = calibration_within(engine, left, beside, asked)?;
        let (rule, interrupt) = (SelectionRule::default(), &self.options.interrupt);
        let mut progress = |progress| observer.progress(progress);
        let profile = match base {
            Some(base) => add_row_predictors(engine, base, &options, interrupt, &mut progress)?,
            None => calibrate(engine, &options, &rule, interrupt, &mut progress)?,
        };
        notify_if_not_cached(self.cache(&profile, observer), observer);
        if let Some(gap) = policy.gap_in(&profile) {
            return Err(EngineError::Policy {
                given: policy.to_string(),
                reason: format!("calibration finds no {gap}: the model's context or vocabulary is too small"),
                hint: match gap {
                    ProfileGap::RowShares => Hint::advice("use the policy with heads=off"),
                    ProfileGap::RowPredictors => Hint::OtherPolicy("snapkv"),
                },
            });
        }
        let profile = profile.reselect(&policy_rule(policy))?.unwrap_or(profile);
        Ok(Some(without_unused(profile, policy)))
    }

    /// The cached profile of the model, if there is one.
    ///
    /// # Errors
    /// Where there is a file that cannot be used.
    pub fn cached(&self, observer: &mut dyn Observer) -> Result<Option<HeadProfile>, EngineError> {
        match self.options.profile_folder {
            Some(_) => self.read_cached(self.path(self.identify(observer)?)),
            None => Ok(None),
        }
    }

    /// As [`Profiles::cached`], where the fingerprint is known without reading the model's file.
    pub(super) fn cached_if_known(&self) -> Result<Option<HeadProfile>, EngineError> {
        self.read_cached(self.model.known_fingerprint().and_then(|fingerprint| self.path(fingerprint)))
    }

    /// Caches a profile for the model; gives the file, or `None` where no folder is known. Row predictors of the one that was
    /// cached before stay, if this one has none: they do not depend on which heads retrieve.
    ///
    /// # Errors
    /// Where the model's file was changed since its fingerprint is known, or the file cannot be written.
    pub fn cache(
        &self,
        profile: &HeadProfile,
        observer: &mut dyn Observer,
    ) -> Result<Option<PathBuf>, EngineError> {
        let Some(path) = self.path(self.identify(observer)?) else { return Ok(None) };
        self.model.check_unchanged()?;
        if profile.predicts_rows() {
            profile.save_own(&path)?;
        } else {
            let before = self.read_cached(Some(path.clone())).ok().flatten();
            profile.clone().with_row_predictors_of(before.as_ref()).save_own(&path)?;
        }
        Ok(Some(path))
    }

    /// The profile of a file, with heads selected again where the policy sets the shares itself.
    pub fn read(
        &self,
        path: &Path,
        policy: &PolicyChoice,
        observer: &mut dyn Observer,
    ) -> Result<HeadProfile, EngineError> {
        let profile = self.load(path, observer)?;
        if let Some(gap) = policy.gap_in(&profile) {
            return Err(EngineError::IncompleteProfile { path: path.to_owned(), gap });
        }
        let rule = policy_rule(policy);
        if rule == SelectionRule::default() {
            return Ok(without_unused(profile, policy));
        }
        let reselected = profile.reselect(&rule)?;
        let reselected = reselected.ok_or_else(|| EngineError::NoHeadScores { path: path.to_owned() })?;
        Ok(without_unused(reselected, policy))
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.options.profile_folder.as_ref()?.join(format!("{name}.json")))
    }

    fn read_cached(&self, path: Option<PathBuf>) -> Result<Option<HeadProfile>, EngineError> {
        let Some(path) = path else { return Ok(None) };
        let fails = |source| HeadsError::Io { action: "read", path: path.clone(), source };
        path.parent().map_or(Ok(()), folders::check_trusted).map_err(fails)?;
        if !regular_file::is_own(&path) {
            return Ok(None);
        }
        let fingerprint = self.model.known_fingerprint();
        Ok(Some(HeadProfile::load_for(&path, self.model.head_shape()?, fingerprint)?))
    }

    /// The model's fingerprint, which may have to be computed.
    fn identify(&self, observer: &mut dyn Observer) -> Result<&str, EngineError> {
        let threads = self.options.engine().threads();
        self.model.identify(threads, &self.options.interrupt, &mut |progress| observer.progress(progress))
    }

    /// The profile of a file, if it is one of this model.
    pub(super) fn load(&self, path: &Path, observer: &mut dyn Observer) -> Result<HeadProfile, EngineError> {
        let profile = HeadProfile::load(path)?;
        self.check(&profile, observer).map_err(|error| match error {
            EngineError::Heads(fault) => fault.in_file(path).into(),
            error => error,
        })?;
        Ok(profile)
    }

    /// Refuses a profile of another model. The model's file is read only if the profile states a fingerprint.
    pub(super) fn check(
        &self,
        profile: &HeadProfile,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let shape = self.model.head_shape()?;
        profile.check(shape, None)?;
        if profile.provenance().fingerprint.is_some() {
            profile.check(shape, Some(self.identify(observer)?))?;
        }
        Ok(())
    }

    /// How far the heads of a model with ALiBi attend: cached for its fingerprint and these options, else
    /// computed from its weights.
    fn windows(
        &self,
        options: &ScopeOptions,
        observer: &mut dyn Observer,
    ) -> Result<HeadProfile, EngineError> {
        let strict = if options.rigorous { "-rigorous" } else { "" };
        let fingerprint = self.identify(observer)?;
        let path = self.path(&format!("{fingerprint}-windows-{}{strict}", options.epsilon));
        let parameters = alibi::provenance(self.model.spec(), options).parameters;
        match self.read_cached(path.clone()) {
            Ok(Some(profile))
                if profile.scopes(0).is_some() && profile.provenance().parameters == parameters =>
            {
                return Ok(profile);
            }
            Ok(None) => {}
            Ok(Some(_)) => observer.notice(Notice::UnusableProfile {
                reason: "its windows are not those that its name says".into(),
            }),
            Err(error) => observer.notice(Notice::UnusableProfile { reason: error.to_string() }),
        }
        observer.notice(Notice::Begins(Task::ComputeWindows));
        let threads = self.options.engine().threads();
        let profile =
            alibi::profile(self.model, threads, &self.options.interrupt, options, &mut |progress| {
                observer.progress(progress);
            })?;
        let cached = self.model.check_unchanged();
        let cached = cached.and_then(|()| Ok(path.map_or(Ok(()), |path| profile.save_own(&path))?));
        notify_if_not_cached(cached, observer);
        Ok(profile)
    }
}

/// A profile that has not all that a policy needs.
fn missing(profile: HeadProfile, gap: ProfileGap) -> Found {
    Found::Missing { unusable: None, base: (gap == ProfileGap::RowPredictors).then_some(profile) }
}

/// A profile without row predictors that a policy does not use. So what is saved with a session does not depend on them.
fn without_unused(profile: HeadProfile, policy: &PolicyChoice) -> HeadProfile {
    if policy.predicts_scores() { profile } else { profile.with_row_predictors_of(None) }
}

/// A profile that cannot be cached is no error: it is made again the next time.
fn notify_if_not_cached<T>(cached: Result<T, EngineError>, observer: &mut dyn Observer) {
    if let Err(error) = cached {
        observer.notice(Notice::ProfileNotCached { reason: error.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_kv_heads_is_spread_over_all_layers() {
        let shape = HeadShape::new(12, 12, 12).expect("a shape");
        let profile = spread(shape, 0.15).expect("a profile");
        assert_eq!(profile.retrieval_count(), 21); // floor(144 * 0.15)
        assert!((0..12).all(|layer| profile.layer(layer).contains(&true)));
        assert_eq!(spread(shape, 0.0).expect("none").retrieval_count(), 0);
        assert_eq!(spread(shape, 1.0).expect("all").retrieval_count(), 144);
        let shape = HeadShape::new(4, 12, 3).expect("a shape");
        assert_eq!(spread(shape, 0.5).expect("a profile").retrieval_count(), 6);
    }

    #[test]
    fn heads_that_retrieve_share_groups() {
        let share = |heads, kv_heads| assumed_share(HeadShape::new(2, heads, kv_heads).expect("a shape"));
        assert_eq!([share(8, 8), share(8, 4), share(8, 2), share(40, 8)], [0.15, 0.3, 0.36, 0.36]);
    }
}
