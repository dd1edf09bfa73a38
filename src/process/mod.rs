//! The process: a state machine that is stepped.
//!
//! All input of a process is an [`Event`] on its queue; all its requests are [`Command`]s in its
//! step's output. It has no other way out. Two families implement it: wasm guests, and native ones
//! in Rust ([`Process`]). A run sees both as a [`Body`] that a [`Program`] makes.
//!
//! - **I1** A step sees a batch of events once, in the order of the queue.
//! - **I2** Tags of a process strictly increase; at most one answer reaches a tag.
//! - **I3** Between two steps a process has no stack: it can be moved, stored, and continued
//!   elsewhere.
//!
//! This room knows no scheduler, no wasm and no journal.

mod body;
mod budget;
mod command;
mod event;
pub mod handler;
mod ids;
mod influences;
mod json_text;
mod limits;
mod native;
mod payload;
pub mod problem;
mod random;
mod recalled;
pub mod secret;
mod snapshot;

pub use crate::base::{Micros, Timestamp};
pub use body::{Body, Death, Eviction, Level, LogLine, Output, Owed, ProcessInit, Program, Progress};
pub use budget::Budget;
pub use command::{Action, CacheKey, Call, Command, Placement, Send, Spawn, Status, Target};
pub use event::{Answer, Ending, Event, Exit, Message, Sender};
pub use ids::{NUMBER_MAX, Pid, Tag};
pub use influences::Influences;
#[cfg(feature = "wasm")]
pub(crate) use json_text::Check;
pub use limits::{Allocation, Grants, Limits, Permit};
pub use native::{Context, Native, NativeProgram, Process};
pub use payload::{Blob, GIVEN_DEPTH_MAX, JSON_DEPTH_MAX, Json, Payload};
pub use problem::{Problem, ProblemClass};
pub use random::Random;
pub use recalled::{Recalled, Recalls};
pub use snapshot::{Form, ProcessSnapshot, RawSnapshot, SnapshotError, SnapshotSupport};
