//! Opening a store, and what stands in it beside the records.

use super::writer::Writer;
use super::{Durables, RunLog, Sqlite, StoreError};
use crate::process::Micros;
use crate::run::Log;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// "wfho" as a number: which program the file is of.
const APPLICATION: i64 = 0x7766_686f;
/// The format of the tables.
const FORMAT: i64 = 1;
/// How long to wait for another process's transaction.
const BUSY: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
CREATE TABLE run (
    run INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    -- Grows each time that the run is taken up.
    epoch INTEGER NOT NULL DEFAULT 1,
    -- 0: unfinished, 1: ended.
    state INTEGER NOT NULL DEFAULT 0,
    -- Microseconds since 1970.
    created INTEGER NOT NULL,
    -- A row of its own at or before its last one.
    head INTEGER NOT NULL DEFAULT 0,
    -- What whoever started it needs to take it up: JSON.
    about TEXT NOT NULL
) STRICT;
CREATE INDEX unfinished ON run (run) WHERE state = 0;
CREATE TABLE log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    -- The number of its first record, from 1.
    seq INTEGER NOT NULL,
    -- The run's row before it, or 0.
    prev INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE VIEW records AS SELECT run.id AS run, seq, length(data) AS bytes, data FROM log JOIN run USING (run) ORDER BY log.id;
";

/// A run that begins.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Its id.
    pub id: Arc<str>,
    /// When.
    pub created: Micros,
    /// What whoever starts it needs to take it up again: JSON.
    pub about: String,
}

/// A run in the store.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Stored {
    /// Its id.
    pub id: Arc<str>,
    /// When it was created.
    pub created: Micros,
    /// Whether it has ended.
    pub ended: bool,
    /// What was said of it when it began.
    pub about: String,
}

pub(super) fn sqlite(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |error| StoreError::Sqlite { path: path.clone(), error: Arc::new(error) }
}

pub(super) fn io(path: &Path) -> impl Fn(std::io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |error| StoreError::Io { path: path.clone(), error: Arc::new(error) }
}

/// A connection to the file, set up as every one must be.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let fails = sqlite(path);
    let db = Connection::open(path).map_err(&fails)?;
    db.busy_timeout(BUSY).map_err(&fails)?;
    db.pragma_update(None, "journal_mode", "WAL").map_err(&fails)?;
    db.pragma_update(None, "synchronous", "FULL").map_err(&fails)?;
    Ok(db)
}

/// Makes the tables of a new file, and checks those of an old one.
fn migrate(db: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let fails = sqlite(path);
    let change = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(&fails)?;
    let pragma = |name: &str| change.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let (application, format) = (pragma("application_id").map_err(&fails)?, pragma("user_version").map_err(&fails)?);
    let tables: i64 = change.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(&fails)?;
    if application == 0 && format == 0 && tables == 0 {
        change.execute_batch(SCHEMA).map_err(&fails)?;
        change.pragma_update(None, "application_id", APPLICATION).map_err(&fails)?;
        change.pragma_update(None, "user_version", FORMAT).map_err(&fails)?;
        return change.commit().map_err(&fails);
    }
    if application != APPLICATION {
        return Err(StoreError::Foreign { path: path.to_owned() });
    }
    if format != FORMAT {
        return Err(StoreError::Format { path: path.to_owned(), found: format, known: FORMAT });
    }
    Ok(())
}

impl Sqlite {
    /// Opens the store of a folder, which is made where it is not there. Several processes may have it open.
    ///
    /// # Errors
    /// Where the folder or the file cannot be used, or is of another release.
    pub fn open(folder: impl Into<PathBuf>, durables: Arc<dyn Durables>) -> Result<Self, StoreError> {
        let folder = folder.into();
        let locks = folder.join("locks");
        std::fs::create_dir_all(&locks).map_err(io(&locks))?;
        let path = folder.join("journal.db");
        let mut db = connect(&path)?;
        migrate(&mut db, &path)?;
        Writer::start(db, path, locks, durables).map(Self)
    }

    /// Begins a run: its row is durable when its first record is.
    ///
    /// # Errors
    /// Where there is a run of that id.
    pub fn begin(&self, run: &NewRun) -> Result<Box<dyn Log>, StoreError> {
        let id = Arc::clone(&run.id);
        let db = self.0.reader();
        let known: Option<i64> = db
            .query_row("SELECT run FROM run WHERE id = ?1", [&*run.id], |row| row.get(0))
            .optional()
            .map_err(sqlite(self.0.path()))?;
        drop(db);
        if known.is_some() {
            return Err(StoreError::Exists(id));
        }
        let owned = self.0.begin(run)?;
        Ok(Box::new(RunLog { writer: Arc::clone(&self.0), run: owned, id }))
    }

    /// Waits until everything that was handed over is durable.
    ///
    /// # Errors
    /// Why it never will be.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.0.flush()
    }

    /// The unfinished runs, the oldest first.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn unfinished(&self) -> Result<Vec<Stored>, StoreError> {
        self.list("state = 0")
    }

    /// A run.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn run(&self, id: &str) -> Result<Option<Stored>, StoreError> {
        Ok(self.list("true")?.into_iter().find(|run| &*run.id == id))
    }

    fn list(&self, which: &str) -> Result<Vec<Stored>, StoreError> {
        let fails = sqlite(self.0.path());
        let db = self.0.reader();
        let mut select = db
            .prepare_cached(&format!("SELECT id, created, state, about FROM run WHERE {which} ORDER BY run"))
            .map_err(&fails)?;
        let rows = select.query_map(params![], |row| {
            Ok(Stored {
                id: row.get::<_, String>(0)?.into(),
                created: Micros(row.get::<_, i64>(1)?.cast_unsigned()),
                ended: row.get::<_, i64>(2)? != 0,
                about: row.get(3)?,
            })
        });
        rows.and_then(Iterator::collect).map_err(&fails)
    }
}
