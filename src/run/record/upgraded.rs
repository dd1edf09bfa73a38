//! The record by which a run goes on with another version of its workflow.

use super::kinds::Record;
use super::started::Started;
use super::wire::{Damaged, Source, Wire, put_number};
use crate::process::{Grants, Timestamp};
use std::sync::Arc;

/// From this record on, the run is one of another version of its workflow: that version has done
/// the same in all records before this one.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Upgraded {
    /// The id of the run. In a fork, which has another id and begins as what its source was then,
    /// the record says nothing.
    pub run: Arc<str>,
    /// Microseconds since 1970.
    pub at: Timestamp,
    /// What the run was before.
    pub from: RunVersion,
    /// What it is from now on.
    pub to: RunVersion,
}

/// What a run is a run of.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct RunVersion {
    /// The number of the version, if it was deployed.
    pub number: Option<u64>,
    /// The digest of the root's program.
    pub root: Arc<str>,
    /// Names and digests of the programs that its processes may spawn, in the order of the names.
    pub programs: Vec<(Arc<str>, Arc<str>)>,
    /// The root's grants.
    pub grants: Grants,
}

impl RunVersion {
    /// The version that a run has by its first record.
    #[must_use]
    pub fn of(started: &Started, number: Option<u64>) -> Self {
        let Started { root, programs, grants, .. } = started;
        Self { number, root: Arc::clone(root), programs: programs.clone(), grants: grants.clone() }
    }
}

impl Upgraded {
    /// Makes the first record of the upgraded run say what the run is now.
    pub(in crate::run) fn amend(&self, started: &mut Started) {
        if self.run == started.run {
            started.root = Arc::clone(&self.to.root);
            started.programs.clone_from(&self.to.programs);
            started.grants = self.to.grants.clone();
        }
    }
}

/// Makes the first record of a run name the programs and the grants that the run has now, if it was
/// upgraded.
pub(super) fn amend(records: &mut [Record]) {
    let Some((Record::Started(started), later)) = records.split_first_mut() else { return };
    for record in later {
        if let Record::Upgraded(upgraded) = record {
            upgraded.amend(started);
        }
    }
}

impl Wire for Upgraded {
    fn put(&self, out: &mut Vec<u8>) {
        self.run.put(out);
        self.at.put(out);
        self.from.put(out);
        self.to.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self { run: Wire::take(from)?, at: Wire::take(from)?, from: Wire::take(from)?, to: Wire::take(from)? })
    }
}

impl Wire for RunVersion {
    fn put(&self, out: &mut Vec<u8>) {
        self.number.put(out);
        self.root.put(out);
        put_number(out, self.programs.len() as u64);
        for (name, digest) in &self.programs {
            name.put(out);
            digest.put(out);
        }
        self.grants.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        let (number, root) = (Wire::take(from)?, Wire::take(from)?);
        let length = from.number()?;
        let mut programs = Vec::new();
        for _ in 0..length {
            programs.push((Wire::take(from)?, Wire::take(from)?));
        }
        Ok(Self { number, root, programs, grants: Wire::take(from)? })
    }
}
