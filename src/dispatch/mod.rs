//! Dispatch: what a process asks of the outside, handed to those who carry it out.
//!
//! # Protocol
//! A [`Registry`] is built once and never changes. The [`Dispatcher`] implements [`Effects`](crate::run::Effects) for every run of
//! a host. A call passes, in this order:
//!
//! 1. **the name**: no handler of that name is `unknown-handler`;
//! 2. **the capability**: the workflow does not grant it at all, `not-granted`;
//! 3. **the schema**: arguments that do not fit it are `bad-arguments`, with the places that don't;
//! 4. **the handler's own check** of the grant's patterns;
//! 5. **the gate**: a permit to run and a place in time, or a place among those who wait, or `too-many-calls`;
//! 6. **the handler**, which answers on the spot ([`Handling::Now`]) or gives a future ([`Handling::Later`]).
//!
//! On the worker happens what takes no time: 1 to 5, and the handler's answer on the spot. Arguments above 64 KiB pass 3 and 4 on a
//! thread for what blocks; a call that has waited, and every future, run on tokio: on the runtime that the embedder gave, else on
//! one of our own, which the first such call starts. Handing a future to tokio may wake one of its threads, which is the one system
//! call that a worker makes here.
//!
//! # Invariants
//! - **I1** A call is answered once. The duty to answer is a value; dropping it (a panic, the end of the runtime) is the answer
//!   `host-fault`. Only a call that nobody waits for any more ends without an answer.
//! - **I2** A handler sees a call only after 1 to 5 have let it through.
//! - **I3** Nothing that a handler does ends a run: a panic is an answer.
//! - **I4** The class of a problem never claims more than is known. A call that its handler has seen, is not safe to repeat, and ended
//!   without the handler's own answer, is *uncertain*.
//! - **I5** Calls that run and calls that wait are bounded, for each handler; no answer is larger than the process may receive.
//! - **I6** What is abandoned stops: its future is dropped, its permit and its place are free.
//! - **I7** Permit and place in the table of flights are given back before the answer, so that a call that follows from it finds room.
//!
//! What it does not do: it keeps no watch over a call's timeout (the run does, and abandons), repeats nothing, records nothing, and
//! shares a handler's room among runs in the order of their calls only.

mod context;
mod dispatcher;
mod flight;
mod gate;
mod handler;
pub mod http;
mod log;
mod mismatch;
mod problems;
mod registry;
mod runtime;
mod schema;

pub use context::CallContext;
pub use dispatcher::Dispatcher;
pub use flight::HandlerStatistics;
pub use handler::{Declaration, Handler, Handling, Rate, arguments, from_fn, from_inline_fn};
pub use log::{Log, LogSink};
pub use problems::kind;
pub use registry::{Registry, RegistryBuilder, RegistryError};
pub use schema::{Schema, SchemaError};

#[cfg(test)]
mod tests;
