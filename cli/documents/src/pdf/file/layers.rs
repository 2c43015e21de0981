//! Layers (optional content). Viewers do not draw those that are off, and neither does the interpreter, which does not say
//! what is in them. So such a document is read once more as one without layers.

use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{Array, Dict, Name};
use memchr::memmem;

use super::changes;

/// Where the catalogue has the layers.
const LAYERS: &str = "OCProperties";

/// A document without its layers, if some are off and it can be changed.
pub(in crate::pdf) fn without(
    pdf: &Pdf,
    catalogue: &Dict<'_>,
    open: impl Fn(Vec<u8>) -> Option<Pdf>,
) -> Option<Pdf> {
    let usual = catalogue.get::<Dict<'_>>(LAYERS)?.get::<Dict<'_>>("D")?;
    let are_off = usual.get::<Name<'_>>("BaseState").as_deref() == Some(b"OFF");
    let has_some = usual.get::<Array<'_>>("OFF").is_some_and(|off| off.raw_iter().next().is_some());
    if !are_off && !has_some {
        return None;
    }
    let key = format!("/{LAYERS}");
    let open = |file: Vec<u8>| {
        let has_layers = |pdf: &Pdf| crate::pdf::catalogue(pdf).contains_key(LAYERS);
        open(file).filter(|other| !has_layers(other) && other.pages().len() >= pdf.pages().len())
    };
    let mut file = pdf.data().as_ref().to_vec();
    let places: Vec<usize> = memmem::find_iter(&file, &key).collect();
    // A name that means nothing.
    places.iter().for_each(|at| file[at + 1] = b'X');
    let renamed = if places.is_empty() { None } else { open(file) };
    renamed.or_else(|| {
        // The catalogue is in a packed object. The places were in older versions of it.
        let changed = [&changes::without(catalogue, &[key.as_bytes()]), &b" >>"[..]].concat();
        let number = pdf.xref().root_id().obj_number as usize;
        let can_be_changed = changes::are_possible(pdf);
        can_be_changed.then(|| changes::add(pdf, &vec![(number, changed)])).and_then(open)
    })
}
