//! What programs make for programs: a reader of a folder has nothing from it, and it can be most of the folder.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Why a file or a folder is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waste {
    /// Named by the rules of `.gitignore` or `.ignore`.
    Ignored,
    /// Hidden: its name begins with a dot.
    Hidden,
    /// A folder of installed packages, or of what a compiler made.
    ToolFolder,
    /// A file that keeps the versions of packages.
    LockFile,
    /// A style sheet or a drawing.
    Style,
    /// Code without spaces and lines, or what leads from it to its source.
    Minified,
    /// Code that a program wrote.
    Generated,
}

impl Waste {
    /// The reason with a count: `3 lock files`.
    pub fn count(self, count: usize) -> String {
        let s = if count == 1 { "" } else { "s" };
        match self {
            Waste::Ignored => format!("{count} named by ignore files"),
            Waste::Hidden => format!("{count} hidden"),
            Waste::ToolFolder => format!("{count} folder{s} of tools"),
            Waste::LockFile => format!("{count} lock file{s}"),
            Waste::Style => format!("{count} style sheet{s} or drawing{s}"),
            Waste::Minified => format!("{count} minified"),
            Waste::Generated => format!("{count} generated"),
        }
    }
}

/// Folders that package managers and compilers make.
const TOOL_FOLDERS: &[&str] = &[
    "node_modules",
    "bower_components",
    "jspm_packages",
    "__pycache__",
    "site-packages",
    "__pypackages__",
    "__MACOSX",
];
/// Ends of the names of such folders.
const TOOL_FOLDER_ENDS: &[&str] = &[".dist-info", ".egg-info"];
/// Files in such folders, whatever the names of these are.
const TOOL_FOLDER_MARKS: &[&str] = &["CACHEDIR.TAG", "pyvenv.cfg"];
/// Files beside a folder `target` that say who made it.
const TARGET_MAKERS: &[&str] = &["Cargo.toml", "pom.xml", "build.sbt"];

const LOCK_FILES: &[&str] = &[
    "Cargo.lock",
    "Gemfile.lock",
    "Package.resolved",
    "Pipfile.lock",
    "Podfile.lock",
    "bun.lock",
    "composer.lock",
    "conda-lock.yml",
    "deno.lock",
    "flake.lock",
    "go.sum",
    "gradle.lockfile",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "packages.lock.json",
    "pdm.lock",
    "pixi.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pubspec.lock",
    "uv.lock",
    "yarn.lock",
];

const STYLES: &[&str] = &["css", "svg"];
/// Code that programs make shorter.
const MINIFIED: &[&str] = &["js", "mjs", "cjs"];
/// Ends of the names of code that a program wrote.
const GENERATED_ENDS: &[&str] =
    &["_pb2.py", "_pb2_grpc.py", ".pb.go", ".pb.cc", ".pb.h", ".g.dart", ".freezed.dart", ".designer.cs"];
/// Source code, of which some says at its beginning that a program wrote it.
const CODE: &[&str] = &[
    "c", "cc", "cjs", "cpp", "cs", "dart", "go", "h", "hpp", "java", "js", "jsx", "kt", "mjs", "php", "py",
    "rb", "rs", "scala", "sql", "swift", "ts", "tsx",
];
/// Bytes at the beginning of a file that are looked at.
const HEAD_BYTES: u64 = 4 << 10;
/// Lines at the beginning of a file in which it says who wrote it.
const HEAD_LINES: usize = 12;
/// People hardly write a line of code of so many bytes.
const LONG_LINE: usize = 2_000;

/// Whether a folder, by its full path, is one of a tool.
pub(super) fn is_tool_folder(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_target =
        || name == "target" && path.parent().is_some_and(|parent| has_one_of(parent, TARGET_MAKERS));
    TOOL_FOLDERS.contains(&name)
        || TOOL_FOLDER_ENDS.iter().any(|end| name.ends_with(end))
        || is_target()
        || has_one_of(path, TOOL_FOLDER_MARKS)
}

/// Whether one of several files is in a folder.
fn has_one_of(folder: &Path, names: &[&str]) -> bool {
    names.iter().any(|name| folder.join(name).is_file())
}

/// Why a file, by its path, is left out; `None` for one that is read.
pub(super) fn of_file(path: &Path) -> Option<Waste> {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let small = name.to_ascii_lowercase();
    let extension = small.rsplit_once('.').map_or("", |(_, extension)| extension);
    if LOCK_FILES.contains(&name) {
        Some(Waste::LockFile)
    } else if STYLES.contains(&extension) {
        Some(Waste::Style)
    } else if small.contains(".min.")
        || [".js.map", ".mjs.map", ".css.map"].iter().any(|end| small.ends_with(end))
    {
        Some(Waste::Minified)
    } else if GENERATED_ENDS.iter().any(|end| small.ends_with(end)) {
        Some(Waste::Generated)
    } else if CODE.contains(&extension) {
        of_code(path, MINIFIED.contains(&extension))
    } else {
        None
    }
}

/// The same of a file with source code, by its beginning. One that cannot be read is an error elsewhere.
fn of_code(path: &Path, may_be_minified: bool) -> Option<Waste> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let is_long = |line: &[u8]| line.len() >= LONG_LINE;
    if may_be_minified && head.split(|byte| *byte == b'\n').any(is_long) {
        return Some(Waste::Minified);
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines().take(HEAD_LINES);
    let says_so = lines.any(|line| {
        let is_comment = ["//", "#", "/*", "*", "--", ";", "\"\"\""]
            .iter()
            .any(|mark| line.trim_start().starts_with(mark));
        let small = line.to_ascii_lowercase();
        let is_marked = small.contains("@generated")
            || (small.contains("generated")
                && (small.contains("do not edit") || small.contains("do not modify")));
        is_comment && is_marked
    });
    says_so.then_some(Waste::Generated)
}
