//! What `cancel`, `pause`, `signal` and `resolve` share. The host of the run carries out the
//! request and answers once that is durable. For a run that is not running the request is stored in
//! the run's inbox and takes effect when the run is recovered; `cancel` ends such a run here. Each
//! act has an id, so that it takes effect once even if a host ends in the middle of it and another
//! is asked.

use crate::cli::args::act::ActArguments;
use crate::cli::commands::listing::status_name;
use crate::cli::commands::target::Acted;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::journal::not_listening;
use crate::cli::report::pending_acts::PendingAct;
use crate::cli::report::unresponsive::uncertain_act;
use crate::cli::store::{Ownership, Runs};
use crate::cli::terminal::say;
use crate::host::control::{Answer, ControlError, Refusal, Request};
use crate::journal::{MAIL_BYTES_MAX, Posted, Stored};
use crate::run::Act;
use std::time::Duration;

/// Attempts to reach the host of a run, which may be ending or starting.
const TRIES_MAX: u32 = 100;

/// The pause between attempts.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Carries out a request and reports it.
pub(in crate::cli) fn perform(
    act: &ActArguments,
    given: &str,
    request: &dyn Fn(&str) -> Request,
    says: impl FnOnce(&str) -> String,
) -> Result<Exit, CommandError> {
    let Acted { run, is_done } = act.target.open()?.act(given, request)?;
    say(&if is_done { says(&run) } else { pending_note(&run) });
    Ok(Exit::Success)
}

/// The message about an act that is stored for a run.
pub(in crate::cli) fn pending_note(id: &str) -> String {
    format!("{id} is not running: this is stored until it is resumed (wfhost resume {id})")
}

/// Returns whether a host carried out the request; otherwise it is stored for the run.
pub(in crate::cli) fn was_performed(asked: RequestOutcome) -> Result<bool, CommandError> {
    match asked {
        RequestOutcome::Answered(Answer::Done) => Ok(true),
        RequestOutcome::Answered(other) => {
            Err(UserError::new(kind::HOST_FAULT, format!("the host gave an unexpected answer: {other:?}")).into())
        }
        RequestOutcome::Posted => Ok(false),
        RequestOutcome::Silent(_) => unreachable!("invariant: only questions are not waited for"),
    }
}

/// The outcome of a request.
pub(in crate::cli) enum RequestOutcome {
    /// The host of the run answered.
    Answered(Answer),
    /// The run is not running, and the request is stored in its inbox.
    Posted,
    /// The host of the run does not answer: this process.
    Silent(u32),
}

/// Asks the host of a run, if it has one, and otherwise stores the request for the run. A host may
/// end while it is asked, and a run may change hosts.
pub(in crate::cli) fn ask(
    runs: &Runs,
    mut stored: Stored,
    request: &dyn Fn(&str) -> Request,
) -> Result<RequestOutcome, CommandError> {
    let id = stored.id.to_string();
    let mut was_asked = false;
    for _ in 0..TRIES_MAX {
        match runs.ownership(&stored)? {
            // A host that ends with its run may end before it answers.
            Ownership::Ended if was_asked && was_recorded(runs, &id, &request(&id))? => {
                return Ok(RequestOutcome::Answered(Answer::Done));
            }
            Ownership::Ended => return Err(ended_error(&stored).into()),
            Ownership::Orphaned => {
                if post(runs, &id, request(&id))? {
                    return Ok(RequestOutcome::Posted);
                }
            }
            Ownership::Owned(owner) => {
                let asked = runs.ask(&owner, |host| host.ask(request(&id)));
                match asked {
                    Ok(Some(answer)) => return Ok(RequestOutcome::Answered(answer)),
                    Ok(None) => {}
                    Err(ControlError::Silent { .. }) if matches!(request(&id), Request::Query { .. }) => {
                        return Ok(RequestOutcome::Silent(owner.pid));
                    }
                    Err(error) => return Err(uncertain_act(error, owner.pid, &id, request(&id).id()).into()),
                }
                was_asked = true;
            }
        }
        std::thread::sleep(TRY_AGAIN_AFTER);
        stored = runs.find(&id)?;
    }
    Err(not_listening(&id).into())
}

/// Returns whether a run that has ended has recorded the act.
fn was_recorded(runs: &Runs, id: &str, request: &Request) -> Result<bool, CommandError> {
    let (Some(act), Some(act_id)) = (request.act(), request.id()) else { return Ok(false) };
    Ok(runs.store.post(id, &act.to_mail(act_id))? == Posted::Duplicate)
}

/// Stores an act for a run that is not running. Returns false if a host owns the run by now.
fn post(runs: &Runs, id: &str, mut request: Request) -> Result<bool, CommandError> {
    if let Request::Resolve { pid: pid @ None, tag, .. } = &mut request {
        let projection = runs.projection(id)?;
        let calls = || projection.state().calls().filter(|(_, other)| other == tag);
        let mut meant = calls();
        *pid = match (meant.next(), meant.next()) {
            (Some((pid, _)), None) => Some(pid),
            (first, _) => {
                let count = if first.is_some() { calls().count() } else { 0 };
                return Err(ControlError::Refused(Refusal::NoSuchCall { tag: *tag, count }).into());
            }
        };
    }
    let (Some(act), Some(act_id)) = (request.act(), request.id()) else { return Err(not_running_error(id).into()) };
    if let Some(earlier) = pending_resolution(runs, id, &act)? {
        if earlier.is_act(&act) {
            return Ok(true);
        }
        let title =
            format!("it is already resolved as `{}`, stored for the run", earlier.outcome().unwrap_or_default());
        let hint = format!(
            "`wfhost status {id}` shows what is stored; it takes effect when the run is resumed: wfhost resume {id}"
        );
        return Err(UserError::new(kind::CONFLICT, title).hint(hint).into());
    }
    let mail = act.to_mail(act_id);
    if mail.body.len() > MAIL_BYTES_MAX as usize {
        let most = MAIL_BYTES_MAX >> 20;
        let refused =
            UserError::new(kind::USAGE, format!("it is too large: {} bytes; the limit is {most} MiB", mail.body.len()));
        return Err(refused.hint("put large data where a step can fetch it, and send its address").into());
    }
    match runs.store.post(id, &mail)? {
        Posted::Stored | Posted::Duplicate => Ok(true),
        // The next attempt finds out which.
        Posted::Owned(_) | Posted::Ended | Posted::Unknown => Ok(false),
        Posted::Conflict => Err(ControlError::Refused(Refusal::Conflict { id: act_id.to_owned() }).into()),
        Posted::Full => {
            let refused = UserError::new(kind::WRONG_STATE, format!("no more can be stored for {id}"));
            Err(refused.hint(format!("to resume it: wfhost resume {id}")).into())
        }
    }
}

/// The stored act that already resolves the call of an act.
fn pending_resolution(runs: &Runs, id: &str, act: &Act) -> Result<Option<PendingAct>, CommandError> {
    let Act::Resolve { pid, tag, .. } = act else { return Ok(None) };
    let pending = runs.store.inbox_of(id)?;
    Ok(pending.iter().map(PendingAct::from).find(|pending| pending.resolves() == Some((*pid, *tag))))
}

/// The error for a run that has ended.
pub(in crate::cli) fn ended_error(stored: &Stored) -> UserError {
    let status = status_name(stored, &Ownership::Ended);
    UserError::new(kind::WRONG_STATE, format!("the run {} has ended: {status}", stored.id))
        .hint(format!("`wfhost status {}` shows how it ended", stored.id))
}

/// The error for a run that is not running.
fn not_running_error(id: &str) -> UserError {
    UserError::new(kind::WRONG_STATE, format!("{id} is not running")).hint(format!("to resume it: wfhost resume {id}"))
}
