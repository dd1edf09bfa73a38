//! Models of the scheduler, with the reorderings that the memory model allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --no-default-features --lib --release --target-dir target/loom loom
//! ```
//! These files belong to `src/scheduler`: they see its private parts.
//!
//! `rows` and `admission` hold single shipped types and are explored in every interleaving; `sleep`
//! holds one too, and states its bound. `parking`, `permits` and `shutdown` hold shipped workers,
//! whole, and are bounded, except where they say `unbounded`: a thread that could go on is
//! interrupted no more than three times in a schedule with one worker, and once in one with two
//! ([`world::Model::of`]).
//!
//! The models' replacement of the machine is in `base::sync`, and that of the deque in
//! `scheduler::local`. Loom does not see how the table of places grows, and treats sequentially
//! consistent accesses as weaker ones; there are no such accesses, only such fences.

mod admission;
mod parking;
mod permits;
mod rows;
mod shutdown;
mod sleep;
mod world;
