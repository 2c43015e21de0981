//! Listings of code: the styles and fonts whose texts keep their spaces.

/// Whether a style is one of code, by its name: `Source Code`, `Preformatted Text`, `HTML Code`, `Verbatim Char`.
pub(super) fn is_style(name: &str) -> bool {
    let name = name.replace("_20_", " ").to_lowercase();
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    words.any(|word| matches!(word, "code" | "sourcecode" | "preformatted" | "verbatim" | "listing"))
}

/// Whether all letters of a font are as wide.
pub(super) fn is_font(name: &str) -> bool {
    let name = name.to_lowercase();
    let known = ["courier", "consolas", "menlo", "monaco", "cascadia", "lucida console", "typewriter"];
    known.iter().any(|known| name.contains(known)) || name.split([' ', '-']).any(|word| word == "mono")
}
