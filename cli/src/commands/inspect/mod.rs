//! Commands that say what something is: a model file, the models and devices of this machine, the policies, what a model
//! reads of documents, a text's tokens, the logits behind it.

pub mod devices;
pub mod logits;
pub mod model;
pub mod models;
pub mod policies;
pub mod text;
pub mod tokenize;
