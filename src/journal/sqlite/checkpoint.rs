//! Work beside the writer: checkpoints, and moving ended runs out of the log.
//!
//! SQLite appends changed pages to a log of its own, and a *checkpoint* copies them into the file
//! and syncs both. The writer's commits do not wait for that. But a log is begun anew only when all
//! of it was copied, and with a writer that never rests there is always a little more: so when the
//! log has grown, the rest is copied while the writer waits, which is short since most of it is
//! there already.

use super::StoreError;
use super::archive;
use super::commit_loop::Shared;
use super::error::sqlite;
use super::schema::{connect, do_not_checkpoint_on_close};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

/// Pages of SQLite's log from which on the writer waits for the rest of the checkpoint. Arbitrary.
const PAGES_MAX: i64 = 4_000;
/// Runs moved in one transaction, which the writer may have to wait for. Arbitrary: with
/// [`MOVED_BYTES_MAX`] about a millisecond.
const MOVED_RUNS_MAX: usize = 32;
/// Bytes moved in one transaction, but for the last run of it. Arbitrary, as [`MOVED_RUNS_MAX`].
const MOVED_BYTES_MAX: usize = 256 << 10;

/// Runs the thread. What fails is tried again later: nothing depends on it, and the writer finds
/// what is wrong with the file.
pub(super) fn run(shared: &Shared) {
    let signal = &shared.checkpoint_signal;
    if !signal.wait() {
        return;
    }
    let Ok(mut db) = connect(&shared.path) else { return };
    // A move that is lost is made again.
    if db.pragma_update(None, "synchronous", "NORMAL").is_err() {
        return;
    }
    loop {
        match checkpoint(shared, &db) {
            // A sync that failed is not tried again: what it left unsynced may be lost, and the
            // next one would not say so.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) => {
                shared.fail(sqlite(&shared.path)(error));
            }
            _ if shared.has_failed() => {}
            _ => drop(shared.move_ended(&mut db, || signal.is_raised())),
        }
        if !signal.wait() {
            break;
        }
    }
    if shared.has_failed() {
        do_not_checkpoint_on_close(&db);
    }
}

/// Copies SQLite's log into the file.
fn checkpoint(shared: &Shared, db: &Connection) -> rusqlite::Result<()> {
    let passive = || db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(1));
    if passive()? >= PAGES_MAX {
        let _write_lock = shared.write_lock.lock();
        passive()?;
    }
    Ok(())
}

impl Shared {
    /// Moves ended runs out of the log, a few at a time, and returns how many.
    ///
    /// # Errors
    /// Fails if the file cannot be written; earlier moves stay.
    pub(super) fn move_ended(&self, db: &mut Connection, stop: impl Fn() -> bool) -> Result<usize, StoreError> {
        let fails = sqlite(&self.path);
        let (mut last, mut moved) = (0, 0);
        while !stop() {
            let write_lock = self.write_lock.lock();
            let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
            let (mut runs, mut bytes) = (0, 0);
            while runs < MOVED_RUNS_MAX && bytes < MOVED_BYTES_MAX {
                let Some(run) = archive::unmoved(&change, last).map_err(&fails)? else { break };
                last = run.row;
                bytes += archive::add(&change, &run).map_err(&fails)?;
                runs += 1;
            }
            change.commit().map_err(&fails)?;
            // The writer goes first if it waits.
            parking_lot::MutexGuard::unlock_fair(write_lock);
            moved += runs;
            // Twice: in the log, where they were, and in `done`, where they are.
            self.checkpoint_signal.wrote(bytes / 2_048);
            if runs == 0 {
                break;
            }
        }
        Ok(moved)
    }
}
