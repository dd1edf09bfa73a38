//! Durable runs: where they are written, taking them up, and letting them go.
//!
//! What a run needs stands in the data folder: its records, the text of its workflow and the digests of its components ([`About`]), and the
//! components themselves ([`ComponentStore`](super::component_store::ComponentStore)). So it is taken up without the files that it was started from.

use super::component_store::ComponentStore;
use super::control::Control;
use super::storage::{KernelListener, StorageWatcher};
use super::{Host, LoadError, RunHandle, RunManifest, RunOptions, Workflow};
use crate::base::guarded;
use crate::journal::{Journal as _, NewRun, Posted, Sqlite, StoreError, Stored};
use crate::process::{Problem, problem::kind};
use crate::run::{Act, DamagedRecord, Kernel, Log, Mail, RebuildError, Record, ResumeError, ResumeSpec, system_time};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// How long a watcher may take to read what it was told. Arbitrary: longer than a terminal takes, and no wait for a person.
const DRAIN: Duration = Duration::from_secs(1);

/// How often a suspension looks whether the calls in flight have their answers.
const LOOK: Duration = Duration::from_millis(2);

/// The folder of durable runs of a host. It is opened when it is first needed.
pub(super) struct DataFolder {
    folder: PathBuf,
    pub(super) components: ComponentStore,
    kernel: Weak<Kernel>,
    watcher: Option<Arc<dyn StorageWatcher>>,
    journal: OnceLock<Result<Journal, StoreError>>,
    /// How other processes see and steer the runs, or why they cannot; none before the folder was opened.
    control: Mutex<Option<Result<Control, String>>>,
}

/// The durable runs of a folder.
pub struct Journal(Sqlite);

/// A run that is this host's from now on.
pub(super) struct OwnedRun {
    pub(super) records: Vec<Record>,
    /// Acts that were left for it.
    pub(super) left: Vec<Mail>,
    /// Where its further records go.
    pub(super) log: Box<dyn Log>,
}

/// Why a run is not taken up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// The journal has no such run, or does not give it.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// A record cannot be read.
    #[error(transparent)]
    Damaged(#[from] DamagedRecord),
    /// What stands beside the records cannot be read.
    #[error("what the run was started with cannot be read: {0}")]
    Manifest(String),
    /// Its workflow or a component cannot be loaded by this host.
    #[error("the run's workflow cannot be loaded")]
    Workflow(#[source] LoadError),
    /// It has ended, or is of another workflow.
    #[error(transparent)]
    Run(#[from] ResumeError),
    /// The run's workflow has no component of that name.
    #[error("the run's workflow has no component `{name}`; it has {known}")]
    NoComponent {
        /// The name.
        name: String,
        /// Those that it has.
        known: String,
    },
    /// The host was built without a folder for durable runs.
    #[error("the host has no folder for durable runs")]
    NoJournal,
}

impl RecoverError {
    /// What is wrong with the run's records, or with a component that was kept for it, where it is that: nothing but another copy helps.
    pub fn damage(&self) -> Option<String> {
        match self {
            Self::Journal(StoreError::Damaged { why, .. }) => Some(why.clone()),
            Self::Workflow(LoadError::StoredComponent { component, error }) => {
                Some(format!("the component `{component}`: {error}"))
            }
            Self::Damaged(DamagedRecord { number, why }) => Some(format!("record {number}: {why}")),
            Self::Manifest(_) => Some(self.to_string()),
            Self::Run(error @ (ResumeError::Empty | ResumeError::Records(RebuildError::Incoherent { .. }))) => {
                Some(error.to_string())
            }
            _ => None,
        }
    }
}

impl DataFolder {
    pub(super) fn new(folder: PathBuf, kernel: &Arc<Kernel>, watcher: Option<Arc<dyn StorageWatcher>>) -> Self {
        let components = ComponentStore::of(&folder);
        let kernel = Arc::downgrade(kernel);
        Self { components, folder, kernel, watcher, journal: OnceLock::new(), control: Mutex::default() }
    }

    fn journal(&self) -> Result<&Journal, StoreError> {
        let open = || {
            let told = KernelListener { kernel: Weak::clone(&self.kernel), watcher: self.watcher.clone() };
            let journal = Sqlite::open(&self.folder, Arc::new(told)).map(Journal)?;
            let control = Control::listen(&self.folder, Weak::clone(&self.kernel));
            if let Ok(control) = &control {
                journal.0.set_socket(control.path())?;
            }
            *self.control.lock() = Some(control.map_err(|error| error.to_string()));
            Ok(journal)
        };
        self.journal.get_or_init(open).as_ref().map_err(Clone::clone)
    }
}

impl Journal {
    /// The unfinished runs, the oldest first.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn unfinished(&self) -> Result<Vec<Stored>, StoreError> {
        self.0.unfinished()
    }

    /// A run.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn run(&self, id: &str) -> Result<Option<Stored>, StoreError> {
        self.0.run(id)
    }

    /// What a run was started with.
    ///
    /// # Errors
    /// Where there is no such run, or it cannot be read.
    pub fn manifest(&self, id: &str) -> Result<RunManifest, RecoverError> {
        let manifest = self.0.manifest(id)?.ok_or_else(|| StoreError::Unknown(id.into()))?;
        RunManifest::read(&manifest).map_err(RecoverError::Manifest)
    }

    /// The records of a run, as far as they are on disk.
    ///
    /// # Errors
    /// Where there is no such run, or they are damaged.
    pub fn records(&self, id: &str) -> Result<Vec<Record>, RecoverError> {
        Ok(Record::decode_all(self.0.records(id)?)?)
    }

    /// Notes that a run is damaged, where that is why it is not taken up. Where it cannot be noted it is found again.
    pub(super) fn note_damage(&self, id: &str, error: &RecoverError) {
        if let Some(why) = error.damage() {
            let _ = self.0.note_damage(id, &why);
        }
    }

    /// The store itself.
    pub fn store(&self) -> &Sqlite {
        &self.0
    }
}

impl Host {
    /// The durable runs of the host's folder; none where it was built without one.
    ///
    /// # Errors
    /// The folder cannot be used, or is of another release.
    pub fn journal(&self) -> Result<Option<&Journal>, StoreError> {
        self.shared.data.as_ref().map(DataFolder::journal).transpose()
    }

    /// The folder of durable runs.
    pub fn data_folder(&self) -> Option<&Path> {
        self.shared.data.as_ref().map(|data| &*data.folder)
    }

    /// Why others could read or change what is in the folder of durable runs; none where they cannot, or there is none.
    pub fn data_exposed(&self) -> Option<String> {
        exposed(self.data_folder()?)
    }

    /// The socket by which other processes of this user see and steer the runs of the host. None where it has no folder for durable runs, or
    /// none has begun.
    ///
    /// # Errors
    /// Why there is none although one has.
    pub fn socket(&self) -> Option<Result<PathBuf, String>> {
        let control = self.shared.data.as_ref()?.control.lock();
        Some(control.as_ref()?.as_ref().map(|control| control.path().to_owned()).map_err(Clone::clone))
    }

    /// Answers other processes no more, when those who watch runs that are over have heard so. It is done when the host is dropped; whoever
    /// ends the process without that does it first.
    pub fn close_socket(&self) {
        let control = self.shared.data.as_ref().and_then(|data| data.control.lock().take());
        if let Some(Ok(control)) = control {
            control.drain(DRAIN);
        }
    }

    /// Ends what other processes have with this one, and leaves the folder in order: whoever ends the process without dropping the host does so
    /// first.
    pub fn settle_folder(&self) {
        self.close_socket();
        if let Some(Ok(Journal(store))) = self.shared.data.as_ref().and_then(|data| data.journal.get()) {
            store.settle();
        }
    }

    pub(super) fn opened(&self) -> Result<(&DataFolder, &Journal), RecoverError> {
        let data = self.shared.data.as_ref().ok_or(RecoverError::NoJournal)?;
        Ok((data, data.journal()?))
    }

    /// The log of a run that is to be durable.
    pub(super) fn log(
        &self,
        id: &Arc<str>,
        workflow: &Workflow,
        inputs: &Map<String, Value>,
    ) -> Result<Box<dyn Log>, LoadError> {
        let data = self.shared.data.as_ref().ok_or(LoadError::NoJournal)?;
        let Journal(store) = data.journal().map_err(LoadError::Journal)?;
        let run = self.prepare_new(id, workflow, inputs)?;
        store.begin(&run).map_err(|error| match error {
            StoreError::Exists(id) | StoreError::Owned(id) => LoadError::Exists { id: id.to_string() },
            error => LoadError::Journal(error),
        })
    }

    /// Keeps what a new run needs to be taken up, and says what stands beside its records.
    pub(super) fn prepare_new(
        &self,
        id: &Arc<str>,
        workflow: &Workflow,
        inputs: &Map<String, Value>,
    ) -> Result<NewRun, LoadError> {
        let data = self.shared.data.as_ref().ok_or(LoadError::NoJournal)?;
        for (source, file) in &*workflow.files {
            let bytes = file.bytes.as_ref().expect("invariant: a host with a folder keeps what it loads");
            let kept = data.components.store(&file.hash, bytes);
            kept.map_err(|error| LoadError::StoreComponent { component: source.clone(), error })?;
        }
        let addresses = self.shared.addresses.clone();
        let manifest = RunManifest { addresses, ..RunManifest::new(workflow, inputs) };
        let name = manifest.name.as_str().into();
        let components = manifest.components.values().map(|hash| hash.as_str().into()).collect();
        Ok(NewRun { id: Arc::clone(id), name, created: system_time(), manifest: manifest.to_text(), components })
    }

    /// Takes up a durable run of this workflow whose host is gone. Its guests do again what they did when they are next stepped; no call is
    /// made twice but under its key.
    ///
    /// # Errors
    /// There is no such run, it has ended, a living host has it, it was one of another workflow or of other components, or it is paused and was
    /// to be left alone then.
    pub fn recover(&self, workflow: &Workflow, id: &str, options: RunOptions) -> Result<RunHandle, RecoverError> {
        let (_, journal) = self.opened()?;
        self.recover_without_note(workflow, id, options).inspect_err(|error| journal.note_damage(id, error))
    }

    /// Takes a run that no living host has: it is this host's from now on.
    pub(super) fn own_records(&self, id: &str) -> Result<OwnedRun, RecoverError> {
        let (_, Journal(store)) = self.opened()?;
        let taken = store.recover(id)?;
        let records = Record::decode_all(taken.records)?;
        // What the journal says of a run goes by its name there, and what the kernel does by the name in its records.
        if let Some(started) = records.first().and_then(Record::started)
            && *started.run != *id
        {
            let why = format!("record 1: it is of the run {:?}", started.run);
            return Err(StoreError::Damaged { run: id.into(), why }.into());
        }
        Ok(OwnedRun { records, left: taken.inbox, log: taken.log })
    }

    fn recover_without_note(
        &self,
        workflow: &Workflow,
        id: &str,
        options: RunOptions,
    ) -> Result<RunHandle, RecoverError> {
        let OwnedRun { records, left, log } = self.own_records(id)?;
        let spec = ResumeSpec {
            root: self.root_for(workflow, &records),
            programs: (*workflow.programs).clone(),
            left,
            unless_paused: options.unless_paused,
            log,
            effects: Arc::clone(&self.shared.dispatcher) as _,
            sink: options.sink,
            watcher: options.watcher,
        };
        let run = self.shared.kernel.resume(spec, &records)?;
        Ok(RunHandle { run })
    }

    /// Leaves an act for a run that no living host has: it is done when the run is taken up. Of acts with the same id one is done.
    ///
    /// # Errors
    /// The host has no folder for durable runs, or it cannot be written down.
    pub fn post(&self, run: &str, act: &Act, id: &str) -> Result<Posted, RecoverError> {
        let (_, Journal(store)) = self.opened()?;
        Ok(store.post(run, &act.to_mail(id))?)
    }

    /// Stops without ending any run: nothing is stepped any more, no further call leaves, and calls in flight have this long to be
    /// answered. What was recorded is durable when it returns; durable runs are nobody's then, and can be taken up. Whoever waits for
    /// the outcome of a run hears that it was suspended. Where the disk is full nobody waits for room: what was not durable is given up, and
    /// nobody was told that it is.
    ///
    /// It waits on this thread. It returns how many calls were still in flight.
    ///
    /// # Errors
    /// Where the journal cannot be written: the runs are what they are on disk.
    pub fn suspend(&self, grace: Duration) -> Result<usize, StoreError> {
        let shared = &self.shared;
        shared.kernel.hold();
        shared.kernel.never_stall();
        // Without that lock: a handler may ask for the statistics, which a worker is waited for.
        let scheduler = shared.scheduler.lock().take();
        drop(scheduler);
        let begun = Instant::now();
        while shared.dispatcher.in_flight() > 0 && begun.elapsed() < grace {
            std::thread::sleep(LOOK);
        }
        let left = shared.dispatcher.in_flight();
        // From here on nothing is recorded, whatever arrives.
        shared.port.close();
        shared.dispatcher.close();
        let store = shared.data.as_ref().and_then(|data| data.journal.get()?.as_ref().ok()).map(Journal::store);
        let flushed = store.map_or(Ok(true), Sqlite::flush_while_room);
        shared.kernel.abandon(
            &Problem::new(kind::SUSPENDED, "The host stopped before the run was over")
                .with_detail("A durable run goes on where it is taken up; any other one is lost."),
        );
        if let (Some(store), Ok(false)) = (store, &flushed) {
            // After the runs: they are what they are on disk, and nothing has failed.
            store.give_up();
        }
        flushed.map(|_| left)
    }

    /// Whether the disk with the folder of durable runs is full: what runs do is not durable until there is room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let journal = self.shared.data.as_ref().and_then(|data| data.journal.get()?.as_ref().ok());
        journal.is_some_and(|journal| journal.store().is_full())
    }
}

/// Why others could read or change what is in a folder; none where they cannot, or it is not there.
pub(crate) fn exposed(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let user = super::control::user().ok()?;
    guarded(&folder, user).err().map(|error| error.to_string())
}
