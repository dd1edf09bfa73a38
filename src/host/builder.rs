//! Building a host.

use super::blobs::HostBlobs;
use super::cached_calls::StepCaching;
use super::durable::DataFolder;
use super::expression_cache::ExpressionCache;
use super::manifest::Permitted;
use super::port::SchedulerPort;
use super::retention::RetentionPolicy;
use super::storage::{StorageNotice, StorageWatcher};
use super::{CompileNotice, Host, HostError, Shared};
use crate::base::processors;
use crate::dispatch::http::{Http, HttpHook};
use crate::dispatch::{
    BlobGet, BlobPut, Bound, CallBounds, CallContext, Dispatcher, Handler, Log, Registry, RegistryBuilder, Secrets,
};
use crate::guest::{EngineOptions, GuestEngine};
use crate::oci::Registries;
use crate::process::{LogLine, NativeProgram, Process, Program, handler};
use crate::run::{BlobStore, Clock, Kernel};
use crate::scheduler::{Config, Scheduler};
use crate::workflow::expression::{EngineConfig, Jq};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The folder of components from registries, beside compiled code.
const PULLED: &str = "oci";

/// Receives notices when a component is compiled.
pub(super) type CompileWatcher = Arc<dyn Fn(&CompileNotice<'_>) + Send + Sync>;

/// Builds a [`Host`]. Everything has a default.
#[derive(Default)]
pub struct HostBuilder {
    workers: Option<usize>,
    guests: EngineOptions,
    expressions: EngineConfig,
    registry: RegistryBuilder,
    natives: Vec<(String, Arc<dyn Program>)>,
    runtime: Option<tokio::runtime::Handle>,
    http: crate::dispatch::http::HttpConfig,
    registries: Option<crate::dispatch::http::HttpConfig>,
    engines: Option<std::path::PathBuf>,
    data: Option<std::path::PathBuf>,
    snapshots: crate::run::SnapshotPolicy,
    watcher: Option<Arc<dyn StorageWatcher>>,
    compiling: Option<CompileWatcher>,
    retains: bool,
    locking: super::Locking,
    parking: crate::run::ParkingPolicy,
    journal_bytes_max: Option<u64>,
    held_bytes_max: Option<u64>,
    http_hook: Option<Arc<dyn HttpHook>>,
    retention: RetentionPolicy,
    step_cache: StepCaching,
    blob_bounds: crate::run::BlobBounds,
    secrets: Arc<Secrets>,
    bounds: Vec<(Arc<str>, Bound)>,
}

impl HostBuilder {
    /// Sets the number of worker threads, which step processes. Default: half of the processors, at
    /// least one, since a library shares the machine with the service that embeds it.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers.max(1));
        self
    }

    /// Sets the engine of guests: memory profile, slots, slice, folder of compiled code.
    #[must_use]
    pub fn guests(mut self, options: EngineOptions) -> Self {
        self.guests = options;
        self
    }

    /// Sets the budgets of expressions.
    #[must_use]
    pub fn expressions(mut self, config: EngineConfig) -> Self {
        self.expressions = config;
        self
    }

    /// Sets what `http` may reach beyond public addresses, and its limits.
    #[must_use]
    pub fn http(mut self, config: crate::dispatch::http::HttpConfig) -> Self {
        self.http = config;
        self
    }

    /// Calls this around each request of `http`, redirects included: to add credentials that no
    /// record has, to measure, to refuse.
    #[must_use]
    pub fn http_hook(mut self, hook: impl HttpHook) -> Self {
        self.http_hook = Some(Arc::new(hook));
        self
    }

    /// Sets the secrets that workflows may use, by the names that they declare.
    ///
    /// A core dump has the memory of the process in it, and the kernel writes the one of a crash to
    /// the disk: an embedder whose secrets matter turns it off for the process.
    #[must_use]
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = Arc::new(secrets);
        self
    }

    /// Sets what is reached when a workflow names a component by `oci://`. Default: what
    /// [`Self::http`] reaches. What is pulled is kept beside compiled code.
    #[must_use]
    pub fn registries(mut self, config: crate::dispatch::http::HttpConfig) -> Self {
        self.registries = Some(config);
        self
    }

    /// Sets the folder with the script engines that are not part of the library, such as that of
    /// Python: `script-py.wasm`. Default: `$WFHOST_ENGINES`, else `wfhost/engines` in the user's
    /// data folder.
    #[must_use]
    pub fn engines(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.engines = Some(folder.into());
        self
    }

    /// Adds a handler that `call` reaches under this name. `http`, `kv` and `log` exist already.
    #[must_use]
    pub fn handler(mut self, name: impl Into<String>, handler: impl Handler) -> Self {
        self.registry = self.registry.handler(name, handler);
        self
    }

    /// Adds a process written in Rust. A workflow names it under `components:` as `native:name`. If
    /// its behaviour changes, so must its version.
    #[must_use]
    pub fn native<P: Process + 'static>(
        mut self,
        name: &str,
        version: u32,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) -> Self {
        self.natives.push((name.to_owned(), Arc::new(NativeProgram::new(name, version, make))));
        self
    }

    /// Sets the folder of durable runs: runs are durable then, unless a workflow or
    /// [`RunOptions`](super::RunOptions) says otherwise. It is opened when it is first needed.
    /// Several hosts may share one: each run is owned by one of them.
    #[must_use]
    pub fn data(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// Sets when snapshots of the processes of durable runs are taken.
    #[must_use]
    pub fn snapshots(mut self, policy: crate::run::SnapshotPolicy) -> Self {
        self.snapshots = policy;
        self
    }

    /// Sets a watcher that is called when the disk with the folder of durable runs is full, has
    /// room again, or fails. It is called on the thread that writes, and must not wait for a run.
    #[must_use]
    pub fn on_storage(mut self, watcher: impl Fn(&StorageNotice) + Send + Sync + 'static) -> Self {
        self.watcher = Some(Arc::new(watcher));
        self
    }

    /// Sets a watcher that is called when a component is compiled, which takes seconds for a large
    /// one. It is called on the thread that loads.
    #[must_use]
    pub fn on_compile(mut self, watcher: impl Fn(&CompileNotice<'_>) + Send + Sync + 'static) -> Self {
        self.compiling = Some(Arc::new(watcher));
        self
    }

    /// Keeps the bytes of the components of workflows that are loaded, for
    /// [`Workflow::component_files`](super::Workflow::component_files); default: only if there is a
    /// folder for them.
    #[must_use]
    pub fn retain_components(mut self) -> Self {
        self.retains = true;
        self
    }

    /// Sets what is done with the lock beside a workflow file that is loaded; default: what differs
    /// from it is refused.
    #[must_use]
    pub fn locking(mut self, locking: super::Locking) -> Self {
        self.locking = locking;
        self
    }

    /// Sets how long runs stay in the folder of durable runs after their end; default: for ever.
    /// A thread of the host removes them, which opens the folder at once.
    #[must_use]
    pub fn retention(mut self, policy: RetentionPolicy) -> Self {
        self.retention = policy;
        self
    }

    /// Bounds the calls of a handler, of all runs together: beside what the handler declares, and
    /// what a workflow sets for its own. What is over it waits in order.
    #[must_use]
    pub fn bound_handler(mut self, name: impl Into<Arc<str>>, bound: Bound) -> Self {
        self.bounds.push((name.into(), bound));
        self
    }

    /// Sets where the outcomes of steps with `cache` are kept, and how much of them.
    #[must_use]
    pub fn step_cache(mut self, caching: StepCaching) -> Self {
        self.step_cache = caching;
        self
    }

    /// Sets when waiting durable runs are parked. Any event for them wakes them.
    #[must_use]
    pub fn parking(mut self, policy: crate::run::ParkingPolicy) -> Self {
        self.parking = policy;
        self
    }

    /// Sets how many bytes the journal of one durable run may have; default: 1 GiB. A process whose
    /// step would exceed that fails with
    /// [`JOURNAL_EXHAUSTED`](crate::process::problem::kind::JOURNAL_EXHAUSTED).
    #[must_use]
    pub fn run_journal_bytes_max(mut self, bytes_max: u64) -> Self {
        self.journal_bytes_max = Some(bytes_max);
        self
    }

    /// Sets how many bytes the processes of all runs together may make the host hold, beside the
    /// memory of guests: what waits in queues or belongs to commands without an answer, names,
    /// queries, keys and values; default: 2 GiB. A run may hold as much of it as it leaves free,
    /// and 16 KiB in any case. What does not fit is answered with
    /// [`MAILBOX_FULL`](crate::process::problem::kind::MAILBOX_FULL),
    /// [`TOO_MANY_OUTSTANDING`](crate::process::problem::kind::TOO_MANY_OUTSTANDING),
    /// [`TOO_MANY_LINKS`](crate::process::problem::kind::TOO_MANY_LINKS) or
    /// [`TOO_LARGE`](crate::process::problem::kind::TOO_LARGE).
    #[must_use]
    pub fn held_bytes_max(mut self, bytes_max: u64) -> Self {
        self.held_bytes_max = Some(bytes_max);
        self
    }

    /// Sets how large blobs may be.
    #[must_use]
    pub fn blobs(mut self, bounds: crate::run::BlobBounds) -> Self {
        self.blob_bounds = bounds;
        self
    }

    /// Sets the runtime that handlers wait on. Default: the host starts one of its own when a
    /// handler first waits.
    #[must_use]
    pub fn runtime(mut self, runtime: tokio::runtime::Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Builds the host and starts its workers.
    ///
    /// # Errors
    /// Fails if an engine cannot be made, or a handler's declaration cannot be used.
    pub fn build(self) -> Result<Host, HostError> {
        let natives = by_name(self.natives)?;
        let slice_fuel = self.guests.slice_fuel;
        let spill_dir = self.guests.spill_dir.clone().or_else(|| self.data.clone());
        let guests = EngineOptions { spill_dir, ..self.guests };
        let guests = Arc::new(GuestEngine::new(guests).map_err(HostError::Guests)?);
        let jq = Arc::new(Jq::with_code(self.expressions, ExpressionCache(Arc::clone(&guests))));
        let kernel = Arc::new(Kernel::new(Clock::system()));
        kernel.snapshot_when(self.snapshots);
        kernel.park_when(self.parking);
        bound(&kernel, self.journal_bytes_max, self.held_bytes_max);
        let runs = Arc::downgrade(&kernel);
        let logs = move |call: &CallContext, line: LogLine| {
            if let Some(kernel) = runs.upgrade() {
                kernel.log(call.run(), call.pid(), call.scope().cloned(), line);
            }
        };
        let kept = guests.cache().dir().ok().map(|folder| folder.join(PULLED));
        let registries = Registries::new(self.registries.unwrap_or_else(|| self.http.clone()), kept);
        let permitted = Permitted::of(&self.http);
        let http = Http::new(self.http).map_err(HostError::Http)?.hooked(self.http_hook);
        let (secrets, http) = (Arc::clone(&self.secrets), http.with_secrets(self.secrets));
        let registry = self.registry.built_in(handler::HTTP, http).built_in(handler::LOG, Log::new(logs));
        let registry = registry.built_in(handler::BLOB_GET, BlobGet).built_in(handler::BLOB_PUT, BlobPut).build()?;
        let data = self.data.map(|folder| Arc::new(DataFolder::new(folder, &kernel, self.watcher)));
        let blobs = HostBlobs::new(data.as_ref());
        let store = Arc::clone(&blobs) as Arc<dyn BlobStore>;
        guests.store_blobs(Arc::clone(&store), self.blob_bounds);
        let dispatcher = dispatcher(registry, self.runtime).bounded(CallBounds::new(self.bounds));
        let dispatcher = dispatcher.storing_blobs(store, self.blob_bounds);
        let workers = self.workers.unwrap_or_else(|| processors().div_ceil(2));
        let outside = Some(Arc::clone(guests.on_demand_memory()));
        let config = Config { workers, capacity: guests.capacity(), outside, slice_fuel, ..Config::default() };
        let scheduler = Scheduler::start(Arc::clone(&kernel), &config).map_err(HostError::Workers)?;
        let port = SchedulerPort::default();
        port.open(scheduler.handle());
        kernel.attach(port.clone());
        let step_cache = self.step_cache.open(data.as_ref().map(|data| data.folder().to_owned()).as_ref());
        let shared = Shared {
            data,
            blobs,
            blob_bounds: self.blob_bounds,
            permitted,
            compiling: self.compiling,
            retains: self.retains,
            locking: self.locking,
            kernel,
            scheduler: Mutex::new(Some(scheduler)),
            port,
            guests,
            random: super::random::RandomBytes::default(),
            registries,
            engines: self.engines.or_else(super::script::engines_folder),
            jq,
            secrets,
            dispatcher: Arc::new(dispatcher),
            step_cache,
            call_bounds: Mutex::default(),
            signals: super::runs::ActCounts::default(),
            steps: super::step_counts::StepCounts::default(),
            sweeper: std::sync::OnceLock::new(),
            traces_calls: std::sync::atomic::AtomicBool::new(false),
            natives,
            components: Mutex::default(),
            translations: Mutex::default(),
        };
        let host = Host { shared: Arc::new(shared) };
        host.retain(self.retention).map_err(HostError::Workers)?;
        Ok(host)
    }
}

/// Native programs by their names.
///
/// # Errors
/// Two have one name.
fn by_name(all: Vec<(String, Arc<dyn Program>)>) -> Result<BTreeMap<String, Arc<dyn Program>>, HostError> {
    let mut natives = BTreeMap::new();
    for (name, program) in all {
        if natives.insert(name.clone(), program).is_some() {
            return Err(HostError::DuplicateNative { name });
        }
    }
    Ok(natives)
}

fn dispatcher(registry: Registry, runtime: Option<tokio::runtime::Handle>) -> Dispatcher {
    match runtime {
        Some(runtime) => Dispatcher::on_runtime(registry, runtime),
        None => Dispatcher::new(registry),
    }
}

/// Sets the bounds of a kernel that have no default here.
fn bound(kernel: &Kernel, journal_bytes_max: Option<u64>, held_bytes_max: Option<u64>) {
    if let Some(bytes_max) = journal_bytes_max {
        kernel.bound_journals(bytes_max);
    }
    if let Some(bytes_max) = held_bytes_max {
        kernel.bound_held(bytes_max);
    }
}
