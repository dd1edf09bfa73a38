//! Replaying recorded runs on a version, before anybody uses it.
//!
//! Nothing leaves the host, and the runs stay as they are. It takes one run at a time, on a thread
//! of low priority; each step is bounded by the limits of its run, and each run by a time.

use super::{Progress, Worked};
use crate::host::{ReplayOptions, RunManifest, Workflow};
use crate::run::{Difference, Record, Replay};
use crate::serve::access::Caller;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::{Deployed, Service};
use crate::workflow::interpreter::RETRY;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs of a check.
pub(in crate::serve) const CHECKED_MAX: usize = 1_000;

/// How long one run is replayed.
const RUN_TIME_MAX: Duration = Duration::from_secs(30);

/// Runs of a report whose lines are shown; lines of each, from the first that differs; and
/// characters of a line.
const SHOWN_MAX: (usize, usize, usize) = (100, 10, 300);

/// The niceness of the thread that replays: it gets what starts and steps leave.
const NICENESS: i32 = 10;

/// What is to be done: the runs are decided when the check is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::serve) struct Check {
    pub(in crate::serve) name: String,
    pub(in crate::serve) version: u64,
    pub(in crate::serve) runs: Vec<String>,
    /// Whether more runs fit the filter than were asked for.
    pub(in crate::serve) more: bool,
}

/// What a run would have done on the version.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(in crate::serve) struct RunChecked {
    /// The run.
    pub(in crate::serve) run: String,
    /// `fits`, `differs` or `unknown`.
    pub(in crate::serve) outcome: String,
    /// Steps that were the same, if all were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) steps: Option<u64>,
    /// The number of the record where it differs, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) record: Option<u64>,
    /// The process that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) pid: Option<u64>,
    /// The number of its step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) step: Option<u64>,
    /// The place of the process in the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) scope: Option<String>,
    /// The component of the process, if it is a guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) component: Option<String>,
    /// What the step gave then, from the first line that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) expected: Option<Vec<String>>,
    /// What it gives on the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) did: Option<Vec<String>>,
    /// Why it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::serve) why: Option<String>,
}

/// The report of a check.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::serve) struct CheckReport {
    /// The workflow.
    pub(in crate::serve) workflow: String,
    /// The version that the runs are replayed on.
    pub(in crate::serve) version: u64,
    /// How many runs there are.
    pub(in crate::serve) total: usize,
    /// How many outcomes there are of each kind.
    pub(in crate::serve) counts: BTreeMap<String, usize>,
    /// Whether more runs fit the filter.
    pub(in crate::serve) more: bool,
    /// The outcomes so far, in the order of the runs.
    pub(in crate::serve) outcomes: Vec<RunChecked>,
}

/// Works on a check.
pub(super) async fn work(progress: &mut Progress) -> Answered<Worked> {
    let check: Check = progress.body()?;
    let mut report: CheckReport = serde_json::from_value(progress.report.take()).unwrap_or_default();
    (report.total, report.more) = (check.runs.len(), check.more);
    (report.workflow, report.version) = (check.name.clone(), check.version);
    let worked = work_off(progress, &check, &mut report).await;
    progress.report = serde_json::json!(report);
    worked
}

async fn work_off(progress: &mut Progress, check: &Check, report: &mut CheckReport) -> Answered<Worked> {
    let done = report.outcomes.len().min(check.runs.len());
    // What a run is seen to wait for may not be in the journal yet.
    progress.service.with_store(|service| Ok(service.store().flush_while_room()?)).await?;
    for run in &check.runs[done..] {
        if let Some(stopped) = progress.stops() {
            return Ok(stopped);
        }
        let caller = progress.caller().await?;
        caller.check_workflow(&check.name)?;
        let (name, number) = (check.name.clone(), check.version);
        let version = progress.service.with_store(move |service| service.deployed(&name, Some(number))).await?;
        // What was stopped is seen before the next.
        let Some(mut checked) = replayed(progress, caller, version, run).await? else { continue };
        let shown = report.outcomes.iter().filter(|one| one.expected.is_some()).count();
        if shown >= SHOWN_MAX.0 {
            (checked.expected, checked.did) = (None, None);
        }
        *report.counts.entry(checked.outcome.clone()).or_default() += 1;
        report.outcomes.push(checked);
        progress.store(|| serde_json::json!(report)).await?;
    }
    Ok(progress.stops().filter(|_| report.outcomes.len() < check.runs.len()).unwrap_or(Worked::Done))
}

/// Replays a run on a thread of its own. `None` if the job must end before it is replayed.
async fn replayed(progress: &Progress, caller: Caller, version: Deployed, run: &str) -> Answered<Option<RunChecked>> {
    let fault = |_| ServeProblem::new(ProblemKind::HostFault);
    let turn = Arc::clone(&progress.service.replays).acquire_owned().await.map_err(fault)?;
    let (service, run, goes_on) = (Arc::clone(&progress.service), run.to_owned(), progress.goes_on());
    let (answer, answered) = tokio::sync::oneshot::channel();
    let replay = move || {
        let _turn = turn;
        // If it is not granted, it is replayed at the usual priority.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let _ = answer.send(check_run(&service, &caller, &version, &run, &goes_on));
    };
    let thread = std::thread::Builder::new().name("wfhost-check".to_owned());
    thread.spawn(replay).map_err(|error| {
        tracing::error!(%error, "no thread can be started to check a run");
        ServeProblem::new(ProblemKind::HostFault)
    })?;
    answered.await.map_err(|_| ServeProblem::new(ProblemKind::HostFault))
}

fn check_run(
    service: &Service,
    caller: &Caller,
    version: &Deployed,
    run: &str,
    goes_on: &dyn Fn() -> bool,
) -> Option<RunChecked> {
    let read = service.run_for(caller, run).and_then(|stored| {
        if *stored.name == *version.version.name {
            return service.records(run, 1, usize::MAX);
        }
        let detail = format!("it is a run of `{}`", stored.name);
        Err(ServeProblem::new(ProblemKind::DoesNotFit).detail(detail))
    });
    let records = match read {
        Ok(records) => records,
        Err(problem) => return Some(unknown(run, problem.detail.unwrap_or(problem.title))),
    };
    let manifest = service.manifest(run);
    let is_other = manifest.as_ref().and_then(|manifest| manifest.notes.version).map(|version| version.row)
        != Some(version.version.row);
    let has_taken_over = records.first().and_then(Record::started).is_some_and(|started| &*started.entry == RETRY);
    let components = serde_json::from_str(&version.version.components).unwrap_or_default();
    let is_same = |manifest: &RunManifest| manifest.has_text(&version.version.source, &components);
    if has_taken_over && !manifest.as_ref().is_some_and(is_same) {
        return Some(unknown(run, "it is a retry: what it took over from another run has no steps to compare"));
    }
    compare(service, &version.workflow, run, &records, is_other, goes_on)
}

/// Replays the records on the workflow. `None` if it was stopped.
fn compare(
    service: &Service,
    workflow: &Workflow,
    run: &str,
    records: &[Record],
    substituted: bool,
    goes_on: &dyn Fn() -> bool,
) -> Option<RunChecked> {
    let until = Instant::now() + RUN_TIME_MAX;
    let (mut is_stopped, mut is_late) = (false, false);
    let proceeds = || {
        is_stopped = !goes_on();
        is_late = Instant::now() >= until;
        !is_stopped && !is_late
    };
    let options = ReplayOptions { until: None, substituted };
    let replay = service.host.replay_while(workflow, records, options, proceeds, |_| {});
    if is_stopped {
        return None;
    }
    Some(match replay {
        Ok(Replay::Same { .. }) if is_late => {
            unknown(run, format!("its replay takes longer than {} seconds", RUN_TIME_MAX.as_secs()))
        }
        Ok(Replay::Same { steps, .. }) => {
            RunChecked { run: run.to_owned(), outcome: "fits".to_owned(), steps: Some(steps), ..RunChecked::default() }
        }
        Ok(Replay::Diverged(difference)) => differs(run, *difference),
        Ok(Replay::CannotReplay(at)) => RunChecked {
            record: Some(at.record),
            pid: Some(at.pid.0),
            step: Some(at.step),
            scope: at.scope.map(|scope| scope.to_string()),
            component: at.component.map(|component| component.to_string()),
            ..unknown(run, format!("this server cannot repeat the step: `{}`", at.problem.kind))
        },
        Err(error) => unknown(run, error.to_string()),
    })
}

fn unknown(run: &str, why: impl Into<String>) -> RunChecked {
    let (run, why) = (run.to_owned(), Some(why.into()));
    RunChecked { run, outcome: "unknown".to_owned(), why, ..RunChecked::default() }
}

pub(in crate::serve) fn differs(run: &str, difference: Difference) -> RunChecked {
    let from = difference.line;
    let (_, lines_max, chars_max) = SHOWN_MAX;
    let shown = |lines: Vec<String>| {
        let lines = lines.into_iter().skip(from).take(lines_max);
        Some(lines.map(|line| line.chars().take(chars_max).collect()).collect())
    };
    RunChecked {
        run: run.to_owned(),
        outcome: "differs".to_owned(),
        record: Some(difference.record),
        pid: Some(difference.pid.0),
        step: Some(difference.step),
        scope: difference.scope.map(|scope| scope.to_string()),
        component: difference.component.map(|component| component.to_string()),
        expected: shown(difference.expected),
        did: shown(difference.got),
        ..RunChecked::default()
    }
}
