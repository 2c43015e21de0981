//! Items of arrays. The iterators that arrays have end at the first item that is of another type or missing, as what was
//! deleted from a page is.

use hayro_interpret::hayro_syntax::object::{Array, Dict, Object};

/// The items; `None` for what is missing.
pub(in crate::pdf) fn items<'a>(array: &Array<'a>) -> impl Iterator<Item = Option<Object<'a>>> + use<'a> {
    let count = array.raw_iter().count();
    let mut items = array.flex_iter();
    (0..count).map(move |_| items.next::<Object<'_>>())
}

/// The dictionaries among the items.
pub(in crate::pdf) fn dictionaries<'a>(array: Option<Array<'a>>) -> impl Iterator<Item = Dict<'a>> {
    items(&array.unwrap_or_default()).filter_map(|item| item?.into_dict())
}
