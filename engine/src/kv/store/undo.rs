//! Taking a turn back. From the moment a turn begins, rows that leave are kept aside with the places they had; going back undoes
//! the departures in reverse and restores what was gathered and summed, so that the store is again what it was, bit for bit.
//! Kept aside are at most [`ASIDE_ROWS`] rows of a head; a turn that lets more leave cannot be taken back this way.

use super::{Lane, LaneState, Store};
use crate::EngineError;
use crate::kv::layout::ASIDE_ROWS;
use ggml::Tensor;
use kernels::rows::Moves;
use std::sync::Arc;

/// More rows than these come back all together with those around them: from a device every read and write is a journey.
const FEW: usize = 16;

/// What is needed to go back.
#[derive(Default)]
pub(super) struct Undo {
    marks: Vec<Mark>,
    departures: Vec<Departed>,
}

/// A moment to which one can go back.
struct Mark {
    seen: usize,
    /// `[layers][lanes]`
    lanes: Vec<Vec<Saved>>,
    /// `[layers]`: the queries kept.
    queries: Vec<Vec<f32>>,
    /// How many departures there were.
    departures: usize,
}

/// What cannot be undone step by step.
struct Saved {
    state: LaneState,
    sums: Vec<f32>,
    received: Vec<f32>,
    /// The compensation entry's rows, K then V of every head.
    entries: Vec<u8>,
}

/// Rows of one lane that left together.
pub(super) struct Departed {
    /// Layer, and lane in it.
    pub place: (usize, usize),
    /// Rows that were left.
    pub live: usize,
    /// Per head the rows that left.
    pub dropped: Vec<Vec<u32>>,
    /// Per head how the holes were filled.
    pub moves: Vec<Moves>,
    /// The bytes of the dropped rows: K of every head, then V.
    pub rows: Vec<u8>,
    /// Per head the positions of the dropped rows.
    pub positions: Vec<Vec<u32>>,
}

impl Undo {
    /// Whether so many rows that are about to leave each head of a lane must be kept aside. If they are too many, nothing that left
    /// in this turn comes back any more.
    pub(super) fn wants(&mut self, place: (usize, usize), count: usize) -> bool {
        if self.marks.is_empty() {
            return false;
        }
        let before: usize = (self.departures.iter())
            .filter(|departed| departed.place == place)
            .map(|departed| departed.dropped.first().map_or(0, Vec::len))
            .sum();
        let fits = before + count <= ASIDE_ROWS;
        if !fits {
            *self = Undo::default();
        }
        fits
    }

    /// Keeps aside what has left, unless it has become too much meanwhile.
    pub(super) fn keep(&mut self, departed: Departed) {
        if !self.marks.is_empty() {
            self.departures.push(departed);
        }
    }
}

impl Store {
    /// Begins a turn: what left before cannot come back any more.
    pub fn begin_turn(&mut self) -> Result<(), EngineError> {
        self.undo = Undo::default();
        self.mark()
    }

    /// Marks this moment of the turn, so that one can go back to it.
    pub fn mark(&mut self) -> Result<(), EngineError> {
        let saved = |lane: &Lane| -> Result<Saved, EngineError> {
            let heads = lane.layout.kv_heads.len();
            let mut entries = Vec::new();
            if lane.layout.compensated {
                for tensor in [&lane.graph.k, &lane.graph.v] {
                    let [_, row, head, _] = tensor.strides();
                    for number in 0..heads {
                        let at = entries.len();
                        entries.resize(at + row, 0);
                        tensor.read(number * head, &mut entries[at..])?;
                    }
                }
            }
            Ok(Saved {
                state: lane.state,
                sums: lane.sums.as_ref().map_or(Ok(Vec::new()), Tensor::to_vec)?,
                received: lane.graph.accumulated.as_ref().map_or(Ok(Vec::new()), Tensor::to_vec)?,
                entries,
            })
        };
        let lanes = (self.layers.iter())
            .map(|layer| layer.lanes.iter().map(saved).collect::<Result<_, _>>())
            .collect::<Result<_, _>>()?;
        let queries = (self.layers.iter())
            .map(|layer| layer.queries.as_ref().map_or(Ok(Vec::new()), Tensor::to_vec))
            .collect::<Result<_, _>>()?;
        let departures = self.undo.departures.len();
        self.undo.marks.push(Mark { seen: self.seen, lanes, queries, departures });
        Ok(())
    }

    /// The latest mark at which at most `seen` tokens had been seen: how many they were.
    pub fn marked(&self, seen: usize) -> Option<usize> {
        self.undo.marks.iter().rev().map(|mark| mark.seen).find(|marked| *marked <= seen)
    }

    /// Goes back to the latest mark at which at most `seen` tokens had been seen; later marks are forgotten. Does nothing where
    /// there is none. After an error the store is empty.
    pub fn rewind(&mut self, seen: usize) -> Result<(), EngineError> {
        let Some(number) = self.undo.marks.iter().rposition(|mark| mark.seen <= seen) else { return Ok(()) };
        let done = self.rewind_to(number);
        if done.is_err() {
            self.clear()?;
        }
        done
    }

    fn rewind_to(&mut self, number: usize) -> Result<(), EngineError> {
        self.undo.marks.truncate(number + 1);
        let Some(mark) = self.undo.marks.last() else { return Ok(()) };
        for departed in self.undo.departures.drain(mark.departures..).rev() {
            let (layer, number) = departed.place;
            departed.bring_back(&mut self.layers[layer].lanes[number])?;
        }
        for ((layer, saved), queries) in self.layers.iter_mut().zip(&mark.lanes).zip(&mark.queries) {
            for (lane, saved) in layer.lanes.iter_mut().zip(saved) {
                lane.restore(saved)?;
            }
            if let Some(tensor) = &layer.queries {
                tensor.write(0, queries)?;
            }
        }
        self.seen = mark.seen;
        Ok(())
    }

    /// Whether all tokens from position `seen` on can simply be taken off the end: where no rows have left since, and nothing is
    /// gathered.
    pub fn can_truncate(&self, seen: usize) -> bool {
        let remembers = |lane: &Lane| {
            let needs = lane.layout.needs();
            needs.queries > 0 || needs.gathered.is_some()
        };
        self.all_lanes().all(|lane| lane.state.settled <= seen && (seen == self.seen || !remembers(lane)))
    }

    /// Takes all tokens from position `seen` on off the end, if [`Store::can_truncate`].
    pub fn truncate(&mut self, seen: usize) {
        let back = self.seen - seen;
        for lane in self.lanes_mut() {
            let state = &mut lane.state;
            state.live -= back;
            (state.done, state.of_text) = (state.done.min(seen), state.of_text.min(seen));
            for head in &mut lane.positions {
                let left = head.len() - back;
                Arc::make_mut(head).truncate(left);
            }
        }
        self.seen = seen;
        self.undo.marks.retain(|mark| mark.seen <= seen);
    }
}

impl Departed {
    /// Puts the rows back where they were.
    fn bring_back(self, lane: &mut Lane) -> Result<(), EngineError> {
        let first = lane.first();
        let count = self.dropped.first().map_or(0, Vec::len);
        let (k_rows, v_rows) = self.rows.split_at(self.dropped.len() * count * lane.graph.k.strides()[1]);
        lane.state.live = self.live + count;
        for (number, head) in lane.positions.iter_mut().map(Arc::make_mut).enumerate() {
            // What was written behind the rows that were left goes; what had moved into holes goes back to the end.
            head.resize(self.live + count - first, 0);
            for (to, from) in &self.moves[number] {
                head[*from as usize - first] = head[*to as usize - first];
            }
            for (row, position) in self.dropped[number].iter().zip(&self.positions[number]) {
                head[*row as usize - first] = *position;
            }
            for (tensor, rows) in [(&lane.graph.k, k_rows), (&lane.graph.v, v_rows)] {
                let [_, row_bytes, head_bytes, _] = tensor.strides();
                let bytes = &rows[number * count * row_bytes..][..count * row_bytes];
                if self.moves[number].len() + count > FEW {
                    let mut all = vec![0u8; (self.live + count) * row_bytes];
                    tensor.read(number * head_bytes, &mut all)?;
                    for (to, from) in &self.moves[number] {
                        let to = *to as usize * row_bytes;
                        all.copy_within(to..to + row_bytes, *from as usize * row_bytes);
                    }
                    for (row, bytes) in self.dropped[number].iter().zip(bytes.chunks_exact(row_bytes)) {
                        all[*row as usize * row_bytes..][..row_bytes].copy_from_slice(bytes);
                    }
                    tensor.write(number * head_bytes, &all)?;
                    continue;
                }
                let at = |row: u32| number * head_bytes + row as usize * row_bytes;
                let mut moved = vec![0u8; row_bytes];
                for (to, from) in &self.moves[number] {
                    tensor.read(at(*to), &mut moved)?;
                    tensor.write(at(*from), &moved)?;
                }
                for (row, bytes) in self.dropped[number].iter().zip(bytes.chunks_exact(row_bytes)) {
                    tensor.write(at(*row), bytes)?;
                }
            }
        }
        Ok(())
    }
}

impl Lane {
    /// The state of a mark, once all rows are back.
    fn restore(&mut self, saved: &Saved) -> Result<(), EngineError> {
        self.state = saved.state;
        let tokens = self.tokens();
        self.positions.iter_mut().for_each(|head| Arc::make_mut(head).truncate(tokens));
        if let Some(sums) = &self.sums {
            sums.write(0, &saved.sums)?;
        }
        if let Some(received) = &self.graph.accumulated {
            received.write(0, &saved.received)?;
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
