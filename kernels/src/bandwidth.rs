//! Measures the machine: bytes per second read from memory, and multiply-adds per second.

use std::time::Instant;

use crate::simd::{Isa, Kernel, Loop, Simd};

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

/// Independent chains of multiply-adds; the field is their length.
struct MultiplyAdd(usize);

impl Kernel for MultiplyAdd {
    type Out = (f32, usize);

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> (f32, usize) {
        // SAFETY: registers only.
        unsafe {
            // 12 chains hide the latency of 4 to 5 cycles at two multiply-adds per cycle.
            let mut sums = [S::splat(0.0); 12];
            let (a, b) = (S::splat(std::hint::black_box(0.999)), S::splat(std::hint::black_box(0.001)));
            for _ in Loop(0, self.0) {
                for sum in sums.iter_mut() {
                    *sum = S::fma(*sum, a, b);
                }
            }
            let mut total = sums[0];
            for i in Loop(1, 12) {
                total = S::add(total, sums[i]);
            }
            (S::sum(total), 2 * 12 * S::LANES * self.0)
        }
    }
}

/// The peak of floating-point operations per second of one thread, all operands in registers; a multiply-add
/// is two operations. Measures for about `seconds`.
pub fn multiply_add_peak(seconds: f64) -> f64 {
    let mut best: f64 = 0.0;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds {
        let run = Instant::now();
        // SAFETY: the best instruction set is present.
        let (sum, operations) = unsafe { Isa::best().enter(MultiplyAdd(200_000)) };
        std::hint::black_box(sum);
        best = best.max(operations as f64 / run.elapsed().as_secs_f64());
    }
    best
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
        assert!(multiply_add_peak(0.001) > 0.0);
    }
}
