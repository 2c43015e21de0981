//! As many retrieval heads as a profile has, chosen at random: what RazorAttention compares its choice with (Tang et
//! al. 2024, arXiv 2407.15891, figure 7).

use models::random::Random;

use super::profile::{HeadProfile, Provenance};

impl HeadProfile {
    /// A profile of the same model in which as many KV heads keep everything, chosen at random from all layers. It has
    /// no scores, so that no policy selects its heads again.
    pub fn with_random_heads(&self, seed: u64) -> HeadProfile {
        let mut retrieval = self.retrieval().to_vec();
        Random(seed).shuffle(&mut retrieval);
        let mut provenance = Provenance {
            source: "random choice".to_owned(),
            fingerprint: self.provenance().fingerprint.clone(),
            ..Provenance::default()
        };
        provenance.parameters.insert("seed".to_owned(), seed.into());
        HeadProfile::without_scores(self.shape(), retrieval, provenance)
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
        // Of every layer some head is chosen by one of many seeds.
        let is_chosen =
            |layer: usize| (0..100).any(|seed| profile.with_random_heads(seed).layer(layer).contains(&true));
        assert!((0..10).all(is_chosen) && random.retrieval() != profile.retrieval());
    }
}
