//! Of which heads and rows some of ggml's backends have attention, so that others are refused, or computed by the CPU, before weights
//! are loaded. Whatever else they lack is found when the store is made, as is all that other backends lack.

use ggml::Type;
use models::spec::ModelSpec;

use crate::{DeviceKind, EngineError, Hint};

/// What attention a backend has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceAttention {
    /// The backend, as messages name it.
    pub(crate) backend: &'static str,
    /// The sizes of heads, up to those whose attention is computed by products.
    head_dims: &'static [usize],
    /// The same of models whose logits are capped.
    capped_head_dims: &'static [usize],
    /// Whether it copies rows of other types than f16 in f16 before it attends to them.
    copies_rows: bool,
}

const HIP: DeviceAttention = DeviceAttention {
    backend: "HIP",
    head_dims: &[40, 64, 72, 80, 96, 112, 128, 256],
    capped_head_dims: &[128, 256],
    copies_rows: true,
};
const METAL_HEAD_DIMS: &[usize] = &[32, 40, 48, 64, 72, 80, 96, 112, 128, 192, 256];
const METAL: DeviceAttention = DeviceAttention {
    backend: "Metal",
    head_dims: METAL_HEAD_DIMS,
    capped_head_dims: METAL_HEAD_DIMS,
    copies_rows: false,
};

impl DeviceAttention {
    /// What attention a device has; `None` where that is only known when the store is made.
    pub(crate) fn of(device: DeviceKind) -> Option<DeviceAttention> {
        match device {
            DeviceKind::Hip(_) => Some(HIP),
            DeviceKind::Metal(_) => Some(METAL),
            _ => None,
        }
    }

    /// The size of a head that it lacks; `None` where it has all heads of a model.
    pub(crate) fn missing_head_dim(self, spec: &ModelSpec) -> Option<usize> {
        let head_dims = self.dims(spec);
        let largest = head_dims.last().copied().unwrap_or(0);
        // Latent attention is computed by products.
        let dims = (0..spec.n_layers).filter(|_| spec.latent.is_none()).map(|layer| spec.kv_heads(layer).dim);
        dims.into_iter().find(|dim| !head_dims.contains(dim) && *dim <= largest)
    }

    fn dims(self, spec: &ModelSpec) -> &'static [usize] {
        if spec.attention.softcap.is_some() { self.capped_head_dims } else { self.head_dims }
    }

    /// The sizes of heads that it has for a model, in words.
    pub(crate) fn head_dims(self, spec: &ModelSpec) -> String {
        self.dims(spec).iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Refuses types of keys and values.
    ///
    /// # Errors
    /// Where ggml has no attention for them, or takes memory for them that no plan counts.
    pub(crate) fn check_types(self, spec: &ModelSpec, (k, v): (Type, Type)) -> Result<(), EngineError> {
        let (reason, others) = match (k, v) {
            (Type::F16, Type::F16) => return Ok(()),
            _ if self.copies_rows => (
                "ggml copies rows of other types in f16 there, for which no memory is planned",
                vec![Type::F16],
            ),
            (Type::IQ4_NL, _) | (_, Type::IQ4_NL) => {
                ("ggml decodes no rows of iq4_nl there", vec![Type::F16, Type::Q8_0])
            }
            _ if k != v && spec.latent.is_none() => {
                ("ggml attends to keys and values of the same type there", vec![Type::F16, Type::Q8_0])
            }
            _ => return Ok(()),
        };
        Err(EngineError::Setting {
            what: format!("keys of type {k} and values of type {v} by {}", self.backend),
            reason: reason.into(),
            hint: Hint::CacheTypes(others),
        })
    }
}

#[cfg(test)]
mod tests {
    use models::shapes::ModelShape;

    use super::*;

    fn spec(name: &str) -> ModelSpec {
        ModelShape::find(name).expect("a shape").spec()
    }

    #[test]
    fn heads_without_attention_are_found() {
        let mut spec = spec("llama-3.2-1b");
        for attention in [HIP, METAL] {
            assert_eq!(attention.missing_head_dim(&spec), None);
        }
        for (dim, by_metal, by_hip) in [
            (120, Some(120), Some(120)),
            (192, None, Some(192)),
            (32, None, Some(32)),
            (256, None, None),
            (512, None, None),
        ] {
            spec.head_dim = dim;
            let missing = [METAL, HIP].map(|attention| attention.missing_head_dim(&spec));
            assert_eq!(missing, [by_metal, by_hip], "{dim}");
        }
        (spec.head_dim, spec.attention.softcap) = (64, Some(50.0));
        assert_eq!([METAL, HIP].map(|attention| attention.missing_head_dim(&spec)), [None, Some(64)]);
    }

    #[test]
    fn types_without_attention_are_refused() {
        let spec = spec("llama-3.2-1b");
        for types in [(Type::F16, Type::F16), (Type::Q8_0, Type::Q8_0), (Type::Q4_0, Type::Q4_0)] {
            METAL.check_types(&spec, types).expect("has attention");
        }
        HIP.check_types(&spec, (Type::F16, Type::F16)).expect("has attention");
        for (attention, types, part) in [
            (METAL, (Type::IQ4_NL, Type::IQ4_NL), "iq4_nl"),
            (METAL, (Type::Q8_0, Type::IQ4_NL), "iq4_nl"),
            (METAL, (Type::Q8_0, Type::Q4_0), "same type"),
            (HIP, (Type::Q8_0, Type::Q8_0), "by HIP: ggml copies rows"),
            (HIP, (Type::F16, Type::IQ4_NL), "copies rows"),
        ] {
            let error = attention.check_types(&spec, types).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
