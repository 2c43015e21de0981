//! The tree of pages. The interpreter ends a list of pages at the first one that is missing, so lists get to be without
//! those.

use std::collections::HashSet;

use hayro_interpret::hayro_syntax::object::{Array, Dict, MaybeRef, Name, Object, ObjectIdentifier};

use super::arrays;
use super::changes::{self, MAX_OBJECTS, Objects};

/// Lists in lists of pages.
const MAX_DEPTH: usize = 64;

/// The pages of a document, as its lists have them.
#[derive(Default)]
pub(in crate::pdf) struct PageTree {
    /// Lists without the pages that are missing, in place of those that have such pages.
    pub(in crate::pdf) changed: Objects,
    /// Pages in the lists, with those that are missing.
    pub(in crate::pdf) pages: usize,
    seen: HashSet<ObjectIdentifier>,
}

impl PageTree {
    pub(in crate::pdf) fn of(catalogue: &Dict<'_>) -> PageTree {
        let mut tree = PageTree::default();
        if let (Some(root), Some(id)) = (catalogue.get::<Dict<'_>>("Pages"), catalogue.get_ref("Pages")) {
            tree.add(&root, id.into(), 0);
        }
        tree
    }

    /// Adds a list.
    fn add(&mut self, list: &Dict<'_>, id: ObjectIdentifier, depth: usize) {
        if depth > MAX_DEPTH || !self.seen.insert(id) {
            return;
        }
        let kids = list.get::<Array<'_>>("Kids").unwrap_or_default();
        let mut there = Vec::new();
        let mut missing = 0;
        for (kid, item) in kids.raw_iter().zip(arrays::items(&kids)) {
            let Some(inner) = item.and_then(Object::into_dict) else {
                missing += 1;
                continue;
            };
            match kid {
                MaybeRef::Ref(kid) if inner.get::<Name<'_>>("Type").as_deref() == Some(b"Pages") => {
                    self.add(&inner, kid.into(), depth + 1);
                }
                _ => self.pages += 1,
            }
            match kid {
                MaybeRef::Ref(kid) => {
                    there.extend(format!("{} {} R ", kid.obj_number, kid.gen_number).bytes())
                }
                MaybeRef::NotRef(_) => there.extend_from_slice(inner.data()),
            }
        }
        self.pages += missing;
        if missing > 0 && self.changed.len() < MAX_OBJECTS / 4 {
            let changed = [&changes::without(list, &[b"/Kids"]), &b" /Kids ["[..], &there, b"] >>"].concat();
            self.changed.push((id.obj_number as usize, changed));
        }
    }
}
