//! What waiting runs cost a host: memory and disk for each, and the time to wake one.
//!
//! ```text
//! cargo bench --no-default-features --features sqlite --bench parking [-- runs=100000 wake=2000 folder=…]
//! ```
//! Each run is one process that waits for a signal, in an SQLite journal on a real disk. All are
//! started, and parked as they come. Then some are woken by their signal, one after the other.
//! Memory is the process's resident memory, disk the size of the journal's files; times are of this
//! machine and disk.

mod effects;

use effects::NoEffects;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use wfhost::journal::{DurabilityListener, Journal as _, NewRun, Sqlite, StoreError};
use wfhost::process::{
    Action, Call, Context, Event, Grants, Limits, NativeProgram, Payload, Problem, Process, Program, Status, Timestamp,
};
use wfhost::run::{Bounds, Clock, Effects, Kernel, ParkingPolicy, Programs, RunHandle, RunSpec};
use wfhost::scheduler::{Config, Scheduler};

/// About what is stored beside a run of a small workflow: its text, names and digests.
const ABOUT_BYTES: usize = 400;

/// Waits for one signal, and completes with what it carries.
struct Waiter;

impl Process for Waiter {
    fn init(&mut self, _: &mut Context<'_>, _: &str, _: Payload) -> Result<(), Problem> {
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> Status {
        match events.pop() {
            Some(Event::Completed { answer: Ok(payload), .. }) => Status::Complete(payload),
            _ => {
                let args = Payload::json(&serde_json::json!({ "name": "go" }));
                let call =
                    Call { handler: "signal".into(), args, timeout: None, idempotency_key: None, placement: None };
                context.command(Action::Call(Box::new(call)));
                Status::Blocked
            }
        }
    }
}

/// Reports to the runs what is durable.
#[derive(Clone, Default)]
struct DurableReports(Arc<OnceLock<Arc<Kernel>>>);

impl DurabilityListener for DurableReports {
    fn durable(&self, run: &str, record: u64) {
        if let Some(kernel) = self.0.get() {
            kernel.durable(run, record);
        }
    }

    fn failed(&self, error: &StoreError) {
        panic!("{error}");
    }
}

fn main() {
    let argument = |name: &str| std::env::args().find_map(|arg| Some(arg.strip_prefix(name)?.to_owned()));
    let number = |name, default| argument(name).map_or(default, |number| number.parse().expect("a number"));
    let (runs, wake): (usize, usize) = (number("runs=", 100_000), number("wake=", 2_000));
    let kept = argument("folder=").map(PathBuf::from);
    let folder = tempfile::tempdir_in(kept.as_deref().unwrap_or(Path::new(env!("CARGO_TARGET_TMPDIR"))));
    let folder = folder.expect("a folder");

    let kernel = Arc::new(Kernel::new(Clock::system()));
    kernel.park_when(ParkingPolicy { after: Duration::from_millis(200), resident_max: 1_000 });
    let scheduler = Scheduler::start(Arc::clone(&kernel), &Config { workers: 1, ..Config::default() });
    let scheduler = scheduler.expect("threads can be had");
    kernel.attach(scheduler.handle());
    let told = DurableReports::default();
    let _ = told.0.set(Arc::clone(&kernel));
    let journal = Sqlite::open(folder.path(), Arc::new(told)).expect("a journal");
    let root: Arc<dyn Program> = Arc::new(NativeProgram::new("waiter", 1, || Waiter));
    let effects: Arc<dyn Effects> = Arc::new(NoEffects);
    let id = |n: usize| format!("run-{n:08}");
    let start = |n: usize| {
        let id: Arc<str> = id(n).into();
        let manifest = "x".repeat(ABOUT_BYTES);
        let new = NewRun {
            id: Arc::clone(&id),
            name: "waiter".into(),
            created: Timestamp(n as u64),
            manifest,
            components: Vec::new(),
            ..NewRun::default()
        };
        let spec = RunSpec {
            id,
            seed: [7; 32],
            root: Arc::clone(&root),
            entry: "run".into(),
            input: Payload::NULL,
            limits: Limits::default(),
            grants: Grants::default(),
            bounds: Bounds::default(),
            programs: Programs::default(),
            log: journal.begin(&new).expect("a new run"),
            effects: Arc::clone(&effects),
            sink: None,
            watcher: None,
            origin: None,
        };
        drop(kernel.start(spec).expect("it starts"));
    };
    let settle = || {
        while kernel.resident() > 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        journal.flush().expect("a disk");
    };

    // The first ones pay for what is made once.
    let first = 1_000.min(runs);
    (0..first).for_each(start);
    settle();
    let (memory, disk) = (resident_bytes(), disk_bytes(folder.path()));
    let begun = Instant::now();
    for n in first..runs {
        start(n);
        if n % 1_000_000 == 0 {
            eprintln!("{} million after {:.0} s", n / 1_000_000, begun.elapsed().as_secs_f64());
        }
    }
    settle();
    let took = begun.elapsed();
    let (memory_then, disk_then) = (resident_bytes(), disk_bytes(folder.path()));
    let more = (runs - first).max(1) as f64;
    println!(
        "{runs} runs, each at a signal: started and parked at {:.0} a second; each takes {:.0} bytes of memory ({} MiB in all) and {:.0} bytes on disk",
        more / took.as_secs_f64(),
        memory_then.saturating_sub(memory) as f64 / more,
        memory_then >> 20,
        disk_then.saturating_sub(disk) as f64 / more,
    );
    assert_eq!(kernel.parked().len(), runs, "all are parked");

    // Strides, so that neighbours on disk are not read one after the other.
    let stride = (runs / wake.clamp(1, runs)).max(1);
    let (mut taken, mut done) = (Vec::new(), Vec::new());
    for n in (0..runs).step_by(stride).take(wake) {
        let run: RunHandle = kernel.run(&id(n)).expect("it is parked");
        let begun = Instant::now();
        run.signal("go", Payload::NULL).expect("it waits");
        taken.push(begun.elapsed());
        let outcome = run.wait();
        assert!(outcome.result.is_ok(), "{outcome:?}");
        done.push(begun.elapsed());
    }
    let at = |times: &mut Vec<Duration>, of_100: usize| {
        times.sort_unstable();
        times[(times.len() - 1) * of_100 / 100].as_secs_f64() * 1e6
    };
    println!(
        "  wake one by its signal: p50 {:.0} us, p99 {:.0} us; until its outcome is durable: p50 {:.0} us, p99 {:.0} us ({} woken)",
        at(&mut taken, 50),
        at(&mut taken, 99),
        at(&mut done, 50),
        at(&mut done, 99),
        taken.len()
    );
    let _ = scheduler.shutdown(Duration::from_secs(10));
    kernel.detach();
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4_096
}

fn disk_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}
