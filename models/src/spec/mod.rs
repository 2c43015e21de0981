//! A model's specification. Its sizes (`sizes`) and its parts (one file each) are read from the metadata and checked.
//! The tensors are found in the file and checked against them (`tensors`). Computation uses only this; it does not look
//! up metadata or tensor names.
//!
//! A part is a `SpecPart`: it says what all models of an architecture have in common (`declared`), reads itself from a
//! file, and writes itself to one. Keys and defaults are those of llama.cpp's converter and loader. An unknown setting is
//! refused by name: a model that ignores a setting would answer, but wrongly.
//!
//! A new setting is a field of its part, and of [`ArchDecl`] where architectures differ. A new part is a file, a field of
//! [`ModelSpec`] and a line in the list of parts below.

use crate::arch::{Arch, ArchDecl, Block, FeedForward, NormKind};
use crate::error::{LoadError, Text};
use crate::gguf::GgufFile;
use crate::gguf::write::MetaValue;

mod attention;
mod dense;
mod experts;
mod factors;
mod keys;
mod kv_sharing;
mod latent;
mod local;
mod norms;
mod positions;
mod recurrent;
mod rope;
mod sizes;
mod temperature;
mod tensors;

pub use attention::{Attention, attention_scale};
pub use dense::DenseNetwork;
pub use experts::Experts;
pub use factors::Factors;
pub use kv_sharing::KvSharing;
pub use latent::Latent;
pub use local::{KvHeads, LocalLayers};
pub use norms::Norms;
pub use positions::PositionEncoding;
pub use recurrent::{RecurrentLayers, StateShape};
pub use rope::{Rope, RopeParams, RopeScaling};
pub use temperature::AttentionTemperature;
pub use tensors::{
    AttentionTensors, DenseTensors, ExpertTensors, InputTensors, LatentTensors, LayerTensors, MixerTensors,
    ModelTensors, NetworkTensors, OutputTensors, PerLayerTensors, RecurrentTensors, SeparateNorms,
    TensorKind, TensorPart, TensorSpec,
};

use self::keys::{KeyReader, KeyWriter};

/// Sizes and settings of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Architecture.
    pub arch: Arch,
    /// Name from the file, without control characters; may be empty.
    pub name: String,
    /// Number of layers.
    pub n_layers: usize,
    /// Width of the residual stream, elements.
    pub n_embd: usize,
    /// Query heads per layer.
    pub n_heads: usize,
    /// KV heads per layer; divides `n_heads`. Local layers may have others: see [`ModelSpec::kv_heads`].
    pub n_kv_heads: usize,
    /// Elements of a head, for Q, K and V. With latent attention those of a stored row. Local layers may have others.
    pub head_dim: usize,
    /// Width of the feed-forward network, elements. See [`ModelSpec::network_width`].
    pub n_ff: usize,
    /// Tokens in the vocabulary; also the rows of the embedding.
    pub n_vocab: usize,
    /// Context length of the training, tokens.
    pub n_ctx_train: usize,
    /// Width of the embeddings that each layer has of its own, elements.
    pub per_layer_width: Option<usize>,
    /// Whether the output matrix is the token embedding.
    pub tied_output: bool,
    /// How the positions of tokens are taken into account.
    pub position_encoding: PositionEncoding,
    /// The sizes of latent attention. There is one KV head then.
    pub latent: Option<Latent>,
    /// The layers with a sliding window.
    pub local_layers: Option<LocalLayers>,
    /// The last layers, where they attend to the keys and values of earlier ones.
    pub kv_sharing: Option<KvSharing>,
    /// The layers that keep a state in place of keys and values.
    pub recurrent: Option<RecurrentLayers>,
    /// How layers attend.
    pub attention: Attention,
    /// How a layer's parts are connected, and which norms it has.
    pub block: Block,
    /// The norms.
    pub norms: Norms,
    /// The feed-forward network.
    pub dense: DenseNetwork,
    /// The experts, where some layers have them.
    pub experts: Option<Experts>,
    /// Factors of the residual stream and of logits.
    pub factors: Factors,
    /// A sliding window, in tokens, that the file gives and that is not applied.
    pub ignored_sliding_window: Option<usize>,
    /// Layers at the end of the file that are not used: they predict several tokens.
    pub ignored_layers: usize,
}

/// A part of a specification, which reads and writes itself.
trait SpecPart: Sized {
    /// Whether the part reads a key, beside the settings of the architecture: see [`ArchDecl::settings`].
    fn reads(_decl: &ArchDecl, _key: &str) -> bool {
        false
    }

    /// Reads the part. `spec` has the sizes and the parts that are before this one in the list.
    fn read(keys: &KeyReader<'_>, spec: &ModelSpec) -> Result<Self, LoadError>;

    /// Writes what [`SpecPart::read`] reads. What the names of tensors say is left out.
    fn write(&self, spec: &ModelSpec, to: &mut KeyWriter);
}

/// Makes the functions that do something with every part.
macro_rules! parts {
    ($($field:ident: $part:ty,)*) => {
        impl ModelSpec {
            /// Reads the parts in the order of the list.
            fn read_parts(&mut self, keys: &KeyReader<'_>) -> Result<(), LoadError> {
                $(self.$field = <$part>::read(keys, self)?;)*
                Ok(())
            }

            fn write_parts(&self, to: &mut KeyWriter) {
                $(self.$field.write(self, to);)*
            }
        }

        /// Whether models of an architecture may have this key, without its prefix.
        fn is_read(decl: &ArchDecl, key: &str) -> bool {
            sizes::reads(key) || decl.settings.contains(&key) $(|| <$part>::reads(decl, key))*
        }
    };
}

parts! {
    position_encoding: PositionEncoding,
    latent: Option<Latent>,
    local_layers: Option<LocalLayers>,
    kv_sharing: Option<KvSharing>,
    recurrent: Option<RecurrentLayers>,
    attention: Attention,
    block: Block,
    norms: Norms,
    dense: DenseNetwork,
    experts: Option<Experts>,
    factors: Factors,
}

impl ModelSpec {
    /// What all models of an architecture have in common, for `n_layers` layers and heads of `head_dim`
    /// elements. The other sizes are 1: the caller gives them.
    pub fn base(arch: Arch, n_layers: usize, head_dim: usize) -> ModelSpec {
        let decl = arch.decl();
        // A tensor that a model may or may not have.
        let in_file = |_: &str| false;
        let position_encoding = PositionEncoding::declared(decl, n_layers, head_dim);
        ModelSpec {
            arch,
            name: String::new(),
            n_layers,
            n_embd: 1,
            n_heads: 1,
            n_kv_heads: 1,
            head_dim,
            n_ff: 1,
            n_vocab: 1,
            n_ctx_train: 1,
            per_layer_width: None,
            tied_output: false,
            position_encoding,
            latent: decl.latent.then(|| Latent::declared(head_dim)),
            local_layers: decl.sliding_window.local().and_then(|local| {
                let window = local.default_window(n_layers)?;
                Some(LocalLayers::declared(local, window, n_layers, position_encoding.rope()))
            }),
            kv_sharing: None,
            recurrent: decl.recurrent.as_ref().map(|decl| RecurrentLayers::declared(decl, n_layers)),
            attention: Attention::declared(decl, head_dim, in_file),
            block: decl.blocks[0],
            norms: Norms::declared(decl, in_file),
            dense: DenseNetwork::declared(decl, false, false),
            experts: Experts::declared(&decl.experts),
            factors: Factors::declared(decl, n_layers, 1, in_file),
            ignored_sliding_window: None,
            ignored_layers: 0,
        }
    }

    /// Sets the factors that the architecture's models of this size have if the file gives none.
    pub fn with_default_factors(self) -> ModelSpec {
        let factors =
            Factors::declared(self.arch.decl(), self.n_layers, self.n_embd, |_| self.factors.of_layers);
        ModelSpec { factors, ..self }
    }

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
        let keys = KeyReader { file, arch };
        keys.refuse_unknown()?;
        let mut spec = ModelSpec::read_sizes(&keys)?;
        spec.read_parts(&keys)?;
        Ok(spec)
    }

    /// The metadata of a file with this specification, without a vocabulary; [`ModelSpec::from_gguf`] reads
    /// the same specification back from it.
    pub fn metadata(&self) -> Vec<(String, MetaValue)> {
        let mut keys = KeyWriter::new(self.arch, &self.name);
        self.write_sizes(&mut keys);
        self.write_parts(&mut keys);
        keys.into_keys()
    }

    /// The kind of all norms.
    pub fn norm(&self) -> NormKind {
        self.arch.decl().norm
    }

    /// The kind of the feed-forward network.
    pub fn feed_forward(&self) -> FeedForward {
        self.arch.decl().feed_forward
    }

    /// Whether the query projection also gives a gate for each head.
    pub fn attention_gate(&self) -> bool {
        self.arch.decl().attention_gate
    }

    /// The experts of a layer, counted from 0. `None`: it has one feed-forward network.
    pub fn experts_of(&self, layer: usize) -> Option<&Experts> {
        self.experts.as_ref().filter(|experts| experts.are_in_layer(layer))
    }

    /// Query heads per KV head.
    pub fn queries_per_kv_head(&self) -> usize {
        self.n_heads / self.n_kv_heads
    }

    /// Width of the feed-forward network of a layer, counted from 0.
    pub fn network_width(&self, layer: usize) -> usize {
        self.kv_sharing
            .filter(|sharing| layer >= sharing.first_layer)
            .map_or(self.n_ff, |sharing| sharing.n_ff)
    }

    /// Rows that a KV head stores of a token: its key and its value, or one for both (latent attention).
    pub fn rows_of_token(&self) -> usize {
        if self.latent.is_some() { 1 } else { 2 }
    }

    /// Number of parameters: the elements of all tensors except RoPE's fixed factors.
    pub fn parameters(&self) -> u64 {
        let mut sum = 0u64;
        ModelTensors::declare(self).for_each(|tensor| {
            if tensor.kind != TensorKind::RopeFactors {
                sum = sum.saturating_add(tensor.dims.iter().fold(1, |n: u64, &d| n.saturating_mul(d)));
            }
        });
        sum
    }
}
