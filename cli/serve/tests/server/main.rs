//! A server with the embedded model, asked over the loopback.

mod agents;
mod answers;
mod calls;
mod client;
mod description;
mod fixture;
mod ollama;
mod refusals;
mod several;
mod sockets;
mod sources;
