//! Drawings that pages and other drawings contain (form XObjects). They are changed before the interpreter draws them:
//!
//! - Each text in place of glyphs gets a number, and text that is only a shape is drawn, as on pages (`actual_text.rs`,
//!   `clip_text.rs`).
//! - Drawings that contain each other many times take a time that doubles with each level. Where a page would draw more
//!   than a limit, each drawing is drawn once within the others.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{Dict, Name, ObjectIdentifier, Stream};
use hayro_interpret::hayro_syntax::page::{Page, Resources};
use memchr::memmem;

use super::actual_text::ActualText;
use super::file::changes::{self, MAX_OBJECTS, Objects};
use super::file::{arrays, contents};
use super::{clip_text, repair};
use crate::plain::decode::hexadecimal;

/// Drawings in drawings that are looked into, as the interpreter does.
const MAX_DEPTH: usize = 50;
/// So many drawings within others are drawn for a page.
const MAX_DRAWN: u64 = 10_000;

/// The drawings of a document that are changed.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) objects: Objects,
    /// Texts in place of glyphs, by their numbers.
    pub(super) texts: Vec<String>,
    /// Drawings that repeat others and were left out.
    pub(super) repeated: usize,
    /// Pages that draw something of which text may be lost, from 0 on.
    pub(super) damaged_pages: HashSet<usize>,
}

/// Changes what must be changed.
pub(super) fn change(pdf: &Pdf) -> Changed {
    let mut forms = Forms::default();
    for page in pdf.pages().iter() {
        let of_page = forms.add(page.resources(), 0);
        let of_annotations = forms.add_annotations(page);
        forms.check(&of_page, of_annotations, || contents::of(page).bytes);
    }
    let (mut changed, damaged) = forms.changed(changes::are_possible(pdf));
    if !damaged.is_empty() {
        let damaged = forms.around(damaged);
        let pages = pdf.pages().iter().enumerate();
        changed.damaged_pages =
            pages.filter(|(_, page)| forms.draws_one_of(page, &damaged)).map(|(number, _)| number).collect();
    }
    changed
}

struct Form<'a> {
    stream: Stream<'a>,
    resources: Resources<'a>,
    /// The drawings that it may contain, by name.
    inner: HashMap<Vec<u8>, ObjectIdentifier>,
    /// Whether it may have text.
    has_fonts: bool,
}

#[derive(Default)]
struct Forms<'a> {
    forms: HashMap<ObjectIdentifier, Form<'a>>,
    /// What each drawing draws, with itself.
    drawn: HashMap<ObjectIdentifier, u64>,
    /// Drawings that are reached where pages draw too much, and their content without repetitions.
    reached: HashSet<ObjectIdentifier>,
    contents: HashMap<ObjectIdentifier, Vec<u8>>,
    repeated: usize,
}

impl<'a> Forms<'a> {
    /// Adds the drawings of a page or of a drawing. Returns their numbers by names.
    fn add(&mut self, resources: &Resources<'a>, depth: usize) -> HashMap<Vec<u8>, ObjectIdentifier> {
        let mut names = HashMap::new();
        for key in resources.x_objects.keys() {
            let Some(id) = resources.x_objects.get_ref(&*key).map(ObjectIdentifier::from) else { continue };
            if self.forms.contains_key(&id) {
                names.insert(key.to_vec(), id);
            } else if depth < MAX_DEPTH
                && let Some(stream) = resources.x_objects.get::<Stream<'_>>(&*key)
                && stream.dict().get::<Name<'_>>("Subtype").as_deref() == Some(b"Form")
            {
                names.insert(key.to_vec(), id);
                self.add_form(id, stream, resources, depth);
            }
        }
        names
    }

    fn add_form(&mut self, id: ObjectIdentifier, stream: Stream<'a>, outer: &Resources<'a>, depth: usize) {
        let own = stream.dict().get::<Dict<'_>>("Resources");
        let has_own = own.is_some();
        let resources = Resources::from_parent(own.unwrap_or_default(), outer.clone());
        let has_fonts = !has_own || !resources.fonts.is_empty();
        let form = Form { stream, resources: resources.clone(), inner: HashMap::new(), has_fonts };
        self.forms.insert(id, form);
        let inner = self.add(if has_own { &resources } else { outer }, depth + 1);
        if let Some(form) = self.forms.get_mut(&id) {
            form.inner = inner;
        }
    }

    /// Adds the drawings of the annotations of a page. Several may have the same name.
    fn add_annotations(&mut self, page: &Page<'a>) -> HashSet<ObjectIdentifier> {
        let mut ids = HashSet::new();
        for annotation in arrays::dictionaries(page.raw().get("Annots")) {
            if let Some(appearances) = annotation.get::<Dict<'_>>("AP") {
                ids.extend(self.add_appearance(&appearances, page.resources()).into_values());
            }
        }
        ids
    }

    /// Adds the drawings of an annotation.
    fn add_appearance(
        &mut self,
        appearances: &Dict<'a>,
        page: &Resources<'a>,
    ) -> HashMap<Vec<u8>, ObjectIdentifier> {
        let shown = appearances.get::<Stream<'_>>("N");
        let resources = shown.and_then(|shown| shown.dict().get::<Dict<'_>>("Resources"));
        match resources {
            Some(resources) => self.add(&Resources::from_parent(resources, page.clone()), 0),
            None => HashMap::new(),
        }
    }

    /// How many drawings a drawing draws, with itself: one that contains itself is without end.
    fn drawn(&mut self, id: ObjectIdentifier) -> u64 {
        if let Some(drawn) = self.drawn.get(&id) {
            return *drawn;
        }
        let Some(form) = self.forms.get(&id) else { return 0 };
        if form.inner.is_empty() {
            self.drawn.insert(id, 1);
            return 1;
        }
        self.drawn.insert(id, u64::MAX);
        let content = form.stream.decoded().unwrap_or_default();
        let inner: Vec<ObjectIdentifier> = draws(&content, &form.inner).map(|(_, _, id)| id).collect();
        let drawn = inner.into_iter().fold(1, |sum: u64, id| sum.saturating_add(self.drawn(id)));
        self.drawn.insert(id, drawn);
        drawn
    }

    /// Removes repetitions from the drawings of a page, if it would draw too much.
    fn check(
        &mut self,
        of_page: &HashMap<Vec<u8>, ObjectIdentifier>,
        of_annotations: HashSet<ObjectIdentifier>,
        content: impl FnOnce() -> Vec<u8>,
    ) {
        let mut all = of_annotations;
        all.extend(of_page.values());
        let mut many: Vec<ObjectIdentifier> = all.into_iter().filter(|id| self.drawn(*id) > 1).collect();
        if many.is_empty() {
            return;
        }
        many.sort_unstable();
        let content = content();
        let within = |id: ObjectIdentifier| self.drawn.get(&id).map_or(0, |drawn| drawn - 1);
        // Those of annotations are drawn once.
        let once = many.iter().fold(0, |sum: u64, id| sum.saturating_add(within(*id)));
        let drawn = draws(&content, of_page).fold(0, |sum: u64, (_, _, id)| sum.saturating_add(within(id)));
        if once.max(drawn) > MAX_DRAWN {
            many.into_iter().for_each(|id| self.draw_once(id));
        }
    }

    /// Removes the drawings within a drawing that were reached before.
    fn draw_once(&mut self, id: ObjectIdentifier) {
        let mut rest = vec![id];
        self.reached.insert(id);
        while let Some(id) = rest.pop() {
            let Some(form) = self.forms.get(&id).filter(|form| !form.inner.is_empty()) else { continue };
            if self.contents.contains_key(&id) {
                continue;
            }
            let mut content = form.stream.decoded().unwrap_or_default().into_owned();
            let inner: Vec<_> = draws(&content, &form.inner).collect();
            for (start, end, inner) in inner {
                if self.reached.insert(inner) {
                    rest.push(inner);
                } else {
                    content[start..end].fill(b' ');
                    self.repeated += 1;
                }
            }
            self.contents.insert(id, content);
        }
    }

    /// These drawings, and those that draw them.
    fn around(&self, drawings: HashSet<ObjectIdentifier>) -> HashSet<ObjectIdentifier> {
        let mut outer: HashMap<ObjectIdentifier, Vec<ObjectIdentifier>> = HashMap::new();
        for (id, form) in self.forms.iter().filter(|(_, form)| !form.inner.is_empty()) {
            let content = form.stream.decoded().unwrap_or_default();
            let inner: HashSet<_> = draws(&content, &form.inner).map(|(_, _, inner)| inner).collect();
            inner.into_iter().for_each(|inner| outer.entry(inner).or_default().push(*id));
        }
        let mut rest: Vec<ObjectIdentifier> = drawings.iter().copied().collect();
        let mut around = drawings;
        while let Some(id) = rest.pop() {
            let new = outer.remove(&id).unwrap_or_default().into_iter().filter(|outer| around.insert(*outer));
            rest.extend(new);
        }
        around
    }

    /// Whether a page or one of its annotations draws one of these drawings.
    fn draws_one_of(&mut self, page: &Page<'a>, drawings: &HashSet<ObjectIdentifier>) -> bool {
        let mut of_page = self.add(page.resources(), 0);
        of_page.retain(|_, id| drawings.contains(id));
        let is_drawn = !of_page.is_empty() && draws(&contents::of(page).bytes, &of_page).next().is_some();
        is_drawn || !self.add_annotations(page).is_disjoint(drawings)
    }

    /// The drawings that are changed, if the document can be, and those of which text may be lost.
    fn changed(&mut self, can_be_changed: bool) -> (Changed, HashSet<ObjectIdentifier>) {
        let mut damaged = HashSet::new();
        let mut changed = Changed { repeated: self.repeated, ..Changed::default() };
        let mut ids: Vec<ObjectIdentifier> = self.forms.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let form = &self.forms[&id];
            let without_repetitions = self.contents.remove(&id);
            let mut is_changed = without_repetitions.is_some();
            let mut content = match without_repetitions {
                Some(content) => Cow::Owned(content),
                // Drawings in it may have text.
                None if form.has_fonts || !form.inner.is_empty() => form.stream.decoded().unwrap_or_default(),
                None => continue,
            };
            let mended = repair::mend(&mut content);
            let is_applied = can_be_changed && changed.objects.len() < MAX_OBJECTS / 2;
            if mended.is_lost || (mended.is_changed && !is_applied) {
                damaged.insert(id);
            }
            is_changed |= mended.is_changed | clip_text::draw(&mut content);
            let before = changed.texts.len();
            let mut actual_text =
                ActualText::of(&content, &form.resources, std::mem::take(&mut changed.texts));
            let has_texts = actual_text.texts.len() > before;
            changed.texts = std::mem::take(&mut actual_text.texts);
            if (is_changed || has_texts) && is_applied {
                changed
                    .objects
                    .push((id.obj_number as usize, stream(form.stream.dict(), &actual_text.content)));
            }
        }
        (changed, damaged)
    }
}

/// Where a content draws which drawings: `/Name Do`.
fn draws<'b>(
    content: &'b [u8],
    names: &'b HashMap<Vec<u8>, ObjectIdentifier>,
) -> impl Iterator<Item = (usize, usize, ObjectIdentifier)> {
    memmem::find_iter(content, b"Do").filter_map(|at| {
        let end = at + 2;
        let is_end = content.get(end).is_none_or(|byte| !repair::is_regular(*byte));
        let length = content[..at].iter().rposition(|byte| !repair::is_space(*byte))? + 1;
        let before = &content[..length];
        let start = before.iter().rposition(|byte| *byte == b'/')?;
        let name = &before[start + 1..];
        let id = names.get(name).or_else(|| names.get(&unescaped(name)?))?;
        (is_end && before.len() < at).then_some((start, end, *id))
    })
}

/// A name whose characters are written as `#41`.
fn unescaped(name: &[u8]) -> Option<Vec<u8>> {
    if !name.contains(&b'#') || name.len() > 256 {
        return None;
    }
    let (mut plain, mut rest) = (Vec::new(), name);
    while let [first, after @ ..] = rest {
        match after.get(..2).filter(|_| *first == b'#').and_then(hexadecimal) {
            Some(byte) => {
                plain.push(byte);
                rest = &after[2..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    Some(plain)
}

/// A stream with another content, which is not packed.
fn stream(dictionary: &Dict<'_>, content: &[u8]) -> Vec<u8> {
    let mut dictionary = changes::without(dictionary, &[b"/Filter", b"/DecodeParms", b"/Length"]);
    dictionary.extend(format!(" /Length {} >>\nstream\n", content.len()).bytes());
    dictionary.extend_from_slice(content);
    dictionary.extend_from_slice(b"\nendstream");
    dictionary
}
