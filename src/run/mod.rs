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
//! This room knows the scheduler's seam, not what is behind it; programs, not what makes them; handlers' seam, not handlers.
//!
//! *Rejected.* A lock per process instead of one per run: sends, links and names would need ordered multi-locks, and the log would
//! still need one order. Replaying decisions instead of recording them: mailbox bounds, races for names and the clock depend on timing.

mod acts;
mod arrived;
mod aside;
mod backlog;
mod bodies;
mod calls;
mod clock;
mod codec;
mod consequences;
mod core;
mod decide;
mod effects;
mod endings;
mod exit;
mod fixed;
mod fork;
mod handle;
mod keeper;
mod kernel;
mod kv;
mod leaving;
mod lines;
mod links;
mod log;
mod look;
mod mail;
mod messages;
mod names;
mod narrow;
mod news;
mod observe;
mod outstanding;
mod parking;
mod past;
mod place;
mod rebuild;
mod record;
mod remarks;
mod replay;
mod reply;
mod resume;
mod scope;
mod shelf;
mod signals;
mod snapshots;
mod spawn;
mod stall;
mod started;
mod state;
mod stepping;
mod table;
mod task;
mod telling;
mod timers;
mod verify;
mod waking;
mod wire;

pub use acts::{ACTS_MAX, Acknowledged, Act, NotDurable};
pub use backlog::Backlog;
pub use clock::{Clock, system_time};
pub use effects::{Dispatched, Effects, Outgoing, Reply};
#[cfg(feature = "wasm")]
pub(crate) use exit::answer_of;
pub use fixed::Programs;
pub use fork::{ForkError, ForkSpec, fork};
pub use handle::{Doing, ProcessStatus, Refused, RunHandle, RunSpec, StartError};
pub use keeper::{SnapshotCounts, SnapshotPolicy};
pub use kernel::{Kernel, Ports, Timer};
#[cfg(feature = "wasm")]
pub(crate) use kv::schema as kv_schema;
pub use log::{Durability, EndStatus, Log, LogOrigin, LogSink, Mail, ParkedLog, Reading, RunEnd};
pub use observe::{Events, Outcome, RunEvent, Watcher};
pub use parking::{ParkedRun, ParkingPolicy};
pub use rebuild::{Rebuild, RebuildError, rebuild};
pub use record::{
    ActId, Arrived, Bounds, DamagedRecord, Decided, Decision, Died, Digest, FORMAT, News, Origin, Record, Started,
    Stepped,
};
pub use replay::{Difference, Replay, ReplaySpec, ReplayedStep, Unrepeatable, replay};
pub use resume::{Resolution, ResumeError, ResumeSpec, Uncertain};
pub use shelf::{Ignored, MemoryShelf, Shelf, Shelved};
#[cfg(feature = "wasm")]
pub(crate) use signals::NAME as SIGNAL;
pub use signals::SignalStatus;
pub use state::{Abandoned, Counts};
pub use task::Task;
pub use telling::{tell_act, tell_command, tell_status};
pub use verify::{Compared, Verdict, Verified, VerifyError, verify};
pub use wire::Damaged;

#[cfg(test)]
mod tests;
