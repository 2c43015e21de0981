//! Which rows each KV head keeps.

use super::Session;

/// What a KV head holds of the tokens that a session has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvHeadRows {
    /// Rows it keeps, one a token. The compensation entry is not among them.
    pub rows: usize,
    /// Evicted rows whose mean the compensation entry is; 0 where there is none.
    pub compensated: usize,
    /// Bytes of these rows and of the compensation entry.
    pub bytes: usize,
    /// Whether the policy limits its rows.
    pub is_bounded: bool,
    /// Tokens that the model itself sees in this layer; `None` where it sees all.
    pub window: Option<usize>,
    /// Whether the head profile marks it as a retrieval head.
    pub is_retrieval: bool,
}

/// What all KV heads of a session hold.
///
/// ```
/// use longhand::{Model, ModelSource, Setup, SetupOptions};
///
/// let options = SetupOptions { policy: Some("streaming:sinks=4,window=28,slack=0".parse()?), ..SetupOptions::default() };
/// let setup = Setup::resolve(&Model::open(ModelSource::Embedded)?, &options, 0, &mut ())?;
/// let mut session = setup.start(&mut ())?;
/// session.sync(&[7; 64], &mut |_| ())?;
/// let map = session.kv_map();
/// assert_eq!((map.tokens, map.layers[0][0].rows), (64, 32));
/// assert_eq!(session.kept_positions(0, 0).map(|positions| positions[..5].to_vec()), Some(vec![0, 1, 2, 3, 36]));
/// assert_eq!(session.kept_positions(99, 0), None);
/// # Ok::<(), longhand::EngineError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvMap {
    /// Tokens seen, evicted ones included.
    pub tokens: usize,
    /// `[layers][kv_heads]`; none in a layer without rows of its own.
    pub layers: Vec<Vec<KvHeadRows>>,
}

impl KvMap {
    /// All heads, layer by layer.
    pub fn heads(&self) -> impl Iterator<Item = &KvHeadRows> {
        self.layers.iter().flatten()
    }
}

impl Session {
    /// How many rows each KV head keeps now.
    pub fn kv_map(&self) -> KvMap {
        let layers = (0..self.store.layout().layers.len()).map(|layer| {
            let window = self.store.layout().window(layer);
            let row_bytes = self.store.layout().row_bytes(layer);
            let head_rows = |(kv_head, (rows, compensated, is_bounded))| KvHeadRows {
                rows,
                compensated,
                bytes: (rows + usize::from(compensated > 0)) * row_bytes,
                is_bounded: is_bounded && window.is_none(),
                window,
                is_retrieval: window.is_none() && self.is_retrieval(layer, kv_head),
            };
            self.store.head_rows(layer).into_iter().enumerate().map(head_rows).collect()
        });
        KvMap { tokens: self.store.seen(), layers: layers.collect() }
    }

    /// The positions in [`Session::tokens`] whose rows a KV head keeps, ascending; layers and heads are counted
    /// from 0. `None` for a head that the model does not have.
    pub fn kept_positions(&self, layer: usize, kv_head: usize) -> Option<Vec<u32>> {
        (layer < self.store.layout().layers.len()).then(|| self.store.head_positions(layer, kv_head))?
    }

    fn is_retrieval(&self, layer: usize, kv_head: usize) -> bool {
        let profile = self.options.profile.as_ref().filter(|_| self.options.policy.uses_retrieval_heads());
        profile.is_some_and(|profile| profile.is_retrieval(layer, kv_head))
    }
}
