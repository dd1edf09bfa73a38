//! Checking the store's file, and its format.

use super::error::sqlite;
use super::{Sqlite, StoreError};
use rusqlite::ErrorCode;

impl Sqlite {
    pub(super) fn check(&self, most: u32) -> Result<Vec<String>, StoreError> {
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

    pub(super) fn format(&self) -> Result<i64, StoreError> {
        let db = self.0.reader();
        db.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sqlite(self.0.path()))
    }
}
