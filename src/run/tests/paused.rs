//! Runs that are paused or deferred, on a pool that others need: they block no other run, and lose
//! nothing.

use super::backlog::{has_room, start};
use super::desk::Desk;
use super::support::*;
use crate::process::{
    Action, Body, Budget, Command, Event, Eviction, Micros, Output, Payload, Permit, Problem, ProcessInit, Program,
    Progress, Status, Tag, Timestamp,
};
use crate::run::{Backlog, Programs, Record, RunHandle, rebuild};
use crate::scheduler::Config;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const ONE: Permit = Permit { instances: 1, core_instances: 1, memories: 1, tables: 1, bytes: 0 };

/// A guest that steps as long as it is `ready`, or first waits for sleeps. Its output is what it
/// received.
#[derive(Clone, Default)]
struct Guests {
    /// Slices that a step takes beside its last.
    slices: usize,
    steps: usize,
    sleeps: u64,
    /// Instances that there are.
    live: Arc<AtomicUsize>,
}

struct Guest {
    script: Guests,
    has_instance: bool,
    slices: usize,
    steps: usize,
    heard: Vec<u64>,
    is_cancelled: bool,
}

impl Program for Guests {
    fn permit(&self) -> Permit {
        ONE
    }

    fn digest(&self) -> Arc<str> {
        "guest".into()
    }

    fn body(&self, _: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        let (script, heard) = (self.clone(), Vec::new());
        Ok(Box::new(Guest { script, has_instance: false, slices: 0, steps: 0, heard, is_cancelled: false }))
    }
}

impl Body for Guest {
    fn begin(&mut self, _: Timestamp, events: &mut Vec<Event>) {
        self.slices = self.script.slices;
        for event in events.drain(..) {
            match event {
                Event::Completed { tag, .. } => self.heard.push(tag.0),
                Event::Cancel { .. } => self.is_cancelled = true,
                _ => {}
            }
        }
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        if !std::mem::replace(&mut self.has_instance, true) {
            self.script.live.fetch_add(1, SeqCst);
        }
        if self.slices > 0 {
            self.slices -= 1;
            return Progress::Preempted;
        }
        self.steps += 1;
        if self.steps == 1 {
            let sleep = |tag| Command { tag: Tag(tag), action: Action::Sleep(Micros(10 * tag)) };
            output.commands.extend((1..=self.script.sleeps).map(sleep));
        }
        let has_heard_all = self.heard.len() as u64 == self.script.sleeps;
        Progress::Stepped(if self.is_cancelled || has_heard_all && self.steps >= self.script.steps {
            Status::Complete(Payload::json(&self.heard))
        } else if has_heard_all {
            Status::Ready
        } else {
            Status::Idle
        })
    }

    fn evict(&mut self) -> Eviction {
        self.leave();
        Eviction::Done
    }
}

impl Guest {
    fn leave(&mut self) {
        if std::mem::take(&mut self.has_instance) {
            self.script.live.fetch_sub(1, SeqCst);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A pool for one guest, and perhaps room outside it.
struct Rig {
    desk: Desk,
    backlog: Arc<Backlog>,
    /// Runs that were started.
    count: usize,
}

impl Rig {
    fn new(seed: u64) -> Self {
        Self::with(seed, None)
    }

    fn with(seed: u64, outside: Option<Arc<Budget>>) -> Self {
        let desk = Desk::with(seed, Config { capacity: ONE, outside, ..Config::default() });
        Self { desk, backlog: Arc::default(), count: 0 }
    }

    fn start_behind(&mut self, guests: &Guests, backlog: &Arc<Backlog>) -> RunHandle {
        self.count += 1;
        let root: Arc<dyn Program> = Arc::new(guests.clone());
        start(&self.desk.kernel, &format!("run-{}", self.count), &root, backlog)
    }

    fn start(&mut self, guests: &Guests) -> RunHandle {
        self.start_behind(guests, &Arc::default())
    }

    /// One that waits between two steps, in no queue, because its run is paused.
    fn paused(&mut self, guests: &Guests) -> RunHandle {
        let run = self.start(guests);
        assert!(self.desk.turn());
        run.pause().unwrap();
        self.desk.drain();
        run
    }

    /// Another run comes and goes.
    fn newcomer(&mut self) {
        let guests = Guests { steps: 1, ..Guests::default() };
        let run = self.start(&guests);
        self.desk.drain();
        assert!(run.outcome().is_some(), "a newcomer was kept out");
    }
}

fn busy() -> Guests {
    Guests { steps: 5, ..Guests::default() }
}

fn check(run: &RunHandle, guests: &Guests) {
    let outcome = run.outcome().expect("it goes on when it may");
    let rebuilt = rebuild(&run.records().unwrap(), &(Arc::new(guests.clone()) as _), &Programs::default()).unwrap();
    assert_eq!((rebuilt.result(), rebuilt.steps), (Some(&outcome.result), outcome.counts.steps));
}

#[test]
fn a_paused_run_admits_others_and_continues_when_it_is_unpaused() {
    for seed in 0..6 {
        let (mut rig, guests) = (Rig::new(seed), busy());
        let run = rig.paused(&guests);
        let steps = run.counts().steps;
        assert_eq!(guests.live.load(SeqCst), 1);
        for _ in 0..3 {
            rig.newcomer();
        }
        assert_eq!((run.counts().steps, guests.live.load(SeqCst)), (steps, 0));
        run.unpause().unwrap();
        rig.desk.drain();
        check(&run, &guests);
        assert_eq!(run.counts().steps, 5);
    }
}

#[test]
fn a_run_that_is_paused_in_the_middle_of_a_step_keeps_its_instance_and_others_go_on_outside() {
    for seed in 0..6 {
        let mut rig = Rig::with(seed, Some(Arc::new(Budget::new(u64::MAX))));
        let guests = Guests { slices: 3, ..busy() };
        let run = rig.paused(&guests);
        assert_eq!(run.counts().steps, 0);
        rig.newcomer();
        assert_eq!((run.counts().steps, guests.live.load(SeqCst)), (0, 1));
        run.unpause().unwrap();
        rig.desk.drain();
        check(&run, &guests);
    }
}

#[test]
fn a_run_can_be_paused_again_wherever_its_resumption_is() {
    for seed in 0..6 {
        // This many turns after it was unpaused.
        for turns in 0..6 {
            let (mut rig, guests) = (Rig::new(seed), busy());
            let run = rig.paused(&guests);
            rig.newcomer();
            run.pause().unwrap();
            run.unpause().unwrap();
            for _ in 0..turns {
                rig.desk.turn();
            }
            let _ = run.pause();
            rig.desk.drain();
            rig.newcomer();
            let _ = run.unpause();
            rig.desk.drain();
            check(&run, &guests);
        }
    }
}

#[test]
fn who_waits_without_its_permit_in_a_paused_run_can_be_cancelled_and_killed() {
    for seed in 0..6 {
        let (mut rig, guests) = (Rig::new(seed), busy());
        let (cancelled, killed) = (rig.paused(&guests), rig.paused(&guests));
        rig.newcomer();
        cancelled.cancel("enough", None).unwrap();
        killed.kill("now");
        rig.desk.drain();
        assert!(cancelled.outcome().is_some() && killed.outcome().is_some());
        assert_eq!((rig.desk.living(), guests.live.load(SeqCst)), (0, 0));
        assert!(cancelled.counts().steps < 5);
    }
}

/// A journal that is behind does not hold up runs that are written elsewhere, and a deferred
/// process receives everything in the end.
#[test]
fn a_deferred_process_gives_way_and_loses_nothing() {
    for seed in 0..6 {
        let mut rig = Rig::new(seed);
        let backlog = Arc::clone(&rig.backlog);
        let sleeper = Guests { sleeps: 3, ..Guests::default() };
        let run = rig.start_behind(&sleeper, &backlog);
        rig.desk.drain();
        backlog.set_full(true);
        let never_begun = rig.start_behind(&busy(), &backlog);
        while rig.desk.fire() {
            rig.desk.drain();
        }
        rig.newcomer();
        assert_eq!((run.counts().steps, never_begun.counts().steps, sleeper.live.load(SeqCst)), (1, 0, 0));
        has_room(&backlog);
        rig.desk.drain();
        check(&run, &sleeper);
        assert_eq!(output(&run.outcome().unwrap()), "[1,2,3]");
        check(&never_begun, &busy());
    }
}

/// Room comes and goes, and each time others are deferred that go first: every process gets its
/// turn.
#[test]
fn a_process_that_is_deferred_again_and_again_continues_all_the_same() {
    for seed in 0..6 {
        let mut rig = Rig::new(seed);
        let backlog = Arc::clone(&rig.backlog);
        let runs: Vec<_> = (0..4).map(|_| rig.start_behind(&busy(), &backlog)).collect();
        for _ in 0..100 {
            backlog.set_full(true);
            rig.desk.drain();
            has_room(&backlog);
            for _ in 0..3 {
                rig.desk.turn();
            }
        }
        assert!(runs.iter().all(|run| run.outcome().is_some()));
    }
}

/// A pause that comes between two steps of a run holds what is in a queue already.
#[test]
fn a_paused_run_that_is_recovered_receives_nothing() {
    let root = program(|_| collect(|| vec![calls("safe", number(1))], 1));
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    let mut desk = bench.desk.clone();
    desk.drain();
    bench.run.pause().unwrap();
    let (call, reply) = bench.handlers.waiting.lock().remove(0);
    reply.answer(Ok(call.args));
    desk.drain();
    assert_eq!(bench.run.counts().steps, 1);
    let records: Vec<Record> = bench.run.records().unwrap();
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let recovered = recover(&desk, &root, &handlers, &records);
    desk.drain();
    assert!(recovered.outcome().is_none() && recovered.counts().steps == 1, "{:?}", recovered.outcome());
    recovered.unpause().unwrap();
    desk.drain();
    assert!(recovered.outcome().is_some(), "it did not go on");
}

#[test]
fn a_pause_ends_a_chain_of_processes_that_start_processes() {
    let mut bench = Bench::new(|_| {
        let mut begun = false;
        act(move |context, _| {
            if !std::mem::replace(&mut begun, true) {
                context.command(spawns("next"));
                context.command(spawns("next"));
            }
            Status::Idle
        })
    });
    let run = bench.run.clone();
    for _ in 0..5 {
        assert!(bench.desk.turn());
    }
    run.pause().unwrap();
    let before = run.counts().steps;
    bench.desk.drain();
    assert_eq!(run.counts().steps, before);
    run.unpause().unwrap();
    for _ in 0..50 {
        assert!(bench.desk.turn());
    }
    assert!(run.counts().steps > before, "it did not go on");
}

#[test]
fn one_that_gets_its_permit_while_its_run_is_paused_is_not_stepped() {
    let mut rig = Rig::new(1);
    let first = rig.start(&Guests { slices: 10, steps: 1, ..Guests::default() });
    assert!(rig.desk.turn());
    let guests = busy();
    let second = rig.start(&guests);
    assert!(rig.desk.turn());
    second.pause().unwrap();
    rig.desk.drain();
    assert!(first.outcome().is_some() && second.is_paused());
    assert_eq!(second.counts().steps, 0);
    second.unpause().unwrap();
    rig.desk.drain();
    check(&second, &guests);
}
