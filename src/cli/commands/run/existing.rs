//! `wfhost run --run-id` with the id of an existing run. If that run has the same workflow and
//! inputs, the command follows it, recovers it, or reports its end again. Otherwise it is a
//! conflict.

use crate::cli::args::host::HostArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::journal::{not_listening, recovery_error};
use crate::cli::store::{Ownership, Runs};
use crate::cli::watch::backlog::Backlog;
use crate::cli::watch::events::RemoteEvents;
use crate::cli::watch::session::{EndedRun, Session};
use crate::cli::watch::signals::Stage;
use crate::host::control::{Answer, Answers, Client};
use crate::host::{Host, Outcome, RecoverError, RunManifest, RunOptions, Status, StorageNotice, Workflow};
use crate::journal::StoreError;
use crate::process::Timestamp;
use serde_json::{Map, Value};
use std::time::Duration;

/// Attempts to reach the host of the run: hosts come and go, and a new one does not listen yet.
const TRIES_MAX: u32 = 200;

/// The pause between attempts.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// An existing run, and what `wfhost run` was given.
pub(in crate::cli) struct ExistingRun<'a> {
    pub(in crate::cli) host: &'a Host,
    pub(in crate::cli) workflow: &'a Workflow,
    /// As the workflow accepts them.
    pub(in crate::cli) inputs: Map<String, Value>,
    pub(in crate::cli) id: &'a str,
    pub(in crate::cli) arguments: &'a HostArguments,
}

impl ExistingRun<'_> {
    /// Continues with the existing run.
    pub(in crate::cli) fn continue_run(&self, runs: &Runs, session: &Session) -> Result<Exit, CommandError> {
        self.compare(&runs.manifest(self.id)?)?;
        for _ in 0..TRIES_MAX {
            let Some(stored) = runs.store.run(self.id)? else {
                return Err(UserError::new(kind::CONFLICT, format!("the run {} was removed", self.id)).into());
            };
            match runs.ownership(&stored)? {
                Ownership::Ended => {
                    let outcome = runs.projection(self.id)?.outcome(self.id);
                    let outcome = outcome
                        .ok_or_else(|| UserError::new(kind::JOURNAL, "the records do not say how the run ended"))?;
                    session.note(format!("the run {} has ended", self.id));
                    return Ok(self.report(runs, session, outcome));
                }
                Ownership::Orphaned => {
                    self.arguments.check_permissions(runs, self.id, &session.invocation)?;
                    let (watch, watcher) = session.watcher_of(self.host, self.id);
                    match self.host.recover(self.workflow, self.id, RunOptions { watcher, ..RunOptions::default() }) {
                        Ok(run) => {
                            session.note(if run.inner().is_paused() {
                                format!("the run {0} is paused; to resume it: wfhost resume {0}", self.id)
                            } else {
                                format!("the run {} is resumed", self.id)
                            });
                            return Ok(session.follow(self.host, self.workflow, &run, watch));
                        }
                        // Another host was quicker, or the run has just ended.
                        Err(RecoverError::Journal(StoreError::Owned { .. } | StoreError::Ended(_))) => {}
                        Err(error) => return Err(recovery_error(self.id, error).into()),
                    }
                }
                Ownership::Owned(owner) => {
                    // Ending this command ends nothing else.
                    session.signals.enter(Stage::Attached { run: self.id.to_owned(), process: owner.pid });
                    let watch = |host: &Client| Ok((host.clone(), host.watch(self.id)?));
                    if let Some((host, answers)) = runs.ask(&owner, watch)? {
                        if host.is_stalled() {
                            session.storage()(&StorageNotice::Full);
                        }
                        if let (Some(timeout), Some(left)) =
                            (session.invocation.timeout(), session.invocation.time_left())
                        {
                            self.stop_following(owner.pid, timeout, left, session)?;
                        }
                        return self.attach(runs, session, answers, owner.pid);
                    }
                }
            }
            std::thread::sleep(TRY_AGAIN_AFTER);
        }
        Err(not_listening(self.id).into())
    }

    /// Reports what differs from the existing run.
    fn compare(&self, there: &RunManifest) -> Result<(), UserError> {
        let here = RunManifest::new(self.workflow, &self.inputs);
        if here.start == there.start {
            return Ok(());
        }
        let component = || {
            let differs = |source: &&String| here.components.get(*source) != there.components.get(*source);
            here.components.keys().chain(there.components.keys()).find(differs)
        };
        let what = if here.source != there.source {
            format!("with another version of the workflow ({})", there.file)
        } else if let Some(source) = component() {
            format!("with another `{source}`")
        } else {
            "with other inputs".to_owned()
        };
        let refused = UserError::new(kind::CONFLICT, format!("a run {} already exists, {what}", self.id));
        Err(refused.hint(format!("another --run-id starts another run; `wfhost status {}` shows that one", self.id)))
    }

    /// Ends this command, and not the run, when the command's time is up: the run has the timeout
    /// that its own host was given.
    fn stop_following(
        &self,
        process: u32,
        timeout: Duration,
        left: Duration,
        session: &Session,
    ) -> std::io::Result<()> {
        let (signals, run) = (session.signals.clone(), self.id.to_owned());
        // It ends with this process, which ends with the run.
        let wait = move || {
            std::thread::sleep(left);
            signals.stop_following(&run, process, timeout);
        };
        std::thread::Builder::new().name("timeout".to_owned()).spawn(wait).map(|_| ())
    }

    /// Follows a run that another process runs.
    fn attach(&self, runs: &Runs, session: &Session, answers: Answers, process: u32) -> Result<Exit, CommandError> {
        session.note(format!("the run {} is running in process {process}", self.id));
        session.signals.enter(Stage::Attached { run: self.id.to_owned(), process });
        let (remote, events) = RemoteEvents::new();
        let show = |remote, records| {
            if let Some(follower) = &session.follower {
                // If the backlog cannot be read, new events still show.
                let created = runs.find(self.id).map_or(Timestamp(0), |stored| stored.created);
                let backlog = runs
                    .records(self.id, records)
                    .map_or_else(|_| Backlog::default(), |all| Backlog::of(&all, created));
                follower.follow_remote(
                    remote,
                    self.workflow,
                    backlog,
                    session.invocation.for_stored_run("signal", self.id),
                );
            }
        };
        // A run that had ended by then sends no events: all of it is recorded when its outcome
        // arrives.
        let before = answers.records();
        let unseen = if before > 0 {
            show(remote, Some(before));
            None
        } else {
            Some(remote)
        };
        let mut outcome = None;
        for answer in answers {
            match answer? {
                Answer::Event(event) => events.send(event),
                Answer::Dropped(count) => events.dropped(count),
                Answer::Ended(ended) => outcome = Some(*ended),
                _ => {}
            }
        }
        drop(events);
        if let Some(remote) = unseen {
            show(remote, None);
        }
        let is_late = outcome.as_ref().is_some_and(|outcome| outcome.status == Status::TimedOut);
        session.signals.enter(Stage::Ended { late: is_late });
        if outcome.is_none() {
            // The process may have ended before it could report.
            let ended = runs.find(self.id)?.status.is_some();
            outcome = if ended { runs.projection(self.id)?.outcome(self.id) } else { None };
        }
        match outcome {
            Some(outcome) => Ok(self.report(runs, session, outcome)),
            None => {
                let refused =
                    UserError::new(kind::WRONG_STATE, format!("process {process} ended before the run {}", self.id));
                Err(refused.suspended().hint(format!("to resume it: wfhost resume {}", self.id)).into())
            }
        }
    }

    fn report(&self, runs: &Runs, session: &Session, outcome: Outcome) -> Exit {
        session.report(self.host, &EndedRun::of(outcome, runs), self.workflow)
    }
}
