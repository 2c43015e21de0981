//! The score that a map predicts for a row from its key and value, for policies that score rows when they are appended
//! (KVzap, arXiv 2601.07891).
//!
//! A map has a mean m, a weight w and a weight of the square q for each element of the key and of the value. An element x adds
//! (w + q (x - m)) (x - m) to the score. There are four squared norms: of the key, of the key minus its means, and the same
//! of the value. The logarithm of each adds to the score with a weight of its own. Last comes a constant.
//!
//! Means are taken off before anything is multiplied, so that large ones cost no precision.

/// The least squared norm whose logarithm is taken.
pub const MIN_NORM_SQUARED: f32 = 1e-20;

/// Sums are added up in so many lanes, which are vectors of any instruction set.
const LANES: usize = 16;

/// Numbers of a map for keys of `d_k` and values of `d_v` elements. First come the means, the weights and the weights of
/// squares, of the key's elements and then of the value's. Last are the constant, and the weights of the logarithms: of the
/// key, of the key minus its means, and the same of the value.
pub const fn predictor_len(d_k: usize, d_v: usize) -> usize {
    3 * (d_k + d_v) + 5
}

/// The score of a row with key `k` `[d_k]` before RoPE and value `v` `[d_v]`, by `map` `[predictor_len(d_k, d_v)]`.
///
/// # Panics
/// If `map` has another length.
pub fn predicted_score(k: &[f32], v: &[f32], map: &[f32]) -> f32 {
    assert_eq!(map.len(), predictor_len(k.len(), v.len()), "the map is one for other keys and values");
    let elements = k.len() + v.len();
    let numbers = &map[3 * elements..];
    let part = |x: &[f32], first: usize, of_norm: f32, of_centred: f32| {
        let [means, weights, squares] = [0, 1, 2].map(|kind| &map[kind * elements + first..][..x.len()]);
        let [products, norm, centred] = sums(x, means, weights, squares);
        let logarithm = |squared_norm: f32| squared_norm.max(MIN_NORM_SQUARED).ln();
        products + of_norm * logarithm(norm) + of_centred * logarithm(centred)
    };
    numbers[0] + part(k, 0, numbers[1], numbers[2]) + part(v, k.len(), numbers[3], numbers[4])
}

/// The sums over the elements of a key or a value: the products with the weights, the squared norm, and that without the
/// means. All slices have the same length.
fn sums(x: &[f32], means: &[f32], weights: &[f32], squares: &[f32]) -> [f32; 3] {
    let mut sums = [[0f32; LANES]; 3];
    let mut add = |x: &[f32; LANES], mean: &[f32; LANES], weight: &[f32; LANES], square: &[f32; LANES]| {
        for i in 0..LANES {
            let centred = x[i] - mean[i];
            sums[0][i] += (weight[i] + square[i] * centred) * centred;
            sums[1][i] += x[i] * x[i];
            sums[2][i] += centred * centred;
        }
    };
    let [(x, x_rest), (means, means_rest), (weights, weights_rest), (squares, squares_rest)] =
        [x, means, weights, squares].map(|of| of.as_chunks::<LANES>());
    for (((x, mean), weight), square) in x.iter().zip(means).zip(weights).zip(squares) {
        add(x, mean, weight, square);
    }
    // The elements that are left, and zeros, which add nothing.
    let [x, mean, weight, square] = [x_rest, means_rest, weights_rest, squares_rest].map(|rest| {
        let mut all = [0f32; LANES];
        all[..rest.len()].copy_from_slice(rest);
        all
    });
    add(&x, &mean, &weight, &square);
    sums.map(|lanes| lanes.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_equals_a_calculation_by_hand() {
        // Means 1, 2 and 3; weights 10, 20 and 30; weights of squares 0.5, 0 and 0.25.
        let map = [1.0, 2.0, 3.0, 10.0, 20.0, 30.0, 0.5, 0.0, 0.25, 7.0, 1.5, 2.5, 3.5, 4.5];
        assert_eq!(map.len(), predictor_len(2, 1));
        // Minus the means the key is (2, -1), the value 4.
        let products = (10.0 + 1.0) * 2.0 - 20.0 + (30.0 + 1.0) * 4.0;
        let logarithms = 1.5 * 10f64.ln() + 2.5 * 5f64.ln() + 3.5 * 49f64.ln() + 4.5 * 16f64.ln();
        let have = f64::from(predicted_score(&[3.0, 1.0], &[7.0], &map));
        assert!((have - (7.0 + products + logarithms)).abs() < 1e-4, "{have}");
    }

    #[test]
    fn rows_of_zeros_and_rows_at_their_means_have_finite_scores() {
        let mut map = [0.0; predictor_len(20, 3)];
        map[3 * 23..].copy_from_slice(&[1.0, 2.0, 4.0, 8.0, 16.0]);
        let want = 1.0 + 30.0 * f64::from(MIN_NORM_SQUARED).ln();
        let have = f64::from(predicted_score(&[0.0; 20], &[0.0; 3], &map));
        assert!((have - want).abs() < 1e-3, "{have}, not {want}");
    }

    #[test]
    fn nan_reaches_the_score() {
        let map = [0.0; predictor_len(17, 1)];
        let mut k = [0.0; 17];
        assert!(predicted_score(&k, &[f32::NAN], &map).is_nan());
        k[16] = f32::NAN;
        assert!(predicted_score(&k, &[0.0], &map).is_nan());
    }

    #[test]
    #[should_panic(expected = "other keys and values")]
    fn a_map_for_other_rows_is_a_mistake() {
        predicted_score(&[0.0; 4], &[0.0; 4], &[0.0; predictor_len(4, 3)]);
    }
}
