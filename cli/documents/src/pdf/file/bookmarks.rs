//! Bookmarks, which a file has as an outline: on the page that one leads to, the line with its title is a heading.

use std::collections::{HashMap, HashSet};

use hayro_interpret::hayro_syntax::object::{
    Array, Dict, MaybeRef, Name, Object, ObjectIdentifier, String as PdfString,
};
use hayro_interpret::hayro_syntax::page::Page;

use super::{name_tree, text_string};
use crate::marks;

/// Bookmarks, and places with names of the old kind, that are read.
const MAX_BOOKMARKS: usize = 20_000;
/// Bookmarks in bookmarks.
const MAX_DEPTH: usize = 32;
/// Levels of headings.
const MAX_LEVEL: usize = 6;

/// The titles that lead to each page, with their levels from 1 on.
#[derive(Default)]
pub(in crate::pdf) struct Bookmarks {
    titles: HashMap<ObjectIdentifier, Vec<(usize, String)>>,
}

impl Bookmarks {
    /// Those of a document with this catalogue.
    pub(in crate::pdf) fn of(catalogue: &Dict<'_>) -> Bookmarks {
        let mut bookmarks = Bookmarks::default();
        let Some(first) = catalogue.get::<Dict<'_>>("Outlines").and_then(|all| all.get::<Dict<'_>>("First"))
        else {
            return bookmarks;
        };
        let places = named_places(catalogue);
        let mut seen = HashSet::new();
        let mut rest = vec![(first, 1)];
        while let Some((bookmark, level)) = rest.pop() {
            if bookmark.obj_id().is_some_and(|id| !seen.insert(id)) || seen.len() > MAX_BOOKMARKS {
                continue;
            }
            if let Some(next) = bookmark.get::<Dict<'_>>("Next") {
                rest.push((next, level));
            }
            if level < MAX_DEPTH
                && let Some(inner) = bookmark.get::<Dict<'_>>("First")
            {
                rest.push((inner, level + 1));
            }
            if let Some(title) = bookmark.get::<PdfString<'_>>("Title")
                && let Some(page) = page_of(&bookmark, &places)
            {
                let title = comparable(&text_string::decode(&title));
                bookmarks.titles.entry(page).or_default().push((level.min(MAX_LEVEL), title));
            }
        }
        bookmarks
    }

    /// The text of a page with marks before its headings.
    pub(in crate::pdf) fn mark(&self, page: &Page<'_>, text: String) -> String {
        let Some(titles) = page.raw().obj_id().and_then(|id| self.titles.get(&id)) else { return text };
        let mut titles: Vec<&(usize, String)> =
            titles.iter().filter(|(_, title)| !title.is_empty()).collect();
        let mut marked = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let (plain, without_number) = (comparable(line), comparable(without_number(line)));
            let is_it = |(_, title): &&(usize, String)| *title == plain || *title == without_number;
            if let Some(at) = titles.iter().position(is_it) {
                let (level, _) = titles.remove(at);
                marked.push_str(&marks::unwritten_heading(*level));
            }
            marked.push_str(line);
        }
        marked
    }
}

/// The letters and digits of a title.
fn comparable(title: &str) -> String {
    title.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// A heading without its number: `2.1 Bridges`.
fn without_number(line: &str) -> &str {
    let line = line.trim_start();
    line.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start()
}

/// The page that a bookmark leads to.
fn page_of(bookmark: &Dict<'_>, places: &HashMap<Vec<u8>, ObjectIdentifier>) -> Option<ObjectIdentifier> {
    let place = bookmark.get::<Object<'_>>("Dest").or_else(|| {
        let action = bookmark.get::<Dict<'_>>("A")?;
        let is_here = action.get::<Name<'_>>("S").as_deref() == Some(b"GoTo");
        is_here.then(|| action.get::<Object<'_>>("D")).flatten()
    })?;
    match &place {
        Object::Name(name) => places.get(&**name).copied(),
        Object::String(name) => places.get(&**name).copied(),
        place => page_of_place(place),
    }
}

/// The page of a place: an array that begins with the page, or a dictionary with that.
fn page_of_place(place: &Object<'_>) -> Option<ObjectIdentifier> {
    let array = match place {
        Object::Array(array) => array.clone(),
        Object::Dict(place) => place.get::<Array<'_>>("D")?,
        _ => return None,
    };
    match array.raw_iter().next()? {
        MaybeRef::Ref(page) => Some(page.into()),
        MaybeRef::NotRef(_) => None,
    }
}

/// The pages of places that have names.
fn named_places(catalogue: &Dict<'_>) -> HashMap<Vec<u8>, ObjectIdentifier> {
    let mut places = HashMap::new();
    if let Some(named) = catalogue.get::<Dict<'_>>("Dests") {
        for name in named.keys().take(MAX_BOOKMARKS) {
            if let Some(page) = named.get::<Object<'_>>(&*name).and_then(|place| page_of_place(&place)) {
                places.insert(name.to_vec(), page);
            }
        }
    }
    for (name, place) in name_tree::names(catalogue, "Dests") {
        if let Some(page) = page_of_place(&place) {
            places.insert(name, page);
        }
    }
    places
}
