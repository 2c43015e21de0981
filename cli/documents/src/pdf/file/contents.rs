//! The content of a page: a stream, or several that follow each other.

use hayro_interpret::hayro_syntax::object::{Object, Stream};
use hayro_interpret::hayro_syntax::page::Page;

use super::arrays;

/// Nothing is not packed in more bytes. Content that cannot be unpacked from its beginning is nothing, too.
const PACKED_NOTHING: usize = 64;

/// Bytes of streams that follow each other. A page with more is made to fill the memory.
const MAX_BYTES: usize = 64 << 20;

/// What is drawn on a page.
#[derive(Default)]
pub(in crate::pdf) struct Content {
    pub(in crate::pdf) bytes: Vec<u8>,
    /// Whether a part of it is missing or damaged.
    pub(in crate::pdf) is_damaged: bool,
}

/// The content of a page.
pub(in crate::pdf) fn of(page: &Page<'_>) -> Content {
    let mut content = Content::default();
    match page.raw().get::<Object<'_>>("Contents") {
        Some(Object::Array(parts)) => {
            arrays::items(&parts).for_each(|part| content.add(part.and_then(Object::into_stream)));
        }
        Some(Object::Null(_)) => {}
        None if !page.raw().contains_key("Contents") => {}
        part => content.add(part.and_then(Object::into_stream)),
    }
    content
}

impl Content {
    fn add(&mut self, part: Option<Stream<'_>>) {
        if self.bytes.len() > MAX_BYTES {
            self.is_damaged = true;
            return;
        }
        let Some((part, decoded)) = part.and_then(|part| Some((part.raw_data(), part.decoded().ok()?)))
        else {
            self.is_damaged = true;
            return;
        };
        self.is_damaged |= decoded.is_empty() && part.len() > PACKED_NOTHING;
        self.bytes.extend_from_slice(&decoded);
        self.bytes.push(b' ');
    }
}
