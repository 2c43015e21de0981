//! Documents of office programs. Formats that are packages read their parts as XML; all write with the same writer.

pub(crate) mod docx;
mod omml;
mod relations;
