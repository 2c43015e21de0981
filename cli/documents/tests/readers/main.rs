//! Documents of every kind.

mod common;
mod documents;
mod folders;
mod formats;
mod hostile;
mod office;
mod outlines;
mod parts;
mod pdf;
mod pdf_tables;
mod pdf_unread;
mod selection;
mod tables;
mod waste;
mod web;
