//! Shadow trees: a template within an element that is shown in its place, with parts of the element in its slots.

use std::collections::HashMap;

use super::feet::Piece;
use super::{Tag, Token};

/// An element with a shadow tree waits while it has so many pieces. What follows is read behind it.
const MAX_PIECES: usize = 100_000;
/// Elements with shadow trees within each other.
pub(super) const MAX_NESTED: usize = 8;

/// An element with a shadow tree, while it is read.
#[derive(Debug)]
pub(super) struct Shadow {
    /// The name of the element, and how many of it are open within it.
    host: Vec<u8>,
    hosts: usize,
    is_xml: bool,
    /// Templates that are open, the tree's own among them.
    templates: usize,
    tree: Vec<Piece>,
    parts: Vec<Piece>,
}

/// Whether an element begins a shadow tree.
pub(super) fn begins(tag: &Tag) -> bool {
    tag.name == b"template" && (tag.has("shadowrootmode") || tag.has("shadowroot"))
}

impl Shadow {
    /// The tree of an element that begins.
    pub(super) fn new(host: &[u8], is_xml: bool) -> Shadow {
        let host = host.to_vec();
        Shadow { host, hosts: 0, is_xml, templates: 1, tree: Vec::new(), parts: Vec::new() }
    }

    /// Whether an element has no end of its own.
    fn is_whole(&self, tag: &Tag) -> bool {
        self.is_xml && tag.is_closed
    }

    /// Takes a piece. Returns whether it is one; if not, the element ends with it.
    pub(super) fn takes(&mut self, token: &Token) -> bool {
        if self.tree.len() + self.parts.len() >= MAX_PIECES {
            return false;
        }
        if self.templates > 0 {
            match token {
                Token::Start(tag) if tag.name == b"template" => self.templates += 1,
                Token::End(b"template") => self.templates -= 1,
                _ => {}
            }
            if self.templates > 0 {
                self.tree.push(Piece::of(token));
            }
            return true;
        }
        match token {
            Token::Start(tag) if tag.name == self.host => self.hosts += usize::from(!self.is_whole(tag)),
            Token::End(name) if **name == *self.host && self.hosts == 0 => return false,
            Token::End(name) if **name == *self.host => self.hosts -= 1,
            _ => {}
        }
        self.parts.push(Piece::of(token));
        true
    }

    /// The pieces that are shown, and the text of parts that no slot shows.
    pub(super) fn finish(self) -> (Vec<Piece>, String) {
        let mut slots = self.slots();
        let (mut shown, mut filled) = (Vec::new(), 0_usize);
        for piece in self.tree {
            match &piece {
                // What stands in a slot by itself is shown if nothing else is.
                Piece::Start(tag) if tag.name == b"slot" && (filled > 0 || !tag.is_closed) => {
                    let name = tag.attribute("name").unwrap_or_default();
                    let parts = if filled == 0 { slots.remove(&name) } else { None };
                    let is_filled = filled > 0 || parts.is_some();
                    shown.extend(parts.unwrap_or_default());
                    filled += usize::from(is_filled);
                    if !is_filled {
                        shown.push(piece);
                    }
                }
                Piece::End(name) if name == b"slot" && filled > 0 => filled -= 1,
                _ if filled > 0 => {}
                _ => shown.push(piece),
            }
        }
        let rest = slots.into_values().flatten().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text),
            _ => None,
        });
        (shown, rest.collect())
    }

    /// The parts of the element by the slots that they are for.
    fn slots(&self) -> HashMap<String, Vec<Piece>> {
        let mut slots: HashMap<String, Vec<Piece>> = HashMap::new();
        // The open part: its name, how many of that are open, and its slot.
        let mut part: Option<(&[u8], usize, String)> = None;
        for piece in &self.parts {
            let (slot, has_ended) = match (&mut part, piece) {
                (None, Piece::Text(text)) if text.trim().is_empty() => continue,
                (None, Piece::Start(tag)) => {
                    let slot = tag.attribute("slot").unwrap_or_default();
                    if !super::elements::is_void(&tag.name) && !self.is_whole(tag) {
                        part = Some((&tag.name, 1, slot.clone()));
                    }
                    (slot, false)
                }
                (None, _) => (String::new(), false),
                (Some((name, open, slot)), piece) => {
                    match piece {
                        Piece::Start(tag) if tag.name == *name => *open += usize::from(!self.is_whole(tag)),
                        Piece::End(end) if end == name => *open -= 1,
                        _ => {}
                    }
                    (slot.clone(), *open == 0)
                }
            };
            if has_ended {
                part = None;
            }
            slots.entry(slot).or_default().push(piece.clone());
        }
        slots
    }
}
