//! Of which heads and rows ggml has attention by Metal, so that others are refused, or computed by the CPU, before weights are
//! loaded. Whatever else it lacks is found when the store is made.

use ggml::Type;
use models::spec::ModelSpec;

use crate::{EngineError, Hint};

/// The sizes of heads, up to those whose attention is computed by products.
const HEAD_DIMS: [usize; 11] = [32, 40, 48, 64, 72, 80, 96, 112, 128, 192, 256];

/// The size of a head that ggml has no attention for; `None` where it has for all heads of a model.
pub(crate) fn missing_head_dim(spec: &ModelSpec) -> Option<usize> {
    // Latent attention is computed by products.
    let dims = (0..spec.n_layers).filter(|_| spec.latent.is_none()).map(|layer| spec.kv_heads(layer).dim);
    dims.into_iter().find(|dim| !HEAD_DIMS.contains(dim) && *dim <= HEAD_DIMS[HEAD_DIMS.len() - 1])
}

/// The sizes of heads in words.
pub(crate) fn head_dims() -> String {
    HEAD_DIMS.map(|dim| dim.to_string()).join(", ")
}

/// Refuses types of keys and values.
///
/// # Errors
/// Where ggml has no attention for them.
pub(crate) fn check_types(spec: &ModelSpec, (k, v): (Type, Type)) -> Result<(), EngineError> {
    let reason = match (k, v) {
        (Type::IQ4_NL, _) | (_, Type::IQ4_NL) => "ggml decodes no rows of iq4_nl there",
        _ if k != v && spec.latent.is_none() => "ggml attends to keys and values of the same type there",
        _ => return Ok(()),
    };
    Err(EngineError::Setting {
        what: format!("keys of type {k} and values of type {v} by Metal"),
        reason: reason.into(),
        hint: Hint::CacheTypes(vec![Type::F16, Type::Q8_0]),
    })
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
        assert_eq!(missing_head_dim(&spec), None);
        for (dim, missing) in [(120, Some(120)), (256, None), (512, None)] {
            spec.head_dim = dim;
            assert_eq!(missing_head_dim(&spec), missing, "{dim}");
        }
    }

    #[test]
    fn types_without_attention_are_refused() {
        let spec = spec("llama-3.2-1b");
        for types in [(Type::F16, Type::F16), (Type::Q8_0, Type::Q8_0), (Type::Q4_0, Type::Q4_0)] {
            check_types(&spec, types).expect("has attention");
        }
        for (types, part) in [
            ((Type::IQ4_NL, Type::IQ4_NL), "iq4_nl"),
            ((Type::Q8_0, Type::IQ4_NL), "iq4_nl"),
            ((Type::Q8_0, Type::Q4_0), "same type"),
        ] {
            let error = check_types(&spec, types).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
