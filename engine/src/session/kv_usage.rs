//! How much a session's KV store holds.

use super::Session;

/// What a KV store holds.
///
/// ```
/// use longhand::{Model, ModelSource, Setup, SetupOptions};
///
/// let options = SetupOptions { policy: Some("streaming:sinks=4,window=28,slack=0".parse()?), ..SetupOptions::default() };
/// // The policy keeps half of what is read.
/// let setup = Setup::resolve(&Model::open(ModelSource::Embedded)?, &options, 0, &mut ())?;
/// let mut session = setup.start(&mut ())?;
/// // Reads 64 tokens.
/// session.sync(&[7; 64], &mut |_| ())?;
/// assert_eq!((session.kv_usage().tokens, session.kv_usage().share()), (64, 0.5));
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvUsage {
    /// Tokens seen, evicted ones included.
    pub tokens: usize,
    /// Bytes of the rows that are kept.
    pub bytes: usize,
    /// Bytes that all rows of these tokens would take.
    pub full_bytes: usize,
    /// Bytes allocated.
    pub allocated: usize,
    /// KV heads that keep everything, of all layers.
    pub full_heads: usize,
}

impl KvUsage {
    /// The bytes kept as a share of those of all rows; 0 of nothing.
    pub fn share(&self) -> f64 {
        if self.full_bytes == 0 { 0.0 } else { self.bytes as f64 / self.full_bytes as f64 }
    }
}

impl Session {
    /// What the KV store holds now.
    pub fn kv_usage(&self) -> KvUsage {
        let layout = self.store.layout();
        KvUsage {
            tokens: self.store.seen(),
            // Layers of a text that is not read yet do not count.
            bytes: if self.first_text().is_some() { 0 } else { self.store.live_bytes() },
            full_bytes: layout.full_bytes(self.store.seen()),
            allocated: self.store.bytes(),
            full_heads: (layout.layers.iter().flatten())
                .filter(|lane| lane.policy.is_none())
                .map(|lane| lane.kv_heads.len())
                .sum(),
        }
    }
}
