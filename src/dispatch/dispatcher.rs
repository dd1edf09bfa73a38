//! Hands calls to their handlers.

use super::CallContext;
use super::blob::Recall;
use super::bounds::CallBounds;
use super::gate::{Gate, Passage, Permits};
use super::handler::Handling;
use super::in_flight::{CallKey, InFlightGuard, InFlightTable};
use super::obligation::AnswerObligation;
use super::problems;
use super::registry::{RegisteredHandler, Registry};
use super::runtime::HandlerRuntime;
use super::statistics::{Counters, HandlerStatistics};
use crate::process::{Answer, Payload, Pid, Problem, Recalls, Tag};
use crate::run::{BlobBounds, BlobStore, Dispatched, Effects, OutgoingCall, Reply, RunBlobs};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// Arguments up to this size are checked on the worker, larger ones on a thread for blocking work:
/// checking 64 KiB takes about as long as a slice of fuel.
const CHECKED_ON_WORKER_BYTES_MAX: usize = 64 << 10;

/// Hands the calls of every run of a host to their handlers.
pub struct Dispatcher {
    registry: Arc<Registry>,
    lanes: BTreeMap<Arc<str>, Arc<Lane>>,
    /// What the operator allows.
    bounds: CallBounds,
    in_flight: Arc<InFlightTable>,
    closing: CancellationToken,
    runtime: HandlerRuntime,
    blobs: Option<Arc<Blobs>>,
}

/// Where the blobs of all runs are.
struct Blobs {
    store: Arc<dyn BlobStore>,
    bounds: BlobBounds,
}

/// A handler with its limits and counts.
struct Lane {
    entry: Arc<RegisteredHandler>,
    gate: Arc<Gate>,
    counters: Arc<Counters>,
}

/// A call between its admission and its handler.
struct Dispatching {
    call: OutgoingCall,
    reply: Arc<dyn Reply>,
    abandoned: CancellationToken,
    blobs: Option<RunBlobs>,
    obligation: AnswerObligation,
}

impl Blobs {
    fn of(&self, run: &Arc<str>) -> RunBlobs {
        RunBlobs::new(Arc::clone(&self.store), Arc::clone(run), self.bounds)
    }
}

impl Dispatcher {
    /// Creates a dispatcher with a tokio runtime of its own, which starts when a handler first
    /// waits.
    pub fn new(registry: impl Into<Arc<Registry>>) -> Self {
        Self::build(registry.into(), HandlerRuntime::Owned(OnceLock::new()))
    }

    /// Creates a dispatcher whose handlers wait on this runtime. Its timers and its I/O must be
    /// enabled.
    pub fn on_runtime(registry: impl Into<Arc<Registry>>, runtime: Handle) -> Self {
        Self::build(registry.into(), HandlerRuntime::Given(runtime))
    }

    fn build(registry: Arc<Registry>, runtime: HandlerRuntime) -> Self {
        let lane = |entry: &Arc<RegisteredHandler>| {
            let gate = Gate::new(&entry.declaration);
            Arc::new(Lane { entry: Arc::clone(entry), gate, counters: Arc::default() })
        };
        let lanes = registry.entries().map(|(name, entry)| (Arc::clone(name), lane(entry))).collect();
        let bounds = CallBounds::new([]);
        Self {
            registry,
            lanes,
            bounds,
            in_flight: Arc::default(),
            closing: CancellationToken::new(),
            runtime,
            blobs: None,
        }
    }

    /// Lets handlers read and store blobs ([`CallContext::blobs`]).
    #[must_use]
    pub fn storing_blobs(mut self, store: Arc<dyn BlobStore>, bounds: BlobBounds) -> Self {
        self.blobs = Some(Arc::new(Blobs { store, bounds }));
        self
    }

    /// The same, with bounds on the calls of all runs, beside those that handlers declare.
    #[must_use]
    pub fn bounded(mut self, bounds: CallBounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Hands a call of a run with bounds of its own to its handler.
    pub fn dispatch_within(&self, call: OutgoingCall, reply: Arc<dyn Reply>, own: Option<&CallBounds>) -> Dispatched {
        let begun = catch_unwind(AssertUnwindSafe(|| self.start(call, reply, own)));
        let begun = begun.unwrap_or_else(|_| Err(problems::host_fault("a check of the call panicked", true)));
        begun.unwrap_or_else(|problem| Dispatched::Answered(Answer::Err(Arc::new(problem))))
    }

    /// Returns the handlers.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Counts each handler's calls, by the handler's name.
    pub fn statistics(&self) -> BTreeMap<String, HandlerStatistics> {
        let read = |lane: &Lane| lane.counters.read(lane.gate.waiting());
        self.lanes.iter().map(|(name, lane)| (name.to_string(), read(lane))).collect()
    }

    /// Counts the calls that have been neither answered nor abandoned.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Ends every call, in flight or yet to come, without the handler's answer. A call in flight
    /// keeps its run alive, and the run keeps the dispatcher alive: the owner of the dispatcher has
    /// to call this.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Checks all that must hold before a handler sees a call, but for the room that it has.
    ///
    /// # Errors
    /// The problem that would answer the call: `unknown-handler`, `not-granted`, `bad-arguments`.
    pub fn check(&self, call: &OutgoingCall) -> Result<(), Problem> {
        let lane = self.lanes.get(&call.handler).ok_or_else(|| self.registry.unknown(&call.handler))?;
        lane.entry.patterns(&call.grants).map_err(|bare| lane.entry.ungranted(bare, &call.args))?;
        lane.check(call)
    }

    /// Hands a call to its handler. Fails if the handler must not see it.
    fn start(
        &self,
        call: OutgoingCall,
        reply: Arc<dyn Reply>,
        own: Option<&CallBounds>,
    ) -> Result<Dispatched, Problem> {
        let lane = match self.lanes.get(&call.handler) {
            Some(lane) => Arc::clone(lane),
            None => return Err(self.registry.unknown(&call.handler)),
        };
        Counters::add(&lane.counters.calls);
        let is_checked = call.args.size() <= CHECKED_ON_WORKER_BYTES_MAX;
        let gates = own.into_iter().chain([&self.bounds]).filter_map(|bounds| bounds.gate(&call.handler, &call.args));
        let admitted = lane.admit(&call, is_checked, gates).inspect_err(|_| Counters::add(&lane.counters.refused))?;
        let abandoned = CancellationToken::new();
        let counters = Arc::clone(&lane.counters);
        let obligation =
            AnswerObligation::new(Arc::clone(&reply), counters, abandoned.clone(), call.limits.payload_bytes);
        let blobs = self.blobs.as_deref().map(|blobs| blobs.of(&call.run));
        let dispatching = Dispatching { call, reply, abandoned, blobs, obligation };
        Ok(match admitted.at_once() {
            Ok(permits) if is_checked => self.handle_on_worker(&lane, dispatching, permits),
            Ok(permits) => self.handle_on_runtime(lane, dispatching, async move { Ok(permits) }, is_checked),
            Err(waits) => self.handle_on_runtime(lane, dispatching, waits.permits(), is_checked),
        })
    }

    /// Calls the handler on this thread.
    fn handle_on_worker(&self, lane: &Lane, dispatching: Dispatching, permit: Permits) -> Dispatched {
        let key = dispatching.key();
        let Dispatching { call, reply, abandoned, blobs, mut obligation } = dispatching;
        let token = abandoned.clone();
        let handling = catch_unwind(AssertUnwindSafe(|| lane.handle((call, blobs), reply, token, &mut obligation)));
        let future = match handling {
            Err(_) => return Dispatched::Answered(obligation.panicked()),
            Ok(Handling::Now(answer)) => return Dispatched::Answered(obligation.answer_inline(answer)),
            Ok(Handling::Later(future)) => future,
        };
        self.spawn(key, abandoned, obligation, |guard, obligation| async move {
            let answer = future.await;
            drop((permit, guard));
            obligation.answer(answer);
        })
    }

    /// Calls the handler on the runtime, once the call has a permit and its arguments are checked.
    fn handle_on_runtime(
        &self,
        lane: Arc<Lane>,
        dispatching: Dispatching,
        admitted: impl Future<Output = Result<Permits, Problem>> + Send + 'static,
        is_checked: bool,
    ) -> Dispatched {
        let key = dispatching.key();
        let Dispatching { call, reply, abandoned, blobs, obligation } = dispatching;
        let token = abandoned.clone();
        self.spawn(key, abandoned, obligation, move |guard, mut obligation| async move {
            let permit = match admitted.await {
                Ok(permit) => permit,
                Err(problem) => {
                    drop(guard);
                    obligation.answer(Err(Arc::new(problem)));
                    return;
                }
            };
            let checked = if is_checked { Ok(call) } else { check_on_blocking_thread(Arc::clone(&lane), call).await };
            let answer = match checked.map(|call| lane.handle((call, blobs), reply, token, &mut obligation)) {
                Err(problem) => Err(Arc::new(problem)),
                Ok(Handling::Now(answer)) => answer,
                Ok(Handling::Later(future)) => future.await,
            };
            drop((permit, guard));
            obligation.answer(answer);
        })
    }

    /// Spawns the work that ends with the answer. The work releases its permit and its guard before
    /// the answer, so that a call that follows from the answer finds room.
    fn spawn<F>(
        &self,
        key: CallKey,
        abandoned: CancellationToken,
        obligation: AnswerObligation,
        work: impl FnOnce(InFlightGuard, AnswerObligation) -> F,
    ) -> Dispatched
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(runtime) = self.runtime.handle() else {
            let problem = problems::host_fault("the handlers' threads could not be started", true);
            return Dispatched::Answered(obligation.answer_inline(Err(Arc::new(problem))));
        };
        let guard = self.in_flight.enter(key, abandoned.clone());
        // The run marks the call as abandoned first and looks it up in the table then, so one of
        // the two sees the other.
        if obligation.is_abandoned() {
            abandoned.cancel();
        }
        let work = work(guard, obligation);
        let closing = self.closing.clone();
        runtime.spawn(async move {
            // The branches that have not finished are dropped: among them the handler's future, and
            // with it the obligation.
            tokio::select! {
                biased;
                () = abandoned.cancelled() => {}
                () = closing.cancelled() => {}
                () = work => {}
            }
        });
        Dispatched::Pending
    }
}

impl Lane {
    /// Decides all that must be decided before the handler sees the call.
    fn admit(
        &self,
        call: &OutgoingCall,
        is_checked_on_worker: bool,
        gates: impl Iterator<Item = Arc<Gate>>,
    ) -> Result<Passage, Problem> {
        if let Err(bare) = self.entry.patterns(&call.grants) {
            return Err(if is_checked_on_worker { self.entry.ungranted(bare, &call.args) } else { bare });
        }
        if is_checked_on_worker {
            self.check(call)?;
        }
        Passage::enter(gates.chain([Arc::clone(&self.gate)]))
    }

    fn check(&self, call: &OutgoingCall) -> Result<(), Problem> {
        let is_content = self.entry.declaration.takes_bytes && matches!(call.args, Payload::Bytes(_));
        if let Some(schema) = self.entry.schema().filter(|_| !is_content) {
            schema.check(&call.args)?;
        }
        self.entry.check_grant(&call.grants, &call.args)
    }

    fn handle(
        &self,
        (call, blobs): (OutgoingCall, Option<RunBlobs>),
        reply: Arc<dyn Reply>,
        abandoned: CancellationToken,
        obligation: &mut AnswerObligation,
    ) -> Handling {
        obligation.mark_begun(self.entry.is_repeatable(&call.args));
        let (args, context) = CallContext::new(call, reply, abandoned, blobs);
        Arc::clone(&self.entry.handler).handle(args, context)
    }
}

impl Dispatching {
    fn key(&self) -> CallKey {
        CallKey { run: Arc::clone(&self.call.run), pid: self.call.pid, tag: self.call.tag }
    }
}

/// Checks large arguments on a thread that no process waits for.
async fn check_on_blocking_thread(lane: Arc<Lane>, call: OutgoingCall) -> Result<OutgoingCall, Problem> {
    let checked = tokio::task::spawn_blocking(move || lane.check(&call).map(|()| call)).await;
    checked.unwrap_or_else(|_| Err(problems::host_fault("a check of the call panicked", true)))
}

impl Effects for Dispatcher {
    fn dispatch(&self, call: OutgoingCall, reply: Arc<dyn Reply>) -> Dispatched {
        self.dispatch_within(call, reply, None)
    }

    fn recalls(&self, run: &str) -> Option<Arc<dyn Recalls>> {
        let blobs = self.blobs.as_deref()?.of(&run.into());
        Some(Arc::new(Recall(blobs)))
    }

    fn abandon(&self, run: &str, pid: Pid, tag: Tag) {
        self.in_flight.abandon(&CallKey { run: run.into(), pid, tag });
    }

    fn is_repeatable(&self, handler: &str, args: &Payload) -> bool {
        // A call without a handler does nothing.
        let Some(lane) = self.lanes.get(handler) else { return true };
        catch_unwind(AssertUnwindSafe(|| lane.entry.is_repeatable(args))).unwrap_or(false)
    }

    fn narrows(&self, capability: &str, granted: &[String], wanted: &str) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.registry.narrows(capability, granted, wanted))).unwrap_or(false)
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        // On the embedder's runtime, the calls would outlive the dispatcher.
        self.close();
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("registry", &self.registry).finish_non_exhaustive()
    }
}
