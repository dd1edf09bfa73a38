//! A component: from its bytes to what guests are made from.

use super::body::Guest;
use super::cache::Prepared;
use super::compiler::{self, Cancellation};
use super::engine::GuestEngine;
use super::linked::check_names;
use super::loaded::{Loaded, Note};
use super::problem::LoadError;
use super::script::{self, ScriptError, ScriptSource};
use super::snapshot::Verdict;
use super::stored;
use super::survey::{BYTES_MAX, Survey};
use crate::process::{
    Body, Json, Permit, Problem, ProcessInit, ProcessSnapshot, Program, SnapshotError, SnapshotSupport, problem::kind,
};
use std::sync::Arc;

/// A compiled component that fits the contract. Cloning it is cheap.
#[derive(Clone)]
pub struct Component {
    loaded: Arc<Loaded>,
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
            check_names(note.survey())?;
            compiling();
            let note = serde_json::to_vec(&note).expect("invariant: a note can be written as JSON");
            let code = compiler::compile(engine.options(), engine.engine(), engine.cache(), bytes, cancellation)?;
            Ok(Prepared { note, code })
        };
        let (component, note) = engine.cache().load_or_compile(engine.engine(), bytes, &hash, prepare)?;
        let note: Note = serde_json::from_slice(&note).or_else(|_| Note::of(bytes))?;
        let loaded = Loaded::new(engine, hash, note, &component)?;
        Ok(Self { loaded: Arc::new(loaded) })
    }
}

impl Component {
    /// Returns whether scripts can be made of it: it exports `script`.
    pub fn is_script_engine(&self) -> bool {
        self.loaded.is_script_engine() && self.loaded.script().is_none()
    }

    /// Makes a script: a program whose source is loaded into instances of this engine. The first
    /// source is the script, the others are its modules. It is loaded once to see that it can be.
    ///
    /// May take seconds: not for a worker.
    ///
    /// # Errors
    /// Fails if this is no script engine, it imports more than the sources, something is wrong with
    /// it, or it was cancelled.
    pub fn script(
        &self,
        sources: impl Into<Arc<[ScriptSource]>>,
        cancellation: &Cancellation,
    ) -> Result<Self, ScriptError> {
        if !self.is_script_engine() {
            return Err(ScriptError::NoEngine);
        }
        let loaded = Arc::new(Loaded::script_of(&self.loaded, sources.into()));
        loaded.examine(cancellation)?;
        Ok(Self { loaded })
    }

    /// The hash in the digest of the script that [`Self::script`] makes of these sources.
    pub fn script_hash(&self, sources: &[ScriptSource]) -> blake3::Hash {
        script::hash(self.loaded.hash(), sources)
    }

    /// Translates a source into the language that this script engine runs: TypeScript into
    /// JavaScript, with at most this fuel, which becomes what is left. May take seconds: not for a
    /// worker.
    ///
    /// # Errors
    /// Returns the problem that the engine finds in it, or of which it dies.
    pub fn translate(&self, source: ScriptSource, fuel: &mut u64) -> Result<String, Problem> {
        if !self.is_script_engine() {
            return Err(Problem::new(kind::BAD_SCRIPT, "The component is no script engine"));
        }
        self.loaded.translate(source, fuel)
    }

    /// The sources of a script; none of any other component.
    pub fn sources(&self) -> &[ScriptSource] {
        self.loaded.script().map_or(&[], |script| script.sources())
    }

    /// What the component consists of.
    pub fn survey(&self) -> &Survey {
        self.loaded.survey()
    }

    /// Returns whether its instances encode their state themselves, by the optional export
    /// `snapshot`. This matters if [`Self::snapshots`] says no.
    pub fn saves_itself(&self) -> bool {
        self.loaded.exports_snapshot()
    }

    /// Returns whether its instances can be snapshotted, and if not, why not.
    pub fn snapshots(&self) -> &Verdict {
        self.loaded.verdict()
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
        self.loaded.describe()
    }
}

impl Program for Component {
    fn permit(&self) -> Permit {
        self.loaded.permit()
    }

    fn digest(&self) -> Arc<str> {
        self.loaded.digest()
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
        Ok(Box::new(Guest::restored(&self.loaded, init, saved)?))
    }

    fn restores_slowly(&self, saved: &ProcessSnapshot) -> bool {
        stored::restores_slowly(&self.loaded, saved)
    }
}
