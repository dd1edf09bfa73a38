//! A process that runs a program.

use super::blobs::{self, Opened, Waiting};
use super::granted::GrantedFolders;
use super::invocation::{Expected, Given, Invocation};
use super::{Loaded, RUN, outcome};
use crate::guest::context::{Context, prepare};
use crate::guest::death::{Phase, classify, host_fault};
use crate::guest::linked::new_store;
use crate::guest::metering::INSTANTIATE_FUEL;
use crate::guest::poll::poll_once;
use crate::guest::wasi::ProgramExit;
use crate::process::problem::kind;
use crate::process::{
    Allocation, Blob, Body, Death, Event, Influences, Limits, Output, Problem, ProcessInit, Progress, Status, Timestamp,
};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, InstancePre};

/// A program runs in one step, where a guest has many: its budget is that of so many. Arbitrary.
const STEPS: u64 = 100;

/// A process of a program.
pub(super) struct Running {
    loaded: Arc<Loaded>,
    granted: Arc<GrantedFolders>,
    init: Arc<ProcessInit>,
    allocation: Allocation,
    now: Timestamp,
    /// What it has depended on.
    influences: Influences,
    state: State,
}

enum State {
    /// Nothing has been executed.
    Fresh,
    /// Its blobs are being opened.
    Opening(Waiting<Opened>, Box<Invocation>),
    /// In its one step.
    Running(Box<Step>),
    /// What it wrote to standard output is being stored.
    Storing(Waiting<Blob>, Box<Step>, Box<Ended>),
    /// The process has ended.
    Ended,
}

struct Step {
    future: Pin<Box<dyn Future<Output = Ended> + Send>>,
    budget: u64,
    uses_blobs: bool,
    given: BTreeMap<String, Given>,
    expected: Expected,
}

/// A program that has ended, in whatever way.
struct Ended {
    store: Store<Context>,
    phase: Phase,
    result: wasmtime::Result<Result<(), ()>>,
}

impl Running {
    pub(super) fn new(loaded: Arc<Loaded>, granted: Arc<GrantedFolders>, init: ProcessInit) -> Self {
        let (init, allocation) = (Arc::new(init), Allocation::default());
        Self { loaded, granted, init, allocation, now: Timestamp(0), influences: Influences::NONE, state: State::Fresh }
    }

    /// Reads the input, and begins to open the blobs that it names.
    ///
    /// # Errors
    /// The problem of an input that does not fit.
    fn read(&mut self) -> Result<State, Progress> {
        let Self { loaded, granted, init, .. } = &*self;
        let invocation = Invocation::read(&loaded.name, granted, &init.entry, &init.input).map_err(failed)?;
        let invocation = Box::new(invocation);
        if !invocation.needs_blobs() {
            return self.start(Opened::nothing(), invocation).map(State::Running);
        }
        let none = || failed(Problem::new(kind::NOT_SUPPORTED, "This host stores no blobs"));
        let blobs = loaded.engine.blobs(&init.holder).ok_or_else(none)?;
        Ok(State::Opening(blobs::open(blobs, &invocation).map_err(failed)?, invocation))
    }

    /// Makes the program's world and store.
    ///
    /// # Errors
    /// The problem of a file that cannot be made, or a fault of the host's.
    fn start(&self, opened: Opened, mut invocation: Box<Invocation>) -> Result<Box<Step>, Progress> {
        let limits = &self.init.limits;
        let linked = self.loaded.linked(self.allocation).cloned();
        let linked = linked.map_err(|reason| Progress::Died(Death::Host(host_fault(reason))))?;
        let mut store = new_store(linked.engine(), self.loaded.options(), &self.init, false);
        let world = opened.world(&mut invocation, limits.payload_bytes).map_err(failed)?;
        store.data_mut().begin_program(world);
        let budget = budget(limits);
        let future = Box::pin(run(store, linked, self.now, budget));
        let uses_blobs = invocation.needs_blobs();
        let Invocation { given, expected, .. } = *invocation;
        Ok(Box::new(Step { future, budget, uses_blobs, given, expected }))
    }

    /// Stores what the program wrote, if it is to become a blob, or ends.
    fn ended(&mut self, step: Box<Step>, ended: Ended, output: &mut Output) -> Progress {
        let is_expected = ended.code().is_some_and(|code| step.expected.codes.contains(&code));
        let storing = ended.store.data().program().filter(|_| is_expected).and_then(blobs::store);
        match storing {
            None => self.end(&step, ended, None, output),
            Some(Err(problem)) => failed(problem),
            Some(Ok(waiting)) => {
                self.state = State::Storing(waiting, step, Box::new(ended));
                Progress::Preempted
            }
        }
    }

    fn end(&mut self, step: &Step, ended: Ended, stored: Option<Blob>, output: &mut Output) -> Progress {
        let code = ended.code();
        let Ended { mut store, phase, result } = ended;
        store.data_mut().take_log(output);
        self.influences = store.data().influences();
        if step.uses_blobs {
            // Another run does not hold them.
            self.influences = self.influences.and(Influences::IDENTITY);
        }
        if phase == Phase::Step {
            let owed = store.data_mut().work.take();
            output.fuel = step.budget.saturating_sub(store.get_fuel().unwrap_or(0)).saturating_add(owed);
        }
        let code = match (code, result) {
            (Some(code), _) => code,
            (None, Err(error)) => return Progress::Died(Self::death(&error, &mut store, phase)),
            (None, Ok(_)) => unreachable!("invariant: it has a code"),
        };
        let world = store.data_mut().end_program().expect("invariant: it began with one");
        let outcome = outcome::of(code, &world, (&step.given, &step.expected), &self.init.limits, stored);
        match outcome {
            Ok(payload) => Progress::Stepped(Status::Complete(payload)),
            Err(problem) => failed(problem),
        }
    }

    /// How it died, with the end of what it wrote to standard error, where programs say why.
    fn death(error: &wasmtime::Error, store: &mut Store<Context>, phase: Phase) -> Death {
        let death = classify(error, store.data(), phase);
        let written = store.data_mut().end_program().map(|world| world.take_stderr()).unwrap_or_default();
        match death {
            Death::Guest(problem) if !written.is_empty() => Death::Guest(outcome::quoting(problem, &written)),
            death => death,
        }
    }
}

impl Ended {
    /// The code with which it ended; `None` if it died.
    fn code(&self) -> Option<u8> {
        match &self.result {
            Ok(Ok(())) => Some(0),
            Ok(Err(())) => Some(1),
            Err(error) => error.downcast_ref::<ProgramExit>().map(|ProgramExit(code)| *code),
        }
    }
}

fn failed(problem: Problem) -> Progress {
    Progress::Stepped(Status::Failed(Arc::new(problem)))
}

/// Fuel of a program.
fn budget(limits: &Limits) -> u64 {
    limits.fuel_per_step.saturating_mul(STEPS).min(limits.fuel_total)
}

/// Makes the instance and runs the program to its end.
async fn run(mut store: Store<Context>, linked: InstancePre<Context>, now: Timestamp, budget: u64) -> Ended {
    prepare(&mut store, now, INSTANTIATE_FUEL);
    let instance = match linked.instantiate_async(&mut store).await {
        Ok(instance) => instance,
        Err(error) => return Ended { store, phase: Phase::Instantiation, result: Err(error) },
    };
    store.data_mut().instantiated();
    prepare(&mut store, now, budget);
    let function = exported(&linked).ok_or_else(|| wasmtime::Error::msg("it does not export `run`"));
    let function = function.and_then(|index| instance.get_typed_func::<(), (Result<(), ()>,)>(&mut store, index));
    let result = match function {
        Ok(function) => function.call_async(&mut store, ()).await.map(|(result,)| result),
        Err(error) => Err(error),
    };
    Ended { store, phase: Phase::Step, result }
}

/// The function `run`, whatever version of WASI it is of.
fn exported(linked: &InstancePre<Context>) -> Option<ComponentExportIndex> {
    let component = linked.component();
    let exports = component.component_type();
    let engine = linked.engine();
    let name = exports.exports(engine).find(|(name, _)| name.starts_with(RUN)).map(|(name, _)| name.to_owned())?;
    let interface = component.get_export_index(None, &name)?;
    component.get_export_index(Some(&interface), "run")
}

impl Body for Running {
    fn begin(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        self.now = now;
        // It has asked for nothing, and ends with its first step.
        events.clear();
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Fresh => match self.read() {
                    Ok(next) => self.state = next,
                    Err(ended) => return ended,
                },
                State::Opening(waiting, invocation) => match waiting.take() {
                    None => {
                        self.state = State::Opening(waiting, invocation);
                        return Progress::Preempted;
                    }
                    Some(Err(problem)) => return failed(problem),
                    Some(Ok(opened)) => match self.start(opened, invocation) {
                        Ok(step) => self.state = State::Running(step),
                        Err(ended) => return ended,
                    },
                },
                State::Running(mut step) => match poll_once(step.future.as_mut()) {
                    Poll::Ready(ended) => return self.ended(step, ended, output),
                    Poll::Pending => {
                        self.state = State::Running(step);
                        return Progress::Preempted;
                    }
                },
                State::Storing(waiting, step, ended) => match waiting.take() {
                    None => {
                        self.state = State::Storing(waiting, step, ended);
                        return Progress::Preempted;
                    }
                    Some(Err(problem)) => return failed(problem),
                    Some(Ok(blob)) => return self.end(&step, *ended, Some(blob), output),
                },
                State::Ended => {
                    let problem = Problem::new(kind::HOST_FAULT, "A process was stepped after its end");
                    return Progress::Died(Death::Host(problem));
                }
            }
        }
    }

    fn influences(&self) -> Influences {
        self.influences
    }

    fn allocate(&mut self, allocation: Allocation) {
        self.allocation = allocation;
        // If linking fails, the step reports it.
        let _ = self.loaded.linked(allocation);
    }

    fn allocates_slowly(&self, allocation: Allocation) -> bool {
        allocation == Allocation::OnDemand && self.loaded.on_demand.get().is_none()
    }

    fn drops_slowly(&self) -> bool {
        matches!(self.state, State::Running(_) | State::Storing(..))
    }
}
