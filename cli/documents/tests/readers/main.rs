//! Documents of every kind.

mod documents;
mod folders;
mod hostile;
