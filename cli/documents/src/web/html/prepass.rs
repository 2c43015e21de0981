//! What must be known of a page before it is written: its rules of style, and how many items lists that count down have.

use super::style::Sheet;
use super::{Tag, Token};

/// What is known of a page before it is written.
#[derive(Debug, Default)]
pub(super) struct Prepass {
    pub(super) sheet: Sheet,
    in_style: bool,
    /// Items of each list that counts down.
    pub(super) reversed: Vec<i64>,
    /// Open lists, each with its place in `reversed`.
    lists: Vec<Option<usize>>,
    pub(super) has_tex_scripts: bool,
    css: String,
}

impl Prepass {
    pub(super) fn token(&mut self, token: Token) {
        match token {
            Token::Start(tag) => match tag.name.as_slice() {
                b"style" => {
                    self.in_style =
                        !tag.is_closed && !tag.attribute("media").is_some_and(|media| media.contains("print"))
                }
                b"link"
                    if tag
                        .attribute("rel")
                        .is_some_and(|rel| rel.to_ascii_lowercase().contains("stylesheet")) =>
                {
                    self.sheet.hides_background = true;
                }
                b"script" => self.has_tex_scripts |= is_tex(tag),
                b"ol" | b"ul" if !tag.is_closed => {
                    let is_counted =
                        tag.name == b"ol" && tag.has("reversed") && tag.number("start").is_none();
                    self.lists.push(is_counted.then(|| {
                        self.reversed.push(0);
                        self.reversed.len() - 1
                    }));
                }
                b"li" => {
                    if let Some(Some(list)) = self.lists.last() {
                        self.reversed[*list] += 1;
                    }
                }
                _ => {}
            },
            Token::End(b"style") => {
                self.in_style = false;
                self.sheet.read(&std::mem::take(&mut self.css));
            }
            Token::End(b"ol" | b"ul") => _ = self.lists.pop(),
            Token::Text(text) if self.in_style => self.css.push_str(text),
            _ => {}
        }
    }

    pub(super) fn finish(mut self) -> Prepass {
        self.sheet.read(&self.css);
        self.reversed.reverse();
        self
    }
}

/// Whether a script is a formula.
pub(super) fn is_tex(tag: &Tag) -> bool {
    tag.attribute("type").is_some_and(|kind| kind.trim_start().starts_with("math/tex"))
}
