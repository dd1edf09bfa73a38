//! Programs for the command line as steps: what has a `main`, compiled to WASI.
//!
//! A component that exports `wasi:cli/run`, or a core module that exports `_start` (preview 1),
//! which is adapted when it is loaded. Each process runs the program once, in one step: it is
//! preempted like any guest, and ends with what the program has left ([`outcome`]).
//!
//! - **C1** A program sees what its input gives it ([`invocation`]) and what it was granted when it
//!   was loaded ([`granted`]), and nothing else: no file, no network and no clock of the machine.
//!   The same input at the same time has the same output, so a replay runs it again.
//! - **C2** Nothing it writes is dropped in silence: what is beyond a bound ends it with a problem.
//! - **C3** It is not snapshotted: what it is between two steps is either its input, or its end.

mod blobs;
mod body;
mod granted;
mod invocation;
mod outcome;

use super::cache::{self, Prepared};
use super::compiler::{self, Cancellation};
use super::componentize;
use super::context::Context;
use super::engine::GuestEngine;
use super::inspect::Misfit;
use super::loaded::{Note, permit};
use super::offers;
use super::options::EngineOptions;
use super::problem::LoadError;
use super::survey::{BYTES_MAX, Survey};
use crate::process::{Allocation, Body, Json, Permit, Problem, ProcessInit, Program};
use body::Running;
pub use granted::{GRANTED_BYTES_MAX, GRANTED_ENTRIES_MAX, GrantedFolders};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use wasmtime::component::{Component, InstancePre};

/// The interface by which a program is run, in any version of WASI 0.2.
const RUN: &str = "wasi:cli/run@0.2";

/// How a core module is started.
const START: &str = "_start";

/// A compiled program. Cloning it is cheap.
#[derive(Clone)]
pub struct WasiCommand {
    loaded: Arc<Loaded>,
    digest: Arc<str>,
    granted: Arc<GrantedFolders>,
}

struct Loaded {
    engine: Arc<GuestEngine>,
    /// The name that it is called by: its first argument.
    name: Arc<str>,
    pool: InstancePre<Context>,
    /// The same outside the pool, made when first needed.
    on_demand: OnceLock<Result<InstancePre<Context>, String>>,
    permit: Permit,
    survey: Survey,
}

impl WasiCommand {
    /// Returns whether these bytes are a program, by what they export.
    pub fn recognizes(bytes: &[u8]) -> bool {
        use wasmparser::Payload::{ComponentExportSection, End, ExportSection, Version};
        let mut depth = 0_u32;
        for payload in wasmparser::Parser::new(0).parse_all(bytes) {
            let is_found = match payload {
                Ok(Version { .. }) => {
                    depth += 1;
                    false
                }
                Ok(End(_)) => {
                    depth = depth.saturating_sub(1);
                    false
                }
                Ok(ExportSection(exports)) if depth == 1 => {
                    exports.into_iter().flatten().any(|export| export.name == START)
                }
                Ok(ComponentExportSection(exports)) if depth == 1 => {
                    exports.into_iter().flatten().any(|export| export.name.name.starts_with(RUN))
                }
                Ok(_) => false,
                Err(_) => return false,
            };
            if is_found {
                return true;
            }
        }
        false
    }

    /// Checks and compiles a program, or loads its compiled code from the cache. `name` is the
    /// first argument that it gets. `compiling` is called before it is compiled.
    ///
    /// # Errors
    /// Fails if it is too large, not valid, or imports what is not offered.
    pub fn load(
        engine: &Arc<GuestEngine>,
        name: &str,
        bytes: &[u8],
        cancellation: &Cancellation,
        compiling: &dyn Fn(),
    ) -> Result<Self, LoadError> {
        let is_module = wasmparser::Parser::is_core_wasm(bytes);
        if !is_module && bytes.len() > BYTES_MAX {
            return Err(LoadError::TooLarge { bytes: bytes.len(), bytes_max: BYTES_MAX });
        }
        let digest = format!("blake3:{}", blake3::hash(bytes).to_hex());
        let adapted = || if is_module { componentize::command(bytes).map(Cow::from) } else { Ok(Cow::from(bytes)) };
        let prepare = || {
            let bytes = &*adapted()?;
            let note = Note::of(bytes)?;
            check(note.survey())?;
            compiling();
            let note = serde_json::to_vec(&note).expect("invariant: a note can be written as JSON");
            let code = compiler::compile(engine.options(), engine.engine(), engine.cache(), bytes, cancellation)?;
            // The cache has the module only, not the component that is made of it.
            let uncompiled = |error: wasmtime::Error| LoadError::Compile(format!("{error:#}"));
            let here = || engine.engine().precompile_component(bytes);
            let code = if code.is_none() && is_module { Some(here().map_err(uncompiled)?) } else { code };
            Ok(Prepared { note, code })
        };
        let hash = if is_module { componentize::key(bytes) } else { blake3::hash(bytes) };
        let (component, note) = engine.cache().load_or_compile(engine.engine(), bytes, &hash, prepare)?;
        let note: Note = serde_json::from_slice(&note).or_else(|_| Note::of(&adapted()?))?;
        let survey = note.survey().clone();
        check(&survey)?;
        let misfit = |error: &wasmtime::Error| LoadError::Misfit(vec![Misfit::import_type(error)]);
        let linker = engine.linker(&survey.imports)?;
        let pool = linker.instantiate_pre(&component).map_err(|error| misfit(&error))?;
        let _ = component.initialize_copy_on_write_image();
        let loaded = Arc::new(Loaded {
            engine: Arc::clone(engine),
            name: name.into(),
            permit: permit(&component, &survey),
            pool,
            on_demand: OnceLock::new(),
            survey,
        });
        Ok(Self { loaded, digest: digest.into(), granted: Arc::default() })
    }

    /// The same program with folders that it can read. `content` is a digest of what they hold.
    #[must_use]
    pub fn granted(&self, folders: GrantedFolders, content: &blake3::Hash) -> Self {
        let mut digest = blake3::Hasher::new();
        digest.update(self.digest.as_bytes()).update(content.as_bytes());
        let digest = format!("blake3:{}", digest.finalize().to_hex());
        Self { loaded: Arc::clone(&self.loaded), digest: digest.into(), granted: Arc::new(folders) }
    }

    /// What the program's component consists of; of a core module, with its adapter.
    pub fn survey(&self) -> &Survey {
        &self.loaded.survey
    }

    /// Its one entry, `run`, as components describe theirs.
    pub fn describe() -> Json {
        invocation::description()
    }
}

impl Loaded {
    /// The program as it is instantiated there.
    ///
    /// # Errors
    /// Returns why there is no engine for it: a fault of the host's.
    fn linked(&self, allocation: Allocation) -> Result<&InstancePre<Context>, String> {
        match allocation {
            Allocation::Pool => Ok(&self.pool),
            Allocation::OnDemand => {
                self.on_demand.get_or_init(|| self.link_on_demand()).as_ref().map_err(String::clone)
            }
        }
    }

    fn link_on_demand(&self) -> Result<InstancePre<Context>, String> {
        let (engine, linker) = self.engine.on_demand().map_err(|error| error.to_string())?;
        let component: Component = cache::transfer(self.pool.component(), engine)?;
        let _ = component.initialize_copy_on_write_image();
        linker.instantiate_pre(&component).map_err(|error| format!("{error:#}"))
    }

    fn options(&self) -> &EngineOptions {
        self.engine.options()
    }
}

impl Program for WasiCommand {
    fn permit(&self) -> Permit {
        self.loaded.permit
    }

    fn digest(&self) -> Arc<str> {
        Arc::clone(&self.digest)
    }

    fn body(&self, init: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        Ok(Box::new(Running::new(Arc::clone(&self.loaded), Arc::clone(&self.granted), init)))
    }
}

/// Refuses a program that imports what is not offered.
fn check(survey: &Survey) -> Result<(), LoadError> {
    let unknown = survey.imports.iter().filter(|import| !offers::is_offered_to(import, &survey.exports));
    let mut misfits: Vec<_> = unknown.map(|import| Misfit::import_missing(import)).collect();
    if !survey.exports.iter().any(|export| export.starts_with(RUN)) {
        misfits.push(Misfit::export_missing("wasi:cli/run@0.2.0", ""));
    }
    if misfits.is_empty() { Ok(()) } else { Err(LoadError::Misfit(misfits)) }
}
