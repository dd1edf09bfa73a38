//! What must hold of a data folder, between two hosts and at the end.

use crate::hosted;
use crate::server::Server;
use crate::work::Job;
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;
use std::time::Duration;
use wfhost::process::Payload;

fn open(data: &Path) -> Option<Connection> {
    let path = data.join("journal.db");
    path.exists().then(|| Connection::open(path).expect("the journal opens"))
}

/// The number of runs in a folder.
pub(crate) struct Census {
    pub(crate) unfinished: u64,
    /// One more than the number of the last run.
    pub(crate) next: u64,
}

/// Asks SQLite whether the file is intact, and counts the runs. No process has the folder open.
pub(crate) fn inspect(data: &Path) -> Census {
    let none = Census { unfinished: 0, next: 0 };
    let Some(db) = open(data) else { return none };
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok", "integrity_check of {}", data.display());
    let is_new = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)).unwrap() == 0;
    if is_new {
        return none;
    }
    let ids = |which: &str| -> Vec<String> {
        let mut select = db.prepare(&format!("SELECT id FROM run WHERE {which}")).unwrap();
        select.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    Census {
        unfinished: ids("status IS NULL").len() as u64,
        next: ids("true").iter().map(|id| Job::of(id).0 + 1).max().unwrap_or(0),
    }
}

/// Whether no process is in the middle of a transaction.
pub(crate) fn is_free(data: &Path) -> bool {
    let db = open(data).expect("there is a journal");
    db.busy_timeout(Duration::from_millis(200)).unwrap();
    db.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
}

/// The runs that have ended, as far as the disk shows.
pub(crate) fn ended(data: &Path) -> Vec<Job> {
    let db = open(data).expect("there is a journal");
    let mut select = db.prepare("SELECT id FROM run WHERE status IS NOT NULL").unwrap();
    select.query_map([], |row| Ok(Job::of(&row.get::<_, String>(0)?))).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Everything that must hold when the last host has ended well: each run has ended, its records
/// lead to the right outputs when it is replayed from the start, and its effects happened, each
/// under one key.
pub(crate) fn against(data: &Path, server: &Server, runs: u64) -> Vec<String> {
    against_runs(data, server, &(0..runs).map(Job).collect::<Vec<_>>())
}

/// The same for some of the runs.
pub(crate) fn against_runs(data: &Path, server: &Server, runs: &[Job]) -> Vec<String> {
    let host = hosted::host(data, 64, false);
    let journal = host.journal().expect("the journal opens").expect("it has a folder");
    let mut against = Vec::new();
    let unfinished = journal.unfinished().unwrap();
    against.extend(unfinished.iter().map(|run| format!("{} is unfinished", run.id)));
    let expected: Vec<String> = runs.iter().flat_map(|job| job.effects()).collect();
    against.extend(server.against(&expected));
    for &job in runs {
        if let Err(why) = replay(&host, journal, job) {
            against.push(format!("{}: {why}", job.id()));
        }
    }
    against
}

fn replay(host: &wfhost::host::Host, journal: &wfhost::host::Journal, job: Job) -> Result<(), String> {
    let records = journal.records(&job.id()).map_err(|error| error.to_string())?;
    let workflow = host.workflow_of(&job.id()).map_err(|error| error.to_string())?;
    let rebuilt = host.rebuild(&workflow, &records).map_err(|error| error.to_string())?;
    match rebuilt.result() {
        Some(Ok(Payload::Json(outputs))) if outputs.to_value() == job.outputs() => Ok(()),
        Some(Ok(outputs)) => Err(format!("gave {outputs:?} and not {}", job.outputs())),
        Some(Err(problem)) => Err(format!("failed: {problem}")),
        None => Err("has no result".to_owned()),
    }
}

/// Damages a record in the middle of an unfinished run, and returns which. `None` if no unfinished
/// run has several rows.
pub(crate) fn damage(data: &Path) -> Option<Job> {
    let db = open(data).expect("there is a journal");
    // The run that has the most rows.
    let (id, run): (String, i64) = db
        .query_row(
            "SELECT run.id, run FROM log JOIN run USING (run) WHERE status IS NULL GROUP BY run HAVING count(*) > 1 \
             ORDER BY count(*) DESC, run LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()
        .unwrap()?;
    let (row, mut bytes): (i64, Vec<u8>) = db
        .query_row("SELECT log.id, data FROM log WHERE run = ?1 ORDER BY id LIMIT 1 OFFSET 1", [run], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .expect("it has several rows");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    db.execute("UPDATE log SET data = ?2 WHERE id = ?1", (row, bytes)).unwrap();
    Some(Job::of(&id))
}

/// Gives the store another format number; returns the previous one.
pub(crate) fn set_format(data: &Path, format: i64) -> i64 {
    let db = open(data).expect("there is a journal");
    let before = db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    db.pragma_update(None, "user_version", format).unwrap();
    before
}
