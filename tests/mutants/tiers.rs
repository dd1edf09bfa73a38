//! Runs tiers of tests, with no mutant and with each.

use super::kept::Kept;
use super::list::{Fate, Mutant, Tests};
use super::project::Project;
use super::table::{Finding, Row, Table};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A test with a mutant hangs that takes this many times as long as without, and so much longer. Arbitrary: other programs may be at work.
const SLOWER: u32 = 6;
const LONGER: Duration = Duration::from_secs(10);
/// Tests that take longer without a mutant are run only where no others have caught it.
const LONG: Duration = Duration::from_secs(30);
/// No tier takes so long without a mutant.
const LONGEST: Duration = Duration::from_mins(30);
/// How often is looked whether tests are over.
const LOOK: Duration = Duration::from_millis(20);

/// How tests ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Ended {
    Passed,
    Failed,
    /// They were not over in time.
    Hung,
}

/// Programs of tiers, and how long their tests take without a mutant.
struct Tiers {
    programs: BTreeMap<String, PathBuf>,
    root: PathBuf,
    usual: BTreeMap<Tests, Duration>,
}

/// Runs for each mutant the tests that should see it, but for what is known.
pub(crate) fn run(project: &Project, mutants: Vec<Mutant>, kept: &Kept, jobs: usize) -> Result<Table, String> {
    let begun = Instant::now();
    let count = mutants.len();
    let mut rows = Vec::new();
    let mut left = Vec::new();
    for (number, mutant) in mutants.into_iter().enumerate() {
        match kept.take(&mutant) {
            Some(finding) => rows.push((number, Row { mutant, finding })),
            None => left.push((number, mutant)),
        }
    }
    println!("{} of {count} are known", rows.len());
    let wanted: BTreeSet<Tests> = left.iter().flat_map(|(_, mutant)| tests_of(mutant)).cloned().collect();
    let programs = project.build(&wanted.iter().map(|tests| tests.tier.as_str()).collect())?;
    println!("built in {} s", begun.elapsed().as_secs());
    let mut tiers = Tiers { programs, root: project.root.clone(), usual: BTreeMap::new() };
    let usual = in_parallel(wanted.into_iter().collect(), jobs, |tests| {
        let begun = Instant::now();
        let (ended, test) = tiers.run(&tests, "", LONGEST)?;
        println!("{tests}: {ended:?} {test} without a mutant in {:.1} s", begun.elapsed().as_secs_f32());
        Ok((ended == Ended::Passed).then(|| (tests, begun.elapsed())))
    });
    // What does not pass without a mutant says nothing of one.
    tiers.usual = usual.into_iter().filter_map(Result::transpose).collect::<Result<_, String>>()?;
    let prepared = begun.elapsed();
    let date = today()?;
    let more = in_parallel(left, jobs, |(number, mutant)| {
        let begun = Instant::now();
        let mut tests: Vec<(Duration, &Tests)> =
            tests_of(&mutant).filter_map(|tests| Some((*tiers.usual.get(tests)?, tests))).collect();
        tests.sort();
        let mut seen = Vec::new();
        let mut said = String::new();
        for (usual, tests) in tests {
            if usual < LONG || seen.iter().all(|(_, ended)| *ended == Ended::Passed) {
                let (ended, test) = tiers.run(tests, &mutant.id, usual * SLOWER + LONGER)?;
                let _ = write!(said, ", {tests} {ended:?} {test}");
                seen.push((tests.clone(), ended));
            }
        }
        let took = begun.elapsed();
        println!("{}/{count} {}{said} ({:.0} s)", number + 1, mutant.id, took.as_secs_f32());
        let finding = Finding { seen, took, date: date.clone(), is_taken_over: false };
        let row = Row { mutant, finding };
        kept.keep(&row).map_err(|error| format!("what was found cannot be written down: {error}"))?;
        Ok((number, row))
    });
    rows.extend(more.into_iter().collect::<Result<Vec<_>, String>>()?);
    rows.sort_by_key(|(number, _)| *number);
    Ok(Table { rows: rows.into_iter().map(|(_, row)| row).collect(), prepared })
}

/// The day, in UTC.
fn today() -> Result<String, String> {
    let date = Command::new("date").args(["-u", "+%F"]).output().map_err(|error| format!("date: {error}"))?;
    Ok(String::from_utf8_lossy(&date.stdout).trim().to_owned())
}

fn tests_of(mutant: &Mutant) -> impl Iterator<Item = &Tests> {
    let tests: &[Tests] = if let Fate::Caught(tests) = &mutant.fate { tests } else { &[] };
    tests.iter()
}

impl Tiers {
    /// Runs tests until they are over, one has failed, or it takes too long. Gives the one that failed as well.
    fn run(&self, tests: &Tests, mutant: &str, limit: Duration) -> Result<(Ended, String), String> {
        let program = self.programs.get(&tests.tier).ok_or_else(|| format!("there is no tier {}", tests.tier))?;
        let mut command = Command::new(program);
        command.arg("--test-threads=2").args(&tests.filters).current_dir(&self.root);
        command.env("WFHOST_MUTANT", mutant).env("CARGO_MANIFEST_DIR", &self.root);
        command.env("INSTA_UPDATE", "no").env("INSTA_FORCE_PASS", "0").env("PROPTEST_RNG_SEED", "20");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let output = child.stdout.take().ok_or("a child has no output")?;
        // Says which test failed, and ends where none did: a program that the tests have started may keep the output open.
        let (says, hears) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            let failed = lines.filter_map(|line| Some(line.strip_suffix("... FAILED")?.to_owned())).next();
            failed.map(|line| says.send(line.trim().trim_start_matches("test ").to_owned()))
        });
        let begun = Instant::now();
        let ended = loop {
            match hears.recv_timeout(LOOK) {
                Ok(test) => break (Ended::Failed, test),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            }
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                let ended = if status.success() { Ended::Passed } else { Ended::Failed };
                return Ok((ended, String::new()));
            }
            if begun.elapsed() > limit {
                break (Ended::Hung, String::new());
            }
        };
        // The program and what it has started.
        let _ = Command::new("kill").args(["-9", "--", &format!("-{}", child.id())]).status();
        let _ = child.wait();
        Ok(ended)
    }
}

/// Does this for each item, so many at one time.
fn in_parallel<T: Send, R: Send>(items: Vec<T>, jobs: usize, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let (items, results) = (Mutex::new(items.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(item) = { items.lock().unwrap().next() } {
                    let result = work(item);
                    results.lock().unwrap().push(result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}
