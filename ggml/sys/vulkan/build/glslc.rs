//! A `glslc` made of the crate `glslang`: it understands the arguments that ggml's generator of shaders gives.
//!
//!     glslc -fshader-stage=compute --target-env=vulkan1.2 IN.comp -o OUT.spv [-O] [-DNAME=VALUE]…
//!
//! `-O` does nothing: the crate has no optimiser. Drivers optimise in any case.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use glslang::include::{IncludeHandler, IncludeResult, IncludeType};
use glslang::{
    Compiler, CompilerOptions, Shader, ShaderInput, ShaderSource, ShaderStage, SourceLanguage, SpirvVersion,
    Target, VulkanVersion,
};

/// What the arguments say.
struct Job {
    input: PathBuf,
    output: PathBuf,
    vulkan: VulkanVersion,
    defines: Vec<(String, Option<String>)>,
}

/// Compiles the shader that the arguments name.
pub fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let Job { input, output, vulkan, defines } = parse(arguments)?;
    let text = fs::read_to_string(&input).with_context(|| format!("cannot read {}", input.display()))?;
    // glslc includes files without being asked to. The first line is `#version`, which has to be the first.
    let (version, rest) = text.split_once('\n').context("an empty shader")?;
    let source = format!("{version}\n#extension GL_GOOGLE_include_directive : enable\n#line 2\n{rest}");
    let source = ShaderSource::from(source);
    let spirv_version = match vulkan {
        VulkanVersion::Vulkan1_3 => SpirvVersion::SPIRV1_6,
        _ => SpirvVersion::SPIRV1_5,
    };
    let options = CompilerOptions {
        source_language: SourceLanguage::GLSL,
        target: Target::Vulkan { version: vulkan, spirv_version },
        version_profile: None,
        ..Default::default()
    };
    let mut beside = Beside(input.parent().unwrap_or(Path::new("")).to_owned());
    let defines: Vec<(&str, Option<&str>)> =
        defines.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
    let compiler = Compiler::acquire().context("glslang does not start")?;
    let shader = ShaderInput::new(&source, ShaderStage::Compute, &options, Some(&defines), Some(&mut beside))
        .and_then(|input| Shader::new(compiler, input).parse())
        .and_then(|shader| shader.compile());
    let words = shader.with_context(|| format!("cannot compile {}", input.display()))?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(&output, bytes).with_context(|| format!("cannot write {}", output.display()))
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Job> {
    let (mut input, mut output, mut vulkan, mut defines) = (None, None, VulkanVersion::Vulkan1_2, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-o" => output = arguments.next(),
            // The list of included files, which nobody reads.
            "-MF" => drop(arguments.next()),
            "-MD" | "-O" | "-fshader-stage=compute" | "--target-env=vulkan1.2" => {}
            "--target-env=vulkan1.3" => vulkan = VulkanVersion::Vulkan1_3,
            _ => match argument.strip_prefix("-D") {
                Some(define) => defines.push(match define.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (define.to_owned(), None),
                }),
                None if argument.starts_with('-') => bail!("unknown argument {argument}"),
                None => input = Some(argument),
            },
        }
    }
    let (input, output) = (input.context("no shader")?.into(), output.context("no output")?.into());
    Ok(Job { input, output, vulkan, defines })
}

/// Finds included files beside the shader, in this folder.
struct Beside(PathBuf);

impl IncludeHandler for Beside {
    fn include(&mut self, _: IncludeType, header: &str, _: &str, _: usize) -> Option<IncludeResult> {
        let data = fs::read_to_string(self.0.join(header)).ok()?;
        Some(IncludeResult { name: header.to_owned(), data })
    }
}
