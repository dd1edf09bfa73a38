//! The folder of durable runs, and the runs in it.

use crate::cli::args::DataArguments;
use crate::cli::report::error::{Refused, kind};
use crate::cli::report::unresponsive::waiting_for;
use crate::cli::terminal::{quoted, say};
use crate::host::control::{Client, ControlError, Refusal};
use crate::host::{Outcome, RecoverError, RunManifest, Status, Story};
use crate::journal::{DurabilityListener, Filter, Journal as _, Owner, Sqlite, StoreError, Stored};
use crate::run::{DamagedRecord, Record, Uncertain};
use crate::workflow::diagnostics::closest;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs whose ids are compared with one that there is not. Arbitrary: a person means a recent one.
const CANDIDATES_MAX: u32 = 1_000;

/// Ids that are listed where a beginning fits several.
const LISTED_MAX: usize = 5;

/// The name of the store in its folder.
const STORE: &str = "journal.db";

impl DataArguments {
    /// The folder: `--data`, `$WFHOST_DATA`, or `wfhost` in `$XDG_DATA_HOME` or `~/.local/share`. None where there is no home.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        if let Some(folder) = self.data.as_ref().filter(|folder| !folder.as_os_str().is_empty()) {
            return Some(folder.clone());
        }
        let absolute = |dir: PathBuf| dir.is_absolute().then_some(dir);
        let base = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).and_then(absolute);
        let base = base.or_else(|| std::env::home_dir().and_then(absolute).map(|home| home.join(".local/share")))?;
        Some(base.join("wfhost"))
    }

    /// The folder, or why there is none.
    pub(super) fn required(&self) -> Result<PathBuf, Refused> {
        self.folder().ok_or_else(|| {
            Refused::new(kind::USAGE, "there is no folder for durable runs: you have no home")
                .hint("--data DIR or WFHOST_DATA names one")
        })
    }

    /// The runs of the folder. None where nothing was ever run in it.
    pub(super) fn open(&self) -> Result<Option<Runs>, Refused> {
        let folder = self.required()?;
        match std::fs::metadata(folder.join(STORE)) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if Sqlite::is_lost(&folder)? {
                    say(&format!("warning: {}\nhint: {ANEW_HINT}", gone(&folder.join(STORE))));
                }
                return Ok(None);
            }
            Err(error) => {
                let title = format!("{}: {error}", folder.join(STORE).display());
                return Err(Refused::new(kind::JOURNAL, title).hint(ANOTHER_FOLDER));
            }
        }
        let store = Sqlite::open(&folder, Arc::new(NoListener))?;
        Ok(Some(Runs { folder, store }))
    }

    /// A run of the folder, by its id or the beginning of it.
    pub(super) fn find(&self, given: &str) -> Result<(Runs, Stored), Refused> {
        let Some(runs) = self.open()? else {
            let title = format!("there is no run `{}`: {} has no runs", quoted(given), self.required()?.display());
            return Err(Refused::new(kind::UNKNOWN_RUN, title).hint(ANOTHER_FOLDER));
        };
        let run = runs.find(given)?;
        Ok((runs, run))
    }
}

pub(super) const ANOTHER_FOLDER: &str = "--data DIR or WFHOST_DATA names another folder";

/// What is said where a part of the journal was damaged that SQLite does not read then.
pub(super) fn torn(kept: &Path) -> String {
    format!("the journal is damaged: what was written last is not in it, and is kept in {}", kept.display())
}

pub(super) const TORN_HINT: &str = "`wfhost doctor` tells how much that is; end the hosts of the folder, and put copies of journal.db and journal.db-wal in their place, both of one time";

/// What is said where the journal of a host waits for room.
pub(super) const FULL: &str = "the disk with the data folder is full: all runs wait until there is room";

pub(super) const FULL_HINT: &str = "nothing is lost; make room";

/// What is said of a folder that was in use and has no journal.
pub(super) fn gone(journal: &Path) -> String {
    format!("{} is gone: the folder was in use, and the runs that were in it are not there", journal.display())
}

/// The same, where a new journal was begun.
pub(super) fn recreated(journal: &Path) -> String {
    format!("{}; a new journal is begun", gone(journal))
}

pub(super) const ANEW_HINT: &str =
    "put a copy of journal.db there, where there is one; --data DIR or WFHOST_DATA names another folder";

/// How a copy is put in the place of a journal: SQLite would apply a log that is of another time to the file.
pub(super) const PUT_BACK: &str = "end the hosts of the folder, and put copies of journal.db and journal.db-wal in their place, both of one time; where the copy is journal.db alone, move journal.db-wal away first";

/// Whoever only looks writes nothing that could become durable.
struct NoListener;

impl DurabilityListener for NoListener {
    fn durable(&self, _: &str, _: u64) {}

    fn torn(&self, kept: &Path) {
        say(&format!("warning: {}\nhint: {TORN_HINT}", torn(kept)));
    }

    fn recreated(&self, path: &Path) {
        say(&format!("warning: {}\nhint: {ANEW_HINT}", recreated(path)));
    }

    fn failed(&self, _: &StoreError) {}
}

/// The runs of a folder.
pub(super) struct Runs {
    pub(super) folder: PathBuf,
    pub(super) store: Sqlite,
}

/// Who has a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    /// It has ended.
    Over,
    /// A host that lives.
    Living(Owner),
    /// Nobody: it can be taken up.
    Nobody,
}

impl Runs {
    /// A run, by its id or the beginning of it.
    pub(super) fn find(&self, given: &str) -> Result<Stored, Refused> {
        if let Some(run) = self.store.run(given)? {
            return Ok(run);
        }
        let mut ids = if given.is_empty() { Vec::new() } else { self.store.ids(given, LISTED_MAX as u32 + 1)? };
        if ids.len() == 1 {
            let id = ids.remove(0);
            return self.store.run(&id)?.ok_or_else(|| StoreError::Unknown(id).into());
        }
        if ids.len() > 1 {
            let more = if ids.len() > LISTED_MAX { ", and more" } else { "" };
            let listed = ids.iter().take(LISTED_MAX).map(|id| &**id).collect::<Vec<_>>().join(", ");
            let refused = Refused::new(kind::UNKNOWN_RUN, format!("several runs begin with `{}`", quoted(given)));
            return Err(refused.hint(format!("they are {listed}{more}")));
        }
        let recent = self.store.list(&Filter { limit: Some(CANDIDATES_MAX), ..Filter::default() })?;
        let hint = match closest(given, recent.iter().map(|run| &*run.id)) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("`wfhost ls` lists the runs of {}; {ANOTHER_FOLDER}", self.folder.display()),
        };
        Err(Refused::new(kind::UNKNOWN_RUN, format!("there is no run `{}`", quoted(given))).hint(hint))
    }

    /// Who has a run now.
    pub(super) fn whose(&self, run: &Stored) -> Result<Whose, Refused> {
        if run.status.is_some() {
            return Ok(Whose::Over);
        }
        if run.owner.is_none() {
            return Ok(Whose::Nobody);
        }
        Ok(match self.store.owner_of(&run.id)? {
            Some(owner) if owner.alive => Whose::Living(owner),
            _ => Whose::Nobody,
        })
    }

    /// What the host of this owner answers that has the run which is asked about. None: none has it any more.
    pub(super) fn ask<T>(
        &self,
        owner: &Owner,
        ask: impl Fn(&Client) -> Result<T, ControlError>,
    ) -> Result<Option<T>, ControlError> {
        // Where it listens it has written down: what that is depends on its environment too. A process may have several hosts.
        let hosts = match owner.socket.as_deref().and_then(Client::told) {
            Some(host) => vec![host],
            None => Client::hosts_in(&self.folder, owner.pid)?,
        };
        waiting_for(Some(owner.pid), hosts.clone(), || {
            for host in &hosts {
                match ask(host) {
                    Ok(answer) => return Ok(Some(answer)),
                    Err(ControlError::Gone | ControlError::Refused(Refusal::UnknownRun { .. } | Refusal::Ended)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(None)
        })
    }

    /// The records of a run, as far as they are on disk.
    pub(super) fn all_records(&self, id: &str) -> Result<Vec<Record>, Refused> {
        let damaged = |why: String| StoreError::Damaged { run: id.into(), why };
        self.readable(id)?.map_err(|why| damaged(why).into())
    }

    /// The same, or what is wrong with them.
    pub(super) fn readable(&self, id: &str) -> Result<Result<Vec<Record>, String>, Refused> {
        let records = match self.store.records(id) {
            Err(StoreError::Damaged { why, .. }) => return Ok(Err(why)),
            records => records.map_err(|error| refused_of(id, error.into()))?,
        };
        let told = |DamagedRecord { number, why }| format!("record {number}: {why}");
        Ok(Record::decode_all(records).map_err(told))
    }

    /// What the records of a run say.
    pub(super) fn story(&self, id: &str) -> Result<Story, Refused> {
        Ok(Story::of(&self.all_records(id)?))
    }

    /// The calls that were in flight when a run ended without success: each may have taken effect.
    /// Empty if the records cannot be read.
    pub(super) fn given_up(&self, outcome: &Outcome) -> Vec<Uncertain> {
        let is_told = match outcome.status {
            Status::Failed | Status::Cancelled | Status::TimedOut => outcome.counts.calls > 0,
            Status::Succeeded | Status::Suspended => false,
        };
        let story = is_told.then(|| self.story(&outcome.run).ok()).flatten();
        // A run that only this host has lost goes on.
        story.filter(Story::is_over).map_or_else(Vec::new, |story| story.given_up().to_vec())
    }

    /// What a run was started with.
    pub(super) fn about(&self, id: &str) -> Result<RunManifest, Refused> {
        self.readable_about(id)?.map_err(|why| StoreError::Damaged { run: id.into(), why }.into())
    }

    /// The same, or what is wrong with it.
    pub(super) fn readable_about(&self, id: &str) -> Result<Result<RunManifest, String>, Refused> {
        let about = match self.store.manifest(id) {
            Err(StoreError::Damaged { why, .. }) => return Ok(Err(why)),
            about => about?.ok_or_else(|| StoreError::Unknown(id.into()))?,
        };
        Ok(RunManifest::read(&about).map_err(|why| RecoverError::Manifest(why).to_string()))
    }
}

/// What is said of a run whose records are damaged.
pub(super) fn left_alone(id: &str) -> String {
    format!("other runs are not touched by it; `wfhost rm {id} --unfinished` removes it for good")
}

/// Why a run cannot be read or taken up. Where the file is damaged, it may be this run alone.
pub(super) fn refused_of(id: &str, error: RecoverError) -> Refused {
    let hint = match &error {
        RecoverError::Journal(store @ StoreError::Sqlite { .. }) if store.is_of_the_file() => Some(format!(
            "the file is damaged: {PUT_BACK}; where it is this run alone, `wfhost rm {id} --unfinished` removes it for good"
        )),
        error => error.damage().map(|_| left_alone(id)),
    };
    match (Refused::from(error), hint) {
        (refused, Some(hint)) => refused.hint(hint),
        (refused, None) => refused,
    }
}

/// Whether a file could not be read or written although it is open.
fn is_of_the_disk(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure)
}

/// What is said where the host that has a run never answers.
pub(super) fn not_listening(id: &str) -> Refused {
    Refused::new(kind::HOST_FAULT, format!("the host that runs {id} does not listen"))
        .hint(format!("`wfhost status {id}` tells which process it is"))
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::Io { .. } | StoreError::Foreign { .. } => Some(ANOTHER_FOLDER.to_owned()),
            StoreError::Sqlite { path, .. } if error.is_of_the_file() => Some(format!(
                "the file is damaged, or is no journal: {PUT_BACK}; or move {} away; {ANOTHER_FOLDER}",
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
            StoreError::Damaged { run, .. } => Some(left_alone(run)),
            _ => None,
        };
        Self::new(kind::JOURNAL, error.to_string()).hint_maybe(hint)
    }
}

impl From<ControlError> for Refused {
    fn from(error: ControlError) -> Self {
        let hint = match &error {
            ControlError::Refused(Refusal::NotExposed { names, .. }) if names.is_empty() => {
                Some("the run exposes nothing".to_owned())
            }
            ControlError::Refused(Refusal::NotExposed { name, names }) => {
                let all = names.iter().map(|name| &**name);
                Some(closest(name, all.clone()).map_or_else(
                    || format!("it exposes {}", all.collect::<Vec<_>>().join(", ")),
                    |meant| format!("did you mean {meant}?"),
                ))
            }
            ControlError::Refused(Refusal::NoSuchCall { count: 0, .. }) => {
                Some("`wfhost status` lists the uncertain calls of a run".to_owned())
            }
            ControlError::Refused(Refusal::NoSuchCall { .. }) => {
                Some("write the process too, as in 3/7: `wfhost status` lists them".to_owned())
            }
            ControlError::Refused(Refusal::OtherVersion { .. }) => {
                Some("use the wfhost of the release that runs it".to_owned())
            }
            ControlError::Refused(Refusal::Busy) => Some("try again in a moment".to_owned()),
            _ => None,
        };
        let kind = match &error {
            ControlError::Refused(Refusal::Conflict { .. }) => kind::CONFLICT,
            ControlError::Refused(_) => kind::USAGE,
            _ => kind::HOST_FAULT,
        };
        Self::new(kind, format!("{:#}", anyhow::Error::from(error))).hint_maybe(hint)
    }
}
