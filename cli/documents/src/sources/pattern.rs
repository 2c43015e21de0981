//! Patterns of paths, such as `src/**/*.rs`.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::Problem;

/// The characters that make a path a pattern.
const SPECIAL: [char; 4] = ['*', '?', '[', '{'];
/// Alternatives such as `{a,b}` within each other. They are compiled level by level, and deep ones are none that
/// somebody has written.
const MAX_DEPTH: usize = 16;

/// A pattern of paths below a folder.
pub(super) struct Pattern {
    whole: GlobSet,
    /// Patterns of the folders on the way to a match, as far as each level has one of its own.
    folders: Vec<GlobSet>,
    /// Levels below the folder at which there can be matches; `None` with `**`.
    levels: Option<usize>,
    /// The names in it without special characters, and the extension of the last one.
    names: Vec<String>,
    extension: Option<String>,
}

impl Pattern {
    /// The folder that all matching files are in, and the pattern below it. A folder that exists is no pattern, whatever
    /// its name. `None` if the path has none of the characters of patterns.
    pub(super) fn split(path: &Path) -> Option<(PathBuf, String)> {
        // The question mark of `\\?\C:\` is none.
        let is_special = |part: Component| match part {
            Component::Normal(name) => name.to_str().is_some_and(|name| name.contains(SPECIAL)),
            _ => false,
        };
        path.components().find(|part| is_special(*part))?;
        let mut folder = PathBuf::new();
        let mut parts = path.components().filter(|part| *part != Component::CurDir).peekable();
        let mut pattern = Vec::new();
        while let Some(part) = parts.next() {
            let name = part.as_os_str().to_str()?;
            let is_folder = !is_special(part) || folder.join(name).is_dir();
            match pattern.is_empty() && is_folder && parts.peek().is_some() {
                true => folder.push(name),
                false => pattern.push(name),
            }
        }
        if folder.as_os_str().is_empty() {
            folder.push(".");
        }
        Some((folder, pattern.join("/")))
    }

    /// Compiles a pattern.
    ///
    /// # Errors
    /// It is no pattern, or its alternatives are nested too deeply.
    pub(super) fn new(text: &str) -> Result<Pattern, Problem> {
        let whole = compile(text).map_err(|why| Problem::Pattern { why })?;
        let names = text.split('/').take_while(|name| !name.contains("**"));
        let last = text.rsplit('/').next().unwrap_or_default();
        let extension = last.rsplit_once('.').map(|(_, extension)| extension.to_owned());
        Ok(Pattern {
            whole,
            // A part of alternatives that extend over several levels is no pattern.
            folders: names.map_while(|name| compile(name).ok()).collect(),
            levels: (!text.contains("**")).then(|| text.split('/').count()),
            names: text.split('/').filter(|name| !name.contains(SPECIAL)).map(str::to_owned).collect(),
            extension: extension.filter(|extension| !extension.contains(SPECIAL)),
        })
    }

    /// Whether a file matches, by its path below the folder.
    pub(super) fn matches(&self, path: &Path) -> bool {
        self.whole.is_match(path)
    }

    /// Whether the name of a file or folder, or what kind of style sheet, drawing or map it is, stands in the pattern:
    /// `**/*.css` means style sheets, `*/node_modules/*` means packages.
    pub(super) fn spells_out(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let is_kind = || {
            let extension = self.extension.as_deref().unwrap_or_default();
            ["css", "svg", "map", "lock"].contains(&extension) && name.ends_with(&format!(".{extension}"))
        };
        self.names.iter().any(|spelled| spelled == name) || is_kind()
    }

    /// Whether there may be matches in a folder, by its path below the pattern's folder.
    pub(super) fn may_match_in(&self, folder: &Path) -> bool {
        let depth = folder.components().count();
        let is_on_the_way = |pattern: &GlobSet| folder.file_name().is_some_and(|name| pattern.is_match(name));
        self.levels.is_none_or(|levels| depth < levels)
            && self.folders.get(depth - 1).is_none_or(is_on_the_way)
    }
}

/// A set of this one pattern: compiling a single one panics where it is too large.
fn compile(text: &str) -> Result<GlobSet, String> {
    check_depth(text)?;
    // As names of files are on Windows.
    let glob = GlobBuilder::new(text).literal_separator(true).case_insensitive(cfg!(windows)).build();
    let set = glob.and_then(|glob| GlobSetBuilder::new().add(glob).build());
    set.map_err(|error| error.kind().to_string())
}

/// Refuses alternatives that are nested too deeply.
pub(super) fn check_depth(text: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(format!("alternatives {{a,b}} are nested more than {MAX_DEPTH} deep"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_pattern_is_all_before_it() {
        for (path, folder, pattern) in [
            ("*.rs", ".", "*.rs"),
            ("./src/*.rs", "src", "*.rs"),
            ("/*.rs", "/", "*.rs"),
            ("/a//b/c?/d.rs", "/a/b", "c?/d.rs"),
            ("../a/{b,c/d}/e.rs", "../a", "{b,c/d}/e.rs"),
            ("a/[b]", "a", "[b]"),
        ] {
            let split = Pattern::split(Path::new(path)).expect(path);
            assert_eq!(split, (folder.into(), pattern.to_owned()), "{path}");
        }
        assert_eq!(Pattern::split(Path::new("a/b.rs")), None);
    }

    #[cfg(windows)]
    #[test]
    fn patterns_of_windows_have_drives_and_backslashes() {
        for (path, folder, pattern) in [
            (r"src\*.rs", "src", "*.rs"),
            (r"C:\a\**\b?.rs", r"C:\a", "**/b?.rs"),
            ("C:/a/*.rs", "C:/a", "*.rs"),
            (r"\\server\share\*.rs", r"\\server\share\", "*.rs"),
            (r"\\?\C:\a\*.rs", r"\\?\C:\a", "*.rs"),
        ] {
            let split = Pattern::split(Path::new(path)).expect(path);
            assert_eq!(split, (folder.into(), pattern.to_owned()), "{path}");
        }
        assert_eq!(Pattern::split(Path::new(r"\\?\C:\a\b.rs")), None);
        let pattern = Pattern::new("**/b?.rs").expect("a pattern");
        assert!(pattern.matches(Path::new(r"one\two\B2.RS")));
    }

    #[test]
    fn only_folders_on_the_way_may_have_matches() {
        let check = |pattern: &str, within: &[&str], not: &[&str]| {
            let compiled = Pattern::new(pattern).expect(pattern);
            for folder in within {
                assert!(compiled.may_match_in(Path::new(folder)), "{pattern} {folder}");
            }
            for folder in not {
                assert!(!compiled.may_match_in(Path::new(folder)), "{pattern} {folder}");
            }
        };
        check("*.rs", &[], &["a", "a/b"]);
        check("*/src/*.rs", &["a", "a/src"], &["a/b", "a/src/c"]);
        check("a?/**/x/*.rs", &["ab", "ab/c", "ab/c/d/e"], &["a", "b"]);
        check("{a,b/c}/*.rs", &["a", "b", "b/c"], &["a/b/c"]);
        check("x/[ab]/*.rs", &["x", "x/a"], &["y", "x/c", "x/a/b"]);
    }

    #[test]
    fn deep_and_large_patterns_are_errors() {
        for pattern in ["[", "{a", "a}", "[b-a]", "{".repeat(100_000).as_str()] {
            assert!(matches!(Pattern::new(pattern), Err(Problem::Pattern { .. })), "{pattern:.20}");
        }
        for depth in [150, 1000] {
            let nested = "{a,".repeat(depth) + "b" + &"}".repeat(depth);
            assert!(matches!(Pattern::new(&nested), Err(Problem::Pattern { .. })));
        }
        assert!(Pattern::new(&("{a,".repeat(16) + "b" + &"}".repeat(16))).is_ok());
        // Whether it is one or not, nothing panics.
        let _ = Pattern::new(&"{a,b}[c-d]?*".repeat(10_000));
        let _ = Pattern::new(&"**/".repeat(10_000));
    }
}
