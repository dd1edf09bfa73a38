//! Commands that change a run: `cancel`, `pause`, `signal`, `resolve`. The host that runs it does what is asked, and answers when it is
//! durable.

use super::Exit;
use super::arguments::{Cancel, DataArguments, Pause, Resolve, Signal};
use super::data::{Runs, Whose};
use super::ls;
use super::refused::{Refused, Stop, kind};
use super::terminal::{Terminal, say};
use crate::host::control::{self, Answer, Client, ControlError, Refusal, Request};
use crate::journal::Stored;
use crate::process::Payload;
use serde_json::Value;
use std::time::Duration;

/// How often a run is looked for whose host ends, or has just begun.
const TRIES_MAX: u32 = 100;

/// How long to wait between.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);

pub(super) fn cancel(command: &Cancel, _: Terminal) -> Result<Exit, Stop> {
    let Cancel { run, reason, now, act } = command;
    let request = |run: &Stored| Request::Cancel {
        run: run.id.to_string(),
        reason: reason.clone(),
        now: *now,
        id: act.id.clone(),
    };
    done(&act.data, run, &request, |id| format!("{id} is asked to end"))
}

pub(super) fn pause(command: &Pause, _: Terminal) -> Result<Exit, Stop> {
    let Pause { run, act } = command;
    let request = |run: &Stored| Request::Pause { run: run.id.to_string(), id: act.id.clone() };
    done(&act.data, run, &request, |id| format!("{id} is paused; `wfhost resume {id}` lets it go on"))
}

pub(super) fn signal(command: &Signal, _: Terminal) -> Result<Exit, Stop> {
    let Signal { run, name, body, act } = command;
    let body = Payload::json(body.as_ref().unwrap_or(&Value::Null));
    let request = |run: &Stored| Request::Signal {
        run: run.id.to_string(),
        name: name.clone(),
        body: body.clone(),
        id: act.id.clone(),
    };
    done(&act.data, run, &request, |id| format!("{id} has the signal"))
}

pub(super) fn resolve(command: &Resolve, _: Terminal) -> Result<Exit, Stop> {
    let Resolve { run, call, completed, failed, again: _, act } = command;
    let outcome = match (completed, failed) {
        (Some(answer), _) => control::Resolve::Completed(Payload::json(answer)),
        (None, true) => control::Resolve::Failed,
        (None, false) => control::Resolve::Again,
    };
    let request = |run: &Stored| Request::Resolve {
        run: run.id.to_string(),
        pid: call.pid,
        tag: call.tag,
        outcome: outcome.clone(),
        id: act.id.clone(),
    };
    done(&act.data, run, &request, |id| format!("{id} has been told"))
}

/// Has something done, and says that it is.
fn done(
    data: &DataArguments,
    given: &str,
    request: &dyn Fn(&Stored) -> Request,
    says: impl FnOnce(&str) -> String,
) -> Result<Exit, Stop> {
    let (runs, stored) = data.find(given)?;
    let id = stored.id.to_string();
    match ask(&runs, stored, request)? {
        Answer::Done => say(&says(&id)),
        other => return Err(Refused::new(kind::HOST_FAULT, format!("the host gave another answer: {other:?}")).into()),
    }
    Ok(Exit::Success)
}

/// Asks the host that runs a run, as long as there is one. A host may end while it is asked, and a run may change hosts.
pub(super) fn ask(runs: &Runs, mut stored: Stored, request: &dyn Fn(&Stored) -> Request) -> Result<Answer, Stop> {
    let id = stored.id.to_string();
    for _ in 0..TRIES_MAX {
        match runs.whose(&stored)? {
            Whose::Over => return Err(over(&stored).into()),
            Whose::Nobody => return Err(nobody(&id).into()),
            Whose::Living(owner) => {
                if let Some(answer) = ask_one(&runs.hosts(&owner)?, &request(&stored))? {
                    return Ok(answer);
                }
            }
        }
        std::thread::sleep(TRY_AGAIN_AFTER);
        stored = runs.find(&id)?;
    }
    let refused = Refused::new(kind::HOST_FAULT, format!("the host that runs {id} does not listen"));
    Err(refused.hint(format!("`wfhost status {id}` tells which process it is")).into())
}

/// The answer of the host that runs it. None where none does any more.
fn ask_one(hosts: &[Client], request: &Request) -> Result<Option<Answer>, Stop> {
    for host in hosts {
        match host.ask(request.clone()) {
            Err(ControlError::Gone | ControlError::Refused(Refusal::UnknownRun { .. } | Refusal::Ended)) => {}
            answer => return Ok(Some(answer?)),
        }
    }
    Ok(None)
}

/// What is said where a run has ended.
pub(super) fn over(stored: &Stored) -> Refused {
    let status = ls::status(stored, &Whose::Over);
    Refused::new(kind::WRONG_STATE, format!("the run {} is over: {status}", stored.id))
        .hint(format!("`wfhost status {}` shows how it ended", stored.id))
}

/// What is said where nobody runs a run.
fn nobody(id: &str) -> Refused {
    Refused::new(kind::WRONG_STATE, format!("nobody runs {id}")).hint(format!("to take it up: wfhost resume {id}"))
}
