//! A component: from its bytes to what guests are made from.

use super::binding::{self, Binding, Exports};
use super::body::Guest;
use super::cache::{self, Prepared};
use super::compiler::{self, Cancellation};
use super::context::Context;
use super::engine::{EngineOptions, GuestEngine};
use super::inspect::Misfit;
use super::metering::INSTANTIATE_FUEL;
use super::offers;
use super::problem::LoadError;
use super::sandbox::Sandbox;
use super::saving;
use super::snapshot::{self, Template, Verdict};
use super::spares::{self, Reuse};
use super::survey::{BYTES_MAX, Survey};
use crate::process::{
    Allocation, Body, Form, Json, Permit, Problem, ProcessInit, ProcessSnapshot, Program, SnapshotError,
    SnapshotSupport, problem::kind,
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use wasmtime::Store;
use wasmtime::component::{InstancePre, Linker};

/// A compiled component that fits the contract. Cloning it is cheap.
#[derive(Clone)]
pub struct Component {
    loaded: Arc<Loaded>,
}

/// What all guests of a component share.
pub(crate) struct Loaded {
    engine: Arc<GuestEngine>,
    digest: Arc<str>,
    pool: Linked,
    /// The same for guests that live outside the pool, and for throw-away instances. Made when
    /// first needed: it copies the code.
    on_demand: OnceLock<Result<Linked, String>>,
    permit: Permit,
    hash: blake3::Hash,
    note: Note,
    /// Learned at the first eviction: it takes some milliseconds.
    template: OnceLock<Result<Template, String>>,
    /// A guest was lost while encoding its own state: no other is asked. It guards no other data.
    own_fails: AtomicBool,
    description: OnceLock<Result<Option<Json>, Problem>>,
    reuse: Reuse,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        spares::forget(self);
    }
}

/// A component in one engine, ready to be instantiated.
pub(crate) struct Linked {
    pub(crate) pre: InstancePre<Context>,
    exports: Box<dyn Exports>,
    /// The name of the contract's interface.
    contract: &'static str,
    /// Whether the component passes text in UTF-16.
    transcodes: bool,
}

/// What is found in a component's bytes, and stored beside its compiled code.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Note {
    survey: Survey,
    verdict: Verdict,
}

impl Note {
    fn of(bytes: &[u8]) -> Result<Self, LoadError> {
        let survey = Survey::of(bytes)?;
        let verdict = snapshot::check(bytes).map_err(|error| LoadError::Malformed(error.to_string()))?;
        Ok(Self { survey, verdict })
    }
}

impl Component {
    /// Checks and compiles a component, or loads its compiled code from the cache.
    ///
    /// Slow if the code is not in the cache: not for a worker.
    ///
    /// # Errors
    /// Fails if it is too large, not valid, or does not fit the contract: every misfit is named.
    pub fn load(engine: &Arc<GuestEngine>, bytes: &[u8]) -> Result<Self, LoadError> {
        Self::load_until(engine, bytes, &Cancellation::new())
    }

    /// Does what [`Self::load`] does, until it is cancelled.
    ///
    /// # Errors
    /// Fails like [`Self::load`], and if it was cancelled. A compiler in this process is not
    /// interrupted.
    pub fn load_until(engine: &Arc<GuestEngine>, bytes: &[u8], cancellation: &Cancellation) -> Result<Self, LoadError> {
        Self::load_hashed(engine, bytes, blake3::hash(bytes), cancellation, &|| {})
    }

    /// Does what [`Self::load_until`] does, for bytes whose hash is known. `compiling` is called
    /// before the component is compiled, if its code is not in the cache.
    pub(crate) fn load_hashed(
        engine: &Arc<GuestEngine>,
        bytes: &[u8],
        hash: blake3::Hash,
        cancellation: &Cancellation,
        compiling: &dyn Fn(),
    ) -> Result<Self, LoadError> {
        if bytes.len() > BYTES_MAX {
            return Err(LoadError::TooLarge { bytes: bytes.len(), bytes_max: BYTES_MAX });
        }
        if cancellation.is_cancelled() {
            return Err(LoadError::Cancelled);
        }
        let prepare = || {
            let note = Note::of(bytes)?;
            check_names(&note.survey)?;
            compiling();
            let note = serde_json::to_vec(&note).expect("invariant: a note can be written as JSON");
            let code = compiler::compile(engine.options(), engine.engine(), bytes, cancellation)?;
            Ok(Prepared { note, code })
        };
        let (component, kept) = engine.cache().load_or_compile(engine.engine(), bytes, &hash, prepare)?;
        let note: Note = serde_json::from_slice(&kept).or_else(|_| Note::of(bytes))?;
        let pool = Linked::new(engine.linker(&note.survey.imports)?, &component, &note.survey)?;
        // Otherwise the first instance would do this, on a worker. If it fails, instances are made
        // the slow way.
        let _ = component.initialize_copy_on_write_image();
        let permit = permit(&component, &note.survey);
        let loaded = Loaded {
            engine: Arc::clone(engine),
            digest: format!("blake3:{}", hash.to_hex()).into(),
            permit,
            reuse: Reuse::new(permit, engine.options().snapshots && note.verdict.snapshottable()),
            pool,
            on_demand: OnceLock::new(),
            hash,
            note,
            template: OnceLock::new(),
            own_fails: AtomicBool::new(false),
            description: OnceLock::new(),
        };
        Ok(Self { loaded: Arc::new(loaded) })
    }
}

impl Component {
    /// What the component consists of.
    pub fn survey(&self) -> &Survey {
        &self.loaded.note.survey
    }

    /// Returns whether its instances encode their state themselves, by the optional export
    /// `snapshot`. This matters if [`Self::snapshots`] says no.
    pub fn saves_itself(&self) -> bool {
        self.loaded.has_own()
    }

    /// Returns whether its instances can be snapshotted, and if not, why not.
    pub fn snapshots(&self) -> &Verdict {
        &self.loaded.note.verdict
    }

    /// Returns the component's own description: its entries, each with its documentation and JSON
    /// Schemas. `None` if it has no such export. It is asked once, in a sandbox without grants.
    ///
    /// # Errors
    /// Returns the failure of the guest, or of the host.
    pub fn describe(&self) -> Result<Option<Json>, Problem> {
        // A sandbox costs a millisecond, and most components have no description.
        if !self.survey().exports.iter().any(|export| export.contains("/describe@")) {
            return Ok(None);
        }
        let describe = || match Sandbox::new(&self.loaded) {
            Ok(sandbox) => sandbox.describe(),
            Err(reason) => Err(Problem::new(kind::HOST_FAULT, "There is no sandbox").with_detail(reason)),
        };
        self.loaded.description.get_or_init(describe).clone()
    }
}

impl Program for Component {
    fn permit(&self) -> Permit {
        self.loaded.permit
    }

    fn digest(&self) -> Arc<str> {
        Arc::clone(&self.loaded.digest)
    }

    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        Ok(Box::new(Guest::new(Arc::clone(&self.loaded), init)))
    }

    fn snapshot_support(&self) -> SnapshotSupport {
        self.loaded.snapshot_support()
    }

    fn learn_snapshot_support(&self) {
        let _ = self.loaded.template();
    }

    fn restore(&self, init: ProcessInit, saved: &ProcessSnapshot) -> Result<Box<dyn Body>, SnapshotError> {
        Ok(Box::new(saving::restored(&self.loaded, init, saved)?))
    }

    fn restores_slowly(&self, saved: &ProcessSnapshot) -> bool {
        saving::restores_slowly(&self.loaded, saved)
    }
}

impl Loaded {
    /// The component as it is instantiated there.
    ///
    /// # Errors
    /// Returns why there is no engine for it: a fault of the host's.
    pub(crate) fn linked(&self, allocation: Allocation) -> Result<&Linked, &str> {
        match allocation {
            Allocation::Pool => Ok(&self.pool),
            Allocation::OnDemand => {
                self.on_demand.get_or_init(|| self.link_on_demand()).as_ref().map_err(String::as_str)
            }
        }
    }

    /// Whether [`Self::linked`] has to link first, which copies the code.
    pub(crate) fn has_to_link(&self, allocation: Allocation) -> bool {
        allocation == Allocation::OnDemand && self.on_demand.get().is_none()
    }

    fn link_on_demand(&self) -> Result<Linked, String> {
        let (engine, linker) = self.engine.on_demand().map_err(|error| error.to_string())?;
        let component = cache::transfer(self.pool.pre.component(), engine)?;
        let _ = component.initialize_copy_on_write_image();
        Linked::new(linker, &component, &self.note.survey).map_err(|error| error.to_string())
    }

    /// What snapshots of its instances need to know, learned on first use. `None` if they cannot be
    /// snapshotted.
    pub(crate) fn template(&self) -> Option<&Template> {
        if !self.may_be_snapshotted() {
            return None;
        }
        let probe = || Sandbox::new(self)?.template().map_err(|error| error.to_string());
        self.template.get_or_init(probe).as_ref().ok()
    }

    /// Whether [`Self::template`] has to learn first, which takes some milliseconds.
    pub(crate) fn has_to_learn(&self) -> bool {
        self.may_be_snapshotted() && self.template.get().is_none()
    }

    fn may_be_snapshotted(&self) -> bool {
        self.engine.options().snapshots && self.note.verdict.snapshottable()
    }

    /// How its instances are saved.
    pub(crate) fn snapshot_support(&self) -> SnapshotSupport {
        let options = self.engine.options();
        match self.template.get() {
            None if self.may_be_snapshotted() => SnapshotSupport::ToLearn(Form::Image),
            Some(Ok(_)) => SnapshotSupport::Ready(Form::Image),
            _ if options.snapshots && self.has_own() && !self.own_fails.load(Relaxed) => {
                SnapshotSupport::Ready(Form::GuestEncoded)
            }
            _ => SnapshotSupport::Never,
        }
    }

    /// Whether it exports `snapshot`.
    pub(crate) fn has_own(&self) -> bool {
        self.pool.exports.has_snapshot()
    }

    /// Records that a guest was lost while encoding its own state.
    pub(crate) fn own_failed(&self) {
        self.own_fails.store(true, Relaxed);
    }

    pub(crate) fn digest(&self) -> Arc<str> {
        Arc::clone(&self.digest)
    }

    /// The name of the interface by which its instances are stepped.
    pub(crate) fn contract(&self) -> &'static str {
        self.pool.contract
    }

    pub(crate) fn reuse(&self) -> &Reuse {
        &self.reuse
    }

    pub(crate) fn engine(&self) -> &GuestEngine {
        &self.engine
    }

    pub(crate) fn hash(&self) -> [u8; 32] {
        *self.hash.as_bytes()
    }
}

impl Linked {
    fn new(
        linker: &Linker<Context>,
        component: &wasmtime::component::Component,
        survey: &Survey,
    ) -> Result<Self, LoadError> {
        let pre = instantiate_pre(linker, component, survey)?;
        let contract = binding::contract_of(component)
            .ok_or_else(|| LoadError::Misfit(vec![Misfit::export_missing(binding::CONTRACTS[0].interface(), "")]))?;
        let exports = contract.resolve(&pre).map_err(LoadError::Misfit)?;
        Ok(Self { pre, exports, contract: contract.interface(), transcodes: survey.transcodes })
    }

    /// A store for a guest with that init, with all its limits.
    pub(crate) fn store(&self, options: &EngineOptions, init: &Arc<ProcessInit>) -> Store<Context> {
        new_store(self.pre.engine(), options, init, self.transcodes)
    }

    /// Gives the store of an instance that is as good as fresh to the next guest. Its bounds stay:
    /// they derive from the same limits.
    pub(crate) fn renew(&self, store: &mut Store<Context>, options: &EngineOptions, init: &Arc<ProcessInit>) {
        store.data_mut().renew(Arc::clone(init), options, self.transcodes);
    }

    /// Makes the instance, the first thing in its store.
    pub(crate) async fn instantiate(&self, store: &mut Store<Context>) -> wasmtime::Result<Box<dyn Binding>> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        store.data_mut().instantiated();
        self.exports.bind(store, &instance)
    }
}

/// Refuses a component that cannot fit, by the names of its imports and exports: compiling it would
/// take long, and be of no use. Their types are known once it is compiled.
fn check_names(survey: &Survey) -> Result<(), LoadError> {
    let unknown = survey.imports.iter().filter(|import| !offers::is_offered(import));
    let mut misfits: Vec<_> = unknown.map(|import| Misfit::import_missing(import)).collect();
    let has = |contract: &&dyn binding::Contract| survey.exports.iter().any(|export| export == contract.interface());
    if !binding::CONTRACTS.iter().any(has) {
        misfits.push(Misfit::export_missing(binding::CONTRACTS[0].interface(), ""));
    }
    if misfits.is_empty() { Ok(()) } else { Err(LoadError::Misfit(misfits)) }
}

/// Resolves a component's imports.
fn instantiate_pre(
    linker: &Linker<Context>,
    component: &wasmtime::component::Component,
    survey: &Survey,
) -> Result<InstancePre<Context>, LoadError> {
    // Cached code may be from a time when other names were offered.
    check_names(survey)?;
    linker.instantiate_pre(component).map_err(|error| LoadError::Misfit(vec![Misfit::import_type(&error)]))
}

/// What a guest takes of the pool.
fn permit(component: &wasmtime::component::Component, survey: &Survey) -> Permit {
    // Only components that import modules or components have no answer, and these are never linked.
    let resources = component.resources_required();
    let (memories, tables) = resources.map_or((0, 0), |resources| (resources.num_memories, resources.num_tables));
    Permit {
        instances: 1,
        core_instances: u32::try_from(survey.core_instances).unwrap_or(u32::MAX),
        memories,
        tables,
        bytes: 0,
    }
}

/// A store with all its limits set.
fn new_store(
    engine: &wasmtime::Engine,
    options: &EngineOptions,
    init: &Arc<ProcessInit>,
    transcodes: bool,
) -> Store<Context> {
    let mut store = Store::new(engine, Context::new(Arc::clone(init), options, transcodes));
    store.limiter(|context| &mut context.limiter);
    store.set_hostcall_fuel(store.data().handed_over_max());
    store.set_fuel(INSTANTIATE_FUEL).expect("invariant: engines of guests count fuel");
    store.fuel_async_yield_interval(Some(options.slice_fuel.max(1))).expect("invariant: not zero");
    store
}
