//! Pooling of scores over neighbouring rows, as SnapKV does it: stride 1, same length.

/// How the scores of neighbours are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Their mean; beyond the ends there are zeros, which count.
    Average,
    /// The largest; beyond the ends there is nothing.
    Max,
}

/// The names of [`Pool`]'s variants.
pub(super) const NAMES: &[&str] = &["avg", "max"];

impl Pool {
    /// The variant of an index in [`NAMES`].
    pub(super) fn from_index(index: usize) -> Pool {
        if index == 0 { Pool::Average } else { Pool::Max }
    }

    /// Pools `x` over windows of `width` (odd). Every window is summed by itself, so that equal windows give
    /// equal sums.
    pub fn over(self, x: &[f32], width: usize) -> Vec<f32> {
        let reach = width / 2;
        let window = |i: usize| &x[i.saturating_sub(reach)..(i + reach + 1).min(x.len())];
        (0..x.len())
            .map(|i| match self {
                Pool::Average => window(i).iter().sum::<f32>() / width as f32,
                Pool::Max => window(i).iter().copied().fold(f32::NEG_INFINITY, f32::max),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_count_zeros_beyond_the_ends_and_maxima_do_not() {
        let x = [3.0, 0.0, 6.0, -9.0];
        assert_eq!(Pool::Average.over(&x, 3), [1.0, 3.0, -1.0, -1.0]);
        assert_eq!(Pool::Max.over(&[-3.0, -4.0, -5.0], 3), [-3.0, -3.0, -4.0]);
        assert_eq!(Pool::Average.over(&x, 1), x);
    }
}
