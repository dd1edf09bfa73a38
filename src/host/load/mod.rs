//! Loading workflow files and their components.

mod changed;
mod definition;
mod location;
mod scripts;

pub use changed::ChangedScript;
#[cfg(feature = "cli")]
pub(crate) use changed::stored_line;

use super::ahead::{Ahead, Ready, Runnable};
use super::children::{self, CHILD};
use super::folders::{Content, FOLDERS};
use super::lock::{LockInUse, LockedKind, LockedParts, Locking};
use super::script::{self, Bundle, Folder, LoadedScript, Origin};
use super::{HandlerCatalog, Host, LoadError, Shared, workflow_file};
use crate::guest::{COMPONENT_BYTES_MAX, Cancellation, Component, ScriptForm, ScriptSource};
use crate::process::{Problem, Program};
use crate::workflow::diagnostics::{Excerpt, all_of, closest};
use crate::workflow::interpreter::WorkflowProgram;
use crate::workflow::model::{ComponentDecl, InlineScript, ScriptLanguage};
use crate::workflow::plan::{self, Environment, Handlers, Plan, ResolvedComponent, Unusable};
use crate::workflow::syntax::{Source, Span};
use bytes::Bytes;
pub(super) use location::ComponentLocation;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A loaded workflow: its plan, and the programs of its runs. Cloning it is cheap.
#[derive(Clone)]
pub struct Workflow {
    source: Source,
    pub(super) plan: Arc<Plan>,
    /// The program that runs the workflow itself.
    pub(super) root: Arc<dyn Program>,
    pub(super) programs: Arc<BTreeMap<Arc<str>, Arc<dyn Program>>>,
    /// Its components, by their sources.
    pub(super) files: Arc<BTreeMap<String, ComponentFile>>,
    /// Its scripts, by their sources.
    scripts: Arc<BTreeMap<String, Script>>,
    /// The files that its steps run, by their paths.
    pub(super) children: Arc<BTreeMap<String, Source>>,
    /// What it consists of besides its own file.
    pub(super) parts: Arc<LockedParts>,
}

/// A script, and where it is in the workflow file if it is written there.
type Script = (Bundle, Option<InlineScript>);

/// The compilation of a component that is not in the code cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CompileNotice<'a> {
    /// It begins, and takes seconds for a large component.
    Begins {
        /// The component, as the workflow names it.
        component: &'a str,
        /// Its size.
        bytes: u64,
    },
    /// It has ended, with success or without.
    Ended {
        /// The component, as the workflow names it.
        component: &'a str,
        /// The time that it took.
        took: Duration,
    },
}

/// A component's file as it was when it was loaded.
pub(super) struct ComponentFile {
    /// The BLAKE3 of its bytes, in hexadecimal.
    pub(super) hash: Arc<str>,
    /// Its bytes, if the host stores the components of durable runs.
    pub(super) bytes: Option<Bytes>,
    /// Why its entries are unknown, if it failed when it was asked for them.
    undescribed: Option<Problem>,
}

impl Workflow {
    /// Returns the text that it was loaded from, to show positions of what happens in a run.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns its components, by the names that its text gives them: each with the BLAKE3 of its
    /// bytes in hexadecimal, and the bytes if its host keeps them.
    pub fn component_files(&self) -> impl Iterator<Item = (&str, &str, Option<&Bytes>)> {
        self.files.iter().map(|(source, file)| (source.as_str(), &*file.hash, file.bytes.as_ref()))
    }

    /// Returns the components that failed when they were asked for their description, by source,
    /// each with the cause. They may run all the same.
    pub fn undescribed(&self) -> impl Iterator<Item = (&str, &Problem)> {
        self.files.iter().filter_map(|(source, file)| Some((source.as_str(), file.undescribed.as_ref()?)))
    }

    /// Returns the place in a script that the data of a problem name: `at` with `path`, `line` and
    /// `column`.
    pub fn excerpt(&self, data: &serde_json::Value) -> Option<Excerpt> {
        let (path, line, column) = script::place(data)?;
        self.scripts.iter().find_map(|(key, (bundle, inline))| {
            let (source, text) = bundle.find(&path, line)?;
            Some(match inline.as_ref().filter(|_| source.form == ScriptForm::Body) {
                Some(inline) => {
                    let file = script::file_of(key).and_then(|path| self.children.get(path)).unwrap_or(&self.source);
                    Excerpt {
                        file: file.name().to_owned(),
                        text: file.text().to_owned(),
                        span: inline.span_at(file, line, column),
                        related: Vec::new(),
                    }
                }
                None => Excerpt::at(&path, text, line, column),
            })
        })
    }

    /// Reads the text of a workflow file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or is not UTF-8.
    pub fn read(path: impl AsRef<Path>) -> Result<String, LoadError> {
        workflow_file::read(path.as_ref())
    }

    /// Returns its plan: what a run of it does.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }
}

impl Host {
    /// Reads a workflow file, checks it, and loads the components that it names, relative to its
    /// folder.
    ///
    /// It compiles what is not in the code cache, which takes seconds for a large component. Do not
    /// call it in an async task: [`Self::load_until`] shows how to cancel it.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has problems: all of them are reported.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Workflow, LoadError> {
        self.load_until(path, &Cancellation::new())
    }

    /// As [`Self::load`], until it is cancelled: compilation in a process of its own
    /// ([`Compiler`](crate::guest::Compiler)) ends at once, compilation in this process ends with
    /// the component that is being compiled.
    ///
    /// ```no_run
    /// # async fn load(host: wfhost::host::Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let cancellation = wfhost::guest::Cancellation::new();
    /// // If this future is dropped, the workflow is no longer needed.
    /// let _guard = cancellation.on_drop();
    /// let workflow = tokio::task::spawn_blocking(move || host.load_until("greet.yaml", &cancellation)).await??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::load`]; also fails if it was cancelled.
    pub fn load_until(&self, path: impl AsRef<Path>, cancellation: &Cancellation) -> Result<Workflow, LoadError> {
        self.load_by(path.as_ref(), self.shared.locking, cancellation)
    }

    /// As [`Self::load_until`], with this use of the lock beside the file.
    pub(super) fn load_by(
        &self,
        path: &Path,
        locking: Locking,
        cancellation: &Cancellation,
    ) -> Result<Workflow, LoadError> {
        let text = workflow_file::read(path)?;
        let lock = LockInUse::of(path, locking)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let find = |source: &str| ComponentLocation {
            pinned: lock.pinned(source).filter(|_| source.starts_with(crate::oci::SCHEME)),
            ..ComponentLocation::of(folder, source)
        };
        self.parse_until(&path.to_string_lossy(), &text, (&find, &lock), cancellation)
    }

    /// Loads a script file. It imports from its own folder.
    ///
    /// # Errors
    /// Says why it cannot be run, and where.
    pub fn script_file(&self, path: &Path, cancellation: &Cancellation) -> Result<Component, Unusable> {
        let refuse = |why: String| Unusable::from((format!("{}: {why}", path.display()), None));
        let language = ScriptLanguage::of(&path.to_string_lossy());
        let language = language.ok_or_else(|| refuse("its name does not end as that of a script".to_owned()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let (folder, path) = script::place_in(folder, path, false).map_err(refuse)?;
        let text = folder.read(&path).map_err(refuse)?;
        let main = ScriptSource { path, line: 1, form: ScriptForm::Module, text };
        Ok(self.shared.script(Origin { main, language, folder: Ok(folder) }, cancellation)?.component)
    }

    /// Checks the text of a workflow. Diagnostics call it `name`; components are found relative to
    /// `folder`.
    ///
    /// # Errors
    /// Fails if the text has problems: all of them are reported.
    pub fn parse(&self, name: &str, text: &str, folder: impl Into<PathBuf>) -> Result<Workflow, LoadError> {
        let folder = folder.into();
        self.parse_where(name, text, &|source| ComponentLocation::of(&folder, source))
    }

    /// As [`Self::parse`], until it is cancelled.
    ///
    /// # Errors
    /// As [`Self::parse`]; also fails if it was cancelled.
    #[cfg(feature = "cli")]
    pub(crate) fn parse_cancellable(
        &self,
        name: &str,
        text: &str,
        folder: &Path,
        cancellation: &Cancellation,
    ) -> Result<Workflow, LoadError> {
        let find = |source: &str| ComponentLocation::of(folder, source);
        self.parse_until(name, text, (&find, &LockInUse::none()), cancellation)
    }

    /// Checks the text of a workflow; `find` locates its components.
    pub(super) fn parse_where(
        &self,
        name: &str,
        text: &str,
        find: &dyn Fn(&str) -> ComponentLocation,
    ) -> Result<Workflow, LoadError> {
        self.parse_until(name, text, (find, &LockInUse::none()), &Cancellation::new())
    }

    fn parse_until(
        &self,
        name: &str,
        text: &str,
        (find, lock): (&dyn Fn(&str) -> ComponentLocation, &LockInUse),
        cancellation: &Cancellation,
    ) -> Result<Workflow, LoadError> {
        let source = Source::new(name, text);
        let callable = HandlerCatalog(self.shared.dispatcher.registry());
        let loader = Loader {
            host: &self.shared,
            callable,
            find,
            scripts: RefCell::default(),
            ahead: RefCell::default(),
            cancellation,
            found: RefCell::default(),
            files: RefCell::default(),
            own: name,
            children: RefCell::default(),
            lock,
            parts: RefCell::default(),
        };
        let plan = plan::load(&source, &self.shared.jq, &loader);
        // A component that was cancelled is no problem of the file.
        if cancellation.is_cancelled() {
            return Err(LoadError::Cancelled);
        }
        let plan = plan.map_err(LoadError::Definition)?;
        let (found, files) = (loader.found.into_inner(), Arc::new(loader.files.into_inner()));
        let scripts = Arc::new(loader.scripts.into_inner());
        let children = Arc::new(loader.children.into_inner());
        let parts = Arc::new(loader.parts.into_inner());
        let programs = plan
            .components
            .iter()
            .filter_map(|component| Some((Arc::clone(&component.name), Arc::clone(found.get(&component.source)?))))
            .collect();
        let plan = Arc::new(plan);
        let root = Arc::new(WorkflowProgram::new(Arc::clone(&plan), Arc::clone(&self.shared.jq)));
        Ok(Workflow { source, plan, root, programs: Arc::new(programs), files, scripts, children, parts })
    }
}

/// Finds programs by the source that the file gives, and collects them.
struct Loader<'a> {
    host: &'a Shared,
    callable: HandlerCatalog<'a>,
    /// Where a component is, from its source.
    find: &'a dyn Fn(&str) -> ComponentLocation,
    scripts: RefCell<BTreeMap<String, Script>>,
    /// Components that were loaded before they are asked for.
    ahead: RefCell<Ahead>,
    cancellation: &'a Cancellation,
    found: RefCell<BTreeMap<String, Arc<dyn Program>>>,
    files: RefCell<BTreeMap<String, ComponentFile>>,
    /// The name of the workflow's own file.
    own: &'a str,
    children: RefCell<BTreeMap<String, Source>>,
    /// What the parts of the workflow are compared with.
    lock: &'a LockInUse,
    parts: RefCell<LockedParts>,
}

impl Loader<'_> {
    fn native(&self, name: &str) -> Result<ResolvedComponent, (String, Option<String>)> {
        let Some(program) = self.host.natives.get(name) else {
            let known: Vec<&str> = self.host.natives.keys().map(String::as_str).collect();
            let hint = match closest(name, known.iter().copied()) {
                Some(meant) => format!("did you mean `native:{meant}`?"),
                None if known.is_empty() => "this host has none; a component is a path of a file".to_owned(),
                None => format!("this host has {}", all_of(known)),
            };
            return Err((format!("there is no native process `{name}`"), Some(hint)));
        };
        self.found.borrow_mut().insert(format!("native:{name}"), Arc::clone(program));
        Ok(ResolvedComponent { digest: Some(program.digest().to_string()), ..ResolvedComponent::default() })
    }

    fn file(&self, source: &str) -> Result<ResolvedComponent, Unusable> {
        let location = (self.find)(source);
        if let Some(language) = ScriptLanguage::of(location.name_of(source)) {
            return self.script_file(source, location, language);
        }
        let other = location.is_other.then(|| location.name.clone());
        let ready = self.load(source, location)?;
        self.part(LockedKind::Component, source, ready.digest())?;
        Ok(ResolvedComponent { name: other, ..self.add(source, source, ready) })
    }

    /// Notes a part of the workflow, and compares it with the lock.
    fn part(&self, kind: LockedKind, name: &str, digest: String) -> Result<(), Unusable> {
        let checked = self.lock.check(kind, name, &digest);
        self.parts.borrow_mut().0.insert((kind, name.to_owned()), digest);
        checked
    }

    /// Loads a component, if that has not been done.
    fn load(&self, source: &str, location: ComponentLocation) -> Result<Ready, Unusable> {
        let ahead = self.ahead.borrow_mut().remove(source);
        Ok(ahead.unwrap_or_else(|| self.host.load_component(source, location, self.cancellation))?)
    }

    /// Adds a component to what was found by its key; its bytes are those of the source.
    fn add(&self, key: &str, source: &str, ready: Ready) -> ResolvedComponent {
        let Ready { component, hash, bytes, .. } = ready;
        let digest = component.digest().to_string();
        // Without a description, a missing entry shows only when it is spawned.
        let described = component.describe();
        let undescribed = described.as_ref().err().cloned();
        let description = described.ok().flatten().map(|description| description.to_value());
        let input = component.is_command().then(|| description.as_ref()?.pointer("/entries/run/input").cloned());
        let entries = description.as_ref().and_then(entries);
        self.found.borrow_mut().insert(key.to_owned(), component.into_program());
        let file = ComponentFile {
            hash: hash.to_hex().as_str().into(),
            bytes: self.host.retains_components().then_some(bytes),
            undescribed,
        };
        self.files.borrow_mut().insert(source.to_owned(), file);
        ResolvedComponent { digest: Some(digest), entries, name: None, content: None, input: input.flatten() }
    }
}

impl Loader<'_> {
    /// Reads a workflow file that a step runs, or what was stored of it.
    fn child(&self, path: &str) -> Result<Source, (String, Option<String>)> {
        let key = format!("{CHILD}{path}");
        let location = (self.find)(&key);
        let text = match location.bytes {
            Some(bytes) => children::text(bytes.into()),
            None => children::read(&location.folder, path),
        };
        let text = text.map_err(|why| (why, None))?;
        let bytes = Bytes::from(text.clone());
        let file = ComponentFile {
            hash: blake3::hash(&bytes).to_hex().as_str().into(),
            bytes: self.host.retains_components().then_some(bytes),
            undescribed: None,
        };
        self.files.borrow_mut().insert(key, file);
        let source = children::source(self.own, path, &text);
        self.children.borrow_mut().insert(path.to_owned(), source.clone());
        Ok(source)
    }
}

impl Environment for Loader<'_> {
    fn announce(&self, sources: &[&str]) {
        *self.ahead.borrow_mut() = self.host.components_ahead(sources, self.find, self.cancellation);
    }

    fn component(&self, source: &str) -> Result<ResolvedComponent, Unusable> {
        match source.strip_prefix("native:") {
            Some(name) => Ok(self.native(name)?),
            None => self.file(source),
        }
    }

    fn granted(&self, declared: &ComponentDecl) -> Result<ResolvedComponent, (Unusable, Span)> {
        self.program(declared)
    }

    fn script(&self, source: &str, script: &InlineScript, file: &Source) -> Result<ResolvedComponent, Unusable> {
        self.inline_script(source, script, file)
    }

    fn workflow(&self, path: &str) -> Result<Source, Unusable> {
        let source = self.child(path)?;
        self.part(LockedKind::Workflow, path, format!("blake3:{}", blake3::hash(source.text().as_bytes()).to_hex()))?;
        Ok(source)
    }

    fn handlers(&self) -> Option<&dyn Handlers> {
        Some(&self.callable)
    }
}

impl Shared {
    /// Loads the component of these bytes, which is compiled once in the life of the host. Returns
    /// it with their hash.
    pub(super) fn component(
        &self,
        name: &str,
        bytes: &[u8],
        cancellation: &Cancellation,
    ) -> Result<(Component, blake3::Hash), crate::guest::LoadError> {
        let hash = blake3::hash(bytes);
        if let Some(component) = self.components.lock().get(hash.as_bytes()) {
            return Ok((component.clone(), hash));
        }
        let component = self.noticed(name, bytes, |compiling| {
            Component::load_hashed(&self.guests, bytes, hash, cancellation, compiling)
        })?;
        self.components.lock().insert(*hash.as_bytes(), component.clone());
        Ok((component, hash))
    }

    /// Loads something by `load`, and gives notice of its compilation. `load` calls what it is
    /// given before it compiles.
    pub(super) fn noticed<T>(
        &self,
        name: &str,
        bytes: &[u8],
        load: impl Fn(&dyn Fn()) -> Result<T, crate::guest::LoadError>,
    ) -> Result<T, crate::guest::LoadError> {
        let begins = Instant::now();
        let is_compiled = Cell::new(false);
        let loaded = load(&|| {
            is_compiled.set(true);
            self.notify(&CompileNotice::Begins { component: name, bytes: bytes.len() as u64 });
        });
        if is_compiled.get() {
            self.notify(&CompileNotice::Ended { component: name, took: begins.elapsed() });
        }
        loaded
    }

    fn notify(&self, notice: &CompileNotice<'_>) {
        if let Some(watcher) = &self.compiling {
            watcher(notice);
        }
    }

    /// Returns whether the bytes of components are kept: they are stored for durable runs, or
    /// somebody asks for them.
    fn retains_components(&self) -> bool {
        self.retains || self.data.is_some()
    }
}

/// Returns the names of the entry points that a description has under `entries`.
fn entries(description: &serde_json::Value) -> Option<Vec<String>> {
    Some(description.get("entries")?.as_object()?.keys().cloned().collect())
}
