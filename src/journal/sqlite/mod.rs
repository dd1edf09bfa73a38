//! Records of many runs in one SQLite file (`journal.db` in the data folder), which the `sqlite3`
//! tool opens.
//!
//! **Layout.** Rows are appended to `log` in the order of their ids. One row holds what one run
//! wrote since the last commit of the file, with the id of the run's previous row (`prev`). There
//! is no index beside the row ids: an append dirties the last page only. Compared with a table
//! keyed by run and number this is 4 to 13 times faster at large groups. The writer knows the last
//! row of each run that it writes. It is in `run.head` when no host owns the run, and otherwise
//! there or near the end of the log (`heads.rs`). The rows of an ended run are moved to `done`,
//! beside the writer (`checkpoint.rs`). Large records are in `blob`, once for all runs.
//!
//! **Group commit.** One thread writes. While it commits, records gather; the next transaction
//! takes all of them: one fsync for many runs. Only then are they reported as durable. A commit
//! begins when a caller waits for a record, and otherwise 5 ms after the first one that gathered:
//! steps that send nothing out of the host cost no fsync of their own. Other threads of the process
//! that write (to recover a run, to store mail) take turns with it by the *write lock*, because
//! SQLite's own lock can only be waited for by asking again and again.
//!
//! **Backlog.** Appending never waits, because it happens under a run's commit lock. When more than
//! 64 MiB have gathered, no process of these runs begins a step, and no run begins, until the next
//! group is taken (`Backlog`).
//!
//! **Ownership.** An operating system process that writes runs is a *host* of the store: a row in
//! `host`, and the operating system's lock on `hosts/<number>.lock` for as long as it lives.
//! `run.owner` is the host that owns the run, or NULL. A host that recovers a run sees in one write
//! transaction that the run has no owner or a dead one. A dead one is *fenced* there (column
//! `buried`), and each group's transaction checks that its own host is not fenced: a host that was
//! believed dead and is not writes nothing more. Each recovery of a run increments its epoch, which
//! the transaction of every append checks too.
//!
//! **Parked runs.** `run.wake` says that a run is parked, and until when. The rows of those whose
//! hosts are dead are not written again, nor read at a start: one living host, the *heir*, has them
//! all, and finds by indexes those that are wanted (`wanted.rs`).
//!
//! **Mail** for a run that no living host owns is a row in `inbox`, written in the transaction that
//! sees that no host owns it. Its body is removed in the transaction of the record that it became;
//! its id and digest stay, to recognise it when it comes again.
//!
//! **SQLite's log** of pages (`journal.db-wal`) is a part of the store until it is copied into the
//! file: when it has grown, and when the last process that has the store open ends. A damaged log
//! is retained before SQLite throws it away (`wal.rs`).
//!
//! **Snapshots** are in a file of their own, `snapshots.db`, written by a thread of its own without
//! a sync. So is the cache of steps, `cache.db` ([`step_cache`]).
//!
//! - **I1** A row is all of its batch or nothing: a checksum shows it, and the number of its first
//!   record follows from the row before.
//! - **I2** An error of a commit is final for the store: nothing that waits for it is ever reported
//!   as durable. Only a full disk and another process's transaction are waited for: nothing was
//!   written then.
//! - **I3** If `run.owner` is NULL or `run.wake` is not, `run.head` is the run's last row. If a
//!   host owns the run, its last row is `run.head` or comes after `host.saved`.
//! - **I4** The locks of a process are taken in this order: the reader's connection, the write
//!   lock, the queue. No thread holds the queue during a commit, and no thread calls foreign code
//!   with any of them.

mod archive;
mod backup;
mod batch;
mod blob;
mod blob_holders;
mod catalog;
mod check;
mod checkpoint;
mod checkpoint_signal;
mod commit_loop;
mod components;
mod create;
mod error;
mod file;
mod group;
mod heads;
mod host_ends;
mod hosts;
mod inbox;
#[allow(clippy::module_inception, reason = "it implements the trait of this name")]
mod journal;
mod list;
mod mail;
mod marks;
mod ownership;
mod places;
mod queue;
mod read;
mod remove;
mod rows;
mod run_log;
mod schema;
mod snapshots;
mod statistics;
pub(crate) mod step_cache;
mod store;
mod sweep;
mod upgrade;
mod wal;
mod wal_index;
mod wanted;
mod writer;

use super::StoreError;
#[cfg(feature = "wasm")]
pub(crate) use components::ComponentStore;
pub use store::Sqlite;

#[cfg(test)]
mod tests;
