//! Head profiles of a model: what is cached, and what a policy gets of it.

use longhand::heads::{HeadProfile, Provenance, ScoreMap, ScoresPer};
use longhand::setup::{HeadSource, Profiles};
use longhand::{Engine, EngineOptions, Model, ModelSource, SetupOptions};

/// Row predictors are added to the profile that is there. Its heads stay, and other policies do not see them.
#[test]
fn row_predictors_change_no_other_part_of_a_profile() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let options = SetupOptions {
        profile_folder: Some(folder.path().to_owned()),
        threads: Some(1),
        ..SetupOptions::default()
    };
    let profiles = Profiles::new(&model, &options);
    let shape = model.head_shape().expect("heads");
    let flags: Vec<bool> = (0..shape.all_kv_heads()).map(|head| head % 3 == 0).collect();
    let given = HeadProfile::new(shape, flags, Vec::new(), Provenance::default()).expect("a profile");
    profiles.cache(&given, &mut ()).expect("cached");

    let engine = Engine::load(&model, &EngineOptions::default(), &mut |_| ()).expect("an engine");
    let found = |policy: &str| {
        let policy = policy.parse().expect("a policy");
        profiles.find_or_calibrate(&engine, &policy, &mut ()).expect("no error").expect("a profile")
    };
    let predicting = found("kvzap:heads=on");
    assert!(predicting.predicts_rows());
    assert_eq!(predicting.retrieval(), given.retrieval());
    let cached = || profiles.cached(&mut ()).expect("no error").expect("a profile");
    assert_eq!(cached(), predicting);
    assert_eq!(found("razor"), given);
    // A profile without them takes the place of the other parts only.
    let other = HeadProfile::uniform(shape, true);
    profiles.cache(&other, &mut ()).expect("cached");
    assert!(cached().predicts_rows() && cached().retrieval() == other.retrieval());
    assert_eq!(found("kvzap:heads=on"), cached());
}

/// The heads of a file are those that it names, unless the policy selects them by shares of its own.
#[test]
fn heads_of_a_file_stay_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = Model::open(ModelSource::Embedded).expect("the embedded model");
    let shape = model.head_shape().expect("heads");
    let scores = ["induction", "echo"].map(|name| {
        let values = (0..shape.layers() * shape.heads()).map(|head| head as f32 / 100.0).collect();
        ScoreMap { name: name.into(), per: ScoresPer::QueryHead, values }
    });
    let flags: Vec<bool> = (0..shape.all_kv_heads()).map(|head| head < 3).collect();
    let given = HeadProfile::new(shape, flags, scores.to_vec(), Provenance::default()).expect("a profile");
    let path = folder.path().join("heads.json");
    given.save(&path).expect("saved");
    let options = SetupOptions { heads: HeadSource::File(path.clone()), ..SetupOptions::default() };
    let read = |policy: &str| {
        let policy = policy.parse().expect("a policy");
        Profiles::new(&model, &options).read(&path, &policy, &mut ()).expect("the file")
    };
    assert_eq!(read("razor").retrieval(), given.retrieval());
    assert_ne!(read("razor:induction=0.3").retrieval(), given.retrieval());
}
