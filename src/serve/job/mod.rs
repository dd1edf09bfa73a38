//! Jobs: work that takes longer than a request.
//!
//! A request adds the row of a job and is answered; a task does the work, and stores how far it is.
//! When the service ends in between, the next one continues: the row has the request, and the
//! report of what was done.
//!
//! - **I1** What a job does to a run is idempotent: it may be done again after a crash, under the
//!   same id, and counts once.
//! - **I2** A job acts for the token that asked for it: when the token is revoked, it ends.
//! - **I3** A report that says that something was done is written after that is durable.
//!
//! A new kind of job is a word and a function in [`Kind`].

mod batch;
mod check;
mod progress;

pub(in crate::serve) use batch::{Batch, BatchAct, RUNS_MAX};
pub(in crate::serve) use check::{CHECKED_MAX, Check, differs};
pub(in crate::serve) use progress::{Progress, Worked};

use super::access::Caller;
use super::problem::{Answered, ProblemKind, ServeProblem};
use super::service::Service;
use crate::journal::catalog::{Job, JobStatus};
use crate::run::system_time;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// Jobs that are worked on at one time; others wait.
const WORKING_MAX: usize = 2;

/// Jobs that have not ended. More are refused.
const OPEN_MAX: usize = 100;

/// Ended jobs that are kept.
const ENDED_MAX: u32 = 1_000;

/// What kind of work a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::serve) enum Kind {
    /// One act on many runs.
    Batch,
    /// Runs that are replayed on a version.
    Check,
}

impl Kind {
    const ALL: &[Self] = &[Self::Batch, Self::Check];

    /// The word for it.
    pub(in crate::serve) fn word(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Check => "check",
        }
    }

    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.word() == word)
    }

    async fn work(self, progress: &mut Progress) -> Answered<Worked> {
        match self {
            Self::Batch => batch::work(progress).await,
            Self::Check => check::work(progress).await,
        }
    }
}

/// What the row of a job has of its request.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// The id of the token that asked for it.
    token: String,
    /// Tells the same request again from another.
    digest: String,
    /// What is to be done.
    body: Value,
}

/// The jobs that this service works on.
pub(in crate::serve) struct Working {
    turns: Arc<Semaphore>,
    /// Those that wait or are worked on; true stops one.
    open: Mutex<HashMap<String, watch::Sender<bool>>>,
    /// How many have ended: waiters look again when it changes.
    ended: watch::Sender<u64>,
}

impl Default for Working {
    fn default() -> Self {
        let turns = Arc::new(Semaphore::new(WORKING_MAX));
        Self { turns, open: Mutex::default(), ended: watch::channel(0).0 }
    }
}

impl Working {
    /// Changes whenever a job ends.
    pub(in crate::serve) fn watch(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    /// Takes all turns: no job begins while they are held.
    #[cfg(test)]
    pub(in crate::serve) async fn all_turns(&self) -> tokio::sync::OwnedSemaphorePermit {
        let count = u32::try_from(WORKING_MAX).expect("a small number");
        Arc::clone(&self.turns).acquire_many_owned(count).await.expect("the turns are never closed")
    }

    /// Asks an open job to stop. Returns false if this service has none with this id.
    pub(in crate::serve) fn stop(&self, id: &str) -> bool {
        self.open.lock().get(id).is_some_and(|stop| stop.send(true).is_ok())
    }
}

impl Service {
    /// Adds a job for a caller and begins it. Returns its id, and whether it was there before:
    /// the same request under the same id is the same job.
    pub(in crate::serve) fn begin_job(
        self: &Arc<Self>,
        caller: &Caller,
        kind: Kind,
        id: Option<String>,
        body: Value,
        digest: String,
    ) -> Answered<(String, bool)> {
        if let Some(before) = id.as_deref().map(|id| self.store.job(id)).transpose()?.flatten() {
            return same(&before, &digest).map(|()| (before.id, true));
        }
        if self.store.open_jobs()?.len() >= OPEN_MAX {
            let detail = format!("{OPEN_MAX} jobs have not ended");
            return Err(ServeProblem::new(ProblemKind::TooManyWaits).detail(detail).retry_after(10));
        }
        let request = Stored { token: caller.token().to_owned(), digest: digest.clone(), body };
        let job = Job {
            id: id.unwrap_or_else(|| format!("j{}", super::server::request_id())),
            kind: kind.word().to_owned(),
            status: JobStatus::Open,
            created: system_time(),
            ended: None,
            author: caller.name().to_owned(),
            request: serde_json::json!(request).to_string(),
            report: None,
        };
        if !self.store.add_job(&job, ENDED_MAX)? {
            // A twin of this request was faster.
            let before = self.store.job(&job.id)?.ok_or_else(|| ServeProblem::new(ProblemKind::HostFault))?;
            return same(&before, &digest).map(|()| (before.id, true));
        }
        self.work_on(&job.id);
        Ok((job.id, false))
    }

    /// Continues the jobs that an earlier service has not ended. Call it once, on a runtime.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn resume_jobs(self: &Arc<Self>) -> Result<(), crate::journal::StoreError> {
        for id in self.store.open_jobs()? {
            self.work_on(&id);
        }
        Ok(())
    }

    /// Waits until it works on no job any more, when it is draining.
    pub(in crate::serve) async fn jobs_ended(&self) {
        let mut ended = self.jobs.watch();
        let _ = ended.wait_for(|_| self.jobs.open.lock().is_empty()).await;
    }

    /// Works on a job on a task of its own, when it is its turn.
    fn work_on(self: &Arc<Self>, id: &str) {
        let (stop, stopped) = watch::channel(false);
        if self.jobs.open.lock().insert(id.to_owned(), stop).is_some() {
            return;
        }
        let (service, id) = (Arc::clone(self), id.to_owned());
        tokio::spawn(async move {
            let turn = Arc::clone(&service.jobs.turns);
            tokio::select! {
                turn = turn.acquire_owned() => {
                    let _turn = turn;
                    work(&service, &id, stopped).await;
                }
                () = service.drained() => {}
            }
            service.jobs.open.lock().remove(&id);
            service.jobs.ended.send_modify(|ended| *ended += 1);
        });
    }
}

fn same(before: &Job, digest: &str) -> Answered<()> {
    let is_same = serde_json::from_str::<Stored>(&before.request).is_ok_and(|request| request.digest == digest);
    if is_same {
        return Ok(());
    }
    Err(ServeProblem::new(ProblemKind::KeyReused).detail(format!("the job is `{}`", before.id)))
}

/// Works on a job, and stores its end, unless the service ends first.
async fn work(service: &Arc<Service>, id: &str, stop: watch::Receiver<bool>) {
    let worked = match Progress::of(service, id, stop).await {
        Ok(None) => return,
        Ok(Some((kind, mut progress))) => {
            let worked = kind.work(&mut progress).await;
            (worked, progress.report)
        }
        Err(problem) => (Err(problem), Value::Null),
    };
    let (status, mut report) = match worked {
        (Ok(Worked::Done), report) => (JobStatus::Done, report),
        (Ok(Worked::Cancelled), report) => (JobStatus::Cancelled, report),
        (Ok(Worked::Interrupted), report) => (JobStatus::Open, report),
        (Err(problem), mut report) => {
            tracing::warn!(job = id, problem = problem.detail, "a job has failed");
            if !report.is_object() {
                report = serde_json::json!({});
            }
            report["problem"] = serde_json::json!(problem);
            (JobStatus::Failed, report)
        }
    };
    let ended = (status != JobStatus::Open).then(system_time);
    let (job, text) = (id.to_owned(), report.take().to_string());
    let written = service.with_store(move |service| Ok(service.store.write_job(&job, status, ended, Some(&text))?));
    if let Err(problem) = written.await {
        tracing::error!(job = id, problem = problem.detail, "the end of a job is not stored: it is done again");
    }
}
