//! `plan --gpu 4090`: well-known GPUs that longhand can compute on (compute capability 8.0 and later).

use terminal::suggest::did_you_mean;

use crate::failure::Failure;

/// Names and memory in GiB, as NVIDIA sells them. Where a GPU is sold with several sizes, the name has the
/// size, and the bare name is the most common one.
const GPUS: &[(&str, usize)] = &[
    ("3050", 8),
    ("3060", 12),
    ("3060Ti", 8),
    ("3070", 8),
    ("3080", 10),
    ("3080-12GB", 12),
    ("3080Ti", 12),
    ("3090", 24),
    ("4060", 8),
    ("4060Ti", 16),
    ("4060Ti-8GB", 8),
    ("4070", 12),
    ("4070Ti", 12),
    ("4070TiSuper", 16),
    ("4080", 16),
    ("4090", 24),
    ("5060", 8),
    ("5060Ti", 16),
    ("5060Ti-8GB", 8),
    ("5070", 12),
    ("5070Ti", 16),
    ("5080", 16),
    ("5090", 32),
    ("A2000", 12),
    ("A4000", 16),
    ("A5000", 24),
    ("A6000", 48),
    ("6000Ada", 48),
    ("PRO6000", 96),
    ("L4", 24),
    ("L40S", 48),
    ("A10", 24),
    ("A100", 80),
    ("A100-40GB", 40),
    ("H100", 80),
    ("H200", 141),
];

/// A well-known GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownGpu {
    /// Its name.
    pub name: &'static str,
    /// All of its memory, in bytes.
    pub memory: usize,
}

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    GPUS.iter().map(|(name, _)| *name)
}

/// The GPU of this name: `4090`, `rtx4090`, `RTX 4090`.
pub fn parse(text: &str) -> Result<KnownGpu, Failure> {
    let wanted = short_name(text);
    let found = GPUS.iter().find(|(name, _)| short_name(name) == wanted);
    match found {
        Some((name, gib)) => Ok(KnownGpu { name, memory: gib << 30 }),
        None => Err(Failure::usage(
            "no GPU is known by this name",
            format!(
                "{}give its memory instead, for example --device cuda --memory 24GiB; known are {}",
                did_you_mean(&wanted, names()),
                names().collect::<Vec<_>>().join(", ")
            ),
        )),
    }
}

/// A name without the parts that people leave out.
fn short_name(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let joined: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = joined.trim_start_matches("nvidia").trim_start_matches("geforce");
    name.trim_start_matches("rtx").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_found_however_they_are_written() {
        for text in ["4090", "rtx4090", "RTX 4090", "NVIDIA GeForce RTX 4090"] {
            assert_eq!(parse(text), Ok(KnownGpu { name: "4090", memory: 24 << 30 }), "{text}");
        }
        assert_eq!(parse("4060 Ti 8GB").map(|gpu| gpu.memory), Ok(8 << 30));
        let error = parse("4091").expect_err("no such GPU");
        assert!(error.hint().starts_with("did you mean `4090`? "), "{}", error.hint());
        assert!(parse("").is_err());
    }

    #[test]
    fn names_are_unique() {
        for (number, (name, _)) in GPUS.iter().enumerate() {
            assert!(GPUS[..number].iter().all(|(other, _)| short_name(other) != short_name(name)), "{name}");
        }
    }
}
