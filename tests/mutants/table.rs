//! The result of each mutant, as a page.

use super::list::{Fate, Mutant, Tests};
use super::tiers::Ended;
use std::fmt::Write as _;
use std::time::Duration;

pub(crate) struct Row {
    pub(crate) mutant: Mutant,
    pub(crate) finding: Finding,
}

/// The result of a mutant.
#[derive(Default)]
pub(crate) struct Finding {
    pub(crate) seen: Vec<(Tests, Ended)>,
    /// How long that took.
    pub(crate) took: Duration,
    /// The day, in UTC.
    pub(crate) date: String,
    /// Whether it was found in an earlier sitting.
    pub(crate) is_taken_over: bool,
}

impl Finding {
    pub(crate) fn is_caught(&self) -> bool {
        self.seen.iter().any(|(_, ended)| *ended != Ended::Passed)
    }
}

pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
    /// How long it took to build the tiers, and to run them without a mutant.
    pub(crate) prepared: Duration,
}

impl Table {
    /// Mutants that no test saw, and that are not proved equivalent.
    pub(crate) fn survivors(&self) -> impl Iterator<Item = &Mutant> {
        let survives = |row: &&Row| !row.finding.seen.is_empty() && !row.finding.is_caught();
        self.rows.iter().filter(survives).map(|row| &row.mutant)
    }

    /// Mutants without a result.
    pub(crate) fn not_run(&self) -> impl Iterator<Item = &Mutant> {
        let is_not_run = |row: &&Row| matches!(row.mutant.fate, Fate::Caught(_)) && row.finding.seen.is_empty();
        self.rows.iter().filter(is_not_run).map(|row| &row.mutant)
    }

    pub(crate) fn render(&self) -> String {
        let equivalent = self.rows.iter().filter(|row| matches!(row.mutant.fate, Fate::Equivalent(_))).count();
        let caught = self.rows.iter().filter(|row| row.finding.is_caught()).count();
        let (survivors, not_run) = (self.survivors().count(), self.not_run().count());
        let run = || self.rows.iter().filter(|row| !row.finding.seen.is_empty()).map(|row| &row.finding);
        let took: Duration = run().map(|finding| finding.took).sum();
        let minutes = |time: Duration| time.as_secs().div_ceil(60);
        let day = |day: Option<&str>| day.unwrap_or("never").to_owned();
        let (first, last) =
            (day(run().map(|finding| &*finding.date).min()), day(run().map(|finding| &*finding.date).max()));
        let mut page = format!(
            "# Mutants\n\n\
             Faults that are put into a copy of the source one at a time, and the tiers of tests that see each. `cargo test` checks that the\n\
             list (`list/`) still fits the source. The table is written by\n\n\
             ```text\ncargo test --test mutants -- --ignored --nocapture\n```\n\n\
             and is what came of that the last time: {} mutants, {caught} caught, {equivalent} equivalent, {survivors} survived, {not_run} not known.\n\
             To build the tiers and to run them without a mutant took {} minutes (the first time all dependencies are built as well, into `target/mutants`), to\n\
             run them with each {}. The tests of a mutant are stopped when one fails; those that take longer than half a\n\
             minute, and in a hurry all, are run only where no others have seen it.\n\n\
             Rows are of {first} to {last}; {} were taken over from earlier sittings, with neither the mutant nor its file changed since.\n",
            self.rows.len(),
            minutes(self.prepared),
            minutes(took),
            run().filter(|finding| finding.is_taken_over).count(),
        );
        let mut file = "";
        for Row { mutant, finding } in &self.rows {
            if mutant.file != file {
                file = &mutant.file;
                let _ = write!(
                    page,
                    "\n## {file}\n\n| mutant | what is wrong | seen by | not seen by |\n|---|---|---|---|\n"
                );
            }
            let (by, not_by) = match &mutant.fate {
                Fate::Equivalent(proof) => (format!("equivalent: {proof}"), String::new()),
                Fate::Caught(_) if finding.seen.is_empty() => ("not known".to_owned(), String::new()),
                Fate::Caught(_) => {
                    (names(finding, |ended| ended != Ended::Passed), names(finding, |ended| ended == Ended::Passed))
                }
            };
            let _ = writeln!(page, "| {} | {} | {by} | {not_by} |", mutant.id, mutant.what);
        }
        page
    }
}

fn names(finding: &Finding, of: impl Fn(Ended) -> bool) -> String {
    let chosen = finding.seen.iter().filter(|(_, ended)| of(*ended));
    let names: Vec<String> = chosen
        .map(|(tests, ended)| if *ended == Ended::Hung { format!("{tests} (hangs)") } else { tests.to_string() })
        .collect();
    names.join(", ")
}
