//! The workflows of durable runs, from what stands beside their records.

use super::durable::DataFolder;
use super::load::ComponentLocation;
use super::{Host, LoadError, RecoverError, RunManifest, Workflow, component_file, component_store};
use crate::workflow::plan::{self, Unchecked};
use crate::workflow::syntax::Source;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Host {
    /// The workflow of a durable run, as it was started.
    ///
    /// A component that was kept for the run is compared with what it was. Where it is damaged or gone, and the file that the workflow names
    /// is as it was, that one is taken and kept anew.
    ///
    /// # Errors
    /// There is no such run, or this host cannot load its workflow.
    pub fn workflow_of(&self, id: &str) -> Result<Workflow, RecoverError> {
        self.workflow_with(id, &BTreeMap::new())
    }

    /// The workflow of a durable run, with other files in the place of some of its components, by their names.
    ///
    /// # Errors
    /// As [`Self::workflow_of`]; and where there is no component of such a name.
    pub fn workflow_with(&self, id: &str, others: &BTreeMap<String, PathBuf>) -> Result<Workflow, RecoverError> {
        let (data, journal) = self.opened()?;
        let about = journal.manifest(id).inspect_err(|error| journal.note_damage(id, error))?;
        let others = self.by_source(&about, others)?;
        let kept = kept_components(data, &about, &others).map_err(|error| {
            let error = RecoverError::Workflow(error);
            journal.note_damage(id, &error);
            error
        })?;
        let find = |source: &str| {
            let other = others.get(source);
            ComponentLocation {
                path: other.cloned().unwrap_or_else(|| PathBuf::from(source)),
                bytes: kept.get(source).cloned(),
                name: other.map_or_else(|| source.to_owned(), |other| other.display().to_string()),
                is_other: other.is_some(),
            }
        };
        self.parse_where(&about.file, &about.source, &find).map_err(RecoverError::Workflow)
    }

    /// Files by the sources of the components in whose place they are: a file is found by its source, and a person names a component.
    fn by_source(
        &self,
        about: &RunManifest,
        others: &BTreeMap<String, PathBuf>,
    ) -> Result<BTreeMap<String, PathBuf>, RecoverError> {
        if others.is_empty() {
            return Ok(BTreeMap::new());
        }
        // The text alone tells the names: no component is loaded for them.
        let plan = plan::load(&Source::new(&about.file, &about.source), &self.shared.jq, &Unchecked)
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

/// The components that were kept for a run, but for those in whose place others are.
fn kept_components(
    data: &DataFolder,
    about: &RunManifest,
    others: &BTreeMap<String, PathBuf>,
) -> Result<BTreeMap<String, Bytes>, LoadError> {
    let folder = Path::new(&about.file).parent().unwrap_or(Path::new("."));
    let wanted = about.components.iter().filter(|(source, _)| !others.contains_key(*source));
    wanted
        .map(|(source, hash)| {
            let bytes = data.components.read(hash).or_else(|error| {
                let original = component_file::read(&folder.join(source)).ok();
                let Some(bytes) = original.filter(|bytes| component_store::is_of(bytes, hash)) else {
                    return Err(LoadError::StoredComponent { component: source.clone(), error });
                };
                // Where it cannot be written now it is taken from there the next time too.
                let _ = data.components.store(hash, &bytes);
                Ok(bytes)
            })?;
            Ok((source.clone(), bytes.into()))
        })
        .collect()
}
