//! What happened in a run before this command follows it, from the run's records.

use crate::cli::store::{Runs, runs_of};
use crate::host::{Host, Line, RunProjection};
use crate::process::Timestamp;
use crate::run::Record;
use crate::workflow::interpreter::progress::Progress;
use std::collections::BTreeSet;

/// Lines that are shown again. Arbitrary: more than a user reads; for a longer run only the steps
/// still running are shown.
const LINES_MAX: usize = 1_000;

/// Lines of a run, in order, and how many are omitted.
#[derive(Default)]
pub(in crate::cli) struct Backlog {
    pub(in crate::cli) lines: Vec<Line>,
    pub(in crate::cli) omitted: usize,
}

impl Backlog {
    /// All lines of a run's records, unless there are too many. A forked run has its steps from the
    /// time of the fork on.
    pub(in crate::cli) fn of(records: &[Record], created: Timestamp) -> Self {
        let mut reported = ReportedLines { created, ..ReportedLines::default() };
        for record in records {
            reported.apply(record);
        }
        let all = reported.lines.len();
        let lines = if all <= LINES_MAX { reported.lines } else { reported.of_steps_that_run() };
        Self { omitted: all - lines.len(), lines }
    }

    /// The steps still running when a run is recovered. Finished ones were reported by the previous
    /// host.
    pub(in crate::cli) fn of_recovered(host: &Host, id: &str) -> Self {
        // If they cannot be read, recovering the run says why.
        let read_all = |runs: Runs| {
            let mut reported = ReportedLines { created: runs.store.run(id).ok()??.created, ..ReportedLines::default() };
            runs.each_record(id, |record| reported.apply(&record)).ok()?.ok()?;
            Some(reported.of_steps_that_run())
        };
        Self { lines: runs_of(host).ok().and_then(read_all).unwrap_or_default(), omitted: 0 }
    }
}

/// The lines of records.
#[derive(Default)]
struct ReportedLines {
    lines: Vec<Line>,
    projection: RunProjection,
    /// When the run was created: earlier times in its records are those of the run that it was
    /// forked from.
    created: Timestamp,
}

impl ReportedLines {
    fn apply(&mut self, record: &Record) {
        let Self { lines, projection, created } = self;
        projection.apply(record, &mut |line| lines.push(Line { at: line.at.max(*created), ..line }));
    }

    fn of_steps_that_run(self) -> Vec<Line> {
        let running = self.projection.nodes().iter().filter(|node| node.status == "running");
        let run: BTreeSet<&str> = running.map(|node| node.node.as_str()).collect();
        let is_of_one =
            |line: &Line| matches!(line.progress(), Some(Progress::Node(node)) if run.contains(&*node.node));
        self.lines.into_iter().filter(is_of_one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::RunOptions;

    /// Its first records are copies of the other run's, with their earlier times.
    #[test]
    fn a_run_that_was_forked_has_its_steps_from_the_fork_on() {
        let guests = crate::guest::EngineOptions { slots: Some(1), ..Default::default() };
        let host = Host::builder().workers(1).guests(guests).build().unwrap();
        let text = "steps: [{ id: a, set: 1 }, { id: b, needs: a, wait: 1ms }]";
        let workflow = host.parse("past.yaml", text, ".").unwrap_or_else(|error| panic!("{error}"));
        let options = RunOptions { records: true, ..RunOptions::default() };
        let run = host.start(&workflow, serde_json::Map::new(), options).unwrap();
        run.wait();
        let records = run.records().unwrap();
        let times =
            |created: Timestamp| Backlog::of(&records, created).lines.iter().map(|line| line.at).collect::<Vec<_>>();
        let (own, last) = (times(Timestamp(0)), times(Timestamp(0)).into_iter().max().unwrap());
        assert!(own.len() > 2 && own.iter().any(|at| *at < last), "{own:?}");
        assert_eq!(times(last), vec![last; own.len()]);
    }
}
