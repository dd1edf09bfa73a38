//! The cost of making records durable: the store against the disk's own append and fdatasync, in
//! one program and interleaved.
//!
//! ```text
//! cargo bench --no-default-features --features sqlite --bench journal -- [rounds=<n>] [ms=<n>] [folder=<path>]
//! ```
//! A cell is a group of records, each of another run, that are appended and awaited; the floor
//! writes as many bytes at the end of a file and syncs it. Figures are medians over rounds of `ms`
//! milliseconds for each cell. Disks change their pace: compare within a row.
//!
//! Then: two processes that write to one file, against one; whole runs (begin, three records, end);
//! bytes on disk; and reading a run that goes on from its beginning, in pages of 100 records.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wfhost::journal::{DurabilityListener, Journal, NewRun, Sqlite, StoreError};
use wfhost::process::Timestamp;
use wfhost::run::{EndStatus, Log, RunEnd};

/// Records have this size, and runs take turns in writing them.
const RECORD_BYTES: usize = 300;
const RUNS: usize = 1_000;
const GROUPS: [usize; 4] = [1, 8, 64, 512];
/// What a row of the store has in addition to the record, as a manifest.
const FRAME_BYTES: usize = 16;

struct Quiet;

impl DurabilityListener for Quiet {
    fn durable(&self, _: &str, _: u64) {}
    fn failed(&self, error: &StoreError) {
        panic!("{error}");
    }
}

fn new(id: String) -> NewRun {
    NewRun {
        id: id.into(),
        name: "bench".into(),
        created: Timestamp(0),
        manifest: String::new(),
        components: Vec::new(),
        ..NewRun::default()
    }
}

struct Store {
    sqlite: Sqlite,
    logs: Vec<Box<dyn Log>>,
    next: usize,
    records: usize,
}

impl Store {
    fn open(folder: &Path, name: &str) -> Self {
        let store = Sqlite::open(folder, Arc::new(Quiet)).expect("the store opens");
        let logs = (0..RUNS).map(|run| store.begin(&new(format!("{name} {run}"))).expect("a new run")).collect();
        let mut store = Self { sqlite: store, logs, next: 0, records: 0 };
        store.group(RUNS);
        store
    }

    /// Makes a group durable.
    fn group(&mut self, records: usize) {
        for _ in 0..records {
            let _ = self.logs[self.next].append(&[7; RECORD_BYTES]);
            self.next = (self.next + 1) % RUNS;
        }
        self.records += records;
        self.sqlite.flush().expect("it is durable");
    }
}

/// Groups a second, and their median in microseconds.
#[derive(Clone, Copy)]
struct Pace {
    rate: f64,
    p50: f64,
    p99: f64,
}

fn pace(span: Duration, mut act: impl FnMut()) -> Pace {
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < span {
        let begun = Instant::now();
        act();
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    Pace { rate, p50: times[times.len() / 2], p99: times[times.len() * 99 / 100] }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn bytes(folder: &Path) -> u64 {
    ["journal.db", "journal.db-wal"]
        .iter()
        .filter_map(|name| std::fs::metadata(folder.join(name)).ok())
        .map(|file| file.size())
        .sum()
}

fn against_the_floor(folder: &Path, rounds: usize, span: Duration) {
    println!(
        "{:>4} {:>9} {:>8} {:>8}  {:>9} {:>8} {:>8}  {:>6} {:>6}",
        "g", "floor/s", "p50 us", "p99", "store/s", "p50 us", "p99", "x p50", "x rate"
    );
    let mut store = Store::open(&folder.join("alone"), "run");
    let mut floor = File::create(folder.join("floor")).expect("a file");
    let mut cells = [const { Vec::new() }; GROUPS.len()];
    for _ in 0..rounds {
        for (cell, group) in cells.iter_mut().zip(GROUPS) {
            let data = vec![7; group * (RECORD_BYTES + FRAME_BYTES)];
            let bare = pace(span, || {
                floor.write_all(&data).and_then(|()| floor.sync_data()).expect("the disk takes it");
            });
            cell.push((bare, pace(span, || store.group(group))));
        }
    }
    for (cell, group) in cells.iter().zip(GROUPS) {
        let of = |get: fn(&(Pace, Pace)) -> f64| median(cell.iter().map(get));
        println!(
            "{group:4} {:9.0} {:8.0} {:8.0}  {:9.0} {:8.0} {:8.0}  {:6.2} {:6.2}",
            of(|cell| cell.0.rate),
            of(|cell| cell.0.p50),
            of(|cell| cell.0.p99),
            of(|cell| cell.1.rate),
            of(|cell| cell.1.p50),
            of(|cell| cell.1.p99),
            of(|cell| cell.1.p50 / cell.0.p50),
            of(|cell| cell.1.rate / cell.0.rate),
        );
    }
    let records = store.records;
    drop(store);
    let size = bytes(&folder.join("alone"));
    println!("{records} records of {RECORD_BYTES} bytes: {:.0} bytes of file each", size as f64 / records as f64);
}

/// The other process: writes groups until it is killed.
fn write_for_ever(folder: &Path, group: usize) -> ! {
    let mut store = Store::open(folder, "other");
    loop {
        store.group(group);
    }
}

fn other(folder: &Path, group: usize) -> Child {
    let program = std::env::current_exe().expect("this program");
    Command::new(program).arg("other").arg(folder).arg(group.to_string()).spawn().expect("a process")
}

fn two_processes(folder: &Path, rounds: usize, span: Duration) {
    println!("\ntwo processes on one file: groups of the one, with the other as busy");
    println!("{:>4} {:>9} {:>9} {:>9} {:>8} {:>8}", "g", "alone/s", "with/s", "x rate", "p50 us", "p99");
    for group in [8, 64] {
        let folder = folder.join(format!("shared-{group}"));
        let mut store = Store::open(&folder, "run");
        let mut cells = Vec::new();
        for _ in 0..rounds.min(5) {
            let alone = pace(span, || store.group(group));
            let mut child = other(&folder, group);
            while store.sqlite.run("other 999").expect("it is read").is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let with = pace(span, || store.group(group));
            child.kill().and_then(|()| child.wait()).expect("it was there");
            for run in 0..RUNS {
                store.sqlite.remove(&format!("other {run}")).expect("its host is dead");
            }
            cells.push((alone, with));
        }
        let of = |get: fn(&(Pace, Pace)) -> f64| median(cells.iter().map(get));
        println!(
            "{group:4} {:9.0} {:9.0} {:9.2} {:8.0} {:8.0}",
            of(|cell| cell.0.rate),
            of(|cell| cell.1.rate),
            of(|cell| cell.1.rate / cell.0.rate),
            of(|cell| cell.1.p50),
            of(|cell| cell.1.p99),
        );
    }
}

/// Starts runs, writes three records of each in as many groups, and ends them.
fn whole_runs(folder: &Path, span: Duration) {
    println!("\nwhole runs: begin, three records in three groups, end with the last");
    println!("{:>9} {:>9} {:>12} {:>12}", "in flight", "runs/s", "bytes/run", "largest wal");
    for in_flight in [1, 64, 512] {
        let folder = folder.join(format!("runs-{in_flight}"));
        let store = Sqlite::open(&folder, Arc::new(Quiet)).expect("the store opens");
        let (mut runs, mut wal) = (0_usize, 0);
        let start = Instant::now();
        while start.elapsed() < span * 8 {
            let mut logs: Vec<_> =
                (0..in_flight).map(|at| store.begin(&new(format!("run {}", runs + at))).expect("a new run")).collect();
            for number in 0..3 {
                for log in &mut logs {
                    let _ = log.append(&[number; RECORD_BYTES]);
                    if number == 2 {
                        let _ = log.ended(&RunEnd { status: EndStatus::Succeeded, at: Timestamp(1), fuel: 0 });
                    }
                }
                store.flush().expect("it is durable");
            }
            runs += in_flight;
            wal = wal.max(std::fs::metadata(folder.join("journal.db-wal")).map_or(0, |file| file.size()));
        }
        let rate = runs as f64 / start.elapsed().as_secs_f64();
        drop(store);
        println!("{in_flight:9} {rate:9.0} {:12.0} {wal:12}", bytes(&folder) as f64 / runs as f64);
    }
}

/// Reads unfinished runs from their beginning, a page at a time: a record costs the same however
/// long the run is.
fn pages(folder: &Path) {
    println!("\nan unfinished run, read from its beginning in pages of 100 records");
    println!("{:>9} {:>9} {:>12}", "records", "ms", "us/record");
    let store = Sqlite::open(folder.join("pages"), Arc::new(Quiet)).expect("the store opens");
    for records in [1_000_u64, 4_000, 16_000] {
        let id = format!("run {records}");
        let mut log = store.begin(&new(id.clone())).expect("a new run");
        for _ in 0..records {
            // A row for each.
            let _ = log.append(&[1; RECORD_BYTES]);
            store.flush().expect("it is durable");
        }
        let start = Instant::now();
        let mut read = 0;
        while read < records {
            let page = store.records_within(&id, read + 1, 100, 1 << 20).expect("they are there");
            assert!(!page.is_empty());
            read += page.len() as u64;
        }
        let took = start.elapsed().as_secs_f64();
        println!("{records:9} {:9.1} {:12.2}", took * 1e3, took * 1e6 / records as f64);
    }
}

fn main() {
    let mut arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.first().is_some_and(|argument| argument == "other") {
        write_for_ever(Path::new(&arguments[1]), arguments[2].parse().expect("a size of groups"));
    }
    let (mut rounds, mut span, mut folder) = (6, Duration::from_millis(250), None);
    for argument in arguments.drain(..) {
        match argument.split_once('=') {
            Some(("rounds", number)) => rounds = number.parse().expect("a number of rounds"),
            Some(("ms", number)) => span = Duration::from_millis(number.parse().expect("a number of milliseconds")),
            Some(("folder", path)) => folder = Some(PathBuf::from(path)),
            _ => panic!("unknown argument {argument}"),
        }
    }
    let temporary = tempfile::tempdir_in(folder.unwrap_or_else(std::env::temp_dir)).expect("a folder");
    against_the_floor(temporary.path(), rounds, span);
    two_processes(temporary.path(), rounds, span);
    whole_runs(temporary.path(), span);
    pages(temporary.path());
}
