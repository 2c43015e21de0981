//! What must be known of a page before it is written: its rules of style, what its controls open, and how many items lists
//! that count down have.

use std::collections::HashSet;

use super::css::{Linked, Sheet};
use super::{Tag, Token, css};

/// What is known of a page before it is written.
#[derive(Debug, Default)]
pub(super) struct Prepass {
    pub(super) sheet: Sheet,
    in_style: bool,
    /// Whether the style sheet is for the screen for sure.
    is_known: bool,
    /// Items of each list that counts down.
    pub(super) reversed: Vec<i64>,
    /// Open lists, each with its place in `reversed`.
    lists: Vec<Option<usize>>,
    pub(super) has_tex_scripts: bool,
    css: String,
    /// The ids of what controls of the page open: tabs, questions with answers.
    opened: HashSet<String>,
}

/// Attributes in which a control names what it opens.
pub(super) const OPENERS: [&str; 3] = ["aria-controls", "data-target", "data-bs-target"];

impl Prepass {
    pub(super) fn token(&mut self, token: Token, linked: &mut Linked) {
        if let Token::Start(tag) = &token {
            let named = OPENERS.iter().filter_map(|name| tag.attribute(name));
            named.for_each(|ids| self.opened.extend(ids.split_ascii_whitespace().map(without_sign)));
        }
        match token {
            Token::Start(tag) => match tag.name.as_slice() {
                b"style" => {
                    let holds = holds(tag);
                    self.in_style = !tag.is_closed && holds != Some(false);
                    self.is_known = holds.is_some();
                }
                b"link" if is_style_sheet(tag) => {
                    let holds = holds(tag);
                    if holds != Some(false) {
                        let reference = tag.attribute("href").unwrap_or_default();
                        self.sheet.link(&reference, holds.is_some(), linked);
                    }
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
                self.sheet.read(&std::mem::take(&mut self.css), self.is_known, linked);
            }
            Token::End(b"ol" | b"ul") => _ = self.lists.pop(),
            Token::Text(text) if self.in_style => self.css.push_str(text),
            _ => {}
        }
    }

    /// Whether a reader can open an element, though it is closed at first.
    pub(super) fn opens(&self, tag: &Tag) -> bool {
        tag.is("role", "tabpanel") || tag.attribute("id").is_some_and(|id| self.opened.contains(&id))
    }

    pub(super) fn finish(mut self, linked: &mut Linked) -> Prepass {
        self.sheet.read(&self.css, self.is_known, linked);
        self.reversed.reverse();
        self
    }
}

/// An id as a selector or by itself.
fn without_sign(id: &str) -> String {
    id.strip_prefix('#').unwrap_or(id).to_owned()
}

/// Whether a style sheet is for the screen of a desktop. `None` if it is not known.
fn holds(tag: &Tag) -> Option<bool> {
    css::holds(&tag.attribute("media").unwrap_or_default())
}

/// Whether it refers to a style sheet that browsers use without being told.
fn is_style_sheet(tag: &Tag) -> bool {
    let rel = tag.attribute("rel").unwrap_or_default().to_ascii_lowercase();
    let mut words = rel.split_ascii_whitespace();
    words.clone().any(|word| word == "stylesheet") && !words.any(|word| word == "alternate")
}

/// Whether a script is a formula.
pub(super) fn is_tex(tag: &Tag) -> bool {
    tag.attribute("type").is_some_and(|kind| kind.trim_start().starts_with("math/tex"))
}
