//! Jobs.

use super::{micros, time};
use crate::journal::catalog::{Job, JobStatus, Jobs};
use crate::journal::sqlite::{Sqlite, StoreError};
use crate::process::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

impl Jobs for Sqlite {
    fn add_job(&self, job: &Job, ended_max: u32) -> Result<bool, StoreError> {
        self.change(|db| {
            let Job { id, kind, status, created, ended, author, request, report } = job;
            let ended = ended.map(micros);
            let added = db
                .prepare_cached(
                    "INSERT OR IGNORE INTO job (id, kind, status, created, ended, author, request, report)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )?
                .execute(params![id, kind, status.name(), micros(*created), ended, author, request, report])?;
            db.prepare_cached(
                "DELETE FROM job WHERE ended IS NOT NULL AND id IN
                 (SELECT id FROM job WHERE ended IS NOT NULL ORDER BY ended DESC, id DESC LIMIT -1 OFFSET ?1)",
            )?
            .execute([ended_max])?;
            Ok(added > 0)
        })
    }

    fn write_job(
        &self,
        id: &str,
        status: JobStatus,
        ended: Option<Timestamp>,
        report: Option<&str>,
    ) -> Result<bool, StoreError> {
        self.change(|db| {
            let written = db
                .prepare_cached(
                    "UPDATE job SET status = ?2, ended = ?3, report = coalesce(?4, report)
                     WHERE id = ?1 AND ended IS NULL",
                )?
                .execute(params![id, status.name(), ended.map(micros), report])?;
            Ok(written > 0)
        })
    }

    fn job(&self, id: &str) -> Result<Option<Job>, StoreError> {
        self.look(|db| {
            db.prepare_cached(
                "SELECT id, kind, status, created, ended, author, request, report FROM job WHERE id = ?1",
            )?
            .query_row([id], stored)
            .optional()
        })
    }

    fn jobs(&self, before: Option<(Timestamp, &str)>, limit: u32) -> Result<Vec<Job>, StoreError> {
        let (at, id) = before.map_or((i64::MAX, ""), |(at, id)| (micros(at), id));
        self.look(|db| {
            let mut select = db.prepare_cached(
                "SELECT id, kind, status, created, ended, author, '', NULL FROM job
                 WHERE (created, id) < (?1, ?2) ORDER BY created DESC, id DESC LIMIT ?3",
            )?;
            select.query_map(params![at, id, limit], stored)?.collect()
        })
    }

    fn open_jobs(&self) -> Result<Vec<String>, StoreError> {
        self.look(|db| {
            let mut select = db.prepare_cached("SELECT id FROM job WHERE ended IS NULL ORDER BY created, id")?;
            select.query_map([], |row| row.get(0))?.collect()
        })
    }
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Job> {
    let status: String = row.get(2)?;
    Ok(Job {
        id: row.get(0)?,
        kind: row.get(1)?,
        // A later release may know more; to this one, it is not done.
        status: JobStatus::named(&status).unwrap_or(JobStatus::Open),
        created: time(row.get(3)?),
        ended: row.get::<_, Option<i64>>(4)?.map(time),
        author: row.get(5)?,
        request: row.get(6)?,
        report: row.get(7)?,
    })
}
