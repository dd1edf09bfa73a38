//! The cost of commit and records: native processes within a run against the bare scheduler, in one
//! program and interleaved.
//!
//! ```text
//! cargo bench --no-default-features --bench run -- [<workload>…] [workers=<n>] [rounds=<n>] [only=<bare|nothing|memory>]
//! ```
//! `only` is for profiles: the other columns are not measured.
//! With one worker the CPU time of all threads is counted, with more the time that passes.
//!
//! For each workload: the bare scheduler, a run whose log stores nothing, and one whose log stores
//! everything in memory; medians, and the ratios to the bare scheduler.

#[path = "../effects.rs"]
mod effects;
#[path = "../scheduler/machine.rs"]
#[allow(dead_code, reason = "the workloads that are not compared")]
mod machine;
#[path = "../scheduler/measure.rs"]
#[allow(dead_code, reason = "what is not measured here")]
mod measure;
mod processes;

use effects::NoEffects;
use machine::{Done, Machine};
use processes::{Names, Play};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wfhost::journal::{Memory, Nothing};
use wfhost::process::{Grants, Limits, NativeProgram, Payload, Permit, Program};
use wfhost::run::{Bounds, Clock, Kernel, Log, RunSpec};
use wfhost::scheduler::{Config, Port, Scheduler};

/// A workload: how often its unit happens, its root within a run with its parameter, and the bare
/// machine.
struct Load {
    name: &'static str,
    units: u64,
    entry: &'static str,
    rounds: u64,
    is_skynet: bool,
    bare: fn(Done) -> Machine,
}

const PINGS: u64 = 200_000;
const PAIRS: u64 = 400;
const YIELDS: u64 = 1_000;

const LOADS: [Load; 5] = [
    Load {
        name: "pingpong",
        units: 2 * PINGS,
        entry: "pairs 1",
        rounds: PINGS,
        is_skynet: false,
        bare: |done| Machine::pairs(1, PINGS, done),
    },
    Load {
        name: "pairs",
        units: 2 * PAIRS * 1_000,
        entry: "pairs 1000",
        rounds: PAIRS,
        is_skynet: false,
        bare: |done| Machine::pairs(1_000, PAIRS, done),
    },
    Load {
        name: "yield",
        units: 100 * YIELDS,
        entry: "yields 100",
        rounds: YIELDS,
        is_skynet: false,
        bare: |done| Machine::yields(100, YIELDS, done),
    },
    Load {
        name: "fib",
        units: 21_891,
        entry: "node 20",
        rounds: 0,
        is_skynet: false,
        bare: |done| Machine::fib(20, done),
    },
    Load {
        name: "skynet",
        units: 111_111,
        entry: "node 5",
        rounds: 0,
        is_skynet: true,
        bare: |done| Machine::skynet(100_000, done),
    },
];

/// Measures by the CPU time of one worker, or by the wall clock.
struct Watch {
    start: Instant,
    cpu: Option<Duration>,
}

impl Watch {
    fn start(workers: usize) -> Self {
        Self { start: Instant::now(), cpu: (workers == 1).then(measure::cpu) }
    }

    fn took(&self) -> Duration {
        self.cpu.map_or_else(|| self.start.elapsed(), |cpu| measure::cpu().saturating_sub(cpu))
    }
}

fn bare(load: &Load, workers: usize) -> Duration {
    let config = Config { workers, ..Config::default() };
    let scheduler = Scheduler::start(Arc::new(machine::Bench), &config).expect("threads can be had");
    let mut took = Duration::ZERO;
    for _ in 0..2 {
        let done = Done::new(1);
        let watch = Watch::start(workers);
        scheduler.handle().spawn((load.bare)(done.clone()), Permit::NONE).ok().expect("the scheduler is open");
        done.wait();
        took = watch.took();
    }
    took
}

fn within(load: &Load, workers: usize, log: fn() -> Box<dyn Log>) -> Duration {
    let kernel = Kernel::new(Clock::system());
    let config = Config { workers, ..Config::default() };
    let scheduler = Scheduler::start(Arc::new(kernel.clone()), &config).expect("threads can be had");
    kernel.attach(scheduler.handle());
    let names = Arc::new(Names::new());
    let root: Arc<dyn Program> = Arc::new(NativeProgram::new("play", 1, move || Play::new(&names)));
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&load.rounds.to_le_bytes());
    seed[8] = load.is_skynet.into();
    let mut took = Duration::ZERO;
    for round in 0..2 {
        let spec = RunSpec {
            id: format!("run-{round}").into(),
            seed,
            root: Arc::clone(&root),
            entry: load.entry.into(),
            input: Payload::NULL,
            limits: Limits { processes: u32::MAX, ..Limits::default() },
            grants: Grants::default(),
            bounds: Bounds::default(),
            programs: [].into(),
            log: log(),
            effects: Arc::new(NoEffects),
            sink: None,
            watcher: None,
            origin: None,
        };
        let watch = Watch::start(workers);
        let run = kernel.start(spec).expect("the scheduler is open");
        let outcome = run.wait();
        took = watch.took();
        assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    }
    kernel.detach();
    took
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut workers = 1;
    let mut rounds = 7;
    let mut only = None;
    let mut names = Vec::new();
    for argument in std::env::args().skip(1).filter(|argument| argument != "--bench") {
        match argument.split_once('=') {
            Some(("workers", number)) => workers = number.parse().expect("a number of workers"),
            Some(("rounds", number)) => rounds = number.parse().expect("a number of rounds"),
            Some(("only", column)) => only = Some(column.to_owned()),
            _ => names.push(argument),
        }
    }
    println!("workers {workers}, {rounds} rounds, ns a unit (hop, yield, spawned process): medians");
    println!("{:10} {:>8} {:>8} {:>6} {:>8} {:>6}", "workload", "bare", "nothing", "x", "memory", "x");
    for load in LOADS.iter().filter(|load| names.is_empty() || names.iter().any(|name| name == load.name)) {
        let mut figures = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            let per = |took: Duration| took.as_nanos() as f64 / load.units as f64;
            let column = |name: &str, measure: &dyn Fn() -> Duration| match &only {
                Some(only) if only != name => f64::NAN,
                _ => per(measure()),
            };
            figures[0].push(column("bare", &|| bare(load, workers)));
            figures[1].push(column("nothing", &|| within(load, workers, || Box::new(Nothing))));
            figures[2].push(column("memory", &|| within(load, workers, || Box::new(Memory::new(1 << 30)))));
        }
        let [bare, nothing, memory] = figures.map(median);
        let (x, y) = (nothing / bare, memory / bare);
        println!("{:10} {bare:8.1} {nothing:8.1} {x:6.2} {memory:8.1} {y:6.2}", load.name);
    }
}
