//! Last rows of runs that are not written down yet.
//!
//! Where the last row of a run is stands in `run.head` when nobody has the run. While a host has it, its later rows are found by reading the
//! log from `host.saved` on, and that part is kept short: with each group, the last rows of those runs are written down that have waited
//! longest, as soon as it has grown beyond a bound.

use std::collections::{BTreeMap, HashMap};

/// Rows of the log that may have to be read to find the last rows of a dead host's runs. Arbitrary: some 20 ms.
const TAIL_ROWS: i64 = 32_768;
/// Runs whose last rows are written down with a group, beyond as many as it has itself. Arbitrary.
const SAVED_WITH_GROUP: usize = 64;

/// The last row of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Last {
    pub(super) run: i64,
    pub(super) row: i64,
    pub(super) records: u64,
}

/// The runs of this host that have rows beyond what is written down of them.
#[derive(Default)]
pub(super) struct Unsaved {
    /// By the first of those rows.
    first: BTreeMap<i64, i64>,
    /// Of each run, that first row, and its last one.
    runs: HashMap<i64, (i64, Last)>,
    /// All of them are behind this row.
    saved: i64,
}

/// What is written down with a group.
#[derive(Default)]
pub(super) struct Save {
    pub(super) runs: Vec<Last>,
    /// What is said of the host then.
    pub(super) saved: i64,
}

impl Unsaved {
    /// What is written down with a group whose rows are these.
    pub(super) fn plan(&self, rows: &[Last]) -> Option<Save> {
        let (begin, end) = (rows.first()?.row, rows.last()?.row);
        if end - self.saved <= TAIL_ROWS {
            return None;
        }
        let mut oldest = self.first.iter();
        let runs: Vec<_> =
            oldest.by_ref().take(SAVED_WITH_GROUP + rows.len()).map(|(_, run)| self.runs[run].1).collect();
        let saved = oldest.next().map_or(begin, |(first, _)| *first) - 1;
        Some(Save { runs, saved })
    }

    /// A group is durable, with what was planned for it.
    pub(super) fn done(&mut self, save: Option<Save>, rows: &[Last], gone: &[i64]) {
        if let Some(save) = save {
            for last in &save.runs {
                self.forget(last.run);
            }
            self.saved = save.saved;
        }
        for last in rows {
            let (first, known) = self.runs.entry(last.run).or_insert((last.row, *last));
            *known = *last;
            self.first.entry(*first).or_insert(last.run);
        }
        for run in gone {
            self.forget(*run);
        }
    }

    fn forget(&mut self, run: i64) {
        if let Some((first, _)) = self.runs.remove(&run) {
            self.first.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever happens, the last row of each run is where it is looked for.
        #[test]
        fn each_last_row_is_found(groups in proptest::collection::vec((1_i64..300, 0_i64..2_000, proptest::bool::ANY), 1..400)) {
            let mut unsaved = Unsaved::default();
            let (mut heads, mut lasts) = (HashMap::new(), HashMap::new());
            let (mut row, mut saved) = (0, 0);
            for (length, start, ends) in groups {
                let rows: Vec<_> = (0..length)
                    .map(|at| {
                        row += 1 + start % 7;
                        Last { run: (start + at * 31) % 2_000, row, records: 1 }
                    })
                    .collect::<Vec<_>>();
                let mut distinct: BTreeMap<i64, Last> = BTreeMap::new();
                distinct.extend(rows.into_iter().map(|last| (last.run, last)));
                let mut rows: Vec<_> = distinct.into_values().collect();
                rows.sort_by_key(|last| last.row);
                let save = unsaved.plan(&rows);
                if let Some(save) = &save {
                    heads.extend(save.runs.iter().map(|last| (last.run, last.row)));
                    prop_assert!(save.saved >= saved);
                    saved = save.saved;
                }
                lasts.extend(rows.iter().map(|last| (last.run, last.row)));
                let gone: Vec<_> = rows.iter().filter(|_| ends).map(|last| last.run).take(3).collect();
                for run in &gone {
                    heads.insert(*run, lasts[run]);
                }
                unsaved.done(save, &rows, &gone);
                for (run, last) in &lasts {
                    prop_assert!(heads.get(run) == Some(last) || *last > saved, "run {run}: {last}, saved {saved}");
                }
                prop_assert!(row - saved <= TAIL_ROWS + 7 * 300 || unsaved.runs.len() > SAVED_WITH_GROUP);
            }
        }
    }
}
