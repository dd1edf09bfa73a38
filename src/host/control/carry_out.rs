//! Carrying out requests on the runs of a host.

use super::protocol::{Answer, HostFacts, Refusal, Request, Resolve, RunFacts, RunState, RunStatus};
use crate::process::{Micros, Pid, Tag};
use crate::run::{Acknowledged, Act, Doing, Events, Kernel, Refused, RunHandle};
use std::sync::Arc;
use std::time::Duration;

/// Events that may wait for a watcher. A slower one loses some, and gets their number.
const EVENTS_MAX: usize = 65_536;

/// How long after its last event a run may take to have its outcome, which waits until the last
/// record is durable.
pub(super) const OUTCOME_AFTER_MAX: Duration = Duration::from_mins(1);

/// The outcome of a request.
pub(super) enum Carried {
    /// It is answered.
    Answered(Answer),
    /// It is done, and will be answered when that is durable.
    Acted(Acknowledged),
    /// The run is watched.
    Watched(Watched),
}

/// A run and what happens in it.
pub(super) struct Watched {
    pub(super) run: RunHandle,
    pub(super) events: Events,
    /// The number of earlier records.
    pub(super) records: u64,
}

/// Carries out a request.
pub(super) fn carry_out(kernel: &Kernel, request: Request) -> Result<Carried, Refusal> {
    let find = |run: &str| kernel.find(run).ok_or_else(|| Refusal::UnknownRun { run: run.to_owned() });
    Ok(Carried::Answered(match request {
        Request::Host => Answer::Host(HostFacts {
            pid: std::process::id(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            runs: kernel.runs().len() + kernel.parked().len(),
            stalled: kernel.is_stalled(),
        }),
        Request::Runs => Answer::Runs(all(kernel)),
        Request::Status { run } => Answer::Status(Box::new(status(kernel, &find(&run)?))),
        Request::Query { run, name: None } => Answer::Names(find(&run)?.queries()),
        Request::Query { run, name: Some(name) } => {
            let run = find(&run)?;
            Answer::Value(run.query(&name).ok_or_else(|| Refusal::NotExposed { name, names: run.queries() })?)
        }
        Request::Signal { run, name, body, id } => {
            return act(&find(&run)?, Act::Signal { name: name.into(), body }, id);
        }
        Request::Cancel { run, reason, now: true, id } => {
            let run = find(&run)?;
            match act(&run, Act::Cancel { reason: reason.as_str().into(), grace: Some(Micros(0)) }, id) {
                // Detached processes may still live; they would have a grace of their own.
                Ok(_) | Err(Refusal::Ended) => run.kill(&reason),
                Err(refusal) => return Err(refusal),
            }
            return Ok(Carried::Acted(run.acknowledged()));
        }
        Request::TimeOut { run, after } => return act(&find(&run)?, Act::TimeOut { after }, None),
        Request::Cancel { run, reason, now: false, id } => {
            return act(&find(&run)?, Act::Cancel { reason: reason.into(), grace: None }, id);
        }
        Request::Pause { run, id } => return act(&find(&run)?, Act::Pause, id),
        Request::Unpause { run, id } => return act(&find(&run)?, Act::Resume, id),
        Request::Resolve { run, pid, tag, outcome, id } => return resolve(&find(&run)?, pid, tag, outcome, id),
        Request::GivePlace { run } if kernel.give_place(&run) => Answer::Done,
        Request::GivePlace { run } => return Err(Refusal::UnknownRun { run }),
        Request::Watch { run } => {
            let run = find(&run)?;
            let (events, records) = run.watch(EVENTS_MAX);
            return Ok(Carried::Watched(Watched { run, events, records }));
        }
    }))
}

fn act(run: &RunHandle, act: Act, id: Option<String>) -> Result<Carried, Refusal> {
    match run.act(act, id.as_deref()) {
        Ok(acknowledged) => Ok(Carried::Acted(acknowledged)),
        Err(Refused::Conflict) => Err(Refusal::Conflict { id: id.unwrap_or_default() }),
        Err(Refused::Ended) => Err(Refusal::Ended),
        Err(Refused::Full) => Err(Refusal::Full),
        Err(Refused::TooLarge) => Err(Refusal::TooLarge),
    }
}

fn resolve(
    run: &RunHandle,
    pid: Option<Pid>,
    tag: Tag,
    outcome: Resolve,
    id: Option<String>,
) -> Result<Carried, Refusal> {
    let uncertain = run.uncertain();
    let mut meant = uncertain.iter().filter(|call| call.tag == tag && pid.is_none_or(|pid| call.pid == pid));
    let count = uncertain.iter().filter(|call| call.tag == tag).count();
    let asker = match (meant.next(), meant.next()) {
        (Some(call), None) => call.pid,
        // A repeated act finds its call resolved; its id shows that it is the same.
        (None, _) if id.is_some() => pid.unwrap_or(Pid::ROOT),
        _ => return Err(Refusal::NoSuchCall { tag, count }),
    };
    match act(run, Act::Resolve { pid: asker, tag, resolution: outcome.into() }, id) {
        Err(Refusal::Ended) => Err(Refusal::NoSuchCall { tag, count }),
        acted => acted,
    }
}

/// Returns all unfinished runs in the order of their ids. Parked ones stay parked.
fn all(kernel: &Kernel) -> Vec<RunFacts> {
    let mut all: Vec<RunFacts> = kernel.runs().iter().map(|run| facts(kernel, run).0).collect();
    all.extend(kernel.parked().into_iter().map(|(run, parked)| RunFacts {
        run,
        host: std::process::id(),
        state: if parked.is_paused { RunState::Paused } else { RunState::Waiting },
        stalled: kernel.is_stalled(),
        processes: parked.processes as usize,
        uncertain: parked.uncertain as usize,
        counts: parked.counts,
    }));
    all.sort_by(|one, other| one.run.cmp(&other.run));
    // A run may have been parked in between.
    all.dedup_by(|one, other| one.run == other.run);
    all
}

/// Returns the facts of a run, and its processes.
fn facts(kernel: &Kernel, run: &RunHandle) -> (RunFacts, Vec<crate::run::ProcessStatus>) {
    let processes = run.processes();
    let is_busy = |doing| matches!(doing, Doing::Queued | Doing::Starting | Doing::Running | Doing::Cancelling);
    let state = if run.is_queued() {
        RunState::Queued
    } else if run.is_paused() {
        RunState::Paused
    } else if processes.iter().any(|process| is_busy(process.doing)) {
        RunState::Running
    } else {
        RunState::Waiting
    };
    let facts = RunFacts {
        run: Arc::clone(run.id()),
        host: std::process::id(),
        state,
        stalled: kernel.is_stalled(),
        processes: processes.iter().filter(|process| process.doing != Doing::Ended).count(),
        uncertain: run.uncertain().len(),
        counts: run.counts(),
    };
    (facts, processes)
}

/// What a run does at this moment.
pub(in crate::host) fn status(kernel: &Kernel, run: &RunHandle) -> RunStatus {
    let (facts, processes) = facts(kernel, run);
    RunStatus { facts, processes, uncertain: run.uncertain(), queries: run.queries(), signals: run.signals() }
}
