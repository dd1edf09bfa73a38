//! Mail for runs that no host owns.

use super::queue::Consumed;
use crate::journal::stored::{MAIL_BYTES_MAX, MAIL_KNOWN_MAX, MAIL_MAX};
use crate::run::Mail;
use rusqlite::{Connection, OptionalExtension, params};

/// Marks mail as consumed, within the transaction of the record that it became: its body is
/// removed, its id stays known.
pub(super) fn consume(change: &Connection, run: i64, mail: &Consumed) -> rusqlite::Result<()> {
    let mut upsert = change.prepare_cached(
        "INSERT INTO inbox (run, mail, kind, digest) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (run, mail) DO UPDATE SET body = NULL",
    )?;
    upsert.execute(params![run, &*mail.id, &*mail.kind, &mail.digest[..]])?;
    Ok(())
}

/// Reads the mail of a run that is in none of its records, in the order in which it came.
pub(super) fn pending(db: &Connection, run: i64) -> rusqlite::Result<Vec<Mail>> {
    let mut select =
        db.prepare_cached("SELECT mail, kind, body FROM inbox WHERE run = ?1 AND body IS NOT NULL ORDER BY item")?;
    let rows = select.query_map([run], |row| {
        let (id, kind, body) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?);
        Ok(Mail { id: id.into(), kind: kind.into(), body: body.into() })
    })?;
    rows.collect()
}

/// Reads the digest of the mail with this id.
pub(super) fn known(db: &Connection, run: i64, id: &str) -> rusqlite::Result<Option<[u8; 16]>> {
    let mut select = db.prepare_cached("SELECT digest FROM inbox WHERE run = ?1 AND mail = ?2")?;
    select.query_row(params![run, id], |row| row.get(0)).optional()
}

/// Stores mail for a run whatever its owner, and beyond its bounds: at most one with this id.
/// Returns false if the run has or had mail with this id.
pub(super) fn put(change: &Connection, run: i64, mail: &Mail) -> rusqlite::Result<bool> {
    let mut insert = change.prepare_cached(
        "INSERT INTO inbox (run, mail, kind, digest, body) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (run, mail) DO NOTHING",
    )?;
    let digest = mail.digest().to_le_bytes();
    Ok(insert.execute(params![run, &*mail.id, &*mail.kind, &digest[..], &mail.body[..]])? > 0)
}

/// Stores mail for a run. Returns false if there is no room.
pub(super) fn add(change: &Connection, run: i64, mail: &Mail, digest: [u8; 16]) -> rusqlite::Result<bool> {
    let (count, bytes): (u32, u32) = change
        .prepare_cached(
            "SELECT count(*), coalesce(sum(length(body)), 0) FROM inbox WHERE run = ?1 AND body IS NOT NULL",
        )?
        .query_row([run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if count >= MAIL_MAX || bytes as usize + mail.body.len() > MAIL_BYTES_MAX as usize {
        return Ok(false);
    }
    change
        .prepare_cached("INSERT INTO inbox (run, mail, kind, digest, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![run, &*mail.id, &*mail.kind, &digest[..], &mail.body[..]])?;
    // The oldest ids of consumed mail are forgotten.
    change
        .prepare_cached(
            "DELETE FROM inbox WHERE item IN
             (SELECT item FROM inbox WHERE run = ?1 AND body IS NULL ORDER BY item DESC LIMIT -1 OFFSET ?2)",
        )?
        .execute(params![run, MAIL_KNOWN_MAX])?;
    Ok(true)
}
