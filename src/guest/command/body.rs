//! A process that runs a program.

use super::granted::GrantedFolders;
use super::invocation::{Expected, Given, Invocation};
use super::{Loaded, RUN, outcome};
use crate::guest::context::{Context, prepare};
use crate::guest::death::{Phase, classify, host_fault};
use crate::guest::linked::new_store;
use crate::guest::metering::INSTANTIATE_FUEL;
use crate::guest::poll::poll_once;
use crate::guest::wasi::{ProgramExit, World};
use crate::process::problem::kind;
use crate::process::{
    Allocation, Body, Death, Event, Influences, Limits, Output, Problem, ProcessInit, Progress, Status, Timestamp,
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
    /// In its one step.
    Running(Box<Step>),
    /// The process has ended.
    Ended,
}

struct Step {
    future: Pin<Box<dyn Future<Output = Ended> + Send>>,
    budget: u64,
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

    /// Makes the program's world and store.
    ///
    /// # Errors
    /// The problem of an input that does not fit, or a fault of the host's.
    fn start(&self) -> Result<Box<Step>, Progress> {
        let failed = |problem| Progress::Stepped(Status::Failed(Arc::new(problem)));
        let Invocation { arguments, environment, stdin, root, given, expected } =
            Invocation::read(&self.loaded.name, &self.granted, &self.init.entry, &self.init.input).map_err(failed)?;
        let limits = &self.init.limits;
        let linked = self.loaded.linked(self.allocation).cloned();
        let linked = linked.map_err(|reason| Progress::Died(Death::Host(host_fault(reason))))?;
        let mut store = new_store(linked.engine(), self.loaded.options(), &self.init, false);
        store.data_mut().begin_program(World::new(arguments, environment, stdin, root, limits.payload_bytes));
        let budget = budget(limits);
        let future = Box::pin(run(store, linked, self.now, budget));
        Ok(Box::new(Step { future, budget, given, expected }))
    }

    fn end(&mut self, step: &Step, ended: Ended, output: &mut Output) -> Progress {
        let Ended { mut store, phase, result } = ended;
        store.data_mut().take_log(output);
        self.influences = store.data().influences();
        if phase == Phase::Step {
            let owed = store.data_mut().work.take();
            output.fuel = step.budget.saturating_sub(store.get_fuel().unwrap_or(0)).saturating_add(owed);
        }
        let code = match result {
            Ok(Ok(())) => 0,
            Ok(Err(())) => 1,
            Err(error) => match error.downcast_ref::<ProgramExit>() {
                Some(ProgramExit(code)) => *code,
                None => return Progress::Died(Self::death(&error, &mut store, phase)),
            },
        };
        let world = store.data_mut().end_program().expect("invariant: it began with one");
        let outcome = outcome::of(code, &world, &step.given, &step.expected, &self.init.limits);
        Progress::Stepped(match outcome {
            Ok(payload) => Status::Complete(payload),
            Err(problem) => Status::Failed(Arc::new(problem)),
        })
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
        let mut step = match std::mem::replace(&mut self.state, State::Ended) {
            State::Fresh => match self.start() {
                Ok(step) => step,
                Err(ended) => return ended,
            },
            State::Running(step) => step,
            State::Ended => {
                let problem = Problem::new(kind::HOST_FAULT, "A process was stepped after its end");
                return Progress::Died(Death::Host(problem));
            }
        };
        match poll_once(step.future.as_mut()) {
            Poll::Ready(ended) => self.end(&step, ended, output),
            Poll::Pending => {
                self.state = State::Running(step);
                Progress::Preempted
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
        matches!(self.state, State::Running(_))
    }
}
