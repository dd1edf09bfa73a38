//! WebAssembly guests: processes in any language, through the contract of `wit/`.
//!
//! A [`GuestEngine`] compiles components ([`Component`], a [`Program`](crate::process::Program))
//! and runs their instances as [`Body`](crate::process::Body)s. A step is one call of the guest's
//! `step`, on a fiber that a worker polls. When a slice of fuel is used up, the fiber is suspended
//! and the worker goes on with another process.
//!
//! - **I1** A pending step is pending for one reason only: its slice is used up, by the guest or by
//!   what the host did for it. No host function ever waits; a WASI call that would wait traps. So
//!   the worker needs no waker, and a process that is not polled costs nothing.
//! - **I2** A store is owned by the step that runs in it, and returned when the step returns.
//!   Dropping a step half-way kills the guest, and an instance that has trapped or was killed is
//!   never entered again.
//! - **I3** Failures caused by the guest (traps, limits, breaches of the contract) are kept apart
//!   from failures of the host: none of the host's failures is ever visible to the guest.
//! - **I4** All input and output is bounded, and its numbers and texts are checked once, in
//!   `binding`.
//! - **I5** What a guest can see depends on its component, on what it was initialized with, on its
//!   events and on the times of their batches, and on nothing else, so it can be replayed from
//!   them. An instance that has served another guest is as good as a fresh one (`spares`).
//!
//! This room knows no scheduler and no journal: admission, eviction and records are decided above
//! it.

// From bytes to a component.
mod cache;
mod command;
mod compiler;
mod component;
mod componentize;
mod inspect;
mod linked;
mod loaded;
mod offers;
mod sandbox;
mod survey;
mod wit;

// The engine, and the room that it has for guests.
mod engine;
mod images;
mod options;
mod sizing;
mod spares;

// An instance, and what it may call and use.
mod binding;
mod context;
mod instance;
mod metering;
mod poll;
mod wasi;
mod work;

// Programs that are data to a component.
mod script;

// A guest as a run sees it.
mod body;
mod death;
mod parts;
mod problem;
pub mod snapshot;
mod stored;

pub use cache::{CacheUse, CodeCache, Prepared};
pub use command::{GRANTED_BYTES_MAX, GRANTED_ENTRIES_MAX, GrantedFolders, WasiCommand};
pub use compiler::{CancelOnDrop, Cancellation, CompileLimits, Compiler, serve_compiler};
pub use component::Component;
pub use componentize::PROGRAM_BYTES_MAX;
#[cfg(feature = "cli")]
pub(crate) use componentize::rewrite;
pub(crate) use death::OUT_OF_FUEL;
pub use engine::GuestEngine;
pub use images::Images;
pub use inspect::Misfit;
pub(crate) use metering::LOAD_FUEL as SCRIPT_LOAD_FUEL;
pub use options::{EngineOptions, Profile};
pub use problem::{CompileBound, EngineError, FunctionLocation, LoadError};
pub use script::{
    MODULES_MAX as SCRIPT_MODULES_MAX, SOURCE_BYTES_MAX as SCRIPT_SOURCE_BYTES_MAX,
    SOURCES_BYTES_MAX as SCRIPT_BYTES_MAX, ScriptError, ScriptForm, ScriptSource,
};
pub use sizing::slots_max;
pub use survey::{BYTES_MAX as COMPONENT_BYTES_MAX, Survey};
