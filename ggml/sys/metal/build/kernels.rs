//! The sources of ggml's Metal kernels, as they are in the program: each file with all that it includes, because macOS
//! compiles them from memory. ggml's CMake file does the same with `cat`, `sed` and an assembler.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The list `GGML_METAL_LIBS` of ggml-metal-device.m.
const KERNELS: &[&str] = &[
    "fa_aux",
    "fa_f16",
    "fa_f32",
    "fa_q4_0",
    "fa_q4_1",
    "fa_q5_0",
    "fa_q5_1",
    "fa_q8_0",
    "fa_vec_f16",
    "fa_vec_f32",
    "fa_vec_q4_0",
    "fa_vec_q4_1",
    "fa_vec_q5_0",
    "fa_vec_q5_1",
    "fa_vec_q8_0",
    "mul_mv",
    "mul_mv_mma",
    "mul_mm",
    "quantize",
    "softmax",
    "norm",
    "unary",
    "binbcast",
    "reduce",
    "tri",
    "ssm",
    "wkv",
    "gated_delta_net",
    "solve_tri",
    "rope",
    "conv",
    "upscale",
    "argsort",
    "pool",
    "misc",
];

/// The line in whose place ggml's tables come.
const TABLES: &str = "__embed_ggml-common.h__";

/// Writes the sources to `out`, and an assembly file that puts them into the program, where ggml looks for them. Returns its
/// path.
pub fn embed(metal: &Path, out: &Path) -> Result<PathBuf> {
    let sources = Sources { metal };
    let mut assembly = ".section __DATA,__ggml_metallib\n".to_owned();
    for name in KERNELS {
        let mut text = String::new();
        sources.append(&mut text, &metal.join(format!("kernels/{name}.metal")), &mut Vec::new())?;
        ensure!(!text.contains(TABLES), "{name}.metal: ggml's tables are not where they were");
        let path = out.join(format!("{name}.metal"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        let symbol = format!("_ggml_metallib_{name}");
        assembly += &format!(
            ".globl {symbol}_start\n{symbol}_start:\n.incbin \"{}\"\n.globl {symbol}_end\n{symbol}_end:\n",
            path.display()
        );
    }
    let path = out.join("kernels.s");
    fs::write(&path, assembly).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// ggml's files.
struct Sources<'a> {
    /// The folder of ggml-metal.
    metal: &'a Path,
}

impl Sources<'_> {
    /// Appends a file, with the files that it includes in the places of the lines that do, each of them once.
    fn append(&self, text: &mut String, path: &Path, included: &mut Vec<PathBuf>) -> Result<()> {
        if included.iter().any(|file| file == path) {
            return Ok(());
        }
        included.push(path.to_owned());
        let source = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        // ggml-common.h is included where the line of its tables is; its `#include` is for kernels that are read from files.
        for line in source.lines() {
            let name = line.trim().strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
            match (line.trim(), name) {
                ("#pragma once", _) => {}
                (TABLES, _) => self.append(text, &self.metal.join("../ggml-common.h"), included)?,
                (_, Some("ggml-common.h")) => {}
                (_, Some(name @ "ggml-metal-impl.h")) => {
                    self.append(text, &self.metal.join(name), included)?;
                }
                (_, Some(name)) => self.append(text, &self.metal.join("kernels").join(name), included)?,
                (_, None) => {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        Ok(())
    }
}
