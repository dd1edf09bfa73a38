//! Models of the scheduler's small protocols, in every interleaving and with every reordering that the memory model allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --no-default-features --lib --release --target-dir target/loom loom
//! ```
//! These files belong to `src/scheduler`: they see its private parts.

mod admission;
mod parking;
mod rows;
