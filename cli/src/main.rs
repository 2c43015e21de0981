//! longhand
fn main() {}
