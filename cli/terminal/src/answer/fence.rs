//! Code blocks between lines of backquotes or tildes.

/// The line that begins a code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    mark: char,
    /// How many marks.
    length: usize,
    /// Columns before the marks. Lines of code begin with as many spaces, which are not part of it.
    indent: usize,
    /// The language.
    pub language: String,
}

impl Fence {
    /// Reads a whole line, without the `indent` columns before it; `None` if it begins no code block.
    pub fn open(line: &str, indent: usize) -> Option<Fence> {
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let length = line.chars().take_while(|c| *c == mark).count();
        let info = line[length..].trim();
        if length < 3 || mark == '`' && info.contains('`') {
            return None;
        }
        let word =
            info.split(|c: char| c.is_whitespace() || c == '{' || c == ',').find(|word| !word.is_empty());
        let language = word.unwrap_or_default().trim_start_matches('.').trim_end_matches('}').to_owned();
        Some(Fence { mark, length, indent, language })
    }

    /// Whether a whole line ends the block.
    pub fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.chars().count() >= self.length && line.chars().all(|c| c == self.mark)
    }

    /// Whether a line that begins like this may end the block, or may have more spaces that are not part of the code.
    pub fn may_be_closed_by(&self, beginning: &str) -> bool {
        beginning.trim().chars().all(|c| c == self.mark)
    }

    /// The code of a line.
    pub fn code<'a>(&self, line: &'a str) -> &'a str {
        let spaces = line.bytes().take(self.indent).take_while(|byte| *byte == b' ').count();
        &line[spaces..]
    }
}

/// The last code block of a Markdown text, without the lines around it.
pub fn last_code_block(text: &str) -> Option<String> {
    let (mut open, mut last): (Option<(Fence, String)>, _) = (None, None);
    for line in text.lines() {
        match &mut open {
            Some((fence, _)) if fence.is_closed_by(line) => last = open.take().map(|(_, code)| code),
            Some((fence, code)) => code.extend([fence.code(line), "\n"]),
            None => {
                let rest = line.trim_start();
                // A list item may begin with a code block.
                let item = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "-*+.) ".contains(c));
                let fence = Fence::open(rest, line.len() - rest.len())
                    .or_else(|| Fence::open(item, line.len() - item.len()));
                open = fence.map(|fence| (fence, String::new()));
            }
        }
    }
    open.map(|(_, code)| code).or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_code_block_is_exact() {
        for (text, code) in [
            ("a", None),
            ("```\n```", Some("")),
            ("```rust\nfn a() {}\n\n    b  \n```\nx\n~~~\n```\n~~~\n", Some("```\n")),
            ("1. x\n   ```sh\n   ls\n     -l\n  x\n   ```", Some("ls\n  -l\nx\n")),
            ("- ```sh\n  ls\n  ```", Some("ls\n")),
            ("````\n```\n````", Some("```\n")),
            ("```\ncut off", Some("cut off\n")),
            ("``` `inline` ```", None),
        ] {
            assert_eq!(last_code_block(text).as_deref(), code, "{text}");
        }
    }

    #[test]
    fn the_language_is_the_first_word() {
        for (line, language) in [
            ("```rust", "rust"),
            ("~~~ python title=x", "python"),
            ("```{.r}", "r"),
            ("```c++,ignore", "c++"),
            ("````", ""),
        ] {
            assert_eq!(Fence::open(line, 0).expect(line).language, language);
        }
    }
}
