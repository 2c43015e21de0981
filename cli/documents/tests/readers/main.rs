//! Documents of every kind.

mod common;
mod documents;
mod folders;
mod formats;
mod hostile;
mod office;
mod parts;
mod pdf;
mod selection;
mod waste;
mod web;
