//! What the tests of guests share: an engine, inits, and a loop that steps a body.

pub(crate) use crate::process_init::init;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use wfhost::guest::{Component, EngineOptions, GuestEngine};
use wfhost::process::{
    Body, Death, Event, Message, Output, Payload, Pid, ProcessInit, Program, Progress, Sender, Status, Timestamp,
};

/// One engine for all tests: a small pool, and code that is compiled once.
pub(crate) static ENGINE: LazyLock<Arc<GuestEngine>> = LazyLock::new(|| engine(EngineOptions::default()));

pub(crate) fn engine(options: EngineOptions) -> Arc<GuestEngine> {
    let cache = std::env::var_os("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let options = EngineOptions {
        slots: options.slots.or(Some(64)),
        cache_dir: Some(cache.join("wfhost-test-cache")),
        ..options
    };
    Arc::new(GuestEngine::new(options).expect("an engine"))
}

/// A guest of `guests/built`.
pub(crate) fn built(name: &str) -> Component {
    built_in(&ENGINE, name)
}

/// The same in another engine.
pub(crate) fn built_in(engine: &Arc<GuestEngine>, name: &str) -> Component {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("guests/built").join(format!("{name}.wasm"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Component::load(engine, &bytes).expect("a component that fits")
}

/// How a step ended.
#[derive(Debug)]
pub(crate) enum End {
    Stepped(Status),
    Died(Death),
}

impl End {
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Stepped(status) => status,
            Self::Died(death) => panic!("died: {death:?}"),
        }
    }

    /// The problem that the guest died of.
    #[track_caller]
    pub(crate) fn problem(self) -> wfhost::process::Problem {
        match self {
            Self::Died(Death::Guest(problem)) => problem,
            other => panic!("not dead by its own doing: {other:?}"),
        }
    }
}

/// A guest with the output of its last step.
pub(crate) struct Stepper {
    pub(crate) body: Box<dyn Body>,
    pub(crate) output: Output,
    /// Slices that the last step used up.
    pub(crate) preempted: u32,
    now: u64,
}

impl Stepper {
    pub(crate) fn new(component: &Component, init: ProcessInit) -> Self {
        Self::with(component.body(init).expect("a body"), 0)
    }

    /// Continues with a body that has made this many steps.
    pub(crate) fn with(body: Box<dyn Body>, steps: usize) -> Self {
        Self { body, output: Output::default(), preempted: 0, now: 1_000_000 + steps as u64 * 1_000 }
    }

    pub(crate) fn step(&mut self, mut events: Vec<Event>) -> End {
        self.now += 1_000;
        self.output.clear();
        self.preempted = 0;
        self.body.begin(Timestamp(self.now), &mut events);
        loop {
            match self.body.poll(&mut self.output) {
                Progress::Preempted => self.preempted += 1,
                Progress::Stepped(status) => return End::Stepped(status),
                Progress::Died(death) => return End::Died(death),
            }
        }
    }
}

pub(crate) fn message(topic: &str, bytes: &[u8]) -> Event {
    Event::Message(Box::new(Message {
        sender: Sender::Process(Pid(2)),
        topic: topic.into(),
        body: Payload::Bytes(bytes.to_vec().into()),
    }))
}
