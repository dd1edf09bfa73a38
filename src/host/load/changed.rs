//! Scripts whose files are no longer as a run has them.

use super::Workflow;
#[cfg(feature = "cli")]
use crate::guest::ScriptForm;
use crate::host::script::Folder;
#[cfg(feature = "cli")]
use crate::host::{
    RunManifest,
    script::{Bundle, place},
};
#[cfg(feature = "cli")]
use crate::journal::Journal;
use crate::workflow::{
    diagnostics::Diagnostics,
    model::{self, ScriptLanguage},
    syntax::{self, Source},
};
#[cfg(feature = "cli")]
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A script file that has changed since a run began.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ChangedScript {
    /// The component, as the workflow names it.
    pub component: String,
    /// The file that has changed, relative to the workflow's folder.
    pub file: String,
    /// The script itself, which may be another file; `None` if it is written in the workflow.
    pub source: Option<PathBuf>,
}

impl ChangedScript {
    /// The same as [`Workflow::changed_scripts`], of a run whose workflow is not loaded.
    #[cfg(feature = "cli")]
    pub(crate) fn of(manifest: &RunManifest, stored: &dyn Journal) -> Vec<Self> {
        let (Ok(folder), source) =
            (Folder::new(workflow_folder(&manifest.file)), Source::new(&manifest.file, &manifest.source))
        else {
            return Vec::new();
        };
        let mut problems = Diagnostics::new(source.clone());
        let model = syntax::parse(&source, &mut problems).map(|root| model::read(&root, &mut problems));
        let declared = model.map(|model| model.components).unwrap_or_default();
        let is_script = |source: &str| ScriptLanguage::of(source).is_some() || source.starts_with(model::INLINE);
        let scripts = manifest.components.iter().filter(|(source, _)| is_script(source));
        let changed = scripts.filter_map(|(source, hash)| {
            let bundle = Bundle::read(&stored.component(hash).ok()?).ok()?;
            let file = bundle.changed(&folder)?.to_owned();
            let name = declared.iter().find(|one| one.source.value == *source).map_or(source, |one| &one.name.value);
            let whole = !source.starts_with(model::INLINE);
            let whole = whole.then(|| workflow_folder(&manifest.file).join(source));
            Some(Self { component: name.clone(), file, source: whole })
        });
        changed.collect()
    }
}

/// The line of a script of a stored run that the data of a problem name, with its file and number.
#[cfg(feature = "cli")]
pub(crate) fn stored_line(manifest: &RunManifest, stored: &dyn Journal, data: &Value) -> Option<String> {
    let (path, line, _) = place(data)?;
    let is_script = |source: &str| ScriptLanguage::of(source).is_some() || source.starts_with(model::INLINE);
    let scripts = manifest.components.iter().filter(|(source, _)| is_script(source));
    let mut bundles = scripts.filter_map(|(_, hash)| Bundle::read(&stored.component(hash).ok()?).ok());
    bundles.find_map(|bundle| {
        let (source, text) = bundle.find(&path, line)?;
        let nth = line.checked_sub(if source.form == ScriptForm::Body { source.line as usize } else { 1 })?;
        Some(format!("{path}:{line} | {}", text.lines().nth(nth)?.trim_end()))
    })
}

/// The folder that a workflow's paths start from.
fn workflow_folder(file: &str) -> &Path {
    Path::new(file).parent().unwrap_or(Path::new("."))
}

impl Workflow {
    /// Returns the script files that are no longer as they were when this workflow was loaded, or
    /// stored, each with the component that it is a part of.
    pub fn changed_scripts(&self) -> Vec<ChangedScript> {
        let folder = workflow_folder(self.source.name());
        let changed = self.plan.components.iter().filter_map(|component| {
            let (bundle, inline) = self.scripts.get(&component.source)?;
            let file = bundle.changed(&Folder::new(folder).ok()?)?;
            let whole = inline.is_none().then(|| folder.join(&component.source));
            Some(ChangedScript { component: component.name.to_string(), file: file.to_owned(), source: whole })
        });
        changed.collect()
    }
}
