//! Deployed workflows.

use super::{micros, time};
use crate::journal::catalog::{Activated, ActiveVersion, Deployments, NewVersion, Version};
use crate::journal::{Sqlite, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};

const COLUMNS: &str = "version, name, number, digest, file, source, components, created, author, note";

impl Deployments for Sqlite {
    fn deploy(&self, new: &NewVersion) -> Result<(Version, bool), StoreError> {
        self.change(|change| {
            let same = format!("SELECT {COLUMNS} FROM workflow WHERE name = ?1 AND digest = ?2");
            if let Some(known) = change.query_row(&same, [&new.name, &new.digest], version).optional()? {
                return Ok((known, false));
            }
            let next = "INSERT INTO newest (name, number) VALUES (?1, 1)
                        ON CONFLICT (name) DO UPDATE SET number = number + 1 RETURNING number";
            let number: i64 = change.query_row(next, [&new.name], |row| row.get(0))?;
            let add = format!(
                "INSERT INTO workflow (name, number, digest, file, source, components, created, author, note)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING {COLUMNS}"
            );
            let NewVersion { name, digest, file, source, components, created, author, note } = new;
            let values = params![name, number, digest, file, source, components, micros(*created), author, note];
            Ok((change.query_row(&add, values, version)?, true))
        })
    }

    fn activate(&self, active: &ActiveVersion, expected: Option<u64>) -> Result<Activated, StoreError> {
        let ActiveVersion { name, number, since, author } = active;
        let number = number.cast_signed();
        self.change(|change| {
            let exists = "SELECT 1 FROM workflow WHERE name = ?1 AND number = ?2";
            if !change.prepare_cached(exists)?.exists(params![name, number])? {
                return Ok(Activated::Unknown);
            }
            let now = "SELECT number FROM active WHERE name = ?1";
            let now: Option<i64> = change.query_row(now, [name], |row| row.get(0)).optional()?;
            let now = now.map(i64::cast_unsigned);
            if expected.is_some_and(|expected| expected != now.unwrap_or(0)) {
                return Ok(Activated::Other(now));
            }
            change.execute(
                "INSERT INTO active (name, number, since, author) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (name) DO UPDATE SET number = ?2, since = ?3, author = ?4 WHERE number <> ?2",
                params![name, number, micros(*since), author],
            )?;
            Ok(Activated::Done)
        })
    }

    fn active_versions(&self) -> Result<Vec<ActiveVersion>, StoreError> {
        self.look(|db| {
            let mut select = db.prepare_cached("SELECT name, number, since, author FROM active ORDER BY name")?;
            let rows = select.query_map([], |row| {
                let number = row.get::<_, i64>(1)?.cast_unsigned();
                Ok(ActiveVersion { name: row.get(0)?, number, since: time(row.get(2)?), author: row.get(3)? })
            })?;
            rows.collect()
        })
    }

    fn versions(&self, name: &str) -> Result<Vec<Version>, StoreError> {
        self.look(|db| {
            let select = format!("SELECT {COLUMNS} FROM workflow WHERE name = ?1 ORDER BY number DESC");
            let mut select = db.prepare_cached(&select)?;
            select.query_map([name], version)?.collect()
        })
    }

    fn workflow_names(&self) -> Result<Vec<String>, StoreError> {
        self.look(|db| {
            let mut select = db.prepare_cached("SELECT DISTINCT name FROM workflow ORDER BY name")?;
            select.query_map([], |row| row.get(0))?.collect()
        })
    }

    fn version(&self, name: &str, number: u64) -> Result<Option<Version>, StoreError> {
        self.look(|db| one(db, name, number))
    }

    fn remove_version(&self, name: &str, number: u64) -> Result<Option<bool>, StoreError> {
        self.change(|change| {
            let Some(known) = one(change, name, number)? else { return Ok(None) };
            let removed = change.execute(
                "DELETE FROM workflow WHERE version = ?1
                   AND NOT EXISTS (SELECT 1 FROM run WHERE version = ?1)
                   AND NOT EXISTS (SELECT 1 FROM active WHERE name = ?2 AND number = ?3)",
                params![known.row.cast_signed(), name, number.cast_signed()],
            )?;
            Ok(Some(removed > 0))
        })
    }

    fn deployed_components(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.look(|db| {
            let mut select = db.prepare_cached(
                "SELECT DISTINCT value, name FROM workflow, json_each(workflow.components) ORDER BY value, name",
            )?;
            select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
    }
}

fn one(db: &Connection, name: &str, number: u64) -> rusqlite::Result<Option<Version>> {
    let select = format!("SELECT {COLUMNS} FROM workflow WHERE name = ?1 AND number = ?2");
    db.prepare_cached(&select)?.query_row(params![name, number.cast_signed()], version).optional()
}

fn version(row: &Row<'_>) -> rusqlite::Result<Version> {
    Ok(Version {
        row: row.get::<_, i64>(0)?.cast_unsigned(),
        name: row.get(1)?,
        number: row.get::<_, i64>(2)?.cast_unsigned(),
        digest: row.get(3)?,
        file: row.get(4)?,
        source: row.get(5)?,
        components: row.get(6)?,
        created: time(row.get(7)?),
        author: row.get(8)?,
        note: row.get(9)?,
    })
}
