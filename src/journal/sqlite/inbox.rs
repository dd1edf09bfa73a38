//! What was left for runs that nobody had.

use super::read::place;
use super::schema::sqlite;
use super::{Sqlite, StoreError};
use crate::journal::Posted;
use crate::journal::stored::{MAIL_BYTES_MAX, MAIL_KNOWN_MAX, MAIL_MAX};
use crate::run::Mail;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::sync::Arc;

/// Mail that a record is of.
pub(super) struct Consumed {
    pub(super) id: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) digest: [u8; 16],
}

impl Consumed {
    /// Within the transaction of that record: its body is no longer left, its id is known.
    pub(super) fn write(&self, change: &Connection, run: i64) -> rusqlite::Result<()> {
        let mut upsert = change.prepare_cached(
            "INSERT INTO inbox (run, mail, kind, digest) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (run, mail) DO UPDATE SET body = NULL",
        )?;
        upsert.execute(params![run, &*self.id, &*self.kind, &self.digest[..]])?;
        Ok(())
    }
}

/// What is left for a run.
pub(super) fn mail(db: &Connection, run: i64) -> rusqlite::Result<Vec<Mail>> {
    let mut select =
        db.prepare_cached("SELECT mail, kind, body FROM inbox WHERE run = ?1 AND body IS NOT NULL ORDER BY item")?;
    let rows = select.query_map([run], |row| {
        let (id, kind, body) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?);
        Ok(Mail { id: id.into(), kind: kind.into(), body: body.into() })
    })?;
    rows.collect()
}

impl Sqlite {
    /// What is left for a run and in none of its records, in the order in which it came.
    ///
    /// # Errors
    /// [`StoreError::Unknown`]; where it cannot be read.
    pub fn inbox_of(&self, run: &str) -> Result<Vec<Mail>, StoreError> {
        let fails = sqlite(self.0.path());
        let db = self.0.reader();
        let place = place(&db, run).map_err(&fails)?.ok_or_else(|| StoreError::Unknown(run.into()))?;
        mail(&db, place.run).map_err(&fails)
    }

    pub(super) fn post(&self, run: &str, mail: &Mail) -> Result<Posted, StoreError> {
        let fails = sqlite(self.0.path());
        let mut db = self.0.reader();
        let _pen = self.0.pen();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let Some(place) = place(&change, run).map_err(&fails)? else { return Ok(Posted::Unknown) };
        let digest = mail.digest().to_le_bytes();
        if let Some(known) = known(&change, place.run, &mail.id).map_err(&fails)? {
            return Ok(if known == digest { Posted::Duplicate } else { Posted::Conflict });
        }
        if place.ended {
            return Ok(Posted::Ended);
        }
        if let Some(host) = place.owner {
            let owner = self.0.locks.owner(&change, host, self.0.path())?;
            if owner.alive {
                return Ok(Posted::Owned(owner));
            }
        }
        if !leave(&change, place.run, mail, digest).map_err(&fails)? {
            return Ok(Posted::Full);
        }
        change.commit().map_err(&fails)?;
        Ok(Posted::Stored)
    }
}

/// The digest of the mail of this id.
fn known(db: &Connection, run: i64, id: &str) -> rusqlite::Result<Option<[u8; 16]>> {
    let mut select = db.prepare_cached("SELECT digest FROM inbox WHERE run = ?1 AND mail = ?2")?;
    select.query_row(params![run, id], |row| row.get(0)).optional()
}

/// Leaves mail for a run. False: there is no room.
fn leave(change: &Connection, run: i64, mail: &Mail, digest: [u8; 16]) -> rusqlite::Result<bool> {
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
    // The ids of long ago are forgotten.
    change
        .prepare_cached(
            "DELETE FROM inbox WHERE item IN
             (SELECT item FROM inbox WHERE run = ?1 AND body IS NULL ORDER BY item DESC LIMIT -1 OFFSET ?2)",
        )?
        .execute(params![run, MAIL_KNOWN_MAX])?;
    Ok(true)
}
