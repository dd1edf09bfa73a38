//! What is done beside the writer: checkpoints, and moving ended runs out of the log.
//!
//! SQLite appends changed pages to a log of its own, and a *checkpoint* copies them into the file and syncs both. The writer's commits do not
//! wait for that. But a log is begun anew only when all of it was copied, and with a writer that never rests there is always a little more:
//! so when it has grown, the rest is copied while the writer waits, which is short since most of it is there already.

use super::StoreError;
use super::archive;
use super::commit_loop::{Shared, leave_as_it_is};
use super::schema::{connect, sqlite};
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

/// Pages of SQLite's log after which there is a checkpoint: a commit takes less on a log that is
/// overwritten (127 µs, by a prototype) than on one that grows (193 µs).
const PAGES: usize = 1_000;
/// Pages of SQLite's log from which on the writer waits for the rest of the checkpoint. Arbitrary.
const PAGES_MAX: i64 = 4_000;
/// Runs and bytes that are moved in one transaction, which the writer may have to wait for. Arbitrary: about a millisecond.
const MOVED: (usize, usize) = (32, 256 << 10);

/// When there is something to do.
#[derive(Default)]
pub(super) struct Bell {
    state: Mutex<Rung>,
    rung: Condvar,
}

#[derive(Default)]
struct Rung {
    pages: usize,
    closing: bool,
}

impl Bell {
    /// So many pages, about, were written.
    pub(super) fn wrote(&self, pages: usize) {
        let mut state = self.state.lock();
        state.pages += pages;
        if state.pages >= PAGES {
            self.rung.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.rung.notify_one();
    }

    /// Waits until there is something to do. False: there never is again.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.pages < PAGES && !state.closing {
            self.rung.wait(&mut state);
        }
        state.pages = 0;
        !state.closing
    }

    /// Whether something else is to be done.
    fn is_rung(&self) -> bool {
        let state = self.state.lock();
        state.pages >= PAGES || state.closing
    }
}

/// The thread's work. What fails is tried again later: nothing depends on it, and what is wrong with the file is found by the writer.
pub(super) fn run(shared: &Shared) {
    let bell = &shared.bell;
    if !bell.wait() {
        return;
    }
    let Ok(mut db) = connect(&shared.path) else { return };
    // A move that is lost is made again.
    if db.pragma_update(None, "synchronous", "NORMAL").is_err() {
        return;
    }
    loop {
        match checkpoint(shared, &db) {
            // A sync that failed is not tried again: what it left unsynced may be lost, and the next one would not say so.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) => {
                shared.fail(sqlite(&shared.path)(error));
            }
            _ if shared.has_failed() => {}
            _ => drop(shared.move_ended(&mut db, || bell.is_rung())),
        }
        if !bell.wait() {
            break;
        }
    }
    if shared.has_failed() {
        leave_as_it_is(&db);
    }
}

/// Copies what SQLite's log has into the file.
fn checkpoint(shared: &Shared, db: &Connection) -> rusqlite::Result<()> {
    let passive = || db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(1));
    if passive()? >= PAGES_MAX {
        let _pen = shared.pen.lock();
        passive()?;
    }
    Ok(())
}

impl Shared {
    /// Moves ended runs out of the log, a few at a time. Gives how many.
    ///
    /// # Errors
    /// Where the file cannot be written: what was moved so far is.
    pub(super) fn move_ended(&self, db: &mut Connection, stop: impl Fn() -> bool) -> Result<usize, StoreError> {
        let fails = sqlite(&self.path);
        let (mut last, mut moved) = (0, 0);
        while !stop() {
            let pen = self.pen.lock();
            let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
            let (mut runs, mut bytes) = (0, 0);
            while runs < MOVED.0 && bytes < MOVED.1 {
                let Some(place) = archive::unmoved(&change, last).map_err(&fails)? else { break };
                last = place.run;
                bytes += archive::take(&change, &place).map_err(&fails)?;
                runs += 1;
            }
            change.commit().map_err(&fails)?;
            // The writer goes first if it waits.
            parking_lot::MutexGuard::unlock_fair(pen);
            moved += runs;
            // Once where they were, once where they are.
            self.bell.wrote(bytes / 2_048);
            if runs == 0 {
                break;
            }
        }
        Ok(moved)
    }
}
