//! The supported architectures, declared as data. They differ in a few flags, which `spec` reads and the
//! engine's one forward loop follows. A new architecture that only combines these flags is a new file in
//! arch/ and a line in the list below.
//!
//! Common to all: token embedding; per layer a norm, grouped-query attention, residual, a norm, a feed-forward network,
//! residual. Then come a final norm and the output matrix, or the token embedding in its place. A declaration begins
//! with `BASE` and says what is different.

use crate::gguf::Value;

/// Makes the enum [`Arch`] from one line for each architecture: its file and its name here.
macro_rules! architectures {
    ($($(#[$doc:meta])* $file:ident: $name:ident,)*) => {
        $(mod $file;)*

        /// A supported architecture, as `general.architecture` names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Arch {
            $($(#[$doc])* $name,)*
        }

        impl Arch {
            /// Every supported architecture.
            pub const ALL: &'static [Arch] = &[$(Arch::$name),*];

            /// Its declaration.
            pub fn decl(self) -> &'static ArchDecl {
                match self {
                    $(Arch::$name => &$file::DECL,)*
                }
            }
        }
    };
}

// rustfmt does not look into macros: `.ci/run formatting` names the files of arch/ itself.
architectures! {
    /// Llama 1 to 3.x, Mistral, Mixtral, Yi, TinyLlama and others of the same structure.
    llama: Llama,
    /// Qwen1.5, Qwen2, Qwen2.5.
    qwen2: Qwen2,
    /// Qwen3, dense.
    qwen3: Qwen3,
    /// Qwen1.5 MoE and Qwen2 MoE.
    qwen2moe: Qwen2Moe,
    /// Qwen3 with experts.
    qwen3moe: Qwen3Moe,
    /// Baichuan and Baichuan 2.
    baichuan: Baichuan,
    /// Gemma, the first generation.
    gemma: Gemma,
    /// Gemma 2.
    gemma2: Gemma2,
    /// Gemma 3, the part for text.
    gemma3: Gemma3,
    /// Gemma 4, the part for text.
    gemma4: Gemma4,
    /// Command R7B and Command A.
    cohere2: Cohere2,
    /// EXAONE 4.
    exaone4: Exaone4,
    /// Phi-3, 3.5 and 4.
    phi3: Phi3,
    /// Mistral Small 3.x, Ministral 3.
    mistral3: Mistral3,
    /// ChatGLM 2 and 3, GLM-4, GLM-Edge.
    chatglm: ChatGlm,
    /// GLM-4-0414.
    glm4: Glm4,
    /// GLM-4.5 and 4.6.
    glm4moe: Glm4Moe,
    /// dots.llm1.
    dots1: Dots1,
    /// DeepSeek-V2, V3 and R1, Kimi K2, GLM-4.7 Flash.
    deepseek2: DeepSeek2,
    /// gpt-oss.
    gpt_oss: GptOss,
    /// SmolLM3.
    smollm3: SmolLm3,
    /// OLMo 2 and 3.
    olmo2: Olmo2,
    /// Granite 3 and 4, dense.
    granite: Granite,
    /// Granite 3 and 4 with experts.
    granitemoe: GraniteMoe,
    /// OLMoE.
    olmoe: Olmoe,
    /// Command R and R+.
    command_r: CommandR,
    /// StarCoder2.
    starcoder2: StarCoder2,
    /// InternLM 2, 2.5 and 3.
    internlm2: InternLm2,
    /// MiniCPM 1 and 2.
    minicpm: MiniCpm,
    /// Seed-OSS.
    seed_oss: SeedOss,
    /// Hunyuan, dense.
    hunyuan_dense: HunyuanDense,
    /// ERNIE 4.5, dense.
    ernie4_5: Ernie4_5,
    /// ERNIE 4.5 with experts.
    ernie4_5_moe: Ernie4_5Moe,
    /// StableLM.
    stablelm: StableLm,
    /// Nemotron-3, Nemotron-4 and Minitron; not the hybrid Nemotron-H.
    nemotron: Nemotron,
    /// Falcon.
    falcon: Falcon,
    /// GPT-NeoX, Pythia.
    gptneox: GptNeoX,
    /// GPT-2.
    gpt2: Gpt2,
    /// BLOOM.
    bloom: Bloom,
    /// MPT.
    mpt: Mpt,
    /// Qwen3.5, dense.
    qwen35: Qwen35,
    /// Qwen3.5 with experts.
    qwen35moe: Qwen35Moe,
    /// Qwen3-Next.
    qwen3next: Qwen3Next,
}

impl Arch {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        self.decl().name
    }

    /// The architecture of this name.
    pub fn from_name(name: &str) -> Option<Arch> {
        Self::ALL.iter().copied().find(|a| a.name() == name)
    }

    /// The supported architectures of the family of `name`, as a part of a sentence; empty if there are none.
    pub(crate) fn relatives(name: &str) -> String {
        let related: Vec<&str> = Self::ALL
            .iter()
            .map(|arch| arch.name())
            .filter(|other| is_of_family(name, family(other)))
            .collect();
        match related[..] {
            [] => String::new(),
            [one] => format!("its relative {one} is; all "),
            _ => format!("its relatives {} are; all ", related.join(", ")),
        }
    }

    /// The names of all supported architectures, separated by commas.
    pub fn supported() -> String {
        Self::ALL.iter().map(|a| a.name()).collect::<Vec<_>>().join(", ")
    }
}

/// The letters that the names of a family begin with: `gemma` of `gemma3`, `hunyuan` of `hunyuan-dense`.
fn family(name: &str) -> &str {
    name.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or(name)
}

/// Whether `name` is the family's name with a version or a variant. Further letters may only follow names that are long
/// enough to be told apart: `granitehybrid` is a Granite, but `gptj` is not of the family of `gpt2`.
fn is_of_family(name: &str, family: &str) -> bool {
    const DISTINCT: usize = 4;
    name.strip_prefix(family)
        .is_some_and(|rest| family.len() >= DISTINCT || !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The declaration of an architecture: everything in which it may differ from the others.
#[derive(Debug)]
pub struct ArchDecl {
    /// Name in files, also the prefix of its metadata keys.
    pub name: &'static str,
    /// How positions enter.
    pub positions: Positions,
    /// Which elements of a head RoPE rotates as a pair.
    pub rope_style: RopeStyle,
    /// Whether RoPE may rotate only the first elements of a head.
    pub partial_rotary: bool,
    /// What sections of RoPE mean.
    pub rope_sections: RopeSections,
    /// Whether the bounds of YaRN's ramp are rounded to whole pairs of elements.
    pub yarn_truncates: bool,
    /// A tensor of factors that divide RoPE's frequencies.
    pub rope_freqs: Presence,
    /// Two tensors of such factors, one for short contexts and one for long ones (LongRoPE).
    pub long_rope: Presence,
    /// Every how many layers one has no RoPE: the last of each group.
    pub no_rope_every: Option<usize>,
    /// How a layer's parts are connected, and the names of its norms. A model has the first of these whose
    /// norms are in its first layer.
    pub blocks: &'static [Block],
    /// The kind of all norms.
    pub norm: NormKind,
    /// Biases of the norms before attention, before the feed-forward network and before the output.
    pub norm_bias: Presence,
    /// A norm of the embeddings.
    pub embedding_norm: Presence,
    /// Whether keys and values come from a latent vector.
    pub latent: bool,
    /// Q, K and V in one tensor `attn_qkv`, in this order.
    pub fused_qkv: Presence,
    /// Biases on Q, K and V.
    pub qkv_bias: Presence,
    /// A bias on the attention's output.
    pub attn_output_bias: Presence,
    /// Norms of Q and K.
    pub qk_norm: Presence,
    /// What these norms are over.
    pub qk_norm_kind: QkNorm,
    /// Whether each head of V is normed, without weights.
    pub value_norm: bool,
    /// Whether the values of a model's global layers may come from the projection of the keys. They do where the first
    /// of these layers has no `attn_v`.
    pub values_from_keys: bool,
    /// The feed-forward network.
    pub feed_forward: FeedForward,
    /// Whether `ffn_up` holds the gate and, after it, the matrix that it gates.
    pub fused_gate_up: Presence,
    /// Biases of the feed-forward network.
    pub ffn_bias: Presence,
    /// The experts, which take the place of the feed-forward network.
    pub experts: ExpertsDecl,
    /// A learned logit of each query head, which takes its share of attention (gpt-oss).
    pub sink_logits: Presence,
    /// Whether the query projection also gives a gate for each head: its sigmoid scales what the head attends to.
    pub attention_gate: bool,
    /// Layers that keep a state in place of keys and values.
    pub recurrent: Option<RecurrentDecl>,
    /// A factor of the residual stream after each layer.
    pub layer_scale: Presence,
    /// Factors of embeddings, residuals and logits where the file does not give them.
    pub scales: Scales,
    /// The attention scale where the file gives none.
    pub attention_scale: AttentionScale,
    /// Whether logits are divided by the file's `logit_scale`. Otherwise they are multiplied by it.
    pub divides_logits: bool,
    /// The soft cap of attention's logits where the file gives none.
    pub attention_softcap: Option<f32>,
    /// The soft cap of the output's logits where the file gives none.
    pub final_softcap: Option<f32>,
    /// How a sliding window is treated.
    pub sliding_window: SlidingWindow,
    /// The keys among those of `NEUTRAL_KEYS` that are read.
    pub settings: &'static [&'static str],
}

/// What most architectures have in common: an RMS norm before attention and before SwiGLU, no biases, RoPE on
/// the two halves of a head.
pub(crate) const BASE: ArchDecl = ArchDecl {
    name: "",
    positions: Positions::All(PositionScheme::Rope),
    rope_style: RopeStyle::Neox,
    partial_rotary: false,
    rope_sections: RopeSections::Refused,
    yarn_truncates: true,
    rope_freqs: Presence::Never,
    long_rope: Presence::Never,
    no_rope_every: None,
    blocks: &[Block::PRE_NORM],
    norm: NormKind::Rms,
    norm_bias: Presence::Never,
    embedding_norm: Presence::Never,
    latent: false,
    fused_qkv: Presence::Never,
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    qk_norm: Presence::Never,
    qk_norm_kind: QkNorm::Head,
    value_norm: false,
    values_from_keys: false,
    feed_forward: FeedForward::SwiGlu,
    fused_gate_up: Presence::Never,
    ffn_bias: Presence::Never,
    experts: ExpertsDecl::NONE,
    sink_logits: Presence::Never,
    attention_gate: false,
    recurrent: None,
    layer_scale: Presence::Never,
    scales: Scales::One,
    attention_scale: AttentionScale::OfHead,
    divides_logits: false,
    attention_softcap: None,
    final_softcap: None,
    sliding_window: SlidingWindow::Refused,
    settings: &[],
};

/// How a layer's parts are connected, with the names of its norms in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The norm before attention.
    pub attn_norm: Option<&'static str>,
    /// The norm after attention, before the residual is added.
    pub attn_post_norm: Option<&'static str>,
    /// The norm before the feed-forward network. Without it, a parallel block uses the result of `attn_norm`.
    pub ffn_norm: Option<&'static str>,
    /// The norm after the feed-forward network, before the residual is added.
    pub ffn_post_norm: Option<&'static str>,
    /// Whether the feed-forward network reads the layer's input and not the attention's result.
    pub parallel: bool,
}

impl Block {
    /// A norm before attention and before the feed-forward network.
    pub const PRE_NORM: Block = Block {
        attn_norm: Some("attn_norm"),
        attn_post_norm: None,
        ffn_norm: Some("ffn_norm"),
        ffn_post_norm: None,
        parallel: false,
    };

    /// Norms before and after both.
    pub const SANDWICH_NORM: Block = Block {
        attn_post_norm: Some("post_attention_norm"),
        ffn_post_norm: Some("post_ffw_norm"),
        ..Block::PRE_NORM
    };

    /// Norms after both only.
    pub const POST_NORM: Block = Block { attn_norm: None, ffn_norm: None, ..Block::SANDWICH_NORM };

    /// One norm, whose result attention and the feed-forward network read.
    pub const PARALLEL: Block = Block { ffn_norm: None, parallel: true, ..Block::PRE_NORM };

    /// The names of its norms.
    pub(crate) fn norms(&self) -> impl Iterator<Item = &'static str> {
        [self.attn_norm, self.attn_post_norm, self.ffn_norm, self.ffn_post_norm].into_iter().flatten()
    }
}

/// A kind of norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// x / rms(x).
    Rms,
    /// (x - mean(x)) / deviation(x).
    Layer,
}

/// What a norm of Q and K is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Each head, with the same weights for all heads, before RoPE.
    Head,
    /// As `Head`, but after RoPE.
    HeadAfterRope,
    /// Each head, with its own weights, before RoPE.
    EachHead,
    /// All heads of a token together, before RoPE.
    Whole,
}

/// A kind of feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedForward {
    /// SiLU of a gate times up.
    SwiGlu,
    /// GELU of a gate times up, with GELU's approximation by tanh.
    GeGlu,
    /// GELU, approximated by tanh.
    Gelu,
    /// GELU with the error function.
    GeluErf,
    /// The square of ReLU.
    Relu2,
    /// SwiGLU with bounds: a steeper SiLU of a gate of at most 7 times up + 1, where up is -7 to 7 (gpt-oss).
    SwiGluOai,
}

impl FeedForward {
    /// Whether it has a gate.
    pub fn is_gated(self) -> bool {
        matches!(self, FeedForward::SwiGlu | FeedForward::GeGlu | FeedForward::SwiGluOai)
    }
}

/// The experts of an architecture's models: feed-forward networks of which a router chooses some for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertsDecl {
    /// Whether models have experts. `IfInFile`: where the file gives their number.
    pub presence: Presence,
    /// How the router's logits become weights, where the file does not say it.
    pub gating: Gating,
    /// Whether the weights of the chosen experts are divided by their sum, where the file does not say it.
    pub normalized: bool,
    /// Biases of the router and of the experts.
    pub bias: Presence,
    /// Numbers that are added to the weights where experts are chosen, and only there.
    pub selection_bias: Presence,
    /// An expert that every token uses. `IfInFile`: where the file gives its width.
    pub shared: Presence,
    /// Whether a sigmoid scales what that expert gives.
    pub shared_gate: bool,
    /// Whether that expert is the layer's feed-forward network. The experts beside it have norms of their own.
    pub beside_dense: bool,
    /// Gate and up of an expert in one tensor `ffn_gate_up_exps`.
    pub fused_gate_up: Presence,
}

impl ExpertsDecl {
    /// No experts.
    pub(crate) const NONE: ExpertsDecl = ExpertsDecl {
        presence: Presence::Never,
        gating: Gating::Softmax,
        normalized: true,
        bias: Presence::Never,
        selection_bias: Presence::Never,
        shared: Presence::IfInFile,
        shared_gate: false,
        beside_dense: false,
        fused_gate_up: Presence::Never,
    };
    /// Experts in every model, by the softmax of the router's logits, weighted by their share of the chosen ones.
    pub(crate) const ALWAYS: ExpertsDecl = ExpertsDecl { presence: Presence::Always, ..ExpertsDecl::NONE };
}

/// How a router's logits become weights. The experts with the largest weights are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gating {
    /// The softmax of all logits.
    Softmax,
    /// The sigmoid of each logit.
    Sigmoid,
    /// The logits choose. The softmax of the chosen logits gives the weights.
    SoftmaxOfChosen,
}

impl Gating {
    /// Its number in files.
    pub(crate) fn id(self) -> u32 {
        match self {
            Gating::Softmax => 1,
            Gating::Sigmoid => 2,
            Gating::SoftmaxOfChosen => 3,
        }
    }

    /// The kind of this number.
    pub(crate) fn from_id(id: u64) -> Option<Gating> {
        [Gating::Softmax, Gating::Sigmoid, Gating::SoftmaxOfChosen]
            .into_iter()
            .find(|gating| u64::from(gating.id()) == id)
    }
}

/// Layers that keep a state in place of keys and values: the gated delta rule (Yang et al. 2024, arXiv 2412.06464).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecurrentDecl {
    /// Every how many layers one attends, where the file does not say it: the last of each group.
    pub attention_every: usize,
    /// Which value heads belong to a key head.
    pub value_heads: ValueHeads,
}

/// Which value heads of a recurrent layer belong to a key head, and how the layer's small matrices lie in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueHeads {
    /// Value head i belongs to key head i modulo their number. `ssm_alpha` and `ssm_beta` are two tensors.
    Tiled,
    /// Those of a key head are neighbours. `ssm_ba` has, for each key head, the rows of beta and then those of alpha.
    Grouped,
}

/// How positions enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// All models are of this scheme.
    All(PositionScheme),
    /// Files do not name the scheme. The number of layers decides; others are refused.
    ByLayers(&'static [(usize, PositionScheme)]),
}

/// Factors of embeddings, residuals and logits where the file does not give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// 1.
    One,
    /// Embeddings times sqrt(n_embd).
    SqrtWidth,
    /// Embeddings times 12, residuals times 1.4 / sqrt(n_layers), logits divided by n_embd / 256.
    MiniCpm,
}

/// The factor of q·k before the softmax, where the file gives none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionScale {
    /// 1 / sqrt(head_dim).
    OfHead,
    /// 1 / sqrt(n_embd / n_heads) in models with this number of layers, otherwise 1 / sqrt(head_dim).
    OfWidth(usize),
    /// 1.
    One,
}

/// Whether the models of an architecture have an optional part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// No model has it. A file with its tensors is refused.
    Never,
    /// A model has it if its tensors are in the file.
    IfInFile,
    /// Every model has it. A file without its tensors is refused.
    Always,
}

impl Presence {
    /// Whether a model has the part, given whether its tensors are in the file.
    pub(crate) fn resolve(self, in_file: bool) -> bool {
        match self {
            Presence::Never => false,
            Presence::IfInFile => in_file,
            Presence::Always => true,
        }
    }
}

/// A kind of position encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionScheme {
    /// Rotary position embedding: rotates queries and keys.
    Rope,
    /// Attention with linear biases: subtracts the distance times the head's slope from attention logits.
    Alibi,
    /// A learned vector for each position is added to the embedding.
    Learned,
}

/// Which elements of a head RoPE rotates as a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// 2i and 2i + 1 (`GGML_ROPE_TYPE_NORMAL`).
    Norm,
    /// i and i + n_dims / 2 (`GGML_ROPE_TYPE_NEOX`).
    Neox,
}

/// How a sliding window is treated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlidingWindow {
    /// The model is run with full attention.
    Ignored,
    /// A model with a window that is shorter than its context is not loaded.
    Refused,
    /// Some layers have it.
    Local(LocalDecl),
}

/// What the sections of RoPE in a file (`rope.dimension_sections`) mean. With them, each pair of elements has one of
/// several positions: time, height and width in an image, which are equal in texts, and one that texts do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeSections {
    /// Files have none.
    Refused,
    /// Nothing.
    Ignored,
    /// Pairs have the positions in turn.
    Interleaved,
    /// The first pairs have the first position, the next ones the second, and so on. RoPE pairs the two halves of its
    /// elements, whatever it does in files without sections.
    Consecutive,
}

/// Which layers have a sliding window, where the file does not say it, and their RoPE. Such layers are called local,
/// the others global.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalDecl {
    /// The window in tokens. `None`: without one in the file all layers are global.
    pub window: Option<usize>,
    /// Only models with this number of layers have that window.
    pub window_if_layers: Option<usize>,
    /// Every how many layers one is global: the last of each group.
    pub global_every: usize,
    /// The RoPE of local layers.
    pub rope: LocalRope,
    /// Whether global layers have no RoPE, if there are local ones.
    pub only_local_rope: bool,
    /// Whether local layers may have KV heads of another number and size than global ones.
    pub own_heads: bool,
}

/// The RoPE of local layers, beside that of global ones. The file may give another base. A tensor of factors that
/// divide frequencies is for global layers only, unless local ones have the same RoPE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LocalRope {
    /// The same.
    Same,
    /// The same without scaling.
    Unscaled,
    /// Without scaling, and with this base.
    Base(f32),
}

impl LocalDecl {
    /// The window in a model of `n_layers` layers whose file has none.
    pub(crate) fn default_window(&self, n_layers: usize) -> Option<usize> {
        self.window.filter(|_| self.window_if_layers.is_none_or(|layers| layers == n_layers))
    }

    /// Every layer but the last of each group of this many.
    pub(crate) const fn except_every(global_every: usize) -> LocalDecl {
        let rope = LocalRope::Same;
        LocalDecl {
            window: None,
            window_if_layers: None,
            global_every,
            rope,
            only_local_rope: false,
            own_heads: false,
        }
    }
}

impl SlidingWindow {
    /// How local layers are declared, if there may be any.
    pub(crate) fn local(self) -> Option<LocalDecl> {
        match self {
            SlidingWindow::Local(local) => Some(local),
            SlidingWindow::Ignored | SlidingWindow::Refused => None,
        }
    }
}

/// Settings of models whose queries are scaled by position, and how YaRN changes magnitudes.
pub(crate) const TEMPERATURE_KEYS: &[&str] =
    &["attention.temperature_length", "attention.temperature_scale", "rope.scaling.yarn_log_multiplier"];

/// Keys without influence on the computation: the row order of the source, and whether scaling was part of
/// training.
pub(crate) const IGNORED_KEYS: &[&str] = &["tensor_data_layout", "rope.scaling.finetuned"];

/// Keys of features that are not supported, each with the values that switch the feature off and the
/// feature's name.
pub(crate) const NEUTRAL_KEYS: &[(&str, Neutral, &str)] = &[
    ("attention.causal", Neutral::Bool(true), "an encoder that also looks ahead"),
    ("attention.clamp_kqv", Neutral::Number(&[0.0]), "clamped queries, keys and values"),
    ("attention.max_alibi_bias", Neutral::Number(&[0.0]), "ALiBi position encoding"),
    ("attention.scale", Neutral::Number(&[0.0]), "a custom attention scale"),
    ("attn_logit_softcapping", Neutral::Number(&[0.0]), "soft-capped attention logits"),
    ("embedding_scale", Neutral::Number(&[0.0, 1.0]), "scaled embeddings"),
    ("expert_count", Neutral::Number(&[0.0]), "a mixture of experts"),
    ("expert_group_count", Neutral::Number(&[0.0, 1.0]), "a mixture of experts"),
    ("expert_group_used_count", Neutral::Number(&[0.0, 1.0]), "a mixture of experts"),
    ("expert_shared_count", Neutral::Number(&[0.0]), "a mixture of experts"),
    ("expert_used_count", Neutral::Number(&[0.0]), "a mixture of experts"),
    ("final_logit_softcapping", Neutral::Number(&[0.0]), "soft-capped output logits"),
    ("logit_scale", Neutral::Number(&[0.0, 1.0]), "scaled output logits"),
    ("nextn_predict_layers", Neutral::Number(&[0.0]), "layers that predict several tokens"),
    ("pooling_type", Neutral::Number(&[0.0]), "an embedding or ranking model"),
    ("residual_scale", Neutral::Number(&[0.0, 1.0]), "scaled residuals"),
    ("rope.scaling.alpha", Neutral::Number(&[0.0]), "RoPE scaling by an NTK alpha"),
    ("rope.scaling.yarn_log_multiplier", Neutral::Number(&[0.0]), "a YaRN log multiplier"),
    ("use_parallel_residual", Neutral::Bool(false), "parallel residuals"),
];

/// The values that switch a feature off.
#[derive(Debug)]
pub(crate) enum Neutral {
    Bool(bool),
    /// One of these numbers, in any integer or float type.
    Number(&'static [f64]),
}

impl Neutral {
    pub(crate) fn matches(&self, value: &Value) -> bool {
        match (self, value) {
            (Neutral::Bool(wanted), Value::Bool(found)) => wanted == found,
            (Neutral::Number(wanted), value) => {
                let number = value.as_float().or_else(|| value.as_int().map(|i| i as f64));
                number.is_some_and(|n| wanted.contains(&n))
            }
            _ => false,
        }
    }
}
