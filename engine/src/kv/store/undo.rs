//! Undoing a turn. From the beginning of a turn on, evicted rows are saved with the row numbers they had.
//! Going back undoes the evictions in reverse order and restores what was accumulated and summed, so that the
//! store is again what it was, bit for bit. At most [`UNDO_ROWS_PER_HEAD`] rows of a head are saved; a turn
//! that evicts more cannot be undone this way.

use std::sync::Arc;

use ggml::Tensor;
use kernels::rows::Moves;

use super::{Lane, LaneId, LaneState, Store};
use crate::EngineError;
use crate::kv::UNDO_ROWS_PER_HEAD;
use crate::kv::policy::AttentionNeeds;

/// Up to this number of rows of a head is copied row by row. More rows are copied together with all rows of
/// the head, because every read and write of a device waits for a transfer.
const MAX_SINGLE_ROW_COPIES: usize = 16;

/// What is needed to go back.
#[derive(Default)]
pub(super) struct Undo {
    checkpoints: Vec<Checkpoint>,
    evictions: Vec<EvictedRows>,
}

/// A state of the store to which one can go back.
struct Checkpoint {
    seen: usize,
    /// `[layers][lanes]`
    lanes: Vec<Vec<LaneCheckpoint>>,
    /// `[layers]`: the stored queries.
    queries: Vec<Vec<f32>>,
    /// How many evictions there had been.
    evictions: usize,
}

/// The state of a lane that evictions in reverse order do not restore.
struct LaneCheckpoint {
    state: LaneState,
    sums: Vec<f32>,
    accumulated: Vec<f32>,
    /// The compensation entry's rows, K then V of every head.
    entries: Vec<u8>,
}

/// Rows of one lane that were evicted together.
pub(super) struct EvictedRows {
    pub id: LaneId,
    /// Rows in use after the eviction.
    pub live: usize,
    /// For each head the evicted rows.
    pub evicted: Vec<Vec<u32>>,
    /// For each head how the holes were filled.
    pub moves: Vec<Moves>,
    /// The bytes of the evicted rows: K of every head, then V.
    pub rows: Vec<u8>,
    /// For each head the positions of the evicted rows.
    pub positions: Vec<Vec<u32>>,
}

impl EvictedRows {
    /// Evicted rows of each head.
    fn count(&self) -> usize {
        self.evicted.first().map_or(0, Vec::len)
    }
}

impl Undo {
    /// Whether `count` rows that are about to be evicted from each head of a lane must be saved. If they are
    /// too many, no row of this turn can be restored any more.
    pub(super) fn must_save(&mut self, id: LaneId, count: usize) -> bool {
        if self.checkpoints.is_empty() {
            return false;
        }
        let before: usize =
            self.evictions.iter().filter(|eviction| eviction.id == id).map(EvictedRows::count).sum();
        let fits = before + count <= UNDO_ROWS_PER_HEAD;
        if !fits {
            *self = Undo::default();
        }
        fits
    }

    /// Saves evicted rows, unless other lanes have evicted too many meanwhile.
    pub(super) fn save(&mut self, rows: EvictedRows) {
        if !self.checkpoints.is_empty() {
            self.evictions.push(rows);
        }
    }
}

impl Store {
    /// Begins a turn with a checkpoint: earlier turns cannot be undone any more.
    pub fn begin_turn(&mut self) -> Result<(), EngineError> {
        self.undo = Undo::default();
        self.add_checkpoint()
    }

    /// Adds a checkpoint to the turn, so that one can go back to the present state.
    pub fn add_checkpoint(&mut self) -> Result<(), EngineError> {
        let of_lane = |lane: &Lane| -> Result<LaneCheckpoint, EngineError> {
            let mut entries = Vec::new();
            if lane.layout.compensated {
                for tensor in [&lane.graph.k, &lane.graph.v] {
                    let [_, row, head, _] = tensor.strides();
                    for number in 0..lane.layout.kv_heads.len() {
                        let at = entries.len();
                        entries.resize(at + row, 0);
                        tensor.read(number * head, &mut entries[at..])?;
                    }
                }
            }
            Ok(LaneCheckpoint {
                state: lane.state,
                sums: lane.sums.as_ref().map_or(Ok(Vec::new()), Tensor::to_vec)?,
                accumulated: lane.graph.accumulated.as_ref().map_or(Ok(Vec::new()), Tensor::to_vec)?,
                entries,
            })
        };
        let lanes = (self.layers.iter())
            .map(|layer| layer.lanes.iter().map(of_lane).collect::<Result<_, _>>())
            .collect::<Result<_, _>>()?;
        let queries = (self.layers.iter())
            .map(|layer| layer.queries.as_ref().map_or(Ok(Vec::new()), Tensor::to_vec))
            .collect::<Result<_, _>>()?;
        let evictions = self.undo.evictions.len();
        self.undo.checkpoints.push(Checkpoint { seen: self.seen, lanes, queries, evictions });
        Ok(())
    }

    /// The latest checkpoint at which at most `seen` tokens had been seen, as the number of tokens seen at
    /// it.
    pub fn latest_checkpoint(&self, seen: usize) -> Option<usize> {
        let checkpoints = self.undo.checkpoints.iter().rev();
        checkpoints.map(|checkpoint| checkpoint.seen).find(|at| *at <= seen)
    }

    /// Goes back to [`Store::latest_checkpoint`] and removes later checkpoints. Does nothing where there is
    /// none. After an error the store is empty.
    pub fn rewind(&mut self, seen: usize) -> Result<(), EngineError> {
        let found = self.undo.checkpoints.iter().rposition(|checkpoint| checkpoint.seen <= seen);
        let Some(number) = found else { return Ok(()) };
        let result = self.rewind_to(number);
        if result.is_err() {
            self.clear()?;
        }
        result
    }

    fn rewind_to(&mut self, number: usize) -> Result<(), EngineError> {
        self.undo.checkpoints.truncate(number + 1);
        let Some(checkpoint) = self.undo.checkpoints.last() else { return Ok(()) };
        for evicted in self.undo.evictions.drain(checkpoint.evictions..).rev() {
            let LaneId { layer, lane } = evicted.id;
            self.layers[layer].lanes[lane].restore_rows(&evicted)?;
        }
        for (layer, (saved, queries)) in
            self.layers.iter_mut().zip(checkpoint.lanes.iter().zip(&checkpoint.queries))
        {
            for (lane, saved) in layer.lanes.iter_mut().zip(saved) {
                lane.restore(saved)?;
            }
            if let Some(tensor) = &layer.queries {
                tensor.write(0, queries)?;
            }
        }
        self.seen = checkpoint.seen;
        Ok(())
    }

    /// Whether all tokens from position `seen` on can be removed from the end: no rows have been evicted
    /// since, and no policy records attention.
    pub fn can_truncate(&self, seen: usize) -> bool {
        let records = |lane: &Lane| lane.layout.needs() != AttentionNeeds::default();
        self.lanes().all(|lane| lane.state.last_eviction_at <= seen && (seen == self.seen || !records(lane)))
    }

    /// Removes all tokens from position `seen` on from the end; only if [`Store::can_truncate`].
    pub fn truncate(&mut self, seen: usize) {
        let removed = self.seen - seen;
        for lane in self.lanes_mut() {
            let state = &mut lane.state;
            state.live -= removed;
            state.scanned_until = state.scanned_until.min(seen);
            state.prompt_rows_kept = state.prompt_rows_kept.min(seen);
            for head in &mut lane.positions {
                let left = head.len() - removed;
                Arc::make_mut(head).truncate(left);
            }
        }
        self.seen = seen;
        self.undo.checkpoints.retain(|checkpoint| checkpoint.seen <= seen);
    }
}

impl Lane {
    /// Puts evicted rows back where they were.
    fn restore_rows(&mut self, evicted: &EvictedRows) -> Result<(), EngineError> {
        let (first, count) = (self.first(), evicted.count());
        let live = evicted.live + count;
        let k_bytes = evicted.evicted.len() * count * self.graph.k.strides()[1];
        let (k_rows, v_rows) = evicted.rows.split_at(k_bytes);
        self.state.live = live;
        for (number, head) in self.positions.iter_mut().map(Arc::make_mut).enumerate() {
            let (rows, moves) = (&evicted.evicted[number], &evicted.moves[number]);
            // Rows written since are overwritten; rows that were moved into holes go back to the end.
            head.resize(live - first, 0);
            for (to, from) in moves {
                head[*from as usize - first] = head[*to as usize - first];
            }
            for (row, position) in rows.iter().zip(&evicted.positions[number]) {
                head[*row as usize - first] = *position;
            }
            for (tensor, bytes) in [(&self.graph.k, k_rows), (&self.graph.v, v_rows)] {
                let [_, row_bytes, head_bytes, _] = tensor.strides();
                let bytes = bytes[number * count * row_bytes..][..count * row_bytes].chunks_exact(row_bytes);
                if moves.len() + count > MAX_SINGLE_ROW_COPIES {
                    let mut all = vec![0u8; live * row_bytes];
                    tensor.read(number * head_bytes, &mut all)?;
                    for (to, from) in moves {
                        let to = *to as usize * row_bytes;
                        all.copy_within(to..to + row_bytes, *from as usize * row_bytes);
                    }
                    for (row, bytes) in rows.iter().zip(bytes) {
                        all[*row as usize * row_bytes..][..row_bytes].copy_from_slice(bytes);
                    }
                    tensor.write(number * head_bytes, &all)?;
                    continue;
                }
                let at = |row: u32| number * head_bytes + row as usize * row_bytes;
                let mut moved = vec![0u8; row_bytes];
                for (to, from) in moves {
                    tensor.read(at(*to), &mut moved)?;
                    tensor.write(at(*from), &moved)?;
                }
                for (row, bytes) in rows.iter().zip(bytes) {
                    tensor.write(at(*row), bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Restores the state of a checkpoint, when all rows are back.
    fn restore(&mut self, saved: &LaneCheckpoint) -> Result<(), EngineError> {
        self.state = saved.state;
        let tokens = self.tokens();
        self.positions.iter_mut().for_each(|head| Arc::make_mut(head).truncate(tokens));
        if let Some(sums) = &self.sums {
            sums.write(0, &saved.sums)?;
        }
        if let Some(accumulated) = &self.graph.accumulated {
            accumulated.write(0, &saved.accumulated)?;
        }
        self.write_positions()?;
        if self.layout.compensated {
            let mut entries = saved.entries.as_slice();
            for tensor in [&self.graph.k, &self.graph.v] {
                let [_, row, head, _] = tensor.strides();
                for number in 0..self.layout.kv_heads.len() {
                    let (entry, rest) = entries.split_at(row);
                    tensor.write(number * head, entry)?;
                    entries = rest;
                }
            }
        }
        Ok(())
    }
}
