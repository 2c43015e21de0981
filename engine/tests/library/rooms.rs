//! The rooms of the library and of the program: no file uses a room above its own, and no folder has too many entries.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of `engine/src`, the top first. What stands beside them may be used by all.
const LIBRARY: &[&str] = &["chat", "setup", "session", "compute", "kv", "devices", "model", "heads", "files"];
/// Folders of `cli/src`, the top first.
const PROGRAM: &[&str] = &["commands", "session", "models", "args", "config"];
/// Entries that a folder may have.
const MAX_ENTRIES: usize = 12;

#[test]
fn no_file_of_the_library_uses_a_room_above_its_own() {
    check("src", LIBRARY);
}

#[test]
fn no_file_of_the_program_uses_a_room_above_its_own() {
    check("../cli/src", PROGRAM);
}

#[test]
fn no_program_uses_what_is_for_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli");
    let is_of_a_program = |path: &PathBuf| {
        let place = path.strip_prefix(&folder).expect("a path below the folder");
        !place.iter().any(|part| part == "tests" || part == "fuzz")
    };
    let sources: Vec<PathBuf> = files(&folder, &mut Vec::new()).into_iter().filter(is_of_a_program).collect();
    assert!(sources.len() > 200, "{}", sources.len());
    for path in sources {
        let code = code(&path);
        for hidden in [
            "longhand::testing",
            "serve::testing",
            "emulator::",
            "DeviceKind::Emulated",
            "DeviceKind::Portable",
        ] {
            assert!(!code.contains(hidden), "{} uses {hidden}", path.display());
        }
    }
}

fn check(folder: &str, rooms: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut faults = Vec::new();
    let root = root_code(&folder);
    let (exports, modules) = (exports(&root), inline_modules(&root));
    for path in files(&folder, &mut faults) {
        let place = path.strip_prefix(&folder).expect("a path below the folder").display().to_string();
        let own = place.split('/').next().unwrap_or_default();
        let Some(floor) = rooms.iter().position(|room| *room == own) else { continue };
        for used in used_names(&code(&path)) {
            let room = exports.get(&used).unwrap_or(&used);
            if modules.contains(&used) {
                faults.push(format!("{place} uses crate::{used}, which is for other crates"));
            }
            if rooms[..floor].contains(&&**room) {
                faults.push(format!("{place} uses crate::{used}: {own} -> {room}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// All source files below a folder. A folder with too many entries is a fault.
fn files(folder: &Path, faults: &mut Vec<String>) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut entries: Vec<PathBuf> = entries.collect();
    entries.sort();
    if entries.len() > MAX_ENTRIES {
        faults.push(format!("{} has {} entries, more than {MAX_ENTRIES}", folder.display(), entries.len()));
    }
    let below = |path: PathBuf| match path.is_dir() {
        true => files(&path, faults),
        false => Vec::from_iter(path.extension().is_some_and(|ending| ending == "rs").then_some(path)),
    };
    entries.into_iter().flat_map(below).collect()
}

/// The text of a file without comments and unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file");
    let lines = text.lines().take_while(|line| !line.starts_with("mod tests {"));
    lines.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The first names behind `crate::`, those of a group included.
fn used_names(code: &str) -> Vec<String> {
    let of = |rest: &str| match rest.strip_prefix('{') {
        Some(group) => first_names(group),
        None => vec![name(rest)],
    };
    code.split("crate::").skip(1).flat_map(of).collect()
}

/// The first name of each element of a group that has been opened.
fn first_names(group: &str) -> Vec<String> {
    let (mut depth, mut element, mut names) = (0, String::new(), Vec::new());
    for sign in group.chars() {
        match sign {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(name(std::mem::take(&mut element).trim())),
            _ if depth == 0 => element.push(sign),
            _ => {}
        }
    }
    names.push(name(element.trim()));
    names
}

/// The name with which a text begins.
fn name(text: &str) -> String {
    text.chars().take_while(|sign| sign.is_alphanumeric() || *sign == '_').collect()
}

/// The root file of a crate.
fn root_code(folder: &Path) -> String {
    let root = ["lib.rs", "main.rs"].map(|name| folder.join(name)).into_iter().find(|path| path.exists());
    code(&root.expect("a root file"))
}

/// The modules that the root file itself holds: names that it gathers for other crates.
fn inline_modules(code: &str) -> Vec<String> {
    let modules = code.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(" {"));
    modules.map(str::to_owned).collect()
}

/// The rooms of what the crate's root exports under a name of its own.
fn exports(code: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in code.split("pub use ").skip(1) {
        let (path, _) = statement.split_once(';').expect("the end of a statement");
        let (path, names) = match path.split_once('{') {
            Some((path, group)) => (path, first_names(group)),
            None => (path, vec![name(path.rsplit("::").next().unwrap_or_default())]),
        };
        exports.extend(names.into_iter().map(|exported| (exported, name(path))));
    }
    exports
}
