//! Where a model is computed: the backends of host and devices, which layers each has, memory for their graphs, how
//! much memory is free, and what of it is promised.
//!
//! The last layers of a model may be on devices, the others are on the host ([`placement`]). What there is once for each
//! place is in a [`per_place::PerPlace`]. Layers are placed so that the longest first text can be read. Each place has one
//! graph, in *stages*: a stage ends with a tensor that the caller reads, and overwrites with what another place computed
//! (`ggml::Context::exchange`). `compute/pass.rs` computes the stages in the order in which their places took turns while
//! the graphs were built.
//!
//! What is done with the rows of a layer has two *forms* (`kernels::Form`): our own kernels, which CPUs and NVIDIA GPUs have for
//! most heads, and graphs of ggml's operations. [`backends::Backends::form`] says which a place takes for a layer. The second
//! form reads rows that are not live. So the store and the scratch memory clear them where it is used, and clear what a computation that
//! was taken back has left. A device that lacks an operation for some type is found when the store is made.
//!
//! ggml's CUDA backend knows nothing of our operations. A custom node has two implementations: a closure for the CPU,
//! and a launch of a kernel of `kernels/cuda`. `ggml::Backend::compute` gives runs of ggml's nodes to ggml and launches
//! ours between them, on one stream. A graph that is computed again is recorded as a CUDA graph the second time and
//! replayed from then on, because launches never wait, allocate or copy from the host. A part of a text is only started
//! (`ggml::Backend::start`): the host prepares the next one meanwhile, and waits where it reads. Without a GPU, three things stand
//! in for one in tests. The *emulator* (`kernels/emulator`) runs the kernels on the host.
//! The *CUDA mock* (`tests/mock-cuda`) replaces CUDA's runtime library and checks every call. The *portable device*
//! (`ggml::Backend::portable`) is a second CPU backend that refuses our operations.

pub(crate) mod attention;
pub mod backends;
pub(crate) mod kind;
pub(crate) mod ledger;
pub(crate) mod memory;
pub(crate) mod per_place;
pub mod placement;
pub mod workspace;
