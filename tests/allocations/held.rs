//! A run counts about as much as the host holds for it.

use crate::ALLOCATOR;
use crate::effects::NoEffects;
use stats_alloc::Region;
use std::sync::Arc;
use wfhost::base::VirtualClock;
use wfhost::journal::Nothing;
use wfhost::process::{
    Action, Context, Event, Grants, Limits, Micros, NativeProgram, Payload, Pid, Problem, Process, Send, Status,
    Target, Timestamp,
};
use wfhost::run::{Bounds, Clock, Kernel, RunSpec};
use wfhost::scheduler::{Config, TurnOutcome, VirtualScheduler};

/// Sends itself messages of this many bytes without receiving them: it waits for something else.
struct Deaf(usize);

impl Process for Deaf {
    fn init(&mut self, _: &mut Context<'_>, _: &str, _: Payload) -> Result<(), Problem> {
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, _: &mut Vec<Event>) -> Status {
        for _ in 0..MESSAGES {
            let body = Payload::Bytes(vec![7; self.0].into());
            let send = Send::new(Target::Process(Pid::ROOT), "t".into(), body);
            context.command(Action::Send(send));
        }
        context.command(Action::Sleep(Micros(1_000_000)));
        Status::Blocked
    }
}

const MESSAGES: usize = 5_000;

/// Bytes that the host has allocated for the messages of a run, and the run's own count.
fn messages_of(bytes: usize) -> (f64, f64) {
    let time = VirtualClock::default();
    let wall = time.clone();
    let kernel = Kernel::new(Clock::new(move || Timestamp(wall.now().0)));
    let config = Config { workers: 1, clock: wfhost::base::Clock::Virtual(time), ..Config::default() };
    let mut scheduler = VirtualScheduler::new(Arc::new(kernel.clone()), &config);
    kernel.attach(scheduler.handle());
    let region = Region::new(ALLOCATOR);
    let spec = RunSpec {
        id: "held".into(),
        seed: [7; 32],
        root: Arc::new(NativeProgram::new("deaf", 1, move || Deaf(bytes))),
        entry: "run".into(),
        input: Payload::NULL,
        limits: Limits::default(),
        grants: Grants::default(),
        bounds: Bounds::default(),
        programs: [].into(),
        log: Box::new(Nothing),
        effects: Arc::new(NoEffects),
        sink: None,
        watcher: None,
        origin: None,
    };
    let run = kernel.start(spec).expect("it begins");
    while scheduler.turn(0) != TurnOutcome::Nothing {}
    let change = region.change();
    let held = kernel.held_bytes();
    assert_eq!(run.counts().messages, MESSAGES as u64);
    (change.bytes_allocated as f64 - change.bytes_deallocated as f64, held as f64)
}

/// A twentieth is the run's own memory, and the rounding of its share.
pub(crate) fn what_is_counted_is_what_is_held() {
    for bytes in [1, 100, 3_000] {
        let (allocated, held) = messages_of(bytes);
        println!("messages of {bytes} bytes: {allocated} allocated, {held} counted");
        assert!(allocated < held * 1.05, "messages of {bytes} bytes take {allocated}, and {held} are counted");
        assert!(held < allocated * 2.0, "messages of {bytes} bytes take {allocated} only, and {held} are counted");
    }
}
