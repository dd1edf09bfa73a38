//! The snapshot of a whole guest between two steps, taken and restored without the guest's help.
//!
//! Between two steps a guest has no stack. What remains is its linear memories and its mutable
//! globals, provided that its component has no other kind of state. [`check()`] decides that once
//! for each component, from its bytes. Of the memories, a snapshot holds only the pages that differ
//! from a fresh instance's, because every restored guest starts from a fresh instance.
//!
//! Wasmtime gives no access to memories and globals that a component does not export, with one
//! exception: the core dump of a trap lists them all. But a trap closes its store for good. So the
//! dump is taken once for each component, in a throw-away store, and the handles in it are
//! *rebased*: the number of their store is replaced by the number of the store at hand.
//!
//! The protocol, in the order of a guest's life:
//! 1. [`check()`] the component's bytes. A refusal is final: the guest is rebuilt by replay, or
//!    never evicted.
//! 2. [`Template::probe`], once for each component and process, lazily, in an engine without a pool
//!    that collects core dumps.
//! 3. [`Template::bind`] gives the [`Handles`] of a live store.
//! 4. [`Template::take`] between two steps gives a [`Snapshot`]; [`Template::pack`] encodes it
//!    compactly, for memory or disk.
//! 5. Later: instantiate anew, [`Template::bind`], [`Template::unpack`], [`Template::restore`],
//!    then step. `init` is not called.
//!
//! Or, when a guest has ended: [`Template::reset`] makes its instance fresh again, for another
//! guest of the component.
//!
//! Invariants:
//! - **I1** The component is the first thing instantiated in its store: the numbers in the handles
//!   are counted from there.
//! - **I2** No host function is called while a guest is instantiated, so every fresh instance has
//!   the same bytes and globals.
//! - **I3** No call into the guest is in flight while a snapshot is taken or restored, and the
//!   guest has not trapped.
//! - **I4** A snapshot holds all pages and globals that differ from a fresh instance, and there is
//!   no other state.
//! - **I5** A snapshot is restored only into an instance of the same component with the same fresh
//!   state ([`Template::key`]).
//!
//! The state belongs to the component, not to its machine code: a snapshot moves between engines
//! with different tunables. Saving what the host holds beside the guest (limits, log, random
//! stream) is up to the host.
//!
//! *Rejected.* `Config::guest_debug`, the official way to the same handles: it gives up traps by
//! signals and slows code by a factor of 2 to 5. Rewriting every core module to export its state:
//! the component would have other bytes than the ones its author signed.

pub mod check;
mod compact;
mod handles;
mod image;
mod pagemap;
mod reset;
mod restore;
mod state;
mod take;
mod template;
mod verdict;

pub use check::{CheckError, check};
pub use compact::CompactError;
pub use image::Key;
pub use reset::ResetError;
pub use restore::RestoreError;
pub use state::{GlobalValue, PAGE_BYTES, Snapshot};
pub use take::{Search, TakeError};
pub use template::{Handles, SnapshotView, Template, Unfit};
pub use verdict::{Reason, Refusal, Verdict};

#[cfg(test)]
mod tests;
