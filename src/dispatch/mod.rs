//! Dispatch: hands the calls of processes to the handlers that carry them out.
//!
//! # Protocol
//! A [`Registry`] is built once and never changes. The [`Dispatcher`] implements
//! [`Effects`](crate::run::Effects) for every run of a host. A call passes, in this order:
//!
//! 1. **the name**: no handler of that name is `unknown-handler`;
//! 2. **the capability**: a workflow that does not grant it at all is `not-granted`;
//! 3. **the schema**: arguments that do not fit it are `bad-arguments`, with the mismatches;
//! 4. **the handler's own check** of the grant's patterns;
//! 5. **the gates**: that of its workflow, that of the operator, and that of the handler, each a
//!    permit to run and a token of the rate, or a ticket of the queue, or `too-many-calls`;
//! 6. **the handler**, which answers at once ([`Handling::Now`]) or returns a future
//!    ([`Handling::Later`]).
//!
//! The worker does what takes no time: 1 to 5, and the handler's immediate answer. Arguments above
//! 64 KiB pass 3 and 4 on a thread for blocking work; a call that has waited, and every future, run
//! on tokio: on the runtime that the embedder gave, else on one of our own, which the first such
//! call starts. Spawning a future on tokio may wake one of its threads, which is the one system
//! call that a worker makes here.
//!
//! # Invariants
//! - **I1** A call is answered once. The obligation to answer is a value; dropping it (a panic, the
//!   end of the runtime) answers `host-fault`. Only an abandoned call, whose answer is no longer
//!   awaited, ends without an answer.
//! - **I2** A handler sees a call only after 1 to 5 have admitted it.
//! - **I3** Nothing that a handler does ends a run: a panic is an answer.
//! - **I4** The class of a problem never claims more than is known. A call that its handler has
//!   seen, is not safe to repeat, and ended without the handler's own answer, is *uncertain*.
//! - **I5** Running and queued calls are bounded, for each handler; no answer is larger than the
//!   process may receive.
//! - **I6** An abandoned call stops: its future is dropped, its permit and its ticket are free.
//! - **I7** The permit and the entry in the table of calls in flight are released before the
//!   answer, so that a call that follows from the answer finds room.
//!
//! What it does not do: it does not enforce a call's timeout (the run does, and abandons the call),
//! repeats nothing, records nothing, and shares a handler's capacity among runs in the order of
//! their calls only.

mod blob;
mod blob_body;
mod blocking;
mod bounds;
mod context;
mod dispatcher;
mod gate;
mod handler;
pub mod http;
mod in_flight;
mod log;
mod mismatch;
mod obligation;
mod problems;
mod registry;
mod runtime;
mod schema;
mod secrets;
mod statistics;

pub(crate) use blob::Recall;
pub use blob::{Get as BlobGet, Put as BlobPut};
#[cfg(feature = "serve")]
pub(crate) use blob_body::{BlobBody, CHUNK_BYTES as BLOB_CHUNK_BYTES};
pub use bounds::{Bound, CallBounds};
pub use context::CallContext;
pub use dispatcher::Dispatcher;
pub use handler::{Declaration, Handler, Handling, Rate, arguments, from_fn, from_inline_fn};
pub use log::{Log, LogSink};
pub use problems::kind;
pub use registry::{Registry, RegistryBuilder, RegistryError};
pub use schema::{Schema, SchemaError};
pub use secrets::{SECRET_BYTES_MAX, SECRET_BYTES_MIN, SECRETS_MAX, SecretError, SecretSource, SecretValue, Secrets};
#[cfg(feature = "serve")]
pub(crate) use secrets::{file as secret_file, variable as secret_variable};
pub use statistics::HandlerStatistics;

#[cfg(test)]
mod tests;
