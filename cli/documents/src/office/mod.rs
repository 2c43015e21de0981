//! Documents of office programs. Formats that are packages read their parts as XML; all write with the same writer.

mod chart;
mod diagram;
pub(crate) mod docx;
mod drawings;
pub(crate) mod encrypted;
mod fields;
mod fill;
mod listings;
pub(crate) mod odf;
mod omml;
mod page_texts;
pub(crate) mod pptx;
mod relations;
pub(crate) mod rtf;
mod shape;
mod sight;
pub(crate) mod xlsx;
