//! Softmax, and attention in one operation.

use ggml_sys as sys;

use super::is_activation;
use crate::{Context, Shape, Tensor, Type};

/// What [`Context::flash_attention`] does with logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logits {
    /// Factor of q·k.
    pub scale: f32,
    /// The soft cap c, above 0: a logit x becomes c * tanh(x / c) before the mask is added.
    pub softcap: Option<f32>,
}

/// Whether `sink_logits` has a number for each head.
fn are_sink_logits(sink_logits: &Tensor, heads: usize) -> bool {
    is_activation(sink_logits) && sink_logits.is_contiguous() && sink_logits.shape() == Shape::from([heads])
}

impl Context {
    /// softmax(a · scale + mask) along the first dimension; `mask` [n_kv, n_q] is f16 or f32.
    pub fn soft_max(&self, a: &Tensor, mask: Option<&Tensor>, scale: f32) -> Tensor {
        let fits = is_activation(a)
            && a.is_contiguous()
            && mask.is_none_or(|m| {
                m.dim(0) == a.dim(0)
                    && m.dim(1) >= a.dim(1)
                    && a.dim(2).is_multiple_of(m.dim(2))
                    && a.dim(3).is_multiple_of(m.dim(3))
                    && m.has_dense_rows()
                    && m.is_contiguous()
                    && matches!(m.ty(), Type::F16 | Type::F32)
            });
        let mut inputs = vec![a];
        inputs.extend(mask);
        self.op("soft_max", &inputs, fits, |raw| {
            let mask = mask.map_or(std::ptr::null_mut(), |m| m.raw.as_ptr());
            // SAFETY: live operands, shapes checked; a null mask means none.
            unsafe { sys::ggml_soft_max_ext(raw, a.raw.as_ptr(), mask, scale, 0.0) }
        })
    }

    /// As [`Context::soft_max`] of `a` `[n_kv, n_q, heads]`. Each head's sum also has e to the power of its element of
    /// `sink_logits` `[heads]`, so that the results sum to less than 1.
    pub fn soft_max_with_sink_logits(
        &self,
        a: &Tensor,
        mask: &Tensor,
        scale: f32,
        sink_logits: Option<&Tensor>,
    ) -> Tensor {
        let weights = self.soft_max(a, Some(mask), scale);
        let Some(sink_logits) = sink_logits else { return weights };
        let view = self.sink_logits("soft_max_with_sink_logits", sink_logits, a.dim(2));
        if self.check().is_err() {
            return weights;
        }
        // SAFETY: a softmax that was just recorded, and a vector with an element for each of its heads.
        weights.change(|raw| unsafe { sys::ggml_soft_max_add_sinks(raw, view.raw.as_ptr()) })
    }

    /// A view of sink logits, one for each head. It keeps them alive, and makes the operation known where they are used.
    fn sink_logits(&self, op: &'static str, sink_logits: &Tensor, heads: usize) -> Tensor {
        self.op(op, &[sink_logits], are_sink_logits(sink_logits, heads), |raw| {
            // SAFETY: all of a live operand, which is computed first.
            unsafe { sys::ggml_view_1d(raw, sink_logits.raw.as_ptr(), heads as i64, 0) }
        })
    }

    /// softmax(logits + mask) · v of queries `q` `[d, n_q, heads]` (f32) over rows `k` `[d, rows, kv_heads]` and `v` `[e,
    /// rows, kv_heads]`, in f32 where the device can choose. Query head h reads KV head h / (heads / kv_heads). `mask`
    /// `[rows, n_q]` is f16; rows where it is `-inf` are hidden. A sink logit `[heads]` adds e to its power to the sum of a
    /// head's weights. Gives `[e, heads, n_q]`.
    pub fn flash_attention(
        &self,
        q: &Tensor,
        [k, v]: [&Tensor; 2],
        mask: &Tensor,
        logits: Logits,
        sink_logits: Option<&Tensor>,
    ) -> Tensor {
        let ([d, n_q, heads, outer], [_, rows, kv_heads, _]) = (q.shape().0, k.shape().0);
        let are_rows = |a: &Tensor| {
            let ty = a.ty();
            // As many bytes from row to row as there are, at least: the queries of a head are converted once.
            a.has_dense_rows() && ty.has_products() && ty.has_rows() && a.strides()[1] >= a.strides()[0]
        };
        let fits = outer == 1
            && is_activation(q)
            && are_rows(k)
            && are_rows(v)
            && k.shape() == Shape::from([d, rows, kv_heads])
            && v.shape() == Shape::from([v.dim(0), rows, kv_heads])
            && heads.is_multiple_of(kv_heads)
            && mask.ty() == Type::F16
            && mask.is_contiguous()
            && mask.has_dense_rows()
            && mask.shape() == Shape::from([rows, n_q])
            && logits.scale.is_finite()
            && logits.softcap.is_none_or(|cap| cap > 0.0 && cap.is_finite());
        let sink_logits =
            sink_logits.map(|sink_logits| self.sink_logits("flash_attention", sink_logits, heads));
        let attended = self.op("flash_attention", &[q, k, v, mask], fits, |raw| {
            let [q, k, v, mask] = [q, k, v, mask].map(|a| a.raw.as_ptr());
            let cap = logits.softcap.unwrap_or(0.0);
            // SAFETY: live operands, shapes checked.
            unsafe { sys::ggml_flash_attn_ext(raw, q, k, v, mask, logits.scale, 0.0, cap) }
        });
        if self.check().is_err() {
            return attended;
        }
        attended.change(|raw| {
            // SAFETY: an attention that was just recorded, and a vector with an element for each of its heads.
            unsafe {
                sys::ggml_flash_attn_ext_set_prec(raw, sys::GGML_PREC_F32);
                if let Some(sink_logits) = &sink_logits {
                    sys::ggml_flash_attn_ext_add_sinks(raw, sink_logits.raw.as_ptr());
                }
            }
        })
    }
}
