//! Commands that change a run: `cancel`, `pause`, `signal`, `resolve`. The host that runs it does
//! what is asked, and answers when it is durable. For a run that nobody runs it is written down,
//! and done when the run is taken up; a cancel of it ends it here. Each act has an id, so that it
//! is done once even where a host ends in the middle of it and another is asked.

use crate::cli::Exit;
use crate::cli::args::{ActArguments, Cancel, DataArguments, Pause, Resolve, Signal};
use crate::cli::commands::ls;
use crate::cli::commands::unclaimed_signal::unheard;
use crate::cli::commands::validate::NO_SLOTS;
use crate::cli::report::error::{Refused, Stop, kind};
use crate::cli::report::pending_acts::Left;
use crate::cli::report::unresponsive::may_be_done;
use crate::cli::store::{Runs, Whose, not_listening, refused_of};
use crate::cli::terminal::{Terminal, say};
use crate::guest::EngineOptions;
use crate::host::Host;
use crate::host::control::{self, Answer, ControlError, Refusal, Request};
use crate::journal::{Journal as _, MAIL_BYTES_MAX, Posted, Stored};
use crate::process::Payload;
use crate::run::Act;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// How often a run is looked for whose host ends, or has just begun.
const TRIES_MAX: u32 = 100;

/// How long to wait between.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);

pub(in crate::cli) fn cancel(command: &Cancel, terminal: Terminal) -> Result<Exit, Stop> {
    let Cancel { run, reason, now, act } = command;
    let id = act.id();
    let request = |run: &Stored| Request::Cancel {
        run: run.id.to_string(),
        reason: reason.clone(),
        now: *now,
        id: Some(id.clone()),
    };
    let (runs, stored) = act.data.find(run)?;
    let id = stored.id.to_string();
    if answered(ask(&runs, stored, &request)?)? {
        say(&format!("{id} is {}", if *now { "ended" } else { "asked to end" }));
        return Ok(Exit::Success);
    }
    // Its host has its own.
    let folder = runs.folder.clone();
    drop(runs);
    let ended = end(folder, &id, reason);
    let (runs, stored) = act.data.find(&id)?;
    match (ended, stored.status) {
        (_, Some(status)) => {
            say(&format!("{id} is {}: nobody ran it, and no step of it was run for that", status.name()));
        }
        (Err(why), None) if runs.whose(&stored)? == Whose::Nobody => {
            say(&terminal.warning_text(&format!("{id} cannot be ended: {}", why.title), why.hint.as_deref()));
            say(&to_be_done(&id));
        }
        // Somebody was quicker to take it up, and does it.
        (_, None) => say(&format!("{id} is asked to end")),
    }
    let given_up = if stored.status.is_some() { runs.story(&id)?.given_up().len() } else { 0 };
    let title = match given_up {
        0 => return Ok(Exit::Success),
        1 => "1 call may have happened: the run ended before its outcome was known".to_owned(),
        more => format!("{more} calls may have happened: the run ended before their outcomes were known"),
    };
    say(&terminal.warning_text(&title, Some(&format!("`wfhost status {id}` lists them"))));
    Ok(Exit::Success)
}

/// Ends a run that nobody runs, and waits until that is durable. Nothing of it is loaded or run.
fn end(folder: PathBuf, id: &str, reason: &str) -> Result<(), Refused> {
    let host = Host::builder().guests(EngineOptions { slots: Some(NO_SLOTS), ..Default::default() });
    let host = host.data(folder).workers(1).build()?;
    let ended = host.end(id, reason).map(|run| drop(run.wait()));
    host.leave_folder();
    ended.map_err(|error| refused_of(id, error))
}

pub(in crate::cli) fn pause(command: &Pause, _: Terminal) -> Result<Exit, Stop> {
    let Pause { run, act } = command;
    let id = act.id();
    let request = |run: &Stored| Request::Pause { run: run.id.to_string(), id: Some(id.clone()) };
    let go_on = |id: &str| format!("`wfhost resume {id}` resumes it");
    let left = |id: &str| format!("nobody runs {id}, and now `wfhost resume --all` leaves it alone; {}", go_on(id));
    done_or_left(&act.data, run, &request, |id| format!("{id} is paused; {}", go_on(id)), left)
}

pub(in crate::cli) fn signal(command: &Signal, terminal: Terminal) -> Result<Exit, Stop> {
    let Signal { run, name, body, act } = command;
    let id = act.id();
    let body = Payload::json(body.as_ref().unwrap_or(&Value::Null));
    let request = |run: &Stored| Request::Signal {
        run: run.id.to_string(),
        name: name.clone(),
        body: body.clone(),
        id: Some(id.clone()),
    };
    let exit = done(&act.data, run, &request, |id| format!("{id} has the signal"))?;
    if let Some(waited) = unheard(&act.data, run, name)? {
        let waits = match &waited[..] {
            [] => "it waits for no signal".to_owned(),
            names => format!("the run waits for: {}", names.join(", ")),
        };
        let title = format!("nothing waits for {name} now; {waits}");
        say(&terminal.warning_text(&title, Some("the signal is kept until something does")));
    }
    Ok(exit)
}

pub(in crate::cli) fn resolve(command: &Resolve, _: Terminal) -> Result<Exit, Stop> {
    let Resolve { run, call, completed, failed, again: _, act } = command;
    let id = act.id();
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
        id: Some(id.clone()),
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
    done_or_left(data, given, request, says, to_be_done)
}

/// What is said of an act that waits for whoever runs the run.
fn to_be_done(id: &str) -> String {
    format!("nobody runs {id}: it is kept until somebody does (wfhost resume {id})")
}

/// Has something done, and says that it is, or what becomes of it where nobody runs the run.
fn done_or_left(
    data: &DataArguments,
    given: &str,
    request: &dyn Fn(&Stored) -> Request,
    says: impl FnOnce(&str) -> String,
    left: impl FnOnce(&str) -> String,
) -> Result<Exit, Stop> {
    let (runs, stored) = data.find(given)?;
    let id = stored.id.to_string();
    let is_done = answered(ask(&runs, stored, request)?)?;
    say(&if is_done { says(&id) } else { left(&id) });
    Ok(Exit::Success)
}

/// Whether a host did what was asked. False: nobody runs the run, and it is left for whoever does.
fn answered(asked: Asked) -> Result<bool, Stop> {
    match asked {
        Asked::Answered(Answer::Done) => Ok(true),
        Asked::Answered(other) => {
            Err(Refused::new(kind::HOST_FAULT, format!("the host gave another answer: {other:?}")).into())
        }
        Asked::Left => Ok(false),
        Asked::Silent(_) => unreachable!("invariant: only questions are not waited for"),
    }
}

/// What became of a request.
pub(in crate::cli) enum Asked {
    /// The host that runs the run answered.
    Answered(Answer),
    /// Nobody runs it, and it is left for whoever takes the run up.
    Left,
    /// The process that runs it does not tell what was asked.
    Silent(u32),
}

/// Asks the host that runs a run, as long as there is one, else leaves it for the run. A host may end while it is asked, and a run may change
/// hosts.
pub(in crate::cli) fn ask(
    runs: &Runs,
    mut stored: Stored,
    request: &dyn Fn(&Stored) -> Request,
) -> Result<Asked, Stop> {
    let id = stored.id.to_string();
    let mut was_asked = false;
    for _ in 0..TRIES_MAX {
        match runs.whose(&stored)? {
            // A host that ends with its run may end before it answers.
            Whose::Over if was_asked && is_known(runs, &id, &request(&stored))? => {
                return Ok(Asked::Answered(Answer::Done));
            }
            Whose::Over => return Err(over(&stored).into()),
            Whose::Nobody => {
                if leave(runs, &id, request(&stored))? {
                    return Ok(Asked::Left);
                }
            }
            Whose::Living(owner) => {
                let asked = runs.ask(&owner, |host| host.ask(request(&stored)));
                match asked {
                    Ok(Some(answer)) => return Ok(Asked::Answered(answer)),
                    Ok(None) => {}
                    Err(ControlError::Silent { .. }) if matches!(request(&stored), Request::Query { .. }) => {
                        return Ok(Asked::Silent(owner.pid));
                    }
                    Err(error) => return Err(may_be_done(error, owner.pid, &id, request(&stored).id()).into()),
                }
                was_asked = true;
            }
        }
        std::thread::sleep(TRY_AGAIN_AFTER);
        stored = runs.find(&id)?;
    }
    Err(not_listening(&id).into())
}

/// Whether a run that is over has taken the act.
fn is_known(runs: &Runs, id: &str, request: &Request) -> Result<bool, Stop> {
    let (Some(act), Some(act_id)) = (request.act(), request.id()) else { return Ok(false) };
    Ok(runs.store.post(id, &act.to_mail(act_id))? == Posted::Duplicate)
}

/// Leaves an act for a run that nobody runs. False: somebody does by now.
fn leave(runs: &Runs, id: &str, mut request: Request) -> Result<bool, Stop> {
    if let Request::Resolve { pid: pid @ None, tag, .. } = &mut request {
        let story = runs.story(id)?;
        let mut meant = story.calls().filter(|(_, other)| other == tag);
        *pid = match (meant.next(), meant.next()) {
            (Some((pid, _)), None) => Some(pid),
            (first, _) => {
                let count = if first.is_some() { story.calls().filter(|(_, other)| other == tag).count() } else { 0 };
                return Err(ControlError::Refused(Refusal::NoSuchCall { tag: *tag, count }).into());
            }
        };
    }
    let (Some(act), Some(act_id)) = (request.act(), request.id()) else { return Err(nobody(id).into()) };
    if let Some(earlier) = resolved(runs, id, &act)? {
        if earlier.is_act(&act) {
            return Ok(true);
        }
        let title = format!("it is resolved already: `{}`, kept for the run", earlier.outcome().unwrap_or_default());
        let hint =
            format!("`wfhost status {id}` shows what is kept; it is done when the run is taken up: wfhost resume {id}");
        return Err(Refused::new(kind::CONFLICT, title).hint(hint).into());
    }
    let mail = act.to_mail(act_id);
    if mail.body.len() > MAIL_BYTES_MAX as usize {
        let most = MAIL_BYTES_MAX >> 20;
        let refused =
            Refused::new(kind::USAGE, format!("it is too large: {} bytes, and {most} MiB may be", mail.body.len()));
        return Err(refused.hint("put what is large where a step can get it, and send its address").into());
    }
    match runs.store.post(id, &mail)? {
        Posted::Stored | Posted::Duplicate => Ok(true),
        // The next look tells which.
        Posted::Owned(_) | Posted::Ended | Posted::Unknown => Ok(false),
        Posted::Conflict => Err(ControlError::Refused(Refusal::Conflict { id: act_id.to_owned() }).into()),
        Posted::Full => {
            let refused = Refused::new(kind::WRONG_STATE, format!("as much is left for {id} as may be"));
            Err(refused.hint(format!("to resume it: wfhost resume {id}")).into())
        }
    }
}

/// What is left for a run and says already what became of the call that an act is about.
fn resolved(runs: &Runs, id: &str, act: &Act) -> Result<Option<Left>, Stop> {
    let Act::Resolve { pid, tag, .. } = act else { return Ok(None) };
    let left = runs.store.inbox_of(id)?;
    Ok(left.iter().map(Left::from).find(|left| left.resolves() == Some((*pid, *tag))))
}

impl ActArguments {
    /// The id of the act: the one that is given, or a fresh one.
    fn id(&self) -> String {
        self.id.clone().unwrap_or_else(|| {
            let mut random = [0; 16];
            getrandom::fill(&mut random)
                .expect("invariant: every system that is supported has a source of random bytes");
            format!("act-{:032x}", u128::from_le_bytes(random))
        })
    }
}

/// What is said where a run has ended.
pub(in crate::cli) fn over(stored: &Stored) -> Refused {
    let status = ls::status(stored, &Whose::Over);
    Refused::new(kind::WRONG_STATE, format!("the run {} is over: {status}", stored.id))
        .hint(format!("`wfhost status {}` shows how it ended", stored.id))
}

/// How to go on with a run that did not succeed.
pub(in crate::cli) fn to_retry(id: &str) -> String {
    format!("to run again what did not succeed: wfhost retry {id}")
}

/// What is said where nobody runs a run.
fn nobody(id: &str) -> Refused {
    Refused::new(kind::WRONG_STATE, format!("nobody runs {id}")).hint(format!("to resume it: wfhost resume {id}"))
}
