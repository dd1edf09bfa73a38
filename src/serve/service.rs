//! The state that all handlers share: the host, the journal, and the workflows that are deployed.

use super::access::guard::Addresses;
use super::access::rate::Limiter;
use super::access::token::TokenCache;
use super::access::{Caller, Scope, token};
use super::hook::DeliveryLog;
use super::hook::hooks::Hooks;
use super::metrics::Requests;
#[cfg(feature = "otlp")]
use super::otlp::{Exporter, OtlpError, OtlpOptions};
use super::problem::{Answered, ProblemKind, ServeProblem};
use crate::host::{Host, LoadError, RecoverError, Workflow};
use crate::journal::StoreError;
use crate::journal::catalog::{Activated, ActiveVersion, Catalog, NewVersion, Version};
use crate::run::system_time;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Requests that may wait for an outcome at one time.
const WAITS_MAX: usize = 10_000;

/// Requests that may read the folder at one time.
const READS_MAX: usize = 64;

/// Requests that may execute recorded steps again at one time: it takes as long as the run took.
const REPLAYS_MAX: usize = 4;

/// Deployments that may be read and compiled at one time. They have turns of their own: one may
/// pull a component for minutes.
const DEPLOYS_MAX: usize = 2;

/// How long a deployment waits for its turn.
const DEPLOY_WAIT_MAX: Duration = Duration::from_secs(30);

/// Streams of events that may be open at one time.
const STREAMS_MAX: usize = 2_000;

/// How long the active version that was read is taken for what the journal has: another process may
/// activate one.
const FRESH: Duration = Duration::from_secs(1);

/// Versions whose workflows are kept loaded.
const LOADED_MAX: usize = 1_000;

/// How a service behaves. The default is right for a test on loopback.
#[derive(Clone, Default, Debug)]
pub struct ServiceOptions {
    /// The hosts and origins that requests may name.
    pub addresses: Addresses,
    /// The folder with the secrets that webhooks of the API may name.
    pub secrets: Option<std::path::PathBuf>,
    /// What follows when a version is activated by the API.
    pub on_deploy: OnDeploy,
}

/// What follows when a version is activated by the API.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OnDeploy {
    /// Nothing.
    #[default]
    None,
    /// The newest runs of the workflow are replayed on it, as a job.
    Check,
}

/// A deployed version with its workflow, ready to be started.
#[derive(Clone)]
pub struct Deployed {
    /// The version.
    pub version: Arc<Version>,
    /// What it runs.
    pub workflow: Workflow,
}

/// A service over the durable runs of a host.
pub struct Service {
    pub(in crate::serve) host: Host,
    pub(in crate::serve) store: Arc<dyn Catalog>,
    pub(in crate::serve) options: ServiceOptions,
    pub(in crate::serve) tokens: TokenCache,
    pub(in crate::serve) limiter: Limiter,
    /// The active version of each workflow, as it was last read.
    active: Mutex<HashMap<String, (Instant, Option<u64>)>>,
    /// By the rows of their versions.
    loaded: Mutex<HashMap<u64, Deployed>>,
    pub(in crate::serve) hooks: Hooks,
    pub(in crate::serve) waits: Arc<Semaphore>,
    pub(in crate::serve) streams: Arc<Semaphore>,
    pub(in crate::serve) replays: Arc<Semaphore>,
    deploys: Arc<Semaphore>,
    pub(in crate::serve) jobs: super::job::Working,
    pub(in crate::serve) changes: super::changes::Changes,
    pub(in crate::serve) folds: super::folds::Folds,
    pub(in crate::serve) tails: super::tail::Tails,
    pub(in crate::serve) places: super::lag::Places,
    inherited: super::inherited::Inherited,
    /// Where pages of logs ended.
    pub(in crate::serve) log_folds: super::folds::Folds,
    pub(in crate::serve) requests: Requests,
    #[cfg(feature = "otlp")]
    pub(in crate::serve) exporter: std::sync::OnceLock<Exporter>,
    reads: Arc<Semaphore>,
    /// Every run that no host had was resumed.
    is_ready: AtomicBool,
    is_deploying: AtomicBool,
    draining: watch::Sender<bool>,
    pub(in crate::serve) schedules: super::schedule::Firings,
    /// Workflow files of the server's folder that cannot be used.
    faulty: Mutex<BTreeMap<String, String>>,
}

impl Service {
    /// Makes a service of a host with a folder of durable runs.
    ///
    /// # Errors
    /// The host has no such folder, or it cannot be used.
    pub fn new(host: Host, options: ServiceOptions) -> Result<Arc<Self>, RecoverError> {
        let store = host.journal()?.map(|journal| Arc::clone(journal.store())).ok_or(RecoverError::NoJournal)?;
        Ok(Arc::new(Self {
            tokens: TokenCache::new(Arc::clone(&store)),
            limiter: Limiter::default(),
            hooks: Hooks::new(DeliveryLog::new(Arc::clone(&store))),
            host,
            store,
            options,
            active: Mutex::default(),
            loaded: Mutex::default(),
            waits: Arc::new(Semaphore::new(WAITS_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            replays: Arc::new(Semaphore::new(REPLAYS_MAX)),
            deploys: Arc::new(Semaphore::new(DEPLOYS_MAX)),
            jobs: super::job::Working::default(),
            changes: super::changes::Changes::default(),
            folds: super::folds::Folds::default(),
            tails: super::tail::Tails::default(),
            places: super::lag::Places::default(),
            inherited: super::inherited::Inherited::default(),
            log_folds: super::folds::Folds::default(),
            requests: Requests::default(),
            #[cfg(feature = "otlp")]
            exporter: std::sync::OnceLock::new(),
            reads: Arc::new(Semaphore::new(READS_MAX)),
            is_ready: AtomicBool::new(false),
            is_deploying: AtomicBool::new(false),
            draining: watch::channel(false).0,
            schedules: super::schedule::Firings::default(),
            faulty: Mutex::default(),
        }))
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Makes a token for all workflows that does not end, stores its hash, and returns its text.
    ///
    /// # Errors
    /// The journal cannot be written, or the system gives no random bits.
    pub fn make_token(&self, name: &str, scopes: &[Scope]) -> Result<String, StoreError> {
        let random =
            |error: getrandom::Error| StoreError::Io { path: "random bits".into(), error: Arc::new(error.into()) };
        let (text, stored) = token::make(name, scopes, Vec::new(), None).map_err(random)?;
        self.store.add_token(&stored)?;
        Ok(text)
    }

    /// The journal.
    pub fn store(&self) -> &Arc<dyn Catalog> {
        &self.store
    }

    /// Sends the traces of its runs to a collector from now on. Call it once, on a runtime.
    ///
    /// # Errors
    /// Says what is wrong with the options.
    #[cfg(feature = "otlp")]
    pub fn export_traces(&self, options: &OtlpOptions) -> Result<(), OtlpError> {
        let _ = self.exporter.set(Exporter::start(&self.host, options)?);
        Ok(())
    }

    /// How many streams of events are open.
    pub(in crate::serve) fn open_streams(&self) -> usize {
        STREAMS_MAX.saturating_sub(self.streams.available_permits())
    }

    /// How far the stream is behind that is furthest behind, in records or changes.
    pub(in crate::serve) fn stream_lag(&self) -> u64 {
        self.places.lag(|run| match run {
            Some(run) => self.host.durable_records(run),
            None => self.changes.last(),
        })
    }

    /// Parked runs of hosts that are gone, of which this one takes up what is due or has mail.
    pub(in crate::serve) fn inherited(&self) -> u64 {
        self.inherited.count(&*self.store)
    }

    /// Notes that every run that no host had was resumed.
    pub fn set_ready(&self) {
        self.is_ready.store(true, Relaxed);
    }

    /// Notes whether a folder of workflows is being deployed: what is unknown may come.
    pub(in crate::serve) fn set_deploying(&self, is_deploying: bool) {
        self.is_deploying.store(is_deploying, Relaxed);
    }

    pub(in crate::serve) fn is_ready(&self) -> bool {
        self.is_ready.load(Relaxed)
    }

    /// Takes no new work from now on; requests that wait are answered.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Whether it takes no new work.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Waits until [`Self::drain`] is called.
    pub(in crate::serve) async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        let _ = draining.wait_for(|draining| *draining).await;
    }

    /// The names of workflow files of the server's folder that cannot be used.
    pub(in crate::serve) fn faulty(&self) -> Vec<String> {
        self.faulty.lock().keys().cloned().collect()
    }

    /// Notes that a workflow file cannot be used, or can be again.
    pub fn note_file(&self, file: &str, fault: Option<String>) {
        match fault {
            Some(why) => self.faulty.lock().insert(file.to_owned(), why),
            None => self.faulty.lock().remove(file),
        };
    }

    /// Reads or writes the folder, on a thread for that.
    pub(in crate::serve) async fn with_store<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        let turn = Arc::clone(&self.reads).acquire_owned().await.ok();
        self.on_thread(turn, work).await
    }

    /// Reads, compiles and stores what is deployed, on a thread for that.
    pub(in crate::serve) async fn deploying<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        match tokio::time::timeout(DEPLOY_WAIT_MAX, Arc::clone(&self.deploys).acquire_owned()).await {
            Ok(turn) => self.on_thread(turn.ok(), work).await,
            Err(_) => Err(ServeProblem::new(ProblemKind::TooManyWaits)
                .detail("other workflows are being deployed")
                .retry_after(10)),
        }
    }

    async fn on_thread<T: Send + 'static>(
        self: &Arc<Self>,
        turn: Option<OwnedSemaphorePermit>,
        work: impl FnOnce(&Self) -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        let service = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&service)
        });
        done.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request ended by a defect");
            Err(ServeProblem::new(ProblemKind::HostFault))
        })
    }

    /// The caller of a session.
    pub(in crate::serve) fn session(&self, cookie: &str) -> Answered<Option<Caller>> {
        let Some(session) = self.store.session(&token::hash(cookie))? else { return Ok(None) };
        if session.expires <= system_time() {
            return Ok(None);
        }
        Ok(self.tokens.caller_of(&session.token)?)
    }

    /// The active version of a workflow, if there is one.
    pub(in crate::serve) fn active(&self, name: &str) -> Result<Option<ActiveVersion>, StoreError> {
        Ok(self.store.active_versions()?.into_iter().find(|active| active.name == name))
    }

    /// The number of the active version of a workflow.
    fn active_number(&self, name: &str) -> Result<Option<u64>, StoreError> {
        if let Some((read, number)) = self.active.lock().get(name)
            && read.elapsed() < FRESH
        {
            return Ok(*number);
        }
        let versions = self.store.active_versions()?;
        let now = Instant::now();
        let mut active = self.active.lock();
        active.clear();
        active.extend(versions.into_iter().map(|version| (version.name, (now, Some(version.number)))));
        Ok(active.entry(name.to_owned()).or_insert((now, None)).1)
    }

    /// A version of a workflow, or the active one, loaded.
    pub(in crate::serve) fn deployed(&self, name: &str, number: Option<u64>) -> Answered<Deployed> {
        let number = match number {
            Some(number) => number,
            None => self.active_number(name)?.ok_or_else(|| {
                if self.is_deploying.load(Relaxed) {
                    return ServeProblem::new(ProblemKind::Deploying).retry_after(1);
                }
                ServeProblem::unknown(format_args!("active workflow `{name}`"))
                    .hint("`wfhost deploy FILE` deploys one; `GET /v1/workflows` lists them")
            })?,
        };
        let is_it = |deployed: &&Deployed| deployed.version.name == name && deployed.version.number == number;
        if let Some(deployed) = self.loaded.lock().values().find(is_it) {
            return Ok(deployed.clone());
        }
        let version = self.store.version(name, number)?;
        let version = version.ok_or_else(|| ServeProblem::unknown(format_args!("version {number} of `{name}`")))?;
        self.load(Arc::new(version))
    }

    /// Returns the active version of the workflow that a part of a body names.
    pub(in crate::serve) fn deployed_for(&self, name: &str, pointer: &str) -> Answered<Deployed> {
        self.deployed(name, None).map_err(|problem| {
            if !problem.is(ProblemKind::Unknown) {
                return problem;
            }
            ServeProblem::new(ProblemKind::DoesNotFit)
                .part(pointer, format!("no version of a workflow `{name}` is active"))
                .hint("`wfhost deploy FILE` deploys one; `GET /v1/workflows` lists them")
        })
    }

    fn load(&self, version: Arc<Version>) -> Answered<Deployed> {
        let components: BTreeMap<String, String> =
            serde_json::from_str(&version.components).map_err(|error| broken(&version, &error))?;
        let workflow = self.host.load_stored(&version.file, &version.source, &components);
        let workflow = workflow.map_err(|error| broken(&version, &error))?;
        let deployed = Deployed { version: Arc::clone(&version), workflow };
        let mut loaded = self.loaded.lock();
        if loaded.len() >= LOADED_MAX {
            loaded.clear();
        }
        loaded.insert(version.row, deployed.clone());
        Ok(deployed)
    }

    /// Deploys a workflow that is loaded, with its components. Returns the version, and whether it
    /// is new.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn deploy(
        &self,
        workflow: Workflow,
        author: &str,
        note: Option<String>,
    ) -> Result<(Deployed, bool), LoadError> {
        self.host.check_secrets(&workflow)?;
        let components = self.host.store_components(&workflow)?;
        let source = workflow.source();
        let components = serde_json::json!(components).to_string();
        let mut digest = blake3::Hasher::new();
        // Not the file's name: who deploys it from elsewhere deploys the same.
        for part in [source.text(), &components] {
            digest.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let new = NewVersion {
            name: workflow.plan().name.to_string(),
            digest: digest.finalize().to_hex().to_string(),
            file: source.name().to_owned(),
            source: source.text().to_owned(),
            components,
            created: system_time(),
            author: author.to_owned(),
            note,
        };
        let (version, is_new) = self.store.deploy(&new).map_err(LoadError::Journal)?;
        let deployed = Deployed { version: Arc::new(version), workflow };
        self.loaded.lock().insert(deployed.version.row, deployed.clone());
        Ok((deployed, is_new))
    }

    /// Removes a version that is not active and that no run names. Returns whether it did; `None`
    /// if there is no such version.
    pub(in crate::serve) fn remove_version(&self, name: &str, number: u64) -> Result<Option<bool>, StoreError> {
        let removed = self.store.remove_version(name, number)?;
        if removed == Some(true) {
            self.loaded.lock().retain(|_, one| one.version.name != name || one.version.number != number);
        }
        Ok(removed)
    }

    /// Makes a version the active one: see [`Deployments::activate`].
    ///
    /// [`Deployments::activate`]: crate::journal::catalog::Deployments::activate
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn activate(
        &self,
        name: &str,
        number: u64,
        author: &str,
        expected: Option<u64>,
    ) -> Result<Activated, StoreError> {
        let (name, author) = (name.to_owned(), author.to_owned());
        let active = ActiveVersion { name, number, since: system_time(), author };
        let activated = self.store.activate(&active, expected)?;
        self.active.lock().clear();
        if activated == Activated::Done
            && let Err(problem) = super::schedule::sync(self, &active.name)
        {
            tracing::error!(workflow = active.name, problem = problem.detail, "its schedule is not up to date");
        }
        Ok(activated)
    }
}

/// The problem of a version that was deployed and cannot be loaded any more.
fn broken(version: &Version, error: &dyn std::error::Error) -> ServeProblem {
    tracing::error!(workflow = version.name, version = version.number, error = %error, "a version cannot be loaded");
    ServeProblem::new(ProblemKind::HostFault)
        .detail(format!("version {} of `{}` cannot be loaded: {error}", version.number, version.name))
}
