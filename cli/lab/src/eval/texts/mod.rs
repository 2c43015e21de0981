//! What is read and asked: the tasks, and their texts as tokens of a model.

mod books;
pub mod contents;
pub mod exercise;
pub mod facts;
