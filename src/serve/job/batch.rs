//! One act on many runs.

use super::{Progress, Worked};
use crate::host::Acted;
use crate::process::{Micros, Payload};
use crate::run::Act;
use crate::serve::access::{Caller, Scope};
use crate::serve::api::acts::act_problem;
use crate::serve::api::reruns::{RetryRun, retry_now};
use crate::serve::api::runs::{check_room, remove_now};
use crate::serve::api::upgrades::upgrade_now;
use crate::serve::idempotency::derived;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs that are acted on at one time.
const AT_ONCE: usize = 16;

/// Runs of a batch.
pub(in crate::serve) const RUNS_MAX: usize = 10_000;

/// What is done to each run of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::serve) enum BatchAct {
    Cancel { reason: String, grace: Option<u64> },
    Pause,
    Resume,
    Signal { name: String, body: Value },
    Retry { from: Option<String>, version: Option<u64> },
    Upgrade { version: u64 },
    Remove,
}

/// What is to be done: the runs are decided when the batch is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::serve) struct Batch {
    pub(in crate::serve) act: BatchAct,
    pub(in crate::serve) runs: Vec<String>,
    /// Whether more runs fit the filter than a batch may have.
    pub(in crate::serve) more: bool,
}

/// What came of an act on one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::serve) struct RunOutcome {
    /// The run.
    pub(in crate::serve) run: String,
    /// `recorded`, `left`, `duplicate`, `retried`, `upgraded`, `unchanged`, `removed` or `refused`.
    pub(in crate::serve) outcome: String,
    /// The new run, if it was retried.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::serve) new: Option<String>,
    /// Why it was refused: the kind of the problem.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::serve) kind: Option<String>,
    /// Why it was refused, in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::serve) detail: Option<String>,
}

/// The report of a batch.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::serve) struct BatchReport {
    /// How many runs there are.
    pub(in crate::serve) total: usize,
    /// How many outcomes there are of each kind.
    pub(in crate::serve) counts: BTreeMap<String, usize>,
    /// Whether more runs fit the filter: another batch takes the next.
    pub(in crate::serve) more: bool,
    /// The outcomes so far, in the order of the runs.
    pub(in crate::serve) outcomes: Vec<RunOutcome>,
}

/// Works on a batch.
pub(super) async fn work(progress: &mut Progress) -> Answered<Worked> {
    let batch: Batch = progress.body()?;
    let mut report: BatchReport = serde_json::from_value(progress.report.take()).unwrap_or_default();
    (report.total, report.more) = (batch.runs.len(), batch.more);
    let done = report.outcomes.len();
    let act = Arc::new(batch.act);
    for runs in batch.runs[done.min(batch.runs.len())..].chunks(AT_ONCE) {
        if let Some(stopped) = progress.stops() {
            progress.report = serde_json::json!(report);
            return Ok(stopped);
        }
        let caller = match progress.caller().await {
            Ok(caller) => caller,
            Err(problem) => {
                progress.report = serde_json::json!(report);
                return Err(problem);
            }
        };
        let acting: Vec<_> = runs.iter().map(|run| acts(progress, &caller, &act, run)).collect();
        let mut is_interrupted = false;
        for (run, acting) in runs.iter().zip(acting) {
            let outcome = acting.await.unwrap_or_else(|_| Err(ServeProblem::new(ProblemKind::HostFault)));
            // What comes after one that is done again is done again too, under the same keys.
            // While the server stops, a refusal may be for that.
            is_interrupted |= outcome
                .as_ref()
                .is_err_and(|problem| problem.kind == ProblemKind::Draining.word() || progress.service.is_draining());
            if !is_interrupted {
                let outcome = outcome.unwrap_or_else(|problem| refused(run, problem));
                *report.counts.entry(outcome.outcome.clone()).or_default() += 1;
                report.outcomes.push(outcome);
            }
        }
        if is_interrupted {
            progress.report = serde_json::json!(report);
            return Ok(Worked::Interrupted);
        }
        progress.store(|| serde_json::json!(report)).await?;
    }
    progress.report = serde_json::json!(report);
    Ok(Worked::Done)
}

fn refused(run: &str, problem: ServeProblem) -> RunOutcome {
    let mut why: Vec<String> = problem.detail.into_iter().collect();
    why.extend(problem.errors.into_iter().map(|part| part.message));
    RunOutcome {
        run: run.to_owned(),
        outcome: "refused".to_owned(),
        new: None,
        kind: Some(problem.kind),
        detail: Some(if why.is_empty() { problem.title } else { why.join("; ") }),
    }
}

/// Acts on one run, on a task of its own.
fn acts(
    progress: &Progress,
    caller: &Caller,
    act: &Arc<BatchAct>,
    run: &str,
) -> tokio::task::JoinHandle<Answered<RunOutcome>> {
    let (service, caller, act) = (Arc::clone(&progress.service), caller.clone(), Arc::clone(act));
    let (job, run) = (progress.id.clone(), run.to_owned());
    tokio::spawn(async move {
        // Steps are executed again for it, as many at one time as for others.
        let _turn = match &*act {
            BatchAct::Upgrade { .. } => Arc::clone(&service.replays).acquire_owned().await.ok(),
            _ => None,
        };
        service.with_store(move |service| act_on(service, &caller, &job, &act, run)).await
    })
}

fn act_on(service: &Service, caller: &Caller, job: &str, act: &BatchAct, run: String) -> Answered<RunOutcome> {
    let act = match act {
        BatchAct::Cancel { reason, grace } => Act::Cancel { reason: reason.as_str().into(), grace: grace.map(Micros) },
        BatchAct::Pause => Act::Pause,
        BatchAct::Resume => Act::Resume,
        BatchAct::Signal { name, body } => Act::Signal { name: name.as_str().into(), body: Payload::json(body) },
        BatchAct::Retry { from, version } => {
            check_room(service)?;
            let body = RetryRun { from: from.clone(), version: *version, ..RetryRun::default() };
            let begun = retry_now(service, caller, &run, Some(job), body)?;
            begun.is_durable(service)?;
            return Ok(outcome(run, "retried", Some(begun.id)));
        }
        BatchAct::Upgrade { version } => {
            caller.check(Scope::Deploy)?;
            let upgraded = upgrade_now(service, caller, &run, *version)?;
            return Ok(outcome(run, &upgraded.outcome, None));
        }
        BatchAct::Remove => {
            remove_now(service, caller, &run)?;
            return Ok(outcome(run, "removed", None));
        }
    };
    service.run_for(caller, &run)?;
    let key = derived('a', &["batch", job, &run]);
    let word = match service.host.act(&run, &act, Some(&key)).map_err(act_problem)? {
        Acted::Recorded => "recorded",
        Acted::Stored => "left",
        Acted::Duplicate => "duplicate",
    };
    Ok(outcome(run, word, None))
}

fn outcome(run: String, outcome: &str, new: Option<String>) -> RunOutcome {
    RunOutcome { run, outcome: outcome.to_owned(), new, kind: None, detail: None }
}
