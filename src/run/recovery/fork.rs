//! Forking: a new run that has the first records of another, and continues by itself from there.
//!
//! The new run has its own id, and its own idempotency keys for calls that it makes by itself; its
//! processes see what they saw in the former run, so that they repeat what they did. A call that
//! was in flight at the cut is in flight in the former run: in the new one it waits until its
//! outcome is settled ([`RunHandle::uncertain`](super::RunHandle::uncertain)), unless it is to be
//! sent again. It has the key that it had, and retains it if it is made again because the outcome
//! of that sending is unknown too.

use super::rebuild::{Rebuild, RebuildError};
use super::replay::{Difference, Replay, ReplaySpec, Unrepeatable, check_programs, replay};
use crate::process::{Budget, Grants, Payload, Program};
use crate::run::record::kinds::{Origin, Record, Started};
use crate::run::state::config::Programs;
use std::sync::Arc;

/// How a run is forked.
pub struct ForkSpec {
    /// The new run's id.
    pub id: Arc<str>,
    /// The number of the last record that the new run shares, from 1.
    pub at: u64,
    /// The program of its root process.
    pub root: Arc<dyn Program>,
    /// The programs that its processes may spawn.
    pub programs: Programs,
    /// Whether other programs than those of the run are given on purpose: they must do the same up
    /// to the cut.
    pub substituted: bool,
    /// Whether calls that were in flight at the cut are sent again, under their keys, even those
    /// that are not safe to repeat.
    pub resend: bool,
    /// Another input and other grants for the root, if given: its processes must do the same up to
    /// the cut.
    pub other: Option<(Payload, Grants)>,
    /// What instances are taken from while other programs are compared; `None` for slots that are
    /// not counted.
    pub budget: Option<Arc<Budget>>,
}

/// Why a run cannot be forked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The run has no such record.
    #[error("the run has {records} records: it cannot be forked at {at}")]
    NoRecord {
        /// The number that was asked for.
        at: u64,
        /// How many there are.
        records: u64,
    },
    /// The run has ended at that record: nothing would continue.
    #[error("the run has ended at record {at}: fork it earlier")]
    Ended {
        /// The number that was asked for.
        at: u64,
    },
    /// The other programs, or the same ones with another input, do something else before the cut.
    #[error("process {} diverges in step {} (record {})", .0.pid, .0.step, .0.record)]
    Diverged(Box<Difference>),
    /// This host cannot replay the steps before the cut.
    #[error("process {} cannot be replayed beyond step {} (record {})", .0.pid, .0.step, .0.record)]
    CannotReplay(Box<Unrepeatable>),
    /// The records are not those of a run of these programs.
    #[error(transparent)]
    Records(#[from] RebuildError),
}

/// Makes the first record of a run that is forked from another. Its further records are those of
/// the other run, up to the cut: once they are in a log, the run can be recovered
/// ([`Kernel::recover`](super::Kernel::recover)).
///
/// # Errors
/// Fails if there is no such record or the run has ended there, if other programs diverge before
/// the cut, or if the records cannot be read as a run.
pub fn fork(records: &[Record], spec: ForkSpec) -> Result<Started, ForkError> {
    let ForkSpec { id, at, root, programs, substituted, resend, other, budget } = spec;
    let count = usize::try_from(at).unwrap_or(usize::MAX);
    let prefix = records.get(..count).filter(|prefix| !prefix.is_empty());
    let Some(prefix) = prefix else { return Err(ForkError::NoRecord { at, records: records.len() as u64 }) };
    let rebuild =
        Rebuild::new(Arc::clone(&root), programs.clone()).substituted(substituted).retaining().apply_all(prefix)?;
    if rebuild.is_finished() {
        return Err(ForkError::Ended { at });
    }
    let known =
        rebuild.projection().started().expect("invariant: the first record of a run that can be rebuilt is its start");
    if !substituted {
        check_programs(&known.programs, &programs)?;
    }
    let before = known.origin.iter().flat_map(|origin| origin.held.iter().copied()).filter(|cut| *cut < at);
    let held = before.chain((!resend).then_some(at)).collect();
    let digests: Vec<_> = programs.iter().map(|(name, program)| (Arc::clone(name), program.digest())).collect();
    let (input, grants) = other.unwrap_or_else(|| (known.input.clone(), known.grants.clone()));
    let started = Started {
        run: Arc::clone(&id),
        input,
        grants,
        root: root.digest(),
        programs: digests,
        origin: Some(Origin {
            run: Arc::clone(&known.run),
            record: at,
            keys: id,
            seen_as: Arc::clone(known.seen_as()),
            held,
            former_keys: known.origin.as_ref().map(|origin| origin.former_keys.clone()).unwrap_or_default(),
        }),
        ..known.clone()
    };
    if (&started.root, &started.programs, &started.input) == (&known.root, &known.programs, &known.input) {
        return Ok(started);
    }
    let first = Record::Started(Box::new(started.clone()));
    let spec = ReplaySpec { root, programs, substituted: true, until: None, budget };
    match replay(spec, std::iter::once(&first).chain(&prefix[1..]), |_| {})? {
        Replay::Same { .. } => Ok(started),
        Replay::Diverged(difference) => Err(ForkError::Diverged(difference)),
        Replay::CannotReplay(unrepeatable) => Err(ForkError::CannotReplay(unrepeatable)),
    }
}
