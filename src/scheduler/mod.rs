//! The scheduler: work-stealing workers that step processes.
//!
//! It knows a [`Commit`] and its types of process, event and timer; no wasm, no workflow, no
//! journal.
//!
//! # Vocabulary
//!
//! A *process* lives at a *place* of the slot table and is known by its [`Slot`]. A *worker* takes
//! a process from a run queue, runs one *slice* of a step and puts it back: that is a *turn*. A
//! *job* is a process in a run queue, perhaps with the event that woke it. Run queues are the
//! *local deque* of each worker and the *global queue*. A *permit* is the share of the pool that an
//! instance takes.
//!
//! # Protocol
//!
//! A post finds the process's place and changes its state word in one read-modify-write
//! (`state/mod.rs`, with the table of all transitions). The thread that moves a process from
//! waiting to Ready enqueues it: a worker at the tail of its deque, any other thread in the global
//! queue. A worker looks in its own deque (last in, first out), then in the global queue (one to
//! run and up to 16 more), then in the deques of the others in random order (it steals half of
//! one); `fairness.rs` has the exceptions, without which something would starve. A process whose
//! slice is used up goes to the back of the global queue. When a step has ended, [`Commit::step`]
//! has made its output visible before the word says so; an answer may therefore come while the
//! worker still has the process, and the word's bits record it.
//!
//! A worker that finds nothing spins, yields its core, and parks (`sleep.rs`). Timers are watched
//! by busy workers in passing, else by one parked worker (`timers.rs`). Permits are given in order,
//! and taken from the process that has waited or been paused longest (`admission.rs`); the slow
//! parts of that happen on other threads (`aside.rs`). `shutdown.rs` lists the steps of
//! [`Scheduler::shutdown`].
//!
//! # Invariants
//!
//! - **I1** A process is in one run queue, or in the admission queue, or with one worker or
//!   evictor, or in none of these because it waits, is held by a pause, or has ended. The state
//!   word says which; only the thread that moved it there may open the body.
//! - **I2** WAKE or MAIL is set exactly when the event queue is not empty.
//! - **I3** Events of one poster are delivered in the order of their posts; each is delivered once,
//!   or dropped and counted because its process has ended.
//! - **I4** A waiting process is not stepped before something comes that ends its wait; a message
//!   does not end that of a Blocked one.
//! - **I5** While a job is in a run queue, some worker is awake and will find it.
//! - **I6** A worker that is in a slice holds back from thieves at most the job that it woke last
//!   and 16 that said `ready`, and these only where turns were short and no worker was idle when it
//!   could last look: before the slice, or when the job was woken (`worker/mod.rs`).
//! - **I7** The permits held and the free ones add up to the pool's capacity.
//! - **I8** Lookups write no shared memory. The transition itself refuses a generation that is not
//!   the place's own. (Generations wrap after 2^32 tenants of one place.)
//!
//! # Tests
//!
//! `place_tests.rs`: a place against a model of the table. `tests/loom`: each row of the table in
//! all interleavings, and whole workers in as many as are feasible. `tests/shuttle`: the scheduler
//! with its threads under random schedules. [`sim`](crate::sim): seeded simulation with faults, by
//! turns of virtual workers. `tests/scheduler`: real threads. `tests/allocations`: a steady
//! exchange allocates nothing. `tests/bench/scheduler`: figures.

mod admission;
#[cfg(all(test, not(any(loom, shuttle))))]
mod admission_tests;
mod aside;
mod buffers;
mod commit;
mod fairness;
mod global;
mod handle;
mod local;
#[cfg(all(test, loom))]
#[path = "../../tests/loom/mod.rs"]
mod loom;
mod pace;
mod permit_holders;
mod place;
#[cfg(all(test, not(any(loom, shuttle))))]
mod place_tests;
mod shared;
mod shutdown;
mod sleep;
mod slots;
mod start;
mod state;
mod stats;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod timeline;
mod timers;
mod victim;
mod worker;

pub use commit::{Commit, Interrupt, Next, Pause, Permitted, Port, Slot, Turn, Wake};
pub use handle::Handle;
pub use shutdown::Shutdown;
pub use start::{Config, Scheduler, VirtualScheduler};
pub use stats::Stats;
pub use timeline::{Deed, WorkerEvent, WorkerRecording, WorkerTimeline};
pub use timers::TimerId;
pub use worker::TurnOutcome;
