//! Attention scopes of the heads of models with ALiBi positions (RazorAttention section 3.1, equation 2). A
//! head's logits fall by its slope with every token of distance, and its weights bound how much a key can
//! make up for. Beyond
//!
//! L_h = (2 s ||Wq Wk^T||_2 (||gamma||^2 + ||b||^2) - ln eps) / slope
//!
//! tokens, attention is below eps: L_h is the head's scope. So the windows follow from the weights, and the
//! model need not be run. `s` is the model's attention scale (the paper has none), `gamma` and `b` are the
//! weights and the bias of the norm before attention.
//!
//! Decisions: the paper's derivation assumes that the logits of a token with itself are not negative. It also
//! assumes that the square of an elementwise product is at most the product of the squares. Neither holds in
//! general, so its L_h is not a strict bound. [`ScopeOptions::rigorous`] gives a strict one: ||gamma||^2 +
//! ||b||^2 becomes (sqrt(n_embd) max|gamma| + ||b||)^2.
//!
//! Where queries and keys are clamped (MPT's `clip_qkv`), q·k is no product with Wq Wk^T, and may be larger than its
//! spectral norm allows. But clamping makes no vector longer. So a query is at most ||Wq||_2 times the length of the
//! input, and at most clamp sqrt(head_dim). The same holds for a key, and q·k is at most the product of both lengths.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use ggml::InterruptFlag;
pub use kernels::attention::alibi_slopes as slopes;
use models::gguf::TensorInfo;
use models::spec::{ModelSpec, ModelTensors};

use crate::heads::{HeadProfile, Provenance};
use crate::progress::Task;
use crate::{EngineError, Hint, Model, Progress};

/// How scopes are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScopeOptions {
    /// Attention, relative to the token's own, below which a token is outside the scope (0.001 in the paper).
    pub epsilon: f64,
    /// Whether the bound is strict. Scopes are then about twice as long.
    pub rigorous: bool,
}

impl Default for ScopeOptions {
    fn default() -> Self {
        ScopeOptions { epsilon: 1e-3, rigorous: false }
    }
}

/// The weights of a query head on which its scope depends.
#[derive(Clone, Copy, Debug)]
pub struct HeadWeights<'a> {
    /// Query matrix `[n_embd, head_dim]`: element i of a query is row i times the normed input.
    pub wq: &'a [f32],
    /// Key matrix `[n_embd, head_dim]`.
    pub wk: &'a [f32],
    /// Weights `[n_embd]` of the norm before attention.
    pub gamma: &'a [f32],
    /// Its bias `[n_embd]`; zero for an RMS norm.
    pub bias: &'a [f32],
    /// By how much the logits fall with every token of distance.
    pub slope: f64,
    /// Factor of q·k.
    pub scale: f64,
    /// The bound of the elements of queries and keys, if they are clamped.
    pub clamp: Option<f32>,
}

/// The scope of a query head, in tokens. NaN where the weights are.
pub fn scope(head: &HeadWeights, options: &ScopeOptions) -> f64 {
    let n_embd = head.gamma.len();
    let (queries, keys) = (Gram::new(head.wq, n_embd), Gram::new(head.wk, n_embd));
    let inputs = squared_input_bound(head.gamma, head.bias, options);
    scope_of_bound(product_bound(&queries, &keys, inputs, head.clamp), head.slope, head.scale, options)
}

/// The bound on the squared length of normed inputs: ||gamma||^2 + ||b||^2, or the strict one.
fn squared_input_bound(gamma: &[f32], bias: &[f32], options: &ScopeOptions) -> f64 {
    let squares = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    if options.rigorous {
        let largest = gamma.iter().map(|x| f64::from(x.abs())).fold(0.0, f64::max);
        ((gamma.len() as f64).sqrt() * largest + squares(bias).sqrt()).powi(2)
    } else {
        squares(gamma) + squares(bias)
    }
}

/// The bound on |q·k| for inputs of the squared length `inputs`. NaN where the matrices are.
fn product_bound(queries: &Gram, keys: &Gram, inputs: f64, clamp: Option<f32>) -> f64 {
    let Some(clamp) = clamp else { return spectral_norm(queries, keys) * inputs };
    let length = |matrix: &Gram| {
        let unclamped = spectral_norm(matrix, &Gram::identity(matrix.n)) * inputs.sqrt();
        let longest = f64::from(clamp) * (matrix.n as f64).sqrt();
        if unclamped > longest { longest } else { unclamped }
    };
    length(queries) * length(keys)
}

/// The scope of a head whose |q·k| is at most `bound`.
fn scope_of_bound(bound: f64, slope: f64, scale: f64, options: &ScopeOptions) -> f64 {
    (2.0 * scale * bound - options.epsilon.ln()) / slope
}

/// The scope of every KV head, `[layers][n_kv_heads]` in tokens: the longest of its query heads. A model of
/// 13B takes about a minute of processor time. Stops with an error when `interrupt` is set.
pub fn scopes(
    model: &Model,
    threads: usize,
    interrupt: &InterruptFlag,
    options: &ScopeOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Vec<f64>>, EngineError> {
    let (file, spec) = (model.gguf(), model.spec());
    let Some(max_bias) = spec.position_encoding.max_alibi_bias() else {
        return Err(EngineError::Setting {
            what: "windows from the weights".into(),
            reason: "the model has no ALiBi positions: its attention does not fall with the distance".into(),
            hint: Hint::GiveHeadProfile,
        });
    };
    let started = Instant::now();
    let group = spec.queries_per_kv_head();
    let slopes = slopes(spec.n_heads, max_bias);
    let mut scopes = Vec::new();
    for (layer, tensors) in ModelTensors::from_gguf(file, spec)?.layers.iter().enumerate() {
        interrupt.check()?;
        let vector = |info: &Option<TensorInfo>, otherwise: f32| match info {
            Some(info) => rows(info, file.data(info), 0, spec.n_embd),
            None => Ok(vec![otherwise; spec.n_embd]),
        };
        let (gamma, bias) = (vector(&tensors.attn_norm, 1.0)?, vector(&tensors.attn_norm_bias, 0.0)?);
        let Some(attention) = tensors.mixer.attention() else { continue };
        let Some(wk) = &attention.wk else { continue };
        // A bias of Q and K is one more column, whose input is 1.
        let inputs =
            squared_input_bound(&gamma, &bias, options) + f64::from(u8::from(spec.attention.qkv_bias));
        let scope = |kv_head: usize| -> Result<f64, EngineError> {
            let gram = |matrix: &TensorInfo, bias: &Option<TensorInfo>, head: usize| {
                let first = head * spec.head_dim;
                let rows = |info| rows(info, file.data(info), first, spec.head_dim);
                Ok::<_, EngineError>(match bias {
                    None => Gram::new(&rows(matrix)?, spec.n_embd),
                    Some(bias) => Gram::new(&with_column(&rows(matrix)?, &rows(bias)?), spec.n_embd + 1),
                })
            };
            let keys = gram(wk, &attention.bk, kv_head)?;
            let mut longest = 0.0;
            for (member, slope) in slopes[kv_head * group..][..group].iter().enumerate() {
                let queries = gram(&attention.wq, &attention.bq, kv_head * group + member)?;
                let bound = product_bound(&queries, &keys, inputs, spec.attention.clamp_qkv);
                let scope = scope_of_bound(bound, *slope, f64::from(spec.attention.scale), options);
                if scope > longest || scope.is_nan() {
                    longest = scope;
                }
            }
            Ok(longest)
        };
        scopes.push(in_threads(spec.n_kv_heads, threads, scope)?);
        let share = (layer + 1) as f64 / spec.n_layers as f64;
        progress(Progress {
            task: Task::ComputeWindows,
            share,
            size: 0,
            elapsed: started.elapsed(),
            left: None,
        });
    }
    Ok(scopes)
}

/// The scopes of all KV heads as a head profile.
pub fn profile(
    model: &Model,
    threads: usize,
    interrupt: &InterruptFlag,
    options: &ScopeOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<HeadProfile, EngineError> {
    let fingerprint = Some(model.identify(threads, interrupt, progress)?.to_owned());
    let provenance = Provenance { fingerprint, ..provenance(model.spec(), options) };
    let scopes = scopes(model, threads, interrupt, options, progress);
    model.gguf().check_complete()?; // before errors in the weights, which may be zeros
    let scopes = scopes?;
    Ok(HeadProfile::from_scopes(model.head_shape()?, &scopes, provenance)?)
}

/// The provenance of profiles of a model's scopes, without its fingerprint.
pub fn provenance(spec: &ModelSpec, options: &ScopeOptions) -> Provenance {
    let mut provenance = Provenance { source: "weights".into(), ..Provenance::default() };
    provenance.parameters.insert("eps".into(), options.epsilon.into());
    provenance.parameters.insert("rigorous".into(), options.rigorous.into());
    if let Some(clamp) = spec.attention.clamp_qkv {
        provenance.parameters.insert("clamp".into(), clamp.into());
    }
    provenance
}

/// A matrix with one more column: each row, then its element of `column`.
fn with_column(matrix: &[f32], column: &[f32]) -> Vec<f32> {
    let rows = matrix.chunks_exact((matrix.len() / column.len().max(1)).max(1));
    rows.zip(column).flat_map(|(row, last)| row.iter().chain([last])).copied().collect()
}

/// Rows `first .. first + n` of a matrix, or elements of a vector, as floats.
fn rows(info: &TensorInfo, bytes: &[u8], first: usize, n: usize) -> Result<Vec<f32>, EngineError> {
    let wrong = || EngineError::Setting {
        what: format!("tensor `{}`", info.name),
        reason: format!("{} cannot be turned into floats", info.ty.name()),
        hint: Hint::OtherTensorType { cpu_can: false },
    };
    let ty = ggml::Type::from_id(info.ty.id()).ok_or_else(wrong)?;
    let width = if info.dims.len() > 1 { info.dims[0] as usize } else { 1 };
    let row = ty.row_bytes(width);
    let mut floats = vec![0.0; n * width];
    let converted =
        bytes.get(first * row..(first + n) * row).is_some_and(|bytes| ty.dequantize(bytes, &mut floats));
    if converted { Ok(floats) } else { Err(wrong()) }
}

/// `work(0)`, `work(1)`, … `work(n - 1)`, computed by `threads` threads, or by those that can be started.
fn in_threads(
    n: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<f64, EngineError> + Sync,
) -> Result<Vec<f64>, EngineError> {
    let results: Vec<OnceLock<Result<f64, EngineError>>> = (0..n).map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let take_turns = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(result) = results.get(i) else { return };
            result.get_or_init(|| work(i));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(n) {
            if thread::Builder::new().spawn_scoped(scope, take_turns).is_err() {
                break;
            }
        }
        take_turns();
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// The window that covers a scope: the last ceil(scope) tokens, the current one included. `context` where the
/// scope reaches it or is NaN.
pub fn window(scope: f64, context: usize) -> usize {
    if scope < context as f64 { scope.ceil().max(1.0) as usize } else { context }
}

/// The window of each head of a layer, at least its scope. There are at most `max` different windows, chosen
/// such that the heads together keep as few rows as possible. Heads whose window is `context` keep
/// everything.
pub(crate) fn window_classes(scopes: &[f64], context: usize, max: usize) -> Vec<usize> {
    /// The best division of the shortest windows into some number of classes.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    struct Division {
        rows: usize,
        /// Where its last class begins.
        begin: usize,
    }
    let windows: Vec<usize> = scopes.iter().map(|scope| window(*scope, context)).collect();
    let mut sorted = windows.clone();
    sorted.sort_unstable();
    let n = sorted.len();
    // best[c][i]: the division of the i shortest windows into at most c + 1 classes.
    let mut best: Vec<Vec<Division>> = Vec::new();
    for class in 0..max.max(1) {
        let divide = |i: usize| {
            let rows_before = |begin: usize| match (class, begin) {
                (_, 0) => Some(0),
                (0, _) => None,
                _ => Some(best[class - 1][begin].rows),
            };
            // A class costs its longest window for each of its heads.
            let division = |begin: usize| {
                Some(Division { rows: rows_before(begin)? + sorted[i - 1] * (i - begin), begin })
            };
            (0..i).filter_map(division).min().unwrap_or(Division { rows: 0, begin: 0 })
        };
        let divisions = (0..=n).map(divide).collect();
        best.push(divisions);
    }
    let mut ends = Vec::new();
    let mut left = n;
    for divisions in best.iter().rev() {
        if left > 0 {
            ends.push(sorted[left - 1]);
            left = divisions[left].begin;
        }
    }
    let smallest =
        |window: &usize| ends.iter().filter(|end| *end >= window).min().copied().unwrap_or(context);
    windows.iter().map(smallest).collect()
}

/// W^T W of a head's matrix `[n_embd, head_dim]`: symmetric, `[n, n]`.
struct Gram {
    n: usize,
    products: Vec<f64>,
}

impl Gram {
    fn new(matrix: &[f32], n_embd: usize) -> Gram {
        /// Elements of each row that are multiplied at a time, so that these parts of all rows stay in the
        /// cache.
        const BLOCK_ELEMENTS: usize = 256;
        let matrix: Vec<f64> = matrix.iter().map(|x| f64::from(*x)).collect();
        let rows: Vec<&[f64]> = matrix.chunks_exact(n_embd.max(1)).collect();
        let n = rows.len();
        let mut products = vec![0.0; n * n];
        for first in (0..n_embd).step_by(BLOCK_ELEMENTS) {
            let block = first..n_embd.min(first + BLOCK_ELEMENTS);
            for i in 0..n {
                for j in 0..=i {
                    products[i * n + j] += dot(&rows[i][block.clone()], &rows[j][block.clone()]);
                }
            }
        }
        for i in 0..n {
            for j in 0..i {
                products[j * n + i] = products[i * n + j];
            }
        }
        Gram { n, products }
    }

    /// That of a matrix with orthonormal columns.
    fn identity(n: usize) -> Gram {
        Gram { n, products: (0..n * n).map(|at| f64::from(u8::from(at % (n + 1) == 0))).collect() }
    }

    /// The lower triangular L with L L^T = this matrix plus a small diagonal, so that rounding does not make
    /// pivots negative.
    fn cholesky(&self) -> Vec<f64> {
        let n = self.n;
        let trace: f64 = (0..n).map(|i| self.products[i * n + i]).sum();
        let mut l = self.products.clone();
        for j in 0..n {
            l[j * n + j] += 1e-13 * trace;
            for k in 0..j {
                let factor = l[j * n + k];
                for i in j..n {
                    l[i * n + j] -= l[i * n + k] * factor;
                }
            }
            let pivot = l[j * n + j].sqrt();
            for i in j..n {
                l[i * n + j] = if pivot == 0.0 { 0.0 } else { l[i * n + j] / pivot };
            }
            l[j * n + j + 1..(j + 1) * n].fill(0.0);
        }
        l
    }
}

/// The largest singular value of Wq Wk^T, from W^T W of both. With Wq^T Wq = L L^T its square is the largest
/// eigenvalue of L^T (Wk^T Wk) L. (L^T is the R of a QR decomposition of Wq, up to signs. Computing it this
/// way squares the condition number. That would spoil small singular values; the largest keeps at least 10
/// digits.)
fn spectral_norm(q: &Gram, k: &Gram) -> f64 {
    let n = q.n;
    debug_assert_eq!(n, k.n);
    let l = q.cholesky();
    let transposed: Vec<f64> = (0..n * n).map(|at| l[at % n * n + at / n]).collect();
    let mut b = product(&product(&transposed, &k.products, n), &l, n);

    // Norms of powers: for symmetric B without negative eigenvalues, |B^m|^(1/m) falls to the largest
    // eigenvalue as m grows. The Frobenius norm exceeds it by at most a factor of n^(1/2m). This needs no
    // start vector and no gap between eigenvalues.
    let (mut log, mut share) = (0.0, 1.0);
    loop {
        let norm = dot(&b, &b).sqrt();
        if norm == 0.0 {
            return 0.0;
        }
        log += share * norm.ln();
        let rest = share * (n as f64).ln();
        // The error left is at most half of `rest`, and 0 where one eigenvalue has outgrown the others.
        if rest <= 1e-11 || (share < 1.0 && norm > 1.0 - 1e-15) || norm.is_nan() {
            return (log / 2.0).exp();
        }
        b.iter_mut().for_each(|x| *x /= norm);
        b = product(&b, &b, n);
        share /= 2.0;
    }
}

/// a · b for square matrices `[n, n]` in row-major order.
fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    let mut c = vec![0.0; n * n];
    for (a, c) in a.chunks_exact(n.max(1)).zip(c.chunks_exact_mut(n.max(1))) {
        for (factor, b) in a.iter().zip(b.chunks_exact(n.max(1))) {
            for (c, b) in c.iter_mut().zip(b) {
                *c += factor * b;
            }
        }
    }
    c
}

/// Adds up eight sums at a time, which the compiler keeps in vector registers.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn norm_of(wq: &[f32], wk: &[f32], n_embd: usize) -> f64 {
        spectral_norm(&Gram::new(wq, n_embd), &Gram::new(wk, n_embd))
    }

    /// Wq = (3 e0, 2 e1), Wk = (1 e0, 5 e1): the product is diag(3, 10, 0).
    #[test]
    fn spectral_norms_are_those_computed_by_hand() {
        let (wq, wk) = ([3.0, 0.0, 0.0, 0.0, 2.0, 0.0], [1.0, 0.0, 0.0, 0.0, 5.0, 0.0]);
        assert!((norm_of(&wq, &wk, 3) - 10.0).abs() < 1e-9);
        // Equal singular values, linearly dependent columns, nothing at all.
        let identity = [1.0, 0.0, 0.0, 1.0];
        assert!((norm_of(&identity, &identity, 2) - 1.0).abs() < 1e-9);
        assert!((norm_of(&[1.0, 2.0, 1.0, 2.0], &identity, 2) - 10f64.sqrt()).abs() < 1e-9);
        assert_eq!(norm_of(&[0.0; 4], &identity, 2), 0.0);
        assert_eq!(norm_of(&identity, &[0.0; 4], 2), 0.0);
        assert!(norm_of(&[f32::NAN; 4], &identity, 2).is_nan());
        assert!((norm_of(&[1e-15; 4], &[1e15; 4], 2) - 4.0).abs() < 1e-6, "very small and very large");
    }

    /// sigma 10, ||gamma||^2 = 9 + 16, slope 1/2, eps e^-3: (2 * 10 * 25 + 3) * 2; strictly 3 * 4^2 instead
    /// of 25.
    #[test]
    fn scopes_are_those_computed_by_hand() {
        let head = HeadWeights {
            wq: &[3.0, 0.0, 0.0, 0.0, 2.0, 0.0],
            wk: &[1.0, 0.0, 0.0, 0.0, 5.0, 0.0],
            gamma: &[3.0, -4.0, 0.0],
            bias: &[0.0; 3],
            slope: 0.5,
            scale: 1.0,
            clamp: None,
        };
        let options = ScopeOptions { epsilon: (-3f64).exp(), rigorous: false };
        assert!((scope(&head, &options) - 1006.0).abs() < 1e-6);
        let rigorous = ScopeOptions { rigorous: true, ..options };
        assert!((scope(&head, &rigorous) - 2.0 * (960.0 + 3.0)).abs() < 1e-6);
    }

    /// Wq = (10 e0, e0), Wk = (e0, -10 e0): without a clamp q·k is 0. Clamped to 1, inputs e0 and e0 / 10 give (1, 1)
    /// and (0.1, -1). Both matrices have the norm sqrt(101), so inputs of length 2 reach the longest clamped vectors.
    #[test]
    fn clamped_products_have_a_bound_of_their_own() {
        let head = HeadWeights {
            wq: &[10.0, 0.0, 1.0, 0.0],
            wk: &[1.0, 0.0, -10.0, 0.0],
            gamma: &[2.0, 0.0],
            bias: &[0.0; 2],
            slope: 1.0,
            scale: 1.0,
            clamp: None,
        };
        let options = ScopeOptions { epsilon: 1.0, rigorous: false };
        assert!(scope(&head, &options) < 0.01);
        let clamped = |clamp| scope(&HeadWeights { clamp: Some(clamp), ..head }, &options);
        assert!((clamped(1.0) - 2.0 * 2.0).abs() < 1e-9, "two elements of 1");
        assert!((clamped(3.0) - 2.0 * 2.0 * 9.0).abs() < 1e-9);
        assert!((clamped(1e6) - 2.0 * 101.0 * 4.0).abs() < 1e-6, "a clamp that is never reached");
        assert!(scope(&HeadWeights { wk: &[f32::NAN; 4], clamp: Some(1.0), ..head }, &options).is_nan());
    }

    #[test]
    fn a_window_covers_its_scope() {
        assert_eq!(
            [0.2, 1.0, 52.1, 99.0, 99.5, 1e300].map(|scope| window(scope, 100)),
            [1, 1, 53, 99, 100, 100]
        );
        assert_eq!((window(f64::NAN, 100), window(f64::INFINITY, 100), window(-5.0, 100)), (100, 100, 1));
    }

    #[test]
    fn window_classes_keep_as_few_rows_as_possible() {
        let scopes = [10.0, 500.0, 12.0, 9.5, 480.0, 2000.0];
        assert_eq!(window_classes(&scopes, 1000, 3), [12, 500, 12, 12, 500, 1000]);
        assert_eq!(window_classes(&scopes, 1000, 2), [12, 1000, 12, 12, 1000, 1000]);
        assert_eq!(window_classes(&scopes, 1000, 1), [1000; 6]);
        assert_eq!(window_classes(&scopes, 1000, 9), [10, 500, 12, 10, 480, 1000]);
        assert_eq!(window_classes(&scopes, 1000, 0), [1000; 6]);
        assert_eq!(window_classes(&[7.0, 7.0], 1000, 3), [7, 7]);
        assert_eq!(window_classes(&[], 1000, 3), [0; 0]);
        // Against every division into classes: three classes of eight windows.
        let scopes = [3.0, 90.0, 14.0, 15.0, 92.0, 65.0, 35.0, 89.0];
        let rows = |windows: &[usize]| windows.iter().sum::<usize>();
        let mut best = usize::MAX;
        for (a, b) in scopes.iter().flat_map(|a| scopes.map(|b| (*a, b))) {
            let windows =
                scopes.map(|s| [a, b, 92.0].into_iter().filter(|end| *end >= s).fold(92.0, f64::min));
            best = best.min(rows(&windows.map(|window| window as usize)));
        }
        assert_eq!(rows(&window_classes(&scopes, 1000, 3)), best);
    }
}
