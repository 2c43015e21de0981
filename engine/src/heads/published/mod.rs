//! Head maps that others have published and that are part of this program, by name. This folder has
//! DuoAttention's gates (Xiao et al. 2024, MIT licence), clamped to 0 to 1 and rounded to four digits.

use crate::heads::error::{HeadsError, shorten};
use crate::heads::import::{ImportOptions, duo_attention};
use crate::heads::profile::HeadProfile;

/// A published head map.
pub struct PublishedMap {
    /// Its name: "duo-attention:" and the model that it was trained for.
    pub name: &'static str,
    gates: &'static str,
}

/// DuoAttention's configuration of all maps here: the window with which the gates were trained.
const CONFIG: &str = r#"{"sink_size": 128, "recent_size": 256}"#;

macro_rules! duo_attention_map {
    ($model:literal) => {
        PublishedMap { name: concat!("duo-attention:", $model), gates: include_str!(concat!($model, ".tsv")) }
    };
}

/// All published maps.
pub const PUBLISHED_MAPS: [PublishedMap; 4] = [
    duo_attention_map!("llama-2-7b-32k-instruct"),
    duo_attention_map!("llama-3-8b-instruct-gradient-1048k"),
    duo_attention_map!("llama-3.1-8b-instruct"),
    duo_attention_map!("mistral-7b-instruct-v0.2"),
];

impl PublishedMap {
    /// Whether a text is meant as such a name, so that it is no path.
    pub fn is_name(text: &str) -> bool {
        text.starts_with("duo-attention:")
    }

    /// The map of this name.
    ///
    /// # Errors
    /// [`HeadsError::UnknownMap`] if there is none.
    pub fn of_name(name: &str) -> Result<&'static PublishedMap, HeadsError> {
        let unknown = || HeadsError::UnknownMap { name: shorten(name) };
        PUBLISHED_MAPS.iter().find(|map| map.name == name).ok_or_else(unknown)
    }

    /// A head profile from the map.
    ///
    /// # Errors
    /// [`HeadsError::Shape`] if the model has other head counts.
    pub fn import(&self, options: &ImportOptions) -> Result<HeadProfile, HeadsError> {
        duo_attention(self.gates, Some(CONFIG), options)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::heads::*;
    use crate::heads::{HeadShape, HeadThreshold};

    fn options(kv_heads: usize, threshold: Option<HeadThreshold>) -> ImportOptions {
        ImportOptions { shape: HeadShape::new(32, 32, kv_heads).unwrap(), fingerprint: None, threshold }
    }

    #[test]
    fn every_map_is_of_its_model() {
        // KV heads with a gate of at least 0.5, counted in the published files.
        for (map, kv_heads, open) in
            PUBLISHED_MAPS.iter().zip([32, 8, 8, 8]).zip([446, 208, 234, 244]).map(|((m, k), n)| (m, k, n))
        {
            let profile = map.import(&options(kv_heads, None)).unwrap();
            // The shares of the paper: a quarter without grouped heads, else half.
            let share = if kv_heads == 32 { 4 } else { 2 };
            assert_eq!(profile.retrieval_count(), 32 * kv_heads / share, "{}", map.name);
            for (name, tokens) in [("sinks", 128), ("recent", 256)] {
                assert_eq!(profile.provenance().parameters[name], Value::from(tokens));
            }
            let at_half = map.import(&options(kv_heads, Some(HeadThreshold::MinScore(0.5)))).unwrap();
            assert_eq!(at_half.retrieval_count(), open, "{}", map.name);
            assert_eq!(HeadProfile::from_json(&profile.to_json()).unwrap(), profile);

            let error = map.import(&options(4, None)).unwrap_err().to_string();
            assert!(error.contains(&format!("32 layers of {kv_heads} KV heads")), "{error}");
            assert_eq!(PublishedMap::of_name(map.name).unwrap().name, map.name);
        }
        assert!(!PublishedMap::is_name("duo-attention"));
        let error = PublishedMap::of_name("duo-attention:gpt-2").err().unwrap();
        assert!(
            matches!(&error, HeadsError::UnknownMap { name } if name == "duo-attention:gpt-2"),
            "{error}"
        );
        // The published gates of the first layer of this one begin with 0.0047, -0.0005, -0.00002, 0.89.
        let gates = PUBLISHED_MAPS[0].import(&options(32, None)).unwrap();
        let first = &gates.score("gate").unwrap().values[..4];
        assert_eq!((first[1], first[2], first[3] > 0.88), (0.0, 0.0, true), "{first:?}");
    }
}
