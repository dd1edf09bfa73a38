//! Runs tiers of tests, with no mutant and with each.

use super::list::{Fate, Mutant, Tests};
use super::project::Project;
use super::results::Results;
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

/// Tests with a mutant count as hung if none ends for this many times as long as without, plus a
/// constant. Arbitrary: other programs may be at work.
const SLOWER: u32 = 6;
const LONGER: Duration = Duration::from_secs(10);
/// Tests that take longer without a mutant are run only if no others have caught it.
const LONG: Duration = Duration::from_secs(30);
/// No tier takes this long without a mutant.
const LONGEST: Duration = Duration::from_mins(30);
/// How often the runner checks whether tests have ended.
const LOOK: Duration = Duration::from_millis(20);

/// How tests ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Ended {
    Passed,
    Failed,
    /// They did not end in time.
    Hung,
}

/// The tiers to run first: roughly, the faster ones.
const ORDER: [&str; 8] = ["unit", "scheduler", "sim", "integration", "guests", "faults", "loom", "shuttle"];

/// Programs of tiers, and how long their tests take without a mutant.
struct Tiers {
    programs: BTreeMap<String, PathBuf>,
    root: PathBuf,
    /// `None` if they do not pass, and so say nothing about a mutant.
    usual: Mutex<BTreeMap<Tests, Option<Took>>>,
}

/// How long tests took.
#[derive(Clone, Copy)]
struct Took {
    all: Duration,
    /// The longest time in which none ended.
    longest: Duration,
}

/// How the tests are run.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// The number at the same time.
    pub(crate) jobs: usize,
    /// Whether to skip a mutant's other tests once one has seen it.
    pub(crate) first_only: bool,
    /// Whether to run none at all: the table then shows what is known.
    pub(crate) none: bool,
}

/// Runs for each mutant the tests that should see it, except for known results.
pub(crate) fn run(project: &Project, mutants: Vec<Mutant>, results: &Results, manner: Manner) -> Result<Table, String> {
    let begun = Instant::now();
    let count = mutants.len();
    let mut rows = Vec::new();
    let mut left = Vec::new();
    for (number, mutant) in mutants.into_iter().enumerate() {
        match results.take(&mutant) {
            Some(finding) => rows.push((number, Row { mutant, finding })),
            None if manner.none => rows.push((number, Row { mutant, finding: Finding::default() })),
            None => left.push((number, mutant)),
        }
    }
    println!("{} of {count} are known", rows.len());
    let wanted: BTreeSet<Tests> = left.iter().flat_map(|(_, mutant)| tests_of(mutant)).cloned().collect();
    let programs = project.build(&wanted)?;
    println!("built in {} s", begun.elapsed().as_secs());
    let tiers = Tiers { programs, root: project.root.clone(), usual: Mutex::default() };
    let built = begun.elapsed();
    let date = today()?;
    let more = in_parallel(left, manner.jobs, |(number, mutant)| {
        let mut took = Duration::ZERO;
        let mut tests: Vec<&Tests> = tests_of(&mutant).collect();
        tests.sort_by_key(|tests| ORDER.iter().position(|tier| *tier == tests.tier));
        let mut seen: Vec<(Tests, Ended)> = Vec::new();
        let mut said = String::new();
        for tests in tests {
            let is_caught = seen.iter().any(|(_, ended)| *ended != Ended::Passed);
            if is_caught && manner.first_only {
                break;
            }
            let Some(usual) = tiers.usual(tests)? else { continue };
            if is_caught && usual.all >= LONG {
                continue;
            }
            let (ended, test, now) = tiers.run(tests, &mutant.id, usual.longest * SLOWER + LONGER)?;
            took += now.all;
            let _ = write!(said, ", {tests} {ended:?} {test}");
            seen.push((tests.clone(), ended));
        }
        println!("{}/{count} {}{said} ({:.0} s)", number + 1, mutant.id, took.as_secs_f32());
        let finding = Finding { seen, took, date: date.clone(), is_taken_over: false };
        let row = Row { mutant, finding };
        results.append(&row).map_err(|error| format!("the result cannot be written: {error}"))?;
        Ok((number, row))
    });
    rows.extend(more.into_iter().collect::<Result<Vec<_>, String>>()?);
    rows.sort_by_key(|(number, _)| *number);
    let usual: Duration = tiers.usual.into_inner().unwrap().values().flatten().map(|took| took.all).sum();
    Ok(Table { rows: rows.into_iter().map(|(_, row)| row).collect(), prepared: built + usual })
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
    /// How long these tests take without a mutant; `None` if they do not pass.
    fn usual(&self, tests: &Tests) -> Result<Option<Took>, String> {
        let mut known = self.usual.lock().unwrap();
        if let Some(usual) = known.get(tests) {
            return Ok(*usual);
        }
        let (ended, test, took) = self.run(tests, "", LONGEST)?;
        println!("{tests}: {ended:?} {test} without a mutant in {:.1} s", took.all.as_secs_f32());
        let usual = (ended == Ended::Passed).then_some(took);
        known.insert(tests.clone(), usual);
        Ok(usual)
    }

    /// Runs tests until they end, one fails, or none ends for too long. Also returns the one that
    /// failed.
    fn run(&self, tests: &Tests, mutant: &str, limit: Duration) -> Result<(Ended, String, Took), String> {
        let program = self.programs.get(&tests.tier).ok_or_else(|| format!("there is no tier {}", tests.tier))?;
        let mut command = Command::new(program);
        command.arg("--test-threads=2").args(&tests.filters).current_dir(&self.root);
        command.env("WFHOST_MUTANT", mutant).env("CARGO_MANIFEST_DIR", &self.root);
        command.env("INSTA_UPDATE", "no").env("INSTA_FORCE_PASS", "0").env("PROPTEST_RNG_SEED", "20");
        // The next mutant must not see what this one failed at.
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let output = child.stdout.take().ok_or("a child has no output")?;
        let (says, hears) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for line in lines.filter(|line| line.starts_with("test ")) {
                let _ = says.send(line);
            }
        });
        let (begun, mut last) = (Instant::now(), Instant::now());
        let mut longest = Duration::ZERO;
        let (ended, test) = loop {
            let line = hears.recv_timeout(LOOK);
            longest = longest.max(last.elapsed());
            match line {
                Ok(line) => {
                    if let Some(test) = line.strip_suffix(" ... FAILED") {
                        break (Ended::Failed, test.trim_start_matches("test ").to_owned());
                    }
                    // A line may also say that a test takes long.
                    if line.ends_with(" ... ok") {
                        last = Instant::now();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // A program that the tests have started may outlive them, but not the other way
                // round.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            }
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                let ended = if status.success() { Ended::Passed } else { Ended::Failed };
                return Ok((ended, String::new(), Took { all: begun.elapsed(), longest }));
            }
            if last.elapsed() > limit {
                break (Ended::Hung, String::new());
            }
        };
        // The program and what it has started.
        let _ = Command::new("kill").args(["-9", "--", &format!("-{}", child.id())]).status();
        let _ = child.wait();
        Ok((ended, test, Took { all: begun.elapsed(), longest }))
    }
}

/// Does this for each item, at most `jobs` at a time.
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
