//! The same program in each language: the conformance suite's, on the host, as ratios to Rust.
//!
//! `cargo bench --bench languages [-- PART-OF-A-NAME]` runs each language that is built in its own
//! process, one after the other, and prints a table: CPU time of all threads for processes and
//! steps, elapsed time for runs, memory of the whole process for what is weighed.
//!
//! - first run: an empty cache of compiled code; then one process from birth to end;
//! - next run: the same in a new host, with the code in its cache; the best of five;
//! - edited: the next run of a program that differs by a comment, or by a custom section, from the
//!   one in the cache; the best of five;
//! - process: `children`, each child from birth to end;
//! - step: a round of `pingpong` has two steps, two messages and their records;
//! - live: a process that waits for a signal in an instance slot, anonymous memory;
//! - evicted: the same without a slot, which is its snapshot and what the host knows of it.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wfhost::guest::EngineOptions;
use wfhost::host::{Host, RunOptions, Workflow};

#[derive(Deserialize)]
struct Language {
    name: String,
    /// Of a script in a language whose engine is not a part of wfhost.
    engine: Option<String>,
    component: Option<String>,
    script: Option<String>,
}

impl Language {
    fn program(&self) -> PathBuf {
        guests().join(self.script.as_deref().or(self.component.as_deref()).expect("a component or a script"))
    }

    fn engine(&self) -> Option<PathBuf> {
        self.engine.as_ref().map(|engine| guests().join(engine))
    }
}

fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests")
}

fn host(slots: u32, cache: &Path) -> Host {
    let options = EngineOptions { slots: Some(slots), cache_dir: Some(cache.into()), ..EngineOptions::default() };
    let engines = guests().join("built-on-demand");
    Host::builder().workers(1).guests(options).engines(engines).build().expect("a host")
}

/// What is measured of a language.
const FIGURES: [(&str, &str); 7] = [
    ("first run", "ms"),
    ("next run", "ms"),
    ("edited", "ms"),
    ("process", "µs"),
    ("step", "µs"),
    ("live", "kB"),
    ("evicted", "kB"),
];

/// Enough that what happens once is nothing beside it.
const CHILDREN: u64 = 1_000;
const ROUNDS: u64 = 1_000;
const WAITING: usize = 200;
/// The kernel counts in hundredths of a second.
const TIMED: Duration = Duration::from_secs(2);

fn main() {
    // Components are compiled as the command line has them compiled: their functions are cached.
    wfhost::guest::serve_compiler();
    let filter: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let text = std::fs::read_to_string(guests().join("suite/languages.json")).expect("the list of languages");
    let languages: Vec<Language> = serde_json::from_str(&text).expect("a list of languages");
    if let Some(name) = filter.iter().find_map(|arg| arg.strip_prefix("only=")) {
        let language = languages.iter().find(|language| language.name == name).expect("a language");
        println!("{}", json!(measure(language)));
        return;
    }
    if let Some(name) = filter.iter().find_map(|arg| arg.strip_prefix("weigh=")) {
        let language = languages.iter().find(|language| language.name == name).expect("a language");
        println!("{}", json!(weigh(&language.program(), Path::new(&filter[1]))));
        return;
    }
    print!("{:<20}", "");
    for (name, unit) in FIGURES {
        print!("{:>20}", format!("{name}, {unit}"));
    }
    println!();
    let mut of_rust: Option<Vec<f64>> = None;
    for language in &languages {
        let is_wanted = filter.is_empty() || filter.iter().any(|part| language.name.contains(part.as_str()));
        if language.name != "Rust" && !is_wanted {
            continue;
        }
        if ![Some(language.program()), language.engine()].into_iter().flatten().all(|file| file.exists()) {
            println!("{:<20} not built", language.name);
            continue;
        }
        let figures = match in_a_process(&[&format!("only={}", language.name)]) {
            Ok(figures) => figures,
            Err(why) => {
                println!("{:<20} failed: {why}", language.name);
                continue;
            }
        };
        let rust = of_rust.get_or_insert_with(|| figures.clone());
        print!("{:<20}", language.name);
        for (figure, of_rust) in figures.iter().zip(rust) {
            print!("{:>20}", format!("{figure:.1} = {:.1} x", figure / *of_rust));
        }
        println!();
    }
}

/// Figures that this program prints in a process of its own.
fn in_a_process(args: &[&str]) -> Result<Vec<f64>, String> {
    let program = std::env::current_exe().expect("this program");
    let child = std::process::Command::new(program).args(args).output().expect("a process");
    serde_json::from_slice(&child.stdout).map_err(|_| String::from_utf8_lossy(&child.stderr).into_owned())
}

/// The figures of one language, in the order of [`FIGURES`].
fn measure(language: &Language) -> Vec<f64> {
    let program = &*language.program();
    let cache = tempfile::tempdir().expect("a folder");
    let run = |program: &Path| {
        let start = Instant::now();
        let host = host(64, cache.path());
        let workflow = workflow(&host, program, "twice", 1);
        outputs(&host, &workflow, json!(21));
        start.elapsed().as_secs_f64() * 1e3
    };
    let best = |times: [f64; 5]| times.into_iter().fold(f64::INFINITY, f64::min);
    let first = run(program);
    let next = best([(); 5].map(|()| run(program)));
    let edited = best([1, 2, 3, 4, 5].map(|edit| run(&edited(program, edit, cache.path()))));
    let host = host(64, cache.path());
    let children = workflow(&host, program, "children", 1);
    let timed = |workflow: &Workflow, input: Value, per: u64| {
        outputs(&host, workflow, input.clone());
        let (start, mut rounds) = (cpu(), 0);
        let passed = || cpu().saturating_sub(start);
        while passed() < TIMED {
            outputs(&host, workflow, input.clone());
            rounds += 1;
        }
        passed().as_secs_f64() * 1e6 / (rounds * per) as f64
    };
    let process = timed(&children, json!({ "n": CHILDREN }), CHILDREN);
    let pingpong = workflow(&host, program, "pingpong", 1);
    let step = timed(&pingpong, json!({ "rounds": ROUNDS }), 2 * ROUNDS);
    // Compiling leaves free memory behind, which would hide what is taken later.
    let cache = cache.path().to_str().expect("a path");
    let weighed = in_a_process(&[&format!("weigh={}", language.name), cache]).unwrap_or_else(|why| panic!("{why}"));
    [&[first, next, edited, process, step], &*weighed].concat()
}

/// A live process and an evicted one: of many in two slots hardly any is live.
fn weigh(program: &Path, cache: &Path) -> [f64; 2] {
    [(64, 15, 40), (2, WAITING, WAITING)].map(|(slots, before, count)| {
        let host = host(slots, cache);
        waiting(&host, program, before, count)
    })
}

/// Another program with the same code, in a folder that nothing else uses.
fn edited(program: &Path, edit: u8, cache: &Path) -> PathBuf {
    let folder = cache.join(format!("edit-{edit}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    if program.extension().is_some_and(|suffix| suffix != "wasm") {
        for beside in std::fs::read_dir(program.parent().expect("a folder")).expect("its folder").flatten() {
            if !beside.path().is_file() {
                continue;
            }
            std::fs::copy(beside.path(), folder.join(beside.file_name())).expect("a module");
        }
    }
    let mut bytes = std::fs::read(program).expect("a program");
    match program.extension().and_then(|suffix| suffix.to_str()) {
        // A custom section: its size, the length of its name, the name.
        Some("wasm") => bytes.extend([0, 2, 1, b'0' + edit]),
        Some("py") => bytes.extend(format!("\n# {edit}\n").bytes()),
        _ => bytes.extend(format!("\n// {edit}\n").bytes()),
    }
    let file = folder.join(program.file_name().expect("a file"));
    std::fs::write(&file, bytes).expect("a file");
    file
}

/// Steps that run one entry with the run's input.
fn workflow(host: &Host, program: &Path, entry: &str, copies: usize) -> Workflow {
    let steps: Vec<Value> = (0..copies)
        .map(|n| json!({ "id": format!("s{n}"), "uses": "guest", "entry": entry, "with": "${ .inputs.input }" }))
        .collect();
    let text = json!({
        "inputs": { "input": { "required": false } },
        "components": { "guest": { "source": format!("./{}", program.file_name().expect("a file").display()), "limits": { "memory": "256MiB" } } },
        "steps": steps,
    });
    host.parse("languages.yaml", &text.to_string(), program.parent().expect("a folder"))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn outputs(host: &Host, workflow: &Workflow, input: Value) {
    let inputs = Map::from_iter([("input".to_owned(), input)]);
    let outcome = host.start(workflow, inputs, RunOptions::default()).expect("it starts").wait();
    assert!(outcome.result.is_ok(), "{}", outcome.to_json());
}

/// Kilobytes of one process that waits for a signal.
fn waiting(host: &Host, program: &Path, before: usize, count: usize) -> f64 {
    let waits = |copies: usize| {
        let workflow = workflow(host, program, "signal", copies);
        let inputs = Map::from_iter([("input".to_owned(), json!({ "name": "go" }))]);
        let run = host.start(&workflow, inputs, RunOptions::default()).expect("it starts");
        let begun = Instant::now();
        let is_waiting = || run.inner().signals().iter().any(|signal| signal.waiting == copies);
        while !is_waiting() {
            assert!(begun.elapsed() < Duration::from_mins(1) && run.outcome().is_none(), "{:?}", run.processes());
            std::thread::sleep(Duration::from_millis(1));
        }
        run
    };
    // What is made once is made for these, and they take what was freed before.
    let first = waits(before);
    let start = anonymous_kb();
    let run = waits(count);
    let each = (anonymous_kb() - start) / count as f64;
    for run in [first, run] {
        run.kill("it was weighed");
        run.wait();
    }
    each
}

/// CPU time of all threads of this process.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after_name = text.rsplit(") ").next().expect("a line");
    let ticks: u64 = after_name.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks")).sum();
    // The kernel's unit for this file on all architectures that Rust has std for.
    Duration::from_millis(10 * ticks)
}

fn anonymous_kb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("a figure");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
