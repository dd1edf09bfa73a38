//! The task that fires, and its turns.

use super::clock::{WallTimer, Woken};
use super::decide::{Decision, decide};
use super::firings::{Entry, sync, written};
use super::start::{Started, Target, fire, run_id};
use super::{FIRINGS_MAX, WORKFLOW, outcome};
use crate::host::DurableChange;
use crate::journal::catalog::Firing;
use crate::process::{Micros, Timestamp};
use crate::run::system_time;
use crate::serve::problem::Answered;
use crate::serve::query::rfc3339;
use crate::serve::service::Service;
use crate::workflow::schedule::{Overlap, WINDOW};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Due times that are handled in one turn for a schedule. Its history has room for these, and for
/// the one note of those before them.
const DUES_MAX: usize = FIRINGS_MAX as usize - 1;

/// When something is tried again that could not be done.
const AGAIN_AFTER: Micros = Micros(30_000_000);

/// A time without one: two hundred years after 1970.
const NEVER: Timestamp = Timestamp(200 * 366 * 86_400_000_000);

/// How often runs are looked at for which queued firings wait: another process may have them.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What to wait for after a turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// When the next one is due.
    pub(super) wake: Option<Timestamp>,
    /// The runs whose end lets queued firings start.
    pub(super) awaited: HashSet<String>,
}

/// Fires the schedules of a service until it drains.
pub async fn run(service: Arc<Service>) {
    let timer = match WallTimer::new() {
        Ok(timer) => timer,
        Err(error) => {
            tracing::error!(%error, "schedules do not fire: there is no timer");
            return;
        }
    };
    // Only while firings are queued: whoever watches all runs costs each commit a little.
    let mut ended = None;
    let prepared = service.with_store(sync_all).await;
    if let Err(problem) = prepared {
        tracing::error!(problem = problem.detail, "the schedules of workflows are not up to date");
    }
    service.schedules.mark_stale();
    loop {
        let turn = match service.with_store(|service| turn(service, system_time())).await {
            Ok(turn) => turn,
            Err(problem) => {
                tracing::error!(problem = problem.detail, "schedules do not fire: they are tried again");
                service.schedules.mark_stale();
                Turn { wake: Some(system_time().saturating_add(AGAIN_AFTER)), ..Turn::default() }
            }
        };
        let has_queue = !turn.awaited.is_empty();
        ended = if has_queue { ended.or_else(|| service.host.watch_all()) } else { None };
        tokio::select! {
            () = service.drained() => return,
            woken = timer.until(turn.wake.unwrap_or(NEVER)) => match woken {
                Ok(Woken::Time) => {}
                Ok(Woken::ClockSet) => service.schedules.mark_stale(),
                Err(error) => {
                    tracing::error!(%error, "schedules do not fire on time: their timer fails");
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            },
            () = service.schedules.changed.notified() => {}
            () = any_of(ended.as_mut(), &turn.awaited), if has_queue => {}
            () = tokio::time::sleep(LOOK_EVERY), if has_queue => {}
        }
    }
}

/// Waits until one of some runs has more records.
async fn any_of(changes: Option<&mut broadcast::Receiver<DurableChange>>, runs: &HashSet<String>) {
    let Some(changes) = changes else { return std::future::pending().await };
    loop {
        match changes.recv().await {
            Ok(change) if runs.contains(&*change.run) => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Brings the schedules of all workflows up to date: the service may have ended between activating
/// a version and writing its schedule.
fn sync_all(service: &Service) -> Answered<()> {
    for active in service.store.active_versions()? {
        if let Err(problem) = sync(service, &active.name) {
            tracing::error!(workflow = active.name, problem = problem.detail, "its schedule is not up to date");
        }
    }
    Ok(())
}

/// Handles what is due at a time.
pub(super) fn turn(service: &Service, now: Timestamp) -> Answered<Turn> {
    let mut entries = service.schedules.entries.lock();
    if service.schedules.take_stale() {
        read_all(service, &mut entries, now)?;
    }
    let mut turn = Turn::default();
    let mut gone = Vec::new();
    for (name, entry) in entries.iter_mut() {
        if service.is_draining() {
            return Ok(turn);
        }
        if entry.next.is_some_and(|(_, starts)| starts <= now) && !refresh(service, entry, now)? {
            gone.push(name.clone());
            continue;
        }
        if entry.next.is_some_and(|(_, starts)| starts <= now) {
            handle(service, entry, now)?;
        }
        if entry.has_queue {
            start_queued(service, entry, &mut turn)?;
        }
        if let Some((_, starts)) = entry.next {
            turn.wake = Some(turn.wake.map_or(starts, |wake| wake.min(starts)));
        }
    }
    for name in gone {
        entries.remove(&name);
    }
    Ok(turn)
}

fn read_all(service: &Service, entries: &mut BTreeMap<String, Entry>, now: Timestamp) -> Answered<()> {
    let all = service.store.schedules()?;
    let read = all.into_iter().filter_map(|stored| Entry::read(stored, now));
    *entries = read.map(|entry| (entry.stored.schedule.name.clone(), entry)).collect();
    Ok(())
}

/// Reads the row of a schedule that is due again: another process may have changed it. Returns
/// whether there is one.
fn refresh(service: &Service, entry: &mut Entry, now: Timestamp) -> Answered<bool> {
    let name = entry.stored.schedule.name.clone();
    if entry.stored.schedule.origin == WORKFLOW
        && let Ok(deployed) = service.deployed(&name, None)
        && written(&name, deployed.workflow.plan().schedule.as_ref())
            .is_none_or(|row| row.spec != entry.stored.schedule.spec)
    {
        sync(service, &name)?;
    }
    let Some(stored) = service.store.schedule(&name)? else { return Ok(false) };
    if stored == entry.stored {
        return Ok(true);
    }
    match Entry::read(stored, now) {
        Some(read) => *entry = read,
        None => return Ok(false),
    }
    Ok(true)
}

/// The due times of a schedule that have passed and can be handled, and the time up to which the
/// others are. Those that are too old, or too many, get one note together.
fn passed(
    service: &Service,
    entry: &Entry,
    now: Timestamp,
    notes: &mut Vec<Firing>,
) -> (Vec<(Timestamp, Timestamp)>, Timestamp) {
    let name = &entry.stored.schedule.name;
    let mut from = entry.handled_until(now);
    let mut note = |due: Timestamp, why: &str, before: Timestamp| {
        notes.push(missed(due, format!("{why}; due times before {} are not caught up", rfc3339(before))));
        service.schedules.count(name, outcome::MISSED);
    };
    let window = Timestamp(now.0.saturating_sub(WINDOW.0));
    if from < window {
        if let Some(first) = entry.table.next(from).filter(|first| *first <= window) {
            note(first, "no service ran", window);
        }
        from = window;
    }
    let (dues, are_more) = entry.table.between(from, now, DUES_MAX);
    if let (true, Some(first), Some(kept)) = (are_more, entry.table.next(from), dues.first()) {
        note(first, &format!("more than {DUES_MAX} due times passed"), *kept);
    }
    let dues = dues.into_iter().map(|due| (due, entry.table.starts_at(name, due)));
    (dues.filter(|(_, starts)| *starts <= now).collect(), from)
}

/// Handles the due times of a schedule that have passed.
fn handle(service: &Service, entry: &mut Entry, now: Timestamp) -> Answered<()> {
    let name = entry.stored.schedule.name.clone();
    let mut notes = Vec::new();
    let (dues, from) = passed(service, entry, now, &mut notes);
    let decisions = decide(&dues, now, entry.spec.catch_up);
    let mut last = from;
    for ((due, starts), decision) in dues.into_iter().zip(decisions) {
        if was_handled(service, &name, due)? {
            last = due;
            continue;
        }
        let late = match decision {
            Decision::Fire => outcome::FIRED,
            Decision::CatchUp => outcome::CAUGHT_UP,
            Decision::Miss => {
                let run = run_id(&name, due);
                // It fired, and the service ended before it was noted.
                if service.store.run(&run)?.is_some() {
                    let outcome = outcome::FIRED.to_owned();
                    notes.push(Firing { due, at: now, outcome, run: Some(run), reason: None });
                } else {
                    let late = Duration::from(now.since(starts)).as_secs();
                    notes.push(missed(due, format!("it was {late} s late")));
                    service.schedules.count(&name, outcome::MISSED);
                }
                last = due;
                continue;
            }
        };
        match fire(service, entry, due, late)? {
            Ok((outcome, firing)) => {
                entry.has_queue |= outcome == outcome::QUEUED;
                service.schedules.count(&name, outcome);
                if firing.run.is_some() && outcome != outcome::QUEUED {
                    service.schedules.note_lateness(firing.at.since(starts));
                }
                notes.push(firing);
                last = due;
                service.store.note_firings(&name, &notes, Some(last), FIRINGS_MAX)?;
                notes.clear();
            }
            Err(why) => {
                tracing::warn!(schedule = name, why, "a due time is tried again");
                note(service, entry, &notes, last)?;
                entry.next = Some((due, now.saturating_add(AGAIN_AFTER)));
                return Ok(());
            }
        }
    }
    note(service, entry, &notes, last)?;
    entry.schedule_next(now);
    Ok(())
}

fn note(service: &Service, entry: &mut Entry, notes: &[Firing], last: Timestamp) -> Answered<()> {
    if !notes.is_empty() {
        service.store.note_firings(&entry.stored.schedule.name, notes, Some(last), FIRINGS_MAX)?;
    }
    entry.stored.last = Some(last);
    Ok(())
}

fn missed(due: Timestamp, reason: String) -> Firing {
    Firing { due, at: system_time(), outcome: outcome::MISSED.to_owned(), run: None, reason: Some(reason) }
}

/// Whether a due time has a note already: the clock was set back.
fn was_handled(service: &Service, name: &str, due: Timestamp) -> Answered<bool> {
    Ok(service.store.firing(name, due)?.is_some())
}

/// Starts queued firings of a schedule, as far as its overlap allows.
fn start_queued(service: &Service, entry: &mut Entry, turn: &mut Turn) -> Answered<()> {
    if entry.stored.paused.is_some() {
        return Ok(());
    }
    let name = entry.stored.schedule.name.clone();
    loop {
        let Some(mut firing) = service.store.queued_firings(&name, 1)?.into_iter().next() else {
            entry.has_queue = false;
            return Ok(());
        };
        let unfinished = service.store.unfinished_of_schedule(&name)?;
        if entry.spec.overlap != Overlap::Allow && !unfinished.is_empty() {
            turn.awaited.extend(unfinished);
            return Ok(());
        }
        let id = run_id(&name, firing.due);
        let is_backfill = firing.reason.as_deref().is_some_and(|reason| reason.starts_with(super::BACKFILL));
        let started = Target::of(entry).start(service, &id, firing.due, &format!("schedule {name}"))?;
        let outcome = match started {
            Started::Run if is_backfill => outcome::BACKFILLED,
            Started::Run => {
                firing.reason = Some(format!("queued at {}", rfc3339(firing.at)));
                outcome::FIRED
            }
            Started::Failed(why) => {
                firing.reason = Some(why);
                outcome::FAILED
            }
            Started::Later(why) => {
                tracing::warn!(schedule = name, why, "a queued firing is tried again");
                let again = system_time().saturating_add(AGAIN_AFTER);
                turn.wake = Some(turn.wake.map_or(again, |wake| wake.min(again)));
                return Ok(());
            }
        };
        firing.run = (outcome != outcome::FAILED).then_some(id);
        firing.at = system_time();
        outcome.clone_into(&mut firing.outcome);
        service.store.note_firings(&name, &[firing], None, FIRINGS_MAX)?;
        service.schedules.count(&name, outcome);
    }
}
