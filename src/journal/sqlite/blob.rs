//! Large records, by their content: each is in the store once, for all runs.
//!
//! A blob is written in the transaction of the record that names it. *Rejected*: files. Each would
//! cost syncs of its own, for its bytes and its name, before the commit could begin.

use super::batch::{Hash, Sealed};
use super::error::ReadError;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

/// Writes the blobs of a batch of a run.
pub(super) fn write(change: &Connection, run: i64, batch: &Sealed) -> rusqlite::Result<()> {
    if batch.blobs.is_empty() {
        return Ok(());
    }
    let mut known = change.prepare_cached("SELECT 1 FROM blob WHERE hash = ?1")?;
    let mut insert = change.prepare_cached("INSERT INTO blob (hash, data) VALUES (?1, ?2)")?;
    let mut uses = change.prepare_cached("INSERT OR IGNORE INTO blob_use (run, hash) VALUES (?1, ?2)")?;
    for (hash, data) in &batch.blobs {
        if !known.exists([&hash[..]])? {
            insert.execute(params![&hash[..], &data[..]])?;
        }
        uses.execute(params![run, &hash[..]])?;
    }
    Ok(())
}

/// Reads a blob and checks its content.
pub(super) fn read(db: &Connection, hash: &Hash) -> Result<Bytes, ReadError> {
    let data: Option<Vec<u8>> = db
        .prepare_cached("SELECT data FROM blob WHERE hash = ?1")?
        .query_row([&hash[..]], |row| row.get(0))
        .optional()?;
    let name = || blake3::Hash::from_bytes(*hash).to_hex();
    match data {
        None => Err(format!("the blob {} is missing", name()).into()),
        Some(data) if blake3::hash(&data).as_bytes() != hash => Err(format!("the blob {} is damaged", name()).into()),
        Some(data) => Ok(data.into()),
    }
}

/// Removes the blobs that only this run uses.
pub(super) fn remove(change: &Connection, run: i64) -> rusqlite::Result<()> {
    let mut of = change.prepare_cached("SELECT hash FROM blob_use WHERE run = ?1")?;
    let hashes = of.query_map([run], |row| row.get::<_, Vec<u8>>(0))?.collect::<Result<Vec<_>, _>>()?;
    if hashes.is_empty() {
        return Ok(());
    }
    change.prepare_cached("DELETE FROM blob_use WHERE run = ?1")?.execute([run])?;
    let mut delete = change.prepare_cached(
        "DELETE FROM blob WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.hash = ?1)",
    )?;
    for hash in hashes {
        delete.execute([hash])?;
    }
    Ok(())
}
