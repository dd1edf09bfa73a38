//! The conformance suite: one program in every language, the same scenarios, the same results.
//!
//! A language is run once, whichever test needs its results first. `WFHOST_DOCUMENTS=update` writes
//! the tables of the guide anew.

mod checks;
mod handlers;
mod order;
mod running;
mod scenario;
mod table;

use parking_lot::Mutex;
use running::{Runner, Verdict};
use scenario::{Language, Scenario, languages, scenarios};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

/// The verdict of each scenario, `None` where it is not for the language.
type Results = Vec<Option<Verdict>>;

/// The scenario that is not in the file: it needs another program.
const OTHER_PROGRAM: &str = "recovery: a replay notices another program";

fn results(language: &Language) -> Arc<Results> {
    type Cell = Arc<OnceLock<Arc<Results>>>;
    static ALL: LazyLock<Mutex<BTreeMap<String, Cell>>> = LazyLock::new(Mutex::default);
    let cell = Arc::clone(ALL.lock().entry(language.name.clone()).or_default());
    Arc::clone(cell.get_or_init(|| Arc::new(run(language))))
}

/// `WFHOST_SUITE=part-of-a-name` runs these scenarios only.
fn is_asked_for(scenario: &str) -> bool {
    std::env::var("WFHOST_SUITE").map_or(true, |part| scenario.contains(&part))
}

fn run(language: &Language) -> Results {
    let runner = Runner::new(language);
    let verdict =
        |scenario: &Scenario| (scenario.is_for(language) && is_asked_for(&scenario.name)).then(|| runner.run(scenario));
    let mut results: Results = scenarios().iter().map(verdict).collect();
    results.push(is_asked_for(OTHER_PROGRAM).then(|| runner.notices_another_program()));
    results
}

/// The names of all scenarios, in the order of their results.
fn names() -> Vec<String> {
    scenarios().into_iter().map(|scenario| scenario.name).chain([OTHER_PROGRAM.to_owned()]).collect()
}

#[track_caller]
fn conforms(name: &str) {
    let languages = languages();
    let language = languages.iter().find(|language| language.name == name).expect("a language of languages.json");
    if !language.is_there() {
        return;
    }
    let results = results(language);
    let failed: Vec<String> = names()
        .iter()
        .zip(results.iter())
        .filter_map(|(scenario, verdict)| match verdict {
            Some(Err(why)) => Some(format!("{name}: {scenario}: {why}")),
            _ => None,
        })
        .collect();
    assert!(failed.is_empty(), "{} of {} scenarios failed\n{}", failed.len(), results.len(), failed.join("\n"));
}

/// A test for each language, so that they run at the same time and fail by their names.
macro_rules! languages {
    ($($test:ident: $name:literal,)+) => {
        $(#[test]
        fn $test() {
            conforms($name);
        })+

        #[test]
        fn every_language_has_a_test() {
            let names: Vec<String> = languages().into_iter().map(|language| language.name).collect();
            assert_eq!(names, [$($name),+]);
        }
    };
}

languages! {
    rust: "Rust",
    javascript_script: "JavaScript script",
    typescript_script: "TypeScript script",
    python_script: "Python script",
    javascript: "JavaScript",
    typescript: "TypeScript",
    python: "Python",
    go: "Go",
    c: "C",
    zig: "Zig",
}

#[test]
fn scenarios_have_names_of_their_own() {
    let mut all = names();
    let n = all.len();
    assert!(n >= 40, "{n}");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), n);
}
