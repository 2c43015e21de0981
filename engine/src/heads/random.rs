//! As many retrieval heads as a profile has, chosen at random: what RazorAttention compares its choice with (Tang et
//! al. 2024, arXiv 2407.15891, figure 7).

use models::random::Random;

use super::profile::{HeadProfile, Provenance};
use super::select::layers_that_count;

impl HeadProfile {
    /// A profile of the same model in which as many KV heads keep everything, chosen at random from all layers without
    /// a sliding window. It has no scores, so that no policy selects its heads again. What predicts scores of rows stays.
    pub fn with_random_heads(&self, seed: u64) -> HeadProfile {
        let scores: Vec<&[f32]> = self.maps().map(|map| &map.values[..]).collect();
        let counts = layers_that_count(&self.shape(), &scores);
        let mut retrieval = self.retrieval().to_vec();
        let per_layer = self.shape().kv_heads();
        let places: Vec<usize> = (0..retrieval.len()).filter(|at| counts[at / per_layer]).collect();
        let mut chosen: Vec<bool> = places.iter().map(|at| retrieval[*at]).collect();
        Random(seed).shuffle(&mut chosen);
        places.iter().zip(chosen).for_each(|(at, flag)| retrieval[*at] = flag);
        let mut provenance = Provenance {
            source: "random choice".to_owned(),
            fingerprint: self.provenance().fingerprint.clone(),
            ..Provenance::default()
        };
        provenance.parameters.insert("seed".to_owned(), seed.into());
        let random = HeadProfile::without_scores(self.shape(), retrieval, provenance);
        random.with_row_predictors_of(Some(self))
    }
}

#[cfg(test)]
mod tests {
    use crate::heads::{HeadShape, ScoreMap, ScoresPer};

    use super::*;

    #[test]
    fn as_many_heads_are_chosen_and_the_seed_says_which() {
        let shape = HeadShape::new(10, 8, 4).unwrap();
        let flags = (0..40).map(|index| index < 7).collect();
        let scores =
            vec![ScoreMap { name: "induction".to_owned(), per: ScoresPer::QueryHead, values: vec![0.5; 80] }];
        let provenance = Provenance { fingerprint: Some("a1b2".to_owned()), ..Provenance::default() };
        let profile = HeadProfile::new(shape, flags, scores, provenance).unwrap();
        let random = profile.with_random_heads(1);
        assert_eq!((random.retrieval_count(), random.shape()), (7, shape));
        assert_eq!(random.provenance().fingerprint.as_deref(), Some("a1b2"));
        assert!(random.scores().is_empty());
        assert_eq!(random, profile.with_random_heads(1));
        // The scores of layers with a sliding window are 0.
        let mut values = vec![0.5; 80];
        values[..8].fill(0.0);
        let scores = vec![ScoreMap { name: "induction".to_owned(), per: ScoresPer::QueryHead, values }];
        let flags = (0..40).map(|index| (4..11).contains(&index)).collect();
        let windows = HeadProfile::new(shape, flags, scores, Provenance::default()).unwrap();
        let has_window_heads = |seed| windows.with_random_heads(seed).layer(0).contains(&true);
        assert!(!(0..100).any(has_window_heads) && windows.with_random_heads(1).retrieval_count() == 7);
        // Of every layer some head is chosen by one of many seeds.
        let is_chosen =
            |layer: usize| (0..100).any(|seed| profile.with_random_heads(seed).layer(layer).contains(&true));
        assert!((0..10).all(is_chosen) && random.retrieval() != profile.retrieval());
    }
}
