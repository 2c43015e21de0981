//! The values of a graph's lane inputs.

use kernels::graph::{LaneInputs, MAX_LANES};

/// Live rows and log-weights of the lanes of all layers. Each vector is `[MAX_LANES, layers]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneValues {
    /// Live rows of each lane.
    pub rows: Vec<i32>,
    /// Log-weight of each lane's compensation entry; negative infinity while the entry is unused.
    pub log_weights: Vec<f32>,
}

impl LaneValues {
    /// The values where every lane of `layers` layers has `rows` live rows and nothing was evicted.
    pub fn uniform(layers: usize, rows: usize) -> LaneValues {
        let lanes = MAX_LANES * layers;
        LaneValues { rows: vec![rows as i32; lanes], log_weights: vec![f32::NEG_INFINITY; lanes] }
    }

    /// Writes the values to a graph's inputs. Inputs that the graph does not use have no memory and are
    /// skipped.
    pub fn write(&self, inputs: &LaneInputs) -> Result<(), ggml::Error> {
        if inputs.rows.is_allocated() {
            inputs.rows.write(0, &self.rows)?;
        }
        if inputs.log_weights.is_allocated() {
            inputs.log_weights.write(0, &self.log_weights)?;
        }
        Ok(())
    }
}
