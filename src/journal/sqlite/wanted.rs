//! The runs that want a host now, of those that no living host owns.
//!
//! A parked run whose host is gone is only a row, however many there are: it is found when its
//! first timer is due, or mail is stored for it. The others were in memory when their host ended.
//! Each question is answered by an index, in pages.
//!
//! A thread waits for the first due time, for ends of hosts, and for mail ([`Changes`]).

use super::error::{io, sqlite};
use super::host_ends::{Changes, HostWatch};
use super::ownership::fence;
use super::{Sqlite, StoreError};
use crate::journal::{TakesWanted, Wanted, WantedWatch, WantedWhy};
use crate::process::Timestamp;
use crate::run::system_time;
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, TransactionBehavior, params};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Runs that are read and passed on at once. Arbitrary.
const PAGE: u32 = 1_000;

/// When runs are looked for again that a host had no room for, or that could not be read.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long the thread waits at most: the wall clock may be set meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Tells which runs of a store want a host, until it is dropped.
pub(super) struct Watch {
    store: Sqlite,
    signals: Arc<Signals>,
    hosts: Option<HostWatch>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Signals {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    changes: Changes,
    closing: bool,
}

impl Sqlite {
    /// If ends of hosts and mail cannot be seen, that error is passed on, and only due runs are
    /// told.
    pub(super) fn watch_wanted(&self, mut take: Box<dyn TakesWanted>) -> Result<Watch, StoreError> {
        let signals = Arc::new(Signals::default());
        // Before the first look: what happens during it is not missed.
        let seen = Arc::clone(&signals);
        let hosts = self.watch_hosts(move |changes| {
            seen.state.lock().changes.add(changes);
            seen.changed.notify_all();
        });
        let hosts = match hosts {
            Ok(watch) => Some(watch),
            Err(error) => {
                take(Err(error));
                None
            }
        };
        self.set_heir(true)?;
        let mut looks = Looks { store: self.clone(), due_until: Timestamp(0) };
        let had_room = looks.look(Changes::ALL, &mut *take)?;
        let thread = std::thread::Builder::new().name("wanted".to_owned());
        let signalled = Arc::clone(&signals);
        let thread = thread.spawn(move || run(&signalled, &mut looks, had_room, &mut *take));
        Ok(Watch { store: self.clone(), signals, hosts, thread: Some(thread.map_err(io(self.0.path()))?) })
    }

    pub(super) fn is_free(&self, id: &str) -> Result<bool, StoreError> {
        if self.run(id)?.is_none_or(|run| run.status.is_some()) {
            return Ok(false);
        }
        let owner = self.owner_of(id)?.filter(|owner| owner.alive).map(|owner| owner.host.cast_signed());
        Ok(owner.is_none() || (owner == self.0.registered() && !self.0.owns(id)))
    }

    /// Sets whether this host has the parked runs whose owners are dead.
    fn set_heir(&self, is_heir: bool) -> Result<(), StoreError> {
        let host = self.0.host()?;
        self.0.beside(|| {
            let db = self.0.reader();
            let _write_lock = self.0.write_lock();
            db.execute("UPDATE host SET heir = ?2 WHERE host = ?1", params![host, is_heir])
                .map_err(sqlite(self.0.path()))?;
            Ok(())
        })
    }

    pub(super) fn announce_mail(&self) {
        self.0.locks.announce_mail();
    }

    /// Counts the parked runs whose host is gone.
    pub(super) fn inherited(&self) -> Result<u64, StoreError> {
        let dead = self.0.beside(|| self.fence_dead())?;
        let db = self.0.reader();
        let owners = std::iter::once(None).chain(dead.into_iter().map(Some));
        let counts = owners.map(|owner| db.prepare_cached(PARKED)?.query_row([owner], |row| row.get::<_, i64>(0)));
        let count = counts.sum::<Result<i64, _>>().map_err(sqlite(self.0.path()))?;
        Ok(count.cast_unsigned())
    }

    /// Fences the dead hosts. Returns them, and those that were fenced before.
    fn fence_dead(&self) -> Result<BTreeSet<i64>, StoreError> {
        let fails = sqlite(self.0.path());
        let mut db = self.0.reader();
        let rows = db.prepare_cached("SELECT host, buried FROM host").and_then(|mut select| {
            let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<Vec<(i64, bool)>, _>>()
        });
        let mut dead = BTreeSet::new();
        for (host, is_buried) in rows.map_err(&fails)? {
            if !is_buried {
                if self.0.locks.is_alive(host)? {
                    continue;
                }
                let _write_lock = self.0.write_lock();
                let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
                fence(&change, host).map_err(&fails)?;
                change.commit().map_err(&fails)?;
            }
            dead.insert(host);
        }
        Ok(dead)
    }
}

impl WantedWatch for Watch {}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hosts = None;
        self.signals.state.lock().closing = true;
        self.signals.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Its panic was reported where it happened.
            let _ = thread.join();
        }
        // If it cannot be written, the heir is dead as soon as this process is.
        let _ = self.store.set_heir(false);
    }
}

fn run(signals: &Signals, looks: &mut Looks, mut had_room: bool, take: &mut dyn TakesWanted) {
    loop {
        let wait = if had_room { looks.until_due() } else { Ok(LOOK_AGAIN_AFTER) };
        let wait = wait.unwrap_or(LOOK_AGAIN_AFTER);
        let mut state = signals.state.lock();
        if !state.closing && state.changes == Changes::default() {
            signals.changed.wait_for(&mut state, wait);
        }
        if state.closing {
            return;
        }
        let mut changes = std::mem::take(&mut state.changes);
        drop(state);
        changes.ended |= !had_room;
        had_room = looks.look(changes, take).unwrap_or_else(|error| {
            take(Err(error));
            false
        });
    }
}

/// Looks for wanted runs again and again.
struct Looks {
    store: Sqlite,
    /// Runs that were due until then were passed on. One that could not be recovered is not passed
    /// on for each that comes after it.
    due_until: Timestamp,
}

impl Looks {
    /// Passes on what is wanted because of these changes, and what is due. Returns whether there
    /// was room for all.
    fn look(&mut self, changes: Changes, take: &mut dyn TakesWanted) -> Result<bool, StoreError> {
        let dead = self.store.0.beside(|| self.store.fence_dead())?;
        let now = system_time();
        let mut had_room = true;
        if changes.ended {
            self.due_until = Timestamp(0);
            had_room &= self.pages(0, WantedWhy::Orphan, take, &|db, after| orphans(db, after))?;
        }
        let owners = std::iter::once(None).chain(dead.iter().copied().map(Some));
        for owner in owners {
            let from = (self.due_until.0.cast_signed(), i64::MAX);
            let until = now.0.cast_signed();
            had_room &= self.pages(from, WantedWhy::Due, take, &|db, after| due(db, owner, after, until))?;
        }
        self.due_until = now;
        if changes.ended || changes.mail {
            had_room &= self.pages(0, WantedWhy::Mail, take, &|db, after| with_mail(db, after, &dead))?;
        }
        Ok(had_room)
    }

    /// Reads pages, each from the place of the last run on, and passes them on.
    fn pages<Place: Copy>(
        &self,
        from: Place,
        why: WantedWhy,
        take: &mut dyn TakesWanted,
        read: &dyn Fn(&Connection, Place) -> rusqlite::Result<Page<Place>>,
    ) -> Result<bool, StoreError> {
        let (mut had_room, mut after) = (true, from);
        loop {
            let page = read(&self.store.0.reader(), after).map_err(sqlite(self.store.0.path()))?;
            let Some(last) = page.last else { return Ok(had_room) };
            after = last;
            let wanted: Vec<Wanted> = page.ids.into_iter().map(|id| Wanted { id: id.into(), why }).collect();
            if !wanted.is_empty() {
                had_room &= take(Ok(&wanted));
            }
        }
    }

    /// How long it is until the next run is due, at most [`WAIT_MAX`].
    fn until_due(&self) -> Result<Duration, StoreError> {
        let dead = self.store.0.beside(|| self.store.fence_dead())?;
        let db = self.store.0.reader();
        let mut first = i64::MAX;
        for owner in std::iter::once(None).chain(dead.into_iter().map(Some)) {
            let wake: Option<i64> = db
                .prepare_cached("SELECT min(wake) FROM run INDEXED BY run_parked WHERE owner IS ?1 AND wake IS NOT NULL AND wake > ?2")
                .and_then(|mut select| {
                    select.query_row(params![owner, self.due_until.0.cast_signed()], |row| row.get(0))
                })
                .map_err(sqlite(self.store.0.path()))?;
            first = first.min(wake.unwrap_or(i64::MAX));
        }
        let time = first.saturating_sub(system_time().0.cast_signed()).max(0).cast_unsigned();
        Ok(Duration::from_micros(time).min(WAIT_MAX))
    }
}

/// Runs that nobody owns, which were in memory or are new.
pub(super) const ORPHANS: &str =
    "SELECT run, id FROM run INDEXED BY run_orphan WHERE owner IS NULL AND status IS NULL AND wake IS NULL AND run > ?1
     ORDER BY run LIMIT ?2";

/// Parked runs of an owner that are due.
pub(super) const DUE: &str = "SELECT wake, run, id FROM run INDEXED BY run_parked
     WHERE owner IS ?1 AND wake IS NOT NULL AND wake >= ?2 AND (wake, run) > (?2, ?3) AND wake <= ?4
     ORDER BY wake, run LIMIT ?5";

/// How many parked runs an owner has.
pub(super) const PARKED: &str = "SELECT count(*) FROM run INDEXED BY run_parked WHERE owner IS ?1 AND wake IS NOT NULL";

/// Parked runs that have mail.
pub(super) const WITH_MAIL: &str =
    "SELECT inbox.run, id, owner FROM inbox INDEXED BY inbox_pending JOIN run ON run.run = inbox.run
     WHERE body IS NOT NULL AND inbox.run > ?1 AND wake IS NOT NULL
     GROUP BY inbox.run ORDER BY inbox.run LIMIT ?2";

/// Some runs, and where the next page begins.
struct Page<Place> {
    ids: Vec<String>,
    /// The place of the last one that was read; `None` if there was none.
    last: Option<Place>,
}

/// Reads runs that nobody owns, which were in memory or are new.
fn orphans(db: &Connection, after: i64) -> rusqlite::Result<Page<i64>> {
    let mut select = db.prepare_cached(ORPHANS)?;
    let (mut ids, mut last) = (Vec::new(), None);
    let mut rows = select.query(params![after, PAGE])?;
    while let Some(row) = rows.next()? {
        last = Some(row.get(0)?);
        ids.push(row.get(1)?);
    }
    Ok(Page { ids, last })
}

/// Reads parked runs of an owner, behind this time and row, that are due until then.
fn due(db: &Connection, owner: Option<i64>, after: (i64, i64), until: i64) -> rusqlite::Result<Page<(i64, i64)>> {
    let mut select = db.prepare_cached(DUE)?;
    let (mut ids, mut last) = (Vec::new(), None);
    let mut rows = select.query(params![owner, after.0, after.1, until, PAGE])?;
    while let Some(row) = rows.next()? {
        last = Some((row.get(0)?, row.get(1)?));
        ids.push(row.get(2)?);
    }
    Ok(Page { ids, last })
}

/// Reads parked runs that have mail and no living owner.
fn with_mail(db: &Connection, after: i64, dead: &BTreeSet<i64>) -> rusqlite::Result<Page<i64>> {
    let mut select = db.prepare_cached(WITH_MAIL)?;
    let (mut ids, mut last) = (Vec::new(), None);
    let mut rows = select.query(params![after, PAGE])?;
    while let Some(row) = rows.next()? {
        last = Some(row.get(0)?);
        if row.get::<_, Option<i64>>(2)?.is_none_or(|owner| dead.contains(&owner)) {
            ids.push(row.get(1)?);
        }
    }
    Ok(Page { ids, last })
}
