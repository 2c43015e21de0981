//! A message that is being typed: its text, the keys that change it, and how it is drawn below what else is printed.

pub mod draft;
pub mod keys;
pub mod open_row;
pub mod screen;
