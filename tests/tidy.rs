//! The style of the source, as far as a program can check it: lengths, widths, the order of
//! imports, names of files and words. CONTRIBUTING.md says why.
//!
//! The rules are read from the text, line by line, as rustfmt leaves it; nothing is compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const COMMENT_COLUMNS_MAX: usize = 100;

/// Functions that are longer, each with its reason.
const LONG_FUNCTIONS: [(&str, &str); 2] = [
    ("tests/bench/scheduler/machine.rs:step", "one loop of a virtual machine, an arm an instruction"),
    ("tests/bench/parking.rs:main", "a script of one measurement after the other"),
];

/// Files that are longer, each with its reason.
const LONG_FILES: [(&str, &str); 1] = [("tests/bench/scheduler/machine.rs", "one machine, read from top to bottom")];

/// The rooms, the lowest first: a room imports only rooms before it. Rooms of one line do not
/// import each other, but for what [`BESIDE`] names.
const ROOMS: [&[&str]; 10] = [
    &["base"],
    &["process"],
    &["scheduler"],
    &["run"],
    &["workflow", "guest", "dispatch", "journal", "sim"],
    &["oci"],
    &["host"],
    &["testing"],
    &["cli"],
    &["main"],
];

/// Imports between rooms of one line.
const BESIDE: [(&str, &str); 1] = [("sim", "journal")];

/// The folders of `run`, the lowest first.
const RUN: [&str; 5] = ["seam", "record", "state", "commit", "recovery"];

/// The files of `run` that import a folder above theirs: `run/commit/mod.rs` says what for.
const RUN_UPWARD: [(&str, &str); 3] = [
    ("src/run/commit/parking/hold.rs", "recovery"),
    ("src/run/commit/parking/waking.rs", "recovery"),
    ("src/run/commit/stepping.rs", "recovery"),
];

/// The parts of `cli`, the lowest first; those of one line do not import each other.
const CLI: [&[&str]; 10] = [
    &["terminal", "exit"],
    &["table"],
    &["report"],
    &["project"],
    &["args"],
    &["store"],
    &["watch"],
    &["commands"],
    &["command_line"],
    &["usage"],
];

/// Words of type names that say nothing.
const EMPTY_NAMES: [&str; 5] = ["Manager", "Util", "Helper", "Data", "Info"];

/// Phrases that docs and messages do not use, and what stands instead: docs/glossary.md.
const PHRASES: [(&str, &str); 9] = [
    ("of which nobody", "whose … is unknown"),
    ("of which it is", "a noun and a verb"),
    ("nobody runs", "not running, not owned by any host"),
    ("what became of", "the outcome of"),
    ("what becomes of", "the outcome of"),
    ("taken up", "recovered"),
    ("takes up a run", "recovers a run"),
    ("take up a run", "recover a run"),
    ("up to so many", "at most"),
];

struct Source {
    /// Relative to the root, with `/`.
    path: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below these folders, without the benches of other projects.
fn sources(folders: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.ends_with("tests/bench/peers") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
                found.push(Source { path: name, text: std::fs::read_to_string(&path).unwrap() });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 10, "the sources are not where they are looked for");
    found
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Fails with all violations of a rule at once.
fn none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n  {}", violations.join("\n  "));
}

#[test]
fn files_are_short() {
    let all = sources(&["src", "tests"]);
    let long = |source: &&Source| source.text.lines().count() > FILE_LINES_MAX;
    let is_known = |path: &str| LONG_FILES.iter().any(|(known, _)| *known == path);
    let violations = all.iter().filter(long).filter(|source| !is_known(&source.path));
    let violations: Vec<_> =
        violations.map(|source| format!("{}: {} lines", source.path, source.text.lines().count())).collect();
    none(&format!("a file has at most {FILE_LINES_MAX} lines"), &violations);
}

/// Functions with the number of their lines. A function ends at the brace below its first column.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some(at) = code.find("fn ").filter(|at| {
            let before = &code[..*at];
            before.is_empty()
                || before.ends_with(' ')
                    && !before.contains(['"', '|', '=', '<', ',', '.'])
                    && !before.starts_with("//")
        }) else {
            continue;
        };
        let indent = &line[..line.len() - code.len()];
        let ends = |line: &str| {
            line.strip_prefix(indent)
                .is_some_and(|rest| rest == "}" || rest.ends_with(';') && rest.starts_with([')', '-']))
        };
        let is_one_line = code.ends_with('}') || code.ends_with(';');
        let length =
            if is_one_line { 1 } else { lines[first + 1..].iter().position(|line| ends(line)).map_or(1, |at| at + 2) };
        let name = code[at + 3..].split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        found.push((name, length));
    }
    found
}

#[test]
fn functions_are_short() {
    let mut violations = Vec::new();
    let mut count = 0;
    for source in sources(&["src", "tests"]) {
        for (name, lines) in functions(&source.text) {
            count += 1;
            let known = format!("{}:{name}", source.path);
            if lines > FUNCTION_LINES_MAX && !LONG_FUNCTIONS.iter().any(|(one, _)| *one == known) {
                violations.push(format!("{known}: {lines} lines"));
            }
        }
    }
    assert!(count > 1_000, "functions are not found: {count}");
    none(&format!("a function has at most {FUNCTION_LINES_MAX} lines"), &violations);
}

/// Code is as wide as rustfmt leaves it.
#[test]
fn comments_are_narrow() {
    let mut violations = Vec::new();
    for source in sources(&["src", "tests"]) {
        let mut is_fenced = false;
        for (number, line) in source.text.lines().enumerate().filter(|(_, line)| is_comment(line)) {
            if line.trim_start_matches([' ', '/', '!']).starts_with("```") {
                is_fenced = !is_fenced;
            }
            // A command or a link cannot be broken; a table is as wide as its cells.
            let is_text = is_fenced || line.contains("://") || line.trim_end().ends_with('|');
            let columns = line.chars().count();
            if columns > COMMENT_COLUMNS_MAX && !is_text {
                violations.push(format!("{}:{}: {columns} columns", source.path, number + 1));
            }
        }
    }
    none(&format!("a comment has at most {COMMENT_COLUMNS_MAX} columns"), &violations);
}

/// The second and third segment of each path below a crate's module, as `(room, folder)`.
fn paths<'t>(text: &'t str, prefix: &str) -> Vec<&'t str> {
    let code = text.lines().filter(|line| !is_comment(line));
    code.flat_map(|line| line.match_indices(prefix).map(|(at, _)| &line[at + prefix.len()..]).collect::<Vec<_>>())
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
        .filter(|name| !name.is_empty())
        .collect()
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

/// The text before the tests of a file.
fn without_tests(text: &str) -> &str {
    text.split_once("\n#[cfg(test)]\nmod ")
        .or_else(|| text.split_once("\n#[cfg(all(test"))
        .map_or(text, |(code, _)| code)
}

#[test]
fn imports_of_rooms_run_one_way() {
    let floor = |room: &str| ROOMS.iter().position(|rooms| rooms.contains(&room));
    let mut violations = Vec::new();
    for source in sources(&["src"]).iter().filter(|source| !is_test(&source.path)) {
        let room = source.path.split('/').nth(1).unwrap_or_default().trim_end_matches(".rs");
        let Some(own) = floor(room) else { continue };
        for other in paths(without_tests(&source.text), "crate::") {
            let Some(others) = floor(other) else { continue };
            let is_beside = BESIDE.contains(&(room, other));
            if other != room && others >= own && !is_beside {
                violations.push(format!("{} imports {other}", source.path));
            }
        }
    }
    none("a room imports only rooms below it", &violations);
}

#[test]
fn imports_of_the_folders_of_run_run_one_way() {
    let floor = |folder: &str| RUN.iter().position(|one| *one == folder);
    let mut violations = Vec::new();
    for source in sources(&["src/run"]) {
        let Some(own) = source.path.split('/').nth(2).and_then(floor) else { continue };
        for other in paths(&source.text, "crate::run::") {
            let is_known = RUN_UPWARD.contains(&(&source.path, other));
            if floor(other).is_some_and(|other| other > own) && !is_known {
                violations.push(format!("{} imports {other}", source.path));
            }
        }
    }
    none("folders of run import only folders below them", &violations);
}

#[test]
fn imports_of_the_parts_of_the_command_line_run_one_way() {
    let floor = |part: &str| CLI.iter().position(|parts| parts.contains(&part));
    let mut violations = Vec::new();
    for source in sources(&["src/cli"]).iter().filter(|source| !is_test(&source.path)) {
        let part = source.path.split('/').nth(2).unwrap_or_default().trim_end_matches(".rs");
        let Some(own) = floor(part) else { continue };
        for other in paths(without_tests(&source.text), "crate::cli::") {
            if other != part && floor(other).is_some_and(|other| other >= own) {
                violations.push(format!("{} imports {other}", source.path));
            }
        }
    }
    none("parts of cli import only parts below them", &violations);
}

#[test]
fn the_state_of_a_run_names_no_lock_atomic_thread_or_clock() {
    let forbidden = ["Mutex", "RwLock", "Condvar", "Atomic", "std::thread", "Instant", "SystemTime", "parking_lot"];
    let mut violations = Vec::new();
    for source in sources(&["src/run/state"]) {
        for (number, line) in source.text.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
            for word in forbidden.iter().filter(|word| line.contains(**word)) {
                violations.push(format!("{}:{}: {word}", source.path, number + 1));
            }
        }
    }
    none("the state of a run is a function of its records alone", &violations);
}

#[test]
fn modules_have_one_style() {
    let all = sources(&["src", "tests"]);
    let folders: BTreeSet<&str> = all.iter().filter_map(|source| Some(source.path.rsplit_once('/')?.0)).collect();
    let beside = all.iter().filter(|source| folders.contains(source.path.trim_end_matches(".rs")));
    let violations: Vec<_> = beside.map(|source| format!("{} stands beside its folder", source.path)).collect();
    none("the file of a folder is its mod.rs", &violations);
}

#[test]
fn tests_of_a_file_stand_in_one_style() {
    let all = sources(&["src"]);
    let has = |path: String| all.iter().any(|source| source.path == path);
    let mut violations = Vec::new();
    for source in &all {
        if let Some(file) = source.path.strip_suffix("_tests.rs") {
            if !has(format!("{file}.rs")) {
                violations.push(format!("{} stands beside no {file}.rs", source.path));
            }
        } else if let Some(folder) = source.path.strip_suffix("/tests.rs")
            && !has(format!("{folder}/mod.rs"))
        {
            violations.push(format!("{} is in a folder without a mod.rs", source.path));
        }
    }
    none("the tests of x.rs are in x_tests.rs, those of x/mod.rs in x/tests.rs or x/tests/", &violations);
}

#[test]
fn documents_that_are_named_exist() {
    let mut violations = Vec::new();
    for source in sources(&["src", "tests"]) {
        for (number, line) in source.text.lines().enumerate().filter(|(_, line)| is_comment(line)) {
            let words = line.split(|c: char| !c.is_alphanumeric() && !"./_-".contains(c));
            for word in words.filter(|word| word.strip_suffix(".md").is_some_and(|name| !name.is_empty())) {
                let places =
                    [root().join(word), root().join("docs").join(word), root().join(&source.path).with_file_name(word)];
                if !places.iter().any(|place| place.exists()) {
                    violations.push(format!("{}:{}: {word}", source.path, number + 1));
                }
            }
        }
    }
    none("a document that a comment names exists", &violations);
}

#[test]
fn types_have_names_that_say_something() {
    let mut violations = Vec::new();
    for source in sources(&["src"]).iter().filter(|source| !is_test(&source.path)) {
        // What is indented implements another crate's trait.
        for line in source.text.lines().filter(|line| !line.starts_with(' ')) {
            let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
            if !matches!(words.next(), Some("struct" | "enum" | "trait" | "type")) {
                continue;
            }
            let name = words.next().unwrap_or_default();
            let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if EMPTY_NAMES.iter().any(|empty| name.ends_with(empty)) {
                violations.push(format!("{}: {name}", source.path));
            }
        }
    }
    none("no type is a manager, a helper, data or info", &violations);
}

#[test]
fn docs_and_messages_are_plain() {
    let mut found: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for source in sources(&["src"]) {
        // A sentence runs over several lines. The comments of the tables are part of their format.
        let lines = source.text.lines().map(str::trim).filter(|line| !line.starts_with("-- "));
        let lines = lines.map(|line| line.trim_start_matches(['/', '!']).trim());
        let text = lines.collect::<Vec<_>>().join(" ").to_lowercase();
        for (phrase, _) in PHRASES {
            let count = text.matches(phrase).count();
            if count > 0 {
                *found.entry((source.path.clone(), phrase)).or_default() += count;
            }
        }
    }
    let instead = |phrase: &str| PHRASES.iter().find(|(one, _)| *one == phrase).map_or("", |(_, instead)| *instead);
    let violations: Vec<_> = found
        .iter()
        .map(|((path, phrase), count)| format!("{path}: {count} × \"{phrase}\": say {:?}", instead(phrase)))
        .collect();
    none("docs and messages use the words of docs/glossary.md", &violations);
}
