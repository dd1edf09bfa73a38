//! Reading what is in a store beside the records.

use super::error::sqlite;
use super::{Sqlite, StoreError};
use crate::journal::{Filter, ListPlace, Owner, Stored};
use crate::process::Timestamp;
use crate::run::EndStatus;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params_from_iter};
use std::sync::Arc;

const COLUMNS: &str = "run, id, name, created, status, ended, records, owner, damage, grp, queued";

impl Sqlite {
    pub(super) fn run(&self, id: &str) -> Result<Option<Stored>, StoreError> {
        Ok(self.select("WHERE id = ?1", vec![id.to_owned().into()])?.pop())
    }

    pub(super) fn manifest(&self, id: &str) -> Result<Option<String>, StoreError> {
        let db = self.0.reader();
        let manifest = db
            .query_row("SELECT about FROM about WHERE run = (SELECT run FROM run WHERE id = ?1)", [id], |row| {
                Ok(row.get_ref(0)?.as_bytes().map(<[u8]>::to_vec))
            })
            .optional();
        let Some(manifest) = manifest.map_err(sqlite(self.0.path()))? else { return Ok(None) };
        let manifest = manifest.map_err(|error| error.to_string());
        let text = manifest.and_then(|bytes| String::from_utf8(bytes).map_err(|error| error.to_string()));
        let damaged = |why| StoreError::Damaged { run: id.into(), why: format!("what it was started with: {why}") };
        text.map(Some).map_err(damaged)
    }

    pub(super) fn list(&self, filter: &Filter) -> Result<Vec<Stored>, StoreError> {
        let (mut clauses, values) = clauses(filter);
        clauses.push_str(" ORDER BY created DESC, run DESC");
        if let Some(limit) = filter.limit {
            clauses.push_str(&format!(" LIMIT {limit}"));
        }
        self.select(&clauses, values)
    }

    pub(super) fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let (clauses, values) = clauses(filter);
        let db = self.0.reader();
        let count = db
            .prepare_cached(&format!("SELECT count(*) FROM run {clauses}"))
            .and_then(|mut select| select.query_row(params_from_iter(values), |row| row.get::<_, i64>(0)));
        count.map(i64::cast_unsigned).map_err(sqlite(self.0.path()))
    }

    pub(super) fn owner_of(&self, id: &str) -> Result<Option<Owner>, StoreError> {
        let run = self.run(id)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        let Some(host) = run.owner else { return Ok(None) };
        self.0.locks.owner(&self.0.reader(), host.cast_signed(), self.0.path()).map(Some)
    }

    /// Returns the ids with this prefix, in their order, at most `most`.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn ids(&self, prefix: &str, most: u32) -> Result<Vec<Arc<str>>, StoreError> {
        let db = self.0.reader();
        let behind = behind(prefix);
        let rows = db.prepare_cached("SELECT id FROM run WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3").and_then(
            |mut select| {
                let rows = select.query_map((prefix, behind, most), |row| row.get::<_, String>(0))?;
                rows.map(|id| id.map(Into::into)).collect()
            },
        );
        rows.map_err(sqlite(self.0.path()))
    }

    /// Returns the unfinished runs that no living host has, the oldest first.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn orphans(&self) -> Result<Vec<Stored>, StoreError> {
        let mut orphans = self.select("WHERE status IS NULL AND owner IS NULL", Vec::new())?;
        let hosts = {
            let db = self.0.reader();
            let rows = db.prepare_cached("SELECT host FROM host WHERE buried = 0").and_then(|mut select| {
                let rows = select.query_map([], |row| row.get::<_, i64>(0))?;
                rows.collect::<Result<Vec<_>, _>>()
            });
            rows.map_err(sqlite(self.0.path()))?
        };
        for host in hosts {
            if !self.0.locks.is_alive(host)? {
                orphans.extend(self.select("WHERE status IS NULL AND owner = ?", vec![host.into()])?);
            }
        }
        orphans.sort_by_key(|run| (run.created, run.row));
        Ok(orphans)
    }

    /// Returns the hosts that live and have begun or recovered a run.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn hosts(&self) -> Result<Vec<Owner>, StoreError> {
        let db = self.0.reader();
        let numbers =
            db.prepare_cached("SELECT host FROM host WHERE buried = 0 ORDER BY host").and_then(|mut select| {
                let rows = select.query_map([], |row| row.get::<_, i64>(0))?;
                rows.collect::<Result<Vec<_>, _>>()
            });
        let numbers = numbers.map_err(sqlite(self.0.path()))?;
        let owners = numbers.into_iter().map(|host| self.0.locks.owner(&db, host, self.0.path()));
        owners.filter(|owner| owner.as_ref().map_or(true, |owner| owner.alive)).collect()
    }

    /// Returns the BLAKE3 of the components that runs name, in hexadecimal, each with one of these
    /// runs.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn components(&self) -> Result<Vec<(String, Arc<str>)>, StoreError> {
        let db = self.0.reader();
        let rows = db
            .prepare_cached("SELECT hash, max(id) FROM run_component JOIN run USING (run) GROUP BY hash ORDER BY hash")
            .and_then(|mut select| {
                let rows = select.query_map([], |row| Ok((row.get(0)?, Arc::from(row.get::<_, String>(1)?))))?;
                rows.collect()
            });
        rows.map_err(sqlite(self.0.path()))
    }

    fn select(&self, clauses: &str, values: Vec<Value>) -> Result<Vec<Stored>, StoreError> {
        let db = self.0.reader();
        let rows = db.prepare_cached(&format!("SELECT {COLUMNS} FROM run {clauses}")).and_then(|mut select| {
            let rows = select.query_map(params_from_iter(values), stored)?;
            rows.collect()
        });
        rows.map_err(sqlite(self.0.path()))
    }
}

fn clauses(filter: &Filter) -> (String, Vec<Value>) {
    let Filter { ended, damaged, status, name, created_min, created_before, .. } = filter;
    let mut clauses: Vec<&str> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    match ended {
        Some(true) => clauses.push("status IS NOT NULL"),
        Some(false) => clauses.push("status IS NULL"),
        None => {}
    }
    if *damaged {
        clauses.push("damage IS NOT NULL");
    }
    if filter.queued {
        clauses.push("grp IS NOT NULL AND status IS NULL AND queued > 0");
    }
    let given = [
        ("status = ?", status.map(|status| status.name().to_owned().into())),
        ("name = ?", name.clone().map(Value::from)),
        ("created >= ?", created_min.map(|at| at.0.cast_signed().into())),
        ("created < ?", created_before.map(|at| at.0.cast_signed().into())),
    ];
    for (clause, value) in given {
        if let Some(value) = value {
            clauses.push(clause);
            values.push(value);
        }
    }
    let globs;
    if !filter.workflows.is_empty() {
        globs = format!("({})", vec!["name GLOB ?"; filter.workflows.len()].join(" OR "));
        clauses.push(&globs);
        let glob = |pattern: &String| pattern.replace('[', "[[]").replace('?', "[?]").into();
        values.extend(filter.workflows.iter().map(glob));
    }
    if let Some(prefix) = &filter.id_prefix {
        clauses.push("id >= ? AND id < ?");
        values.extend([prefix.clone().into(), behind(prefix).into()]);
    }
    for (key, value) in &filter.labels {
        clauses.push("run IN (SELECT run FROM label WHERE key = ? AND value = ?)");
        values.extend([key.clone().into(), value.clone().into()]);
    }
    if let Some(version) = filter.version {
        clauses.push("version = ?");
        values.push(version.cast_signed().into());
    }
    if let Some(ListPlace { created, row }) = filter.after {
        clauses.push("(created, run) < (?, ?)");
        values.extend([created.0.cast_signed().into(), row.cast_signed().into()]);
    }
    let clauses = if clauses.is_empty() { String::new() } else { format!("WHERE {}", clauses.join(" AND ")) };
    (clauses, values)
}

/// The first text behind all those with a prefix: no character sorts behind its last one.
fn behind(prefix: &str) -> String {
    format!("{prefix}\u{10ffff}")
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let micros = |at: i64| Timestamp(at.cast_unsigned());
    Ok(Stored {
        row: row.get::<_, i64>(0)?.cast_unsigned(),
        id: Arc::from(row.get::<_, String>(1)?),
        name: Arc::from(row.get::<_, String>(2)?),
        created: micros(row.get(3)?),
        status: row.get::<_, Option<String>>(4)?.as_deref().and_then(EndStatus::named),
        ended: row.get::<_, Option<i64>>(5)?.map(micros),
        records: row.get::<_, i64>(6)?.cast_unsigned(),
        owner: row.get::<_, Option<i64>>(7)?.map(i64::cast_unsigned),
        damage: row.get::<_, Option<String>>(8)?.map(Arc::from),
        group: row.get::<_, Option<String>>(9)?.map(Arc::from),
        queued: row.get::<_, i64>(10)? > 0,
    })
}
