//! Which runs hold which blobs, in the tables of a store. What a removed run held goes with its
//! rows.
//!
//! A holder need not be a run yet: blobs are given to a run before it begins, and uploads belong to
//! a holder of their own. Whatever is no run after a day holds nothing any more.

use super::writer::Writer;
use crate::journal::blobs::{Place, Reference, References, Removal, check, digest_of};
use crate::run::{BlobBounds, BlobError, system_time};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use std::sync::{Arc, Weak};

/// How long a holder that is no run holds its blobs: time to begin the run. Arbitrary.
const GIVEN_MICROS: i64 = 24 * 3_600_000_000;
/// Blobs that are removed in one transaction, which the writer may have to wait for. Arbitrary.
const REMOVED: u32 = 64;

/// The references of a store. They do not hold it open.
pub(super) struct Holders(Weak<Writer>);

impl Holders {
    pub(super) fn new(writer: &Arc<Writer>) -> Self {
        Self(Arc::downgrade(writer))
    }

    fn writer(&self) -> Result<Arc<Writer>, BlobError> {
        self.0.upgrade().ok_or_else(|| BlobError::Unusable("the journal was closed".to_owned()))
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, BlobError> {
        let writer = self.writer()?;
        let db = writer.reader();
        read(&db).map_err(|error| unusable(&writer, &error))
    }

    /// Makes a change in a transaction of its own, which is durable when this returns.
    fn change<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, BlobError>>,
    ) -> Result<T, BlobError> {
        let writer = self.writer()?;
        let made = writer.beside(|| {
            let fails = super::error::sqlite(writer.path());
            let mut db = writer.reader();
            let _write_lock = writer.write_lock();
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
            let made = change(&transaction).map_err(&fails)?;
            if made.is_ok() {
                transaction.commit().map_err(&fails)?;
            }
            Ok(made)
        });
        made.map_err(|error| match &error {
            super::StoreError::Sqlite { error, .. } => unusable(&writer, error),
            other => BlobError::Unusable(other.to_string()),
        })?
    }
}

fn unusable(writer: &Writer, error: &rusqlite::Error) -> BlobError {
    let path = writer.path().display().to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => BlobError::DiskFull { path },
        _ => BlobError::Unusable(format!("{path}: {error}")),
    }
}

fn reference(row: &Row<'_>) -> rusqlite::Result<Reference> {
    Ok(Reference { hash: row.get(0)?, size: row.get::<_, i64>(1)?.cast_unsigned(), media_type: row.get(2)? })
}

fn now() -> i64 {
    system_time().0.cast_signed()
}

/// Removes what a run holds.
pub(super) fn remove(change: &Connection, run: i64) -> rusqlite::Result<()> {
    change
        .prepare_cached("DELETE FROM blob_holder WHERE holder = (SELECT id FROM run WHERE run = ?1)")?
        .execute([run])
        .map(drop)
}

fn held(db: &Connection, run: &str, hash: &[u8; 32]) -> rusqlite::Result<Option<Reference>> {
    db.prepare_cached("SELECT hash, size, media FROM blob_holder WHERE holder = ?1 AND hash = ?2")?
        .query_row(params![run, hash], reference)
        .optional()
}

fn hold(
    change: &Connection,
    run: &str,
    Reference { hash, size, media_type }: &Reference,
    bounds: &BlobBounds,
    place: &mut Place<'_>,
) -> rusqlite::Result<Result<(), BlobError>> {
    let size_column = size.cast_signed();
    let known = change
        .prepare_cached("UPDATE blob_holder SET at = ?3 WHERE holder = ?1 AND hash = ?2")?
        .execute(params![run, hash, now()])?;
    if known > 0 {
        return Ok(place());
    }
    let counts: (i64, i64) = change
        .prepare_cached("SELECT count(*), coalesce(sum(size), 0) FROM blob_holder WHERE holder = ?1")?
        .query_row([run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_stored = change.prepare_cached("SELECT 1 FROM held_blob WHERE hash = ?1")?.exists([hash])?;
    let stored: i64 = change.prepare_cached("SELECT bytes FROM held_bytes")?.query_row([], |row| row.get(0))?;
    let stored = (!is_stored).then_some(stored.cast_unsigned());
    let counts = (counts.0.cast_unsigned(), counts.1.cast_unsigned());
    if let Err(refused) = check(*size, counts, stored, bounds).and_then(|()| place()) {
        return Ok(Err(refused));
    }
    change
        .prepare_cached("INSERT OR IGNORE INTO held_blob (hash, size) VALUES (?1, ?2)")?
        .execute(params![hash, size_column])?;
    change
        .prepare_cached("INSERT INTO blob_holder (holder, hash, size, media, at) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![run, hash, size_column, media_type, now()])?;
    Ok(Ok(()))
}

impl References for Holders {
    fn hold(
        &self,
        run: &str,
        reference: &Reference,
        bounds: &BlobBounds,
        place: &mut Place<'_>,
    ) -> Result<(), BlobError> {
        self.change(|change| hold(change, run, reference, bounds, place))
    }

    fn share(&self, hash: &[u8; 32], from: &str, to: &str, bounds: &BlobBounds) -> Result<(), BlobError> {
        self.change(|change| match held(change, from, hash)? {
            Some(reference) => hold(change, to, &reference, bounds, &mut || Ok(())),
            None => Ok(Err(BlobError::unknown(&digest_of(hash)))),
        })
    }

    fn held(&self, run: &str, hash: &[u8; 32]) -> Result<Option<Reference>, BlobError> {
        self.read(|db| held(db, run, hash))
    }

    fn held_by(&self, run: &str) -> Result<Vec<Reference>, BlobError> {
        self.read(|db| {
            let mut select =
                db.prepare_cached("SELECT hash, size, media FROM blob_holder WHERE holder = ?1 ORDER BY hash")?;
            select.query_map([run], reference)?.collect()
        })
    }

    fn all(&self) -> Result<Vec<([u8; 32], u64)>, BlobError> {
        self.read(|db| {
            let mut select = db.prepare_cached("SELECT hash, size FROM held_blob ORDER BY hash")?;
            let all = select.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?;
            all.collect()
        })
    }

    fn release(&self, run: &str) -> Result<(), BlobError> {
        self.change(|change| {
            change.prepare_cached("DELETE FROM blob_holder WHERE holder = ?1")?.execute([run])?;
            Ok(Ok(()))
        })
    }

    fn remove_unheld(&self, remove: &mut Removal<'_>) -> Result<u64, BlobError> {
        self.change(|change| {
            change
                .prepare_cached(
                    "DELETE FROM blob_holder WHERE at < ?1 AND NOT EXISTS (SELECT 1 FROM run WHERE id = holder)",
                )?
                .execute([now() - GIVEN_MICROS])?;
            Ok(Ok(()))
        })?;
        let mut bytes = 0;
        loop {
            let (removed, more) = self.change(|change| remove_some(change, remove))?;
            bytes += removed;
            if !more {
                return Ok(bytes);
            }
        }
    }

    fn remove_if_unheld(&self, hashes: &[[u8; 32]], remove: &mut Removal<'_>) -> Result<(), BlobError> {
        for some in hashes.chunks(REMOVED as usize) {
            self.change(|change| {
                let mut is_held = change.prepare_cached("SELECT 1 FROM blob_holder WHERE hash = ?1")?;
                let mut delete = change.prepare_cached("DELETE FROM held_blob WHERE hash = ?1")?;
                for hash in some {
                    if is_held.exists([hash])? {
                        continue;
                    }
                    delete.execute([hash])?;
                    if let Err(error) = remove(hash) {
                        return Ok(Err(BlobError::Unusable(error.to_string())));
                    }
                }
                Ok(Ok(()))
            })?;
        }
        Ok(())
    }
}

/// Removes some of the blobs that no run holds; returns their bytes, and whether there may be more.
fn remove_some(change: &Transaction<'_>, remove: &mut Removal<'_>) -> rusqlite::Result<Result<(u64, bool), BlobError>> {
    let mut select = change.prepare_cached(
        "SELECT hash, size FROM held_blob
         WHERE NOT EXISTS (SELECT 1 FROM blob_holder WHERE blob_holder.hash = held_blob.hash) LIMIT ?1",
    )?;
    let found = select.query_map([REMOVED], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found = found.collect::<rusqlite::Result<Vec<([u8; 32], i64)>>>()?;
    let mut delete = change.prepare_cached("DELETE FROM held_blob WHERE hash = ?1")?;
    let mut bytes = 0;
    for (hash, size) in &found {
        delete.execute([hash])?;
        if let Err(error) = remove(hash) {
            return Ok(Err(BlobError::Unusable(error.to_string())));
        }
        bytes += size.cast_unsigned();
    }
    Ok(Ok((bytes, found.len() == REMOVED as usize)))
}
