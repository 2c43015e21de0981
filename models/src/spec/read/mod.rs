//! Reads and checks a model's specification in the metadata. Keys and defaults are those of llama.cpp's
//! converter and loader.
//!
//! An unknown setting is refused by name: a model that ignores a setting would answer, but wrongly. `keys` reads single
//! settings; positions, experts and latent attention have files of their own.

mod experts;
mod keys;
mod latent;
mod positions;

use self::keys::Keys;
pub(super) use self::keys::limit;
use super::{
    KvHeads, KvSharing, Latent, LocalLayers, ModelSpec, PositionEncoding, RecurrentLayers, Rope,
    attention_scale, local::all_but_every, norm_eps_key,
};
use crate::arch::{
    Arch, ArchDecl, AttentionScale, Block, LocalDecl, PositionScheme, Presence, SlidingWindow,
};
use crate::error::{LoadError, Text};
use crate::gguf::GgufFile;

/// The sections of RoPE.
const ROPE_SECTIONS: &str = "rope.dimension_sections";

/// How many of the last layers attend to the keys and values of earlier ones.
const SHARED_KV_LAYERS: &str = "attention.shared_kv_layers";

/// Minimum number of tensors of a layer.
fn min_layer_tensors(decl: &ArchDecl) -> u64 {
    let is_whole = |fused: Presence| fused == Presence::Never;
    // Without keys and values there are two matrices.
    let attention =
        if is_whole(decl.fused_qkv) && !decl.settings.contains(&SHARED_KV_LAYERS) { 4 } else { 2 };
    let gate = decl.feed_forward.is_gated() && is_whole(decl.fused_gate_up);
    let norms = decl.blocks.iter().map(|block| block.norms().count()).min().unwrap_or(0);
    attention + 2 + u64::from(gate) + norms as u64
}

impl ModelSpec {
    /// Reads the specification from the metadata of a file.
    ///
    /// # Errors
    /// A key is missing, of the wrong type or out of range; the architecture or a setting is not supported;
    /// the file has no tensors.
    pub fn from_gguf(file: &GgufFile) -> Result<ModelSpec, LoadError> {
        ModelSpec::read(file).map_err(|fault| file.with_path(fault))
    }

    fn read(file: &GgufFile) -> Result<ModelSpec, LoadError> {
        let name = file.required_str("general.architecture")?;
        let arch = Arch::from_name(name).ok_or_else(|| LoadError::UnknownArch {
            found: name.to_owned(),
            relatives: Arch::relatives(name),
            supported: Arch::supported(),
        })?;
        if let Some(kind) = file.str("general.type")?
            && kind != "model"
        {
            return Err(LoadError::Unsupported {
                key: "general.type".into(),
                value: Text(kind.as_bytes()).to_string(),
                why: "this is a part or an addition to a model, not a model".into(),
            });
        }
        if file.tensors().is_empty() {
            return Err(LoadError::VocabularyOnly);
        }
        let keys = Keys { file, arch };
        keys.refuse_unknown()?;
        keys.check_rope_switch()?;

        let (n_layers, ignored_layers) = keys.layers()?;
        let n_tensors = file.tensors().len() as u64;
        if n_layers as u64 * min_layer_tensors(arch.decl()) > n_tensors {
            return Err(keys.bad(
                "block_count",
                n_layers,
                format!("the {n_tensors} tensors of the file do not make so many layers"),
            ));
        }
        let n_embd = keys.size("embedding_length", limit::WIDTH)?;
        let is_local = keys.window_pattern(n_layers)?;
        let first_sharing = keys.first_kv_sharing(n_layers, &is_local)?;
        let [n_ff, n_ff_of_sharing] =
            keys.two_sizes("feed_forward_length", n_layers, limit::WIDTH, |layer| layer >= first_sharing)?;
        let n_ff = match n_ff {
            Some(n_ff) => n_ff,
            // Where all layers have experts, some files have their width only.
            None => keys
                .optional_size("expert_feed_forward_length", limit::WIDTH)?
                .ok_or_else(|| keys.missing("feed_forward_length"))?,
        };
        let n_heads = keys
            .uniform("attention.head_count", n_layers, limit::HEADS)?
            .ok_or_else(|| keys.missing("attention.head_count"))?;
        let usual_kv_heads = if arch.decl().latent { 1 } else { n_heads };
        let decl = arch.decl();
        let has_local_heads = decl.sliding_window.local().is_some_and(|local| local.own_heads);
        let kv_heads = keys.two_sizes("attention.head_count_kv", n_layers, limit::HEADS, |layer| {
            has_local_heads && is_local[layer]
        })?;
        let [n_kv_heads, n_local_kv_heads] = match kv_heads {
            [Some(global), local] => [global, local.unwrap_or(global)],
            [None, local] => [local.unwrap_or(usual_kv_heads); 2],
        };
        if let Some(odd) =
            [n_kv_heads, n_local_kv_heads].iter().find(|heads| !n_heads.is_multiple_of(**heads))
        {
            return Err(keys.bad(
                "attention.head_count_kv",
                odd,
                format!("it has to divide the {n_heads} query heads"),
            ));
        }
        let latent = keys.latent()?;
        let head_dim = keys.head_dim(n_embd, n_heads, latent.as_ref())?;
        let n_ctx_train = keys.size("context_length", limit::TOKENS)?;

        let has = |name: &str| file.tensor(name).is_some();
        let first_layer = |part: &str| has(&format!("blk.0.{part}"));
        // Layers that share keys and values are the last ones. So one before them is there.
        let first_global = (0..first_sharing).find(|layer| !is_local[*layer]);
        let fused_qkv = decl.fused_qkv.resolve(first_layer("attn_qkv.weight"));
        let bias_of_q = if fused_qkv { "attn_qkv.bias" } else { "attn_q.bias" };
        let sized = ModelSpec { n_embd, ..ModelSpec::base(arch, n_layers, head_dim) }.with_default_scales();
        let position_encoding = match keys.position_scheme(n_layers)? {
            PositionScheme::Rope => {
                let n_dims = keys.rope_dims(head_dim)?;
                PositionEncoding::Rope(Rope {
                    style: keys.rope_style(n_dims)?,
                    n_dims,
                    base: keys.rope_base()?,
                    scaling: keys.rope_scaling(n_ctx_train)?,
                    skipped_every: decl.no_rope_every,
                })
            }
            PositionScheme::Alibi => keys.alibi()?,
            PositionScheme::Learned => PositionEncoding::Learned,
        };
        let default_scale = match decl.attention_scale {
            AttentionScale::OfWidth(layers) if layers == n_layers && n_embd < n_heads => {
                return Err(keys.bad("attention.head_count", n_heads, "it has to be at most the width"));
            }
            AttentionScale::OfWidth(layers) if layers == n_layers => attention_scale(n_embd / n_heads),
            _ => match &latent {
                Some(latent) => keys.latent_scale(latent, position_encoding.rope())?,
                None => sized.attention_scale,
            },
        };
        Ok(ModelSpec {
            name: printable(file.str("general.name")?.unwrap_or_default()),
            n_heads,
            n_kv_heads,
            latent,
            n_ff,
            n_vocab: keys.n_vocab()?,
            n_ctx_train,
            norm_eps: keys.norm_eps()?,
            attention_scale: keys.factor("attention.scale", default_scale)?,
            attention_temperature: keys.temperature(&position_encoding, n_ctx_train)?,
            position_encoding,
            block: keys.block()?,
            norm_bias: decl.norm_bias.resolve(has("output_norm.bias")),
            embedding_norm: decl.embedding_norm.resolve(has("token_embd_norm.weight")),
            tied_output: !has("output.weight"),
            fused_qkv,
            qkv_bias: decl.qkv_bias.resolve(first_layer(bias_of_q)),
            attn_output_bias: decl.attn_output_bias.resolve(first_layer("attn_output.bias")),
            qk_norm: decl.qk_norm.resolve(first_layer("attn_q_norm.weight")).then_some(decl.qk_norm_kind),
            values_from_keys: decl.values_from_keys
                && first_global.is_some_and(|layer| !has(&format!("blk.{layer}.attn_v.weight"))),
            kv_sharing: (first_sharing < n_layers).then(|| KvSharing {
                first_layer: first_sharing,
                last_local: is_local[..first_sharing].iter().rposition(|is_local| *is_local),
                last_global: is_local[..first_sharing].iter().rposition(|is_local| !is_local),
                n_ff: n_ff_of_sharing.unwrap_or(n_ff),
            }),
            per_layer_width: keys.per_layer_width(n_layers)?,
            layer_scale: decl.layer_scale.resolve(first_layer("layer_output_scale.weight")),
            fused_gate_up: decl.fused_gate_up.resolve(!first_layer("ffn_gate.weight")),
            ffn_bias: decl.ffn_bias.resolve(first_layer("ffn_up.bias")),
            experts: keys.experts(n_layers, n_ff)?,
            sink_logits: decl.sink_logits.resolve(first_layer("attn_sinks.weight")),
            recurrent: keys.recurrent(n_layers, ignored_layers)?,
            rope_freqs: decl.rope_freqs.resolve(has("rope_freqs.weight")),
            clamp_qkv: keys.bound("attention.clamp_kqv", None)?,
            embedding_scale: keys.factor("embedding_scale", sized.embedding_scale)?,
            residual_scale: keys.factor("residual_scale", sized.residual_scale)?,
            logit_scale: keys.factor("logit_scale", sized.logit_scale)?,
            final_softcap: keys.bound("final_logit_softcapping", decl.final_softcap)?,
            attention_softcap: keys.bound("attn_logit_softcapping", decl.attention_softcap)?,
            local_layers: keys.local_layers(
                is_local,
                position_encoding.rope(),
                n_local_kv_heads,
                head_dim,
            )?,
            ignored_sliding_window: keys.sliding_window(n_ctx_train)?,
            ignored_layers,
            ..sized
        })
    }
}

/// A name from the file, safe to print on a terminal: without control characters and at most 200 characters
/// long.
fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(200).collect()
}

impl Keys<'_> {
    /// The layers, and those behind them that predict several tokens.
    fn layers(&self) -> Result<(usize, usize), LoadError> {
        const NEXTN: &str = "nextn_predict_layers";
        let all = self.size("block_count", limit::LAYERS)?;
        let ignored = match self.arch.decl().settings.contains(&NEXTN) {
            true => self.file.u64(&self.full(NEXTN))?.unwrap_or(0),
            false => 0,
        };
        match usize::try_from(ignored) {
            Ok(ignored) if ignored < all => Ok((all - ignored, ignored)),
            _ => Err(self.bad(NEXTN, ignored, format!("it has to be less than the {all} layers"))),
        }
    }

    /// The first of the layers that attend to the keys and values of earlier ones; `n_layers` where none does.
    fn first_kv_sharing(&self, n_layers: usize, is_local: &[bool]) -> Result<usize, LoadError> {
        if !self.arch.decl().settings.contains(&SHARED_KV_LAYERS) {
            return Ok(n_layers);
        }
        let count = self.file.u64(&self.full(SHARED_KV_LAYERS))?.unwrap_or(0);
        let first =
            usize::try_from(count).ok().filter(|count| *count < n_layers).map(|count| n_layers - count);
        let first = first.ok_or_else(|| {
            self.bad(SHARED_KV_LAYERS, count, format!("it has to be less than the {n_layers} layers"))
        })?;
        let has_earlier = |layer: usize| is_local[..first].contains(&is_local[layer]);
        match (first..n_layers).find(|layer| !has_earlier(*layer)) {
            None => Ok(first),
            Some(layer) => Err(self.bad(
                SHARED_KV_LAYERS,
                count,
                format!(
                    "layer {layer} is {}, and no such layer has keys and values",
                    if is_local[layer] { "local" } else { "global" }
                ),
            )),
        }
    }

    /// The width of each layer's own embeddings. 0 means none.
    fn per_layer_width(&self, n_layers: usize) -> Result<Option<usize>, LoadError> {
        const KEY: &str = "embedding_length_per_layer_input";
        if !self.arch.decl().settings.contains(&KEY) {
            return Ok(None);
        }
        let width = self.file.u64(&self.full(KEY))?.filter(|width| *width > 0);
        width.map(|width| self.checked(KEY, width, limit::WIDTH / n_layers as u64)).transpose()
    }

    /// head_dim: as given, or the embedding length divided by the number of query heads.
    fn head_dim(&self, n_embd: usize, n_heads: usize, latent: Option<&Latent>) -> Result<usize, LoadError> {
        if let Some(latent) = latent {
            return Ok(latent.rank + self.size("rope.dimension_count", limit::HEAD_DIM)?);
        }
        let head_dim = match self.optional_size("attention.key_length", limit::HEAD_DIM)? {
            Some(stated) => stated,
            None if n_embd.is_multiple_of(n_heads) => {
                self.checked("attention.key_length", (n_embd / n_heads) as u64, limit::HEAD_DIM)?
            }
            None => {
                return Err(self.bad(
                    "attention.head_count",
                    n_heads,
                    format!("it has to divide the embedding length {n_embd}"),
                ));
            }
        };
        self.check_head_dim(head_dim, "attention.key_length", "attention.value_length")
    }

    /// `head_dim`, the elements of a key, unless they are odd or the file gives another size of values.
    fn check_head_dim(&self, head_dim: usize, of_keys: &str, of_values: &str) -> Result<usize, LoadError> {
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

    /// The KV heads of local layers, `count` of them, where global layers have heads of `head_dim` elements.
    fn local_heads(&self, count: usize, head_dim: usize) -> Result<KvHeads, LoadError> {
        const KEYS: &str = "attention.key_length_swa";
        let dim = self.optional_size(KEYS, limit::HEAD_DIM)?.unwrap_or(head_dim);
        Ok(KvHeads { count, dim: self.check_head_dim(dim, KEYS, "attention.value_length_swa")? })
    }

    /// Number of tokens: the length of the token list, else the key `vocab_size`, else the rows of the
    /// embedding.
    fn n_vocab(&self) -> Result<usize, LoadError> {
        if let Some(tokens) = self.file.strings("tokenizer.ggml.tokens")? {
            return self.checked("vocab_size", tokens.len() as u64, limit::TOKENS);
        }
        if let Some(stated) = self.optional_size("vocab_size", limit::TOKENS)? {
            return Ok(stated);
        }
        let rows = self.file.tensor("token_embd.weight").and_then(|t| t.dims.get(1).copied());
        self.checked("vocab_size", rows.ok_or_else(|| self.missing("vocab_size"))?, limit::TOKENS)
    }

    fn norm_eps(&self) -> Result<f32, LoadError> {
        let key = norm_eps_key(self.arch.decl().norm);
        self.file.required_f32(&self.full(key))?;
        self.float(key, 0.0, |eps| eps > 0.0 && eps < 1.0, "it has to lie between 0 and 1")
    }

    /// How the model's layers are connected: the first of the architecture's blocks whose norms are there.
    fn block(&self) -> Result<Block, LoadError> {
        const KEY: &str = "use_parallel_residual";
        let blocks = self.arch.decl().blocks;
        let has = |norm: &str| self.file.tensor(&format!("blk.0.{norm}.weight")).is_some();
        let found = blocks.iter().find(|block| block.norms().all(has));
        // Without any, the missing tensors of the last one are named later.
        let block = *found.unwrap_or(&blocks[blocks.len() - 1]);
        if !self.arch.decl().settings.contains(&KEY) {
            return Ok(block);
        }
        let parallel = self.file.bool(&self.full(KEY))?;
        match blocks {
            [_] => Ok(Block { parallel: parallel.ok_or_else(|| self.missing(KEY))?, ..block }),
            // Converters of StableLM write `true` where they do not know. The norms decide, as in llama.cpp.
            _ => Ok(block),
        }
    }

    /// The recurrent layers of a model of `n_layers` layers, behind which the file has `ignored` others.
    fn recurrent(&self, n_layers: usize, ignored: usize) -> Result<Option<RecurrentLayers>, LoadError> {
        let Some(decl) = &self.arch.decl().recurrent else { return Ok(None) };
        if (0..n_layers).any(|layer| self.file.tensor(&format!("blk.{layer}.ssm_in.weight")).is_some()) {
            return Err(self.unsupported(
                "ssm.inner_size",
                "in an old file",
                "its ssm_in holds what newer files have as attn_qkv and attn_gate; convert the model again, or get a \
                 newer file",
            ));
        }
        let one_of = |key: &str, sizes: &[usize], found: usize| match sizes.contains(&found) {
            true => Ok(found),
            false => Err(self.bad(key, found, format!("sizes that can be computed are {sizes:?}"))),
        };
        let conv_kernel = self.size("ssm.conv_kernel", limit::WIDTH)?;
        let head_dim = self.size("ssm.state_size", limit::HEAD_DIM)?;
        let layers = RecurrentLayers {
            is_recurrent: self.recurrence_pattern(n_layers, ignored, decl.attention_every)?,
            conv_kernel: one_of("ssm.conv_kernel", &RecurrentLayers::CONV_KERNELS, conv_kernel)?,
            head_dim: one_of("ssm.state_size", &RecurrentLayers::HEAD_DIMS, head_dim)?,
            key_heads: self.size("ssm.group_count", limit::HEADS)?,
            value_heads: self.size("ssm.time_step_rank", limit::HEADS)?,
            order: decl.value_heads,
        };
        if !layers.value_heads.is_multiple_of(layers.key_heads) {
            return Err(self.bad(
                "ssm.group_count",
                layers.key_heads,
                format!("it has to divide the {} heads of values", layers.value_heads),
            ));
        }
        match self.size("ssm.inner_size", limit::WIDTH)? {
            size if size == layers.value_dim() => Ok(Some(layers)),
            size => Err(self.bad(
                "ssm.inner_size",
                size,
                format!("{} heads of {head_dim} elements are {}", layers.value_heads, layers.value_dim()),
            )),
        }
    }

    /// Which layers are recurrent, `[n_layers]`. Files give a flag for each layer, also for the `ignored` ones, or
    /// every how many layers one attends.
    fn recurrence_pattern(
        &self,
        n_layers: usize,
        ignored: usize,
        every: usize,
    ) -> Result<Vec<bool>, LoadError> {
        const LIST: &str = "attention.recurrent_layers";
        const EVERY: &str = "full_attention_interval";
        let (key, value, pattern) = match self.flags(LIST, n_layers + ignored, "")? {
            Some(mut flags) => {
                flags.truncate(n_layers);
                (LIST, "true for all layers".to_owned(), flags)
            }
            None if self.file.get(&self.full(LIST)).is_some() => {
                return Err(self.bad(LIST, "one value", "it has to be a list with a flag for each layer"));
            }
            None => {
                let every = self.optional_size(EVERY, limit::LAYERS)?.unwrap_or(every);
                (EVERY, every.to_string(), all_but_every(every, n_layers))
            }
        };
        match pattern.contains(&false) {
            true => Ok(pattern),
            false => Err(self.unsupported(key, value, "at least one layer has to attend")),
        }
    }

    /// The window of local layers in tokens, and their declaration, in a model of `n_layers` layers; `None` where there
    /// are none.
    fn local_window(&self, n_layers: usize) -> Result<Option<(LocalDecl, usize)>, LoadError> {
        let Some(decl) = self.arch.decl().sliding_window.local() else { return Ok(None) };
        let stated = self.optional_size("attention.sliding_window", limit::TOKENS)?;
        let window = stated.or_else(|| decl.default_window(n_layers));
        Ok(window.map(|window| (decl, window)))
    }

    /// The layers with a sliding window, those of `is_local`, in a model whose global layers have the given RoPE and
    /// heads of `head_dim` elements. `kv_heads` is the number of their KV heads, where they have their own.
    fn local_layers(
        &self,
        is_local: Vec<bool>,
        rope: Option<&Rope>,
        kv_heads: usize,
        head_dim: usize,
    ) -> Result<Option<LocalLayers>, LoadError> {
        const BASE: &str = "rope.freq_base_swa";
        const DIMS: &str = "rope.dimension_count_swa";
        let Some((decl, window)) = self.local_window(is_local.len())? else { return Ok(None) };
        let mut local = LocalLayers::declared(decl, window, is_local.len(), rope);
        local.is_local = is_local;
        if decl.own_heads {
            local.heads = Some(self.local_heads(kv_heads, head_dim)?);
        }
        if let Some(rope) = &mut local.rope {
            let base = self.float(BASE, rope.base, |base| base >= 1.0, "it has to be 1 or more")?;
            if base != rope.base && rope.divisors().is_some() {
                return Err(self.unsupported(
                    BASE,
                    base,
                    "all layers have the same YaRN in this architecture",
                ));
            }
            rope.base = base;
            if let Some(heads) = local.heads {
                rope.n_dims = self.optional_size(DIMS, limit::HEAD_DIM)?.unwrap_or(heads.dim);
                if rope.n_dims > heads.dim || !rope.n_dims.is_multiple_of(2) {
                    let expected =
                        format!("it has to be even, and at most the {} elements of a head", heads.dim);
                    return Err(self.bad(DIMS, rope.n_dims, expected));
                }
            }
        }
        Ok(Some(local))
    }

    /// Which layers have a sliding window, `[n_layers]`. Files give a flag for each layer, or every how many layers one
    /// has none.
    fn window_pattern(&self, n_layers: usize) -> Result<Vec<bool>, LoadError> {
        const KEY: &str = "attention.sliding_window_pattern";
        let Some((decl, _)) = self.local_window(n_layers)? else { return Ok(vec![false; n_layers]) };
        if let Some(flags) = self.flags(KEY, n_layers, "a number, or ")? {
            return Ok(flags);
        }
        let every = self.optional_size(KEY, limit::LAYERS)?.unwrap_or(decl.global_every);
        Ok(all_but_every(every, n_layers))
    }

    /// The sliding window in tokens that the file gives and that is not applied; `None` if it would have no
    /// effect.
    fn sliding_window(&self, n_ctx_train: usize) -> Result<Option<usize>, LoadError> {
        const KEY: &str = "attention.sliding_window";
        // 0 means no window.
        let window = self.file.u64(&self.full(KEY))?.filter(|&w| w > 0 && w < n_ctx_train as u64);
        match (window, self.arch.decl().sliding_window) {
            (None, _) => Ok(None),
            (_, SlidingWindow::Local(_)) => Ok(None),
            (Some(window), SlidingWindow::Ignored) => Ok(Some(window as usize)), // below n_ctx_train
            (Some(window), SlidingWindow::Refused) => {
                Err(self.unsupported(KEY, window, "attention to a window only is not supported"))
            }
        }
    }
}
