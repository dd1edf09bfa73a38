//! What became of each mutant, as a page.

use super::list::{Fate, Mutant, Tests};
use super::tiers::Ended;
use std::fmt::Write as _;
use std::time::Duration;

pub(crate) struct Row {
    pub(crate) mutant: Mutant,
    pub(crate) seen: Vec<(Tests, Ended)>,
}

pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
    pub(crate) built: Duration,
    pub(crate) took: Duration,
}

impl Table {
    /// Mutants that no test saw, and that are not proved equivalent.
    pub(crate) fn survivors(&self) -> impl Iterator<Item = &Mutant> {
        let survives = |row: &&Row| {
            matches!(row.mutant.fate, Fate::Caught(_)) && row.seen.iter().all(|(_, ended)| *ended == Ended::Passed)
        };
        self.rows.iter().filter(survives).map(|row| &row.mutant)
    }

    pub(crate) fn render(&self) -> String {
        let equivalent = self.rows.iter().filter(|row| matches!(row.mutant.fate, Fate::Equivalent(_))).count();
        let survivors = self.survivors().count();
        let minutes = |time: Duration| time.as_secs().div_ceil(60);
        let mut page = format!(
            "# Mutants\n\n\
             Faults that are put into a copy of the source one at a time, and the tiers of tests that see each. `cargo test` checks that the\n\
             list (`list/`) still fits the source. The table is written by\n\n\
             ```text\ncargo test --test mutants -- --ignored --nocapture\n```\n\n\
             and is what came of that the last time: {} mutants, {} caught, {equivalent} equivalent, {survivors} survived; in {} minutes, of which {} to\n\
             build. The first time all dependencies are built for it as well, into `target/mutants`.\n",
            self.rows.len(),
            self.rows.len() - equivalent - survivors,
            minutes(self.took),
            minutes(self.built),
        );
        let mut file = "";
        for Row { mutant, seen } in &self.rows {
            if mutant.file != file {
                file = &mutant.file;
                let _ = write!(
                    page,
                    "\n## {file}\n\n| mutant | what is wrong | seen by | not seen by |\n|---|---|---|---|\n"
                );
            }
            let (by, not_by) = match &mutant.fate {
                Fate::Equivalent(proof) => (format!("equivalent: {proof}"), String::new()),
                Fate::Caught(_) => {
                    (names(seen, |ended| ended != Ended::Passed), names(seen, |ended| ended == Ended::Passed))
                }
            };
            let _ = writeln!(page, "| {} | {} | {by} | {not_by} |", mutant.id, mutant.what);
        }
        page
    }
}

fn names(seen: &[(Tests, Ended)], of: impl Fn(Ended) -> bool) -> String {
    let chosen = seen.iter().filter(|(_, ended)| of(*ended));
    let names: Vec<String> = chosen
        .map(|(tests, ended)| if *ended == Ended::Hung { format!("{tests} (hangs)") } else { tests.to_string() })
        .collect();
    names.join(", ")
}
