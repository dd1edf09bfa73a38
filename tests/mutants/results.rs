//! Results of mutants, written down row by row, so that the table can be made in several sittings.

use super::list::{self, Fate, Mutant};
use super::table::{Finding, Row};
use super::tiers::Ended;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    mutant: String,
    /// Digests of the mutant with its tests, and of its file.
    digest: String,
    /// The day, in UTC.
    date: String,
    /// How long the tests took.
    seconds: f32,
    seen: Vec<(String, Ended)>,
}

/// The file of results, a row in each line.
pub(crate) struct Results {
    file: Mutex<File>,
    digests: BTreeMap<String, String>,
    found: Mutex<BTreeMap<String, Finding>>,
}

impl Results {
    /// Opens the file. If `resumes`, the last result of a mutant that a test saw is reused, as long
    /// as neither the mutant nor its file has changed.
    pub(crate) fn open(path: &Path, root: &Path, mutants: &[Mutant], resumes: bool) -> std::io::Result<Self> {
        let mut digests = BTreeMap::new();
        for (file, of_file) in list::by_file(mutants) {
            let source = std::fs::read(root.join(file))?;
            digests.extend(of_file.into_iter().map(|mutant| (mutant.id.clone(), digest(mutant, &source))));
        }
        let file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut found = BTreeMap::new();
        for line in BufReader::new(&file).lines().take_while(|_| resumes) {
            // An interrupted sitting may have left part of a line.
            let Ok(line) = serde_json::from_str::<Line>(&line?) else { continue };
            if digests.get(&line.mutant) == Some(&line.digest) {
                let seen = line.seen.iter().map(|(tests, ended)| (list::tests(tests), *ended)).collect();
                let took = Duration::from_secs_f32(line.seconds);
                found.insert(line.mutant, Finding { seen, took, date: line.date, is_taken_over: true });
            }
        }
        found.retain(|_, finding: &mut Finding| finding.is_caught());
        Ok(Self { file: Mutex::new(file), digests, found: Mutex::new(found) })
    }

    /// Takes the earlier result of a mutant.
    pub(crate) fn take(&self, mutant: &Mutant) -> Option<Finding> {
        self.found.lock().unwrap().remove(&mutant.id)
    }

    /// Appends a result.
    pub(crate) fn append(&self, Row { mutant, finding }: &Row) -> std::io::Result<()> {
        let line = Line {
            mutant: mutant.id.clone(),
            digest: self.digests[&mutant.id].clone(),
            date: finding.date.clone(),
            seconds: finding.took.as_secs_f32(),
            seen: finding.seen.iter().map(|(tests, ended)| (tests.to_string(), *ended)).collect(),
        };
        let line = serde_json::to_string(&line)? + "\n";
        self.file.lock().unwrap().write_all(line.as_bytes())
    }
}

fn digest(mutant: &Mutant, source: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    add(source);
    for hunk in &mutant.hunks {
        add(hunk.old.as_bytes());
        add(format!("{:?}", hunk.part).as_bytes());
        add(hunk.new.as_bytes());
    }
    if let Fate::Caught(by) = &mutant.fate {
        for tests in by {
            add(tests.to_string().as_bytes());
        }
    }
    hasher.finalize().to_hex()[..16].to_owned()
}
