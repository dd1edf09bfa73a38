//! The run of a due time.

use super::firings::Entry;
use super::outcome;
use crate::host::{DeployedVersion, LoadError, RunOptions, StartNotes};
use crate::journal::catalog::Firing;
use crate::process::Timestamp;
use crate::run::{Act, system_time};
use crate::serve::api::runs::without_secrets;
use crate::serve::idempotency::derived;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use crate::workflow::schedule::{Overlap, ScheduleSpec, Timetable};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a start may take to be durable.
const DURABLE_TIME_MAX: Duration = Duration::from_secs(30);

/// Firings that wait at one time, by `queue-all`.
const QUEUE_MAX: u32 = 100;

/// The id of the run of a due time.
pub(in crate::serve) fn run_id(schedule: &str, due: Timestamp) -> String {
    derived('s', &["schedule", schedule, &due.0.to_string()])
}

/// The outcome of a start.
pub(super) enum Started {
    /// The run exists, begun now or before.
    Run,
    /// It cannot be started, now or later.
    Failed(String),
    /// It can be started later.
    Later(String),
}

/// What is started.
pub(super) struct Target<'a> {
    pub(super) name: &'a str,
    pub(super) workflow: &'a str,
    pub(super) spec: &'a ScheduleSpec,
    pub(super) table: &'a Timetable,
}

impl<'a> Target<'a> {
    pub(super) fn of(entry: &'a Entry) -> Self {
        let schedule = &entry.stored.schedule;
        Self { name: &schedule.name, workflow: &schedule.workflow, spec: &entry.spec, table: &entry.table }
    }

    /// Starts the run of a due time under an id, unless there is one already.
    pub(super) fn start(&self, service: &Service, id: &str, due: Timestamp, author: &str) -> Answered<Started> {
        if service.store.run(id)?.is_some() {
            return Ok(Started::Run);
        }
        if service.is_draining() {
            return Ok(Started::Later("the service is stopping".to_owned()));
        }
        if service.host.is_full() {
            return Ok(Started::Later("the disk is full".to_owned()));
        }
        let deployed = match service.deployed(self.workflow, None) {
            Ok(deployed) => deployed,
            Err(problem) => return Ok(Started::Failed(words(&problem))),
        };
        let inputs = match self.spec.inputs_at(service.host.expressions(), self.table, self.name, due) {
            Ok(inputs) => inputs,
            Err(why) => return Ok(Started::Failed(why)),
        };
        let version = &deployed.version;
        let notes = StartNotes {
            labels: BTreeMap::from([("schedule".to_owned(), self.name.to_owned())]),
            version: Some(DeployedVersion { row: version.row, number: version.number }),
            started_by: Some("schedule".to_owned()),
            author: Some(author.to_owned()),
            ..StartNotes::default()
        };
        let options = RunOptions { id: Some(id.to_owned()), durable: Some(true), notes, ..RunOptions::default() };
        Ok(match service.host.start(&deployed.workflow, inputs, options) {
            Ok(run) if run.started(DURABLE_TIME_MAX) => Started::Run,
            Ok(_) => Started::Later("the run's start is not durable yet".to_owned()),
            // Begun by an attempt before this one.
            Err(LoadError::Exists { .. }) if service.store.run(id)?.is_some() => Started::Run,
            Err(LoadError::Exists { .. }) => Started::Later("the run's start is not durable yet".to_owned()),
            Err(LoadError::Inputs(violations)) => {
                let violations = violations.iter().map(|(pointer, message)| format!("inputs{pointer} {message}"));
                Started::Failed(violations.collect::<Vec<_>>().join("; "))
            }
            Err(LoadError::Secrets(missing)) => Started::Later(without_secrets(&missing)),
            Err(error @ (LoadError::ShuttingDown | LoadError::Journal(_) | LoadError::QueueFull { .. })) => {
                Started::Later(error.to_string())
            }
            Err(error) => Started::Failed(error.to_string()),
        })
    }
}

/// A problem in one line.
fn words(problem: &ServeProblem) -> String {
    problem.detail.clone().unwrap_or_else(|| problem.title.clone())
}

/// Handles a due time: starts its run, queues it, or skips it. Without an answer it is tried again
/// later.
pub(super) fn fire(
    service: &Service,
    entry: &Entry,
    due: Timestamp,
    outcome: &'static str,
) -> Answered<Result<(&'static str, Firing), String>> {
    let target = Target::of(entry);
    let id = run_id(target.name, due);
    let noted = |outcome: &'static str, run: Option<String>, reason: Option<String>| {
        Ok(Ok((outcome, Firing { due, at: system_time(), outcome: outcome.to_owned(), run, reason })))
    };
    if service.store.run(&id)?.is_some() {
        return noted(outcome, Some(id), None);
    }
    let unfinished = service.store.unfinished_of_schedule(target.name)?;
    let earlier = unfinished.first().map(|run| format!("the run `{run}` has not ended")).unwrap_or_default();
    match entry.spec.overlap {
        Overlap::Allow => {}
        Overlap::Skip if unfinished.is_empty() => {}
        Overlap::Skip => return noted(outcome::SKIPPED, None, Some(earlier)),
        Overlap::CancelPrevious => {
            for run in &unfinished {
                let reason = "the next run of its schedule is due".into();
                if let Err(error) = service.host.act(run, &Act::Cancel { reason, grace: None }, None) {
                    tracing::warn!(schedule = target.name, run, %error, "an earlier run is not cancelled");
                }
            }
        }
        Overlap::Queue | Overlap::QueueAll => {
            let most = if entry.spec.overlap == Overlap::Queue { 1 } else { QUEUE_MAX };
            let waiting = service.store.queued_firings(target.name, most)?.len();
            if waiting >= most as usize {
                let reason = format!("{earlier}, and {waiting} more wait for it");
                return noted(outcome::SKIPPED, None, Some(reason));
            }
            if !unfinished.is_empty() || waiting > 0 {
                return noted(outcome::QUEUED, Some(id), Some(earlier));
            }
        }
    }
    match target.start(service, &id, due, &format!("schedule {}", target.name))? {
        Started::Run => noted(outcome, Some(id), None),
        Started::Failed(why) => noted(outcome::FAILED, None, Some(why)),
        Started::Later(why) => Ok(Err(why)),
    }
}

/// Starts a run of a schedule now, which somebody asks for.
pub(in crate::serve) fn manual(
    service: &Service,
    name: &str,
    id: Option<String>,
    author: &str,
) -> Answered<(String, Firing)> {
    let unknown = || ServeProblem::unknown(format_args!("schedule `{name}`"));
    let now = system_time();
    let stored = service.store.schedule(name)?.ok_or_else(unknown)?;
    let entry = Entry::read(stored, now).ok_or_else(|| ServeProblem::new(ProblemKind::HostFault))?;
    let id = id.unwrap_or_else(|| derived('s', &["manual", name, &now.0.to_string()]));
    let is_repeat = service.store.run(&id)?.is_some();
    match Target::of(&entry).start(service, &id, now, author)? {
        Started::Run => {}
        Started::Failed(why) => return Err(ServeProblem::new(ProblemKind::DoesNotFit).detail(why)),
        Started::Later(why) => {
            let kind = match () {
                () if service.is_draining() => ProblemKind::Draining,
                () if service.host.is_full() => ProblemKind::DiskFull,
                () => ProblemKind::Unsure,
            };
            return Err(ServeProblem::new(kind).detail(why).retry_after(5));
        }
    }
    let reason = Some(format!("asked for by {author}"));
    let firing = Firing { due: now, at: now, outcome: outcome::MANUAL.to_owned(), run: Some(id.clone()), reason };
    if !is_repeat {
        service.store.note_firings(name, std::slice::from_ref(&firing), None, super::FIRINGS_MAX)?;
        service.schedules.count(name, outcome::MANUAL);
    }
    Ok((id, firing))
}
