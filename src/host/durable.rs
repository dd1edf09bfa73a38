//! Durable runs: where they are written, recovering them, and releasing them.
//!
//! The data folder holds what a run needs: its records, the text of its workflow and the digests of
//! its components ([`RunManifest`]), and the components themselves. So it is recovered without the
//! files that it was started from.

use super::control::Control;
use super::durable_watch::DurableWatchers;
use super::groups::Groups;
use super::manifest::Permitted;
use super::storage::{KernelListener, StorageWatcher};
use super::{Host, LoadError, RunHandle, RunManifest, RunOptions, StartNotes, Workflow};
use crate::base::guarded;
use crate::dispatch::Recall;
use crate::journal::catalog::Catalog;
use crate::journal::{self, Address, NewRun, Posted, StoreError, Stored};
use crate::process::{Problem, Recalls, problem::kind};
use crate::run::{
    Act, BlobBounds, DamagedRecord, Effects as _, Kernel, Log, Mail, RebuildError, Record, RecoveryError, RecoverySpec,
    RunBlobs, system_time,
};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// How long a watcher may take to read its last answers, and other hosts to hear of their places.
/// Arbitrary: longer than a terminal takes,
/// and no wait for a person.
const DRAIN: Duration = Duration::from_secs(1);

/// How often a suspension checks whether the calls in flight have their answers.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// How many changes of all runs a reader may be behind before it misses some.
const CHANGES_MAX: usize = 65_536;

/// The folder of a host's durable runs. It is opened when it is first needed.
pub(super) struct DataFolder {
    folder: PathBuf,
    kernel: Weak<Kernel>,
    watcher: Option<Arc<dyn StorageWatcher>>,
    journal: OnceLock<Result<Journal, StoreError>>,
    pub(super) durable_watchers: Arc<DurableWatchers>,
    pub(super) groups: Arc<Groups>,
    /// The socket by which other processes see and steer the runs, or why there is none; `None`
    /// before the folder is opened.
    control: Mutex<Option<Result<Control, String>>>,
}

/// The durable runs of a folder.
pub struct Journal(Arc<dyn Catalog>);

/// A run that this host owns from now on.
pub(super) struct OwnedRun {
    pub(super) records: Vec<Record>,
    /// Acts that are pending for it.
    pub(super) pending: Vec<Mail>,
    /// Takes its further records.
    pub(super) log: Box<dyn Log>,
    /// The place of its start in a trace, if it has one.
    pub(super) traceparent: Option<String>,
}

/// Why a run is not recovered.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The journal has no such run, or cannot pass it to this host.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// A record cannot be read.
    #[error(transparent)]
    Damaged(#[from] DamagedRecord),
    /// The manifest cannot be read.
    #[error("what the run was started with cannot be read: {0}")]
    Manifest(String),
    /// Its workflow or a component cannot be loaded by this host.
    #[error("the run's workflow cannot be loaded")]
    Workflow(#[source] LoadError),
    /// It has ended, or is of another workflow.
    #[error(transparent)]
    Run(#[from] RecoveryError),
    /// The run's workflow has no component of that name.
    #[error("the run's workflow has no component `{name}`; it has {known}")]
    NoComponent {
        /// The name that was given.
        name: String,
        /// The names that it has.
        known: String,
    },
    /// The host was built without a folder for durable runs.
    #[error("the host has no folder for durable runs")]
    NoJournal,
}

crate::base::report_debug::report_debug!(RecoverError);

impl RecoverError {
    /// Returns the damage, if the run's records or a component stored for it are damaged: only
    /// another copy helps.
    pub fn damage(&self) -> Option<String> {
        match self {
            Self::Journal(StoreError::Damaged { why, .. }) => Some(why.clone()),
            Self::Workflow(LoadError::StoredComponent { component, error }) => {
                Some(format!("the component `{component}`: {error}"))
            }
            Self::Damaged(DamagedRecord { number, why }) => Some(format!("record {number}: {why}")),
            Self::Manifest(_) => Some(self.to_string()),
            Self::Run(error @ (RecoveryError::Empty | RecoveryError::Records(RebuildError::Incoherent { .. }))) => {
                Some(error.to_string())
            }
            _ => None,
        }
    }
}

impl DataFolder {
    pub(super) fn new(folder: PathBuf, kernel: &Arc<Kernel>, watcher: Option<Arc<dyn StorageWatcher>>) -> Self {
        let kernel = Arc::downgrade(kernel);
        let groups = Groups::new(Weak::clone(&kernel));
        let durable_watchers = Arc::new(DurableWatchers::new(CHANGES_MAX));
        let (journal, control) = (OnceLock::new(), Mutex::default());
        Self { folder, kernel, watcher, journal, durable_watchers, groups, control }
    }

    pub(super) fn journal(&self) -> Result<&Journal, StoreError> {
        let open = || {
            let listener = KernelListener {
                kernel: Weak::clone(&self.kernel),
                watcher: self.watcher.clone(),
                durable: Arc::clone(&self.durable_watchers),
                groups: Arc::clone(&self.groups),
            };
            let journal = journal::open(&(&self.folder).into(), Arc::new(listener)).map(Journal)?;
            self.groups.open(journal.store());
            let control = Control::listen(&self.folder, Weak::clone(&self.kernel));
            if let Ok(control) = &control {
                journal.0.set_address(&Address::Socket(control.path().to_owned()))?;
            }
            *self.control.lock() = Some(control.map_err(|error| error.to_string()));
            Ok(journal)
        };
        self.journal.get_or_init(open).as_ref().map_err(Clone::clone)
    }
}

impl DataFolder {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        self.groups.close();
    }
}

impl Journal {
    /// Returns the unfinished runs, the oldest first.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    pub fn unfinished(&self) -> Result<Vec<Stored>, StoreError> {
        self.0.unfinished()
    }

    /// Returns a run; `None` if there is no run with this id.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn run(&self, id: &str) -> Result<Option<Stored>, StoreError> {
        self.0.run(id)
    }

    /// Returns the manifest of a run.
    ///
    /// # Errors
    /// Fails if there is no such run, or the manifest cannot be read.
    pub fn manifest(&self, id: &str) -> Result<RunManifest, RecoverError> {
        let manifest = self.0.manifest(id)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        RunManifest::read(&manifest).map_err(RecoverError::Manifest)
    }

    /// Returns the records of a run that are on disk, as [`Record::decode_run`] reads them.
    ///
    /// # Errors
    /// Fails if there is no such run, or the records are damaged.
    pub fn records(&self, id: &str) -> Result<Vec<Record>, RecoverError> {
        let records = Record::decode_run(self.0.records(id)?)?;
        let blobs = |store| RunBlobs::new(store, id.into(), BlobBounds::default());
        let recall = self.0.blobs().map(|store| Arc::new(Recall(blobs(store))) as Arc<dyn Recalls>);
        Record::recall_from(&records, recall);
        Ok(records)
    }

    /// Notes that a run is damaged, if that is why it is not recovered. If it cannot be noted, the
    /// damage is found again next time.
    pub(super) fn note_damage(&self, id: &str, error: &RecoverError) {
        if let Some(why) = error.damage() {
            let _ = self.0.note_damage(id, &why);
        }
    }

    /// Returns the store itself.
    pub fn store(&self) -> &Arc<dyn Catalog> {
        &self.0
    }
}

impl Host {
    /// The durable runs of the host's folder; none where it was built without one.
    ///
    /// # Errors
    /// The folder cannot be used, or is of another release.
    pub fn journal(&self) -> Result<Option<&Journal>, StoreError> {
        self.shared.data.as_deref().map(DataFolder::journal).transpose()
    }

    /// Returns the folder of durable runs.
    pub fn data_folder(&self) -> Option<&Path> {
        self.shared.data.as_ref().map(|data| &*data.folder)
    }

    /// Returns why other users could read or change what is in the folder of durable runs; `None`
    /// if they cannot, or there is no folder.
    pub fn data_exposed(&self) -> Option<String> {
        exposed(self.data_folder()?)
    }

    /// Returns the socket by which other processes of this user see and steer the runs of the host.
    /// `None` if it has no folder for durable runs, or no durable run has begun.
    ///
    /// # Errors
    /// Says why there is no socket although a durable run has begun.
    pub fn socket(&self) -> Option<Result<PathBuf, String>> {
        let control = self.shared.data.as_ref()?.control.lock();
        Some(control.as_ref()?.as_ref().map(|control| control.path().to_owned()).map_err(Clone::clone))
    }

    /// Stops answering other processes, after the watchers of ended runs have got their last
    /// answers. Dropping the host does this; call it before a process ends without dropping the
    /// host.
    pub fn close_socket(&self) {
        let control = self.shared.data.as_ref().and_then(|data| data.control.lock().take());
        if let Some(Ok(control)) = control {
            control.drain(DRAIN);
        }
    }

    /// Closes the socket, and brings the folder into order. Call it before a process ends without
    /// dropping the host.
    pub fn settle_folder(&self) {
        self.close_socket();
        if let Some(data) = &self.shared.data {
            data.groups.drain(DRAIN);
        }
        if let Some(Ok(Journal(store))) = self.shared.data.as_ref().and_then(|data| data.journal.get()) {
            store.settle();
        }
        self.settle_step_cache();
    }

    pub(super) fn opened(&self) -> Result<(&DataFolder, &Journal), RecoverError> {
        let data = self.shared.data.as_ref().ok_or(RecoverError::NoJournal)?;
        Ok((data, data.journal()?))
    }

    /// Begins a durable run in the journal, and returns its log.
    pub(super) fn log(
        &self,
        id: &Arc<str>,
        workflow: &Workflow,
        inputs: &Map<String, Value>,
        notes: &StartNotes,
        source: &str,
    ) -> Result<Box<dyn Log>, LoadError> {
        let data = self.shared.data.as_ref().ok_or(LoadError::NoJournal)?;
        let Journal(store) = data.journal().map_err(LoadError::Journal)?;
        let run = self.prepare_new(id, workflow, inputs, notes, source)?;
        store.begin(&run).map_err(LoadError::of_begin)
    }

    /// Stores the components of a new run, and makes its entry for the journal.
    pub(super) fn prepare_new(
        &self,
        id: &Arc<str>,
        workflow: &Workflow,
        inputs: &Map<String, Value>,
        notes: &StartNotes,
        source: &str,
    ) -> Result<NewRun, LoadError> {
        self.store_components(workflow)?;
        let source = notes.started_by.as_deref().unwrap_or(source).into();
        let (Permitted { addresses, plain_secrets }, notes) = (self.shared.permitted.clone(), notes.clone());
        let version = notes.version.map(|version| version.row);
        let label = |(key, value): (&String, &String)| (key.as_str().into(), value.as_str().into());
        let labels = notes.labels.iter().map(label).collect();
        let plain_secrets = plain_secrets && workflow.plan().used_secrets().next().is_some();
        let manifest = RunManifest { addresses, plain_secrets, notes, ..RunManifest::new(workflow, inputs) };
        let name = manifest.name.as_str().into();
        let components = manifest.components.values().map(|hash| hash.as_str().into()).collect();
        let group = self.group_of(id, workflow, inputs)?;
        let (id, manifest) = (Arc::clone(id), manifest.to_text());
        Ok(NewRun { id, name, created: system_time(), manifest, components, version, source, labels, group })
    }

    /// Recovers a durable run of this workflow whose host is gone. Its guests are replayed when
    /// they are next stepped; a call is only sent again under its key.
    ///
    /// # Errors
    /// Fails if there is no such run, it has ended, a living host owns it, it was started with
    /// another workflow or other components, or it is paused and [`RunOptions::unless_paused`] is
    /// set.
    pub fn recover(&self, workflow: &Workflow, id: &str, options: RunOptions) -> Result<RunHandle, RecoverError> {
        let (_, journal) = self.opened()?;
        self.recover_without_note(workflow, id, options).inspect_err(|error| journal.note_damage(id, error))
    }

    /// Gives these records of a run the source of the answers that they do not write out.
    pub(crate) fn recall(&self, run: &str, records: &[Record]) {
        Record::recall_from(records, self.shared.dispatcher.recalls(run));
    }

    /// Makes this host the owner of a run that no living host owns.
    pub(super) fn own_records(&self, id: &str) -> Result<OwnedRun, RecoverError> {
        let (_, Journal(store)) = self.opened()?;
        let owned = store.recover(id)?;
        let records = Record::decode_run(owned.records)?;
        self.recall(id, &records);
        // The journal names a run by its id there, and the kernel by the id in its records.
        if let Some(started) = records.first().and_then(Record::started)
            && *started.run != *id
        {
            let why = format!("record 1: it is of the run {:?}", started.run);
            return Err(StoreError::Damaged { run: id.into(), why }.into());
        }
        let traceparent = RunManifest::read(&owned.manifest).ok().and_then(|manifest| manifest.notes.traceparent);
        Ok(OwnedRun { records, pending: owned.inbox, log: owned.log, traceparent })
    }

    fn recover_without_note(
        &self,
        workflow: &Workflow,
        id: &str,
        options: RunOptions,
    ) -> Result<RunHandle, RecoverError> {
        let (data, _) = self.opened()?;
        self.check_secrets(workflow).map_err(RecoverError::Workflow)?;
        let OwnedRun { records, pending, log, traceparent } = self.own_records(id)?;
        let spec = RecoverySpec {
            root: self.root_for(workflow, &records),
            programs: (*workflow.programs).clone(),
            left: pending,
            unless_paused: options.unless_paused,
            log,
            effects: self.effects(id, &workflow.plan, traceparent.as_deref()),
            sink: Some(self.shared.steps.sink(&workflow.plan.name, options.sink)),
            watcher: options.watcher,
        };
        let run = self.shared.kernel.recover(spec, &records)?;
        if run.is_queued() {
            data.groups.recovered(run.id());
        }
        Ok(RunHandle { run })
    }

    /// Stores an act for a run that no living host owns: it is applied when the run is recovered.
    /// Acts with the same id count once.
    ///
    /// # Errors
    /// Fails if the host has no folder for durable runs, or the act cannot be stored.
    pub fn post(&self, run: &str, act: &Act, id: &str) -> Result<Posted, RecoverError> {
        let (_, Journal(store)) = self.opened()?;
        Ok(store.post(run, &act.to_mail(id))?)
    }

    /// Stops without ending any run: no process is stepped any more, no further call leaves, and
    /// calls in flight have `grace` to be answered. When it returns, everything that was recorded
    /// is durable, and no host owns the durable runs of which no [`RunHandle`] is left, so they can
    /// be recovered. Callers that wait
    /// for the outcome of a run get the outcome that it is suspended. On a full disk it does not
    /// wait for room: what was not durable is given up, and was not reported as durable.
    ///
    /// It waits on this thread. It returns how many calls were still in flight.
    ///
    /// # Errors
    /// Fails if the journal cannot be written: the runs are then as they are on disk.
    pub fn suspend(&self, grace: Duration) -> Result<usize, StoreError> {
        let shared = &self.shared;
        shared.kernel.hold_calls();
        shared.kernel.never_stall();
        // Dropped without that lock: a handler may read the statistics while its worker is joined.
        let scheduler = shared.scheduler.lock().take();
        drop(scheduler);
        let begun = Instant::now();
        while shared.dispatcher.in_flight() > 0 && begun.elapsed() < grace {
            std::thread::sleep(CHECK_INTERVAL);
        }
        let in_flight = shared.dispatcher.in_flight();
        // From here on nothing that arrives is recorded.
        shared.port.close();
        shared.dispatcher.close();
        let store = shared.data.as_ref().and_then(|data| data.journal.get()?.as_ref().ok()).map(Journal::store);
        let flushed = store.map_or(Ok(true), |store| store.flush_while_room());
        shared.kernel.abandon(
            &Problem::new(kind::SUSPENDED, "The host stopped before the run ended")
                .with_detail("A durable run continues when it is recovered; any other run is lost."),
        );
        if let (Some(store), Ok(false)) = (store, &flushed) {
            // After the runs were abandoned: they are as they are on disk, and nothing has failed.
            store.give_up();
        }
        if let (Some(store), Ok(true)) = (store, &flushed) {
            // That nobody owns the runs.
            store.flush_while_room()?;
        }
        flushed.map(|_| in_flight)
    }

    /// Returns whether the disk with the folder of durable runs is full: nothing becomes durable
    /// until there is room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let journal = self.shared.data.as_ref().and_then(|data| data.journal.get()?.as_ref().ok());
        journal.is_some_and(|journal| journal.store().is_full())
    }
}

/// Returns why other users could read or change what is in a folder; `None` if they cannot, or it
/// does not exist.
pub(crate) fn exposed(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let user = super::control::user().ok()?;
    guarded(&folder, user).err().map(|error| error.to_string())
}
