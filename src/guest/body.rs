//! One guest, as a run sees it.

use super::binding::{Binding, Call, Outcome, Returned};
use super::context::{Context, HostState, prepare};
use super::death::{Phase, add_last_error, classify, host_fault, lost_problem};
use super::instance::{Instance, Source};
use super::loaded::Loaded;
use super::metering::{CLOSE_FUEL, FuelMeter};
use super::parts::RemainingParts;
use super::poll::{block_on, poll_once};
use super::spares;
use super::stored::{self, Encoding, Evicted, RawGuest, Stored};
use crate::process::problem::kind;
use crate::process::{
    Allocation, Body, Death, Event, Eviction, Form, Influences, Output, Owed, Problem, ProcessInit, ProcessSnapshot,
    Progress, RawSnapshot, SnapshotError, SnapshotSupport, Status, Timestamp,
};
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use wasmtime::Store;

/// Memory in bytes from which an eviction may take longer than a turn. Estimated: packing a fully
/// written megabyte takes about three milliseconds, and most guests have written little of theirs.
const SLOW_EVICTION_BYTES: u64 = 4 << 20;

/// Snapshot size in bytes from which a restoration may take longer than a turn: about two
/// microseconds a page.
const SLOW_RESTORATION_BYTES: usize = 1 << 20;

/// Memory in bytes from which the kernel may take longer than a turn to reclaim it.
const SLOW_DROP_BYTES: u64 = 16 << 20;

/// A guest.
pub(crate) struct Guest {
    loaded: Arc<Loaded>,
    init: Arc<ProcessInit>,
    /// Where its next instance is made.
    allocation: Allocation,
    fuel: FuelMeter,
    now: Timestamp,
    events: Vec<Event>,
    /// The parts of the last step that are still to be given.
    rest: Option<Box<RemainingParts>>,
    /// What it has depended on.
    influences: Influences,
    state: State,
}

enum State {
    /// Nothing has been executed.
    Fresh,
    /// Between two steps.
    Live(Instance),
    /// In a step.
    Running(Running),
    /// Between two steps, without an instance.
    Evicted(Evicted),
    /// The guest lost its instance by its own fault, outside a step.
    Lost(Problem),
    /// Closed or dead, and its memory is large: it is dropped with the guest.
    Remains { _store: Box<Store<Context>> },
    /// Dead, closed, or in the middle of a transition that panicked.
    Dead,
}

/// What is stored of an instance that is evicted.
struct ToStore {
    form: Form,
    state: Bytes,
    /// Bytes that differ from a fresh instance's; 0 for the guest's own encoding, where they are
    /// unknown.
    bytes: usize,
    host: HostState,
}

/// A step in flight.
struct Running {
    future: StepFuture,
    /// Fuel that the step may use.
    budget: u64,
}

/// The future of a step.
enum StepFuture {
    /// The first of an instance: makes the instance, calls `init` or restores a snapshot, then
    /// steps.
    First(Pin<Box<dyn Future<Output = FirstStep> + Send>>),
    /// Any other.
    Next(Call<Outcome>, Box<dyn Binding>),
}

/// The result of the first step.
struct FirstStep {
    store: Store<Context>,
    binding: Option<Box<dyn Binding>>,
    phase: Phase,
    result: wasmtime::Result<Result<Outcome, Problem>>,
}

/// A step that has ended, in whatever way.
struct Ended {
    store: Store<Context>,
    binding: Option<Box<dyn Binding>>,
    phase: Phase,
    result: wasmtime::Result<Outcome>,
}

impl Guest {
    pub(crate) fn new(loaded: Arc<Loaded>, init: ProcessInit) -> Self {
        Self {
            loaded,
            init: Arc::new(init),
            allocation: Allocation::default(),
            fuel: FuelMeter::default(),
            now: Timestamp(0),
            events: Vec::new(),
            rest: None,
            influences: Influences::NONE,
            state: State::Fresh,
        }
    }

    /// A guest that continues from a snapshot.
    ///
    /// # Errors
    /// Fails if the snapshot does not fit the component.
    pub(super) fn restored(
        loaded: &Arc<Loaded>,
        init: ProcessInit,
        saved: &ProcessSnapshot,
    ) -> Result<Self, SnapshotError> {
        let evicted = stored::read(loaded, &init.limits, saved)?;
        let fuel = FuelMeter::of(saved.fuel);
        let new = Self::new(Arc::clone(loaded), init);
        Ok(Self { fuel, state: State::Evicted(evicted), influences: Influences::RESTORED, ..new })
    }

    /// Whether it is evicted, and its restoration takes long.
    fn restores_slowly(&self) -> bool {
        matches!(&self.state, State::Evicted(evicted) if evicted.bytes > SLOW_RESTORATION_BYTES || evicted.state.is_spilled())
    }

    /// Starts the step that was begun, or continues the one in flight.
    ///
    /// # Errors
    /// Returns why it cannot be stepped.
    fn running(&mut self) -> Result<Running, Death> {
        let budget = self.fuel.budget(&self.init.limits);
        let events = std::mem::take(&mut self.events);
        let future = match std::mem::replace(&mut self.state, State::Dead) {
            State::Fresh => StepFuture::First(Box::pin(first(self.source()?, self.now, budget, events))),
            State::Live(Instance { mut store, binding }) => {
                prepare(&mut store, self.now, budget);
                StepFuture::Next(binding.step(store, events), binding)
            }
            State::Evicted(evicted) => {
                let (source, loaded) = (self.source()?, Arc::clone(&self.loaded));
                StepFuture::First(Box::pin(restored(source, loaded, evicted, self.now, budget, events)))
            }
            State::Running(running) => return Ok(running),
            State::Lost(problem) => return Err(Death::Lost(problem)),
            State::Remains { .. } | State::Dead => {
                return Err(Death::Host(Problem::new(kind::HOST_FAULT, "A process was stepped after its end")));
            }
        };
        Ok(Running { future, budget })
    }

    /// The source of its next instance.
    fn source(&self) -> Result<Source, Death> {
        Source::of(&self.loaded, self.allocation, &self.init).map_err(|reason| Death::Host(host_fault(reason)))
    }

    /// Ends the step: charges it, and holds the instance for the next.
    fn end(&mut self, ended: Ended, budget: u64, output: &mut Output) -> Progress {
        let Ended { mut store, binding, phase, result } = ended;
        store.data_mut().take_log(output);
        self.influences = self.influences.and(store.data().influences());
        if phase == Phase::Step {
            let owed = store.data_mut().work.take();
            output.fuel = budget.saturating_sub(store.get_fuel().unwrap_or(0)).saturating_add(owed);
            self.fuel.charge(output.fuel);
        }
        match result {
            Ok(Outcome { status, mut commands }) => {
                if let Some(last) = commands.last() {
                    store.data_mut().tag_used(last.tag);
                }
                if let Some(binding) = binding {
                    self.state = State::Live(Instance { store, binding });
                }
                let status = RemainingParts::divide(status, &mut commands).unwrap_or_else(|rest| {
                    self.rest = Some(Box::new(rest));
                    Status::Ready
                });
                output.commands.append(&mut commands);
                Progress::Stepped(status)
            }
            Err(error) => {
                let mut death = classify(&error, store.data(), phase);
                if let Death::Guest(problem) = &mut death {
                    add_last_error(problem, &output.log);
                }
                // After a fault of the host's, the step is tried again in place of this instance.
                if matches!(death, Death::Guest(_)) {
                    self.retire(store);
                }
                Progress::Died(death)
            }
        }
    }

    /// Ends the guest, and leaves a large store to be dropped later.
    fn retire(&mut self, store: Store<Context>) {
        self.state = if is_large(&store) { State::Remains { _store: Box::new(store) } } else { State::Dead };
    }

    /// Makes an evicted guest's instance before it is stepped. If that fails, its step fails.
    fn restore_early(&mut self) {
        let State::Evicted(evicted) = &self.state else { return };
        let Ok(source) = self.source() else { return };
        let Ok(Instance { store, binding }) = block_on(source.instance(self.now)) else { return };
        let (store, restored) = block_on(stored::restore(&self.loaded, &*binding, store, evicted));
        if restored.is_ok() {
            self.state = State::Live(Instance { store, binding });
        }
    }

    /// Asks a live guest to encode its state. `None` if it has refused, or is lost.
    fn encode(&mut self) -> Option<(Bytes, HostState)> {
        let State::Live(Instance { store, binding }) = std::mem::replace(&mut self.state, State::Dead) else {
            return None;
        };
        let (store, encoding) = stored::encode(&*binding, store, self.now);
        let host = store.data().save();
        if let Encoding::Lost(error) = encoding {
            // It is rebuilt from its records, if they are available, and not asked again.
            self.loaded.encoding_failed();
            self.state = State::Lost(lost_problem(&error, store.data(), Phase::Save));
            return None;
        }
        self.state = State::Live(Instance { store, binding });
        let Encoding::Done(state) = encoding else { return None };
        Some((state, host))
    }

    /// What is to be stored of a live guest; `None` if it cannot be saved.
    fn state_to_store(&mut self) -> Option<ToStore> {
        let State::Live(live) = &mut self.state else { return None };
        match self.loaded.snapshot_support() {
            SnapshotSupport::Never => None,
            SnapshotSupport::Ready(Form::GuestEncoded) => {
                let (state, host) = self.encode()?;
                Some(ToStore { form: Form::GuestEncoded, state, bytes: 0, host })
            }
            _ => {
                let snapshot = stored::take(&self.loaded, &mut live.store)?;
                let (state, bytes) = stored::pack(&self.loaded, &snapshot)?;
                Some(ToStore { form: Form::Image, state, bytes, host: live.store.data().save() })
            }
        }
    }
}

impl Body for Guest {
    fn begin(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        self.now = now;
        events.iter_mut().for_each(Event::recall);
        self.events.append(events);
    }

    fn poll(&mut self, output: &mut Output) -> Progress {
        if let Some(rest) = &mut self.rest {
            let status = rest.next(&mut output.commands);
            if status.is_some() {
                self.rest = None;
            }
            return Progress::Stepped(status.unwrap_or(Status::Ready));
        }
        let mut running = match self.running() {
            Ok(running) => running,
            Err(death) => return Progress::Died(death),
        };
        let ended = match &mut running.future {
            StepFuture::First(first) => poll_once(first.as_mut()).map(|first| {
                let FirstStep { store, binding, phase, result } = first;
                let refused = |problem| Outcome { status: Status::Failed(Arc::new(problem)), commands: Vec::new() };
                Ended { store, binding, phase, result: result.map(|result| result.unwrap_or_else(refused)) }
            }),
            StepFuture::Next(call, _) => poll_once(call.as_mut()).map(|Returned { store, result }| Ended {
                store,
                binding: None,
                phase: Phase::Step,
                result,
            }),
        };
        let Poll::Ready(mut ended) = ended else {
            self.state = State::Running(running);
            return Progress::Preempted;
        };
        if let StepFuture::Next(_, binding) = running.future {
            ended.binding = Some(binding);
        }
        self.end(ended, running.budget, output)
    }

    fn owes(&self) -> Option<Owed<'_>> {
        self.rest.as_ref().map(|rest| rest.owed())
    }

    fn influences(&self) -> Influences {
        self.influences
    }

    fn close(&mut self) {
        let State::Live(Instance { mut store, binding }) = std::mem::replace(&mut self.state, State::Dead) else {
            return;
        };
        prepare(&mut store, self.now, CLOSE_FUEL);
        // Its fuel bounds it to a few slices.
        let Returned { store, result } = block_on(binding.close(store));
        let instance = Instance { store, binding };
        let left = match (result, self.allocation) {
            (Ok(()), Allocation::Pool) => spares::put(&self.loaded, instance),
            _ => Err(instance),
        };
        if let Err(Instance { store, .. }) = left {
            self.retire(store);
        }
    }

    fn evict(&mut self) -> Eviction {
        let to_store = match &self.state {
            // There is no instance to give back.
            State::Fresh | State::Evicted(_) => return Eviction::Done,
            State::Live(_) if self.rest.is_none() => self.state_to_store(),
            _ => None,
        };
        let Some(ToStore { form, state, bytes, host }) = to_store else {
            return if matches!(self.state, State::Lost(_)) { Eviction::Done } else { Eviction::Stays };
        };
        match self.loaded.engine().images().hold(&self.init.run, state) {
            Ok(held) => {
                self.state = State::Evicted(Evicted { state: Stored::Held(form, held), bytes, host });
                Eviction::Done
            }
            Err(problem) => Eviction::Ends(problem),
        }
    }

    fn evicts_slowly(&self) -> bool {
        let State::Live(live) = &self.state else { return false };
        let bytes = live.store.data().limiter.memory_bytes();
        self.saves_slowly()
            || bytes > SLOW_EVICTION_BYTES
            || self.loaded.engine().images().may_spill(&self.init.run, bytes)
    }

    fn save(&mut self) -> Option<Box<dyn RawSnapshot>> {
        if self.rest.is_some() {
            return None;
        }
        let (state, host) = match &mut self.state {
            State::Evicted(evicted) => (evicted.state.clone(), evicted.host.clone()),
            State::Live(live) => match self.loaded.snapshot_support() {
                SnapshotSupport::Never => return None,
                SnapshotSupport::Ready(Form::GuestEncoded) => {
                    self.encode().map(|(state, host)| (Stored::GuestEncoded(state), host))?
                }
                _ => {
                    let snapshot = stored::take(&self.loaded, &mut live.store)?;
                    (Stored::Image(Box::new(snapshot)), live.store.data().save())
                }
            },
            _ => return None,
        };
        Some(Box::new(RawGuest { loaded: Arc::clone(&self.loaded), state, host, fuel: self.fuel }))
    }

    fn saves_slowly(&self) -> bool {
        matches!(self.state, State::Live(_))
            && matches!(
                self.loaded.snapshot_support(),
                SnapshotSupport::ToLearn(_) | SnapshotSupport::Ready(Form::GuestEncoded)
            )
    }

    fn allocate(&mut self, allocation: Allocation) {
        self.allocation = allocation;
        // If linking fails, the step reports it.
        let _ = self.loaded.linked(allocation);
        if self.restores_slowly() {
            self.restore_early();
        }
    }

    fn allocates_slowly(&self, allocation: Allocation) -> bool {
        self.loaded.has_to_link(allocation) || self.restores_slowly()
    }

    fn drops_slowly(&self) -> bool {
        match &self.state {
            State::Live(live) => is_large(&live.store),
            // Its size cannot be seen from here.
            State::Running(_) | State::Remains { .. } => true,
            State::Fresh | State::Evicted(_) | State::Lost(_) | State::Dead => false,
        }
    }
}

fn is_large(store: &Store<Context>) -> bool {
    store.data().limiter.memory_bytes() > SLOW_DROP_BYTES
}

/// Obtains an instance, calls `init`, and steps.
async fn first(source: Source, now: Timestamp, budget: u64, events: Vec<Event>) -> FirstStep {
    let Instance { mut store, binding } = match source.instance(now).await {
        Ok(instance) => instance,
        Err((store, error)) => {
            return FirstStep { store, binding: None, phase: Phase::Instantiation, result: Err(error) };
        }
    };
    prepare(&mut store, now, budget);
    let init = store.data().init();
    let (entry, input) = (init.entry.to_string(), init.input.clone());
    let Returned { store, result } = binding.init(store, entry, input).await;
    match result {
        Ok(Ok(())) => {}
        Ok(Err(problem)) => {
            return FirstStep { store, binding: Some(binding), phase: Phase::Step, result: Ok(Err(problem)) };
        }
        Err(error) => return FirstStep { store, binding: None, phase: Phase::Step, result: Err(error) },
    }
    let Returned { store, result } = binding.step(store, events).await;
    FirstStep { store, binding: Some(binding), phase: Phase::Step, result: result.map(Ok) }
}

/// Obtains an instance, puts the guest's state into it, and steps.
async fn restored(
    source: Source,
    loaded: Arc<Loaded>,
    evicted: Evicted,
    now: Timestamp,
    budget: u64,
    events: Vec<Event>,
) -> FirstStep {
    let Instance { store, binding } = match source.instance(now).await {
        Ok(instance) => instance,
        Err((store, error)) => {
            return FirstStep { store, binding: None, phase: Phase::Restoration, result: Err(error) };
        }
    };
    let (mut store, restored) = stored::restore(&loaded, &*binding, store, &evicted).await;
    if let Err(error) = restored {
        let phase = if evicted.state.form() == Form::GuestEncoded { Phase::Load } else { Phase::Restoration };
        return FirstStep { store, binding: None, phase, result: Err(error) };
    }
    drop(evicted);
    loaded.engine().count_restore();
    prepare(&mut store, now, budget);
    let Returned { store, result } = binding.step(store, events).await;
    FirstStep { store, binding: Some(binding), phase: Phase::Step, result: result.map(Ok) }
}
