//! Loading the workflows of durable runs from their manifests.

use super::children::{self, CHILD, StoredFiles};
use super::load::ComponentLocation;
use super::script::{ENGINE, of_release};
use super::{Host, LoadError, RecoverError, Workflow, component_file};
use crate::journal::Journal;
use crate::journal::component::is_of;
use crate::workflow::plan;
use crate::workflow::syntax::Source;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Host {
    /// Loads the workflow of a durable run, as it was started.
    ///
    /// The components that were stored for the run are checked. If one is damaged or gone, and the
    /// file that the workflow names is unchanged, that file is used and stored again.
    ///
    /// # Errors
    /// Fails if there is no such run, or this host cannot load its workflow.
    pub fn workflow_of(&self, id: &str) -> Result<Workflow, RecoverError> {
        self.workflow_with(id, &BTreeMap::new())
    }

    /// Loads the workflow of a durable run, with other files for some of its components, by their
    /// names.
    ///
    /// # Errors
    /// As [`Self::workflow_of`]; also fails if there is no component with such a name.
    pub fn workflow_with(&self, id: &str, others: &BTreeMap<String, PathBuf>) -> Result<Workflow, RecoverError> {
        let (_, journal) = self.opened()?;
        let manifest = journal.manifest(id).inspect_err(|error| journal.note_damage(id, error))?;
        let others = self.by_source(&manifest.file, &manifest.source, &manifest.components, others)?;
        let stored =
            stored_components(&**journal.store(), &manifest.file, &manifest.components, &others).map_err(|error| {
                let error = RecoverError::Workflow(error);
                journal.note_damage(id, &error);
                error
            })?;
        self.parse_stored(&manifest.file, &manifest.source, &stored, &others).map_err(RecoverError::Workflow)
    }

    /// Loads a workflow from its text and the components that are stored for it in the folder of
    /// durable runs: as the text names them, with the BLAKE3 of their bytes in hexadecimal.
    /// Diagnostics call it `file`. It reads no other file.
    ///
    /// # Errors
    /// As [`Self::parse`]; also fails if a component is not stored, or damaged.
    pub fn load_stored(
        &self,
        file: &str,
        source: &str,
        components: &BTreeMap<String, String>,
    ) -> Result<Workflow, LoadError> {
        let store = self.component_store()?;
        let read = |(source, hash): (&String, &String)| {
            let bytes = store.component(hash);
            let bytes = bytes.map_err(|error| LoadError::StoredComponent { component: source.clone(), error })?;
            Ok((source.clone(), bytes))
        };
        let stored: BTreeMap<String, Bytes> = components.iter().map(read).collect::<Result<_, LoadError>>()?;
        // What is not stored is nowhere: the text may be a stranger's, and reads no file of this
        // machine.
        let nowhere = Path::new("/dev/null");
        let find = |source: &str| ComponentLocation {
            path: nowhere.join(source.trim_start_matches('/')),
            folder: nowhere.to_owned(),
            bytes: stored.get(source).cloned(),
            name: source.to_owned(),
            is_other: false,
            pinned: None,
        };
        self.parse_where(file, source, &find)
    }

    /// Reads the plan of a durable run's workflow, without its components.
    ///
    /// # Errors
    /// Fails if there is no such run, or this release does not understand its text.
    pub fn plan_of(&self, id: &str) -> Result<plan::Plan, RecoverError> {
        let (_, journal) = self.opened()?;
        let manifest = journal.manifest(id)?;
        let load = |hash: &str| journal.store().component(hash).map_err(|error| error.to_string());
        let files = StoredFiles::read(&manifest.file, &manifest.components, load);
        plan::load(&Source::new(&manifest.file, &manifest.source), &self.shared.jq, &files)
            .map_err(|problems| RecoverError::Workflow(LoadError::Definition(problems)))
    }

    /// Loads the workflow of a durable run, with other components in place of some, by the names
    /// that the workflow gives them: each the digest of one that is stored in the folder.
    ///
    /// # Errors
    /// As [`Self::workflow_of`] and [`Self::load_replaced`].
    pub fn workflow_replaced(&self, id: &str, others: &BTreeMap<String, String>) -> Result<Workflow, RecoverError> {
        if others.is_empty() {
            return self.workflow_of(id);
        }
        let (_, journal) = self.opened()?;
        let manifest = journal.manifest(id).inspect_err(|error| journal.note_damage(id, error))?;
        self.load_replaced(&manifest.file, &manifest.source, manifest.components, others)
    }

    /// As [`Self::load_stored`], with other components in place of some, by the names that the
    /// workflow gives them.
    ///
    /// # Errors
    /// As [`Self::load_stored`]; also fails if there is no component with such a name.
    pub fn load_replaced(
        &self,
        file: &str,
        source: &str,
        mut components: BTreeMap<String, String>,
        others: &BTreeMap<String, String>,
    ) -> Result<Workflow, RecoverError> {
        let others = self.by_source(file, source, &components, others)?;
        components.extend(others);
        self.load_stored(file, source, &components).map_err(RecoverError::Workflow)
    }

    /// Returns the number of bytes of a component that is stored in the folder of durable runs.
    pub fn component_bytes(&self, digest: &str) -> Option<u64> {
        self.component_store().ok()?.component_bytes(digest)
    }

    /// Returns whether a component is stored in the folder of durable runs.
    pub fn has_component(&self, digest: &str) -> bool {
        self.component_bytes(digest).is_some()
    }

    /// Stores a component in the folder of durable runs, where it is kept while a run or a version
    /// names it, and a while in any case. `digest` is the BLAKE3 of its bytes in hexadecimal.
    ///
    /// # Errors
    /// Fails if there is no such folder, or it cannot be written.
    pub fn store_component(&self, digest: &str, bytes: &[u8]) -> Result<(), LoadError> {
        let stored = self.component_store()?.put_component(digest, bytes);
        stored.map_err(|error| LoadError::StoreComponent { component: digest.to_owned(), error })
    }

    /// The journal, as what stores components.
    fn component_store(&self) -> Result<&dyn Journal, LoadError> {
        let data = self.shared.data.as_ref().ok_or(LoadError::NoJournal)?;
        Ok(&**data.journal().map_err(LoadError::Journal)?.store())
    }

    fn parse_stored(
        &self,
        file: &str,
        source: &str,
        stored: &BTreeMap<String, Bytes>,
        others: &BTreeMap<String, PathBuf>,
    ) -> Result<Workflow, LoadError> {
        let find = |source: &str| {
            let other = others.get(source);
            ComponentLocation {
                path: other.cloned().unwrap_or_else(|| PathBuf::from(source)),
                folder: Path::new(file).parent().unwrap_or(Path::new(".")).to_owned(),
                bytes: stored.get(source).cloned(),
                name: other.map_or_else(|| source.to_owned(), |other| other.display().to_string()),
                is_other: other.is_some(),
                pinned: None,
            }
        };
        self.parse_where(file, source, &find)
    }

    /// Stores the components of a workflow in the folder of durable runs, and returns their
    /// digests, by the names that its text gives them.
    ///
    /// # Errors
    /// Fails if there is no such folder, or a component cannot be stored.
    pub fn store_components(&self, workflow: &Workflow) -> Result<BTreeMap<String, String>, LoadError> {
        let store = self.component_store()?;
        let mut digests = BTreeMap::new();
        for (source, file) in &*workflow.files {
            let bytes = file.bytes.as_ref().expect("invariant: a host with a folder retains what it loads");
            let stored = store.put_component(&file.hash, bytes);
            stored.map_err(|error| LoadError::StoreComponent { component: source.clone(), error })?;
            digests.insert(source.clone(), file.hash.to_string());
        }
        Ok(digests)
    }

    /// Maps what replaces components from their names, which people use, to their sources, by which
    /// components are found.
    fn by_source<T: Clone>(
        &self,
        file: &str,
        source: &str,
        components: &BTreeMap<String, String>,
        others: &BTreeMap<String, T>,
    ) -> Result<BTreeMap<String, T>, RecoverError> {
        if others.is_empty() {
            return Ok(BTreeMap::new());
        }
        // The names are in the text: no component is loaded for them.
        let store = self.component_store().map_err(RecoverError::Workflow)?;
        let load = |hash: &str| store.component(hash).map_err(|error| error.to_string());
        let files = StoredFiles::read(file, components, load);
        let plan = plan::load(&Source::new(file, source), &self.shared.jq, &files)
            .map_err(|problems| RecoverError::Workflow(LoadError::Definition(problems)))?;
        let find = |(name, other): (&String, &T)| {
            let known = plan.components.iter().find(|component| *component.name == **name);
            let component = known.ok_or_else(|| {
                let names = plan.components.iter().map(|component| &*component.name);
                let known: Vec<&str> = names.collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                RecoverError::NoComponent { name: name.clone(), known }
            })?;
            Ok((component.source.clone(), other.clone()))
        };
        others.iter().map(find).collect()
    }
}

/// Reads the components that were stored for a run, but for those that are replaced.
fn stored_components(
    store: &dyn Journal,
    file: &str,
    components: &BTreeMap<String, String>,
    others: &BTreeMap<String, PathBuf>,
) -> Result<BTreeMap<String, Bytes>, LoadError> {
    let folder = Path::new(file).parent().unwrap_or(Path::new("."));
    let wanted = components.iter().filter(|(source, _)| !others.contains_key(*source));
    wanted
        .map(|(source, hash)| {
            let bytes = store.component(hash).or_else(|error| {
                let original = match (source.strip_prefix(ENGINE), source.strip_prefix(CHILD)) {
                    (Some(_), _) => of_release(hash),
                    (_, Some(path)) => children::read(folder, path).ok().map(Bytes::from),
                    _ => component_file::read(&folder.join(source)).ok().map(Bytes::from),
                };
                let Some(bytes) = original.filter(|bytes| is_of(bytes, hash)) else {
                    return Err(LoadError::StoredComponent { component: source.clone(), error });
                };
                // If it cannot be stored now, the file is used the next time too.
                let _ = store.put_component(hash, &bytes);
                Ok(bytes)
            })?;
            Ok((source.clone(), bytes))
        })
        .collect()
}
