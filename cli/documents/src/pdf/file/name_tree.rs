//! Name trees: lists of names and what each stands for, which may be divided into lists of lists.

use hayro_interpret::hayro_syntax::object::{Array, Dict, Object};

use super::arrays;

/// Names that are read, and lists.
const MAX_NAMES: usize = 20_000;
const MAX_LISTS: usize = 20_000;
/// Lists in lists.
const MAX_DEPTH: usize = 32;

/// The names of one of a document's trees with what they stand for, in no order that means anything.
pub(super) fn names<'a>(catalogue: &Dict<'a>, tree: &str) -> Vec<(Vec<u8>, Object<'a>)> {
    let mut names = Vec::new();
    let root = catalogue.get::<Dict<'_>>("Names").and_then(|trees| trees.get::<Dict<'_>>(tree));
    let Some(root) = root else { return names };
    let mut rest = vec![(root, 0)];
    // Lists may contain each other.
    let mut lists = 0;
    while let Some((list, depth)) = rest.pop()
        && names.len() < MAX_NAMES
        && lists < MAX_LISTS
    {
        lists += 1;
        let pairs = list.get::<Array<'_>>("Names").unwrap_or_default();
        let mut pairs = arrays::items(&pairs);
        while let (Some(name), Some(value)) = (pairs.next(), pairs.next()) {
            if let (Some(Object::String(name)), Some(value)) = (name, value) {
                names.push((name.to_vec(), value));
            }
        }
        if depth < MAX_DEPTH {
            let inner = arrays::dictionaries(list.get("Kids")).take(MAX_LISTS - lists);
            rest.extend(inner.map(|list| (list, depth + 1)));
        }
    }
    names
}
