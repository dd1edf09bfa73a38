//! A journal that is behind: no process of its runs begins a step, and nothing else stands still.

use super::desk::Desk;
use super::parking::waits;
use super::support::*;
use crate::journal::Memory;
use crate::process::{Action, Micros, Payload, Program, Status};
use crate::run::{Backlog, Clock, Durability, Kernel, Log, RunHandle};
use crate::scheduler::{Config, Scheduler};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A log of a journal that is behind when the test says so.
#[derive(Default)]
struct Behind {
    memory: Memory,
    backlog: Arc<Backlog>,
}

impl Log for Behind {
    fn append(&mut self, record: &[u8]) -> Durability {
        self.memory.append(record)
    }

    fn backlog(&self) -> Option<Arc<Backlog>> {
        Some(Arc::clone(&self.backlog))
    }

    fn records(&self) -> Option<Vec<Bytes>> {
        self.memory.records()
    }
}

pub(super) fn start(kernel: &Kernel, id: &str, root: &Arc<dyn Program>, backlog: &Arc<Backlog>) -> RunHandle {
    let mut spec = spec(Arc::clone(root), Arc::default(), &Setup::default());
    spec.id = id.into();
    spec.log = Box::new(Behind { backlog: Arc::clone(backlog), ..Behind::default() });
    kernel.start(spec).unwrap()
}

pub(super) fn has_room(backlog: &Backlog) {
    backlog.set_full(false);
    backlog.release();
}

fn signal(run: &RunHandle, name: &str) {
    run.signal(name, Payload::NULL).unwrap();
}

/// Waits for three signals at once, as `waits` does, and completes with what it received, in order.
fn hearer(status: Status) -> Arc<dyn Program> {
    program(move |_| {
        let (mut heard, mut begun, status) = (Vec::new(), false, status.clone());
        act(move |context, events| {
            if !std::mem::replace(&mut begun, true) {
                for name in ["a", "b", "c"] {
                    context.command(waits(name));
                }
            }
            heard.extend(events.drain(..).map(|event| tell(&event)));
            if heard.len() == 3 { Status::Complete(Payload::json(&heard)) } else { status.clone() }
        })
    })
}

#[test]
fn a_process_is_deferred_and_receives_everything_in_order_when_there_is_room() {
    for status in [Status::Idle, Status::Blocked] {
        let (mut desk, backlog) = (Desk::new(1), Arc::<Backlog>::default());
        let run = start(&desk.kernel, "run", &hearer(status), &backlog);
        let never_begun = start(&desk.kernel, "never-begun", &hearer(Status::Idle), &backlog);
        // Another run's journal is not behind.
        let other = start(&desk.kernel, "other", &program(|_| collect(Vec::new, 0)), &Arc::default());
        while run.counts().steps == 0 {
            assert!(desk.turn());
        }
        let begun = never_begun.counts().steps;
        backlog.set_full(true);
        for name in ["b", "c", "a"] {
            signal(&run, name);
            desk.drain();
        }
        assert_eq!((run.counts().steps, never_begun.counts().steps), (1, begun), "no step begins");
        assert_eq!(run.counts().records, 5, "what comes from outside is recorded");
        assert!(other.outcome().is_some());
        has_room(&backlog);
        desk.drain();
        assert_eq!(output(&run.outcome().unwrap()), r#"["2 null","3 null","1 null"]"#);
        assert_eq!((run.counts().steps, never_begun.counts().steps), (2, 1));

        // The events that it had when it was deferred are all that it is stepped for.
        backlog.set_full(true);
        signal(&never_begun, "a");
        desk.drain();
        has_room(&backlog);
        desk.drain();
        assert_eq!(never_begun.counts().steps, 2);
    }
}

#[test]
fn whom_an_operator_has_paused_stays_so_when_there_is_room() {
    let (mut desk, backlog) = (Desk::new(1), Arc::<Backlog>::default());
    let run = start(&desk.kernel, "run", &hearer(Status::Idle), &backlog);
    desk.drain();
    backlog.set_full(true);
    signal(&run, "a");
    desk.drain();
    run.pause().unwrap();
    has_room(&backlog);
    desk.drain();
    assert_eq!(run.counts().steps, 1, "it is paused");
    run.unpause().unwrap();
    desk.drain();
    assert_eq!(run.counts().steps, 2);

    // The other way round: unpaused while there is no room, it is deferred again.
    signal(&run, "b");
    run.pause().unwrap();
    backlog.set_full(true);
    run.unpause().unwrap();
    desk.drain();
    assert_eq!(run.counts().steps, 2);
    has_room(&backlog);
    desk.drain();
    assert_eq!(run.counts().steps, 3);
}

#[test]
fn a_deferred_process_can_be_ended() {
    let (mut desk, backlog) = (Desk::new(1), Arc::<Backlog>::default());
    let run = start(&desk.kernel, "run", &hearer(Status::Idle), &backlog);
    desk.drain();
    backlog.set_full(true);
    signal(&run, "a");
    desk.drain();
    run.kill("enough");
    desk.settle();
    assert_eq!(desk.living(), 0);
    let ending = &run.outcome().unwrap().ending;
    assert!(matches!(ending, crate::process::Ending::Cancelled(reason) if &**reason == "enough"), "{ending:?}");
}

/// Room comes and goes while workers check for it: every process continues in the end.
#[test]
fn no_deferred_process_is_forgotten() {
    const STEPS: u64 = 2_000;
    let kernel = Kernel::new(Clock::system());
    let scheduler = Scheduler::start(Arc::new(kernel.clone()), &Config { workers: 2, ..Config::default() }).unwrap();
    kernel.attach(scheduler.handle());
    let root = program(|_| {
        let mut steps = 0;
        act(move |context, _| {
            steps += 1;
            if steps % 5 == 0 {
                context.command(Action::Sleep(Micros(1)));
            }
            match steps {
                STEPS => Status::Complete(Payload::NULL),
                _ if steps % 5 == 0 => Status::Idle,
                _ => Status::Ready,
            }
        })
    });
    let backlog = Arc::<Backlog>::default();
    let runs: Vec<_> = (0..20).map(|n| start(&kernel, &format!("run-{n}"), &root, &backlog)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                backlog.set_full(true);
                std::thread::yield_now();
                has_room(&backlog);
                std::thread::yield_now();
            }
        });
        for run in &runs {
            run.pause().and_then(|()| run.unpause()).ok();
        }
        let ended = runs.iter().all(|run| run.wait_for(Duration::from_mins(2)).is_some());
        done.store(true, Relaxed);
        assert!(ended);
    });
    let _ = scheduler.shutdown(Duration::from_secs(10));
    kernel.detach();
}

#[test]
fn a_shutdown_ends_deferred_processes() {
    let kernel = Kernel::new(Clock::system());
    let scheduler = Scheduler::start(Arc::new(kernel.clone()), &Config { workers: 1, ..Config::default() }).unwrap();
    kernel.attach(scheduler.handle());
    let backlog = Arc::<Backlog>::default();
    backlog.set_full(true);
    let run = start(
        &kernel,
        "run",
        &program(|_| {
            act(|_, events| match events.pop() {
                Some(_) => Status::Complete(Payload::NULL),
                None => Status::Idle,
            })
        }),
        &backlog,
    );
    let shutdown = scheduler.shutdown(Duration::from_mins(2));
    assert_eq!((shutdown.alive.len(), run.outcome().is_some()), (0, true));
    kernel.detach();
}
