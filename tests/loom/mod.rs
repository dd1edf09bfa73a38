//! Models of the scheduler, with the reorderings that the memory model allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --no-default-features --lib --release --target-dir target/loom loom
//! ```
//! These files belong to `src/scheduler`: they see its private parts.
//!
//! `rows` and `admission` hold single shipped types and are explored in every interleaving; `sleep`
//! holds one too, and says its bound. `parking`, `permits` and `shutdown` hold shipped workers,
//! whole, and are bounded, except where they say `unbounded`: a thread that could go on is
//! interrupted no more than three times in a schedule with one worker, and once in one with two
//! ([`world::Model::of`]).
//!
//! What the models have in place of the machine is in `base::sync`, and the deque in
//! `scheduler::local`. Loom does not see how the table of places grows, and takes sequentially
//! consistent accesses for weaker ones, which there are none of: there are only such fences.

mod admission;
mod parking;
mod permits;
mod rows;
mod shutdown;
mod sleep;
mod world;
