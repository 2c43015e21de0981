//! What an evaluation leaves in its folder: a line for each answer, and of all of them tables, pictures and a summary.

mod outputs;
mod pictures;
pub mod records;
pub mod report;
mod summary;
mod tables;

pub use self::outputs::check;
