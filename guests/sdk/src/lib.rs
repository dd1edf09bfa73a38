//! Guests of wfhost in Rust.
//!
//! A guest is a component that the host steps. Write it as `async fn` entry points:
//!
//! ```
//! use std::time::Duration;
//! use wfhost_guest::{Ctx, Problem, serde_json::Value};
//!
//! async fn run(ctx: Ctx, url: String) -> Result<Value, Problem> {
//!     ctx.sleep(Duration::from_secs(1)).await?;
//!     ctx.call("http", wfhost_guest::json!({ "url": url })).timeout(Duration::from_secs(30)).await
//! }
//!
//! wfhost_guest::export! { "run" => run }
//! # fn main() {}
//! ```
//!
//! or as a bare state machine, by implementing [`Process`] and [`export_process!`].
//!
//! A future asks the host for something with a *command*, and is woken by the *event* that answers
//! it. Between two steps nothing of the guest is on a stack, so the host can preempt, evict, move
//! and replay it. Everything that a guest sees, time and random numbers included, is recorded, so
//! it does the same again when it is given the same events.
//!
//! Dropping a future cancels what it asked for: the loser of a [`select`], or whatever exceeds its
//! [`Ctx::timeout`].

// The generated code, which is also expanded in guests, names this crate.
extern crate self as wfhost_guest;

#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    clippy::pedantic,
    reason = "generated from wit/process.wit by bindings.sh"
)]
#[doc(hidden)]
#[rustfmt::skip]
pub mod bindings;

#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    clippy::pedantic,
    reason = "generated from wit/process.wit by bindings.sh"
)]
#[doc(hidden)]
#[rustfmt::skip]
pub mod describing;

mod answer;
mod blobs;
mod call;
mod combine;
mod core;
mod ctx;
mod describe;
mod executor;
#[cfg(target_arch = "wasm32")]
#[allow(unsafe_code, reason = "the name of an export is a promise to the linker")]
mod heap;
pub mod host;
mod message;
mod payload;
mod problem;
mod process;
mod schema;
mod slots;
mod tasks;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use bindings::wfhost::process::types::{
    Action, Blob, Call as CallCommand, Cancellation, Command, Completion, Ending, Event, Exit, Expose, Message, Micros,
    Outcome, Payload, Pid, Problem, ProblemClass, Renewal, RunTarget, Send, Sender, Spawn as SpawnCommand, Status, Tag,
    Target,
};
pub use blobs::{BlobHandle, BlobReader, BlobWriter};
pub use call::{Call, Child, Spawn};
pub use combine::{Either, join, join_all, select, select_all, try_join_all, try_map};
pub use ctx::{Ctx, Elapsed};
pub use describe::{Described, describe_nowhere, description, input_schema};
pub use executor::{Entry, Executor, Task, start};
pub use host::{Host, Identity, Imports, Level};
pub use message::{Cancelled, Exits, Receive, Sent};
pub use payload::{Bytes, FromPayload, IntoPayload};
pub use problem::{OrProblem, unknown_entry};
pub use process::{Process, Tags, export_nowhere, log_panics};
pub use {serde, serde_json, serde_json::json};

#[doc(hidden)]
pub use wit_bindgen::rt as wit_bindgen_rt;

/// The examples of the guides are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/guests.md")]
struct Guide;

/// Any input: for entries that ignore theirs.
pub use serde::de::IgnoredAny as Ignored;
