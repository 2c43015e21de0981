//! Reads how positions enter: RoPE with its scaling, ALiBi, and the scaling of queries by position.

use super::{Keys, ROPE_SECTIONS, limit};
use crate::arch::{ArchDecl, PositionScheme, Positions, RopeSections, RopeStyle};
use crate::error::{LoadError, Text};
use crate::spec::{AttentionTemperature, MAX_ALIBI_BIAS, PositionEncoding, RopeScaling};

impl Keys<'_> {
    /// The position encoding of a model with `n_layers` layers.
    pub(super) fn position_scheme(&self, n_layers: usize) -> Result<PositionScheme, LoadError> {
        let known = match self.arch.decl().positions {
            Positions::All(scheme) => return Ok(scheme),
            Positions::ByLayers(known) => known,
        };
        known.iter().find(|(layers, _)| *layers == n_layers).map(|(_, scheme)| *scheme).ok_or_else(|| {
            let layers: Vec<String> = known.iter().map(|(layers, _)| layers.to_string()).collect();
            self.unsupported(
                "block_count",
                n_layers,
                format!(
                    "the position encoding is only known for models with {} layers",
                    layers.join(" and ")
                ),
            )
        })
    }

    /// ALiBi, with the maximum bias of the file where the architecture has one.
    pub(super) fn alibi(&self) -> Result<PositionEncoding, LoadError> {
        const KEY: &str = "attention.max_alibi_bias";
        if !self.arch.decl().settings.contains(&KEY) {
            return Ok(PositionEncoding::Alibi { max_bias: MAX_ALIBI_BIAS });
        }
        self.file.required_f32(&self.full(KEY))?;
        let expected = format!("it has to be above 0, for ALiBi, and at most {}", limit::ALIBI_BIAS);
        let max_bias = self.float(KEY, 0.0, |bias| bias > 0.0 && bias <= limit::ALIBI_BIAS, &expected)?;
        Ok(PositionEncoding::Alibi { max_bias })
    }

    /// An error for Granite's switch of RoPE, which others ignore.
    pub(super) fn check_rope_switch(&self) -> Result<(), LoadError> {
        const KEY: &str = "rope.scaling.finetuned";
        match self.arch.decl().settings.contains(&KEY) && self.file.bool(&self.full(KEY))? == Some(false) {
            true => Err(self.unsupported(KEY, false, "it switches RoPE off")),
            false => Ok(()),
        }
    }

    pub(super) fn rope_dims(&self, head_dim: usize) -> Result<usize, LoadError> {
        const KEY: &str = "rope.dimension_count";
        let n_dims = self.optional_size(KEY, limit::HEAD_DIM)?.unwrap_or(head_dim);
        if n_dims > head_dim {
            return Err(self.bad(KEY, n_dims, format!("a head has only {head_dim} elements")));
        }
        let decl = self.arch.decl();
        if n_dims < head_dim && !decl.partial_rotary && !decl.latent {
            return Err(self.unsupported(
                KEY,
                n_dims,
                format!("RoPE rotates all {head_dim} elements of a head in this architecture"),
            ));
        }
        if !n_dims.is_multiple_of(2) {
            return Err(self.bad(KEY, n_dims, "RoPE rotates pairs of elements"));
        }
        Ok(n_dims)
    }

    /// Which elements RoPE rotates as a pair, of the first `n_dims` ones. An error if the file has sections of RoPE, and
    /// one of them has a position that texts do not have.
    pub(super) fn rope_style(&self, n_dims: usize) -> Result<RopeStyle, LoadError> {
        let ArchDecl { rope_style, rope_sections, .. } = *self.arch.decl();
        if matches!(rope_sections, RopeSections::Refused | RopeSections::Ignored) {
            return Ok(rope_style);
        }
        let Some(list) = self.file.ints(&self.full(ROPE_SECTIONS))? else { return Ok(rope_style) };
        /// The positions of time, height and width, which are equal in texts.
        const KNOWN: usize = 3;
        let size = |i: usize| usize::try_from(list.int(i)?).ok().filter(|n| *n <= limit::HEAD_DIM as usize);
        let sizes: Vec<usize> = (0..list.len().min(KNOWN + 2)).map_while(size).collect();
        let [time, height, width, _] = sizes[..] else {
            let found = format!("a list of {}", list.len());
            let expected = format!("it has to be four sizes of 0 to {}", limit::HEAD_DIM);
            return Err(self.bad(ROPE_SECTIONS, found, expected));
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
                ROPE_SECTIONS,
                format!("{sizes:?}"),
                format!(
                    "some of the {} pairs of elements have a position that texts do not have",
                    n_dims / 2
                ),
            )),
        }
    }

    pub(super) fn rope_base(&self) -> Result<f32, LoadError> {
        self.float("rope.freq_base", 10_000.0, |b| b >= 1.0, "it has to be 1 or more")
    }

    pub(super) fn rope_scaling(&self, n_ctx_train: usize) -> Result<RopeScaling, LoadError> {
        const FACTOR: &str = "rope.scaling.factor";
        const ATTN: &str = "rope.scaling.attn_factor";
        const YARN_EXT: &str = "rope.scaling.yarn_ext_factor";
        const YARN_ATTN: &str = "rope.scaling.yarn_attn_factor";
        let kind = self.file.str(&self.full("rope.scaling.type"))?.unwrap_or("linear");
        // `scale_linear` is an older name of the factor; 0 means no scaling.
        let key = if self.file.get(&self.full(FACTOR)).is_some() { FACTOR } else { "rope.scale_linear" };
        let factor = self.factor_or_zero(key, 1.0)?;
        let (least, most) = limit::FACTORS;
        let expected = format!("it has to be {least} to {most}");
        let positive = |key, default| self.float(key, default, |f| (least..=most).contains(&f), &expected);
        let attn_factor = positive(ATTN, 1.0)?;
        let yarn_attn_factor =
            self.file.get(&self.full(YARN_ATTN)).map(|_| positive(YARN_ATTN, 1.0)).transpose()?;
        let unit =
            |key, default| self.float(key, default, |f| (0.0..=1.0).contains(&f), "it has to be 0 to 1");
        let ext_factor = unit(YARN_EXT, if kind == "yarn" { 1.0 } else { 0.0 })?;
        if kind != "yarn" {
            // Programs differ in what these do to other scalings.
            for (key, value, neutral) in
                [(YARN_ATTN, yarn_attn_factor.unwrap_or(1.0), 1.0), (YARN_EXT, ext_factor, 0.0)]
            {
                if value != neutral {
                    return Err(self.unsupported(key, value, "the type of scaling is not yarn"));
                }
            }
        }
        let original_ctx =
            self.optional_size("rope.scaling.original_context_length", limit::TOKENS)?.unwrap_or(n_ctx_train);
        let is_long = self.file.tensor("rope_factors_long.weight").is_some();
        if self.arch.decl().long_rope.resolve(is_long) {
            return match kind {
                "longrope" | "linear" | "none" if factor == 1.0 => {
                    Ok(RopeScaling::Long { original_ctx, attn_factor })
                }
                _ => Err(self.unsupported(
                    "rope.scaling.type",
                    Text(kind.as_bytes()),
                    "the file also has factors for RoPE's frequencies",
                )),
            };
        }
        if kind != "yarn" && attn_factor != 1.0 {
            return Err(self.unsupported(ATTN, attn_factor, "only YaRN scales attention"));
        }
        match kind {
            "none" => Ok(RopeScaling::None),
            "linear" if factor == 1.0 => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear { factor }),
            "yarn" if factor < 1.0 => Err(self.bad(key, factor, "YaRN stretches by 1 or more")),
            "yarn" => {
                let beta_fast = positive("rope.scaling.yarn_beta_fast", 32.0)?;
                let beta_slow = positive("rope.scaling.yarn_beta_slow", 1.0)?;
                if beta_fast <= beta_slow {
                    return Err(self.bad(
                        "rope.scaling.yarn_beta_fast",
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
            other => Err(self.unsupported(
                "rope.scaling.type",
                Text(other.as_bytes()),
                "known are none, linear and yarn",
            )),
        }
    }

    /// How queries are scaled by position. Without a length in the file it is the context of the original training.
    pub(super) fn temperature(
        &self,
        encoding: &PositionEncoding,
        n_ctx_train: usize,
    ) -> Result<Option<AttentionTemperature>, LoadError> {
        const LENGTH: &str = "attention.temperature_length";
        let Some(scale) = self.bound("attention.temperature_scale", None)? else { return Ok(None) };
        let original_ctx = match encoding.rope().map(|rope| rope.scaling) {
            Some(RopeScaling::Yarn { original_ctx, .. }) => original_ctx,
            _ => n_ctx_train,
        };
        let length = self.optional_size(LENGTH, limit::TOKENS)?.unwrap_or(original_ctx);
        Ok(Some(AttentionTemperature { scale, length }))
    }

    /// What YaRN's factor of magnitudes is divided by: 1 + 0.1 m ln(factor), with the file's multiplier m.
    pub(super) fn yarn_log_divisor(&self, factor: f32) -> Result<f32, LoadError> {
        const KEY: &str = "rope.scaling.yarn_log_multiplier";
        let multiplier = match self.bound(KEY, None)? {
            // The attention scale has the multiplier, and rotated elements keep their magnitude.
            Some(_) if self.arch.decl().latent => 1.0,
            stated => stated.unwrap_or(0.0),
        };
        Ok(1.0 + 0.1 * multiplier * factor.ln())
    }
}
