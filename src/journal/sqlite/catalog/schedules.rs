//! Schedules.

use super::{micros, time};
use crate::journal::catalog::{Firing, Schedule, ScheduleWrite, Schedules, StoredSchedule};
use crate::journal::{Sqlite, StoreError};
use crate::process::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

const COLUMNS: &str = "name, origin, workflow, spec, author, revision, created, changed, paused, last";
const FIRING: &str = "due, at, outcome, run, reason";

impl Schedules for Sqlite {
    fn schedules(&self) -> Result<Vec<StoredSchedule>, StoreError> {
        self.look(|db| {
            let mut select = db.prepare_cached(&format!("SELECT {COLUMNS} FROM schedule ORDER BY name"))?;
            select.query_map([], schedule)?.collect()
        })
    }

    fn schedule(&self, name: &str) -> Result<Option<StoredSchedule>, StoreError> {
        self.look(|db| one(db, name))
    }

    fn put_schedule(
        &self,
        written: &Schedule,
        expected: Option<u64>,
        now: Timestamp,
    ) -> Result<ScheduleWrite, StoreError> {
        let Schedule { name, origin, workflow, spec, author } = written;
        self.change(|change| {
            let found = one(change, name)?;
            let revision = found.as_ref().map(|found| found.revision);
            if expected.is_some_and(|expected| expected != revision.unwrap_or(0)) {
                return Ok(ScheduleWrite::Mismatch(revision));
            }
            let is_new = found.is_none();
            if let Some(found) = found {
                let before = &found.schedule;
                if (&before.origin, &before.workflow, &before.spec) == (origin, workflow, spec) {
                    return Ok(ScheduleWrite::Stored { schedule: found, is_new });
                }
            }
            let write = format!(
                "INSERT INTO schedule (name, origin, workflow, spec, author, revision, created, changed)
                 VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?6)
                 ON CONFLICT (name) DO UPDATE SET origin = ?2, workflow = ?3, spec = ?4, author = ?5,
                     revision = revision + 1, changed = ?6, last = NULL
                 RETURNING {COLUMNS}"
            );
            let values = params![name, origin, workflow, spec, author, micros(now)];
            Ok(ScheduleWrite::Stored { schedule: change.query_row(&write, values, schedule)?, is_new })
        })
    }

    fn remove_schedule(&self, name: &str, expected: Option<u64>) -> Result<Result<bool, u64>, StoreError> {
        self.change(|change| {
            let Some(found) = one(change, name)? else { return Ok(Ok(false)) };
            if expected.is_some_and(|expected| expected != found.revision) {
                return Ok(Err(found.revision));
            }
            change.execute("DELETE FROM firing WHERE schedule = ?1", [name])?;
            change.execute("DELETE FROM schedule WHERE name = ?1", [name])?;
            Ok(Ok(true))
        })
    }

    fn pause_schedule(&self, name: &str, pause: bool, now: Timestamp) -> Result<Option<StoredSchedule>, StoreError> {
        self.change(|change| {
            let pause = if pause {
                "UPDATE schedule SET paused = ?2, revision = revision + 1 WHERE name = ?1 AND paused IS NULL"
            } else {
                "UPDATE schedule SET paused = NULL, changed = ?2, last = NULL, revision = revision + 1
                 WHERE name = ?1 AND paused IS NOT NULL"
            };
            change.execute(pause, params![name, micros(now)])?;
            one(change, name)
        })
    }

    fn note_firings(
        &self,
        name: &str,
        firings: &[Firing],
        last: Option<Timestamp>,
        retained: u32,
    ) -> Result<(), StoreError> {
        self.change(|change| {
            if one(change, name)?.is_none() {
                return Ok(());
            }
            let mut write = change.prepare_cached(&format!(
                "INSERT INTO firing (schedule, {FIRING}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (schedule, due) DO UPDATE SET at = ?3, outcome = ?4, run = ?5, reason = ?6"
            ))?;
            for Firing { due, at, outcome, run, reason } in firings {
                write.execute(params![name, micros(*due), micros(*at), outcome, run, reason])?;
            }
            if let Some(last) = last {
                change.execute("UPDATE schedule SET last = ?2 WHERE name = ?1", params![name, micros(last)])?;
            }
            let mut prune = change.prepare_cached(
                "DELETE FROM firing WHERE schedule = ?1 AND outcome <> 'queued'
                   AND due <= (SELECT due FROM firing WHERE schedule = ?1 ORDER BY due DESC LIMIT 1 OFFSET ?2)
                   AND NOT EXISTS (SELECT 1 FROM run WHERE id = firing.run AND status IS NULL)",
            )?;
            prune.execute(params![name, retained])?;
            Ok(())
        })
    }

    fn firing(&self, name: &str, due: Timestamp) -> Result<Option<Firing>, StoreError> {
        self.look(|db| {
            let select = format!("SELECT {FIRING} FROM firing WHERE schedule = ?1 AND due = ?2");
            db.prepare_cached(&select)?.query_row(params![name, micros(due)], firing).optional()
        })
    }

    fn firings(&self, name: &str, before: Option<Timestamp>, limit: u32) -> Result<Vec<Firing>, StoreError> {
        self.look(|db| {
            let mut select = db.prepare_cached(&format!(
                "SELECT {FIRING} FROM firing WHERE schedule = ?1 AND due < ?2 ORDER BY due DESC LIMIT ?3"
            ))?;
            let before = before.map_or(i64::MAX, micros);
            select.query_map(params![name, before, limit], firing)?.collect()
        })
    }

    fn queued_firings(&self, name: &str, limit: u32) -> Result<Vec<Firing>, StoreError> {
        self.look(|db| {
            let mut select = db.prepare_cached(&format!(
                "SELECT {FIRING} FROM firing WHERE schedule = ?1 AND outcome = 'queued' ORDER BY due LIMIT ?2"
            ))?;
            select.query_map(params![name, limit], firing)?.collect()
        })
    }

    fn unfinished_of_schedule(&self, name: &str) -> Result<Vec<String>, StoreError> {
        self.look(|db| {
            let mut select = db.prepare_cached(
                "SELECT run.id FROM firing JOIN run ON run.id = firing.run
                 WHERE schedule = ?1 AND run.status IS NULL ORDER BY due LIMIT 1000",
            )?;
            select.query_map([name], |row| row.get(0))?.collect()
        })
    }
}

fn one(db: &Connection, name: &str) -> rusqlite::Result<Option<StoredSchedule>> {
    let select = format!("SELECT {COLUMNS} FROM schedule WHERE name = ?1");
    db.prepare_cached(&select)?.query_row([name], schedule).optional()
}

fn schedule(row: &Row<'_>) -> rusqlite::Result<StoredSchedule> {
    Ok(StoredSchedule {
        schedule: Schedule {
            name: row.get(0)?,
            origin: row.get(1)?,
            workflow: row.get(2)?,
            spec: row.get(3)?,
            author: row.get(4)?,
        },
        revision: row.get::<_, i64>(5)?.cast_unsigned(),
        created: time(row.get(6)?),
        changed: time(row.get(7)?),
        paused: row.get::<_, Option<i64>>(8)?.map(time),
        last: row.get::<_, Option<i64>>(9)?.map(time),
    })
}

fn firing(row: &Row<'_>) -> rusqlite::Result<Firing> {
    Ok(Firing {
        due: time(row.get(0)?),
        at: time(row.get(1)?),
        outcome: row.get(2)?,
        run: row.get(3)?,
        reason: row.get(4)?,
    })
}
