//! Queries that grow with their position, so that attention stays sharp in long texts (Llama 4, Ministral 3).

/// The factor of a query at position p is 1 + scale · ln(1 + floor(p / length)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionTemperature {
    /// Weight of the logarithm.
    pub scale: f32,
    /// Tokens over which the factor stays the same, 1 or more.
    pub length: usize,
}

impl AttentionTemperature {
    /// The factor of a query at `position`.
    pub fn factor(&self, position: usize) -> f32 {
        let periods = (position / self.length) as f64;
        (1.0 + f64::from(self.scale) * periods.ln_1p()) as f32
    }
}
