//! What a service keeps, in SQLite. It is written over the reader's connection, beside the
//! transactions of records, under the write lock.

mod audit;
mod deployments;
pub(super) mod inbox;
mod jobs;
mod links;
mod schedules;
mod tokens;
mod webhooks;

use super::error::sqlite;
use super::{Sqlite, StoreError};
use rusqlite::{Connection, Transaction, TransactionBehavior};

impl Sqlite {
    /// Changes rows in a transaction of its own, which is durable when this returns.
    fn change<T>(&self, write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let fails = sqlite(self.0.path());
        self.0.beside(|| {
            let mut db = self.0.reader();
            let _write_lock = self.0.write_lock();
            let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
            let done = write(&change).map_err(&fails)?;
            change.commit().map_err(&fails)?;
            Ok(done)
        })
    }

    /// Reads rows.
    fn look<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        read(&self.0.reader()).map_err(sqlite(self.0.path()))
    }
}

/// Microseconds as SQLite stores them.
fn micros(at: crate::process::Timestamp) -> i64 {
    at.0.cast_signed()
}

/// The time of a stored number.
fn time(at: i64) -> crate::process::Timestamp {
    crate::process::Timestamp(at.cast_unsigned())
}
