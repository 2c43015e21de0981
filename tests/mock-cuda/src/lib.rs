//! A mock of CUDA's runtime library for tests of programs with CUDA on machines without a GPU. It checks the
//! CUDA calls and emulates what the kernels compute. See machine.h for what it checks and scripts/mock-gpu.sh
//! for how programs are linked with it.
//!
//! There is no Rust code here: build.rs compiles the C++ files and writes the link arguments.
