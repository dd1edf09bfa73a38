//! How far a job is.

use super::{Kind, Stored};
use crate::journal::catalog::JobStatus;
use crate::serve::access::Caller;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often the report of a job is stored while it is worked on.
const STORED_EVERY: Duration = Duration::from_secs(1);

/// Why the work on a job ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::serve) enum Worked {
    /// Everything was done.
    Done,
    /// Somebody stopped it.
    Cancelled,
    /// The service ends: the next one continues.
    Interrupted,
}

/// A job that is worked on.
pub(in crate::serve) struct Progress {
    pub(in crate::serve) service: Arc<Service>,
    /// For whom it acts.
    token: String,
    pub(in crate::serve) id: String,
    /// What is to be done.
    body: Value,
    /// What was done: what an earlier service has stored, at first; null if that is nothing.
    pub(in crate::serve) report: Value,
    stop: watch::Receiver<bool>,
    stored: Instant,
}

impl Progress {
    /// Reads a job. `None` if it has ended, or this release does not know its kind.
    pub(super) async fn of(
        service: &Arc<Service>,
        id: &str,
        stop: watch::Receiver<bool>,
    ) -> Answered<Option<(Kind, Self)>> {
        let job = id.to_owned();
        let job = service.with_store(move |service| Ok(service.store.job(&job)?)).await?;
        let Some(job) = job.filter(|job| job.status == JobStatus::Open && job.ended.is_none()) else {
            return Ok(None);
        };
        let Some(kind) = Kind::named(&job.kind) else {
            tracing::error!(job = id, kind = job.kind, "this release does not know such jobs");
            return Ok(None);
        };
        let Stored { token, body, .. } = serde_json::from_str(&job.request).map_err(|error| unreadable(&error))?;
        let report = job.report.as_deref().and_then(|report| serde_json::from_str(report).ok());
        let progress = Self {
            service: Arc::clone(service),
            token,
            id: job.id,
            body,
            report: report.unwrap_or_default(),
            stop,
            stored: Instant::now(),
        };
        Ok(Some((kind, progress)))
    }

    /// What is to be done.
    pub(in crate::serve) fn body<T: DeserializeOwned>(&self) -> Answered<T> {
        serde_json::from_value(self.body.clone()).map_err(|error| unreadable(&error))
    }

    /// For whom it acts, as long as the token is valid.
    pub(in crate::serve) async fn caller(&self) -> Answered<Caller> {
        let token = self.token.clone();
        let caller = self.service.with_store(move |service| Ok(service.tokens.caller_of(&token)?)).await?;
        caller.ok_or_else(|| {
            ServeProblem::new(ProblemKind::Unauthenticated).detail("the token that asked for the job is not valid")
        })
    }

    /// Why the work must end now, if it must.
    pub(in crate::serve) fn stops(&self) -> Option<Worked> {
        if *self.stop.borrow() {
            return Some(Worked::Cancelled);
        }
        self.service.is_draining().then_some(Worked::Interrupted)
    }

    /// Tells from any thread whether the work may go on.
    pub(in crate::serve) fn goes_on(&self) -> impl Fn() -> bool + Send + use<> {
        let (stop, service) = (self.stop.clone(), Arc::clone(&self.service));
        move || !*stop.borrow() && !service.is_draining()
    }

    /// Stores the report, if that was not done a moment ago.
    pub(in crate::serve) async fn store(&mut self, report: impl FnOnce() -> Value) -> Answered<()> {
        if self.stored.elapsed() < STORED_EVERY {
            return Ok(());
        }
        let (id, report) = (self.id.clone(), report().to_string());
        let written = self
            .service
            .with_store(move |service| Ok(service.store.write_job(&id, JobStatus::Open, None, Some(&report))?));
        written.await?;
        self.stored = Instant::now();
        Ok(())
    }
}

fn unreadable(error: &serde_json::Error) -> ServeProblem {
    ServeProblem::new(ProblemKind::HostFault).detail(format!("the request of the job cannot be read: {error}"))
}
