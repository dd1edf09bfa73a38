//! Tokens and sessions.

use super::{micros, time};
use crate::journal::catalog::{StoredSession, StoredToken, Tokens};
use crate::journal::{Sqlite, StoreError};
use crate::process::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

const COLUMNS: &str = "id, hash, name, scopes, workflows, created, expires, used, revoked";

impl Tokens for Sqlite {
    fn add_token(&self, token: &StoredToken) -> Result<(), StoreError> {
        let StoredToken { id, hash, name, scopes, workflows, created, expires, used, revoked } = token;
        self.change(|change| {
            change.execute(
                &format!("INSERT INTO token ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"),
                params![
                    id,
                    hash,
                    name,
                    list(scopes),
                    list(workflows),
                    micros(*created),
                    expires.map(micros),
                    used.map(micros),
                    revoked.map(micros)
                ],
            )?;
            Ok(())
        })
    }

    fn tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        self.look(|db| {
            let mut select =
                db.prepare_cached(&format!("SELECT {COLUMNS} FROM token ORDER BY created DESC, id LIMIT 10000"))?;
            select.query_map([], token)?.collect()
        })
    }

    fn token(&self, id: &str) -> Result<Option<StoredToken>, StoreError> {
        self.look(|db| {
            let select = format!("SELECT {COLUMNS} FROM token WHERE id = ?1");
            db.prepare_cached(&select)?.query_row([id], token).optional()
        })
    }

    fn revoke_token(&self, id: &str, at: Timestamp) -> Result<bool, StoreError> {
        self.change(|change| {
            change.execute("DELETE FROM session WHERE token = ?1", [id])?;
            let revoke = "UPDATE token SET revoked = coalesce(revoked, ?2) WHERE id = ?1";
            Ok(change.execute(revoke, params![id, micros(at)])? > 0)
        })
    }

    fn note_token_used(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        self.change(|change| {
            change.execute("UPDATE token SET used = ?2 WHERE id = ?1", params![id, micros(at)])?;
            Ok(())
        })
    }

    fn add_session(&self, session: &StoredSession, now: Timestamp) -> Result<(), StoreError> {
        self.change(|change| {
            change.execute("DELETE FROM session WHERE expires < ?1", [micros(now)])?;
            change.execute(
                "INSERT INTO session (hash, token, expires) VALUES (?1, ?2, ?3)",
                params![session.hash, session.token, micros(session.expires)],
            )?;
            Ok(())
        })
    }

    fn session(&self, hash: &[u8]) -> Result<Option<StoredSession>, StoreError> {
        self.look(|db| {
            let mut select = db.prepare_cached("SELECT hash, token, expires FROM session WHERE hash = ?1")?;
            let read =
                |row: &Row<'_>| Ok(StoredSession { hash: row.get(0)?, token: row.get(1)?, expires: time(row.get(2)?) });
            select.query_row([hash], read).optional()
        })
    }

    fn end_session(&self, hash: &[u8]) -> Result<(), StoreError> {
        self.change(|change| change.execute("DELETE FROM session WHERE hash = ?1", [hash]).map(drop))
    }

    fn tokens_revision(&self) -> Result<u64, StoreError> {
        // The number of rows ever made, and of those revoked; both only grow.
        self.look(|db| {
            db.prepare_cached("SELECT count(*) + 2 * count(revoked) FROM token")?
                .query_row([], |row| row.get::<_, i64>(0))
                .map(i64::cast_unsigned)
        })
    }
}

fn list(words: &[String]) -> String {
    serde_json::json!(words).to_string()
}

fn words(text: String) -> Vec<String> {
    serde_json::from_str(&text).unwrap_or_default()
}

fn token(row: &Row<'_>) -> rusqlite::Result<StoredToken> {
    let at = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(time));
    Ok(StoredToken {
        id: row.get(0)?,
        hash: row.get(1)?,
        name: row.get(2)?,
        scopes: words(row.get(3)?),
        workflows: words(row.get(4)?),
        created: time(row.get(5)?),
        expires: at(6)?,
        used: at(7)?,
        revoked: at(8)?,
    })
}
