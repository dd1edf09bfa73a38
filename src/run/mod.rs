//! The commit point of a run: where what a step asks for is decided, recorded and made visible.
//!
//! A step's output becomes visible only through commit. Stepping is parallel, committing is serial within a run: the worker takes the
//! run's lock, decides each command against the other processes' queues, names and links, appends the step's record, and only then
//! lets out what follows. So a consumer's record always follows its cause's, whatever the number of workers, and every prefix of the
//! log is causally closed. What comes from outside a step is recorded the same way when it reaches its queue.
//!
//! - **I1** Nothing is seen by another process, a handler or a person before the record that caused it is in the log; nothing leaves
//!   the host before that record is durable.
//! - **I2** Whatever depends on timing is decided once, under the lock, and stands in the record. The state of a run is a function of
//!   its records alone.
//! - **I3** At most one answer reaches a tag: the first one recorded. Later ones are dropped and counted.
//! - **I4** A process has one exit. Everybody tied to it hears it in the commit that records it.
//! - **I5** Events are posted under the lock: the order of each queue is the order of the log.
//! - **I6** A run ends when its root has ended and every process is gone.
//! - **I7** Everything that a process can make the host hold is bounded, and each bound has its own problem.
//!
//! # Who waits for what
//!
//! Whoever says that records are durable takes the list of runs and a run's commit lock. So nobody waits with one of these, for anything:
//! both are `Brief`, and each wait below asserts in a debug build that its thread has none. All other locks are
//! leaves among these, taken for a computation, but for the reader's connection and the pen of the journal.
//!
//! | thread | waits for | has meanwhile | ends, since |
//! |---|---|---|---|
//! | worker | work, in `park` | nothing | whoever makes work notifies |
//! | worker | room on a full disk, before a step (`Stall`) | the process | the journal's thread needs no worker to try again; whoever ends the host ends the stall |
//! | — | room in the journal's backlog, before a step (`Backlog`) | — | nobody waits: the process is paused until the journal's thread lets it go on |
//! | worker, or `aside` of the scheduler | the disk, where an instance is made of a snapshot | the process | it reads another file than the journal's thread writes |
//! | worker | the disk, where a step is tried again from the records | the process | it reads; what the reader's connection waits for is in the line of the pen |
//! | `waking`, and whoever does something with a parked run | the disk, to take the run up | that the run is being taken up | as before; others who want the run wait for this one, and none of these is the journal's thread |
//! | `snapshots` of the run room | work | nothing | it hands snapshots to the journal, which takes or drops them at once |
//! | `journal` | work, the time until a full disk is tried again | nothing | its own time, or whoever appends |
//! | `journal` | the pen, SQLite's lock | the group | whoever has the pen reads and writes the file, and waits for no thread of this process; another process's transaction ends, or is said to last |
//! | `journal` | the list of runs, a commit lock, to tell | nothing | both are brief |
//! | `checkpoint` | work, the pen | nothing | as above |
//! | `snapshots` of the journal | work; its group's records, to be durable | nothing | the journal's thread never waits for it |
//! | who begins a run | room in the backlog (`Journal::begin`) | nothing | the journal's thread takes what gathered; nobody knows of the run yet |
//! | who takes a run up | that this process has let go of it (`Journal::take_up`) | nothing, not even the reader's connection | the journal's thread makes it durable |
//! | who reads or writes runs that are not in memory | the reader's connection, then the pen | the one while it waits for the other | as in the line of the pen |
//! | who drops the last handle of a journal | its threads | nothing; the journal's own thread does not wait for itself | they end when what was handed over is durable, or never will be |
//! | who asks for an outcome, an event, an acknowledgement, or flushes | that it comes | nothing | it is an embedder's own thread, or a task of a runtime |
//! | who ends a host | its workers, its calls for a time, the journal | nothing | a worker's slice ends; steps are let begin before |
//! | `wfhost-control` | connections, requests, events; and as who does something with a run | nothing | a run and a journal never wait for it: what it does not take is dropped and counted |
//! | a handler, on a runtime | what it asks for | the way back of its call | no run waits for it on a thread: its answer is an event |
//!
//! This room knows the scheduler's seam, not what is behind it; programs, not what makes them; handlers' seam, not handlers.
//!
//! *Rejected.* A lock per process instead of one per run: sends, links and names would need ordered multi-locks, and the log would
//! still need one order. Replaying decisions instead of recording them: mailbox bounds, races for names and the clock depend on timing.

mod commit;
mod record;
mod recovery;
mod seam;
mod state;

pub use commit::acts::{Acknowledged, Act, NotDurable, Resolution};
pub use commit::handle::{Doing, ProcessStatus, Refused, RunHandle};
pub use commit::kernel::{Kernel, Ports, Timer};
pub use commit::observe::{Events, Watcher};
pub use commit::parking::{ParkedRun, ParkingPolicy};
pub use commit::snapshot_writer::{SnapshotCounts, SnapshotPolicy};
pub use commit::start::{RunSpec, StartError};
pub use commit::task::Task;
pub use record::former_keys::{FormerKeys, Reuse, repeats};
pub use record::kinds::{
    ActId, Arrived, Bounds, DamagedRecord, Decided, Decision, Died, Digest, FORMAT, News, Origin, Record, Started,
    Stepped,
};
pub use record::wire::Damaged;
pub use recovery::describe::{describe_act, describe_command, describe_status};
pub use recovery::fork::{ForkError, ForkSpec, fork};
pub use recovery::rebuild::{Rebuild, RebuildError, rebuild};
pub use recovery::recover::{RecoveryError, RecoverySpec};
pub use recovery::replay::{Difference, Replay, ReplaySpec, ReplayedStep, Unrepeatable, replay};
pub use recovery::verify::{Compared, Verdict, Verified, VerifyError, verify};
pub use seam::backlog::Backlog;
pub use seam::clock::{Clock, system_time};
pub use seam::effects::{Dispatched, Effects, OutgoingCall, Reply};
pub use seam::log::{Durability, EndStatus, Log, LogOrigin, LogSink, Mail, ParkedLog, Reading, RunEnd};
pub use seam::snapshot_store::{MemorySnapshots, SnapshotEntry, SnapshotStore, UnusedSnapshot};
pub use state::act_ids::ACTS_MAX;
pub use state::config::Programs;
pub use state::events::{Outcome, RunEvent};
#[cfg(feature = "wasm")]
pub(crate) use state::exit::answer_of;
#[cfg(feature = "wasm")]
pub(crate) use state::kv::NAME as KV;
#[cfg(feature = "wasm")]
pub(crate) use state::kv::schema as kv_schema;
pub use state::projection::{Incoherent, Projection, SignalWait, Uncertain};
pub use state::run_state::{Abandoned, Counts};
#[cfg(feature = "wasm")]
pub(crate) use state::signals::NAME as SIGNAL;
pub use state::signals::SignalStatus;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
