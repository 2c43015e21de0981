//! Random rows instead of a text, for measuring.

use std::time::{Duration, Instant};

use ggml::Tensor;
use kernels::graph::GraphLane;
use models::random::Random;

use crate::compute::scratch::Scratch;
use crate::{EngineError, Session};

impl Session {
    /// Puts the session into the state in which a text of `n` tokens has been read, with random keys, values
    /// and queries. This is for measuring compression and decoding at a depth without the cost of reading.
    /// The tokens are all zero. After an error the session is empty.
    pub fn fill_random(&mut self, n: usize, seed: u64) -> Result<(), EngineError> {
        if n > self.options.context {
            return Err(EngineError::ContextFull { needed: n, context: self.options.context });
        }
        self.clear()?;
        let filled = self.fill_layers(n, seed);
        if filled.is_err() {
            // If this fails too, the session is empty, and the first error is the one to report.
            let _ = self.clear();
        }
        filled
    }

    fn fill_layers(&mut self, n: usize, seed: u64) -> Result<(), EngineError> {
        let (engine, mut random) = (self.engine.clone(), Random(seed));
        let spec = engine.spec();
        let scratch = Scratch::new(spec, &[self.store.layout()], n, &engine.backends, |_| true)?;
        // Most layers have the same memory, which is filled once.
        let mut filled: Vec<Tensor> = Vec::new();
        self.compressing = Duration::ZERO;
        for layer in 0..spec.n_layers {
            let [lane] = scratch.lanes(layer) else { continue };
            if !filled.iter().any(|keys| keys.is_same(&lane.k)) {
                fill_lane(lane, &mut random)?;
                filled.push(lane.k.clone());
            }
            if let Some(queries) = self.store.prefill_recorder(layer, lane).queries {
                let values: Vec<f32> = (0..queries.shape().elements()).map(|_| random.normal()).collect();
                queries.write(0, &values)?;
            }
            let started = Instant::now();
            self.store.fill_layer(layer, lane, n, &engine.backends, &mut self.workspace)?;
            self.compressing += started.elapsed();
        }
        self.store.finish_exact(n);
        self.tokens = vec![0; n];
        self.store.begin_turn(&[])
    }
}

/// Fills a lane with random rows and, where it accumulates attention, with random numbers.
fn fill_lane(lane: &GraphLane, random: &mut Random) -> Result<(), EngineError> {
    lane.tensors().try_for_each(|tensor| random_rows(tensor, random))?;
    if let Some(accumulated) = &lane.accumulated {
        let values: Vec<f32> = (0..accumulated.shape().elements()).map(|_| random.unit() as f32).collect();
        accumulated.write(0, &values)?;
    }
    Ok(())
}

/// Fills a tensor of rows `[head_dim, rows, heads]` with a block of random ones, again and again.
fn random_rows(tensor: &Tensor, random: &mut Random) -> Result<(), EngineError> {
    const ROWS: usize = 512;
    let Some(ty) = kernels::graph::row_type(tensor.ty()) else { return Ok(()) };
    let (d, [_, row_bytes, head_bytes, _]) = (tensor.dim(0), tensor.strides());
    let mut rows = vec![0u8; ROWS * row_bytes];
    for row in rows.chunks_exact_mut(row_bytes) {
        let values: Vec<f32> = (0..d).map(|_| random.normal()).collect();
        ty.encode(&values, row);
    }
    for head in 0..tensor.dim(2) {
        for first in (0..tensor.dim(1)).step_by(ROWS) {
            let bytes = ROWS.min(tensor.dim(1) - first) * row_bytes;
            tensor.write(head * head_bytes + first * row_bytes, &rows[..bytes])?;
        }
    }
    Ok(())
}
