//! Reading what is in a store beside the records.

use super::error::sqlite;
use super::{Sqlite, StoreError};
use crate::journal::{Filter, ListPlace, Owner, Stored, pattern_fits};
use crate::process::Timestamp;
use crate::run::EndStatus;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params_from_iter};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

const COLUMNS: &str =
    "run.run, id, name, run.created, status, ended, records, owner, damage, grp, queued, wake IS NOT NULL";

/// Runs that are sorted for a page. A part of the list with more is read in the list's order until
/// the page is full.
const SORTED_MAX: usize = 1_000;

impl Sqlite {
    pub(super) fn run(&self, id: &str) -> Result<Option<Stored>, StoreError> {
        Ok(self.select("run WHERE id = ?1", vec![id.to_owned().into()])?.pop())
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
        let mut all = Vec::new();
        for part in self.parts(filter)? {
            let (query, values) = self.page(&part)?;
            all.extend(self.select(&query, values)?);
        }
        all.sort_unstable_by_key(|run| std::cmp::Reverse((run.created, run.row)));
        all.truncate(filter.limit.map_or(usize::MAX, |limit| limit as usize));
        Ok(all)
    }

    /// Filters that together have the runs of one, each run once. No index has the order of the
    /// list for runs of several workflows, or for runs that ended in several ways, but one for
    /// each.
    pub(super) fn parts(&self, filter: &Filter) -> Result<Vec<Filter>, StoreError> {
        if !filter.workflows.is_empty() {
            let named = |name| Filter { name: Some(name), workflows: Vec::new(), ..filter.clone() };
            return Ok(self.names_like(filter)?.into_iter().map(named).collect());
        }
        let is_any = filter.name.is_none() && filter.labels.is_empty() && filter.id_prefix.is_none();
        if is_any && filter.ended == Some(true) && filter.status.is_none() && filter.version.is_none() {
            let ended = |status: &EndStatus| Filter { status: Some(*status), ..filter.clone() };
            return Ok(EndStatus::ALL.iter().map(ended).collect());
        }
        Ok(vec![filter.clone()])
    }

    /// The names of workflows with runs that fit the patterns of a filter: a look into the index
    /// for each name that there is.
    fn names_like(&self, filter: &Filter) -> Result<Vec<String>, StoreError> {
        let fits = |name: &String| filter.workflows.iter().any(|pattern| pattern_fits(pattern, name));
        if let Some(name) = &filter.name {
            return Ok(Some(name.clone()).filter(fits).into_iter().collect());
        }
        let db = self.0.reader();
        let names = db
            .prepare_cached(
                "WITH RECURSIVE names (name) AS (
                     SELECT min(name) FROM run UNION ALL
                     SELECT (SELECT min(name) FROM run WHERE name > names.name) FROM names WHERE name IS NOT NULL
                 ) SELECT name FROM names WHERE name IS NOT NULL",
            )
            .and_then(|mut select| select.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>());
        let mut names = names.map_err(sqlite(self.0.path()))?;
        names.retain(fits);
        Ok(names)
    }

    /// The query for a page of the list.
    pub(super) fn page(&self, filter: &Filter) -> Result<(String, Vec<Value>), StoreError> {
        let mut filter = filter.clone();
        // The rarest label first: its rows are in the order of the list.
        if filter.labels.len() > 1 {
            let counted = filter
                .labels
                .iter()
                .map(|label| self.rows_with("label WHERE key = ? AND value = ?", [&label.0, &label.1]));
            let counts = counted.collect::<Result<Vec<_>, _>>()?;
            let rarest = (0..counts.len()).min_by_key(|at| counts[*at]).unwrap_or_default();
            filter.labels.swap(0, rarest);
        }
        let is_rare = match &filter.id_prefix {
            Some(prefix) => self.rows_with("run WHERE id >= ? AND id < ?", [prefix, &behind(prefix)])? < SORTED_MAX,
            None => false,
        };
        let (clauses, values) = clauses(&filter, is_rare);
        let (from, order) = match filter.labels.first() {
            Some(_) => ("label CROSS JOIN run ON run.run = label.run", "label.created DESC, label.run DESC"),
            None => ("run", "run.created DESC, run.run DESC"),
        };
        let limit = filter.limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
        Ok((format!("{from} {clauses} ORDER BY {order}{limit}"), values))
    }

    /// Counts rows of an index, up to [`SORTED_MAX`].
    fn rows_with(&self, which: &str, values: [&String; 2]) -> Result<usize, StoreError> {
        let db = self.0.reader();
        let count = db
            .prepare_cached(&format!("SELECT count(*) FROM (SELECT 1 FROM {which} LIMIT {SORTED_MAX})"))
            .and_then(|mut select| select.query_row(values, |row| row.get::<_, i64>(0)));
        count.map(|count| usize::try_from(count).unwrap_or(0)).map_err(sqlite(self.0.path()))
    }

    pub(super) fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let (clauses, values) = clauses(filter, true);
        let from = if filter.labels.is_empty() { "run" } else { "label CROSS JOIN run ON run.run = label.run" };
        let limit = filter.limit.map_or(-1, i64::from);
        let db = self.0.reader();
        let count = db
            .prepare_cached(&format!("SELECT count(*) FROM (SELECT 1 FROM {from} {clauses} LIMIT {limit})"))
            .and_then(|mut select| select.query_row(params_from_iter(values), |row| row.get::<_, i64>(0)));
        count.map(i64::cast_unsigned).map_err(sqlite(self.0.path()))
    }

    pub(super) fn owner_of(&self, id: &str) -> Result<Option<Owner>, StoreError> {
        let run = self.run(id)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        let owner = run.owner.map(u64::cast_signed);
        self.0.locks.owner_or_heir(&self.0.reader(), owner, run.parked, self.0.path())
    }

    pub(super) fn ids(&self, prefix: &str, most: u32) -> Result<Vec<Arc<str>>, StoreError> {
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

    pub(super) fn orphans(&self) -> Result<Vec<Stored>, StoreError> {
        let mut orphans = self.select("run WHERE status IS NULL AND owner IS NULL", Vec::new())?;
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
                orphans.extend(self.select("run WHERE status IS NULL AND owner = ?", vec![host.into()])?);
            }
        }
        orphans.sort_by_key(|run| (run.created, run.row));
        Ok(orphans)
    }

    pub(super) fn hosts(&self) -> Result<Vec<Owner>, StoreError> {
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

    pub(super) fn components_named(&self) -> Result<Vec<(String, Arc<str>)>, StoreError> {
        let db = self.0.reader();
        let rows = db
            .prepare_cached("SELECT hash, max(id) FROM run_component JOIN run USING (run) GROUP BY hash ORDER BY hash")
            .and_then(|mut select| {
                let rows = select.query_map([], |row| Ok((row.get(0)?, Arc::from(row.get::<_, String>(1)?))))?;
                rows.collect()
            });
        rows.map_err(sqlite(self.0.path()))
    }

    fn select(&self, from: &str, values: Vec<Value>) -> Result<Vec<Stored>, StoreError> {
        let db = self.0.reader();
        let rows = db.prepare_cached(&format!("SELECT {COLUMNS} FROM {from}")).and_then(|mut select| {
            let rows = select.query_map(params_from_iter(values), stored)?;
            rows.collect::<Result<Vec<_>, _>>()
        });
        let mut runs = rows.map_err(sqlite(self.0.path()))?;
        let mut owners = BTreeMap::new();
        for run in runs.iter_mut().filter(|run| run.parked) {
            let owner = match owners.entry(run.owner) {
                Entry::Occupied(owner) => *owner.get(),
                Entry::Vacant(place) => {
                    let owner = run.owner.map(u64::cast_signed);
                    let owner = self.0.locks.owner_or_heir(&db, owner, true, self.0.path())?;
                    *place.insert(owner.map(|owner| owner.host))
                }
            };
            run.owner = owner;
        }
        Ok(runs)
    }
}

/// The conditions of a filter, on `label` and `run` if it has labels, else on `run`. `by_id`: few
/// ids have the prefix, so that they are found by it.
fn clauses(filter: &Filter, by_id: bool) -> (String, Vec<Value>) {
    let Filter { ended, damaged, status, name, created_min, created_before, .. } = filter;
    let mut clauses: Vec<&str> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    // The table whose order is that of the list.
    let (after, min, before) = match filter.labels.first() {
        Some((key, value)) => {
            clauses.push("label.key = ? AND label.value = ?");
            values.extend([key.clone().into(), value.clone().into()]);
            ("(label.created, label.run) < (?, ?)", "label.created >= ?", "label.created < ?")
        }
        None => ("(run.created, run.run) < (?, ?)", "run.created >= ?", "run.created < ?"),
    };
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
        (min, created_min.map(|at| at.0.cast_signed().into())),
        (before, created_before.map(|at| at.0.cast_signed().into())),
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
        clauses.push(if by_id { "id >= ? AND id < ?" } else { "+id >= ? AND +id < ?" });
        values.extend([prefix.clone().into(), behind(prefix).into()]);
    }
    for (key, value) in filter.labels.iter().skip(1) {
        clauses
            .push("EXISTS (SELECT 1 FROM label AS more WHERE more.run = run.run AND more.key = ? AND more.value = ?)");
        values.extend([key.clone().into(), value.clone().into()]);
    }
    if let Some(version) = filter.version {
        clauses.push("version = ?");
        values.push(version.cast_signed().into());
    }
    if let Some(ListPlace { created, row }) = filter.after {
        clauses.push(after);
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
        parked: row.get(11)?,
    })
}
