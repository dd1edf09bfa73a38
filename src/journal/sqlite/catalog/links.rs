//! Approval links.

use super::{micros, time};
use crate::journal::catalog::{Link, Links};
use crate::journal::sqlite::{Sqlite, StoreError};
use crate::process::Timestamp;
use rusqlite::{OptionalExtension, params};

impl Links for Sqlite {
    fn add_link(&self, link: &Link, expired_before: Timestamp) -> Result<(), StoreError> {
        let Link { hash, run, signal, detail, created, author, expires, used } = link;
        self.change(|db| {
            db.execute("DELETE FROM link WHERE expires < ?1", [micros(expired_before)])?;
            db.prepare_cached(
                "INSERT INTO link (hash, run, signal, detail, created, author, expires, used)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                hash,
                run,
                signal,
                detail,
                micros(*created),
                author,
                micros(*expires),
                used.map(micros)
            ])?;
            Ok(())
        })
    }

    fn link(&self, hash: &[u8; 32]) -> Result<Option<Link>, StoreError> {
        self.look(|db| {
            db.prepare_cached("SELECT run, signal, detail, created, author, expires, used FROM link WHERE hash = ?1")?
                .query_row([hash], |row| {
                    Ok(Link {
                        hash: *hash,
                        run: row.get(0)?,
                        signal: row.get(1)?,
                        detail: row.get(2)?,
                        created: time(row.get(3)?),
                        author: row.get(4)?,
                        expires: time(row.get(5)?),
                        used: row.get::<_, Option<i64>>(6)?.map(time),
                    })
                })
                .optional()
        })
    }

    fn use_link(&self, hash: &[u8; 32], at: Timestamp) -> Result<bool, StoreError> {
        self.change(|db| {
            let used =
                db.execute("UPDATE link SET used = ?2 WHERE hash = ?1 AND used IS NULL", params![hash, micros(at)])?;
            Ok(used == 1)
        })
    }
}
