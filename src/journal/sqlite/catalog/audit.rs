//! Who did what.

use super::{micros, time};
use crate::journal::catalog::{Audit, AuditEntry};
use crate::journal::{Sqlite, StoreError};
use rusqlite::params;

/// Acts that are kept; older ones are removed. Arbitrary: months of a busy team.
const KEPT_MAX: i64 = 1_000_000;

impl Audit for Sqlite {
    fn note_act(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        let AuditEntry { row: _, at, token, name, act, target, detail } = entry;
        self.change(|change| {
            change
                .prepare_cached(
                    "INSERT INTO audit (at, token, name, act, target, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![micros(*at), token, name, act, target, detail])?;
            let old = change.last_insert_rowid() - KEPT_MAX;
            change.prepare_cached("DELETE FROM audit WHERE row <= ?1")?.execute([old])?;
            Ok(())
        })
    }

    fn acts(&self, target: Option<&str>, before: Option<u64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let before = before.map_or(i64::MAX, u64::cast_signed);
        self.look(|db| {
            let mut select = db.prepare_cached(
                "SELECT row, at, token, name, act, target, detail FROM audit
                 WHERE row < ?1 AND (?2 IS NULL OR target = ?2) ORDER BY row DESC LIMIT ?3",
            )?;
            let rows = select.query_map(params![before, target, limit], |row| {
                Ok(AuditEntry {
                    row: row.get::<_, i64>(0)?.cast_unsigned(),
                    at: time(row.get(1)?),
                    token: row.get(2)?,
                    name: row.get(3)?,
                    act: row.get(4)?,
                    target: row.get(5)?,
                    detail: row.get(6)?,
                })
            })?;
            rows.collect()
        })
    }
}
