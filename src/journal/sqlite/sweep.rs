//! Retention: ended runs that are too old or too many go, and what only they had.

use super::ownership::delete;
use super::read::Place;
use super::schema::{io, sqlite};
use super::{Sqlite, StoreError};
use crate::journal::Retention;
use rusqlite::{Connection, TransactionBehavior, params};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Runs that are deleted in one transaction, which the writer may have to wait for. Arbitrary.
const RUNS: u32 = 32;
/// Age of a component's file that no run names before it is deleted: whoever begins a run makes its files young first. Arbitrary.
const COMPONENT_AGE_MIN: Duration = Duration::from_hours(1);

impl Sqlite {
    pub(super) fn sweep(&self, retention: &Retention) -> Result<u64, StoreError> {
        let fails = sqlite(self.0.path());
        let mut swept = 0;
        loop {
            let mut db = self.0.reader();
            let pen = self.0.pen();
            let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
            let places = over(&change, retention).map_err(&fails)?;
            for place in &places {
                delete(&change, place).map_err(&fails)?;
            }
            change.commit().map_err(&fails)?;
            parking_lot::MutexGuard::unlock_fair(pen);
            drop(db);
            for place in &places {
                self.0.snapshots().forget(place.run)?;
            }
            swept += places.len() as u64;
            if places.is_empty() {
                break;
            }
        }
        self.sweep_snapshots()?;
        self.sweep_components()?;
        Ok(swept)
    }

    /// Removes the snapshots of runs that are gone: whoever removed one of those ended before it came to them.
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
                self.0.snapshots().forget(run)?;
            }
        }
        Ok(())
    }

    /// Deletes the files of components that no run names.
    fn sweep_components(&self) -> Result<(), StoreError> {
        let folder = self.0.path().with_file_name("components");
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
        // Nobody begins a run meanwhile, and who does next has made the file young or finds that it is not there.
        let mut db = self.0.reader();
        let _pen = self.0.pen();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        let is_named = change
            .prepare_cached("SELECT 1 FROM run_component WHERE hash = ?1")
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

/// Some of the ended runs that are too old or too many.
fn over(db: &Connection, retention: &Retention) -> rusqlite::Result<Vec<Place>> {
    let mut places = Vec::new();
    if let Some(before) = retention.ended_before {
        let mut select = db.prepare_cached(
            "SELECT run, created, epoch, head, records FROM run WHERE ended < ?1 ORDER BY ended LIMIT ?2",
        )?;
        places = select.query_map(params![before.0.cast_signed(), RUNS], Place::ended)?.collect::<Result<_, _>>()?;
    }
    if let Some(most) = retention.runs_max.filter(|_| places.is_empty()) {
        let mut select = db.prepare_cached(
            "SELECT run, created, epoch, head, records FROM run WHERE ended IS NOT NULL ORDER BY ended DESC, run DESC LIMIT ?1 OFFSET ?2",
        )?;
        places = select.query_map(params![RUNS, most.cast_signed()], Place::ended)?.collect::<Result<_, _>>()?;
    }
    Ok(places)
}
