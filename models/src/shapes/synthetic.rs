//! Synthetic weights: valid random blocks of every type that file types use, scaled so that activations stay
//! near 1.
//!
//! Up to a megabyte of random blocks is generated for each tensor. The tensor is then filled with runs that
//! start at random blocks of it. This is as fast as copying memory, and neighbouring rows still differ.

use std::io::{self, Write};

use half::f16;

use super::{ModelShape, file_type::ROUTER};
use crate::gguf::write::TensorDecl;
use crate::random::Random;
use crate::types::TensorType;

/// Maximum number of random bytes generated for a tensor.
const POOL_BYTES: usize = 1 << 20;
/// Approximate number of bytes copied at once.
const RUN_BYTES: usize = 48 << 10;

/// Writes the data of one tensor; `written` is called with the number of bytes after each write.
pub(super) fn write_tensor(
    shape: &ModelShape,
    tensor: &TensorDecl,
    out: &mut dyn Write,
    written: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let Some(total) = tensor.bytes() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("tensor {} has no size", tensor.name),
        ));
    };
    if tensor.ty == TensorType::F32 && !tensor.name.ends_with(ROUTER) {
        let values = vector(shape, tensor);
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        out.write_all(&bytes)?;
        written(total);
        return Ok(());
    }
    let mut random = named(&tensor.name);
    let block = tensor.ty.block_bytes() as usize;
    let total = total as usize; // fits on 64-bit machines
    let pool = random_blocks(tensor.ty, deviation(shape, tensor), total.min(POOL_BYTES), &mut random);
    let run = (RUN_BYTES / block * block).min(pool.len());
    let starts = (pool.len() - run) / block + 1;
    let mut left = total;
    while left > 0 {
        let start = random.below(starts) * block;
        let run = &pool[start..start + run.min(left)];
        out.write_all(run)?;
        written(run.len() as u64);
        left -= run.len();
    }
    Ok(())
}

/// The elements of an f32 tensor: norms are 1, biases 0, decays -1, RoPE factors those of Llama 3.1.
fn vector(shape: &ModelShape, tensor: &TensorDecl) -> impl Iterator<Item = f32> {
    let factor = shape.rope_factor.filter(|_| tensor.name == "rope_freqs.weight");
    let constant = match tensor.name.rsplit('.').next() {
        Some("bias") => 0.0,
        // A decay.
        Some("ssm_a") => -1.0,
        _ => 1.0,
    };
    let base = f64::from(shape.rope_base);
    let n_dims = shape.head_dim as f64;
    (0..tensor.dims.iter().product()).map(move |i| match factor {
        Some(factor) => rope_divisor(base.powf(-2.0 * i as f64 / n_dims), factor.into()) as f32,
        None => constant,
    })
}

/// The factor by which Llama 3.1 divides a RoPE frequency (radians per token). Wavelengths below a quarter of
/// the original training's 8192 tokens are unchanged (1). Those above 8192 tokens are divided by `factor`,
/// with a linear ramp between.
fn rope_divisor(frequency: f64, factor: f64) -> f64 {
    const ORIGINAL_CONTEXT: f64 = 8192.0;
    const LOW: f64 = 1.0;
    const HIGH: f64 = 4.0;
    let waves = ORIGINAL_CONTEXT * frequency / std::f64::consts::TAU;
    let unchanged = ((waves - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
    1.0 / ((1.0 - unchanged) / factor + unchanged)
}

/// Standard deviation of a matrix's elements. With 1 / sqrt(n_in), activations of unit scale stay at unit
/// scale. Matrices that write to the residual stream have a smaller deviation, so that the stream stays near
/// 1 after all layers. Embeddings have 1, because they are looked up and not multiplied, unless they are also
/// the output matrix.
fn deviation(shape: &ModelShape, tensor: &TensorDecl) -> f32 {
    let n_in = tensor.dims[0] as f32;
    let branches = 2.0 * shape.n_layers as f32;
    match tensor.name.rsplit('.').nth(1) {
        Some("token_embd") if !shape.tied => 1.0,
        Some("attn_output" | "ffn_down" | "ffn_down_exps") => 1.0 / (n_in * branches).sqrt(),
        _ => 1.0 / n_in.sqrt(),
    }
}

/// Random blocks of `ty`, as many as fit in `bytes`, whose elements have mean 0 and this standard deviation.
fn random_blocks(ty: TensorType, deviation: f32, bytes: usize, random: &mut Random) -> Vec<u8> {
    let block = ty.block_bytes() as usize;
    let mut pool = vec![0; bytes / block * block];
    fill(random, &mut pool);
    for block in pool.chunks_exact_mut(block) {
        match ty {
            TensorType::F32 => uniform_f32(block, deviation),
            TensorType::F16 => uniform_f16(block, deviation),
            TensorType::MXFP4 => block[0] = mxfp4_scale(deviation),
            TensorType::Q8_0 => q8_0(block, deviation, random),
            TensorType::Q4_0 => q4_0_or_q5_0(block, 16, deviation, random),
            TensorType::Q5_0 => q4_0_or_q5_0(block, 32, deviation, random),
            TensorType::Q5_1 => q5_1(block, deviation),
            TensorType::Q4_K => q4_k_or_q5_k(block, 16, deviation, random),
            TensorType::Q5_K => q4_k_or_q5_k(block, 32, deviation, random),
            TensorType::Q6_K => q6_k(block, deviation, random),
            // No file type uses other types. Zeros are valid in all of them.
            _ => block.fill(0),
        }
    }
    pool
}

/// Standard deviation of the uniform distribution over the integers 0 to n - 1.
fn uniform_deviation(n: u32) -> f32 {
    let n = n as f32;
    ((n * n - 1.0) / 12.0).sqrt()
}

fn put_f16(bytes: &mut [u8], at: usize, value: f32) {
    bytes[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

/// One f16, uniformly distributed around 0: the 16 random bits as an integer, shifted and scaled.
fn uniform_f16(block: &mut [u8], deviation: f32) {
    let bits = f32::from(u16::from_le_bytes([block[0], block[1]]));
    put_f16(block, 0, (bits - 32767.5) / uniform_deviation(1 << 16) * deviation);
}

/// One f32, from the first 16 random bits as [`uniform_f16`].
fn uniform_f32(block: &mut [u8], deviation: f32) {
    let bits = f32::from(u16::from_le_bytes([block[0], block[1]]));
    block.copy_from_slice(&((bits - 32767.5) / uniform_deviation(1 << 16) * deviation).to_le_bytes());
}

/// The scale of a block of mxfp4, an exponent with bias 127, with which the deviation is within a factor of sqrt(2)
/// of this one. The elements are 0, 0.5, 1, 1.5, 2, 3, 4 or 6 times the scale, with either sign.
fn mxfp4_scale(deviation: f32) -> u8 {
    const ELEMENTS_RMS: f32 = 2.926;
    (127.0 + (deviation / ELEMENTS_RMS).log2().round()) as u8
}

/// f16 scale, 32 signed bytes. -128 is replaced, because quantization never produces it.
fn q8_0(block: &mut [u8], deviation: f32, random: &mut Random) {
    put_f16(block, 0, sign(random) * deviation / uniform_deviation(255));
    for value in &mut block[2..] {
        *value = (*value as i8).max(-127) as u8;
    }
}

/// q4_0 (`n` = 16) and q5_0 (`n` = 32): f16 scale and 32 integers from -n / 2 to n / 2 - 1. Their mean is
/// -1/2; scales of random sign make the mean of the elements 0.
fn q4_0_or_q5_0(block: &mut [u8], n: u32, deviation: f32, random: &mut Random) {
    put_f16(block, 0, sign(random) * deviation / uniform_deviation(n));
}

/// f16 scale, f16 minimum, 32 integers of 5 bits.
fn q5_1(block: &mut [u8], deviation: f32) {
    let step = deviation / uniform_deviation(32);
    put_f16(block, 0, step);
    put_f16(block, 2, -15.5 * step);
}

/// q4_K (`n` = 16) and q5_K (`n` = 32). A block has an f16 scale and minimum, the 6-bit scales and minima of
/// 8 sub-blocks packed into 12 bytes, and then integers below `n`.
/// An element is scale * sub-scale * integer - minimum * sub-minimum.
fn q4_k_or_q5_k(block: &mut [u8], n: u32, deviation: f32, random: &mut Random) {
    let step = deviation / uniform_deviation(n) / SUB_SCALE_RMS;
    put_f16(block, 0, step);
    put_f16(block, 2, step * (n - 1) as f32 / 2.0);
    // The minimum of each sub-block equals its scale, so that every sub-block has mean 0.
    let subs: [u8; 8] = std::array::from_fn(|_| sub_scale(random));
    let packed = &mut block[4..16];
    for i in 0..4 {
        let (low, high) = (subs[i], subs[i + 4]);
        packed[i] = low | (high >> 4) << 6;
        packed[i + 4] = low | (high >> 4) << 6;
        packed[i + 8] = (high & 15) | (high & 15) << 4;
    }
}

/// Low bits, high bits, 16 signed sub-scales, f16 scale; integers from -32 to 31.
fn q6_k(block: &mut [u8], deviation: f32, random: &mut Random) {
    for scale in &mut block[192..208] {
        let sub = sub_scale(random) as i8;
        *scale = if sign(random) < 0.0 { -sub } else { sub } as u8;
    }
    put_f16(block, 208, deviation / uniform_deviation(64) / SUB_SCALE_RMS);
}

/// Range of the sub-blocks' scales.
const SUB_SCALES: std::ops::Range<u8> = 24..40;
/// Root mean square of the numbers in [`SUB_SCALES`].
const SUB_SCALE_RMS: f32 = 31.836;

/// Random numbers for a tensor of this name (FNV-1a): the same in every file and on every machine.
fn named(name: &str) -> Random {
    Random(name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    }))
}

/// 1 or -1.
fn sign(random: &mut Random) -> f32 {
    if random.bits() & 1 == 0 { 1.0 } else { -1.0 }
}

fn sub_scale(random: &mut Random) -> u8 {
    SUB_SCALES.start + random.below(SUB_SCALES.len()) as u8
}

fn fill(random: &mut Random, bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.bits().to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(block: &[u8], at: usize) -> f32 {
        f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
    }

    /// Decodes a block element by element, written from the descriptions of the formats.
    fn decode(ty: TensorType, block: &[u8]) -> Vec<f32> {
        let bit = |bytes: &[u8], i: usize| f32::from(bytes[i / 8] >> (i % 8) & 1);
        let nibble = |bytes: &[u8], i: usize| f32::from(bytes[i % 16] >> (i / 16 * 4) & 15);
        match ty {
            TensorType::F32 => vec![f32::from_le_bytes(block.try_into().unwrap())],
            TensorType::F16 => vec![half(block, 0)],
            TensorType::MXFP4 => {
                let scale = f32::from(i16::from(block[0]) - 127).exp2();
                let element = |code: u8| [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(code & 7)];
                let signed = |code: u8| if code > 7 { -element(code) } else { element(code) };
                (0..32).map(|i| scale * signed(nibble(&block[1..], i) as u8)).collect()
            }
            TensorType::Q8_0 => (0..32).map(|i| half(block, 0) * f32::from(block[2 + i] as i8)).collect(),
            TensorType::Q4_0 => (0..32).map(|i| half(block, 0) * (nibble(&block[2..], i) - 8.0)).collect(),
            TensorType::Q5_0 => (0..32)
                .map(|i| {
                    let value = nibble(&block[6..], i) + 16.0 * bit(&block[2..6], i);
                    half(block, 0) * (value - 16.0)
                })
                .collect(),
            TensorType::Q5_1 => (0..32)
                .map(|i| {
                    let value = nibble(&block[8..], i) + 16.0 * bit(&block[4..8], i);
                    half(block, 0) * value + half(block, 2)
                })
                .collect(),
            TensorType::Q4_K | TensorType::Q5_K => (0..256)
                .map(|i| {
                    let sub = i / 32;
                    let (high, low) = match ty {
                        TensorType::Q4_K => (0.0, &block[16..]),
                        _ => (16.0 * f32::from(block[16 + i % 32] >> sub & 1), &block[48..]),
                    };
                    let byte = low[sub / 2 * 32 + i % 32];
                    let value = f32::from(byte >> (sub % 2 * 4) & 15) + high;
                    let packed = &block[4..16];
                    let (scale, min) = if sub < 4 {
                        (packed[sub] & 63, packed[sub + 4] & 63)
                    } else {
                        (
                            packed[sub + 4] & 15 | (packed[sub - 4] >> 6) << 4,
                            packed[sub + 4] >> 4 | (packed[sub] >> 6) << 4,
                        )
                    };
                    half(block, 0) * f32::from(scale) * value - half(block, 2) * f32::from(min)
                })
                .collect(),
            TensorType::Q6_K => (0..256)
                .map(|i| {
                    let (part, within) = (i / 128, i % 128);
                    let (row, l) = (within / 32, within % 32);
                    let low = block[part * 64 + row % 2 * 32 + l] >> (row / 2 * 4) & 15;
                    let high = block[128 + part * 32 + l] >> (row * 2) & 3;
                    let scale = block[192 + i / 16] as i8;
                    half(block, 208) * f32::from(scale) * (f32::from(low | high << 4) - 32.0)
                })
                .collect(),
            _ => unreachable!("no file type uses {ty}"),
        }
    }

    #[test]
    fn elements_have_mean_0_and_the_requested_deviation() {
        use TensorType::*;
        for ty in [F32, F16, MXFP4, Q8_0, Q4_0, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K] {
            // For the shortest and the longest rows of all shapes.
            for deviation in [1.0 / 768f32.sqrt(), 1.0 / (28_672f32 * 160.0).sqrt()] {
                let mut random = named("test");
                let pool = random_blocks(ty, deviation, 200_000, &mut random);
                let values: Vec<f64> = pool
                    .chunks_exact(ty.block_bytes() as usize)
                    .flat_map(|block| decode(ty, block))
                    .map(f64::from)
                    .collect();
                let n = values.len() as f64;
                let mean = values.iter().sum::<f64>() / n / f64::from(deviation);
                let rms = (values.iter().map(|x| x * x).sum::<f64>() / n).sqrt();
                let rms = rms / f64::from(deviation);
                // Small scales are rounded to f16, with errors of a few per cent, or to powers of 2.
                let error = if ty == MXFP4 { 0.42 } else { 0.05 };
                assert!(mean.abs() < 0.04, "{ty}: mean {mean}");
                assert!((rms - 1.0).abs() < error, "{ty}: deviation {rms}");
            }
        }
    }

    #[test]
    fn tensors_differ_and_so_do_neighbouring_rows() {
        let shape = ModelShape::find("tinyllama-160m").unwrap();
        let written = |name: &str| {
            let tensor = TensorDecl { name: name.to_owned(), dims: vec![768, 8192], ty: TensorType::Q8_0 };
            let mut out = Vec::new();
            write_tensor(shape, &tensor, &mut out, &mut |_| ()).unwrap();
            assert_eq!(Some(out.len() as u64), tensor.bytes());
            out
        };
        let (a, b) = (written("blk.0.attn_q.weight"), written("blk.1.attn_q.weight"));
        assert!(a != b);
        let row = 768 / 32 * 34;
        let repeats =
            a.chunks_exact(row).zip(a.chunks_exact(row).skip(1)).filter(|(this, next)| this == next).count();
        assert_eq!(repeats, 0);
    }

    #[test]
    fn rope_factors_of_llama_3_1() {
        let shape = ModelShape::find("llama-3.1-8b").unwrap();
        let tensor = TensorDecl { name: "rope_freqs.weight".to_owned(), dims: vec![64], ty: TensorType::F32 };
        let factors: Vec<f32> = vector(shape, &tensor).collect();
        // Frequency i is 500000^(-i/64). At i = 28, 8192 tokens are 4.19 waves: unchanged. At 29, 3.4109: 1 /
        // (0.1964 / 8 + 0.8036). At 35, 0.997: divided by the full factor.
        assert_eq!(factors[..29], [1.0; 29]);
        assert!((factors[29] - 1.2075).abs() < 0.001, "{}", factors[29]);
        assert_eq!(factors[35..], [8.0; 29]);
        assert!(factors.is_sorted());
    }
}
