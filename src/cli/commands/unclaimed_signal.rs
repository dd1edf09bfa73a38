//! Signals that nobody takes: a slip in the name, perhaps.

use crate::cli::args::DataArguments;
use crate::cli::commands::status;
use crate::cli::report::error::Stop;
use crate::cli::store::Whose;
use crate::host::RunManifest;
use crate::run::SignalStatus;
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::model;
use crate::workflow::syntax::{self, Source};

/// The signals that an unfinished run waits for, where nobody has taken the one of this name, and no step of the workflow would.
pub(in crate::cli) fn unheard(data: &DataArguments, given: &str, name: &str) -> Result<Option<Vec<String>>, Stop> {
    let (runs, stored) = data.find(given)?;
    if may_wait_for(&runs.about(&stored.id)?, name) {
        return Ok(None);
    }
    let waited = |signals: &[SignalStatus]| {
        signals.iter().filter(|one| one.waiting > 0).map(|one| one.name.to_string()).collect::<Vec<_>>()
    };
    let whose = runs.whose(&stored)?;
    Ok(match status::living(&runs, &stored, &whose)?.status() {
        Some(live) => {
            let is_kept = live.signals.iter().any(|one| *one.name == *name && one.kept > 0);
            is_kept.then(|| waited(&live.signals))
        }
        None if whose == Whose::Nobody => {
            let story = runs.story(&stored.id)?;
            (!story.takes_signal(name)).then(|| waited(&story.signals()))
        }
        // It has ended, or its host does not tell.
        None => None,
    })
}

/// Whether a step of a run's workflow waits for a signal of this name, or of a name that only the run itself knows.
fn may_wait_for(about: &RunManifest, name: &str) -> bool {
    let source = Source::new(&about.file, &about.source);
    let mut problems = Diagnostics::new(source.clone());
    let Some(root) = syntax::parse(&source, &mut problems) else { return true };
    let workflow = model::read(&root, &mut problems);
    let mut names = workflow.steps.iter().filter_map(|step| match &step.action {
        model::Action::Signal { name, .. } => Some(name.as_text()),
        _ => None,
    });
    names.any(|waited| waited.is_none_or(|waited| waited == name || waited.contains("${")))
}
