//! Finding runs by what a person remembers of their ids.

use super::schema::sqlite;
use super::{Sqlite, StoreError};
use rusqlite::ErrorCode;
use std::sync::Arc;

impl Sqlite {
    /// What SQLite finds wrong with the file itself, at most so many things. It reads the whole file, and finds no record whose bytes are
    /// others but well kept.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn check(&self, most: u32) -> Result<Vec<String>, StoreError> {
        let db = self.0.reader();
        let found = db.prepare(&format!("PRAGMA quick_check({most})")).and_then(|mut check| {
            let rows = check.query_map([], |row| row.get::<_, String>(0))?;
            rows.collect::<Result<Vec<_>, _>>()
        });
        match found.map_err(sqlite(self.0.path())) {
            Ok(found) => Ok(found.into_iter().filter(|line| line != "ok").collect()),
            // Some damage ends the check itself.
            Err(StoreError::Sqlite { error, .. }) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                Ok(vec![error.to_string()])
            }
            Err(error) => Err(error),
        }
    }

    /// The format of the store's tables.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn format(&self) -> Result<i64, StoreError> {
        let db = self.0.reader();
        db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sqlite(self.0.path()))
    }

    /// The ids that begin so, in their order, at most so many.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn ids(&self, prefix: &str, most: u32) -> Result<Vec<Arc<str>>, StoreError> {
        let db = self.0.reader();
        // No character sorts behind the last one there is.
        let behind = format!("{prefix}\u{10ffff}");
        let rows = db.prepare_cached("SELECT id FROM run WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3").and_then(
            |mut select| {
                let rows = select.query_map((prefix, behind, most), |row| row.get::<_, String>(0))?;
                rows.map(|id| id.map(Into::into)).collect()
            },
        );
        rows.map_err(sqlite(self.0.path()))
    }
}
