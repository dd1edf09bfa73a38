//! The service: an HTTP API over the durable runs of a folder.
//!
//! **The service adds no second truth.** Every answer is read from records or from rows of the
//! journal; every act is a record, or mail that becomes one; what is shown is durable. So the
//! service may end at any moment, and another one on the same folder continues where it was.
//!
//! [`router`] makes an axum `Router` of a [`Service`], for an embedder to mount; [`server`] listens
//! for `wfhost serve`. A request passes, in this order: its address ([`access::guard`]: `Host`,
//! `Origin`), its caller (a token or a session, [`access::token`]), the scope of its route
//! ([`router`]), the workflow that its caller may touch, and then its handler ([`api`]).
//!
//! - **I1** What a request changed is durable before its answer says so.
//! - **I2** Every route has a scope, or is named as one that needs none: `router` cannot add one
//!   otherwise.
//! - **I3** The id of a run that was started under an idempotency key is derived from that key. So
//!   the journal's index of ids is the table of keys: two starts under one key are one run.
//! - **I4** No reader is sent a record that a crash could take back.
//! - **I5** No body, payload or secret is ever logged.
//!
//! It decides nothing about runs: an embedder can do all of it through [`crate::host`].

pub mod access;
pub mod api;
mod body;
mod changes;
mod feed;
mod folds;
pub mod hook;
mod idempotency;
mod inherited;
mod job;
mod lag;
pub mod metrics;
mod misfit;
#[cfg(feature = "otlp")]
pub mod otlp;
mod outgoing;
mod problem;
mod query;
mod router;
pub mod schedule;
pub mod server;
mod service;
mod shown;
mod tail;
mod view;

pub use problem::{ProblemKind, ServeProblem};
pub use router::{Needs, document, router, table};
pub use service::{Deployed, OnDeploy, Service, ServiceOptions};
pub use view::{OutcomeView, RunDetail, RunView};
