//! Records of many runs in one SQLite file (`journal.db` in the data folder), which the `sqlite3` tool opens.
//!
//! **Layout.** `log` is appended to in the order of its row ids: one row holds what one run wrote since the last commit of the file, with
//! the id of the run's row before it (`prev`). There is no index beside the row ids: an append dirties the last page only. Compared with a
//! table keyed by run and number it is 4 to 13 times faster at large groups. A run's last row is known to the writer; it is in `run.head` when
//! nobody has the run, and otherwise there or near the end of the log (`heads.rs`). The rows of an ended run are moved to `done`, beside the
//! writer (`checkpoint.rs`). Large records are in `blob`, once for all runs.
//!
//! **Group commit.** One thread writes. While it commits, the runs' records gather; it takes all of them into the next transaction: one
//! fsync for many runs. Only then are they told that their records are durable. It begins when somebody waits for a record, and otherwise
//! 5 ms after the first that gathered: steps of which nothing leaves the host cost no fsync of their own. Other threads of the process that write (a run is taken up,
//! a message is left) take turns with it by the *pen*, since SQLite's own lock can be waited for by asking again and again only.
//!
//! **Backlog.** Nobody waits where records are handed over, which is under a run's commit lock. Where more has gathered than 64 MiB, no process
//! of these runs begins a step, and no run begins, until the next group is taken (`Backlog`).
//!
//! **Ownership.** A process that writes runs is a *host* of the store: a row in `host`, and the operating system's lock on
//! `hosts/<number>.lock` for as long as the process lives. `run.owner` is the host that has the run, or NULL. Whoever takes up a run
//! sees in one write transaction that it has no owner or a dead one. A dead one is *buried* there, and each group's transaction checks that
//! its own host is not: one that was believed dead and is not writes nothing more. Each time that a run is taken up its epoch grows, and
//! the transaction of every append checks it too.
//!
//! **Mail** for a run that no living host has is a row in `inbox`, written in the transaction that sees that there is none. Its body goes in
//! the transaction of the record that it became; its id and digest stay, for when it comes again.
//!
//! **SQLite's log** of pages (`journal.db-wal`) is a part of the store until it was copied into the file: when it has grown, and when the last
//! process ends that has the store open. A log that is damaged is kept before SQLite throws it away (`wal.rs`).
//!
//! **Snapshots** are in a file of their own, `snapshots.db`, written by a thread of its own without a sync.
//!
//! - **I1** A row is all of its batch or nothing: a checksum tells, and the number of its first record follows from the row before.
//! - **I2** An error of a commit is final for the store: nothing that waits for it is ever told to be durable. Only a full disk and
//!   another process's transaction are waited for: nothing was written then.
//! - **I3** Where `run.owner` is NULL, `run.head` is the run's last row; where a host has it, its last row is `run.head` or comes after
//!   `host.saved`.
//! - **I4** The locks of a process are taken in this order: the reader's connection, the pen, the queue. Nobody holds the queue over a
//!   commit, and nobody calls foreign code with any of them.

mod archive;
mod batch;
mod blob;
mod check;
mod checkpoint;
mod commit_loop;
mod group;
mod heads;
mod hosts;
mod inbox;
#[allow(clippy::module_inception, reason = "it is what the trait is called")]
mod journal;
mod list;
mod ownership;
mod queue;
mod read;
mod schema;
mod snapshots;
mod sweep;
mod wal;
mod wal_index;
mod writer;

use super::shelf::RunShelf;
use super::{DurabilityListener, StoreError};
use crate::run::{Backlog, Durability, Log, Mail, ParkedLog, Reading, RunEnd, Shelf};
use bytes::Bytes;
use hosts::Locks;
use inbox::Consumed;
use rusqlite::Connection;
use schema::{connect, make_folder, migrate};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use writer::Writer;

/// A store. Cloning it is cheap; the last one that is dropped, with all logs, ends the writer after what was handed to it is durable.
#[derive(Clone)]
pub struct Sqlite(Arc<Writer>);

impl Sqlite {
    /// Opens the store of a folder, which is made where it is not there. Several processes may have it open. A process becomes one of its
    /// hosts when it first begins a run or takes one up.
    ///
    /// # Errors
    /// Where the folder or the file cannot be used, or is of another release.
    pub fn open(folder: impl Into<PathBuf>, durables: Arc<dyn DurabilityListener>) -> Result<Self, StoreError> {
        Self::open_tuned(folder.into(), durables, |_| Ok(()))
    }

    /// Whether a folder was in use and has lost its store: nothing is made, and nothing is opened.
    ///
    /// # Errors
    /// Where SQLite's log is still there: it has what was written last, and the store is not opened without its file.
    pub fn is_lost(folder: &Path) -> Result<bool, StoreError> {
        wal::is_lost(&folder.join("journal.db"))
    }

    /// Opens a store whose writer's connection is set up further.
    fn open_tuned(
        folder: PathBuf,
        durables: Arc<dyn DurabilityListener>,
        tune: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<Self, StoreError> {
        make_folder(&folder)?;
        let locks = Locks::new(&folder)?;
        let path = folder.join("journal.db");
        if wal::is_lost(&path)? {
            durables.recreated(&path);
        }
        if let Some(kept) = wal::keep_if_torn(&path)? {
            durables.torn(&kept);
        }
        let mut db = connect(&path)?;
        migrate(&mut db, &path)?;
        tune(&db).map_err(schema::sqlite(&path))?;
        Writer::start(db, &folder, locks, durables).map(Self)
    }

    /// Copies SQLite's log into the file itself, and empties it, where nobody else has the file open. Who ends a process without dropping its
    /// stores does so before: what was written stands in two files otherwise until somebody opens them again, and who loses one of them, or a
    /// bit of it, loses more than that. Nothing depends on it, and it waits for nobody.
    pub fn settle(&self) {
        self.0.settle();
    }

    /// Waits until all that was handed over before is durable, as [`Journal::flush`](crate::journal::Journal::flush) does, but not for room on a
    /// full disk. False: the disk is full.
    ///
    /// # Errors
    /// Why it never will be; also where somebody has removed or replaced a file of the store, and what was durable is gone with it.
    pub fn flush_while_room(&self) -> Result<bool, StoreError> {
        self.0.flush_while_room()
    }

    /// Waits for no room on a full disk any more: nothing that is not durable by now will be.
    pub fn give_up(&self) {
        self.0.give_up();
    }

    /// Whether the disk is full, and the store waits for room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.shared.queue.lock().full
    }

    /// SQLite's logs that were damaged or gone when the store was opened, each with the number of transactions that are behind the damage and not
    /// in the store; 0 where they are lost.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn torn(&self) -> Result<Vec<(PathBuf, u64)>, StoreError> {
        wal::kept(self.0.path()).map_err(schema::io(self.0.path()))
    }

    /// The snapshots of a run.
    pub fn shelf(&self, run: &str) -> Arc<dyn Shelf> {
        self.0.shelf(run.into())
    }
}

impl Writer {
    /// The records of a run that this process has, whether or not they are on disk.
    fn all_records(&self, run: queue::Owned, id: &str) -> Option<Vec<Bytes>> {
        let (durable, batches) = self.undurable(run);
        let mut records = match self.records(id) {
            Err(StoreError::Unknown(_)) => Vec::new(),
            records => records.ok()?,
        };
        let mut expected = durable;
        for batch in batches {
            expected += batch.len() as u64;
            // Meanwhile it may have come to the disk.
            if (records.len() as u64) < expected {
                records.extend(batch);
            }
        }
        Some(records)
    }

    fn shelf(self: &Arc<Self>, run: Arc<str>) -> Arc<dyn Shelf> {
        let writer = Arc::downgrade(self);
        Arc::new(RunShelf::new(move || writer.upgrade().map(Sqlite), run))
    }
}

/// The log of one run in a store.
struct RunLog {
    writer: Arc<Writer>,
    run: queue::Owned,
    id: Arc<str>,
    /// What the next record is of.
    consumed: Vec<Consumed>,
    /// Of all its records.
    bytes: u64,
    /// Somebody else writes the run from now on.
    handed_on: bool,
}

/// Bytes of these records.
fn bytes_of(records: &[Bytes]) -> u64 {
    records.iter().map(|record| record.len() as u64).sum()
}

/// The log of a run that is parked.
struct ParkedRunLog(RunLog);

impl ParkedLog for ParkedRunLog {
    fn take_up(self: Box<Self>) -> Result<(Box<dyn Log>, Vec<Bytes>), String> {
        let RunLog { writer, id, .. } = &self.0;
        let records = writer.records(id).map_err(|error| error.to_string())?;
        let mut log = self.0;
        log.bytes = bytes_of(&records);
        Ok((Box::new(log), records))
    }
}

impl RunLog {
    /// The log of a run that has so many bytes of records.
    fn new(writer: &Arc<Writer>, run: queue::Owned, id: Arc<str>, bytes: u64) -> Self {
        Self { writer: Arc::clone(writer), run, id, consumed: Vec::new(), bytes, handed_on: false }
    }
}

impl Log for RunLog {
    fn append(&mut self, record: &[u8]) -> Durability {
        self.writer.append(self.run, record, &mut self.consumed);
        self.bytes += record.len() as u64;
        Durability::Later
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn hurry(&mut self) {
        self.writer.hurry(self.run);
    }

    fn consume(&mut self, mail: &Mail) {
        let (id, kind) = (Arc::clone(&mail.id), Arc::clone(&mail.kind));
        self.consumed.push(Consumed { id, kind, digest: mail.digest().to_le_bytes() });
    }

    fn ended(&mut self, end: &RunEnd) -> Durability {
        self.writer.end(self.run, *end);
        Durability::Later
    }

    fn backlog(&self) -> Option<Arc<Backlog>> {
        Some(Arc::clone(&self.writer.shared.backlog))
    }

    fn shelf(&self) -> Option<Arc<dyn Shelf>> {
        Some(self.writer.shelf(Arc::clone(&self.id)))
    }

    fn can_park(&self) -> bool {
        true
    }

    fn park(&mut self) -> Option<Box<dyn ParkedLog>> {
        self.handed_on = true;
        Some(Box::new(ParkedRunLog(Self::new(&self.writer, self.run, Arc::clone(&self.id), self.bytes))))
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.writer.all_records(self.run, &self.id)
    }

    fn reading(&self) -> Option<Reading> {
        let (writer, run, id) = (Arc::clone(&self.writer), self.run, Arc::clone(&self.id));
        Some(Box::new(move || writer.all_records(run, &id)))
    }
}

impl Drop for RunLog {
    fn drop(&mut self) {
        if !self.handed_on {
            self.writer.let_go(self.run);
        }
    }
}

#[cfg(test)]
mod tests;
