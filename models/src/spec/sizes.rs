//! The sizes of a model: of its layers, its heads and its vocabulary. All other parts of a specification need them.

use super::keys::{KeyReader, KeyWriter, keys, limit, meta_size};
use super::{KvSharing, Latent, ModelSpec, experts};
use crate::arch::{ArchDecl, Presence};
use crate::error::LoadError;

keys! {
    /// Keys that are read in all architectures.
    KEYS;
    LAYERS = "block_count";
    CONTEXT = "context_length";
    WIDTH = "embedding_length";
    NETWORK_WIDTH = "feed_forward_length";
    HEADS = "attention.head_count";
    KV_HEADS = "attention.head_count_kv";
    KEY_LENGTH = "attention.key_length";
    VALUE_LENGTH = "attention.value_length";
    VOCABULARY = "vocab_size";
}

// Settings of some architectures.
const NEXTN: &str = "nextn_predict_layers";
const PER_LAYER_WIDTH: &str = "embedding_length_per_layer_input";

/// Whether the key is one of those that [`ModelSpec::read_sizes`] reads in all architectures.
pub(super) fn reads(key: &str) -> bool {
    KEYS.contains(&key)
}

impl ModelSpec {
    /// The sizes in a file. The parts are as the architecture declares them.
    pub(super) fn read_sizes(keys: &KeyReader<'_>) -> Result<ModelSpec, LoadError> {
        let (n_layers, ignored_layers) = keys.layers()?;
        let n_embd = keys.size(WIDTH, limit::WIDTH)?;
        let is_local = keys.window_pattern(n_layers)?;
        let n_ff = keys.n_ff(&is_local)?;
        let n_heads = keys.uniform(HEADS, n_layers, limit::HEADS)?.ok_or_else(|| keys.missing(HEADS))?;
        let [n_kv_heads, _] = keys.kv_heads(n_heads, &is_local)?;
        let head_dim = keys.head_dim(n_embd, n_heads)?;
        let n_ctx_train = keys.size(CONTEXT, limit::TOKENS)?;
        Ok(ModelSpec {
            name: printable(keys.file.str("general.name")?.unwrap_or_default()),
            n_embd,
            n_heads,
            n_kv_heads,
            n_ff,
            n_vocab: keys.n_vocab()?,
            n_ctx_train,
            tied_output: !keys.has_tensor("output.weight"),
            per_layer_width: keys.per_layer_width(n_layers)?,
            ignored_sliding_window: keys.ignored_sliding_window(n_ctx_train)?,
            ignored_layers,
            ..ModelSpec::base(keys.arch, n_layers, head_dim)
        })
    }

    pub(super) fn write_sizes(&self, to: &mut KeyWriter) {
        to.size(LAYERS, self.n_layers + self.ignored_layers);
        to.size(CONTEXT, self.n_ctx_train);
        to.size(WIDTH, self.n_embd);
        let layers = 0..self.n_layers;
        let widths = layers.clone().map(|layer| self.network_width(layer));
        to.sizes(NETWORK_WIDTH, self.kv_sharing.is_some(), widths);
        to.size(HEADS, self.n_heads);
        let kv_heads = layers.map(|layer| self.kv_heads(layer).count);
        to.sizes(KV_HEADS, self.has_local_heads(), kv_heads);
        to.size(KEY_LENGTH, self.head_dim);
        to.size(VALUE_LENGTH, self.latent.map_or(self.head_dim, |latent| latent.rank));
        to.size(VOCABULARY, self.n_vocab);
        to.setting(NEXTN, Some(meta_size(self.ignored_layers)));
        to.optional_size(PER_LAYER_WIDTH, self.per_layer_width);
    }
}

/// A name from the file, safe to print on a terminal: without control characters and at most 200 characters
/// long.
fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Minimum number of tensors of a layer.
fn min_layer_tensors(decl: &ArchDecl) -> u64 {
    let is_whole = |fused: Presence| fused == Presence::Never;
    // Without keys and values there are two matrices.
    let attention = if is_whole(decl.fused_qkv) && !KvSharing::is_possible(decl) { 4 } else { 2 };
    let gate = decl.feed_forward.is_gated() && is_whole(decl.fused_gate_up);
    let norms = decl.blocks.iter().map(|block| block.norms().count()).min().unwrap_or(0);
    attention + 2 + u64::from(gate) + norms as u64
}

impl KeyReader<'_> {
    /// The layers, and those behind them that predict several tokens.
    fn layers(&self) -> Result<(usize, usize), LoadError> {
        let all = self.size(LAYERS, limit::LAYERS)?;
        let ignored = match self.is_setting(NEXTN) {
            true => self.file.u64(&self.full(NEXTN))?.unwrap_or(0),
            false => 0,
        };
        match usize::try_from(ignored) {
            Ok(ignored) if ignored < all => {
                self.check_layers(all - ignored)?;
                Ok((all - ignored, ignored))
            }
            _ => Err(self.bad(NEXTN, ignored, format!("it has to be less than the {all} layers"))),
        }
    }

    /// An error if the file has too few tensors for so many layers.
    fn check_layers(&self, n_layers: usize) -> Result<(), LoadError> {
        let n_tensors = self.file.tensors().len() as u64;
        match n_layers as u64 * min_layer_tensors(self.arch.decl()) > n_tensors {
            true => Err(self.bad(
                LAYERS,
                n_layers,
                format!("the {n_tensors} tensors of the file do not make so many layers"),
            )),
            false => Ok(()),
        }
    }

    /// The width of the feed-forward network of layers with keys and values of their own.
    fn n_ff(&self, is_local: &[bool]) -> Result<usize, LoadError> {
        let first_sharing = self.first_kv_sharing(is_local)?;
        match self.network_widths(is_local.len(), first_sharing)? {
            [Some(n_ff), _] => Ok(n_ff),
            // Where all layers have experts, some files have their width only.
            [None, _] => {
                self.optional_size(experts::WIDTH, limit::WIDTH)?.ok_or_else(|| self.missing(NETWORK_WIDTH))
            }
        }
    }

    /// The width of feed-forward networks, before the first layer that shares keys and values and from it on.
    pub(super) fn network_widths(
        &self,
        n_layers: usize,
        first_sharing: usize,
    ) -> Result<[Option<usize>; 2], LoadError> {
        self.two_sizes(NETWORK_WIDTH, n_layers, limit::WIDTH, |layer| layer >= first_sharing)
    }

    /// KV heads of global layers and of local ones, with `n_heads` query heads. `is_local` says which layers are local.
    pub(super) fn kv_heads(&self, n_heads: usize, is_local: &[bool]) -> Result<[usize; 2], LoadError> {
        let decl = self.arch.decl();
        let usual = if decl.latent { 1 } else { n_heads };
        let has_local = decl.sliding_window.local().is_some_and(|local| local.own_heads);
        let is_second = |layer: usize| has_local && is_local[layer];
        let counts = match self.two_sizes(KV_HEADS, is_local.len(), limit::HEADS, is_second)? {
            [Some(global), local] => [global, local.unwrap_or(global)],
            [None, local] => [local.unwrap_or(usual); 2],
        };
        match counts.iter().find(|count| !n_heads.is_multiple_of(**count)) {
            Some(odd) => Err(self.bad(KV_HEADS, odd, format!("it has to divide the {n_heads} query heads"))),
            None => Ok(counts),
        }
    }

    /// The width of each layer's own embeddings. 0 means none.
    fn per_layer_width(&self, n_layers: usize) -> Result<Option<usize>, LoadError> {
        if !self.is_setting(PER_LAYER_WIDTH) {
            return Ok(None);
        }
        let width = self.file.u64(&self.full(PER_LAYER_WIDTH))?.filter(|width| *width > 0);
        width.map(|width| self.checked(PER_LAYER_WIDTH, width, limit::WIDTH / n_layers as u64)).transpose()
    }

    /// head_dim: as given, or the embedding length divided by the number of query heads.
    fn head_dim(&self, n_embd: usize, n_heads: usize) -> Result<usize, LoadError> {
        if let Some(latent) = Latent::stated(self)? {
            return Ok(latent.rank + self.size("rope.dimension_count", limit::HEAD_DIM)?);
        }
        let head_dim = match self.optional_size(KEY_LENGTH, limit::HEAD_DIM)? {
            Some(stated) => stated,
            None if n_embd.is_multiple_of(n_heads) => {
                self.checked(KEY_LENGTH, (n_embd / n_heads) as u64, limit::HEAD_DIM)?
            }
            None => {
                return Err(self.bad(
                    HEADS,
                    n_heads,
                    format!("it has to divide the embedding length {n_embd}"),
                ));
            }
        };
        self.check_head_dim(head_dim, KEY_LENGTH, VALUE_LENGTH)
    }

    /// `head_dim`, the elements of a key, unless they are odd or the file gives another size of values.
    pub(super) fn check_head_dim(
        &self,
        head_dim: usize,
        of_keys: &str,
        of_values: &str,
    ) -> Result<usize, LoadError> {
        if !head_dim.is_multiple_of(2) {
            return Err(self.bad(of_keys, head_dim, "RoPE needs an even number"));
        }
        match self.optional_size(of_values, limit::HEAD_DIM)? {
            Some(value) if value != head_dim => Err(self.unsupported(
                of_values,
                value,
                format!("keys have {head_dim} elements, and both have to be of one size"),
            )),
            _ => Ok(head_dim),
        }
    }

    /// Number of tokens: the length of the token list, else the key `vocab_size`, else the rows of the
    /// embedding.
    fn n_vocab(&self) -> Result<usize, LoadError> {
        if let Some(tokens) = self.file.strings("tokenizer.ggml.tokens")? {
            return self.checked(VOCABULARY, tokens.len() as u64, limit::TOKENS);
        }
        if let Some(stated) = self.optional_size(VOCABULARY, limit::TOKENS)? {
            return Ok(stated);
        }
        let rows = self.file.tensor("token_embd.weight").and_then(|t| t.dims.get(1).copied());
        self.checked(VOCABULARY, rows.ok_or_else(|| self.missing(VOCABULARY))?, limit::TOKENS)
    }
}
