//! The wrapper around ggml: graphs, devices, threads, and what is refused.

mod device;
mod fatal;
mod misuse;
mod rows;
mod threads;
mod waiting;
mod wrapper;
