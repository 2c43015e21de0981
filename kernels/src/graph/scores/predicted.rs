//! Predicted scores: what a map says of new rows, by their keys and values.

use std::sync::Arc;

use ggml::{Context, CustomTask, DeviceTask, Tensor, Type};

use super::AccumulatingLane;
use crate::form::Operation;
use crate::graph::checks::{Check, check_inputs, is, is_heads};
use crate::graph::operands::{HeadsAt, LaneColumnAt, Node, Operands, TensorAt};
use crate::graph::{LaneInputs, Split, rows_after};
use crate::predict::{predicted_score, predictor_len};
use crate::{device, portable};

/// Writes the predicted scores of new rows ([`predict`](crate::predict)) to the accumulated numbers of some of a lane's
/// heads, behind the live rows. Other numbers stay. The lane's own rows are neither read nor written, so this runs before
/// or after [`Append`](crate::graph::Append). The result has no data.
pub struct PredictScores<'a> {
    /// `[d_k, n_kv_heads, n]` f32: keys before RoPE.
    pub k: &'a Tensor,
    /// `[d_v, n_kv_heads, n]` f32: values.
    pub v: &'a Tensor,
    /// `[predictor_len(d_k, d_v), n_kv_heads]` f32: the map of each KV head of the model.
    pub maps: &'a Tensor,
    /// The heads that get the scores.
    pub to: AccumulatingLane<'a>,
    /// The state of the layer's lanes.
    pub inputs: &'a LaneInputs,
}

impl Operation for PredictScores<'_> {
    const NAME: &'static str = "predict_scores";

    fn check(&self) -> Check {
        let PredictScores { k, v, maps, ref to, inputs } = *self;
        let ([d_k, kv_heads, new, _], d_v) = (k.shape().0, v.dim(0));
        is_heads("new keys", k, [d_k, kv_heads, new])?;
        is_heads("new values", v, [d_v, kv_heads, new])?;
        is("maps", maps, Type::F32, [predictor_len(d_k, d_v), kv_heads, 1, 1])?;
        to.check(kv_heads)?;
        check_inputs(inputs)
    }

    fn own(self, ctx: &Context, _: Split) -> Tensor {
        let PredictScores { k, v, maps, to, inputs } = self;
        let AccumulatingLane { lane, accumulated, number, heads } = to;
        let mut operands = Operands::default();
        let node = PredictScoresNode {
            k: operands.heads(k),
            v: operands.heads(v),
            maps: operands.heads(maps),
            live: operands.live_rows(inputs),
            scores: operands.write(accumulated),
            number,
            kv_heads: heads.iter().map(|head| lane.kv_heads[*head as usize]).collect(),
            heads,
        };
        operands.node(ctx, Type::F32, [1], node)
    }

    fn portable(self, ctx: &Context) -> Tensor {
        portable::predict_scores(ctx, self)
    }
}

/// The node of [`PredictScores`].
struct PredictScoresNode {
    /// `[d_k, n_kv_heads, n]`
    k: HeadsAt,
    /// `[d_v, n_kv_heads, n]`
    v: HeadsAt,
    /// `[predictor_len(d_k, d_v), n_kv_heads]`: vectors of one token.
    maps: HeadsAt,
    live: LaneColumnAt,
    /// `[capacity, heads of the lane]`
    scores: TensorAt,
    /// The lane's number in its layer.
    number: usize,
    /// The heads that get scores, by their numbers in the lane.
    heads: Arc<[u32]>,
    /// The KV heads of the model that these are.
    kv_heads: Vec<u32>,
}

impl Node for PredictScoresNode {
    fn on_cpu(&self, task: &CustomTask) {
        let (k, v, maps) = (self.k.read(task), self.v.read(task), self.maps.read(task));
        let scores = self.scores.of(task);
        let live = self.live.read(task)[self.number];
        if let Err(problem) = rows_after(live, k.tokens, scores.shape[0]) {
            return task.fail(format!("predict_scores: {problem}"));
        }
        // Neighbouring numbers are written by one thread, but for those at the ends.
        let items = k.tokens * self.heads.len();
        let first = |thread: usize| items * thread / task.threads;
        for item in first(task.thread)..first(task.thread + 1) {
            let (at, token) = (item / k.tokens, item % k.tokens);
            let (head, kv_head) = (self.heads[at] as usize, self.kv_heads[at] as usize);
            let (k, v, map) = (k.get(kv_head, token), v.get(kv_head, token), maps.get(kv_head, 0));
            let score = predicted_score(k, v, map);
            // SAFETY: f32 `[capacity, heads]`, which has the head (`check`) and the row (see above). Every (head, row) is
            // written by one thread.
            unsafe {
                let column = scores.data.add(head * scores.strides[1]).cast::<f32>();
                column.add(live as usize + token).write(score);
            }
        }
    }

    fn on_device(&self, task: &DeviceTask) -> Result<(), i32> {
        let (k, v, scores) = (self.k.on_device(task), self.v.on_device(task), self.scores.of(task));
        let call = device::PredictCall {
            k: k.data,
            v: v.data,
            k_head_stride: k.head_stride,
            k_token_stride: k.token_stride,
            v_head_stride: v.head_stride,
            v_token_stride: v.token_stride,
            maps: self.maps.of(task).data.cast(),
            live: self.live.address(task)?.wrapping_add(4 * self.number).cast(),
            scores: scores.data.cast(),
            k_elements: self.k.of(task).shape[0] as i32,
            v_elements: self.v.of(task).shape[0] as i32,
            tokens: k.tokens,
            capacity: scores.shape[0] as i32,
            heads: self.heads.len() as i32,
            unused: 0,
            tensor_heads: device::head_numbers(&self.heads)?,
            kv_heads: device::head_numbers(&self.kv_heads)?,
        };
        // SAFETY: the addresses are those of the operands, whose shapes are those of the call.
        unsafe { device::predict(task, &call) }
    }
}
