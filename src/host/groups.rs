//! What a host does for runs of concurrency groups beside the journal's transactions.
//!
//! The journal decides which runs have a place, in the transactions that begin and end runs; here
//! they hear of it. A run of this host that gets its place by a transaction of this host hears it
//! from the journal's thread. For all else a thread looks into the journal: whether runs of this
//! host have a place by another process, and whether runs of their groups were asked to end. It
//! looks when it is notified, and each second while runs of this host wait: so what is lost between
//! processes comes late, and never not at all. While no run waits, it sleeps.

use super::control::{Client, Request};
use crate::journal::catalog::Catalog;
use crate::journal::{Address, Journal, Owner, Place, StoreError};
use crate::process::Micros;
use crate::run::{Act, Kernel, Mail};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// How often the journal is looked at while runs of this host wait for a place.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long another process may take to answer. It would see the same by itself, a little later.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

/// The runs of this host that wait for a place, and what there is to do.
pub(super) struct Groups {
    kernel: Weak<Kernel>,
    /// Set when the folder is open.
    store: OnceLock<Weak<dyn Catalog>>,
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Default)]
struct Work {
    /// The runs of this host that wait.
    waiting: BTreeSet<Arc<str>>,
    /// Runs that have a place, and are not of this host.
    placed: Vec<Arc<str>>,
    /// Groups of which runs were asked to end.
    groups: BTreeSet<Arc<str>>,
    /// Why runs did not begin, until their starters take it.
    refused: BTreeMap<Arc<str>, StoreError>,
    /// Look now.
    look: bool,
    /// The thread works on what it was notified of.
    is_busy: bool,
    has_thread: bool,
    closing: bool,
}

impl Work {
    fn has_work(&self) -> bool {
        self.look || !self.placed.is_empty() || !self.groups.is_empty()
    }
}

impl Groups {
    pub(super) fn new(kernel: Weak<Kernel>) -> Arc<Self> {
        Arc::new(Self { kernel, store: OnceLock::new(), work: Mutex::default(), changed: Condvar::new() })
    }

    /// Sets the store of the folder.
    pub(super) fn open(&self, store: &Arc<dyn Catalog>) {
        let _ = self.store.set(Arc::downgrade(store));
    }

    /// Follows a report of the journal on a run's place.
    pub(super) fn placed(self: &Arc<Self>, run: &str, place: Place) {
        let Some(kernel) = self.kernel.upgrade() else { return };
        let is_here = place == Place::Has && kernel.give_place(run);
        let mut work = self.work.lock();
        match place {
            Place::Waits => _ = work.waiting.insert(run.into()),
            Place::Has => {
                work.waiting.remove(run);
                if is_here {
                    return;
                }
                work.placed.push(run.into());
            }
        }
        self.notify(work);
    }

    /// Follows a report that runs of a group were asked to end.
    pub(super) fn asked(self: &Arc<Self>, group: &Arc<str>) {
        let mut work = self.work.lock();
        work.groups.insert(Arc::clone(group));
        self.notify(work);
    }

    /// Notes a run that was recovered and waits. It may have got its place meanwhile.
    pub(super) fn recovered(self: &Arc<Self>, run: &Arc<str>) {
        let mut work = self.work.lock();
        work.waiting.insert(Arc::clone(run));
        work.look = true;
        self.notify(work);
    }

    /// Notes why a run did not begin.
    pub(super) fn refuse(&self, run: &str, error: &StoreError) {
        self.work.lock().refused.insert(run.into(), error.clone());
    }

    /// Takes the reason why a run did not begin.
    pub(super) fn take_refused(&self, run: &str) -> Option<StoreError> {
        self.work.lock().refused.remove(run)
    }

    /// Waits, at most this long, until the thread has done what it was notified of: other processes
    /// then know what this one has changed.
    pub(super) fn drain(&self, most: Duration) {
        let until = Instant::now() + most;
        let mut work = self.work.lock();
        while work.has_thread && (work.is_busy || work.has_work()) {
            if self.changed.wait_until(&mut work, until).timed_out() {
                return;
            }
        }
    }

    /// Ends the thread.
    pub(super) fn close(&self) {
        self.work.lock().closing = true;
        self.changed.notify_all();
    }

    /// Notifies the thread, which is started when it is first needed. If it cannot be started, the
    /// next report tries again.
    fn notify(self: &Arc<Self>, mut work: MutexGuard<'_, Work>) {
        if !work.has_thread {
            let groups = Arc::clone(self);
            let run = move || groups.run();
            work.has_thread = std::thread::Builder::new().name("groups".to_owned()).spawn(run).is_ok();
        }
        drop(work);
        self.changed.notify_all();
    }

    fn run(&self) {
        loop {
            let mut work = self.work.lock();
            while !work.closing && !work.has_work() {
                if work.waiting.is_empty() {
                    self.changed.wait(&mut work);
                } else if self.changed.wait_for(&mut work, LOOK_INTERVAL).timed_out() {
                    break;
                }
            }
            if work.closing {
                return;
            }
            (work.look, work.is_busy) = (false, true);
            let (placed, groups) = (std::mem::take(&mut work.placed), std::mem::take(&mut work.groups));
            let waiting = work.waiting.clone();
            drop(work);
            let store = self.store.get().and_then(Weak::upgrade);
            let (Some(kernel), Some(store)) = (self.kernel.upgrade(), store) else { return };
            // What fails now is seen by the next look, or concerns a store that is written no more.
            let _ = self.look(&kernel, &*store, &waiting, groups);
            for run in placed {
                let _ = tell(&*store, &run, Request::GivePlace { run: run.to_string() });
            }
            self.work.lock().is_busy = false;
            self.changed.notify_all();
        }
    }

    /// Looks at what the journal says of runs that wait here, and of their groups.
    fn look(
        &self,
        kernel: &Kernel,
        store: &dyn Journal,
        waiting: &BTreeSet<Arc<str>>,
        mut groups: BTreeSet<Arc<str>>,
    ) -> Result<(), StoreError> {
        let queued: BTreeMap<Arc<str>, Arc<str>> = store.queued()?.into_iter().collect();
        for run in waiting.iter().filter(|run| !queued.contains_key(*run)) {
            kernel.give_place(run);
            self.work.lock().waiting.remove(run);
        }
        groups.extend(queued.into_values());
        for group in groups {
            for (run, mail) in store.mail_in(&group)? {
                deliver(kernel, store, &run, &mail)?;
            }
        }
        Ok(())
    }
}

/// Delivers mail that asks a run to end, to this host or another. The mail stays stored until its
/// record is durable.
fn deliver(kernel: &Kernel, store: &dyn Journal, run: &Arc<str>, mail: &Mail) -> Result<(), StoreError> {
    let Ok(Act::Cancel { reason, grace }) = Act::of_mail(mail) else { return Ok(()) };
    let id = mail.id.to_string();
    if let Some(here) = kernel.run(run) {
        // It has ended, or is ending: then there is nothing to ask.
        let _ = here.act(Act::Cancel { reason, grace }, Some(&id));
        return Ok(());
    }
    let now = grace == Some(Micros(0));
    tell(store, run, Request::Cancel { run: run.to_string(), reason: reason.to_string(), now, id: Some(id) })
}

/// Sends a request to the host of a run in another process. It may be gone, or not answer: the next
/// host of the run finds the same in the journal.
fn tell(store: &dyn Journal, run: &str, request: Request) -> Result<(), StoreError> {
    let owner = match store.owner_of(run) {
        Err(StoreError::Unknown(_)) => None,
        owner => owner?,
    };
    if let Some(Owner { alive: true, address: Some(Address::Socket(socket)), .. }) = &owner
        && let Some(client) = Client::recorded(socket)
    {
        let _ = client.ask_within(ANSWER_TIME_MAX, request);
    } else if owner.is_none_or(|owner| !owner.alive) {
        // Its mail is for whoever takes it over.
        store.announce_mail();
    }
    Ok(())
}
