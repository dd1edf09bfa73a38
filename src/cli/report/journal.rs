//! Messages about the journal, its folder, and runs in it that cannot be read.

use crate::cli::report::error::{UserError, kind};
use crate::host::RecoverError;
use crate::journal::StoreError;
use std::path::Path;

pub(in crate::cli) const ANOTHER_FOLDER: &str = "--data DIR or WFHOST_DATA names another folder";

/// The message about a journal of which SQLite ignored a damaged part.
pub(in crate::cli) fn torn(kept: &Path) -> String {
    format!("the journal is damaged: the last writes are not in it, but in {}", kept.display())
}

pub(in crate::cli) const TORN_HINT: &str = "`wfhost doctor` shows how much that is; stop the hosts of the \
    folder, and restore copies of journal.db and journal.db-wal, both from the same time";

/// The warning while the journal of a host waits for free space.
pub(in crate::cli) const FULL: &str = "the disk with the data folder is full: all runs wait until there is space";

pub(in crate::cli) const FULL_HINT: &str = "nothing is lost; free some space";

/// The message about a folder that was in use and has no journal.
pub(in crate::cli) fn gone(journal: &Path) -> String {
    format!("{} is gone: the folder was in use, and its runs are not there", journal.display())
}

/// The same, if a new journal was created.
pub(in crate::cli) fn recreated(journal: &Path) -> String {
    format!("{}; a new journal was created", gone(journal))
}

pub(in crate::cli) const RECREATED_HINT: &str =
    "put a copy of journal.db there, if there is one; --data DIR or WFHOST_DATA names another folder";

/// How to restore a journal from a copy: SQLite would apply a log of another time to the file.
pub(in crate::cli) const RESTORE_HINT: &str = "stop the hosts of the folder, and restore copies of \
    journal.db and journal.db-wal, both from the same time; if the copy is \
    journal.db alone, move journal.db-wal away first";

/// The hint for a run whose records are damaged.
pub(in crate::cli) fn removal_hint(id: &str) -> String {
    format!("other runs are not affected; `wfhost rm {id} --unfinished` removes it for good")
}

/// Why a run cannot be read or recovered. If the file is damaged, this run alone may be affected.
pub(in crate::cli) fn recovery_error(id: &str, error: RecoverError) -> UserError {
    let hint = match &error {
        RecoverError::Journal(store @ StoreError::Sqlite { .. }) if store.is_of_the_file() => Some(format!(
            "the file is damaged: {RESTORE_HINT}; if it is this run alone, `wfhost rm {id} --unfinished` \
            removes it for good"
        )),
        error => error.damage().map(|_| removal_hint(id)),
    };
    match (UserError::from(error), hint) {
        (refused, Some(hint)) => refused.hint(hint),
        (refused, None) => refused,
    }
}

/// Returns whether an open file could not be read or written.
fn is_of_the_disk(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure)
}

/// The error for a host that owns a run and never answers.
pub(in crate::cli) fn not_listening(id: &str) -> UserError {
    UserError::new(kind::HOST_FAULT, format!("the host of {id} does not listen"))
        .hint(format!("`wfhost status {id}` shows which process it is"))
}

impl From<StoreError> for UserError {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::Io { .. } | StoreError::Foreign { .. } => Some(ANOTHER_FOLDER.to_owned()),
            StoreError::Sqlite { path, .. } if error.is_of_the_file() => Some(format!(
                "the file is damaged, or is not a journal: {RESTORE_HINT}; or move {} away; {ANOTHER_FOLDER}",
                path.display()
            )),
            StoreError::Lost { log, .. } => Some(format!(
                "restore the journal.db that belongs to it; or move {} away, which loses what was in both; \
                {ANOTHER_FOLDER}",
                log.display()
            )),
            StoreError::Sqlite { error: reason, .. } if is_of_the_disk(reason) => Some(
                "was journal.db-wal or journal.db-shm removed while the folder was in use? if so, stop \
                the hosts that use it and try again; otherwise check the disk"
                    .to_owned(),
            ),
            StoreError::Sqlite { .. } => {
                Some(format!("is the disk full, or the folder not writable? {ANOTHER_FOLDER}"))
            }
            StoreError::Format { .. } => Some(format!("use a wfhost of that release; {ANOTHER_FOLDER}")),
            StoreError::Owned { run, .. } => Some(format!("`wfhost status {run}` shows which process has it")),
            StoreError::Damaged { run, .. } => Some(removal_hint(run)),
            _ => None,
        };
        Self::new(kind::JOURNAL, error.to_string()).hint_maybe(hint)
    }
}
