//! A store as bytes: what each lane knows of itself, the rows that are live, and what was summed, gathered and kept beside them. The
//! same bytes wherever the rows are, host or device. What is read is judged by the layout of the store that takes it.

use super::{Lane, LaneState, Store};
use crate::EngineError;
use crate::snapshot::{Input, Output, SnapshotError};
use ggml::Tensor;
use std::sync::Arc;

impl Store {
    /// Writes everything that is in the store.
    pub(crate) fn write_to(&self, to: &mut Output) -> Result<(), EngineError> {
        for layer in &self.layers {
            for lane in &layer.lanes {
                lane.write_to(to)?;
            }
            if let Some(queries) = &layer.queries {
                to.bytes(&whole(queries)?)?;
            }
        }
        Ok(())
    }

    /// Takes what [`Store::write_to`] wrote of a store of the same layout that had seen `seen` tokens. After an error the store is
    /// empty.
    pub(crate) fn read_from(&mut self, from: &mut Input, seen: usize) -> Result<(), EngineError> {
        self.clear()?;
        let read = self.read_layers(from, seen);
        if read.is_err() {
            self.clear()?;
        }
        read
    }

    fn read_layers(&mut self, from: &mut Input, seen: usize) -> Result<(), EngineError> {
        for layer in &mut self.layers {
            for lane in &mut layer.lanes {
                lane.read_from(from, seen)?;
            }
            if let Some(queries) = &layer.queries {
                fill(queries, from)?;
            }
        }
        self.seen = seen;
        Ok(())
    }
}

impl Lane {
    fn write_to(&self, to: &mut Output) -> Result<(), EngineError> {
        let LaneState { live, departed, done, of_text, settled } = self.state;
        let shape = [self.layout.kv_heads.len(), self.layout.capacity];
        to.numbers(shape.into_iter().chain([live, departed, done, of_text, settled]).map(|n| n as u32))?;
        for positions in &self.positions {
            to.numbers(positions.iter().copied())?;
        }
        for tensor in [&self.graph.k, &self.graph.v] {
            let [_, row, head, _] = tensor.strides();
            let mut rows = vec![0u8; live * row];
            for number in 0..tensor.dim(2) {
                tensor.read(number * head, &mut rows)?;
                to.bytes(&rows)?;
            }
        }
        for tensor in self.sums.iter().chain(&self.graph.accumulated) {
            to.bytes(&whole(tensor)?)?;
        }
        Ok(())
    }

    fn read_from(&mut self, from: &mut Input, seen: usize) -> Result<(), EngineError> {
        let [heads, capacity, live, departed, done, of_text, settled] =
            from.numbers(7)?.try_into().map(|n: [u32; 7]| n.map(|n| n as usize)).unwrap_or_default();
        if (heads, capacity) != (self.layout.kv_heads.len(), self.layout.capacity) {
            return Err(
                SnapshotError::new("a lane has other heads or another capacity than this session").into()
            );
        }
        let contradiction = || SnapshotError::new("a lane's numbers contradict each other");
        let tokens = live.checked_sub(self.first()).ok_or_else(contradiction)?;
        // Nobody leaves where there is no policy, and what came since rows left last is still there.
        let sound = live <= capacity
            && tokens.checked_add(departed) == Some(seen)
            && [done, of_text, settled].iter().all(|n| *n <= seen)
            && seen - settled <= tokens
            && (self.layout.policy.is_some() || [departed, done, settled] == [0; 3]);
        if !sound {
            return Err(contradiction().into());
        }
        for positions in &mut self.positions {
            let read = from.numbers(tokens)?;
            if !are_possible(&read, (done, settled, seen)) {
                return Err(SnapshotError::new("rows have impossible positions").into());
            }
            // In place, so that there is room for all that the lane can hold.
            Arc::make_mut(positions).clone_from(&read);
        }
        for tensor in [&self.graph.k, &self.graph.v] {
            let [_, row, head, _] = tensor.strides();
            let mut rows = vec![0u8; live * row];
            for number in 0..tensor.dim(2) {
                from.bytes(&mut rows)?;
                tensor.write(number * head, &rows)?;
            }
        }
        for tensor in self.sums.iter().chain(&self.graph.accumulated) {
            fill(tensor, from)?;
        }
        self.state = LaneState { live, departed, done, of_text, settled };
        self.write_positions()
    }
}

/// Whether the rows of a head can lie at these positions after `seen` tokens: different ones, complete from where nothing was cut
/// (`done`), and at the end, in order, what came since rows left last (`settled`).
fn are_possible(positions: &[u32], (done, settled, seen): (usize, usize, usize)) -> bool {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let uncut = sorted.iter().filter(|position| **position as usize >= done).count();
    sorted.windows(2).all(|pair| pair[0] < pair[1])
        && sorted.last().is_none_or(|last| (*last as usize) < seen)
        && uncut == seen - done
        && positions[positions.len() - (seen - settled)..].iter().copied().eq(settled as u32..seen as u32)
}

fn whole(tensor: &Tensor) -> Result<Vec<u8>, EngineError> {
    Ok(tensor.to_vec()?)
}

fn fill(tensor: &Tensor, from: &mut Input) -> Result<(), EngineError> {
    let mut bytes = vec![0u8; tensor.bytes()];
    from.bytes(&mut bytes)?;
    Ok(tensor.write(0, &bytes)?)
}
