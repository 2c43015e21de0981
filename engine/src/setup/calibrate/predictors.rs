//! What predicts the scores of a head's rows from the rows themselves: a ridge regression, by normal equations.
//!
//! The score is the logarithm of what a row gives when its text is repeated: the largest attention that it gets
//! ([`super::reading`]), times the norm of its value. That stands for KVzap's KVzip+ score, which has the norm behind the
//! output matrix, relative to the residual stream. Attention alone keeps rows that give nothing.
//!
//! The inputs are the elements of the key before RoPE and of the value, less their means, the squares of these, and the
//! logarithms of four norms ([`kernels::predict`]). With latent attention key and value are the stored row, after RoPE.
//!
//! A row's place in its text, and in the part that is repeated with it, have an influence too, which is no property of the
//! row. It is fitted beside, and left out of the prediction.

use ggml::{Context, InterruptFlag, Type};
use kernels::predict::MIN_NORM_SQUARED;

use super::reading::ScoredRows;
use crate::EngineError;
use crate::devices::backends::Backends;
use crate::devices::placement::Place;
use crate::devices::workspace::Workspace;

/// First rows of a text. All heads attend to them, whatever they contain.
const FIRST_ROWS: usize = 8;
/// The smallest attention: what is below it is none.
const MIN_ATTENTION: f32 = 1e-7;
/// What is added to the variance of each input, of which all are scaled to 1.
const RIDGE: f64 = 1e-3;

/// Numbers that differ by this share of their mean at most are alike but for rounding. They predict nothing.
const ROUNDING: f32 = 1e-5;

/// The numbers of columns that are fitted beside elements and squares: norms, places, and the score itself.
const NORMS: usize = 4;
const PLACES: usize = 2;

/// How many columns are fitted for heads of `head_dim` elements: elements and squares of keys and values, and the others.
fn columns(head_dim: usize) -> usize {
    2 * 2 * head_dim + NORMS + PLACES + 1
}

/// Bytes that predictors of a layer with such heads take, for texts of so many tokens together.
pub(super) fn needed(tokens: usize, kv_heads: usize, head_dim: usize) -> usize {
    let columns = columns(head_dim);
    // The rows of all heads, and once more those of one.
    let of_layer = 2 * (kv_heads + 1) * head_dim * tokens;
    // The columns also as the operand of a product; the correlations as a result, and with their decomposition in f64.
    4 * (of_layer + 2 * columns * tokens + 4 * columns * columns)
}

/// The rows of one KV head in all texts.
#[derive(Default)]
pub(super) struct HeadRows {
    /// `[rows][head_dim]`: keys before RoPE.
    keys: Vec<f32>,
    /// `[rows][head_dim]`: values.
    values: Vec<f32>,
    /// `[rows]`: scores, which are logarithms.
    scores: Vec<f32>,
    /// `[rows]`: from 0 to 1, the place in the text and in the part.
    places: [Vec<f32>; PLACES],
}

impl HeadRows {
    /// The rows of KV head `head` of `kv_heads` in the texts.
    pub fn of_texts(texts: &[ScoredRows], head: usize, kv_heads: usize, head_dim: usize) -> HeadRows {
        let mut all = HeadRows::default();
        let (token, of_head) = (head_dim * kv_heads, head * head_dim..(head + 1) * head_dim);
        for text in texts {
            let scores = &text.scores[head];
            let rows = text.rows.iter().flat_map(|chunk| {
                let (keys, values) = chunk.split_at(chunk.len() / 2);
                keys.chunks_exact(token).zip(values.chunks_exact(token))
            });
            for (row, (key, value)) in rows.enumerate().skip(FIRST_ROWS) {
                let (key, value) = (&key[of_head.clone()], &value[of_head.clone()]);
                all.keys.extend(key);
                all.values.extend(value);
                let norm = value.iter().map(|x| x * x).sum::<f32>();
                let score = scores[row].max(MIN_ATTENTION).ln() + norm.max(MIN_NORM_SQUARED).ln() / 2.0;
                all.scores.push(score);
                let part = text.parts.iter().find(|part| part.contains(&row)).cloned();
                let part = part.unwrap_or(0..scores.len());
                all.places[0].push(row as f32 / scores.len() as f32);
                all.places[1].push((row - part.start) as f32 / part.len() as f32);
            }
        }
        all
    }

    /// The map that predicts the scores best, in the order of [`kernels::predict`].
    pub fn fit(
        &self,
        backends: &Backends,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<Vec<f32>, EngineError> {
        let n = self.scores.len();
        let head_dim = self.keys.len() / n.max(1);
        let mut columns = Columns::of_rows(n, columns(head_dim));
        let mut means = Vec::new();
        // Of each element two columns: the element and its square.
        for rows in [&self.keys, &self.values] {
            for element in 0..head_dim {
                let mut column: Vec<f32> = rows.iter().skip(element).step_by(head_dim).copied().collect();
                let mean = mean(&column) as f32;
                column.iter_mut().for_each(|x| *x -= mean);
                let largest = column.iter().fold(0f32, |largest, x| largest.max(x.abs()));
                if largest <= ROUNDING * mean.abs() {
                    column.fill(0.0);
                }
                means.push(mean);
                let squares = column.iter().map(|x| x * x).collect();
                columns.push(column);
                columns.push(squares);
            }
        }
        for (rows, means) in [&self.keys, &self.values].into_iter().zip(means.chunks_exact(head_dim)) {
            let log = |row: &[f32], mean: &dyn Fn(usize) -> f32| {
                let norm: f32 = row.iter().enumerate().map(|(i, x)| (x - mean(i)).powi(2)).sum();
                norm.max(MIN_NORM_SQUARED).ln()
            };
            columns.push(rows.chunks_exact(head_dim).map(|row| log(row, &|_| 0.0)).collect());
            columns.push(rows.chunks_exact(head_dim).map(|row| log(row, &|i| means[i])).collect());
        }
        self.places.iter().for_each(|places| columns.push(places.clone()));
        columns.push(self.scores.clone());

        let inputs = columns.count() - 1;
        let correlations = columns.correlations(backends, workspace, interrupt)?;
        let slopes = solve(&correlations, columns.count());
        let of_score = columns.deviations[inputs];
        let slope = |input: usize| match columns.deviations[input] {
            0.0 => 0.0,
            deviation => slopes[input] * of_score / deviation,
        };
        // Places are left out: each is set to its mean.
        let used = inputs - PLACES;
        let offset: f64 = (0..used).map(|input| slope(input) * columns.means[input]).sum();
        let constant = columns.means[inputs] - offset;
        let elements = used - NORMS;
        let (weights, squares) = ((0..elements).step_by(2), (1..elements).step_by(2));
        let numbers = weights.chain(squares).map(slope).chain([constant]);
        let numbers = numbers.chain((elements..used).map(slope));
        Ok(means.into_iter().chain(numbers.map(|number| number as f32)).collect())
    }
}

/// Columns of numbers, scaled to mean 0 and variance 1.
struct Columns {
    rows: usize,
    /// `[columns][rows]`
    numbers: Vec<f32>,
    /// `[columns]`: what the means were.
    means: Vec<f64>,
    /// `[columns]`: what the standard deviations were.
    deviations: Vec<f64>,
}

impl Columns {
    /// None yet, with memory for so many.
    fn of_rows(rows: usize, count: usize) -> Columns {
        let numbers = Vec::with_capacity(rows * count);
        Columns { rows, numbers, means: Vec::new(), deviations: Vec::new() }
    }

    fn count(&self) -> usize {
        self.means.len()
    }

    fn push(&mut self, mut column: Vec<f32>) {
        let mean = mean(&column);
        let variance =
            column.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / self.rows.max(1) as f64;
        let deviation = variance.sqrt();
        let deviation = if deviation <= f64::from(ROUNDING) * mean.abs() { 0.0 } else { deviation };
        let factor = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
        column.iter_mut().for_each(|x| *x = ((f64::from(*x) - mean) * factor) as f32);
        self.numbers.append(&mut column);
        self.means.push(mean);
        self.deviations.push(deviation);
    }

    /// The correlations of all columns with each other, `[columns][columns]`.
    fn correlations(
        &self,
        backends: &Backends,
        workspace: &mut Workspace,
        interrupt: &InterruptFlag,
    ) -> Result<Vec<f32>, EngineError> {
        let ctx = Context::new(4);
        let columns = ctx.input("columns", Type::F32, [self.rows, self.count()]);
        let products = ctx.mul_mat_precise(&columns, &columns).output();
        let graph = workspace.prepare(Place::Host, ctx.graph(&[&products])?)?;
        columns.write(0, &self.numbers)?;
        backends.compute(Place::Host, &graph, Some(interrupt))?;
        let mut products: Vec<f32> = products.to_vec()?;
        products.iter_mut().for_each(|product| *product /= self.rows as f32);
        Ok(products)
    }
}

fn mean(column: &[f32]) -> f64 {
    column.iter().map(|x| f64::from(*x)).sum::<f64>() / column.len().max(1) as f64
}

/// The slopes of the last of `n` scaled columns against the others, `[n - 1]`, with a ridge: by the Cholesky decomposition
/// of their correlations `[n][n]`.
fn solve(correlations: &[f32], n: usize) -> Vec<f64> {
    let inputs = n - 1;
    let at = |i: usize, j: usize| f64::from(correlations[i * n + j]);
    // `[inputs][inputs]`, lower triangle.
    let mut factor = vec![0f64; inputs * inputs];
    for i in 0..inputs {
        for j in 0..=i {
            let (row, other) = (&factor[i * inputs..][..j], &factor[j * inputs..][..j]);
            let dot: f64 = row.iter().zip(other).map(|(a, b)| a * b).sum();
            factor[i * inputs + j] = match i == j {
                // Rounding cannot make it smaller than the ridge.
                true => (at(i, i) + RIDGE - dot).max(RIDGE / 2.0).sqrt(),
                false => (at(i, j) - dot) / factor[j * inputs + j],
            };
        }
    }
    let mut slopes = vec![0f64; inputs];
    for i in 0..inputs {
        let dot: f64 = (0..i).map(|j| factor[i * inputs + j] * slopes[j]).sum();
        slopes[i] = (at(i, inputs) - dot) / factor[i * inputs + i];
    }
    for i in (0..inputs).rev() {
        let dot: f64 = (i + 1..inputs).map(|j| factor[j * inputs + i] * slopes[j]).sum();
        slopes[i] = (slopes[i] - dot) / factor[i * inputs + i];
    }
    slopes
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use kernels::predict::{predicted_score, predictor_len};
    use models::random::Random;

    use super::*;

    const HEAD_DIM: usize = 6;
    const KV_HEADS: usize = 2;

    struct Row {
        key: Vec<f32>,
        value: Vec<f32>,
        score: f32,
    }

    /// Rows of a text, whose scores a map gives.
    fn text(random: &mut Random, n: usize, map: &[f32]) -> (ScoredRows, Vec<Row>) {
        let (mut keys, mut values, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut scores = vec![Vec::new(); KV_HEADS];
        for _ in 0..n {
            for scores in &mut scores {
                // Some elements have large means, as keys with a bias have.
                let mut row = |mean: f32| (0..HEAD_DIM).map(|i| random.normal() + mean * i as f32).collect();
                let (key, value): (Vec<f32>, Vec<f32>) = (row(20.0), row(0.3));
                let score = predicted_score(&key, &value, map);
                let norm = value.iter().map(|x| x * x).sum::<f32>().sqrt();
                scores.push((score - norm.ln()).exp());
                keys.extend(&key);
                values.extend(&value);
                rows.push(Row { key, value, score });
            }
        }
        // In two chunks.
        let half = KV_HEADS * HEAD_DIM * (n / 2);
        let chunk = |range: Range<usize>| [&keys[range.clone()], &values[range]].concat();
        let chunks = vec![chunk(0..half), chunk(half..keys.len())];
        (ScoredRows { scores, rows: chunks, parts: vec![0..n / 3, n / 3..n] }, rows)
    }

    #[test]
    fn a_map_is_found_from_the_scores_that_it_gives() {
        let mut random = Random(4);
        let mut map: Vec<f32> =
            (0..predictor_len(HEAD_DIM, HEAD_DIM)).map(|_| random.normal() / 10.0).collect();
        // The means, and no weight of the norms of keys, which large means make nearly constant.
        for (i, mean) in map.iter_mut().take(2 * HEAD_DIM).enumerate() {
            *mean = if i < HEAD_DIM { 20.0 * i as f32 } else { 0.3 * (i - HEAD_DIM) as f32 };
        }
        let texts = [400, 300].map(|n| text(&mut random, n, &map).0);
        let backends = Backends::host();
        let mut workspace = Workspace::new(&backends);
        let rows = HeadRows::of_texts(&texts, 1, KV_HEADS, HEAD_DIM);
        assert_eq!(rows.scores.len(), 700 - 2 * FIRST_ROWS);
        let found = rows.fit(&backends, &mut workspace, &InterruptFlag::new()).expect("a map");
        assert_eq!(found.len(), map.len());
        for Row { key, value, score } in text(&mut random, 100, &map).1 {
            let have = predicted_score(&key, &value, &found);
            assert!((have - score).abs() < 0.05, "{have}, not {score}");
        }
    }

    /// Rows that are all alike predict nothing but their score.
    #[test]
    fn rows_without_differences_get_the_mean_score() {
        let rows = HeadRows {
            keys: vec![3.0; 20 * HEAD_DIM],
            values: vec![1.0; 20 * HEAD_DIM],
            scores: (0..20).map(|i| i as f32).collect(),
            places: [vec![0.5; 20], vec![0.5; 20]],
        };
        let backends = Backends::host();
        let mut workspace = Workspace::new(&backends);
        let map = rows.fit(&backends, &mut workspace, &InterruptFlag::new()).expect("a map");
        let score = predicted_score(&[3.0; HEAD_DIM], &[1.0; HEAD_DIM], &map);
        assert!((score - 9.5).abs() < 1e-3, "{score}");
    }
}
