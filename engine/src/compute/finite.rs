//! Whether computed numbers are finite. What the cause is if they are not, `session/not_finite.rs` finds out.

use ggml::{Context, Tensor};

use crate::EngineError;

/// Whether none of the numbers is infinite or NaN.
pub(crate) fn is_finite(numbers: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    // All ones in the exponent are infinity or NaN. Without an early exit, the loop is vectorised.
    numbers.iter().fold(0, |found, x| found | u32::from(x.to_bits() & EXPONENT == EXPONENT)) == 0
}

/// An error, still without the origin, unless all numbers are finite.
pub(crate) fn check(numbers: &[f32]) -> Result<(), EngineError> {
    if is_finite(numbers) { Ok(()) } else { Err(EngineError::NotFinite { origin: None }) }
}

/// A number for each column of `x` `[m, n]`: 0 if the column is finite, else NaN: `[n]`. It is read after the computation, when
/// the memory of `x` has long been used for something else.
pub(crate) fn probe(ctx: &Context, x: &Tensor) -> Tensor {
    // Infinity and NaN times 0 are NaN, and so is a sum with NaN. On a CPU a product takes a tenth of the time of a sum.
    ctx.mul_mat(x, &ctx.constant_f32(&vec![0.0; x.dim(0)])).output()
}

#[cfg(test)]
mod tests {
    use ggml::{Backend, GraphAllocator, Type};

    use super::*;

    #[test]
    fn infinities_and_nan_are_found_anywhere() {
        let mut numbers = vec![f32::MAX; 1000];
        numbers[3] = f32::MIN_POSITIVE / 2.0;
        assert!(is_finite(&numbers) && is_finite(&[]) && check(&numbers).is_ok());
        for wrong in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [0, 500, 999] {
                let kept = std::mem::replace(&mut numbers[at], wrong);
                assert!(!is_finite(&numbers) && check(&numbers).is_err(), "{wrong} at {at}");
                numbers[at] = kept;
            }
        }
    }

    #[test]
    fn a_probe_tells_which_columns_are_not_finite() {
        const ROWS: usize = 37;
        let backend = Backend::cpu(1).expect("starts");
        let ctx = Context::new(8);
        let x = ctx.input("x", Type::F32, [ROWS, 6]);
        let probe = probe(&ctx, &x);
        let mut allocator = GraphAllocator::new(&backend.buffer_type());
        let graph = allocator.prepare(ctx.graph(&[&probe]).expect("a graph")).expect("memory");
        let mut numbers = vec![f32::MAX; 6 * ROWS];
        let wrong = [(1, f32::NAN), (2, f32::INFINITY), (4, f32::NEG_INFINITY)];
        wrong.iter().for_each(|(column, number)| numbers[column * ROWS + 8 * column] = *number);
        x.write(0, &numbers).expect("written");
        backend.compute(&graph).expect("computed");
        let found: Vec<bool> = probe.to_vec::<f32>().expect("read").iter().map(|x| x.is_finite()).collect();
        assert_eq!(found, [true, false, false, true, false, true]);
    }
}
