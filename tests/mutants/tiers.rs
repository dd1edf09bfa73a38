//! Runs tiers of tests, with no mutant and with each.

use super::list::{Fate, Mutant, Tests};
use super::project::Project;
use super::table::{Row, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A test with a mutant hangs that takes this many times as long as without, and so much longer. Arbitrary: other programs may be at work.
const SLOWER: u32 = 6;
const LONGER: Duration = Duration::from_secs(10);
/// Tests that take longer without a mutant are run only where no others have caught it.
const LONG: Duration = Duration::from_secs(30);
/// No tier takes so long without a mutant.
const LONGEST: Duration = Duration::from_mins(30);

/// How tests ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// Runs for each mutant the tests that should see it.
pub(crate) fn run(project: &Project, mutants: Vec<Mutant>, jobs: usize) -> Result<Table, String> {
    let begun = Instant::now();
    let wanted: BTreeSet<&Tests> = mutants.iter().flat_map(tests_of).collect();
    let programs = project.build(&wanted.iter().map(|tests| tests.tier.as_str()).collect())?;
    let built = begun.elapsed();
    println!("built in {} s", built.as_secs());
    let mut tiers = Tiers { programs, root: project.root.clone(), usual: BTreeMap::new() };
    let usual = in_parallel(wanted.into_iter().collect(), jobs, |tests| {
        let (ended, took) = tiers.run(tests, "", LONGEST)?;
        println!("{tests}: {ended:?} without a mutant in {:.1} s", took.as_secs_f32());
        Ok((ended == Ended::Passed).then(|| (tests.clone(), took)))
    });
    // What does not pass without a mutant says nothing of one.
    tiers.usual = usual.into_iter().filter_map(Result::transpose).collect::<Result<_, String>>()?;
    let mut rows = in_parallel(mutants.iter().enumerate().collect(), jobs, |(number, mutant)| {
        let begun = Instant::now();
        let mut tests: Vec<(Duration, &Tests)> =
            tests_of(mutant).filter_map(|tests| Some((*tiers.usual.get(tests)?, tests))).collect();
        tests.sort();
        let mut seen = Vec::new();
        for (usual, tests) in tests {
            if usual < LONG || seen.iter().all(|(_, ended)| *ended == Ended::Passed) {
                seen.push((tests.clone(), tiers.run(tests, &mutant.id, usual * SLOWER + LONGER)?.0));
            }
        }
        let said: Vec<String> = seen.iter().map(|(tests, ended)| format!("{tests} {ended:?}")).collect();
        println!("{}: {} ({:.0} s)", mutant.id, said.join(", "), begun.elapsed().as_secs_f32());
        Ok((number, seen))
    })
    .into_iter()
    .collect::<Result<Vec<_>, String>>()?;
    rows.sort_by_key(|(number, _)| *number);
    let rows = mutants.into_iter().zip(rows).map(|(mutant, (_, seen))| Row { mutant, seen }).collect();
    Ok(Table { rows, built, took: begun.elapsed() })
}

fn tests_of(mutant: &Mutant) -> impl Iterator<Item = &Tests> {
    let tests: &[Tests] = if let Fate::Caught(tests) = &mutant.fate { tests } else { &[] };
    tests.iter()
}

impl Tiers {
    fn run(&self, tests: &Tests, mutant: &str, limit: Duration) -> Result<(Ended, Duration), String> {
        let program = self.programs.get(&tests.tier).ok_or_else(|| format!("there is no tier {}", tests.tier))?;
        let mut command = Command::new(program);
        command.args(["-q", "--test-threads=2"]).args(&tests.filters).current_dir(&self.root);
        command.env("WFHOST_MUTANT", mutant).env("CARGO_MANIFEST_DIR", &self.root);
        command.env("INSTA_UPDATE", "no").env("INSTA_FORCE_PASS", "0").env("PROPTEST_RNG_SEED", "20");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let begun = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                let ended = if status.success() { Ended::Passed } else { Ended::Failed };
                return Ok((ended, begun.elapsed()));
            }
            if begun.elapsed() > limit {
                // The program and what it has started.
                let _ = Command::new("kill").args(["-9", "--", &format!("-{}", child.id())]).status();
                let _ = child.wait();
                return Ok((Ended::Hung, begun.elapsed()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
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
