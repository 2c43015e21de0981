//! What sessions keep of what they read, under every policy. cargo-mutants runs these tests (.cargo/mutants.toml).

mod alibi;
mod golden;
mod interrupts;
mod policies;
mod sequences;
mod session;
mod snapshots;
