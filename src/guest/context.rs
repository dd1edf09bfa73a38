//! What the host holds beside an instance: the data of its store.

use super::metering::{Limiter, hostcall_bytes_max};
use super::options::EngineOptions;
use super::snapshot::{Handles, SnapshotView};
use super::wasi::{Wasi, WasiView, World};
use super::work::HostWork;
use crate::process::{Influences, Limits, LogLine, Output, Pid, ProcessInit, Random, Tag, Timestamp};
use std::sync::Arc;
use std::task::Poll;
use wasmtime::{Store, StoreContextMut, Trap};

/// The host's side of one guest. All of it that a guest can see is saved with a snapshot: see
/// [`HostState`].
pub(crate) struct Context {
    init: Arc<ProcessInit>,
    now: Timestamp,
    next_tag: Tag,
    /// Made on first use: most guests never ask for it.
    random: Option<Random>,
    log: Log,
    /// Calls of host functions.
    host_calls: u64,
    /// Calls made before instantiation had ended: any makes the guest unfit for snapshots.
    host_calls_at_start: Option<u64>,
    pub(crate) limiter: Limiter,
    wasi: Wasi,
    hostcall_bytes_max: usize,
    pub(crate) work: HostWork,
    /// The handles of the store, bound on first use. Each binding of them adds to the store.
    pub(crate) handles: Option<Arc<Handles>>,
    /// A script is being loaded: the guest may not depend on anything else.
    is_loading: bool,
    /// What the guest has depended on.
    influences: Influences,
}

/// The part of the context that a guest can see, and that therefore belongs to its snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct HostState {
    /// How far the random stream has been read, if at all.
    pub(crate) random_position: Option<u128>,
    pub(crate) next_tag: u64,
}

/// The log lines of one step.
#[derive(Default)]
struct Log {
    lines: Vec<LogLine>,
    bytes: u64,
    dropped: u64,
}

impl Log {
    /// Counts a line of this many bytes: as written, or as dropped.
    fn fits(&mut self, bytes: usize, limits: &Limits, work: &mut HostWork) -> bool {
        work.charge(bytes as u64 / LOG_BYTES_PER_FUEL);
        let bytes = self.bytes.saturating_add((bytes + LINE_BYTES) as u64);
        let fits = bytes <= u64::from(limits.log_bytes_per_step);
        if fits {
            self.bytes = bytes;
        } else {
            self.dropped += 1;
        }
        fits
    }
}

impl Context {
    pub(crate) fn new(init: Arc<ProcessInit>, options: &EngineOptions, transcodes: bool) -> Self {
        let memory_bytes_max = options.profile.memory_bytes_max();
        Self {
            work: HostWork::new(options.slice_fuel),
            now: Timestamp(0),
            next_tag: init.next_tag,
            random: None,
            log: Log::default(),
            host_calls: 0,
            host_calls_at_start: None,
            limiter: Limiter::new(Arc::clone(&init.limits), memory_bytes_max),
            wasi: Wasi::default(),
            hostcall_bytes_max: hostcall_bytes_max(&init.limits, transcodes),
            handles: None,
            is_loading: false,
            influences: Influences::NONE,
            init,
        }
    }

    /// Starts the next guest in an instance that is as good as fresh: everything is new except what
    /// belongs to the instance itself.
    pub(crate) fn renew(&mut self, init: Arc<ProcessInit>, options: &EngineOptions, transcodes: bool) {
        let mut next = Self::new(init, options, transcodes);
        next.limiter.inherit(&self.limiter);
        next.handles = self.handles.take();
        next.instantiated();
        *self = next;
    }

    /// Sets what the next step sees.
    pub(crate) fn begin_step(&mut self, now: Timestamp) {
        self.now = now;
        self.limiter.begin_step();
        self.work.take();
    }

    pub(crate) fn init(&self) -> &ProcessInit {
        &self.init
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.init.limits
    }

    /// Bytes of its memories.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.limiter.memory_bytes()
    }

    /// Bytes that it may pass in one call.
    pub(crate) fn hostcall_bytes_max(&self) -> usize {
        self.hostcall_bytes_max
    }

    /// Returns the time of the batch to the guest.
    pub(crate) fn now(&mut self) -> Timestamp {
        self.influenced(Influences::TIME);
        self.now
    }

    /// Notes what the guest depends on. While a script is loaded, all of that is the same for
    /// everybody.
    pub(crate) fn influenced(&mut self, by: Influences) {
        if !self.is_loading {
            self.influences = self.influences.and(by);
        }
    }

    /// What the guest has depended on since its instance was made.
    pub(crate) fn influences(&self) -> Influences {
        self.influences
    }

    pub(crate) fn next_tag(&self) -> Tag {
        self.next_tag
    }

    /// Records that a step has used tags up to `tag`.
    pub(crate) fn tag_used(&mut self, tag: Tag) {
        self.next_tag = self.next_tag.max(Tag(tag.0 + 1));
    }

    /// Counts a call of a host function of the contract.
    pub(crate) fn count_host_call(&mut self) {
        self.host_calls += 1;
        self.work.charge(CALL_FUEL);
    }

    /// Ends instantiation: calls from now on are made by steps.
    pub(crate) fn instantiated(&mut self) {
        self.host_calls_at_start = Some(self.host_calls);
    }

    /// Begins to load a script: until it has ended, the default limits hold, and random numbers are
    /// the same for every process. Returns the limits of this one.
    pub(crate) fn begin_load(&mut self) -> Arc<Limits> {
        self.is_loading = true;
        self.random = Some(Random::new(&[0; 32], Pid::ROOT));
        self.limiter.replace_limits(Arc::default())
    }

    /// Ends that, with what [`Self::begin_load`] has returned.
    pub(crate) fn end_load(&mut self, own: Arc<Limits>) {
        self.is_loading = false;
        self.random = None;
        self.limiter.replace_limits(own);
        self.discard_log();
    }

    /// Whether a script is being loaded.
    pub(crate) fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// Fills `bytes` from the process's stream.
    pub(crate) fn random(&mut self, bytes: &mut [u8]) {
        self.count_host_call();
        self.influenced(Influences::RANDOM);
        self.work.charge(bytes.len() as u64 * RANDOM_FUEL_PER_BYTE);
        let init = &self.init;
        self.random.get_or_insert_with(|| Random::new(&init.seed, init.pid)).fill(bytes);
    }

    /// Whether a line of this many bytes can be logged; if not, it is counted as dropped. Asked
    /// before a line is copied, so that a dropped line costs nothing but the question.
    pub(crate) fn log_room(&mut self, bytes: usize) -> bool {
        self.count_host_call();
        // What was printed before is logged before.
        self.log_printed();
        self.log.fits(bytes, &self.init.limits, &mut self.work)
    }

    /// Writes a line for which [`Self::log_room`] found room.
    pub(crate) fn log(&mut self, line: LogLine) {
        self.log.lines.push(line);
    }

    /// Takes over the lines that the guest has printed through WASI.
    fn log_printed(&mut self) {
        for line in self.wasi.take_lines() {
            if self.log.fits(line.text.len(), &self.init.limits, &mut self.work) {
                self.log.lines.push(line);
            }
        }
    }

    /// Hands over what the step wrote.
    pub(crate) fn take_log(&mut self, output: &mut Output) {
        self.log.dropped += self.wasi.end_step();
        self.log_printed();
        let Log { mut lines, dropped, .. } = std::mem::take(&mut self.log);
        output.log.append(&mut lines);
        output.log_dropped += dropped;
    }

    /// Drops what was written by a call that is not a step.
    pub(crate) fn discard_log(&mut self) {
        self.take_log(&mut Output::default());
    }

    /// Makes it the store of a program.
    pub(super) fn begin_program(&mut self, world: World) {
        self.wasi.begin_program(world);
    }

    /// The program's world.
    pub(super) fn program(&self) -> Option<&World> {
        self.wasi.program()
    }

    /// Takes what the program has left.
    pub(super) fn end_program(&mut self) -> Option<World> {
        self.wasi.end_program()
    }

    /// Whether the host holds nothing for the guest beyond what [`Self::save`] returns.
    pub(crate) fn holds_no_state(&self) -> bool {
        self.wasi.has_no_resources()
    }

    pub(crate) fn save(&self) -> HostState {
        HostState { random_position: self.random.as_ref().map(Random::position), next_tag: self.next_tag.0 }
    }

    pub(crate) fn restore(&mut self, saved: &HostState) {
        self.next_tag = Tag(saved.next_tag);
        self.random = saved.random_position.map(|position| {
            let mut random = Random::new(&self.init.seed, self.init.pid);
            random.resume(position);
            random
        });
    }
}

/// Sets what the next calls see, and their fuel.
pub(super) fn prepare(store: &mut Store<Context>, now: Timestamp, fuel: u64) {
    store.data_mut().begin_step(now);
    store.set_fuel(fuel).expect("invariant: engines of guests count fuel");
}

/// Pays the debt if it amounts to a slice, and yields the worker.
///
/// # Errors
/// Fails if too little fuel is left.
pub(crate) async fn settle(store: &mut StoreContextMut<'_, Context>) -> wasmtime::Result<()> {
    if !store.data().work.is_due() {
        return Ok(());
    }
    let owed = store.data_mut().work.take();
    let fuel = store.get_fuel()?;
    store.set_fuel(fuel.saturating_sub(owed))?;
    if fuel <= owed {
        return Err(Trap::OutOfFuel.into());
    }
    yield_now().await;
    Ok(())
}

/// Pending once.
async fn yield_now() {
    let mut given = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut given, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

impl SnapshotView for Context {
    fn host_calls_at_start(&self) -> u64 {
        // While the instance is being made, all of them.
        self.host_calls_at_start.unwrap_or(self.host_calls)
    }
}

impl WasiView for Context {
    fn wasi(&mut self) -> &mut Wasi {
        &mut self.wasi
    }

    fn now(&mut self) -> Timestamp {
        Self::now(self)
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        self.random(bytes);
    }

    fn count_host_call(&mut self) {
        self.host_calls += 1;
        self.work.charge(CALL_FUEL);
    }

    fn charge(&mut self, fuel: u64) {
        self.work.charge(fuel);
    }

    async fn settle(store: &mut StoreContextMut<'_, Self>) -> wasmtime::Result<()> {
        settle(store).await
    }
}

/// What a log line counts in addition to its text, so that empty ones are bounded too. Arbitrary.
const LINE_BYTES: usize = 16;

/// What the host's work costs: how much fuel of a guest's own takes about as long. Measured
/// (`tests/bench/slices.rs`).
const CALL_FUEL: u64 = 250;
const LOG_BYTES_PER_FUEL: u64 = 4;
const RANDOM_FUEL_PER_BYTE: u64 = 1;
