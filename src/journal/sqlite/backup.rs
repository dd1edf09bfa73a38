//! Copying a store's file while processes write it, and checking such a copy.
//!
//! The copy is the store at one moment: all its pages are read in one transaction, so processes
//! write on meanwhile, and SQLite's log grows by what they write until the copy is made. In the
//! copy no host owns a run, and the last row of each run is known, as if all hosts had ended at
//! that moment (`ownership.rs`). Rejected: `VACUUM INTO`, which sorts every index anew and cannot
//! report how far it is.

use super::error::sqlite;
use super::ownership::fence;
use super::schema::{self, connect, make_file};
use super::{Sqlite, StoreError};
use crate::journal::{CopyContents, CopyError};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;
use std::time::Duration;

/// Pages between two reports of progress: 4 MiB. Arbitrary.
const PAGES: i32 = 1_024;
/// How long to wait while SQLite's locks are taken. Arbitrary.
const BUSY: Duration = Duration::from_millis(5);
/// Findings of SQLite that are reported of a damaged copy. Arbitrary.
const FINDINGS_MAX: u32 = 3;

impl Sqlite {
    pub(super) fn copy_to(&self, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<CopyContents, StoreError> {
        copy_pages(self.0.path(), to, progress)?;
        let fails = sqlite(to);
        let mut copy = connect(to)?;
        disown(&mut copy).map_err(&fails)?;
        let contents = contents(&copy).map_err(&fails)?;
        // All of it in one file: whoever copies the copy needs no other.
        copy.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(&fails)?;
        copy.close().map_err(|(_, error)| fails(error))?;
        Ok(contents)
    }

    pub(super) fn copy_snapshots_to(&self, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<bool, StoreError> {
        let from = self.0.path().with_file_name(crate::journal::layout::SNAPSHOTS);
        let is_there = from.exists();
        if is_there {
            copy_pages(&from, to, progress)?;
        }
        Ok(is_there)
    }

    pub(in crate::journal) fn check_copy(path: &Path) -> Result<CopyContents, CopyError> {
        let fails = |error| CopyError::Store(sqlite(path)(error));
        let mut db = Connection::open(path).map_err(fails)?;
        let read = db.transaction_with_behavior(TransactionBehavior::Deferred).map_err(fails)?;
        let known = (schema::MIGRATIONS.len() as u64).cast_signed();
        schema::format(&read, known, path).map_err(CopyError::Store)?;
        let mut check = read.prepare(&format!("PRAGMA quick_check({FINDINGS_MAX})")).map_err(fails)?;
        let found = check.query_map([], |row| row.get::<_, String>(0)).map_err(fails)?;
        let found = found.collect::<Result<Vec<_>, _>>().map_err(fails)?;
        if found != ["ok"] {
            return Err(CopyError::Damaged(found.join("; ")));
        }
        contents(&read).map_err(fails)
    }
}

/// Copies all pages of a file of SQLite, in one transaction.
fn copy_pages(from: &Path, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError> {
    let (of_source, of_copy) = (sqlite(from), sqlite(to));
    let mut source = Connection::open(from).map_err(&of_source)?;
    source.busy_handler(Some(schema::waits)).map_err(&of_source)?;
    // The transaction of a reader is held until the end: otherwise each write of another process
    // would begin the copy anew.
    source.execute_batch("BEGIN").map_err(&of_source)?;
    let page: i64 = source.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(&of_source)?;
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(&of_source)?;
    make_file(to);
    let mut copy = Connection::open(to).map_err(&of_copy)?;
    // A copy that is interrupted is thrown away, and a whole one is synced by whoever asked for it.
    copy.pragma_update(None, "synchronous", "OFF").map_err(&of_copy)?;
    copy.pragma_update(None, "journal_mode", "OFF").map_err(&of_copy)?;
    let pages = Backup::new(&source, &mut copy).map_err(&of_copy)?;
    let bytes = |pages: i32| u64::from(pages.cast_unsigned()) * page.cast_unsigned();
    loop {
        match pages.step(PAGES).map_err(&of_copy)? {
            StepResult::Done => break,
            StepResult::More => {}
            _ => std::thread::sleep(BUSY),
        }
        let now = pages.progress();
        progress(bytes(now.pagecount - now.remaining), bytes(now.pagecount));
    }
    drop(pages);
    copy.close().map_err(|(_, error)| of_copy(error))
}

/// Releases the runs of all hosts, and forgets the hosts and who is signed in.
fn disown(copy: &mut Connection) -> rusqlite::Result<()> {
    let change = copy.transaction()?;
    let mut select = change.prepare("SELECT host FROM host")?;
    let hosts = select.query_map([], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    drop(select);
    for host in hosts {
        fence(&change, host)?;
    }
    change.execute("UPDATE run SET owner = NULL WHERE owner IS NOT NULL AND wake IS NOT NULL", [])?;
    // Their numbers are not given out again.
    change.execute("DELETE FROM host", [])?;
    change.execute("DELETE FROM session", [])?;
    change.commit()
}

fn contents(db: &Connection) -> rusqlite::Result<CopyContents> {
    let count = |clause: &str| {
        db.query_row(&format!("SELECT count(*) FROM run {clause}"), [], |row| row.get(0)).map(i64::cast_unsigned)
    };
    let mut select =
        db.prepare("SELECT hash FROM run_component UNION SELECT value FROM workflow, json_each(workflow.components)")?;
    let components = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut select = db.prepare("SELECT lower(hex(hash)) FROM held_blob")?;
    let blobs = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(CopyContents { runs: count("")?, unfinished: count("WHERE status IS NULL")?, components, blobs })
}
