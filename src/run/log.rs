//! Where records and log lines go.

use crate::process::{LogLine, Micros, Pid};
use bytes::Bytes;
use std::sync::Arc;

/// When what a record caused may leave the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// At once.
    Now,
    /// When [`RunHandle::durable`](super::RunHandle::durable) says so.
    Later,
}

/// The log of one run: its records in their order. It is written under the run's commit lock, so an append does not wait: what it
/// takes to make a record durable happens elsewhere.
pub trait Log: Send {
    /// Appends a record.
    fn append(&mut self, record: &[u8]) -> Durability;

    /// The run is over, and its last record is durable.
    fn ended(&mut self) {}

    /// The bytes of all records from the first on, where all are at hand. They share the log's memory, as far as that can be.
    fn records(&self) -> Option<Vec<Bytes>>;
}

/// Where a log line comes from.
#[derive(Clone, Debug)]
pub struct LogOrigin {
    /// The run.
    pub run: Arc<str>,
    /// The process.
    pub pid: Pid,
    /// Of a line that a handler wrote for a call: the call's place in the workflow, `<node path>/<item>/<n>`, where the process gave
    /// it one.
    pub scope: Option<Arc<str>>,
    /// The component under whose name it was spawned; none is the root's program.
    pub component: Option<Arc<str>>,
    /// The number of its step.
    pub step: u64,
    /// The time of the step's batch.
    pub at: Micros,
}

/// Takes the log lines of runs, beside the records that keep them. It neither blocks nor makes a system call: it is called on a worker.
pub trait LogSink: Send + Sync + 'static {
    /// The lines of a step in order, and how many more were dropped.
    fn lines(&self, origin: &LogOrigin, lines: &[LogLine], dropped: u64);
}
