//! Storing mail for a run, and reading it.

use super::error::sqlite;
use super::rows::run_row;
use super::{Sqlite, StoreError, inbox};
use crate::journal::Posted;
use crate::run::Mail;
use rusqlite::TransactionBehavior;

impl Sqlite {
    pub(super) fn inbox_of(&self, run: &str) -> Result<Vec<Mail>, StoreError> {
        let fails = sqlite(self.0.path());
        let db = self.0.reader();
        let run = run_row(&db, run).map_err(&fails)?.ok_or_else(|| StoreError::Unknown(run.into()))?;
        inbox::pending(&db, run.row).map_err(&fails)
    }

    pub(super) fn post(&self, run: &str, mail: &Mail) -> Result<Posted, StoreError> {
        let fails = sqlite(self.0.path());
        // A host registers before it takes the connection.
        let this = self.0.registered();
        let mut db = self.0.reader();
        let _write_lock = self.0.write_lock();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let id = run;
        let Some(run) = run_row(&change, id).map_err(&fails)? else { return Ok(Posted::Unknown) };
        let digest = mail.digest().to_le_bytes();
        if let Some(known) = inbox::known(&change, run.row, &mail.id).map_err(&fails)? {
            return Ok(if known == digest { Posted::Duplicate } else { Posted::Conflict });
        }
        if run.ended {
            return Ok(Posted::Ended);
        }
        let owner = self.0.locks.owner_or_heir(&change, run.owner, run.parked, self.0.path())?;
        if let Some(owner) = owner.filter(|owner| owner.alive) {
            let is_this = this == Some(owner.host.cast_signed());
            // This host has it as the heir, and could not recover it.
            let is_inherited = is_this && run.parked && self.0.shared.queue.lock().key_of(id).is_none();
            if !is_inherited {
                return Ok(Posted::Owned(owner));
            }
        }
        if !inbox::add(&change, run.row, mail, digest).map_err(&fails)? {
            return Ok(Posted::Full);
        }
        change.commit().map_err(&fails)?;
        Ok(Posted::Stored)
    }
}
