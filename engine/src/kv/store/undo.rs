//! Going back: undoing a turn, and taking back a computation that failed.
//!
//! From the beginning of a turn on, evicted rows are saved with the row numbers they had. Going back undoes
//! the evictions in reverse order and restores what was accumulated and summed, so that the store is again
//! what it was, bit for bit. At most [`UNDO_ROWS_PER_HEAD`] rows of a head are saved; a turn that evicts more
//! cannot be undone this way.
//!
//! A chunk is computed in an *attempt*. A computation that stops in the middle has written only behind the
//! live rows, but it has changed accumulated attention, stored queries and the states of recurrent layers in
//! place, so these are copied before. Rows that were evicted to make room are put back too.

use std::sync::Arc;

use ggml::Tensor;
use kernels::rows::Moves;

use super::{Lane, LaneId, LaneState, Store};
use crate::EngineError;
use crate::kv::policy::AccumulatedAttention;
use crate::kv::{StateTensors, UNDO_ROWS_PER_HEAD};

/// Up to this number of rows of a head is copied row by row. More rows are copied together with all rows of
/// the head, because every read and write of a device waits for a transfer.
const MAX_SINGLE_ROW_COPIES: usize = 16;

/// What is needed to go back.
#[derive(Default)]
pub(super) struct Undo {
    checkpoints: Vec<Checkpoint>,
    /// Since the first checkpoint, but for those of the attempt.
    evictions: Vec<EvictedRows>,
    attempt: Option<Attempt>,
}

/// A computation that has not succeeded yet.
struct Attempt {
    before: Checkpoint,
    begins_turn: bool,
    evictions: Vec<EvictedRows>,
}

/// A state of the store to which one can go back.
struct Checkpoint {
    seen: usize,
    /// `[n_vocab]`: the logits of what follows; empty where they are not known.
    logits: Vec<f32>,
    /// `[layers][lanes]`
    lanes: Vec<Vec<LaneCheckpoint>>,
    /// `[layers]`: the stored queries.
    queries: Vec<Vec<f32>>,
    /// `[layers]`: the states of recurrent layers.
    states: Vec<Option<[Vec<f32>; 2]>>,
    /// How many evictions of the turn there had been.
    evictions: usize,
}

/// The state of a lane that evictions in reverse order do not restore.
struct LaneCheckpoint {
    state: LaneState,
    accumulated: Vec<f32>,
    /// `None` where the lane has none, or no row is evicted before the checkpoint is dropped.
    compensation: Option<Compensation>,
}

/// What stands for the evicted rows of a lane.
struct Compensation {
    sums: Vec<f32>,
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
    /// too many, the turn cannot be undone any more.
    pub(super) fn must_save(&mut self, id: LaneId, count: usize) -> bool {
        let of_attempt = self.attempt.iter().flat_map(|attempt| &attempt.evictions);
        let saved = self.evictions.iter().chain(of_attempt).filter(|eviction| eviction.id == id);
        if saved.map(EvictedRows::count).sum::<usize>() + count > UNDO_ROWS_PER_HEAD {
            self.forget_turn();
        }
        self.attempt.is_some() || !self.checkpoints.is_empty()
    }

    /// Saves evicted rows, unless other lanes have evicted too many meanwhile.
    pub(super) fn save(&mut self, rows: EvictedRows) {
        match &mut self.attempt {
            Some(attempt) => attempt.evictions.push(rows),
            None if self.checkpoints.is_empty() => {}
            None => self.evictions.push(rows),
        }
    }

    fn forget_turn(&mut self) {
        self.checkpoints.clear();
        self.evictions.clear();
    }
}

impl Store {
    /// Begins a turn with a checkpoint: earlier turns cannot be undone any more. `logits` are those of what
    /// follows.
    pub fn begin_turn(&mut self, logits: &[f32]) -> Result<(), EngineError> {
        self.undo = Undo::default();
        self.add_checkpoint(logits)
    }

    /// Adds a checkpoint to the turn, so that one can go back to the present state.
    pub fn add_checkpoint(&mut self, logits: &[f32]) -> Result<(), EngineError> {
        let checkpoint = Checkpoint { logits: logits.to_vec(), ..self.checkpoint(true)? };
        self.undo.checkpoints.push(checkpoint);
        Ok(())
    }

    /// Begins a computation that [`Store::roll_back`] can take back until [`Store::commit`] is called. If it
    /// begins a turn, `turn` are the logits of what follows. `makes_room` tells whether rows may be evicted
    /// before it is committed.
    pub fn begin_attempt(&mut self, turn: Option<&[f32]>, makes_room: bool) -> Result<(), EngineError> {
        let mut before = self.checkpoint(turn.is_some() || makes_room)?;
        if let Some(logits) = turn {
            before.logits = logits.to_vec();
            before.evictions = 0;
        }
        self.undo.attempt = Some(Attempt { before, begins_turn: turn.is_some(), evictions: Vec::new() });
        Ok(())
    }

    /// Ends an attempt that succeeded. It becomes a part of the turn, or begins one.
    pub fn commit(&mut self) {
        let Some(Attempt { before, begins_turn, evictions }) = self.undo.attempt.take() else { return };
        if begins_turn {
            self.undo = Undo { checkpoints: vec![before], ..Undo::default() };
        }
        for rows in evictions {
            if self.undo.must_save(rows.id, rows.count()) {
                self.undo.save(rows);
            }
        }
    }

    /// Takes back what happened since [`Store::begin_attempt`]; does nothing where there is no attempt. After
    /// an error the store is empty.
    pub fn roll_back(&mut self) -> Result<(), EngineError> {
        let Some(Attempt { before, evictions, .. }) = self.undo.attempt.take() else { return Ok(()) };
        self.restore(&before, evictions)?;
        let cleared = self.clear_behind_rows();
        if cleared.is_err() {
            self.clear()?;
        }
        cleared
    }

    /// Clears what a computation that was taken back has left behind the live rows, which may be NaN, where whole lanes are
    /// read.
    pub fn clear_behind_rows(&self) -> Result<(), EngineError> {
        for layer in self.layers.iter().filter(|layer| layer.form.reads_whole_lanes()) {
            for lane in &layer.lanes {
                lane.clear_rows(lane.state.live..lane.layout.capacity)?;
            }
        }
        Ok(())
    }

    /// The present state, `with_compensation` where rows will be evicted.
    fn checkpoint(&self, with_compensation: bool) -> Result<Checkpoint, EngineError> {
        let of_lane = |lane: &Lane| -> Result<LaneCheckpoint, EngineError> {
            let compensation = lane.sums.as_ref().filter(|_| with_compensation);
            Ok(LaneCheckpoint {
                state: lane.state,
                accumulated: lane.graph.accumulated.as_ref().map_or(Ok(Vec::new()), Tensor::to_vec)?,
                compensation: compensation.map(|sums| lane.read_compensation(sums)).transpose()?,
            })
        };
        let lanes = (self.layers.iter())
            .map(|layer| layer.lanes.iter().map(of_lane).collect::<Result<_, _>>())
            .collect::<Result<_, _>>()?;
        let queries = (self.layers.iter())
            .map(|layer| layer.recorded.queries.as_ref().map_or(Ok(Vec::new()), Tensor::to_vec))
            .collect::<Result<_, _>>()?;
        let states = (self.layers.iter())
            .map(|layer| layer.state.as_ref().map(StateTensors::to_vecs).transpose())
            .collect::<Result<_, _>>()?;
        let evictions = self.undo.evictions.len();
        Ok(Checkpoint { seen: self.seen, logits: Vec::new(), lanes, queries, states, evictions })
    }

    /// The latest checkpoint that `accepts` the number of tokens seen at it and whether the logits are known,
    /// as the number of tokens.
    pub fn latest_checkpoint(&self, accepts: impl Fn(usize, bool) -> bool) -> Option<usize> {
        let known = |checkpoint: &&Checkpoint| accepts(checkpoint.seen, !checkpoint.logits.is_empty());
        self.undo.checkpoints.iter().rev().find(known).map(|checkpoint| checkpoint.seen)
    }

    /// Goes back to the checkpoint at which `seen` tokens had been seen, and removes later checkpoints.
    /// Returns the logits of what follows it. Where there is no such checkpoint, or after an error, the store
    /// is empty.
    pub fn rewind(&mut self, seen: usize) -> Result<Vec<f32>, EngineError> {
        let Some(number) = self.undo.checkpoints.iter().rposition(|checkpoint| checkpoint.seen == seen)
        else {
            self.clear()?;
            return Ok(Vec::new());
        };
        self.undo.checkpoints.truncate(number + 1);
        let Some(checkpoint) = self.undo.checkpoints.pop() else { return Ok(Vec::new()) };
        let evictions = self.undo.evictions.split_off(checkpoint.evictions);
        self.restore(&checkpoint, evictions)?;
        let logits = checkpoint.logits.clone();
        self.undo.checkpoints.push(checkpoint);
        Ok(logits)
    }

    /// Restores the state at a checkpoint, after which there were these evictions. After an error the store
    /// is empty.
    fn restore(&mut self, to: &Checkpoint, evictions: Vec<EvictedRows>) -> Result<(), EngineError> {
        let result = self.restore_layers(to, evictions);
        if result.is_err() {
            self.clear()?;
        }
        result
    }

    fn restore_layers(&mut self, to: &Checkpoint, evictions: Vec<EvictedRows>) -> Result<(), EngineError> {
        for evicted in evictions.iter().rev() {
            self.lane_mut(evicted.id).restore_rows(evicted)?;
        }
        for (layer, (saved, queries)) in self.layers.iter_mut().zip(to.lanes.iter().zip(&to.queries)) {
            for (lane, saved) in layer.lanes.iter_mut().zip(saved) {
                lane.restore(saved)?;
            }
            if let Some(tensor) = &layer.recorded.queries {
                tensor.write(0, queries)?;
            }
        }
        for (layer, saved) in self.layers.iter().zip(&to.states) {
            if let (Some(state), Some(saved)) = (&layer.state, saved) {
                state.write(saved)?;
            }
        }
        self.seen = to.seen;
        Ok(())
    }

    /// Whether all tokens from position `seen` on can be removed from the end: no rows have been evicted
    /// since, no policy records attention, no layer is recurrent, and no row was scored by the removed tokens.
    pub fn can_truncate(&self, seen: usize) -> bool {
        let records = |lane: &Lane| {
            let needs = lane.layout.needs();
            let is_scored = matches!(needs.accumulated, Some(AccumulatedAttention::SecondReading(_)));
            needs.records_steps() || is_scored && seen < lane.state.scanned_until
        };
        let is_recurrent = self.layers.iter().any(|layer| layer.state.is_some());
        (seen == self.seen || !is_recurrent)
            && self
                .lanes()
                .all(|lane| lane.state.last_eviction_at <= seen && (seen == self.seen || !records(lane)))
    }

    /// Removes all tokens from position `seen` on from the end; only if [`Store::can_truncate`].
    pub fn truncate(&mut self, seen: usize) {
        let removed = self.seen - seen;
        for lane in self.lanes_mut() {
            lane.shrink(removed);
            let state = &mut lane.state;
            state.scanned_until = state.scanned_until.min(seen);
            state.prompt_rows_kept = state.prompt_rows_kept.min(seen);
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
            for (tensor, bytes) in self.graph.tensors().zip([k_rows, v_rows]) {
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
        if let Some(accumulated) = &self.graph.accumulated {
            accumulated.write(0, &saved.accumulated)?;
        }
        self.write_positions()?;
        let (Some(sums), Some(Compensation { sums: saved, entries })) = (&self.sums, &saved.compensation)
        else {
            return Ok(());
        };
        sums.write(0, saved)?;
        let mut entries = entries.as_slice();
        for tensor in self.graph.tensors() {
            let [_, row, head, _] = tensor.strides();
            for number in 0..self.layout.kv_heads.len() {
                let (entry, rest) = entries.split_at(row);
                tensor.write(number * head, entry)?;
                entries = rest;
            }
        }
        Ok(())
    }

    fn read_compensation(&self, sums: &Tensor) -> Result<Compensation, EngineError> {
        let mut entries = Vec::new();
        for tensor in self.graph.tensors() {
            let [_, row, head, _] = tensor.strides();
            for number in 0..self.layout.kv_heads.len() {
                let at = entries.len();
                entries.resize(at + row, 0);
                tensor.read(number * head, &mut entries[at..])?;
            }
        }
        Ok(Compensation { sums: sums.to_vec()?, entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::backends::Backends;

    /// An empty store of one layer.
    fn store(policy: &str) -> Store {
        Store::of_one_layer(2, policy, 100, None, &Backends::host())
    }

    #[test]
    fn shortening_keeps_the_checkpoints_of_what_is_left() {
        let mut store = store("full");
        store.advance(4);
        store.begin_turn(&[]).expect("a checkpoint");
        store.advance(2);
        store.add_checkpoint(&[]).expect("a checkpoint");
        store.advance(2);
        store.truncate(5);
        assert_eq!((store.seen(), store.latest_checkpoint(|_, _| true)), (5, Some(4)));
    }

    #[test]
    fn accumulated_attention_cannot_be_shortened() {
        let mut store = store("h2o:heavy=8,recent=8");
        store.advance(4);
        assert!(store.can_truncate(4) && !store.can_truncate(3));
    }

    fn evicted(id: LaneId, count: usize) -> EvictedRows {
        let evicted = vec![vec![0; count]];
        EvictedRows { id, live: 0, evicted, moves: Vec::new(), rows: Vec::new(), positions: Vec::new() }
    }

    /// The beginning of a turn in an empty store.
    fn turn() -> Undo {
        let start = Checkpoint {
            seen: 0,
            logits: vec![],
            lanes: vec![],
            queries: vec![],
            states: vec![],
            evictions: 0,
        };
        Undo { checkpoints: vec![start], ..Undo::default() }
    }

    #[test]
    fn the_limit_of_saved_rows_holds_for_each_lane() {
        let [first, second] = [0, 1].map(|lane| LaneId { layer: 0, lane });
        let mut undo = turn();
        for id in [first, second] {
            assert!(undo.must_save(id, UNDO_ROWS_PER_HEAD - 24));
            undo.save(evicted(id, UNDO_ROWS_PER_HEAD - 24));
        }
        assert!(undo.must_save(first, 24) && undo.must_save(second, 24));
        assert!(!undo.must_save(first, 25), "the turn cannot be undone any more");
        assert!(undo.checkpoints.is_empty() && undo.evictions.is_empty());
    }

    #[test]
    fn rows_are_saved_in_turns_and_attempts_only() {
        let id = LaneId { layer: 0, lane: 0 };
        let mut undo = Undo::default();
        assert!(!undo.must_save(id, 1));
        undo.save(evicted(id, 1));
        assert!(undo.evictions.is_empty());
        let before = turn().checkpoints.remove(0);
        undo.attempt = Some(Attempt { before, begins_turn: false, evictions: Vec::new() });
        assert!(undo.must_save(id, 1));
        undo.save(evicted(id, 1));
        assert_eq!(undo.attempt.map(|attempt| attempt.evictions.len()), Some(1));
    }
}
