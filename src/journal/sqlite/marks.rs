//! Marks in the log: where some rows of an unfinished run are, so that it is read forward a page at
//! a time.
//!
//! The rows of a run are a list from its last one back, which the writer makes without an index.
//! Whoever reads such a run from its beginning would walk over all of it for each page. So the
//! first walk leaves a mark at every [`STRIDE`]th row, and later ones begin at the mark after the
//! record they look for. A row is never changed and its number never reused: marks are never wrong,
//! and may be forgotten at any time.

use super::error::ReadError;
use super::rows::{Link, RunRow, link};
use rusqlite::Connection;
use std::collections::HashMap;

/// Rows from one mark to the next: a page of most runs has fewer. Tests have it smaller.
const STRIDE: usize = if cfg!(test) { 4 } else { 128 };

/// Marks of all runs together: 16 MiB.
const MARKS_MAX: usize = 1 << 20;

/// A row of the log.
#[derive(Clone, Copy)]
struct Mark {
    id: i64,
    /// The number of its first record.
    seq: i64,
}

#[derive(Default)]
struct Marked {
    /// In the order of the log.
    marks: Vec<Mark>,
    used: u64,
}

/// The marks of runs that were read forward.
#[derive(Default)]
pub(super) struct Marks {
    runs: HashMap<i64, Marked>,
    count: usize,
    uses: u64,
}

impl Marks {
    /// Returns a row at or after the one with this record, close to it: where a walk back to it
    /// begins.
    pub(super) fn start(&mut self, db: &Connection, run: &RunRow, record: u64) -> Result<i64, ReadError> {
        let record = record.cast_signed();
        self.uses += 1;
        let known: &[Mark] = match self.runs.get_mut(&run.row) {
            Some(marked) => {
                marked.used = self.uses;
                &marked.marks
            }
            None => &[],
        };
        if let Some(mark) = after(known, record) {
            return Ok(mark.id.min(run.head));
        }
        let last = known.last().map_or(0, |mark| mark.id);
        let mut found = Vec::new();
        let (mut id, mut walked) = (run.head, 0);
        // Another reader may have seen a later state of the file: then the last mark is behind the
        // head.
        while id > last {
            let Link { seq, prev } = link(db, run, id)?;
            if seq <= record && found.is_empty() {
                return Ok(run.head);
            }
            walked += 1;
            if walked % STRIDE == 0 {
                found.push(Mark { id, seq });
            }
            id = prev;
        }
        found.reverse();
        let start = after(&found, record).map_or(run.head, |mark| mark.id);
        self.add(run.row, found);
        Ok(start)
    }

    fn add(&mut self, run: i64, found: Vec<Mark>) {
        self.count += found.len();
        let marked = self.runs.entry(run).or_default();
        marked.marks.extend(found);
        marked.used = self.uses;
        while self.count > MARKS_MAX {
            let Some((&oldest, _)) = self.runs.iter().min_by_key(|(_, marked)| marked.used) else { return };
            self.count -= self.runs.remove(&oldest).map_or(0, |marked| marked.marks.len());
        }
    }
}

/// Returns the first mark whose row begins after a record.
fn after(marks: &[Mark], record: i64) -> Option<&Mark> {
    marks.get(marks.partition_point(|mark| mark.seq <= record))
}
