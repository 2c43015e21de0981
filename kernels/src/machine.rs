//! Measures the machine: bytes per second read from memory, and multiply-adds per second. Speeds can then be told as
//! shares of what it can do.

use std::time::Instant;

#[cfg(target_arch = "aarch64")]
use crate::product::i8mm;
use crate::simd::{ByteKernel, ByteSimd, Isa, Kernel, Loop, Simd};

/// Floats of a page. The sum alternates between two streams page by page.
const PAGE: usize = 1024;

/// Adds up two slices of equal length, a multiple of [`PAGE`], page by page in alternation.
struct Sum<'a>(&'a [f32], &'a [f32]);

impl Kernel for Sum<'_> {
    type Out = f32;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f32 {
        // SAFETY: every address is inside one of the slices.
        unsafe {
            let mut sums = [S::splat(0.0); 4];
            let step = 4 * S::LANES;
            for page in Loop(0, self.0.len() / PAGE) {
                for half in [self.0, self.1] {
                    let p = half.as_ptr().add(page * PAGE);
                    for i in Loop(0, PAGE / step) {
                        for j in Loop(0, 4) {
                            sums[j] = S::add(sums[j], S::load(p.add(i * step + j * S::LANES)));
                        }
                    }
                }
            }
            S::sum(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])))
        }
    }
}

/// Reads the whole slice once, as fast as one thread can. Returns the sum, so that nothing is optimised away.
/// It alternates between two halves of the slice, page by page: the prefetchers of current processors then
/// work on both, which is up to a third faster than one ascending stream.
pub fn read_all(data: &[f32]) -> f32 {
    let half = data.len() / 2 / PAGE * PAGE;
    let (a, rest) = data.split_at(half);
    let (b, rest) = rest.split_at(half);
    // SAFETY: the best instruction set is present.
    unsafe { Isa::best().enter(Sum(a, b)) + rest.iter().sum::<f32>() }
}

/// Memory for measurements of read bandwidth.
pub struct Bandwidth {
    data: Vec<f32>,
}

impl Bandwidth {
    /// Allocates `bytes` of memory. It should be several times the last-level cache: 256 MiB is enough for
    /// most machines.
    pub fn new(bytes: usize) -> Bandwidth {
        // Written, because untouched pages would all map to the same page of zeros.
        Bandwidth { data: (0..bytes / 4).map(|i| (i % 7) as f32).collect() }
    }

    /// Bytes per second of one pass of `threads` threads over the memory, each over its own part.
    pub fn measure(&self, threads: usize) -> f64 {
        let threads = threads.max(1);
        let part = self.data.len().div_ceil(threads).max(1);
        let start = Instant::now();
        let sum: f32 = std::thread::scope(|scope| {
            let others: Vec<_> =
                self.data.chunks(part).skip(1).map(|data| scope.spawn(move || read_all(data))).collect();
            let own = read_all(self.data.get(..part.min(self.data.len())).unwrap_or(&[]));
            own + others.into_iter().map(|t| t.join().unwrap_or(0.0)).sum::<f32>()
        });
        std::hint::black_box(sum);
        (self.data.len() * 4) as f64 / start.elapsed().as_secs_f64()
    }

    /// The best of `passes` measurements: other programs can only slow a measurement down.
    pub fn best(&self, threads: usize, passes: usize) -> f64 {
        (0..passes.max(1)).map(|_| self.measure(threads)).fold(0.0, f64::max)
    }
}

/// Chains of multiply-adds: as many hide the latency of 4 to 5 cycles at two multiply-adds per cycle.
const CHAINS: usize = 12;

/// Independent chains of multiply-adds; the field is their length.
struct MultiplyAdd(usize);

impl Kernel for MultiplyAdd {
    type Out = usize;

    /// Operations.
    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> usize {
        // SAFETY: registers only.
        unsafe {
            let mut sums = [S::splat(0.0); CHAINS];
            let (a, b) = (S::splat(std::hint::black_box(0.999)), S::splat(std::hint::black_box(0.001)));
            for _ in Loop(0, self.0) {
                for sum in sums.iter_mut() {
                    *sum = S::fma(*sum, a, b);
                }
            }
            std::hint::black_box(sums);
            2 * CHAINS * S::LANES * self.0
        }
    }
}

impl ByteKernel for MultiplyAdd {
    type Out = usize;

    /// Operations, on bytes.
    #[inline(always)]
    unsafe fn run<S: ByteSimd>(self) -> usize {
        // SAFETY: registers only.
        unsafe {
            let mut sums = [S::zeros(); CHAINS];
            let (a, b) = (std::hint::black_box([S::zeros(); 2]), std::hint::black_box([S::zeros(); 2]));
            for _ in Loop(0, self.0) {
                for sum in sums.iter_mut() {
                    *sum = S::multiply_two(a, b, *sum);
                }
            }
            std::hint::black_box(sums);
            2 * CHAINS * 8 * S::LANES * self.0
        }
    }
}

/// As [`MultiplyAdd`], with ARM's matrix-multiply instructions (i8mm). One multiplies twice as many bytes as a dot product.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon,i8mm")]
fn multiply_matrices(steps: usize) -> usize {
    use std::arch::aarch64::{vdupq_n_s32, vdupq_n_u8};

    let mut sums = [vdupq_n_s32(0); 2 * CHAINS];
    let [a, b] = std::hint::black_box([vdupq_n_u8(0); 2]);
    for _ in Loop(0, steps) {
        for sum in sums.iter_mut() {
            *sum = i8mm::add(*sum, a, b);
        }
    }
    std::hint::black_box(sums);
    // Four sums of eight products each.
    2 * sums.len() * 4 * 8 * steps
}

/// Operations per second with all operands in registers; a multiply-add is two operations. No program computes more.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic {
    /// In f32.
    pub floats: f64,
    /// On bytes, where the processor multiplies them ([`Isa::has_bytes`]).
    pub bytes: Option<f64>,
}

impl Arithmetic {
    /// Measures so many threads at once, for about `seconds` seconds each kind.
    pub fn measure(threads: usize, seconds: f64) -> Arithmetic {
        let isa = Isa::best();
        // SAFETY: the best instruction set is present.
        let floats = || unsafe { isa.enter(MultiplyAdd(LENGTH)) };
        // SAFETY: as above, and it has bytes where this is called.
        let bytes = || unsafe { isa.enter_with_bytes(MultiplyAdd(LENGTH)) };
        let bytes = isa.has_bytes().then(|| peak(threads, seconds, bytes));
        #[cfg(target_arch = "aarch64")]
        let bytes = bytes.map(|bytes| match i8mm::is_present() {
            // SAFETY: the instructions are there.
            true => bytes.max(peak(threads, seconds, || unsafe { multiply_matrices(LENGTH) })),
            false => bytes,
        });
        Arithmetic { floats: peak(threads, seconds, floats), bytes }
    }

    /// Those of the fastest kind.
    pub fn best(&self) -> f64 {
        self.bytes.unwrap_or(0.0).max(self.floats)
    }
}

/// Length of chains, which take a few tenths of a millisecond.
const LENGTH: usize = 200_000;

/// The operations per second of all threads together, each with its best run of a function, which tells how many it did.
fn peak(threads: usize, seconds: f64, operations: impl Fn() -> usize + Sync) -> f64 {
    let of_thread = || {
        let (start, mut best) = (Instant::now(), 0f64);
        while start.elapsed().as_secs_f64() < seconds {
            let run = Instant::now();
            let operations = operations();
            best = best.max(operations as f64 / run.elapsed().as_secs_f64());
        }
        best
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(of_thread)).collect();
        of_thread() + others.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum::<f64>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_all_numbers() {
        for len in [0, 1, 100, 2047, 2048, 2049, 5 * 2048 + 77] {
            let data: Vec<f32> = (0..len).map(|i| (i % 5) as f32).collect();
            assert_eq!(read_all(&data), data.iter().sum::<f32>(), "{len}");
        }
    }

    #[test]
    fn speeds_are_positive() {
        let memory = Bandwidth::new(1 << 16);
        for threads in [0, 1, 3] {
            assert!(memory.best(threads, 2) > 0.0);
        }
        assert!(Bandwidth::new(0).measure(2) >= 0.0);
        for threads in [1, 2] {
            let arithmetic = Arithmetic::measure(threads, 0.001);
            assert!(arithmetic.floats > 0.0 && arithmetic.best() >= arithmetic.floats);
            assert_eq!(arithmetic.bytes.is_some(), Isa::best().has_bytes());
        }
    }
}
