//! Places in concurrency groups.
//!
//! A run has a place if it is unfinished and not queued: that is all, and nothing counts along. A
//! run that begins looks for a place in the transaction that makes its row; the transaction that
//! ends a run gives its place to the next. So no crash leaks a place, and nothing has to be
//! repaired.
//!
//! - **I1** After each transaction the first run that waits in a group finds no place: as many runs
//!   have one as its own start allows, or more.
//! - **I2** Runs get places in the order of their rows.
//! - **I3** A run that is to end in favour of another gets no place, and mail tells it so.

use super::error::sqlite;
use super::rows::run_row;
use super::{Sqlite, StoreError, inbox};
use crate::journal::{GroupEntry, Place, QueuePlace, RunInGroup};
use crate::run::{Mail, OnLimit};
use rusqlite::{Connection, OptionalExtension, params};
use std::sync::Arc;

/// The unfinished runs of a group that have a place. Each query says `queued` so that it reads no
/// more than a part of the index `run_group`.
const PLACED: &str = "FROM run WHERE grp = ?1 AND status IS NULL AND queued = 0";
/// Those that wait for one.
const WAITING: &str = "FROM run WHERE grp = ?1 AND status IS NULL AND queued = 1";
/// Runs with a place that are named to people. Arbitrary.
const NAMED_MAX: u32 = 10;

/// How a run enters its group.
#[derive(Debug)]
pub(super) enum Entered {
    /// It begins: with a place, or to wait for one. Whether other runs were asked to end in its
    /// favour.
    Begins { place: Place, others_asked: bool },
    /// It does not begin.
    Refused(StoreError),
}

/// A run that was given a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Admitted {
    pub(super) id: Arc<str>,
    pub(super) owner: Option<i64>,
}

/// Counts runs, up to a bound.
fn count(change: &Connection, which: &str, group: &str, most: u32) -> rusqlite::Result<u32> {
    change
        .prepare_cached(&format!("SELECT count(*) FROM (SELECT 1 {which} LIMIT ?2)"))?
        .query_row(params![group, most], |row| row.get(0))
}

/// Reads the ids of runs in the order of their rows.
fn ids(change: &Connection, which: &str, group: &str, most: u32) -> rusqlite::Result<Vec<Arc<str>>> {
    let mut select = change.prepare_cached(&format!("SELECT id {which} ORDER BY run LIMIT ?2"))?;
    let rows = select.query_map(params![group, most], |row| row.get::<_, String>(0))?;
    rows.map(|id| id.map(Into::into)).collect()
}

/// Looks for a place for a run that begins, before it has a row.
pub(super) fn enter(change: &Connection, entry: &GroupEntry) -> rusqlite::Result<Entered> {
    let GroupEntry { group, limit, on_limit, queue_max, cancel } = entry;
    let placed = count(change, PLACED, group, *limit)?;
    let waiting = count(change, WAITING, group, *queue_max)?;
    let is_free = placed < *limit;
    if is_free && waiting == 0 {
        return Ok(Entered::Begins { place: Place::Has, others_asked: false });
    }
    let mut others_asked = false;
    match on_limit {
        OnLimit::Queue if waiting >= *queue_max => {
            return Ok(Entered::Refused(StoreError::QueueFull { group: Arc::clone(group), waiting }));
        }
        OnLimit::Queue => return Ok(Entered::Begins { place: Place::Waits, others_asked }),
        OnLimit::Skip => {
            let mut first = ids(change, PLACED, group, 1)?;
            first.extend(ids(change, WAITING, group, 1)?);
            let run = first.into_iter().next().expect("invariant: a run has the place, or waits for it");
            return Ok(Entered::Refused(StoreError::NoPlace { group: Arc::clone(group), run }));
        }
        OnLimit::ReplaceQueued => others_asked |= end_waiting(change, group, cancel)?,
        OnLimit::CancelPrevious => {
            others_asked |= end_waiting(change, group, cancel)?;
            others_asked |= ask_oldest(change, group, *limit, cancel)?;
        }
    }
    // Those that waited may have had a lower limit.
    Ok(Entered::Begins { place: if is_free { Place::Has } else { Place::Waits }, others_asked })
}

/// Ends the runs of a group that wait. Returns whether there were any.
fn end_waiting(change: &Connection, group: &str, cancel: &Mail) -> rusqlite::Result<bool> {
    let mut select = change.prepare_cached(&format!("SELECT run {WAITING}"))?;
    let rows = select.query_map([group], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    for row in &rows {
        change.prepare_cached("UPDATE run SET queued = 2 WHERE run = ?1")?.execute([row])?;
        inbox::put(change, *row, cancel)?;
    }
    Ok(!rows.is_empty())
}

/// Asks so many of the oldest runs with a place to end that one more finds a place then. Returns
/// whether there were any that nobody had asked before.
fn ask_oldest(change: &Connection, group: &str, limit: u32, cancel: &Mail) -> rusqlite::Result<bool> {
    let mut select = change.prepare_cached(&format!("SELECT run {PLACED} ORDER BY run DESC LIMIT -1 OFFSET ?2"))?;
    let rows = select.query_map(params![group, limit - 1], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    let mut asked = false;
    for row in rows {
        asked |= inbox::put(change, row, cancel)?;
    }
    Ok(asked)
}

/// Gives the places of a group that are free to the runs that wait, in the order of their rows.
/// Called in the transaction in which one became free.
pub(super) fn admit(change: &Connection, group: &str) -> rusqlite::Result<Vec<Admitted>> {
    let mut admitted = Vec::new();
    loop {
        let first = change
            .prepare_cached(&format!("SELECT run, id, owner, places {WAITING} ORDER BY run LIMIT 1"))?
            .query_row([group], |row| {
                let run = Admitted { id: row.get::<_, String>(1)?.into(), owner: row.get(2)? };
                Ok((row.get::<_, i64>(0)?, run, row.get::<_, u32>(3)?))
            })
            .optional()?;
        let Some((row, run, places)) = first else { return Ok(admitted) };
        if count(change, PLACED, group, places)? >= places {
            return Ok(admitted);
        }
        change.prepare_cached("UPDATE run SET queued = 0 WHERE run = ?1")?.execute([row])?;
        admitted.push(run);
    }
}

impl Sqlite {
    pub(super) fn queued(&self) -> Result<Vec<RunInGroup>, StoreError> {
        let Some(host) = self.0.registered() else { return Ok(Vec::new()) };
        let db = self.0.reader();
        let rows = db
            .prepare_cached(
                "SELECT id, grp FROM run INDEXED BY run_group
                 WHERE grp IS NOT NULL AND status IS NULL AND queued > 0 AND owner = ?1",
            )
            .and_then(|mut select| {
                let rows = select.query_map([host], |row| {
                    Ok((Arc::from(row.get::<_, String>(0)?), Arc::from(row.get::<_, String>(1)?)))
                })?;
                rows.collect()
            });
        rows.map_err(sqlite(self.0.path()))
    }

    pub(super) fn mail_in(&self, group: &str) -> Result<Vec<(Arc<str>, Mail)>, StoreError> {
        let db = self.0.reader();
        let rows = db
            .prepare_cached(
                "SELECT id, mail, kind, body FROM run JOIN inbox USING (run)
                 WHERE grp = ?1 AND status IS NULL AND owner IS NOT NULL AND body IS NOT NULL ORDER BY item",
            )
            .and_then(|mut select| {
                let rows = select.query_map([group], |row| {
                    let (mail, kind) = (row.get::<_, String>(1)?.into(), row.get::<_, String>(2)?.into());
                    let mail = Mail { id: mail, kind, body: row.get::<_, Vec<u8>>(3)?.into() };
                    Ok((Arc::from(row.get::<_, String>(0)?), mail))
                })?;
                rows.collect()
            });
        rows.map_err(sqlite(self.0.path()))
    }

    pub(super) fn queue_place(&self, id: &str) -> Result<Option<QueuePlace>, StoreError> {
        let fails = sqlite(self.0.path());
        let db = self.0.reader();
        let run = run_row(&db, id).map_err(&fails)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        let Some(group) = run.group.filter(|_| run.queued && !run.ended) else { return Ok(None) };
        let place = || {
            let (before, is_next, waiting) = db
                .prepare_cached(&format!(
                    "SELECT count(*) FILTER (WHERE run < ?2), count(*) FILTER (WHERE run = ?2), count(*) {WAITING}"
                ))?
                .query_row(params![&*group, run.row], |row| {
                    Ok((row.get::<_, u32>(0)?, row.get::<_, u32>(1)?, row.get::<_, u32>(2)?))
                })?;
            let number = if is_next == 1 { u64::from(before) + 1 } else { 0 };
            let ahead = ids(&db, PLACED, &group, NAMED_MAX)?;
            Ok(QueuePlace { number, waiting: waiting.into(), ahead })
        };
        place().map(Some).map_err(&fails)
    }
}
