//! Groups of flags that several commands share, and how the help and errors about arguments read. Flags have llama.cpp's
//! names where it has the same flag. Invalid values are rejected before a model is opened. Knows no command.

pub mod answer;
pub mod device;
pub mod disk;
pub mod documents;
pub mod examples;
pub mod habits;
pub mod session;
pub mod usage;
pub mod version;
