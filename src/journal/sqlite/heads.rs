//! Last rows of runs, and when they are saved.
//!
//! The last row of a run is in `run.head` when no host owns the run. While a host owns it, its
//! later rows are found by reading the log from `host.saved` on, and that part is kept short: as
//! soon as it has grown beyond a bound, each group also saves the last rows of the runs that have
//! waited longest.

use std::collections::{BTreeMap, HashMap};

/// Rows of the log that may have to be read to find the last rows of a dead host's runs. Arbitrary:
/// some 20 ms.
const TAIL_ROWS: i64 = 32_768;
/// Runs whose last rows are saved with a group, beyond as many as the group has itself. Arbitrary.
const SAVED_WITH_GROUP: usize = 64;

/// The last row of a run in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) run: i64,
    pub(super) row: i64,
    pub(super) records: u64,
}

/// The runs of this host that have rows beyond those that are saved.
#[derive(Default)]
pub(super) struct UnsavedHeads {
    /// The runs by the first of those rows.
    first: BTreeMap<i64, i64>,
    /// That first row of each run, and its last one.
    runs: HashMap<i64, (i64, Head)>,
    /// All those rows are behind this one.
    saved: i64,
}

/// What is saved with a group.
#[derive(Default)]
pub(super) struct HeadsToSave {
    pub(super) runs: Vec<Head>,
    /// The new value of `host.saved`.
    pub(super) saved: i64,
}

impl UnsavedHeads {
    /// Chooses what to save with a group of these rows.
    pub(super) fn plan(&self, rows: &[Head]) -> Option<HeadsToSave> {
        let (begin, end) = (rows.first()?.row, rows.last()?.row);
        if end - self.saved <= TAIL_ROWS {
            return None;
        }
        let mut oldest = self.first.iter();
        let runs: Vec<_> =
            oldest.by_ref().take(SAVED_WITH_GROUP + rows.len()).map(|(_, run)| self.runs[run].1).collect();
        let saved = oldest.next().map_or(begin, |(first, _)| *first) - 1;
        Some(HeadsToSave { runs, saved })
    }

    /// Notes that a group is durable, with what was planned for it, and which runs this host owns
    /// no more.
    pub(super) fn done(&mut self, save: Option<HeadsToSave>, rows: &[Head], released: &[i64]) {
        if let Some(save) = save {
            for head in &save.runs {
                self.forget(head.run);
            }
            self.saved = save.saved;
        }
        for head in rows {
            let (first, known) = self.runs.entry(head.run).or_insert((head.row, *head));
            *known = *head;
            self.first.entry(*first).or_insert(head.run);
        }
        for run in released {
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
        /// The last row of each run is saved, or behind what is saved of the host.
        #[test]
        fn each_last_row_is_found(groups in proptest::collection::vec((1_i64..300, 0_i64..2_000, proptest::bool::ANY), 1..400)) {
            let mut unsaved_heads = UnsavedHeads::default();
            let (mut heads, mut lasts) = (HashMap::new(), HashMap::new());
            let (mut row, mut saved) = (0, 0);
            for (length, start, ends) in groups {
                let rows: Vec<_> = (0..length)
                    .map(|at| {
                        row += 1 + start % 7;
                        Head { run: (start + at * 31) % 2_000, row, records: 1 }
                    })
                    .collect::<Vec<_>>();
                let mut distinct: BTreeMap<i64, Head> = BTreeMap::new();
                distinct.extend(rows.into_iter().map(|last| (last.run, last)));
                let mut rows: Vec<_> = distinct.into_values().collect();
                rows.sort_by_key(|last| last.row);
                let save = unsaved_heads.plan(&rows);
                if let Some(save) = &save {
                    heads.extend(save.runs.iter().map(|last| (last.run, last.row)));
                    prop_assert!(save.saved >= saved);
                    saved = save.saved;
                }
                lasts.extend(rows.iter().map(|last| (last.run, last.row)));
                let released: Vec<_> = rows.iter().filter(|_| ends).map(|last| last.run).take(3).collect();
                for run in &released {
                    heads.insert(*run, lasts[run]);
                }
                unsaved_heads.done(save, &rows, &released);
                for (run, last) in &lasts {
                    prop_assert!(heads.get(run) == Some(last) || *last > saved, "run {run}: {last}, saved {saved}");
                }
                prop_assert!(row - saved <= TAIL_ROWS + 7 * 300 || unsaved_heads.runs.len() > SAVED_WITH_GROUP);
            }
        }
    }
}
