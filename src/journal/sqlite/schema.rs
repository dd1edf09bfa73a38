//! The tables of a store, their format, and connections to the file.

use super::StoreError;
use super::error::{io, sqlite};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

/// "wfho" as a number: the application that the file belongs to.
const APPLICATION: i64 = 0x7766_686f;
/// Pages of memory for each connection, as a negative number of KiB. Arbitrary.
const CACHE_KIB: i64 = -16_384;
/// Bytes of SQLite's log that are kept when it is begun anew: many times what it has when
/// checkpoints keep up, so that commits go on to overwrite a file that is there.
const LOG_BYTES_KEPT: i64 = 64 << 20;
/// How long to wait between two tries while another process has a transaction, at first and later.
const BUSY: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));
/// How many tries have the first of these intervals, and how many there are: some 20 seconds.
const BUSY_TRIES: (i32, i32) = (100, 20_000);
/// The first version without a defect in the log of pages that shows with two connections, one that
/// writes and one that checkpoints.
const SQLITE_MIN: i32 = 3_051_003;

/// The change of each format into the next one; the first makes the tables of a new store. A
/// released one never changes: a change of the tables is a new migration. A store records which
/// release has brought it to each of its formats, so that older releases can name it.
pub(super) const MIGRATIONS: &[&str] = &[SCHEMA, DAMAGE, SERVICE, BLOBS];

/// Why a run cannot be recovered, if its records were found damaged.
const DAMAGE: &str = "ALTER TABLE run ADD COLUMN damage TEXT;";

/// The blobs that are stored in files, and who holds them. A holder is the id of a run, or what is
/// not one yet.
const BLOBS: &str = "
CREATE TABLE held_blob (hash BLOB PRIMARY KEY, size INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE blob_holder (
    holder TEXT NOT NULL,
    hash BLOB NOT NULL,
    size INTEGER NOT NULL,
    media TEXT NOT NULL,
    -- When it was last given, in microseconds since 1970.
    at INTEGER NOT NULL,
    PRIMARY KEY (holder, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_held ON blob_holder (hash);
-- The bytes of all of them, so that no put has to add them up.
CREATE TABLE held_bytes (one INTEGER PRIMARY KEY CHECK (one = 1), bytes INTEGER NOT NULL) STRICT;
INSERT INTO held_bytes (one, bytes) VALUES (1, 0);
CREATE TRIGGER held_more AFTER INSERT ON held_blob BEGIN UPDATE held_bytes SET bytes = bytes + NEW.size; END;
CREATE TRIGGER held_less AFTER DELETE ON held_blob BEGIN UPDATE held_bytes SET bytes = bytes - OLD.size; END;
";

/// What a service has besides its runs. Times are microseconds since 1970. What is not a column of
/// `run` is written beside the transactions of records.
const SERVICE: &str = "
-- The version of its workflow that it runs; NULL if `about` has its text.
ALTER TABLE run ADD COLUMN version INTEGER;
-- Its concurrency group.
ALTER TABLE run ADD COLUMN grp TEXT;
-- It waits for a place in its group: 1; or only to end, in favour of a later one: 2.
ALTER TABLE run ADD COLUMN queued INTEGER NOT NULL DEFAULT 0;
-- It gets a place when fewer runs of its group have one.
ALTER TABLE run ADD COLUMN places INTEGER;
-- It is parked until then, or until something comes for it: 9223372036854775807. NULL: it is not parked.
ALTER TABLE run ADD COLUMN wake INTEGER;
-- It has the parked runs whose owners are dead.
ALTER TABLE host ADD COLUMN heir INTEGER NOT NULL DEFAULT 0;
DROP INDEX run_owner;
CREATE INDEX run_owner ON run (owner) WHERE owner IS NOT NULL AND wake IS NULL;
CREATE INDEX run_orphan ON run (run) WHERE owner IS NULL AND status IS NULL AND wake IS NULL;
CREATE INDEX run_parked ON run (owner, wake) WHERE wake IS NOT NULL;
CREATE INDEX inbox_pending ON inbox (run) WHERE body IS NOT NULL;
CREATE INDEX run_group ON run (grp, queued, run) WHERE grp IS NOT NULL AND status IS NULL;
CREATE INDEX run_version ON run (version, created) WHERE version IS NOT NULL;
CREATE INDEX run_damaged ON run (created) WHERE damage IS NOT NULL;
CREATE TABLE workflow (
    version INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    -- From 1, for each name.
    number INTEGER NOT NULL,
    -- BLAKE3 of the file's name, its source and its components, in hexadecimal.
    digest TEXT NOT NULL,
    file TEXT NOT NULL,
    source TEXT NOT NULL,
    -- What each component and script of the source is: JSON, an object of digests.
    components TEXT NOT NULL,
    created INTEGER NOT NULL,
    -- Who deployed it, and why.
    author TEXT NOT NULL,
    note TEXT,
    UNIQUE (name, number),
    UNIQUE (name, digest)
) STRICT;
-- The number of the newest version of each, which is not given again once the version is removed.
CREATE TABLE newest (name TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT;
CREATE TABLE active (name TEXT PRIMARY KEY, number INTEGER NOT NULL, since INTEGER NOT NULL, author TEXT NOT NULL) STRICT;
-- With the time of the run, by which lists are sorted.
CREATE TABLE label (
    run INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX label_value ON label (key, value, created, run);
-- What runs wait for from people: signals, and the resolution of uncertain calls.
CREATE TABLE waiting (
    run INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    since INTEGER NOT NULL,
    -- What a person is shown: JSON.
    detail TEXT,
    PRIMARY KEY (run, kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX waiting_since ON waiting (kind, since);
CREATE TABLE token (
    id TEXT PRIMARY KEY,
    -- SHA-256 of the secret.
    hash BLOB NOT NULL,
    name TEXT NOT NULL,
    -- JSON: lists of text.
    scopes TEXT NOT NULL,
    workflows TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    -- To the hour.
    used INTEGER,
    revoked INTEGER
) STRICT;
CREATE TABLE schedule (
    name TEXT PRIMARY KEY,
    -- Where it is from: `workflow` or `api`.
    origin TEXT NOT NULL,
    workflow TEXT NOT NULL,
    -- JSON.
    spec TEXT NOT NULL,
    -- Grows with each change.
    revision INTEGER NOT NULL,
    created INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    author TEXT NOT NULL,
    paused INTEGER,
    -- The last due time that was handled; a hint.
    last INTEGER
) STRICT;
CREATE TABLE firing (
    schedule TEXT NOT NULL,
    due INTEGER NOT NULL,
    at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    run TEXT,
    reason TEXT,
    PRIMARY KEY (schedule, due)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook (
    name TEXT PRIMARY KEY,
    origin TEXT NOT NULL,
    -- JSON, without secrets.
    spec TEXT NOT NULL,
    revision INTEGER NOT NULL,
    created INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    author TEXT NOT NULL
) STRICT;
CREATE TABLE delivery (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook TEXT NOT NULL,
    -- What the sender calls it.
    id TEXT,
    at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    run TEXT,
    reason TEXT
) STRICT;
CREATE INDEX delivery_webhook ON delivery (webhook, row);
CREATE TABLE link (
    -- SHA-256 of the secret in the link.
    hash BLOB PRIMARY KEY,
    run TEXT NOT NULL,
    signal TEXT NOT NULL,
    -- JSON: what a person is shown.
    detail TEXT,
    created INTEGER NOT NULL,
    author TEXT NOT NULL,
    expires INTEGER NOT NULL,
    used INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX link_run ON link (run);
CREATE TABLE session (
    -- SHA-256 of the cookie.
    hash BLOB PRIMARY KEY,
    token TEXT NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    -- The token's id and name.
    token TEXT NOT NULL,
    name TEXT NOT NULL,
    act TEXT NOT NULL,
    target TEXT NOT NULL,
    -- JSON.
    detail TEXT
) STRICT;
CREATE INDEX audit_target ON audit (target, row);
CREATE TABLE job (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    created INTEGER NOT NULL,
    ended INTEGER,
    author TEXT NOT NULL,
    -- JSON.
    request TEXT NOT NULL,
    report TEXT
) STRICT;
";

const SCHEMA: &str = "
CREATE TABLE format (
    format INTEGER PRIMARY KEY,
    -- The release of wfhost that brought the store to it, and so can read it.
    release TEXT NOT NULL
) STRICT;
CREATE TABLE host (
    host INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Its operating system process.
    pid INTEGER NOT NULL,
    -- Microseconds since 1970.
    started INTEGER NOT NULL,
    -- Where it listens.
    socket TEXT,
    -- Somebody took it for dead: it writes nothing more.
    buried INTEGER NOT NULL DEFAULT 0,
    -- The last rows of its runs are written down, or come after this row of the log.
    saved INTEGER NOT NULL DEFAULT 0
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
    -- A row of its own in the log, at or before its last one, and how many records it has up to there: exact where nobody owns the run.
    -- 0 where it has none: it is new, or its records are in `done`.
    head INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX run_created ON run (created);
CREATE INDEX run_status ON run (status, created);
CREATE INDEX run_name ON run (name, created);
CREATE INDEX run_ended ON run (ended) WHERE ended IS NOT NULL;
CREATE INDEX run_owner ON run (owner) WHERE owner IS NOT NULL;
CREATE INDEX run_unmoved ON run (run) WHERE ended IS NOT NULL AND head > 0;
CREATE TABLE about (
    run INTEGER PRIMARY KEY,
    -- What whoever started it needs to take it up: JSON.
    about TEXT NOT NULL
) STRICT;
CREATE TABLE run_component (run INTEGER NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (run, hash)) STRICT, WITHOUT ROWID;
CREATE INDEX component_run ON run_component (hash);
CREATE TABLE log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    -- The number of its first record, from 1.
    seq INTEGER NOT NULL,
    -- The run's row before it, or 0.
    prev INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE TABLE done (
    -- The run << 20, and the number of this part of it, from 0.
    part INTEGER PRIMARY KEY,
    -- The number of its first record, from 1.
    seq INTEGER NOT NULL,
    -- The rows that it had in the log, each with its length before it: 4 bytes, little endian.
    data BLOB NOT NULL
) STRICT;
CREATE TABLE blob (blob INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, data BLOB NOT NULL) STRICT;
CREATE TABLE blob_use (run INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (run, hash)) STRICT, WITHOUT ROWID;
CREATE INDEX blob_run ON blob_use (hash);
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
CREATE VIEW records AS
    SELECT id, name, coalesce(status, 'unfinished') AS status, seq, bytes, data FROM run JOIN (
        SELECT run, seq, length(data) AS bytes, data FROM log
        UNION ALL SELECT part >> 20, seq, length(data), data FROM done
    ) USING (run) ORDER BY run, seq;
";

/// Makes a folder that only its owner can read, if it does not exist.
pub(super) fn make_folder(path: &Path) -> Result<(), StoreError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io(path))
}

/// Makes an empty file that only its owner can read, if it does not exist: the inputs and outputs
/// of runs are for its owner alone. SQLite's own files beside it get its mode. If it cannot be
/// made, SQLite says why when it opens it.
pub(super) fn make_file(path: &Path) {
    // Not `create_new`, which refuses a link to a file that does not exist: SQLite would make that
    // file with another mode.
    let _ = std::fs::File::options().write(true).create(true).truncate(false).mode(0o600).open(path);
}

/// Why a file cannot be opened. SQLite does not say so if this process may open no more files.
fn unopened(path: &Path, error: rusqlite::Error) -> StoreError {
    // The file, its log, the index of the log, and one for their folder.
    let opened = [(); 4].map(|()| std::fs::File::open("/dev/null"));
    match (error.sqlite_error_code(), opened.into_iter().collect::<Result<Vec<_>, _>>()) {
        (Some(ErrorCode::CannotOpen), Err(reason)) => io(path)(reason),
        _ => sqlite(path)(error),
    }
}

/// Waits before the next try while another process has a transaction. Returns false after the last.
pub(super) fn waits(tries: i32) -> bool {
    std::thread::sleep(if tries < BUSY_TRIES.0 { BUSY.0 } else { BUSY.1 });
    tries < BUSY_TRIES.1
}

/// Opens a connection to the file, set up as every one must be.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    assert!(rusqlite::version_number() >= SQLITE_MIN, "SQLite {} is too old", rusqlite::version());
    let fails = |error| unopened(path, error);
    make_file(path);
    let mut db = Connection::open(path).map_err(&fails)?;
    db.busy_handler(Some(waits)).map_err(&fails)?;
    // If two connections set up a new file at one time, SQLite does not call the busy handler.
    let mut tries = 0;
    while let Err(error) = db.pragma_update(None, "journal_mode", "WAL") {
        if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || !waits(tries) {
            return Err(unopened(path, error));
        }
        tries += 1;
    }
    db.pragma_update(None, "synchronous", "FULL").map_err(&fails)?;
    // A thread of its own does the checkpoints.
    db.pragma_update(None, "wal_autocheckpoint", 0).map_err(&fails)?;
    // A log that grew, for whatever reason, is cut when it is begun anew.
    db.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT).map_err(&fails)?;
    db.pragma_update(None, "cache_size", CACHE_KIB).map_err(&fails)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

/// Stops a connection from writing anything when it is closed. What a failed fsync left unsynced
/// may be gone from the system's memory too: a checkpoint would sync it once more, get no error,
/// and make the journal name what is not there.
pub(super) fn do_not_checkpoint_on_close(db: &Connection) {
    let _ = db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}

/// Makes the tables of a new file, and brings an old one to the format of this release.
pub(super) fn migrate(db: &mut Connection, path: &Path) -> Result<(), StoreError> {
    migrate_by(MIGRATIONS, env!("CARGO_PKG_VERSION"), db, path)
}

pub(super) fn migrate_by(
    migrations: &[&str],
    release: &str,
    db: &mut Connection,
    path: &Path,
) -> Result<(), StoreError> {
    let fails = sqlite(path);
    let known = (migrations.len() as u64).cast_signed();
    // Most files need nothing, and so no turn among the writers.
    let read = db.transaction_with_behavior(TransactionBehavior::Deferred).map_err(&fails)?;
    let found = format(&read, known, path)?;
    drop(read);
    if found == known {
        return Ok(());
    }
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
    let found = format(&change, known, path)?;
    for (number, step) in (1..).zip(migrations).skip(found as usize) {
        change.execute_batch(step).map_err(&fails)?;
        change
            .execute("INSERT INTO format (format, release) VALUES (?1, ?2)", params![number, release])
            .map_err(&fails)?;
    }
    change.pragma_update(None, "application_id", APPLICATION).map_err(&fails)?;
    change.pragma_update(None, "user_version", known).map_err(&fails)?;
    change.commit().map_err(&fails)
}

/// Reads the format of a store; 0 of an empty file.
pub(super) fn format(db: &Transaction<'_>, known: i64, path: &Path) -> Result<i64, StoreError> {
    let fails = sqlite(path);
    let pragma = |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
    let (application, found) = (pragma("application_id").map_err(&fails)?, pragma("user_version").map_err(&fails)?);
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(&fails)?;
    if application == 0 && found == 0 && tables == 0 {
        return Ok(0);
    }
    if application != APPLICATION {
        return Err(StoreError::Foreign { path: path.to_owned() });
    }
    if found < 1 || found > known {
        let release = db
            .query_row("SELECT release FROM format WHERE format = ?1", [found], |row| row.get(0))
            .optional()
            .unwrap_or_default();
        return Err(StoreError::Format { path: path.to_owned(), found, known, release });
    }
    Ok(found)
}
