//! Retention: removing ended runs that are too old or too many, and what only they needed.

use super::error::{io, sqlite};
use super::remove::remove_rows;
use super::rows::RunRow;
use super::{Sqlite, StoreError};
use crate::journal::{Retention, layout};
use crate::run::BlobStore as _;
use rusqlite::{Connection, TransactionBehavior, params};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Runs removed in one transaction, which the writer may have to wait for. Arbitrary.
const RUNS: u32 = 32;
/// Age of a component's file that no run names before it is deleted: a host that begins a run
/// touches its files first. Arbitrary.
const COMPONENT_AGE_MIN: Duration = Duration::from_hours(1);

impl Sqlite {
    pub(super) fn sweep(&self, retention: &Retention) -> Result<u64, StoreError> {
        let fails = sqlite(self.0.path());
        let mut swept = 0;
        loop {
            let mut db = self.0.reader();
            let write_lock = self.0.write_lock();
            let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
            let runs = beyond(&change, retention).map_err(&fails)?;
            for run in &runs {
                remove_rows(&change, run).map_err(&fails)?;
            }
            change.commit().map_err(&fails)?;
            parking_lot::MutexGuard::unlock_fair(write_lock);
            drop(db);
            for run in &runs {
                self.0.snapshots().remove(run.row)?;
            }
            swept += runs.len() as u64;
            if runs.is_empty() {
                break;
            }
        }
        self.sweep_snapshots()?;
        self.sweep_components()?;
        self.sweep_blobs()?;
        Ok(swept)
    }

    /// Removes the snapshots of runs that are gone: a process that removed such a run ended before
    /// it removed the snapshots.
    fn sweep_snapshots(&self) -> Result<(), StoreError> {
        let fails = sqlite(self.0.path());
        for run in self.0.snapshots().runs()? {
            let is_there = self
                .0
                .reader()
                .prepare_cached("SELECT 1 FROM run WHERE run = ?1")
                .and_then(|mut select| select.exists([run]))
                .map_err(&fails)?;
            if !is_there {
                self.0.snapshots().remove(run)?;
            }
        }
        Ok(())
    }

    /// Removes the blobs that no run holds.
    fn sweep_blobs(&self) -> Result<(), StoreError> {
        let folder = self.0.path().with_file_name(layout::BLOBS);
        self.blobs().sweep().map(drop).map_err(|error| io(&folder)(std::io::Error::other(error)))
    }

    /// Deletes the files of components that no run names.
    fn sweep_components(&self) -> Result<(), StoreError> {
        let folder = self.0.path().with_file_name(layout::COMPONENTS);
        let Ok(files) = std::fs::read_dir(&folder) else { return Ok(()) };
        for file in files {
            let path = file.map_err(io(&folder))?.path();
            if is_old(&path) {
                self.sweep_component(&path)?;
            }
        }
        Ok(())
    }

    fn sweep_component(&self, path: &Path) -> Result<(), StoreError> {
        let fails = sqlite(self.0.path());
        let Some(hash) = path.file_stem().and_then(|stem| stem.to_str()) else { return Ok(()) };
        // No run begins meanwhile, and a host that begins the next one has touched the file, or
        // finds that it does not exist.
        let mut db = self.0.reader();
        let _write_lock = self.0.write_lock();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let is_named = change
            .prepare_cached(
                "SELECT 1 FROM run_component WHERE hash = ?1 UNION ALL
                 SELECT 1 FROM workflow, json_each(workflow.components) WHERE json_each.value = ?1",
            )
            .and_then(|mut select| select.exists([hash]))
            .map_err(&fails)?;
        if !is_named && is_old(path) {
            std::fs::remove_file(path).map_err(io(path))?;
        }
        Ok(())
    }
}

fn is_old(path: &Path) -> bool {
    let modified = std::fs::metadata(path).and_then(|file| file.modified());
    modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age >= COMPONENT_AGE_MIN))
}

/// Reads some of the ended runs that are too old or too many.
fn beyond(db: &Connection, retention: &Retention) -> rusqlite::Result<Vec<RunRow>> {
    let mut runs = Vec::new();
    if let Some(before) = retention.ended_before {
        let mut select = db.prepare_cached(
            "SELECT run, created, epoch, head, records FROM run WHERE ended < ?1 ORDER BY ended LIMIT ?2",
        )?;
        runs = select.query_map(params![before.0.cast_signed(), RUNS], RunRow::ended)?.collect::<Result<_, _>>()?;
    }
    if let Some(most) = retention.runs_max.filter(|_| runs.is_empty()) {
        let mut select = db.prepare_cached(
            "SELECT run, created, epoch, head, records FROM run WHERE ended IS NOT NULL ORDER BY ended DESC, run DESC LIMIT ?1 OFFSET ?2",
        )?;
        runs = select.query_map(params![RUNS, most.cast_signed()], RunRow::ended)?.collect::<Result<_, _>>()?;
    }
    Ok(runs)
}
