//! Pages of the web, and what is made of them: books, messages, saved pages.

mod contents;
pub(crate) mod epub;
pub(crate) mod html;
pub(crate) mod mail;
pub(crate) mod media_type;
pub(crate) mod tnef;
