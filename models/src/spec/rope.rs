//! Rotary position embedding, and its scaling to long contexts.

use super::keys::{KeyReader, KeyWriter, keys, limit};
use crate::arch::{ArchDecl, RopeSections, RopeStyle};
use crate::error::{LoadError, Text};
use crate::gguf::write::MetaValue;

keys! {
    /// Keys that are read in all architectures.
    KEYS;
    DIMS = "rope.dimension_count";
    BASE = "rope.freq_base";
    TYPE = "rope.scaling.type";
    FACTOR = "rope.scaling.factor";
    /// An older name of the factor.
    SCALE_LINEAR = "rope.scale_linear";
    ORIGINAL_CONTEXT = "rope.scaling.original_context_length";
    ATTN_FACTOR = "rope.scaling.attn_factor";
    YARN_ATTN_FACTOR = "rope.scaling.yarn_attn_factor";
    YARN_EXT_FACTOR = "rope.scaling.yarn_ext_factor";
    YARN_BETA_FAST = "rope.scaling.yarn_beta_fast";
    YARN_BETA_SLOW = "rope.scaling.yarn_beta_slow";
}

/// The sections of RoPE, in files of some architectures.
const SECTIONS: &str = "rope.dimension_sections";

/// The sections of RoPE in files of models that also see images: every pair of elements is in one of the first three,
/// whose positions are equal in texts.
const SECTIONS_OF_TEXT: [i32; 4] = [11, 11, 10, 0];

/// Rotary position embedding. Frequency i of n_dims / 2 is base^(-2i / n_dims), scaled by `scaling`. With
/// `has_factors`, element i of the tensor `rope_freqs` divides the frequency. With latent attention the last elements of a
/// head are rotated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Which elements are rotated as a pair.
    pub style: RopeStyle,
    /// Number of elements of a head that are rotated, from the first on.
    pub n_dims: usize,
    /// Base of the frequencies.
    pub base: f32,
    /// Scaling to longer contexts.
    pub scaling: RopeScaling,
    /// Whether the tensor `rope_freqs` has a divisor for each frequency.
    pub has_factors: bool,
    /// Every how many layers one has no RoPE: the last of each group.
    pub skipped_every: Option<usize>,
}

impl Rope {
    /// Whether a layer, counted from 0, rotates queries and keys.
    pub fn is_in_layer(&self, layer: usize) -> bool {
        self.skipped_every.is_none_or(|every| !(layer + 1).is_multiple_of(every))
    }

    /// What divides the frequencies of YaRN whose ramp is not rounded, `[n_dims / 2]`; `None` for other scalings. ggml
    /// rounds it, so [`RopeScaling::params`] leaves all of it to these divisors.
    pub fn divisors(&self) -> Option<Vec<f32>> {
        let RopeScaling::Yarn {
            factor, original_ctx, ext_factor, beta_fast, beta_slow, truncate: false, ..
        } = self.scaling
        else {
            return None;
        };
        let dims = self.n_dims as f64;
        // The pair of elements that rotates `beta` times in the original context.
        let pair = |beta: f32| {
            let rotations = original_ctx as f64 / (f64::from(beta) * std::f64::consts::TAU);
            dims * rotations.ln() / (2.0 * f64::from(self.base).ln())
        };
        let (first, last) = (pair(beta_fast).max(0.0), pair(beta_slow).min(dims - 1.0));
        let length = if first == last { 0.001 } else { last - first };
        let divisor = |number: usize| {
            let along = (number as f64 - first) / length;
            // Not a number where the base is 1, so that all pairs rotate alike.
            let ramp = if along.is_nan() { 0.0 } else { along.clamp(0.0, 1.0) };
            let unchanged = (1.0 - ramp) * f64::from(ext_factor);
            1.0 / ((1.0 - unchanged) / f64::from(factor) + unchanged)
        };
        Some((0..self.n_dims / 2).map(|number| divisor(number) as f32).collect())
    }
}

/// How RoPE is scaled to contexts longer than that of the original training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// No scaling.
    None,
    /// All positions divided by `factor`.
    Linear {
        /// The context grows by this factor.
        factor: f32,
    },
    /// YaRN (Peng et al. 2023, arXiv 2309.00071): low frequencies are divided by `factor`, high ones are
    /// unchanged, with a linear ramp between.
    Yarn {
        /// The context grows by this factor, 1 or more.
        factor: f32,
        /// Context length of the original training, tokens.
        original_ctx: usize,
        /// Weight of the ramp; 1 by default.
        ext_factor: f32,
        /// Factor of the magnitude of Q and K, *without* YaRN's own 1 + 0.1 ln(factor), which ggml applies.
        attn_factor: f32,
        /// Frequencies with more rotations than this in `original_ctx` tokens are unchanged.
        beta_fast: f32,
        /// Frequencies with fewer rotations than this in `original_ctx` tokens are divided by `factor`.
        beta_slow: f32,
        /// Whether the ramp begins and ends at whole pairs of elements, as in ggml. Otherwise [`Rope::divisors`] has it.
        truncate: bool,
    },
    /// LongRoPE (Ding et al. 2024, arXiv 2402.13753): two tensors have a divisor for each frequency. One is for
    /// contexts up to `original_ctx`, the other for longer contexts.
    Long {
        /// Context length of the original training, tokens.
        original_ctx: usize,
        /// Factor of the magnitude of Q and K.
        attn_factor: f32,
    },
}

/// [`RopeScaling`] as the six parameters of ggml's rope operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeParams {
    /// Context length of the original training, tokens; only used with `ext_factor`.
    pub original_ctx: usize,
    /// Multiplies positions: 1 / `factor`.
    pub freq_scale: f32,
    /// Weight of YaRN's ramp; 0 switches YaRN off.
    pub ext_factor: f32,
    /// Multiplies the rotated Q and K.
    pub attn_factor: f32,
    /// See [`RopeScaling::Yarn`].
    pub beta_fast: f32,
    /// See [`RopeScaling::Yarn`].
    pub beta_slow: f32,
}

impl RopeScaling {
    /// Whether it is [`RopeScaling::Long`].
    pub fn is_long_rope(self) -> bool {
        matches!(self, RopeScaling::Long { .. })
    }

    /// The parameters of ggml's rope operation. `n_ctx_train` (tokens) is the original context of scalings
    /// without one.
    pub fn params(self, n_ctx_train: usize) -> RopeParams {
        let plain = RopeParams {
            original_ctx: n_ctx_train,
            freq_scale: 1.0,
            ext_factor: 0.0,
            attn_factor: 1.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
        };
        match self {
            RopeScaling::None => plain,
            RopeScaling::Linear { factor } => RopeParams { freq_scale: 1.0 / factor, ..plain },
            RopeScaling::Long { attn_factor, .. } => RopeParams { attn_factor, ..plain },
            RopeScaling::Yarn { factor, ext_factor, attn_factor, truncate: false, .. } => {
                let magnitude = if ext_factor == 0.0 { 1.0 } else { 1.0 + 0.1 * factor.ln() };
                RopeParams { attn_factor: attn_factor * magnitude, ..plain }
            }
            RopeScaling::Yarn {
                factor, original_ctx, ext_factor, attn_factor, beta_fast, beta_slow, ..
            } => RopeParams {
                original_ctx,
                freq_scale: 1.0 / factor,
                ext_factor,
                attn_factor,
                beta_fast,
                beta_slow,
            },
        }
    }
}

impl Rope {
    /// RoPE as the architecture declares it, of heads of `head_dim` elements.
    pub(super) fn declared(decl: &ArchDecl, head_dim: usize) -> Rope {
        Rope {
            style: decl.rope_style,
            n_dims: if decl.latent { head_dim / 2 } else { head_dim },
            base: 10_000.0,
            scaling: RopeScaling::None,
            has_factors: decl.rope_freqs.resolve(false),
            skipped_every: decl.no_rope_every,
        }
    }

    /// Whether the key is one of those that [`Rope::read`] reads.
    pub(super) fn reads(decl: &ArchDecl, key: &str) -> bool {
        KEYS.contains(&key) || key == SECTIONS && decl.rope_sections != RopeSections::Refused
    }

    /// RoPE of heads of `head_dim` elements, in a model that was trained for `n_ctx_train` tokens.
    pub(super) fn read(keys: &KeyReader<'_>, head_dim: usize, n_ctx_train: usize) -> Result<Rope, LoadError> {
        let decl = keys.arch.decl();
        let n_dims = keys.rope_dims(head_dim)?;
        Ok(Rope {
            style: keys.rope_style(n_dims)?,
            n_dims,
            base: keys.rope_base()?,
            scaling: keys.rope_scaling(n_ctx_train)?,
            has_factors: decl.rope_freqs.resolve(keys.has_tensor("rope_freqs.weight")),
            skipped_every: decl.no_rope_every,
        })
    }

    pub(super) fn write(&self, decl: &ArchDecl, to: &mut KeyWriter) {
        to.size(DIMS, self.n_dims);
        to.put(BASE, self.base);
        let has_sections = match decl.rope_sections {
            RopeSections::Interleaved => true,
            RopeSections::Consecutive => self.style != decl.rope_style,
            RopeSections::Refused | RopeSections::Ignored => false,
        };
        if has_sections {
            to.put(SECTIONS, MetaValue::i32s(SECTIONS_OF_TEXT));
        }
        self.scaling.write(to);
    }
}

impl RopeScaling {
    fn write(&self, to: &mut KeyWriter) {
        match *self {
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => {
                to.put(TYPE, "linear");
                to.put(FACTOR, factor);
            }
            RopeScaling::Yarn {
                factor, original_ctx, ext_factor, attn_factor, beta_fast, beta_slow, ..
            } => {
                to.put(TYPE, "yarn");
                to.put(FACTOR, factor);
                to.size(ORIGINAL_CONTEXT, original_ctx);
                to.put(YARN_EXT_FACTOR, ext_factor);
                to.put(ATTN_FACTOR, attn_factor);
                to.put(YARN_BETA_FAST, beta_fast);
                to.put(YARN_BETA_SLOW, beta_slow);
            }
            RopeScaling::Long { original_ctx, attn_factor } => {
                to.put(TYPE, "longrope");
                to.size(ORIGINAL_CONTEXT, original_ctx);
                to.put(ATTN_FACTOR, attn_factor);
            }
        }
    }
}

impl KeyReader<'_> {
    fn rope_dims(&self, head_dim: usize) -> Result<usize, LoadError> {
        let n_dims = self.optional_size(DIMS, limit::HEAD_DIM)?.unwrap_or(head_dim);
        if n_dims > head_dim {
            return Err(self.bad(DIMS, n_dims, format!("a head has only {head_dim} elements")));
        }
        let decl = self.arch.decl();
        if n_dims < head_dim && !decl.partial_rotary && !decl.latent {
            return Err(self.unsupported(
                DIMS,
                n_dims,
                format!("RoPE rotates all {head_dim} elements of a head in this architecture"),
            ));
        }
        if !n_dims.is_multiple_of(2) {
            return Err(self.bad(DIMS, n_dims, "RoPE rotates pairs of elements"));
        }
        Ok(n_dims)
    }

    /// Which elements RoPE rotates as a pair, of the first `n_dims` ones. An error if the file has sections of RoPE, and
    /// one of them has a position that texts do not have.
    fn rope_style(&self, n_dims: usize) -> Result<RopeStyle, LoadError> {
        let ArchDecl { rope_style, rope_sections, .. } = *self.arch.decl();
        if matches!(rope_sections, RopeSections::Refused | RopeSections::Ignored) {
            return Ok(rope_style);
        }
        let Some(list) = self.file.ints(&self.full(SECTIONS))? else { return Ok(rope_style) };
        /// The positions of time, height and width, which are equal in texts.
        const KNOWN: usize = 3;
        let size = |i: usize| usize::try_from(list.int(i)?).ok().filter(|n| *n <= limit::HEAD_DIM as usize);
        let sizes: Vec<usize> = (0..list.len().min(KNOWN + 2)).map_while(size).collect();
        let [time, height, width, _] = sizes[..] else {
            let found = format!("a list of {}", list.len());
            let expected = format!("it has to be four sizes of 0 to {}", limit::HEAD_DIM);
            return Err(self.bad(SECTIONS, found, expected));
        };
        let is_consecutive = rope_sections == RopeSections::Consecutive;
        let pairs = sizes.iter().sum::<usize>();
        // llama.cpp ignores consecutive sections without both of the first positions.
        if pairs == 0 || is_consecutive && (time == 0 || height == 0) {
            return Ok(rope_style);
        }
        let is_known = |pair: usize| match is_consecutive {
            true => pair < time + height + width,
            false => pair < KNOWN * [time, height, width][pair % KNOWN],
        };
        match (0..n_dims / 2).all(|pair| is_known(pair % pairs)) {
            true if is_consecutive => Ok(RopeStyle::Neox),
            true => Ok(rope_style),
            false => Err(self.unsupported(
                SECTIONS,
                format!("{sizes:?}"),
                format!(
                    "some of the {} pairs of elements have a position that texts do not have",
                    n_dims / 2
                ),
            )),
        }
    }

    fn rope_base(&self) -> Result<f32, LoadError> {
        self.float(BASE, 10_000.0, |b| b >= 1.0, "it has to be 1 or more")
    }

    fn rope_scaling(&self, n_ctx_train: usize) -> Result<RopeScaling, LoadError> {
        let kind = self.file.str(&self.full(TYPE))?.unwrap_or("linear");
        // `scale_linear` is an older name of the factor; 0 means no scaling.
        let key = if self.file.get(&self.full(FACTOR)).is_some() { FACTOR } else { SCALE_LINEAR };
        let factor = self.factor_or_zero(key, 1.0)?;
        let (least, most) = limit::FACTORS;
        let expected = format!("it has to be {least} to {most}");
        let positive = |key, default| self.float(key, default, |f| (least..=most).contains(&f), &expected);
        let attn_factor = positive(ATTN_FACTOR, 1.0)?;
        let yarn_attn_factor = self
            .file
            .get(&self.full(YARN_ATTN_FACTOR))
            .map(|_| positive(YARN_ATTN_FACTOR, 1.0))
            .transpose()?;
        let unit =
            |key, default| self.float(key, default, |f| (0.0..=1.0).contains(&f), "it has to be 0 to 1");
        let ext_factor = unit(YARN_EXT_FACTOR, if kind == "yarn" { 1.0 } else { 0.0 })?;
        if kind != "yarn" {
            // Programs differ in what these do to other scalings.
            for (key, value, neutral) in
                [(YARN_ATTN_FACTOR, yarn_attn_factor.unwrap_or(1.0), 1.0), (YARN_EXT_FACTOR, ext_factor, 0.0)]
            {
                if value != neutral {
                    return Err(self.unsupported(key, value, "the type of scaling is not yarn"));
                }
            }
        }
        let original_ctx = self.optional_size(ORIGINAL_CONTEXT, limit::TOKENS)?.unwrap_or(n_ctx_train);
        let is_long = self.has_tensor("rope_factors_long.weight");
        if self.arch.decl().long_rope.resolve(is_long) {
            return match kind {
                "longrope" | "linear" | "none" if factor == 1.0 => {
                    Ok(RopeScaling::Long { original_ctx, attn_factor })
                }
                _ => Err(self.unsupported(
                    TYPE,
                    Text(kind.as_bytes()),
                    "the file also has factors for RoPE's frequencies",
                )),
            };
        }
        if kind != "yarn" && attn_factor != 1.0 {
            return Err(self.unsupported(ATTN_FACTOR, attn_factor, "only YaRN scales attention"));
        }
        match kind {
            "none" => Ok(RopeScaling::None),
            "linear" if factor == 1.0 => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear { factor }),
            "yarn" if factor < 1.0 => Err(self.bad(key, factor, "YaRN stretches by 1 or more")),
            "yarn" => {
                let beta_fast = positive(YARN_BETA_FAST, 32.0)?;
                let beta_slow = positive(YARN_BETA_SLOW, 1.0)?;
                if beta_fast <= beta_slow {
                    return Err(self.bad(
                        YARN_BETA_FAST,
                        beta_fast,
                        format!("it has to be more than the slow beta {beta_slow}"),
                    ));
                }
                // Without the ramp ggml does not change magnitudes. A magnitude in the file replaces YaRN's own, which
                // ggml multiplies with.
                let divisor = match yarn_attn_factor {
                    _ if ext_factor == 0.0 => 1.0,
                    Some(_) => 1.0 + 0.1 * factor.ln(),
                    None => self.yarn_log_divisor(factor)?,
                };
                let attn_factor = attn_factor * yarn_attn_factor.unwrap_or(1.0) / divisor;
                let truncate = self.arch.decl().yarn_truncates;
                Ok(RopeScaling::Yarn {
                    factor,
                    original_ctx,
                    ext_factor,
                    attn_factor,
                    beta_fast,
                    beta_slow,
                    truncate,
                })
            }
            other => Err(self.unsupported(TYPE, Text(other.as_bytes()), "known are none, linear and yarn")),
        }
    }

    /// What YaRN's factor of magnitudes is divided by: 1 + 0.1 m ln(factor), with the file's multiplier m.
    fn yarn_log_divisor(&self, factor: f32) -> Result<f32, LoadError> {
        const KEY: &str = "rope.scaling.yarn_log_multiplier";
        let multiplier = match self.bound(KEY, None)? {
            // The attention scale has the multiplier, and rotated elements keep their magnitude.
            Some(_) if self.arch.decl().latent => 1.0,
            stated => stated.unwrap_or(0.0),
        };
        Ok(1.0 + 0.1 * multiplier * factor.ln())
    }
}
