//! What was told of a run before somebody began to follow it: it stands in the run's records.

use super::run::opened;
use crate::host::{Host, Line, Story};
use crate::run::Record;
use crate::workflow::interpreter::progress::Progress;
use std::collections::BTreeSet;

/// Lines that are told again. Arbitrary: more than a person reads; of a longer run only the steps that still run are told.
const LINES_MAX: usize = 1_000;

/// Lines of a run, in their order, and how many are left out.
#[derive(Default)]
pub(super) struct Past {
    pub(super) lines: Vec<Line>,
    pub(super) left_out: usize,
}

impl Past {
    /// All that the records say, as far as it is not too much.
    pub(super) fn of(records: &[Record]) -> Self {
        let (lines, story) = read(records);
        let all = lines.len();
        let lines = if all <= LINES_MAX { lines } else { of_steps_that_run(lines, &story) };
        Self { left_out: all - lines.len(), lines }
    }

    /// What a host needs to be told that is about to take a run up: the steps that run. What is over was told where it happened.
    pub(super) fn of_taken_up(host: &Host, id: &str) -> Self {
        // Where they cannot be read, taking the run up says why.
        let records = opened(host).ok().and_then(|runs| runs.all_records(id).ok()).unwrap_or_default();
        let (lines, story) = read(&records);
        Self { lines: of_steps_that_run(lines, &story), left_out: 0 }
    }
}

fn read(records: &[Record]) -> (Vec<Line>, Story) {
    let (mut lines, mut story) = (Vec::new(), Story::default());
    for record in records {
        story.hear(record, &mut |line| lines.push(line));
    }
    (lines, story)
}

fn of_steps_that_run(lines: Vec<Line>, story: &Story) -> Vec<Line> {
    let run: BTreeSet<&str> =
        story.nodes().iter().filter(|node| node.status == "running").map(|node| node.node.as_str()).collect();
    let is_of_one = |line: &Line| matches!(line.progress(), Some(Progress::Node(node)) if run.contains(&*node.node));
    lines.into_iter().filter(is_of_one).collect()
}
