//! Documents of every kind.

mod common;
mod documents;
mod folders;
mod formats;
mod hidden;
mod hostile;
mod office;
mod open_documents;
mod outlines;
mod parts;
mod pdf;
mod pdf_fonts;
mod pdf_tables;
mod pdf_unread;
mod selection;
mod tab_stops;
mod tables;
mod waste;
mod web;
