//! What is said of the journal, its folder, and runs in it that cannot be read.

use crate::cli::report::error::{UserError, kind};
use crate::host::RecoverError;
use crate::journal::StoreError;
use std::path::Path;

pub(in crate::cli) const ANOTHER_FOLDER: &str = "--data DIR or WFHOST_DATA names another folder";

/// What is said where a part of the journal was damaged that SQLite does not read then.
pub(in crate::cli) fn torn(kept: &Path) -> String {
    format!("the journal is damaged: what was written last is not in it, and is kept in {}", kept.display())
}

pub(in crate::cli) const TORN_HINT: &str = "`wfhost doctor` tells how much that is; end the hosts of the folder, and put copies of journal.db and journal.db-wal in their place, both of one time";

/// What is said where the journal of a host waits for room.
pub(in crate::cli) const FULL: &str = "the disk with the data folder is full: all runs wait until there is room";

pub(in crate::cli) const FULL_HINT: &str = "nothing is lost; make room";

/// What is said of a folder that was in use and has no journal.
pub(in crate::cli) fn gone(journal: &Path) -> String {
    format!("{} is gone: the folder was in use, and the runs that were in it are not there", journal.display())
}

/// The same, where a new journal was begun.
pub(in crate::cli) fn recreated(journal: &Path) -> String {
    format!("{}; a new journal is begun", gone(journal))
}

pub(in crate::cli) const RECREATED_HINT: &str =
    "put a copy of journal.db there, where there is one; --data DIR or WFHOST_DATA names another folder";

/// How a copy is put in the place of a journal: SQLite would apply a log that is of another time to the file.
pub(in crate::cli) const RESTORE_HINT: &str = "end the hosts of the folder, and put copies of journal.db and journal.db-wal in their place, both of one time; where the copy is journal.db alone, move journal.db-wal away first";

/// What is said of a run whose records are damaged.
pub(in crate::cli) fn removal_hint(id: &str) -> String {
    format!("other runs are not touched by it; `wfhost rm {id} --unfinished` removes it for good")
}

/// Why a run cannot be read or taken up. Where the file is damaged, it may be this run alone.
pub(in crate::cli) fn recovery_error(id: &str, error: RecoverError) -> UserError {
    let hint = match &error {
        RecoverError::Journal(store @ StoreError::Sqlite { .. }) if store.is_of_the_file() => Some(format!(
            "the file is damaged: {RESTORE_HINT}; where it is this run alone, `wfhost rm {id} --unfinished` removes it for good"
        )),
        error => error.damage().map(|_| removal_hint(id)),
    };
    match (UserError::from(error), hint) {
        (refused, Some(hint)) => refused.hint(hint),
        (refused, None) => refused,
    }
}

/// Whether a file could not be read or written although it is open.
fn is_of_the_disk(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure)
}

/// What is said where the host that has a run never answers.
pub(in crate::cli) fn not_listening(id: &str) -> UserError {
    UserError::new(kind::HOST_FAULT, format!("the host that runs {id} does not listen"))
        .hint(format!("`wfhost status {id}` tells which process it is"))
}

impl From<StoreError> for UserError {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::Io { .. } | StoreError::Foreign { .. } => Some(ANOTHER_FOLDER.to_owned()),
            StoreError::Sqlite { path, .. } if error.is_of_the_file() => Some(format!(
                "the file is damaged, or is no journal: {RESTORE_HINT}; or move {} away; {ANOTHER_FOLDER}",
                path.display()
            )),
            StoreError::Lost { log, .. } => Some(format!(
                "put the journal.db back that belongs to it; or move {} away, and what was in the two is lost; {ANOTHER_FOLDER}",
                log.display()
            )),
            StoreError::Sqlite { error: reason, .. } if is_of_the_disk(reason) => {
                Some("was journal.db-wal or journal.db-shm removed while the folder was in use? if so, stop the hosts that use it and try again; otherwise check the disk".to_owned())
            }
            StoreError::Sqlite { .. } => {
                Some(format!("is the disk full, or the folder not writable? {ANOTHER_FOLDER}"))
            }
            StoreError::Format { .. } => Some(format!("use a wfhost of that release; {ANOTHER_FOLDER}")),
            StoreError::Owned(run) => Some(format!("`wfhost status {run}` tells whose it is")),
            StoreError::Damaged { run, .. } => Some(removal_hint(run)),
            _ => None,
        };
        Self::new(kind::JOURNAL, error.to_string()).hint_maybe(hint)
    }
}
