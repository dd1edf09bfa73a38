//! The file of the cache of steps.

use super::super::schema::make_file;
use super::{CacheBounds, CacheEntry, Found, NewEntry, Question, Removal};
use crate::process::Timestamp;
use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for another process's transaction.
const BUSY: Duration = Duration::from_secs(2);
const FORMAT: i64 = 1;
/// What an entry counts beside its texts and its outcome. About what its row takes.
const ENTRY_BYTES: usize = 128;

const SCHEMA: &str = "
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    of TEXT NOT NULL,
    run TEXT NOT NULL,
    -- Microseconds since 1970.
    at INTEGER NOT NULL,
    used INTEGER NOT NULL,
    expires INTEGER,
    hits INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    output BLOB NOT NULL,
    -- Of key, run, time and output: BLAKE3.
    digest BLOB NOT NULL
) STRICT;
CREATE INDEX entry_used ON entry (used);
CREATE INDEX entry_expires ON entry (expires) WHERE expires IS NOT NULL;
CREATE TABLE total (id INTEGER PRIMARY KEY, entries INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
INSERT INTO total VALUES (1, 0, 0);
CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
    UPDATE total SET entries = entries + 1, bytes = bytes + new.bytes;
END;
CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
    UPDATE total SET entries = entries - 1, bytes = bytes - old.bytes;
END;
";

/// A connection to the file.
pub(super) struct CacheFile(Connection);

/// Opens the file, and makes it if it does not exist.
pub(super) fn open(path: &Path) -> rusqlite::Result<CacheFile> {
    make_file(path);
    let db = Connection::open(path)?;
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // Only checkpoints are synced.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    set_up(db)
}

/// One in memory.
pub(super) fn in_memory() -> rusqlite::Result<CacheFile> {
    set_up(Connection::open_in_memory()?)
}

fn set_up(mut db: Connection) -> rusqlite::Result<CacheFile> {
    let change = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let format: i64 = change.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match format {
        FORMAT => {}
        0 => {
            change.execute_batch(SCHEMA)?;
            change.pragma_update(None, "user_version", FORMAT)?;
        }
        _ => return Err(rusqlite::Error::InvalidQuery),
    }
    change.commit()?;
    Ok(CacheFile(db))
}

/// The file for a command; `None` if there is none.
pub(super) fn existing(path: &Path) -> Result<Option<CacheFile>, String> {
    if !path.exists() {
        return Ok(None);
    }
    open(path).map(Some).map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether nothing in the file can be used.
pub(super) fn is_unusable(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::InvalidQuery)
        || matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

/// Removes a file that cannot be used.
pub(super) fn throw_away(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut path = path.to_owned().into_os_string();
        path.push(suffix);
        let _ = std::fs::remove_file(path);
    }
}

fn digest(key: &str, run: &str, at: i64, output: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in [key.as_bytes(), run.as_bytes(), &at.to_le_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    *hasher.update(output).finalize().as_bytes()
}

fn signed(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

fn timestamp(number: i64) -> Timestamp {
    Timestamp(u64::try_from(number).unwrap_or(0))
}

/// What is read of an entry that is found.
struct Read {
    run: String,
    at: i64,
    expires: Option<i64>,
    output: Vec<u8>,
    digest: Vec<u8>,
}

impl Read {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { run: row.get(0)?, at: row.get(1)?, expires: row.get(2)?, output: row.get(3)?, digest: row.get(4)? })
    }
}

impl CacheFile {
    /// Looks for an outcome. `Err` if it is damaged; it is removed then.
    pub(super) fn find(&self, question: &Question) -> rusqlite::Result<Option<Result<Found, ()>>> {
        let Question { key, at, ttl } = question;
        let mut select = self.0.prepare_cached("SELECT run, at, expires, output, digest FROM entry WHERE key = ?1")?;
        let read = select.query_row([&**key], Read::of).optional();
        let read = match read {
            // What cannot be read as what was written was not written so.
            Err(rusqlite::Error::InvalidColumnType(..) | rusqlite::Error::FromSqlConversionFailure(..)) => {
                self.forget(key)?;
                return Ok(Some(Err(())));
            }
            read => read?,
        };
        let Some(read) = read else { return Ok(None) };
        if read.digest != digest(key, &read.run, read.at, &read.output) {
            self.forget(key)?;
            return Ok(Some(Err(())));
        }
        // Clocks may differ: what comes from the future is new.
        let age = at.since(timestamp(read.at));
        let is_old = ttl.is_some_and(|ttl| age > ttl) || read.expires.is_some_and(|expires| expires <= signed(*at));
        let found = || Found { run: read.run, at: timestamp(read.at), output: Bytes::from(read.output) };
        Ok((!is_old).then(|| Ok(found())))
    }

    fn forget(&self, key: &str) -> rusqlite::Result<()> {
        self.0.prepare_cached("DELETE FROM entry WHERE key = ?1")?.execute([key]).map(|_| ())
    }

    /// Notes that entries were found.
    pub(super) fn note_uses(&self, uses: &[(Arc<str>, Timestamp)]) -> rusqlite::Result<()> {
        if uses.is_empty() {
            return Ok(());
        }
        let change = self.0.unchecked_transaction()?;
        let mut update =
            change.prepare_cached("UPDATE entry SET used = max(used, ?2), hits = hits + 1 WHERE key = ?1")?;
        for (key, at) in uses {
            update.execute(params![&**key, signed(*at)])?;
        }
        drop(update);
        change.commit()
    }

    /// Keeps outcomes, and removes what is too much then. Returns how many it has kept.
    pub(super) fn keep(&self, entries: &[NewEntry], bounds: CacheBounds) -> rusqlite::Result<u64> {
        let Some(now) = entries.iter().map(|entry| entry.at).max() else { return Ok(0) };
        let change = self.0.unchecked_transaction()?;
        let mut insert = change.prepare_cached(
            "INSERT INTO entry (key, of, run, at, used, expires, hits, bytes, output, digest)
             VALUES (?1, ?2, ?3, ?4, ?4, ?5, 0, ?6, ?7, ?8)",
        )?;
        let mut kept = 0;
        for NewEntry { key, of, run, at, ttl, output } in entries {
            self.forget(key)?;
            let bytes = (output.len() + key.len() + of.len() + run.len() + ENTRY_BYTES) as u64;
            if bytes > bounds.bytes {
                continue;
            }
            let at_number = signed(*at);
            let expires = ttl.map(|ttl| signed(at.saturating_add(ttl)));
            let digest = digest(key, run, at_number, output);
            insert.execute(params![
                &**key,
                &**of,
                &**run,
                at_number,
                expires,
                bytes.cast_signed(),
                &output[..],
                &digest[..]
            ])?;
            kept += 1;
        }
        drop(insert);
        self.prune(now, bounds)?;
        change.commit()?;
        Ok(kept)
    }

    /// Removes what has expired, and then what was not used for longest, until the bounds hold.
    fn prune(&self, now: Timestamp, bounds: CacheBounds) -> rusqlite::Result<()> {
        self.0.prepare_cached("DELETE FROM entry WHERE expires <= ?1")?.execute([signed(now)])?;
        let mut total = self.0.prepare_cached("SELECT entries, bytes FROM total")?;
        let mut oldest =
            self.0.prepare_cached("DELETE FROM entry WHERE id = (SELECT id FROM entry ORDER BY used, id LIMIT 1)")?;
        loop {
            let (entries, bytes) = total.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
            let is_within = entries.cast_unsigned() <= bounds.entries && bytes.cast_unsigned() <= bounds.bytes;
            // A damaged total must not go on for ever.
            if is_within || oldest.execute([])? == 0 {
                return Ok(());
            }
        }
    }

    pub(super) fn list(&self) -> Result<Vec<CacheEntry>, String> {
        let list = || {
            let mut select = self.0.prepare(
                "SELECT key, of, run, at, used, expires, hits, bytes FROM entry ORDER BY used DESC, id DESC",
            )?;
            let rows = select.query_map([], |row| {
                Ok(CacheEntry {
                    key: row.get(0)?,
                    of: row.get(1)?,
                    run: row.get(2)?,
                    at: timestamp(row.get(3)?),
                    used: timestamp(row.get(4)?),
                    expires: row.get::<_, Option<i64>>(5)?.map(timestamp),
                    hits: row.get::<_, i64>(6)?.cast_unsigned(),
                    bytes: row.get::<_, i64>(7)?.cast_unsigned(),
                })
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        list().map_err(|error| error.to_string())
    }

    pub(super) fn remove(&self, which: &Removal) -> Result<(u64, u64), String> {
        let (condition, value): (_, rusqlite::types::Value) = match which {
            Removal::All => ("?1 IS NULL", rusqlite::types::Value::Null),
            Removal::Key(key) => ("substr(key, 1, length(?1)) = ?1", key.clone().into()),
            Removal::Workflow(name) => ("substr(of, 1, length(?1) + 1) = ?1 || '/'", name.clone().into()),
            Removal::Before(time) => ("at < ?1", signed(*time).into()),
        };
        let remove = || {
            let change = self.0.unchecked_transaction()?;
            let size = format!("SELECT count(*), coalesce(sum(bytes), 0) FROM entry WHERE {condition}");
            let (count, bytes) =
                change.query_row(&size, [&value], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
            change.execute(&format!("DELETE FROM entry WHERE {condition}"), [&value])?;
            change.commit()?;
            self.0.execute_batch("PRAGMA incremental_vacuum")?;
            Ok::<_, rusqlite::Error>((count.cast_unsigned(), bytes.cast_unsigned()))
        };
        remove().map_err(|error| error.to_string())
    }
}
