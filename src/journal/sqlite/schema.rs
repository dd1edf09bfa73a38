//! The tables of a store, their format, and connections to the file.

use super::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// "wfho" as a number: which program the file is of.
const APPLICATION: i64 = 0x7766_686f;
/// The format of the tables.
const FORMAT: i64 = 1;
/// How long to wait for another process's transaction.
const BUSY: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
CREATE TABLE host (
    host INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Its operating system process.
    pid INTEGER NOT NULL,
    -- Microseconds since 1970.
    started INTEGER NOT NULL,
    -- Where it listens.
    socket TEXT,
    -- Somebody took it for dead: it writes nothing more.
    buried INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE run (
    run INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    -- Of its workflow.
    name TEXT NOT NULL,
    -- The host that has it.
    owner INTEGER,
    -- Grows each time that the run is taken up.
    epoch INTEGER NOT NULL DEFAULT 1,
    -- How it ended, or NULL.
    status TEXT,
    -- Microseconds since 1970.
    created INTEGER NOT NULL,
    ended INTEGER,
    -- Its last row in the log where nobody owns it, else one before that; and how many records it has, or a few less where its host died.
    head INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0,
    -- What whoever started it needs to take it up: JSON.
    about TEXT NOT NULL
) STRICT;
CREATE INDEX run_created ON run (created);
CREATE INDEX run_status ON run (status, created);
CREATE INDEX run_name ON run (name, created);
CREATE INDEX run_ended ON run (ended) WHERE ended IS NOT NULL;
CREATE INDEX run_owner ON run (owner) WHERE owner IS NOT NULL;
CREATE TABLE log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    -- The number of its first record, from 1.
    seq INTEGER NOT NULL,
    -- The run's row before it, or 0.
    prev INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE TABLE inbox (
    item INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    mail TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- Of kind and body: XXH3, 128 bits.
    digest BLOB NOT NULL,
    -- NULL when its record is in the log.
    body BLOB,
    UNIQUE (run, mail)
) STRICT;
CREATE VIEW records AS SELECT run.id AS run, seq, length(data) AS bytes, data FROM log JOIN run USING (run) ORDER BY log.id;
";

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
pub(super) fn migrate(db: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let fails = sqlite(path);
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
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
