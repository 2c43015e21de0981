//! The store as bytes: each lane's state, its live rows, running sums, accumulated attention, stored queries, and the
//! states of recurrent layers. The bytes are the same wherever the rows are, host or device, and whatever room the
//! store has for more. What is read is checked against the layout of the store that reads it.

use std::ops::Range;
use std::sync::Arc;

use ggml::Tensor;
use kernels::graph::GraphLane;

use super::{Lane, LaneState, Layer, RecordedTensors, Store};
use crate::EngineError;
use crate::files::codec::{Input, Output, SnapshotError};
use crate::kv::StateTensors;

impl Store {
    /// Writes the contents of the store.
    pub(crate) fn write_to(&self, to: &mut Output) -> Result<(), EngineError> {
        self.layers.iter().try_for_each(|layer| layer.write_to(to))
    }

    /// The contents as bytes, to compare stores bit for bit.
    pub fn contents(&self) -> Result<Vec<u8>, EngineError> {
        let mut bytes = Vec::new();
        self.write_to(&mut Output::new(&mut bytes))?;
        Ok(bytes)
    }

    /// Reads what [`Store::write_to`] wrote of a store of the same layout that had seen `seen` tokens. After
    /// an error the store is empty.
    pub(crate) fn read_from(&mut self, from: &mut Input, seen: usize) -> Result<(), EngineError> {
        self.fill_layers(seen, |layer, _| layer.read_from(from, seen))
    }

    /// Takes over the contents of a store of the same layout, whose room for more may differ. Takes memory for a copy
    /// of one layer's. After an error the store is empty.
    pub(crate) fn copy_from(&mut self, other: &Store) -> Result<(), EngineError> {
        let mut bytes = Vec::new();
        self.fill_layers(other.seen, |layer, number| {
            bytes.clear();
            other.layers[number].write_to(&mut Output::new(&mut bytes))?;
            layer.read_from(&mut Input::new(&bytes), other.seen)
        })
    }

    /// Writes the layers that have read a text which later ones have not read yet.
    pub(crate) fn write_layers(&self, layers: Range<usize>, to: &mut Output) -> Result<(), EngineError> {
        self.layers[layers].iter().try_for_each(|layer| layer.write_to(to))
    }

    /// Reads what [`Store::write_layers`] wrote of layers that have read `tokens` tokens. The store still has seen none.
    pub(crate) fn read_layers(
        &mut self,
        layers: Range<usize>,
        from: &mut Input,
        tokens: usize,
    ) -> Result<(), EngineError> {
        self.layers[layers].iter_mut().try_for_each(|layer| layer.read_from(from, tokens))
    }

    /// Writes what a layer holds of a text that it has begun to read: the stored queries and, where it is computed in
    /// the store itself, its first `rows` rows.
    pub(crate) fn write_begun_layer(
        &self,
        layer: usize,
        rows: Option<usize>,
        to: &mut Output,
    ) -> Result<(), EngineError> {
        let Layer { lanes, recorded: RecordedTensors { queries, .. }, .. } = &self.layers[layer];
        queries.iter().try_for_each(|queries| Ok::<_, EngineError>(to.bytes(&read_all(queries)?)?))?;
        let Some(rows) = rows else { return Ok(()) };
        lanes.iter().try_for_each(|lane| write_rows(&lane.graph, rows, to))
    }

    /// Reads what [`Store::write_begun_layer`] wrote.
    pub(crate) fn read_begun_layer(
        &mut self,
        layer: usize,
        rows: Option<usize>,
        from: &mut Input,
    ) -> Result<(), EngineError> {
        let Layer { lanes, recorded: RecordedTensors { queries, .. }, .. } = &self.layers[layer];
        queries.iter().try_for_each(|queries| fill(queries, from))?;
        let Some(rows) = rows else { return Ok(()) };
        lanes.iter().try_for_each(|lane| {
            read_rows(&lane.graph, rows, from)?;
            write_positions_in_order(&lane.graph, rows)
        })
    }

    fn fill_layers(
        &mut self,
        seen: usize,
        mut fill: impl FnMut(&mut Layer, usize) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.clear()?;
        let filled = self.layers.iter_mut().zip(0..).try_for_each(|(layer, number)| fill(layer, number));
        match filled {
            Ok(()) => self.seen = seen,
            Err(_) => self.clear()?,
        }
        filled
    }
}

impl Layer {
    fn write_to(&self, to: &mut Output) -> Result<(), EngineError> {
        self.lanes.iter().try_for_each(|lane| lane.write_to(to))?;
        let tensors = self.recorded.queries.iter().chain(self.state.iter().flat_map(StateTensors::all));
        tensors.into_iter().try_for_each(|tensor| Ok(to.bytes(&read_all(tensor)?)?))
    }

    fn read_from(&mut self, from: &mut Input, seen: usize) -> Result<(), EngineError> {
        self.lanes.iter_mut().try_for_each(|lane| lane.read_from(from, seen))?;
        let tensors = self.recorded.queries.iter().chain(self.state.iter().flat_map(StateTensors::all));
        tensors.into_iter().try_for_each(|tensor| fill(tensor, from))
    }
}

impl Lane {
    fn write_to(&self, to: &mut Output) -> Result<(), EngineError> {
        let LaneState { live, evicted, scanned_until, prompt_rows_kept, last_eviction_at } = self.state;
        let heads = self.layout.kv_heads.len();
        let state = [heads, live, evicted, scanned_until, prompt_rows_kept, last_eviction_at];
        to.numbers(state.into_iter().map(|n| n as u32))?;
        for positions in &self.positions {
            to.numbers(positions.iter().copied())?;
        }
        write_rows(&self.graph, live, to)?;
        if let Some(sums) = &self.sums {
            to.bytes(&read_all(sums)?)?;
        }
        if let Some(accumulated) = &self.graph.accumulated {
            let mut column = vec![0f32; live];
            for (number, positions) in self.positions.iter().enumerate() {
                accumulated.read(number * accumulated.strides()[1], &mut column)?;
                if self.layout.reconstruction().is_some() {
                    // Later rows have no scores but what was there before.
                    let weights = column[self.first()..].iter_mut().zip(positions.iter());
                    let unscored = weights.filter(|(_, position)| **position as usize >= scanned_until);
                    unscored.for_each(|(weight, _)| *weight = 0.0);
                }
                to.numbers(column.iter().map(|weight| weight.to_bits()))?;
            }
        }
        Ok(())
    }

    fn read_from(&mut self, from: &mut Input, seen: usize) -> Result<(), EngineError> {
        let [heads, live, evicted, scanned_until, prompt_rows_kept, last_eviction_at] =
            from.numbers(6)?.try_into().map(|n: [u32; 6]| n.map(|n| n as usize)).unwrap_or_default();
        if heads != self.layout.kv_heads.len() {
            return Err(SnapshotError::new("a lane has other heads than this session").into());
        }
        if live > self.layout.capacity {
            return Err(SnapshotError::new("a lane has more rows than this session has room for").into());
        }
        let contradiction = || SnapshotError::new("a lane's numbers contradict each other");
        let tokens = live.checked_sub(self.first()).ok_or_else(contradiction)?;
        // Without a policy nothing is evicted, and rows written since the last eviction are still there.
        let is_consistent = tokens.checked_add(evicted) == Some(seen)
            && [scanned_until, prompt_rows_kept, last_eviction_at].iter().all(|n| *n <= seen)
            && seen - last_eviction_at <= tokens
            && (self.layout.policy.is_some() || [evicted, scanned_until, last_eviction_at] == [0; 3]);
        if !is_consistent {
            return Err(contradiction().into());
        }
        for positions in &mut self.positions {
            let read = from.numbers(tokens)?;
            if !are_possible(&read, scanned_until, last_eviction_at, seen) {
                return Err(SnapshotError::new("rows have impossible positions").into());
            }
            // In place, which keeps the capacity allocated for all rows of the lane.
            Arc::make_mut(positions).clone_from(&read);
        }
        read_rows(&self.graph, live, from)?;
        if let Some(sums) = &self.sums {
            fill(sums, from)?;
        }
        if let Some(accumulated) = &self.graph.accumulated {
            for number in 0..heads {
                let column: Vec<f32> = from.numbers(live)?.into_iter().map(f32::from_bits).collect();
                accumulated.write(number * accumulated.strides()[1], &column)?;
            }
        }
        self.state = LaneState { live, evicted, scanned_until, prompt_rows_kept, last_eviction_at };
        self.write_positions()
    }
}

/// Whether the rows of a head can lie at these positions after `seen` tokens: no position twice, complete
/// from `scanned_until` on, and in order at the end where the tokens after `last_eviction_at` lie.
fn are_possible(positions: &[u32], scanned_until: usize, last_eviction_at: usize, seen: usize) -> bool {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let unscanned = sorted.iter().filter(|position| **position as usize >= scanned_until).count();
    let newest = &positions[positions.len() - (seen - last_eviction_at)..];
    sorted.windows(2).all(|pair| pair[0] < pair[1])
        && sorted.last().is_none_or(|last| (*last as usize) < seen)
        && unscanned == seen - scanned_until
        && newest.iter().copied().eq(last_eviction_at as u32..seen as u32)
}

/// Writes the first `rows` rows of every head of a lane, keys and then values.
pub(crate) fn write_rows(lane: &GraphLane, rows: usize, to: &mut Output) -> Result<(), EngineError> {
    for tensor in lane.tensors() {
        let [_, row, head, _] = tensor.strides();
        let mut bytes = vec![0u8; rows * row];
        for number in 0..tensor.dim(2) {
            tensor.read(number * head, &mut bytes)?;
            to.bytes(&bytes)?;
        }
    }
    Ok(())
}

/// Reads what [`write_rows`] wrote. The lane has room for as many rows.
pub(crate) fn read_rows(lane: &GraphLane, rows: usize, from: &mut Input) -> Result<(), EngineError> {
    for tensor in lane.tensors() {
        let [_, row, head, _] = tensor.strides();
        for number in 0..tensor.dim(2) {
            tensor.write(number * head, from.bytes(rows * row)?)?;
        }
    }
    Ok(())
}

/// Writes the positions 0, 1, 2, … beside the first `rows` rows of a lane, if it stores positions.
pub(crate) fn write_positions_in_order(lane: &GraphLane, rows: usize) -> Result<(), EngineError> {
    let Some(to) = &lane.positions else { return Ok(()) };
    let (positions, capacity): (Vec<i32>, usize) = ((0..rows as i32).collect(), lane.k.dim(1));
    for head in 0..lane.kv_heads.len() {
        to.all.write(size_of::<i32>() * (to.first + head * capacity), &positions)?;
    }
    Ok(())
}

fn read_all(tensor: &Tensor) -> Result<Vec<u8>, EngineError> {
    Ok(tensor.to_vec()?)
}

fn fill(tensor: &Tensor, from: &mut Input) -> Result<(), EngineError> {
    Ok(tensor.write(0, from.bytes(tensor.bytes())?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_possible_after_evictions_only() {
        // Of five tokens the first two were considered for eviction; the last came after it.
        let possible = |positions: &[u32]| are_possible(positions, 2, 4, 5);
        assert!(possible(&[0, 2, 3, 4]) && possible(&[3, 2, 4]));
        assert!(!possible(&[0, 0, 2, 3, 4]), "twice");
        assert!(!possible(&[0, 5, 3, 4]), "not seen yet");
        assert!(!possible(&[0, 1, 3, 4]), "position 2 was never considered");
        assert!(!possible(&[0, 2, 4, 3]), "the last token is not at the end");
    }
}
