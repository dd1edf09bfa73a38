//! What a journal says of runs.

use super::Owner;
use super::place::GroupEntry;
use crate::process::{Pid, Timestamp};
use crate::run::{EndStatus, Log, Mail};
use bytes::Bytes;
use std::sync::Arc;

/// A run that begins.
#[derive(Clone, Default, Debug)]
pub struct NewRun {
    /// Unique in the journal.
    pub id: Arc<str>,
    /// The name of its workflow.
    pub name: Arc<str>,
    /// When the run was created, in microseconds since 1970.
    pub created: Timestamp,
    /// What a host needs to recover it: JSON.
    pub manifest: String,
    /// The BLAKE3 of the bytes of its components, in hexadecimal: their files in `components/` are
    /// retained as long as the run is.
    pub components: Vec<Arc<str>>,
    /// The row of the version of its workflow, if it was deployed.
    pub version: Option<u64>,
    /// What started it, for statistics: such as `api`, `schedule`, `webhook`, `retry`, `fork`.
    pub source: Arc<str>,
    /// By what it is found in lists: keys with their values, each key once.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// The concurrency group that it enters. A journal in memory gives every run a place.
    pub group: Option<GroupEntry>,
}

/// A run in a journal.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Stored {
    /// Its place among the runs that were created at the same time.
    #[serde(skip)]
    pub row: u64,
    /// Unique in the journal.
    pub id: Arc<str>,
    /// The name of its workflow.
    pub name: Arc<str>,
    /// When the run was created, in microseconds since 1970.
    pub created: Timestamp,
    /// How it ended; `None` while it has not.
    pub status: Option<EndStatus>,
    /// When it ended, in microseconds since 1970.
    pub ended: Option<Timestamp>,
    /// The number of its records; an earlier number if a host owns the run.
    pub records: u64,
    /// The host that owns it, living or not; `None` if it is suspended or has ended.
    pub owner: Option<u64>,
    /// Why it cannot be recovered, if its records were found damaged. Removed when it is recovered.
    pub damage: Option<Arc<str>>,
    /// Its concurrency group.
    pub group: Option<Arc<str>>,
    /// Whether it waits for a place in its group.
    pub queued: bool,
    /// Whether it is parked: it waits, and is recovered when something comes for it.
    #[serde(skip)]
    pub parked: bool,
}

/// Selects runs: those that fit every field. The newest come first.
#[derive(Clone, Default, Debug)]
pub struct Filter {
    /// Only unfinished ones, or only ended ones.
    pub ended: Option<bool>,
    /// Only those that were found damaged.
    pub damaged: bool,
    /// Only those that wait for a place in their concurrency group.
    pub queued: bool,
    /// Only those that ended like this.
    pub status: Option<EndStatus>,
    /// Only those of the workflow of this name.
    pub name: Option<String>,
    /// Only those of the workflows whose names fit one of these patterns, in which `*` is any text;
    /// all if there is none.
    pub workflows: Vec<String>,
    /// Only those created at that time or later.
    pub created_min: Option<Timestamp>,
    /// Only those created before that time.
    pub created_before: Option<Timestamp>,
    /// Only those whose id begins like this.
    pub id_prefix: Option<String>,
    /// Only those that have all of these labels.
    pub labels: Vec<(String, String)>,
    /// Only those of this version of a workflow.
    pub version: Option<u64>,
    /// Only those that come after this place in the list.
    pub after: Option<ListPlace>,
    /// At most this many.
    pub limit: Option<u32>,
}

/// A place in a list of runs, which stays where it is when runs come and go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListPlace {
    /// When the run at this place was created.
    pub created: Timestamp,
    /// Its [`Stored::row`].
    pub row: u64,
}

impl Stored {
    /// Returns its place in lists.
    #[must_use]
    pub fn place(&self) -> ListPlace {
        ListPlace { created: self.created, row: self.row }
    }
}

impl Filter {
    /// Returns whether a run that began as `new` fits, regardless of the limit.
    #[must_use]
    pub fn fits(&self, run: &Stored, new: &NewRun) -> bool {
        let has = |(key, value): &(String, String)| {
            new.labels.iter().any(|(other, has)| **other == **key && **has == **value)
        };
        self.ended.is_none_or(|ended| ended == run.status.is_some())
            && (!self.damaged || run.damage.is_some())
            && self.status.is_none_or(|status| run.status == Some(status))
            && self.name.as_ref().is_none_or(|name| **name == *run.name)
            && self.created_min.is_none_or(|at| run.created >= at)
            && self.created_before.is_none_or(|at| run.created < at)
            && self.id_prefix.as_ref().is_none_or(|prefix| run.id.starts_with(&**prefix))
            && (self.workflows.is_empty() || self.workflows.iter().any(|pattern| pattern_fits(pattern, &run.name)))
            && self.labels.iter().all(has)
            && self.version.is_none_or(|version| new.version == Some(version))
            && self.after.is_none_or(|after| (run.created, run.row) < (after.created, after.row))
    }
}

/// Whether a name fits a pattern, in which `*` stands for any characters.
pub(crate) fn pattern_fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// How long ended runs are retained.
#[derive(Clone, Copy, Default, Debug)]
pub struct Retention {
    /// Runs that ended before this time are removed.
    pub ended_before: Option<Timestamp>,
    /// At most this many of the others stay: the newest.
    pub runs_max: Option<u64>,
}

/// What a run is from one more record on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunUpgrade {
    /// How many records it has before.
    pub records: u64,
    /// The record that says so.
    pub record: Bytes,
    /// As [`NewRun::manifest`], in its place.
    pub manifest: String,
    /// As [`NewRun::components`], in their place.
    pub components: Vec<Arc<str>>,
    /// As [`NewRun::version`], in its place.
    pub version: Option<u64>,
}

/// A run that was recovered.
pub struct RecoveredRun {
    /// Takes its further records.
    pub log: Box<dyn Log>,
    /// Its records so far, from the first on.
    pub records: Vec<Bytes>,
    /// The mail that is in none of the records, in the order in which it came.
    pub inbox: Vec<Mail>,
    /// The text of [`NewRun::manifest`].
    pub manifest: String,
}

/// The outcome of mail for a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Posted {
    /// It is stored durably: the host that recovers the run receives it.
    Stored,
    /// The run has or had the same mail already.
    Duplicate,
    /// The run has or had other mail with this id.
    Conflict,
    /// A living host owns the run: send it to that host.
    Owned(Owner),
    /// The run has ended.
    Ended,
    /// There is no such run.
    Unknown,
    /// The inbox of the run is full.
    Full,
}

/// Mail that a run may have in its inbox. Arbitrary.
pub(super) const MAIL_MAX: u32 = 1_000;
/// Bytes of mail that a run may have in its inbox. Arbitrary.
pub const MAIL_BYTES_MAX: u32 = 16 << 20;
/// Ids of consumed mail that stay known for each run. Arbitrary.
#[cfg(feature = "sqlite")]
pub(super) const MAIL_KNOWN_MAX: u32 = 1_000;
/// Snapshots that are retained of each process: the newest ones.
pub(super) const SNAPSHOTS_MAX: u32 = 2;

/// A process as it was after a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSnapshot {
    /// Names the process in its run.
    pub pid: Pid,
    /// The number of the step.
    pub step: u64,
    /// What the snapshot fits; only its maker reads this.
    pub key: Bytes,
    /// The state of the process; `None` if it is damaged.
    pub data: Option<Bytes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("order", "order", true),
            ("order", "orders", false),
            ("order*", "orders", true),
            ("*", "", true),
            ("billing-*", "billing-eu", true),
            ("billing-*", "billing", false),
            ("*-eu", "billing-eu", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(pattern_fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
