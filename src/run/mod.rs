//! The commit point of a run: where a step's requests are decided, recorded and made visible.
//!
//! A step's output becomes visible only through commit. Stepping is parallel, committing is serial
//! within a run: the worker takes the run's lock, decides each command against the other processes'
//! queues, names and links, appends the step's record, and only then releases the consequences. So
//! a consumer's record always follows that of its cause, whatever the number of workers, and every
//! prefix of the log is causally closed. Arrivals from outside a step are recorded the same way
//! when they reach their queue.
//!
//! - **I1** Nothing is visible to another process, a handler or a person before the record that
//!   caused it is in the log; nothing leaves the host before that record is durable.
//! - **I2** Whatever depends on timing is decided once, under the lock, and stands in the record.
//!   The state of a run is a function of its records alone.
//! - **I3** At most one answer reaches a tag: the first one recorded. Later ones are dropped and
//!   counted.
//! - **I4** A process has one exit. Every process tied to it is notified in the commit that records
//!   it.
//! - **I5** Events are posted under the lock: the order of each queue is the order of the log.
//! - **I6** A run ends when its root has ended and every process is gone.
//! - **I7** Everything that a process can make the host hold is bounded, and each bound has its own
//!   problem.
//!
//! # Who waits for what
//!
//! A thread that reports records as durable takes the list of runs and a run's commit lock. So no
//! thread waits for anything while it holds one of these: both are `Brief`, and each wait below
//! asserts in a debug build that its thread holds neither. All other locks are leaves among these,
//! held for a computation, except the reader's connection and the write lock of the journal.
//!
//! | thread | waits for | holds meanwhile | ends, since |
//! |---|---|---|---|
//! | worker | work, in `park` | nothing | a thread that makes work notifies |
//! | worker | room on a full disk, before a step (`Stall`) | the process | the journal's thread needs no worker to try again; ending the host ends the stall |
//! | — | room in the journal's backlog, before a step (`Backlog`) | — | no thread waits: the process is paused until the journal's thread lets it continue |
//! | worker, or `aside` of the scheduler | the disk, when an instance is made from a snapshot | the process | it reads another file than the journal's thread writes |
//! | worker | the disk, when a step is tried again from the records | the process | it reads; for the reader's connection see the row of the write lock |
//! | `waking`, and a caller that acts on a parked run | the disk, to recover the run | the mark that the run is being recovered | as before; others who want the run wait for this thread, and none of them is the journal's thread |
//! | `snapshots` of the run room | work | nothing | it hands snapshots to the journal, which takes or drops them at once |
//! | `journal` | work, the time until a full disk is tried again | nothing | that time passes, or an append notifies it |
//! | `journal` | the write lock, SQLite's lock | the group | the holder of the write lock reads and writes the file, and waits for no thread of this process; another process's transaction ends, or is reported to last |
//! | `journal` | the list of runs, a commit lock, to report durable records | nothing | both are brief |
//! | `checkpoint` | work, the write lock | nothing | as above |
//! | `snapshots` of the journal | work; its group's records, to be durable | nothing | the journal's thread never waits for it |
//! | a caller that begins a run | room in the backlog (`Journal::begin`) | nothing | the journal's thread takes what gathered; no other thread knows of the run yet |
//! | a caller that recovers a run | this process to release it (`Journal::recover`) | nothing, not even the reader's connection | the journal's thread makes the release durable |
//! | a caller that reads or writes runs that are not in memory | the reader's connection, then the write lock | the one while it waits for the other | as in the row of the write lock |
//! | a thread that drops the last handle of a journal | its threads | nothing; the journal's own thread does not wait for itself | they end when everything handed over is durable, or never will be |
//! | a caller that waits for an outcome, an event, an acknowledgement, or a flush | its arrival | nothing | it is an embedder's own thread, or a task of a runtime |
//! | a caller that ends a host | its workers, its calls for a time, the journal | nothing | a worker's slice ends; steps are allowed to begin before |
//! | `wfhost-control` | connections, requests, events; and like a caller that acts on a run | nothing | a run and a journal never wait for it: events that it does not take are dropped and counted |
//! | a handler, on a runtime | whatever it asks for | the reply of its call | no run waits for it on a thread: its answer is an event |
//!
//! This room knows the scheduler's seam, not what is behind it; programs, not what makes them;
//! the handlers' seam, not handlers.
//!
//! *Rejected.* A lock per process instead of one per run: sends, links and names would need ordered
//! multi-locks, and the log would still need one order. Replaying decisions instead of recording
//! them: mailbox bounds, races for names and the clock depend on timing.

mod commit;
mod record;
mod recovery;
mod seam;
mod state;

pub use commit::acts::{Acknowledged, Act, NotDurable, Resolution};
pub use commit::handle::{Doing, ProcessStatus, Refused, RunHandle};
pub use commit::kernel::{Kernel, Ports, Timer};
pub use commit::observe::{Events, Watcher};
pub use commit::parking::hold::{Former, HeldRun, NotHeld};
pub use commit::parking::{ParkedRun, ParkingPolicy};
pub use commit::snapshot_writer::{SnapshotCounts, SnapshotPolicy};
pub use commit::start::{RunSpec, StartError};
pub use commit::task::Task;
pub use record::former_keys::{FormerKeys, Reuse, repeats};
pub use record::kinds::{
    ActId, Arrived, Bounds, DamagedRecord, Decided, Decision, Died, Digest, FORMAT, News, Origin, Record, RunVersion,
    Started, Stepped, Upgraded,
};
pub use record::wire::Damaged;
pub use recovery::describe::{describe_act, describe_command, describe_status};
pub use recovery::fork::{ForkError, ForkSpec, fork};
pub use recovery::rebuild::{Rebuild, RebuildError, rebuild};
pub use recovery::recover::{RecoveryError, RecoverySpec};
pub use recovery::replay::{Difference, Replay, ReplaySpec, ReplayedStep, Unrepeatable, replay};
pub use recovery::verify::{Compared, Verdict, Verified, VerifyError, verify};
pub use seam::awaited::{AWAITED_MAX, Awaited, AwaitedKind};
pub use seam::backlog::Backlog;
pub use seam::blob_store::{
    BlobBounds, BlobCheck, BlobError, BlobReader, BlobStore, BlobWriter, MEDIA_TYPE, MEDIA_TYPE_BYTES_MAX, RunBlobs,
};
pub use seam::clock::{Clock, system_time};
pub use seam::effects::{CachedOutcome, Dispatched, Effects, OutgoingCall, Reply};
pub use seam::log::{Durability, EndStatus, Log, LogOrigin, LogSink, Mail, Nap, ParkedLog, Parking, Reading, RunEnd};
pub use seam::place::{GROUP_BYTES_MAX, OnLimit, PLACES_MAX, QUEUE_MAX};
pub use seam::snapshot_store::{MemorySnapshots, SnapshotEntry, SnapshotStore, UnusedSnapshot};
pub use state::act_ids::ACTS_MAX;
pub use state::cached::UNCACHED;
pub use state::config::Programs;
pub use state::events::{Outcome, RunEvent};
#[cfg(feature = "wasm")]
pub(crate) use state::exit::answer_of;
#[cfg(feature = "wasm")]
pub(crate) use state::kv::NAME as KV;
#[cfg(feature = "wasm")]
pub(crate) use state::kv::schema as kv_schema;
#[cfg(feature = "wasm")]
pub(crate) use state::news::TIMEOUT_REASON;
pub use state::projection::{Incoherent, Projection, SignalWait, Uncertain};
pub use state::run_state::{Abandoned, Counts};
#[cfg(feature = "wasm")]
pub(crate) use state::signals::NAME as SIGNAL;
pub use state::signals::SignalStatus;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
