//! Traces of runs, sent to a collector by OTLP: HTTP with protobuf.
//!
//! A run is a trace. Its spans are made from durable records ([`RunSpans`]) and sent when they end,
//! so a trace never says what a crash could take back, and a run of days is sent as it goes. Ids
//! are derived: that of the trace is the caller's, if the start had a `traceparent`, else a digest
//! of the run's id. A server that is killed sends some spans again when it is back, under the same
//! ids, and none under others.
//!
//! - **I1** Nothing waits for a collector: spans go through a bounded queue, and what does not fit
//!   is dropped and counted.
//! - **I2** No payload is sent: names, kinds, times and ids only.
//! - **I3** A trace whose caller has not sampled it is not sent.

mod exporter;
mod follow;
mod message;
mod messages;

#[cfg(doc)]
use crate::host::RunSpans;
pub use exporter::{Exporter, OtlpError, OtlpOptions};

#[cfg(test)]
mod tests;
