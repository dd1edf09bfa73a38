//! Loading the workflows of durable runs from their manifests.

use super::durable::DataFolder;
use super::load::ComponentLocation;
use super::script::{ENGINE, of_release};
use super::{Host, LoadError, RecoverError, RunManifest, Workflow, component_file, component_store};
use crate::workflow::plan::{self, Unchecked};
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
        let (data, journal) = self.opened()?;
        let manifest = journal.manifest(id).inspect_err(|error| journal.note_damage(id, error))?;
        let others = self.by_source(&manifest, others)?;
        let stored = stored_components(data, &manifest, &others).map_err(|error| {
            let error = RecoverError::Workflow(error);
            journal.note_damage(id, &error);
            error
        })?;
        let find = |source: &str| {
            let other = others.get(source);
            ComponentLocation {
                path: other.cloned().unwrap_or_else(|| PathBuf::from(source)),
                folder: Path::new(&manifest.file).parent().unwrap_or(Path::new(".")).to_owned(),
                bytes: stored.get(source).cloned(),
                name: other.map_or_else(|| source.to_owned(), |other| other.display().to_string()),
                is_other: other.is_some(),
            }
        };
        self.parse_where(&manifest.file, &manifest.source, &find).map_err(RecoverError::Workflow)
    }

    /// Maps files from the names of the components that they replace, which people use, to their
    /// sources, by which components are found.
    fn by_source(
        &self,
        manifest: &RunManifest,
        others: &BTreeMap<String, PathBuf>,
    ) -> Result<BTreeMap<String, PathBuf>, RecoverError> {
        if others.is_empty() {
            return Ok(BTreeMap::new());
        }
        // The names are in the text: no component is loaded for them.
        let plan = plan::load(&Source::new(&manifest.file, &manifest.source), &self.shared.jq, &Unchecked)
            .map_err(|problems| RecoverError::Workflow(LoadError::Definition(problems)))?;
        let find = |(name, path): (&String, &PathBuf)| {
            let known = plan.components.iter().find(|component| *component.name == **name);
            let component = known.ok_or_else(|| {
                let names = plan.components.iter().map(|component| &*component.name);
                let known: Vec<&str> = names.collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                RecoverError::NoComponent { name: name.clone(), known }
            })?;
            Ok((component.source.clone(), path.clone()))
        };
        others.iter().map(find).collect()
    }
}

/// Reads the components that were stored for a run, but for those that are replaced.
fn stored_components(
    data: &DataFolder,
    manifest: &RunManifest,
    others: &BTreeMap<String, PathBuf>,
) -> Result<BTreeMap<String, Bytes>, LoadError> {
    let folder = Path::new(&manifest.file).parent().unwrap_or(Path::new("."));
    let wanted = manifest.components.iter().filter(|(source, _)| !others.contains_key(*source));
    wanted
        .map(|(source, hash)| {
            let bytes = data.components.read(hash).or_else(|error| {
                let original = match source.strip_prefix(ENGINE) {
                    Some(_) => of_release(hash).map(Vec::from),
                    None => component_file::read(&folder.join(source)).ok(),
                };
                let Some(bytes) = original.filter(|bytes| component_store::is_of(bytes, hash)) else {
                    return Err(LoadError::StoredComponent { component: source.clone(), error });
                };
                // If it cannot be stored now, the file is used the next time too.
                let _ = data.components.store(hash, &bytes);
                Ok(bytes)
            })?;
            Ok((source.clone(), bytes.into()))
        })
        .collect()
}
