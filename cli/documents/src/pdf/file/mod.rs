//! What a PDF has as a file: arrays, lists of names and of pages, strings, bookmarks, attachments, layers, and changes of it
//! before it is read. Knows nothing of what is drawn.

pub(super) mod arrays;
pub(super) mod attachments;
pub(super) mod bookmarks;
pub(super) mod changes;
pub(super) mod contents;
pub(super) mod layers;
mod name_tree;
pub(super) mod page_tree;
pub(super) mod text_string;
