//! What style sheets say of a page: what is hidden, how text looks and stands, and which numbers are made.

mod counter_styles;
mod counters;
mod font;
mod layout;
mod media;
mod outside;
mod selector;
mod sheet;
mod shift;
mod style;
mod values;

pub(crate) use self::counter_styles::ListStyle;
pub(crate) use self::counters::{Counters, Counting};
pub(crate) use self::font::{FontSize, USUAL, is_smaller, symbol_font};
pub(crate) use self::layout::Stand;
pub(crate) use self::media::holds;
pub(crate) use self::selector::{Siblings, Subject};
pub(crate) use self::sheet::{Linked, Sheet};
pub(crate) use self::shift::Shifted;
pub(crate) use self::style::{Declared, Space, pixels};
pub(crate) use self::values::declarations;
