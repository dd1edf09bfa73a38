//! The tables of the guide: which language passes which scenarios.
//!
//! Columns of languages that are not built here stay as they are.

use super::scenario::{Language, Scenario, languages, scenarios};
use super::{OTHER_PROGRAM, Results, names, results};
use crate::support::guests;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

const BEGIN: &str = "<!-- The tests write this table: WFHOST_DOCUMENTS=update. -->\n";

/// Row, then column, then cell.
type Cells = BTreeMap<(String, String), String>;

/// The rows of a table, and where it is.
struct Table {
    page: &'static str,
    rows: Vec<String>,
    head: &'static str,
}

impl Table {
    fn path(&self) -> PathBuf {
        guests("").parent().unwrap().join(self.page)
    }

    /// The page's parts: before the table, the table, after it.
    fn parts(&self) -> (String, String, String) {
        let page = std::fs::read_to_string(self.path()).unwrap();
        let at = page.find(BEGIN).unwrap_or_else(|| panic!("{} has no table", self.page)) + BEGIN.len();
        let rest = &page[at..];
        let end = if rest.starts_with('\n') { 0 } else { rest.find("\n\n").map_or(rest.len(), |end| end + 1) };
        let end = at + end;
        (page[..at].to_owned(), page[at..end].to_owned(), page[end..].to_owned())
    }

    fn read(text: &str) -> Cells {
        let mut lines = text.lines().map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
        let Some(columns) = lines.next() else { return Cells::new() };
        let mut cells = Cells::new();
        for row in lines.skip(1) {
            for (column, cell) in columns.iter().zip(&row).skip(1) {
                cells.insert((row[0].to_owned(), (*column).to_owned()), (*cell).to_owned());
            }
        }
        cells
    }

    fn write(&self, cells: &Cells, columns: &[String]) -> String {
        let mut text = format!("| {} | {} |\n|---|{}\n", self.head, columns.join(" | "), "---|".repeat(columns.len()));
        for row in &self.rows {
            let _ = write!(text, "| {row} |");
            for column in columns {
                let cell = cells.get(&(row.clone(), column.clone())).map_or("", String::as_str);
                let _ = write!(text, " {cell} |");
            }
            text.push('\n');
        }
        text
    }

    /// Compares the table with what was found, or writes it.
    fn compare(&self, found: &Cells, ran: &[String], columns: &[String]) {
        let (before, text, after) = self.parts();
        let mut cells = Self::read(&text);
        cells.retain(|(_, column), _| !ran.contains(column));
        cells.extend(found.clone());
        let wanted = self.write(&cells, columns);
        if text == wanted {
            return;
        }
        assert!(
            std::env::var("WFHOST_DOCUMENTS").is_ok_and(|value| value == "update"),
            "{} differs; WFHOST_DOCUMENTS=update writes it:\n{wanted}",
            self.page
        );
        std::fs::write(self.path(), before + &wanted + &after).unwrap();
    }
}

fn groups(scenarios: &[Scenario]) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    for group in scenarios.iter().map(Scenario::group).chain([OTHER_PROGRAM.split(':').next().unwrap()]) {
        if groups.last().is_none_or(|last| last != group) {
            groups.push(group.to_owned());
        }
    }
    groups
}

fn column(language: &Language, results: &Results, cells: &mut Cells, by_group: &mut Cells) {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (name, verdict) in names().iter().zip(results) {
        let cell = match verdict {
            None => "–",
            Some(Ok(())) => "yes",
            Some(Err(_)) => "**no**",
        };
        cells.insert((name.clone(), language.name.clone()), cell.to_owned());
        let (passed, of) = counts.entry(name.split(':').next().unwrap().to_owned()).or_default();
        *passed += usize::from(matches!(verdict, Some(Ok(()))));
        *of += usize::from(verdict.is_some());
    }
    for (group, (passed, of)) in counts {
        let cell = match (passed, of) {
            (_, 0) => "–".to_owned(),
            _ if passed == of => of.to_string(),
            _ => format!("**{passed} of {of}**"),
        };
        by_group.insert((group, language.name.clone()), cell);
    }
}

#[test]
fn the_tables_of_the_guide_are_true() {
    if std::env::var_os("WFHOST_SUITE").is_some() {
        eprintln!("SKIPPED: only a part of the suite runs");
        return;
    }
    let languages = languages();
    let (mut cells, mut by_group, mut ran) = (Cells::new(), Cells::new(), Vec::new());
    for language in languages.iter().filter(|language| language.is_there()) {
        column(language, &results(language), &mut cells, &mut by_group);
        ran.push(language.name.clone());
    }
    let columns: Vec<String> = languages.into_iter().map(|language| language.name).collect();
    let long = Table { page: "guests/suite/README.md", rows: names(), head: "scenario" };
    long.compare(&cells, &ran, &columns);
    let short = Table { page: "docs/guests.md", rows: groups(&scenarios()), head: "scenarios of" };
    short.compare(&by_group, &ran, &columns);
}
