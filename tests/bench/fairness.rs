//! Fairness among wasm guests: how long a ping through a third process takes while every worker has
//! a guest that never ends its step.
//!
//! ```text
//! cargo bench --bench fairness [-- seconds=<n>] [workers=<n>]
//! ```
//! First the length of a slice: one endless loop per worker and nothing else, the time between two
//! preemptions of a worker. Then the same with a native process that pings a guest once a
//! millisecond: from the ping to the pong, and from the due time of the timer to the step that
//! receives it; medians, the 99th percentile, and its ratio to the slice. Without endless loops for
//! comparison.

use serde_json::Map;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wfhost::guest::EngineOptions;
use wfhost::host::{Host, RunHandle, RunOptions};
use wfhost::process::{Action, Context, Event, Micros, Payload, Problem, Process, Send, Spawn, Status, Tag, Target};

/// Between a pong and the next ping.
const PAUSE: Duration = Duration::from_millis(1);

type Times = Arc<parking_lot::Mutex<Samples>>;

#[derive(Default)]
struct Samples {
    /// From the ping to the pong.
    pong: Vec<Duration>,
    /// From the due time of a timer to the step that receives it.
    wake: Vec<Duration>,
}

/// Sleeps, pings a guest, waits for the pong, and so on.
struct Pinger {
    times: Times,
    pong: Option<Tag>,
    sent: Instant,
    due: Instant,
}

impl Pinger {
    fn sleep(&mut self, context: &mut Context<'_>) {
        self.due = Instant::now() + PAUSE;
        context.command(Action::Sleep(Micros::from(PAUSE)));
    }

    fn ping(&mut self, context: &mut Context<'_>, pong: Tag) {
        self.sent = Instant::now();
        let to = Target::Child(pong);
        context.command(Action::Send(Send::new(to, "ping".into(), Payload::NULL)));
    }
}

impl Process for Pinger {
    fn init(&mut self, context: &mut Context<'_>, _: &str, _: Payload) -> Result<(), Problem> {
        let pong = context.command(Action::Spawn(Box::new(Spawn {
            component: Some("pong".into()),
            entry: "pong".into(),
            input: Payload::NULL,
            name: None,
            link: true,
            detached: false,
            narrow: None,
            placement: None,
        })));
        self.ping(context, pong);
        self.pong = Some(pong);
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> Status {
        for event in events.drain(..) {
            match event {
                Event::Message(_) => {
                    self.times.lock().pong.push(self.sent.elapsed());
                    self.sleep(context);
                }
                Event::Completed { answer: Ok(_), .. } => {
                    self.times.lock().wake.push(self.due.elapsed());
                    let pong = self.pong.expect("invariant: init has spawned it");
                    self.ping(context, pong);
                }
                Event::Completed { answer: Err(problem), .. } => panic!("{problem}"),
                Event::Cancel { .. } => return Status::Complete(Payload::NULL),
                _ => {}
            }
        }
        Status::Idle
    }
}

fn host(workers: usize, times: &Times) -> Host {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-cache");
    let options = EngineOptions { slots: Some(64), cache_dir: Some(cache), ..EngineOptions::default() };
    let times = Arc::clone(times);
    let pinger = move || Pinger { times: Arc::clone(&times), pong: None, sent: Instant::now(), due: Instant::now() };
    Host::builder().workers(workers).guests(options).native("pinger", 1, pinger).build().expect("a host")
}

fn start(host: &Host, hogs: usize, pings: bool) -> RunHandle {
    let mut steps = String::new();
    for hog in 0..hogs {
        writeln!(
            steps,
            "  - {{ id: hog{hog}, uses: hog, entry: endless-loop, limits: {{ fuel-per-step: 1000000G, grace: 1ms }} }}"
        )
        .expect("text");
    }
    if pings {
        steps.push_str("  - { id: pings, uses: pinger, limits: { grace: 1s } }\n");
    }
    let text = format!(
        "components: {{ hog: ./hostile.wasm, pong: ./pingpong.wasm, pinger: \"native:pinger\" }}\nsteps:\n{steps}"
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/built");
    let workflow = host.parse("fairness.yaml", &text, folder).unwrap_or_else(|error| panic!("{error}"));
    host.start(&workflow, Map::new(), RunOptions::default()).expect("it starts")
}

fn stop(host: &Host, run: &RunHandle) {
    run.cancel("the bench is over", None).expect("it runs");
    run.wait();
    host.shutdown_blocking(Duration::from_secs(10));
}

/// Time of a worker between two preemptions.
fn slice(workers: usize, time: Duration) -> Duration {
    let host = host(workers, &Times::default());
    let run = start(&host, workers, false);
    while host.stats().preemptions < 10 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (begin, before) = (Instant::now(), host.stats().preemptions);
    std::thread::sleep(time);
    let preemptions = host.stats().preemptions - before;
    let slice = begin.elapsed() * workers as u32 / u32::try_from(preemptions).expect("fewer than 2^32");
    stop(&host, &run);
    slice
}

fn pings(workers: usize, hogs: usize, time: Duration) -> Samples {
    let times = Times::default();
    let host = host(workers, &times);
    let run = start(&host, hogs, true);
    while times.lock().pong.len() < 10 {
        assert!(run.outcome().is_none(), "{:?}", run.outcome());
        std::thread::sleep(Duration::from_millis(1));
    }
    *times.lock() = Samples::default();
    std::thread::sleep(time);
    stop(&host, &run);
    std::mem::take(&mut *times.lock())
}

fn quantile(times: &mut [Duration], permille: usize) -> Duration {
    times.sort();
    times[(times.len() - 1) * permille / 1_000]
}

fn row(name: &str, mut times: Vec<Duration>, slice: Duration) {
    let (p50, p99) = (quantile(&mut times, 500), quantile(&mut times, 990));
    let [p50, p99, slice] = [p50, p99, slice].map(|time| time.as_secs_f64() * 1e6);
    println!("{name:<34} {:>7} {p50:>9.1} {p99:>9.1} {:>8.2}", times.len(), p99 / slice);
}

fn number(name: &str) -> Option<usize> {
    std::env::args().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn main() {
    let time = Duration::from_secs(number("seconds").unwrap_or(3) as u64);
    let workers = number("workers").unwrap_or(2);
    let slice = slice(workers, time);
    println!("{workers} workers; a slice takes {:.1} us", slice.as_secs_f64() * 1e6);
    println!("{:<34} {:>7} {:>9} {:>9} {:>8}", "", "times", "p50 us", "p99 us", "slices");
    for (name, hogs) in
        [("no endless loop", 0), ("an endless loop per worker", workers), ("ten per worker", 10 * workers)]
    {
        let Samples { pong, wake } = pings(workers, hogs, time);
        row(&format!("{name}: pong"), pong, slice);
        row(&format!("{name}: wake"), wake, slice);
    }
}
