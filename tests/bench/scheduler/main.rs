//! The bare scheduler on the workloads of `tests/bench/peers`: native processes, and a commit point
//! that only steps them.
//!
//! ```text
//! cargo bench --no-default-features --bench scheduler -- <workload> <workers> <n>
//! ```
//! Prints lines `<metric> <value>`. Each workload warms up with a tenth of the work on the same
//! scheduler.

mod machine;
mod measure;

use machine::{Bench, Done, Machine, Rng};
use measure::{cpu, out, percentile_us, resident_bytes};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wfhost::process::Permit;
use wfhost::scheduler::{Config, Port, Scheduler};

fn main() {
    // `cargo bench` adds an argument of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [load, workers, n] = arguments.as_slice() else {
        eprintln!("usage: scheduler <workload> <workers> <n>");
        std::process::exit(2);
    };
    let (Ok(workers), Ok(n)) = (workers.parse(), n.parse()) else {
        eprintln!("error: workers and n are numbers");
        std::process::exit(2);
    };
    if !run(load, workers, n) {
        eprintln!("error: no workload `{load}`");
        std::process::exit(2);
    }
    // The processes of some workloads never end.
    std::process::exit(0);
}

fn run(load: &str, workers: usize, n: u64) -> bool {
    let config = Config { workers, ..Config::default() };
    let scheduler = Scheduler::start(Arc::new(Bench), &config).expect("threads can be had");
    let run = |machine: fn(u64, Done) -> Machine, n: u64| {
        let done = Done::new(1);
        let start = Instant::now();
        scheduler.handle().spawn(machine(n, done.clone()), Permit::NONE).ok().expect("the scheduler is open");
        done.wait();
        start.elapsed()
    };
    let per = |took: Duration, count: u64| out("ns", took.as_nanos() as f64 / count as f64);
    let timed = |machine: fn(u64, Done) -> Machine, warm_up: u64| {
        run(machine, warm_up);
        run(machine, n)
    };
    match load {
        "pingpong" => per(timed(|n, done| Machine::pairs(1, n, done), n / 10), 2 * n),
        "pairs" => per(timed(|n, done| Machine::pairs(1000, n, done), n / 10), 2000 * n),
        "ring" => per(timed(Machine::ring, n / 10), n),
        "count" => per(timed(Machine::count, n / 10), n),
        "fib" => per(timed(Machine::fib, n - 4), fib_calls(n)),
        "skynet" => out("ms", timed(Machine::skynet, n / 10).as_secs_f64() * 1e3),
        "yield" => per(timed(|n, done| Machine::yields(1000, n, done), n / 10), 1000 * n),
        "big" => per(timed(|n, done| Machine::big(200, n, done), n / 10), 400 * n),
        "fair" | "fair-tight" | "fair-coop" => fair(&scheduler, load, n),
        "rss" => {
            let before = resident_bytes();
            run(Machine::parked, n);
            std::thread::sleep(Duration::from_millis(300));
            out("bytes", (resident_bytes() - before) / n as f64);
        }
        "idle" => {
            run(Machine::parked, 10_000);
            std::thread::sleep(Duration::from_millis(300));
            let before = cpu();
            std::thread::sleep(Duration::from_millis(n));
            out("cpu_ms", cpu().saturating_sub(before).as_secs_f64() * 1e3);
        }
        "timers" => timers(&scheduler, n),
        _ => return false,
    }
    if std::env::var_os("STATS").is_some() {
        eprintln!("{:?}", scheduler.stats());
    }
    true
}

/// Two endless loops, and between them a pair that plays ping-pong.
fn fair(scheduler: &Scheduler<Bench>, load: &str, ms: u64) {
    let mut handle = scheduler.handle();
    for _ in 0..2 {
        handle.spawn(Machine::hog(load == "fair-coop"), Permit::NONE).ok().expect("the scheduler is open");
    }
    // Both loops run before the pair comes.
    std::thread::sleep(Duration::from_millis(50));
    let done = Done::new(1);
    let until = Duration::from_millis(ms);
    let pinger = Machine::latency(until, load != "fair-tight", done.clone());
    handle.spawn(pinger, Permit::NONE).ok().expect("the scheduler is open");
    done.wait();
    let mut found = done.found();
    out("p50_us", percentile_us(&mut found.pongs_ns, 0.5));
    out("p99_us", percentile_us(&mut found.pongs_ns, 0.99));
    out("wake99_us", percentile_us(&mut found.wakes_ns, 0.99));
}

/// Timers at random within two seconds, from half a second on.
fn timers(scheduler: &Scheduler<Bench>, n: u64) {
    let before = cpu();
    let done = Done::new(n);
    let mut rng = Rng(42);
    let mut handle = scheduler.handle();
    let start = handle.monotonic().0 + 500_000;
    for _ in 0..n {
        let due = start + rng.next() % 2_000_000;
        handle.spawn(Machine::sleeper(due, done.clone()), Permit::NONE).ok().expect("the scheduler is open");
    }
    done.wait();
    let mut found = done.found();
    out("p99_us", percentile_us(&mut found.wakes_ns, 0.99));
    out("cpu_ms", cpu().saturating_sub(before).as_secs_f64() * 1e3);
}

fn fib_calls(n: u64) -> u64 {
    if n < 2 { 1 } else { 1 + fib_calls(n - 1) + fib_calls(n - 2) }
}
