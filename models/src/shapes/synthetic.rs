//! Weights for shapes: valid blocks of every type a file type uses, random, of the scale that keeps activations near 1.
//!
//! A megabyte of blocks is made for each tensor and written again and again from places that a second random number chooses: as
//! fast as memory is copied, and no row of the model repeats its neighbour.

use std::io::{self, Write};

use half::f16;

use super::ModelShape;
use crate::gguf::write::TensorDecl;
use crate::types::TensorType;

/// Bytes of blocks made for a tensor, at most.
const POOL: usize = 1 << 20;
/// Bytes copied in one piece, about.
const RUN: usize = 48 << 10;

/// Writes the data of one tensor; `written` is told the bytes of each piece.
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
    if tensor.ty == TensorType::F32 {
        let values = vector(shape, tensor);
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        out.write_all(&bytes)?;
        written(total);
        return Ok(());
    }
    let mut random = Random::named(&tensor.name);
    let block = tensor.ty.block_bytes() as usize;
    let total = total as usize; // a file that is written fits the machine's address space
    let pool = blocks(tensor.ty, deviation(shape, tensor), total.min(POOL), &mut random);
    let run = (RUN / block * block).min(pool.len());
    let places = (pool.len() - run) / block + 1;
    let mut left = total;
    while left > 0 {
        let start = random.below(places) * block;
        let piece = &pool[start..start + run.min(left)];
        out.write_all(piece)?;
        written(piece.len() as u64);
        left -= piece.len();
    }
    Ok(())
}

/// Norms are 1, biases 0, RoPE factors those of Llama 3.1.
fn vector(shape: &ModelShape, tensor: &TensorDecl) -> impl Iterator<Item = f32> {
    let factor = shape.rope_factor.filter(|_| tensor.name == "rope_freqs.weight");
    let alike = if tensor.name.ends_with(".bias") { 0.0 } else { 1.0 };
    let base = f64::from(shape.rope_base);
    let n_dims = shape.head_dim as f64;
    (0..tensor.dims[0]).map(move |i| match factor {
        Some(factor) => rope_divisor(base.powf(-2.0 * i as f64 / n_dims), factor.into()) as f32,
        None => alike,
    })
}

/// What Llama 3.1 divides a RoPE frequency (radians per token) by: waves shorter than a quarter of the first training's 8192 tokens
/// stay, those longer than all of it are stretched by `factor`, with a ramp between.
fn rope_divisor(frequency: f64, factor: f64) -> f64 {
    const FIRST_CONTEXT: f64 = 8192.0;
    const LOW: f64 = 1.0;
    const HIGH: f64 = 4.0;
    let waves = FIRST_CONTEXT * frequency / std::f64::consts::TAU;
    let stays = ((waves - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
    1.0 / ((1.0 - stays) / factor + stays)
}

/// Standard deviation of a matrix's elements: rows of `n_in` such numbers turn unit activations into unit activations. What is added
/// to the residual stream is smaller, so that the stream stays near 1 after all layers. Embeddings are looked up, not multiplied
/// with, and therefore 1, unless they are the output matrix too.
fn deviation(shape: &ModelShape, tensor: &TensorDecl) -> f32 {
    let n_in = tensor.dims[0] as f32;
    let branches = 2.0 * shape.n_layers as f32;
    match tensor.name.rsplit('.').nth(1) {
        Some("token_embd") if !shape.tied => 1.0,
        Some("attn_output" | "ffn_down") => 1.0 / (n_in * branches).sqrt(),
        _ => 1.0 / n_in.sqrt(),
    }
}

/// Whole blocks of `ty`, `bytes` of them or a few fewer, whose elements have mean 0 and this standard deviation.
fn blocks(ty: TensorType, deviation: f32, bytes: usize, random: &mut Random) -> Vec<u8> {
    let block = ty.block_bytes() as usize;
    let mut pool = vec![0; bytes / block * block];
    random.fill(&mut pool);
    for block in pool.chunks_exact_mut(block) {
        match ty {
            TensorType::F16 => uniform_f16(block, deviation),
            TensorType::Q8_0 => q8_0(block, deviation, random),
            TensorType::Q4_0 => simple(block, 0, 16, deviation, random),
            TensorType::Q5_0 => simple(block, 0, 32, deviation, random),
            TensorType::Q5_1 => q5_1(block, deviation),
            TensorType::Q4_K => super_block(block, 16, deviation, random),
            TensorType::Q5_K => super_block(block, 32, deviation, random),
            TensorType::Q6_K => q6_k(block, deviation, random),
            // No file type uses another; zeros are valid in all of them.
            _ => block.fill(0),
        }
    }
    pool
}

/// Standard deviation of the integers 0 to n - 1, all equally likely.
fn spread(n: u32) -> f32 {
    let n = n as f32;
    ((n * n - 1.0) / 12.0).sqrt()
}

fn put_f16(bytes: &mut [u8], at: usize, value: f32) {
    bytes[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

/// One f16, uniform around 0: 16 random bits become a number.
fn uniform_f16(block: &mut [u8], deviation: f32) {
    let bits = f32::from(u16::from_le_bytes([block[0], block[1]]));
    put_f16(block, 0, (bits - 32767.5) / spread(1 << 16) * deviation);
}

/// f16 scale, 32 signed bytes. -128 is left out, as quantisation does.
fn q8_0(block: &mut [u8], deviation: f32, random: &mut Random) {
    put_f16(block, 0, random.sign() * deviation / spread(255));
    for value in &mut block[2..] {
        *value = (*value as i8).max(-127) as u8;
    }
}

/// f16 scale and 32 integers below `n` of which n / 2 is taken away (q4_0, q5_0). Their mean is half a step below 0; scales of either
/// sign even that out.
fn simple(block: &mut [u8], at: usize, n: u32, deviation: f32, random: &mut Random) {
    put_f16(block, at, random.sign() * deviation / spread(n));
}

/// f16 scale, f16 minimum, 32 integers of 5 bits.
fn q5_1(block: &mut [u8], deviation: f32) {
    let step = deviation / spread(32);
    put_f16(block, 0, step);
    put_f16(block, 2, -15.5 * step);
}

/// f16 scale and minimum of 8 sub-blocks, whose own 6-bit scales and minima are packed into 12 bytes; then integers below `n` (q4_K,
/// q5_K). An element is scale * sub-scale * integer - minimum * sub-minimum.
fn super_block(block: &mut [u8], n: u32, deviation: f32, random: &mut Random) {
    let step = deviation / spread(n) / SUB_SCALE_RMS;
    put_f16(block, 0, step);
    put_f16(block, 2, step * (n - 1) as f32 / 2.0);
    // A sub-block's minimum equals its scale, so that every sub-block has mean 0.
    let subs: [u8; 8] = std::array::from_fn(|_| random.sub_scale());
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
        let sub = random.sub_scale() as i8;
        *scale = if random.sign() < 0.0 { -sub } else { sub } as u8;
    }
    put_f16(block, 208, deviation / spread(64) / SUB_SCALE_RMS);
}

/// Sub-scales are the integers from 24 to 39.
const SUB_SCALES: std::ops::Range<u8> = 24..40;
/// Root of their mean square.
const SUB_SCALE_RMS: f32 = 31.836;

/// SplitMix64.
struct Random(u64);

impl Random {
    /// The numbers of a tensor, given by its name (FNV-1a): the same in every file and on every machine.
    fn named(name: &str) -> Self {
        Self(name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        }))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 up to, not including, `n`.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    fn sign(&mut self) -> f32 {
        if self.next() & 1 == 0 { 1.0 } else { -1.0 }
    }

    fn sub_scale(&mut self) -> u8 {
        SUB_SCALES.start + self.below(SUB_SCALES.len()) as u8
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.next().to_le_bytes()[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(block: &[u8], at: usize) -> f32 {
        f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
    }

    /// Plain decoding, written from the formats' descriptions: element by element, without the packing tricks of the fast ones.
    fn decode(ty: TensorType, block: &[u8]) -> Vec<f32> {
        let bit = |bytes: &[u8], i: usize| f32::from(bytes[i / 8] >> (i % 8) & 1);
        let nibble = |bytes: &[u8], i: usize| f32::from(bytes[i % 16] >> (i / 16 * 4) & 15);
        match ty {
            TensorType::F16 => vec![half(block, 0)],
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
    fn elements_have_mean_0_and_the_deviation_asked_for() {
        use TensorType::*;
        for ty in [F16, Q8_0, Q4_0, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K] {
            // The smallest and the largest rows of the shapes.
            for deviation in [1.0 / 768f32.sqrt(), 1.0 / (28_672f32 * 160.0).sqrt()] {
                let mut random = Random::named("test");
                let pool = blocks(ty, deviation, 200_000, &mut random);
                let values: Vec<f64> = pool
                    .chunks_exact(ty.block_bytes() as usize)
                    .flat_map(|block| decode(ty, block))
                    .map(f64::from)
                    .collect();
                let n = values.len() as f64;
                let mean = values.iter().sum::<f64>() / n / f64::from(deviation);
                let rms = (values.iter().map(|x| x * x).sum::<f64>() / n).sqrt();
                let rms = rms / f64::from(deviation);
                // Scales near the end of f16's range are rounded to a few per cent.
                assert!(mean.abs() < 0.04, "{ty}: mean {mean}");
                assert!((rms - 1.0).abs() < 0.05, "{ty}: deviation {rms}");
            }
        }
    }

    #[test]
    fn tensors_differ_and_pieces_do_not_repeat_in_step() {
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
        // Frequency i is 500000^(-i/64). At i = 28, 8192 tokens are 4.19 waves: untouched. At 29, 3.4109: 1 / (0.1964 / 8 + 0.8036).
        // At 35, 0.997: stretched fully.
        assert_eq!(factors[..29], [1.0; 29]);
        assert!((factors[29] - 1.2075).abs() < 0.001, "{}", factors[29]);
        assert_eq!(factors[35..], [8.0; 29]);
        assert!(factors.is_sorted());
    }
}
