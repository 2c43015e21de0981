//! ggml's code for CPUs, compiled once for each level of cpu/levels.rs, in one library. cpu/levels.c chooses at run time.
//!
//! The objects of a level are joined to one. Of its symbols only the functions of cpu/levels.c stay visible, with the
//! level's name at their end. So no level can call another's code. Of inline functions and templates of C++, a linker
//! would otherwise keep the first that it meets, with whatever instructions it was compiled to.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A level and its flags for the compiler.
struct Level {
    name: &'static str,
    flags: &'static [&'static str],
}

macro_rules! cpu_levels {
    ($($arch:literal { $($name:ident $title:literal [$($flag:literal)*] [$($feature:literal)*];)* })*) => {
        /// The levels of each architecture, by Rust's name.
        const LEVELS: &[(&str, &[Level])] =
            &[$(($arch, &[$(Level { name: stringify!($name), flags: &[$($flag),*] }),*])),*];
    };
}
include!("../cpu/levels.rs");

/// The levels of an architecture: none where ggml's code is compiled once.
fn levels(arch: &str) -> &'static [Level] {
    LEVELS.iter().find(|(name, _)| *name == arch).map_or(&[], |(_, levels)| levels)
}

/// Whether an architecture has levels.
pub fn has_levels(arch: &str) -> bool {
    !levels(arch).is_empty()
}

/// Makes the library `ggml_levels` of the C and C++ files. `build` prepares the compiler for C++ or not, without
/// files. `own` is this package's folder.
pub fn compile(files: &[PathBuf], build: &dyn Fn(bool) -> cc::Build, own: &Path, out: &Path) -> Result<()> {
    let source = own.join("cpu/levels.c");
    let text = fs::read_to_string(&source).context("cannot read cpu/levels.c")?;
    let functions = functions(&text);
    ensure!(!functions.is_empty(), "cpu/levels.c has no line that begins with EACH(");
    let levels = levels(&env::var("CARGO_CFG_TARGET_ARCH")?);
    let each: String = levels
        .iter()
        .enumerate()
        .map(|(number, level)| format!(" X({number}, {}, __VA_ARGS__)", level.name))
        .collect();
    fs::write(out.join("levels.h"), format!("#define LEVELS(X, ...){each}\n"))?;

    let mut objects = build(false).file(source).try_compile_intermediates()?;
    for level in levels {
        let folder = out.join(format!("level-{}", level.name));
        fs::create_dir_all(&folder)?;
        objects.push(object(level, files, build, &functions, &folder)?);
    }
    cc::Build::new().cpp(true).objects(objects).try_compile("ggml_levels")?;
    Ok(())
}

/// The functions of cpu/levels.c.
fn functions(source: &str) -> Vec<&str> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("EACH("));
    lines.filter_map(|line| line.split(", ").nth(1)).collect()
}

/// Everything of a level in one object.
fn object(
    level: &Level,
    files: &[PathBuf],
    build: &dyn Fn(bool) -> cc::Build,
    functions: &[&str],
    folder: &Path,
) -> Result<PathBuf> {
    let mut objects = Vec::new();
    for is_cpp in [false, true] {
        let mut build = build(is_cpp);
        build.files(files.iter().filter(|file| is_cpp == file.extension().is_some_and(|e| e == "cpp")));
        build.out_dir(folder);
        for flag in level.flags {
            build.flag(flag);
        }
        if is_cpp {
            // Static variables of inline functions would stay visible.
            build.flag_if_supported("-fno-gnu-unique");
        }
        objects.extend(
            build
                .try_compile_intermediates()
                .with_context(|| format!("compiling ggml for {} failed", level.name))?,
        );
    }
    let (joined, object) = (folder.join("joined.o"), folder.join("level.o"));
    // Without --force-group-allocation, functions that are in several objects would keep a name by which linkers know
    // them.
    run(tool("ld")?.args(["-r", "--force-group-allocation", "-o"]).arg(&joined).args(&objects))?;
    no_constructors(&joined)?;
    let mut hide = tool("objcopy")?;
    for function in functions {
        hide.arg(format!("--keep-global-symbol={function}"));
    }
    run(hide.arg(&joined).arg(&object))?;
    let mut rename = tool("objcopy")?;
    for function in functions {
        rename.arg(format!("--redefine-sym={function}={function}_{}", level.name));
    }
    run(rename.arg(&object))?;
    Ok(object)
}

/// Fails where an object has code that runs when the program starts: it would run on CPUs that lack its instructions.
fn no_constructors(object: &Path) -> Result<()> {
    let sections = tool("objdump")?.arg("-h").arg(object).output()?;
    ensure!(sections.status.success(), "objdump cannot read {}", object.display());
    let sections = String::from_utf8_lossy(&sections.stdout);
    ensure!(
        ![".init_array", ".ctors", ".preinit_array"].iter().any(|name| sections.contains(name)),
        "{}: ggml's code for CPUs has static constructors, which would run before the level is chosen",
        object.display()
    );
    Ok(())
}

/// A program of the compiler's binutils.
fn tool(name: &str) -> Result<Command> {
    let compiler = cc::Build::new().try_get_compiler()?;
    let output = compiler.to_command().arg(format!("-print-prog-name={name}")).output()?;
    Ok(Command::new(String::from_utf8_lossy(&output.stdout).trim()))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}\nhint: GNU binutils are needed"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
