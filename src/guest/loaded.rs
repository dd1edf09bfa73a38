//! What all guests of a component share.

use super::cache;
use super::compiler::Cancellation;
use super::death::host_fault;
use super::engine::GuestEngine;
use super::linked::Linked;
use super::problem::LoadError;
use super::sandbox::Sandbox;
use super::script::{self, Script, ScriptError, ScriptSource};
use super::snapshot::{self, Template, Verdict};
use super::spares::{self, Reuse};
use super::survey::Survey;
use crate::process::{Allocation, Form, Json, Permit, Problem, SnapshotSupport};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Fuel that loading a script takes from which its image is learned at once, not when enough of
/// its guests have ended. Derived: learning costs about two loads and some milliseconds.
const EAGER_FUEL: u64 = 20_000_000;

/// A component that is loaded into an engine, or a script in one.
pub(crate) struct Loaded {
    engine: Arc<GuestEngine>,
    digest: Arc<str>,
    /// A script has those of its engine.
    linked: Arc<LinkedTwice>,
    /// `None` if it is a component of its own.
    script: Option<Script>,
    permit: Permit,
    hash: blake3::Hash,
    note: Note,
    /// Learned at the first eviction: it takes some milliseconds.
    template: OnceLock<Result<Template, String>>,
    /// A guest was lost while encoding its own state: no other is asked. It guards no other data.
    encoding_fails: AtomicBool,
    description: OnceLock<Result<Option<Json>, Problem>>,
    reuse: Reuse,
}

/// A component in both engines.
struct LinkedTwice {
    pool: Linked,
    /// The same for guests that live outside the pool, and for throw-away instances. Made when
    /// first needed: it copies the code.
    on_demand: OnceLock<Result<Linked, String>>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        spares::forget(self);
    }
}

/// What is found in a component's bytes, and stored beside its compiled code.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Note {
    survey: Survey,
    verdict: Verdict,
}

impl Note {
    pub(super) fn of(bytes: &[u8]) -> Result<Self, LoadError> {
        let survey = Survey::of(bytes)?;
        let verdict = snapshot::check(bytes).map_err(|error| LoadError::Malformed(error.to_string()))?;
        Ok(Self { survey, verdict })
    }

    pub(super) fn survey(&self) -> &Survey {
        &self.survey
    }
}

impl Loaded {
    /// Links a compiled component into the engine's pool.
    ///
    /// # Errors
    /// Fails if the component does not fit the contract.
    pub(super) fn new(
        engine: &Arc<GuestEngine>,
        hash: blake3::Hash,
        note: Note,
        component: &wasmtime::component::Component,
    ) -> Result<Self, LoadError> {
        let pool = Linked::new(engine.linker(&note.survey.imports)?, component, &note.survey)?;
        // Otherwise the first instance would do this, on a worker. If it fails, instances are made
        // the slow way.
        let _ = component.initialize_copy_on_write_image();
        let permit = permit(component, &note.survey);
        Ok(Self {
            engine: Arc::clone(engine),
            digest: format!("blake3:{}", hash.to_hex()).into(),
            permit,
            reuse: Reuse::new(permit, engine.options().snapshots && note.verdict.snapshottable()),
            linked: Arc::new(LinkedTwice { pool, on_demand: OnceLock::new() }),
            script: None,
            hash,
            note,
            template: OnceLock::new(),
            encoding_fails: AtomicBool::new(false),
            description: OnceLock::new(),
        })
    }

    /// A script: sources for an engine.
    pub(super) fn script_of(engine: &Arc<Self>, sources: Arc<[ScriptSource]>) -> Self {
        let hash = script::hash(engine.hash(), &sources);
        let note = engine.note.clone();
        Self {
            engine: Arc::clone(&engine.engine),
            digest: format!("blake3:{}", hash.to_hex()).into(),
            linked: Arc::clone(&engine.linked),
            script: Some(Script::new(Arc::clone(engine), sources)),
            permit: engine.permit,
            reuse: Reuse::new(engine.permit, engine.may_be_snapshotted()),
            hash,
            note,
            template: OnceLock::new(),
            encoding_fails: AtomicBool::new(false),
            description: OnceLock::new(),
        }
    }

    /// Loads the script once, to see whether it can be, and asks it for its description.
    ///
    /// # Errors
    /// Fails if its engine refuses it, or the caller cancels.
    pub(super) fn examine(self: &Arc<Self>, cancellation: &Cancellation) -> Result<(), ScriptError> {
        let script = self.script.as_ref().ok_or(ScriptError::NoEngine)?;
        let sandbox = self.sandbox().map_err(|reason| ScriptError::Wrong(host_fault(reason)))?;
        let findings = script::examine(&sandbox, script, cancellation)?;
        let _ = self.description.set(findings.description);
        if findings.fuel > EAGER_FUEL {
            spares::learn_now(self);
        }
        Ok(())
    }

    /// Translates a source by this script engine.
    ///
    /// # Errors
    /// Returns the problem that the engine finds in it, or of which it dies.
    pub(super) fn translate(&self, source: ScriptSource, fuel: &mut u64) -> Result<String, Problem> {
        script::translate(&self.sandbox().map_err(host_fault)?, source, fuel)
    }

    /// What distinguishes it from its engine, if it is a script.
    pub(crate) fn script(&self) -> Option<&Script> {
        self.script.as_ref()
    }

    /// Whether it exports `script`.
    pub(super) fn is_script_engine(&self) -> bool {
        self.linked.pool.is_script_engine()
    }

    /// The component as it is instantiated there.
    ///
    /// # Errors
    /// Returns why there is no engine for it: a fault of the host's.
    pub(crate) fn linked(&self, allocation: Allocation) -> Result<&Linked, &str> {
        match allocation {
            Allocation::Pool => Ok(&self.linked.pool),
            Allocation::OnDemand => {
                self.linked.on_demand.get_or_init(|| self.link_on_demand()).as_ref().map_err(String::as_str)
            }
        }
    }

    /// Whether [`Self::linked`] has to link first, which copies the code.
    pub(crate) fn has_to_link(&self, allocation: Allocation) -> bool {
        allocation == Allocation::OnDemand && self.linked.on_demand.get().is_none()
    }

    fn link_on_demand(&self) -> Result<Linked, String> {
        let (engine, linker) = self.engine.on_demand().map_err(|error| error.to_string())?;
        let component = cache::transfer(self.linked.pool.pre.component(), engine)?;
        let _ = component.initialize_copy_on_write_image();
        Linked::new(linker, &component, &self.note.survey).map_err(|error| error.to_string())
    }

    /// The component's own description, asked for once; `None` if it has no such export.
    pub(crate) fn describe(&self) -> Result<Option<Json>, Problem> {
        let describe = || self.sandbox().map_err(host_fault)?.describe();
        self.description.get_or_init(describe).clone()
    }

    fn sandbox(&self) -> Result<Sandbox<'_>, String> {
        let linked = self.linked(Allocation::OnDemand).map_err(str::to_owned)?;
        Ok(Sandbox::new(linked, self.engine.options()))
    }

    /// What snapshots of its instances need to know, learned on first use. `None` if they cannot be
    /// snapshotted.
    pub(crate) fn template(&self) -> Option<&Template> {
        if !self.may_be_snapshotted() {
            return None;
        }
        let probe = || match &self.script {
            None => self.sandbox()?.template(self.hash()).map_err(|error| error.to_string()),
            Some(script) => script::template(&self.sandbox()?, script, self.hash()),
        };
        self.template.get_or_init(probe).as_ref().ok()
    }

    /// Whether [`Self::template`] has to learn first, which takes some milliseconds.
    pub(crate) fn has_to_learn(&self) -> bool {
        self.may_be_snapshotted() && self.template.get().is_none()
    }

    /// Whether [`Self::template`] is known.
    pub(crate) fn has_template(&self) -> bool {
        self.template.get().is_some_and(Result::is_ok)
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
            _ if options.snapshots && self.exports_snapshot() && !self.encoding_fails.load(Relaxed) => {
                SnapshotSupport::Ready(Form::GuestEncoded)
            }
            _ => SnapshotSupport::Never,
        }
    }

    /// Whether it exports `snapshot`.
    pub(crate) fn exports_snapshot(&self) -> bool {
        self.linked.pool.exports_snapshot()
    }

    /// Records that a guest was lost while encoding its own state.
    pub(crate) fn encoding_failed(&self) {
        self.encoding_fails.store(true, Relaxed);
    }

    pub(crate) fn survey(&self) -> &Survey {
        &self.note.survey
    }

    pub(crate) fn verdict(&self) -> &Verdict {
        &self.note.verdict
    }

    pub(crate) fn permit(&self) -> Permit {
        self.permit
    }

    pub(crate) fn digest(&self) -> Arc<str> {
        Arc::clone(&self.digest)
    }

    /// The name of the interface by which its instances are stepped.
    pub(crate) fn contract(&self) -> &'static str {
        self.linked.pool.contract()
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

/// What a guest takes of the pool.
pub(super) fn permit(component: &wasmtime::component::Component, survey: &Survey) -> Permit {
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
