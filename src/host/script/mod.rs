//! Scripts: their sources read from files, and made into programs.
//!
//! A script is loaded by an engine, a component of its own ([`engines`]). What it imports is read
//! below the workflow's folder ([`folder`]), and only that. A durable run stores both, the sources
//! as one file ([`bundle`]), so that it depends neither on the files nor on the release of wfhost
//! that resumes it.

pub(crate) mod bundle;
mod engines;
mod folder;

pub(crate) use bundle::Bundle;
pub(crate) use engines::{ENGINE, engines_folder, of_release};
#[cfg(feature = "cli")]
pub(crate) use engines::{JAVASCRIPT, PYTHON};
pub(crate) use folder::Folder;

use super::Shared;
use crate::guest::{
    Cancellation, Component, SCRIPT_BYTES_MAX, SCRIPT_LOAD_FUEL, SCRIPT_MODULES_MAX, SCRIPT_SOURCE_BYTES_MAX,
    ScriptError, ScriptForm, ScriptSource,
};
use crate::process::{Problem, Program as _};
use crate::workflow::model::{INLINE, ScriptLanguage};
use crate::workflow::plan::{ScriptPlace, Unusable};
use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// A script that was loaded.
pub(crate) struct LoadedScript {
    pub(crate) component: Component,
    pub(crate) bundle: Bundle,
    /// The bytes of its engine.
    pub(crate) engine: Bytes,
}

/// Where a script's sources come from.
pub(crate) struct Origin {
    /// The script itself, as written.
    pub(crate) main: ScriptSource,
    pub(crate) language: ScriptLanguage,
    /// What it imports.
    pub(crate) folder: Result<Folder, String>,
}

impl Shared {
    /// Loads a script from its sources, and what it imports.
    ///
    /// # Errors
    /// Says why it cannot be run, and where.
    pub(super) fn script(&self, origin: Origin, cancellation: &Cancellation) -> Result<LoadedScript, Unusable> {
        let (engine, bytes) = self.engine_of(origin.language, cancellation)?;
        let mut bundle = Bundle::new(&engine.digest());
        let is_typed = origin.language == ScriptLanguage::TypeScript;
        // All files of a script together: there may be hundreds.
        let mut fuel = SCRIPT_LOAD_FUEL;
        self.add(&mut bundle, &engine, origin.main, is_typed, &mut fuel)?;
        loop {
            let sources: Vec<ScriptSource> = bundle.sources();
            match self.loaded_script(&engine, sources, cancellation) {
                Ok(component) => return Ok(LoadedScript { component, bundle, engine: bytes }),
                Err(ScriptError::Missing(paths)) => {
                    let known: BTreeSet<String> = bundle.paths().map(str::to_owned).collect();
                    let missing: BTreeSet<String> = paths.into_iter().filter(|path| !known.contains(path)).collect();
                    if missing.is_empty() {
                        return Err(bare("its engine asks for a file that it was given".to_owned()));
                    }
                    for path in missing {
                        let source = match &origin.folder {
                            Ok(folder) => folder.read(&path),
                            Err(why) => Err(why.clone()),
                        };
                        let (form, text) = match source {
                            Ok(text) => (ScriptForm::Module, text),
                            Err(why) => (ScriptForm::Absent, why),
                        };
                        let is_typed = ScriptLanguage::of(&path) == Some(ScriptLanguage::TypeScript);
                        let source = ScriptSource { path, line: 1, form, text };
                        self.add(&mut bundle, &engine, source, is_typed && form == ScriptForm::Module, &mut fuel)?;
                    }
                }
                Err(ScriptError::Wrong(problem)) => return Err(unusable(&problem, &bundle)),
                Err(error) => return Err(bare(error.to_string())),
            }
        }
    }

    /// Loads a script as it was stored with a run.
    ///
    /// # Errors
    /// Says why it cannot be run.
    pub(super) fn stored_script(
        &self,
        bundle: Bundle,
        engine: Bytes,
        cancellation: &Cancellation,
    ) -> Result<LoadedScript, Unusable> {
        let (loaded, _) = self
            .component("the script engine", &engine, cancellation)
            .map_err(|error| bare(format!("the script engine that was stored with the run: {error}")))?;
        match self.loaded_script(&loaded, bundle.sources(), cancellation) {
            Ok(component) => Ok(LoadedScript { component, bundle, engine }),
            Err(ScriptError::Wrong(problem)) => Err(unusable(&problem, &bundle)),
            Err(error) => Err(bare(error.to_string())),
        }
    }

    /// Adds a source to a bundle, translated if its language is not the engine's own.
    fn add(
        &self,
        bundle: &mut Bundle,
        engine: &Component,
        source: ScriptSource,
        is_typed: bool,
        fuel: &mut u64,
    ) -> Result<(), Unusable> {
        if bundle.paths().count() >= SCRIPT_MODULES_MAX {
            let message = format!("the script has more than {SCRIPT_MODULES_MAX} files");
            return Err(Unusable {
                hint: Some("a bundler makes one of them: esbuild --bundle".into()),
                ..bare(message)
            });
        }
        if source.text.len() > SCRIPT_SOURCE_BYTES_MAX || bundle.bytes() + source.text.len() > SCRIPT_BYTES_MAX {
            let message = format!(
                "the script is too large: {} has {} bytes; a file may have {SCRIPT_SOURCE_BYTES_MAX}, all of them \
                 together {SCRIPT_BYTES_MAX}",
                source.path,
                source.text.len()
            );
            return Err(bare(message));
        }
        if is_typed {
            let text = self.translated(engine, &source, fuel).map_err(|problem| {
                let mut alone = Bundle::new("");
                alone.add(source.clone(), None);
                unusable(&problem, &alone)
            })?;
            bundle.add(source, Some(text));
        } else {
            bundle.add(source, None);
        }
        Ok(())
    }

    /// A translation, made once in the life of the host.
    fn translated(&self, engine: &Component, source: &ScriptSource, fuel: &mut u64) -> Result<String, Problem> {
        let key = *blake3::Hasher::new()
            .update(b"wfhost translation 1\0")
            .update(engine.digest().as_bytes())
            .update(&source.line.to_le_bytes())
            .update(&(source.path.len() as u64).to_le_bytes())
            .update(source.path.as_bytes())
            .update(source.text.as_bytes())
            .finalize()
            .as_bytes();
        if let Some(text) = self.translations.lock().get(&key) {
            return Ok(text.clone());
        }
        let text = engine.translate(source.clone(), fuel)?;
        self.translations.lock().insert(key, text.clone());
        Ok(text)
    }

    /// A script of these sources, loaded once in the life of the host.
    fn loaded_script(
        &self,
        engine: &Component,
        sources: Vec<ScriptSource>,
        cancellation: &Cancellation,
    ) -> Result<Component, ScriptError> {
        let hash = engine.script_hash(&sources);
        if let Some(component) = self.components.lock().get(hash.as_bytes()) {
            return Ok(component.clone());
        }
        if cancellation.is_cancelled() {
            return Err(ScriptError::Cancelled);
        }
        let component = engine.script(sources, cancellation)?;
        self.components.lock().insert(*hash.as_bytes(), component.clone());
        Ok(component)
    }
}

/// The folder that a script may import from, and its path there. One that replaces another may be
/// outside the workflow's folder: then its own folder takes that place.
///
/// # Errors
/// Says why there is none.
pub(crate) fn place_in(folder: &Path, path: &Path, is_other: bool) -> Result<(Folder, String), String> {
    let root = Folder::new(folder);
    let absolute = |path: &Path| std::path::absolute(path).map_err(|error| error.to_string());
    let named = || -> Result<String, String> {
        let base = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let (base, path) = (absolute(base)?, absolute(path)?);
        let rest = path.strip_prefix(&base).map_err(|_| "it is not below the workflow's folder".to_owned())?;
        Folder::within(rest.to_str().ok_or("its path is not UTF-8")?)
    };
    match (named(), root) {
        (Ok(path), Ok(root)) => Ok((root, path)),
        (Err(why), _) | (_, Err(why)) if !is_other => Err(why),
        _ => {
            let name = path.file_name().and_then(|name| name.to_str()).ok_or("its path is not UTF-8")?;
            Ok((Folder::new(path.parent().unwrap_or(Path::new(".")))?, name.to_owned()))
        }
    }
}

/// The workflow file, among those that steps run, that has a script. `None` if it is the workflow's
/// own, or the script is a file.
pub(crate) fn file_of(source: &str) -> Option<&str> {
    Some(source.strip_prefix(INLINE)?.rsplit_once('#')?.0)
}

fn bare(message: String) -> Unusable {
    Unusable { message, ..Unusable::default() }
}

/// Why a script cannot be run, from the problem of its engine.
fn unusable(problem: &Problem, bundle: &Bundle) -> Unusable {
    let at = problem.data.as_ref().and_then(|data| place(&data.to_value())).and_then(|(path, line, column)| {
        let (source, written) = bundle.find(&path, line)?;
        let is_body = source.form == ScriptForm::Body;
        Some(ScriptPlace { file: path, text: (!is_body).then(|| written.to_owned()), line, column })
    });
    let detail = problem.detail.as_deref().unwrap_or_default();
    let message = match &at {
        // The place is shown.
        Some(ScriptPlace { file, .. }) => without_place(detail, file),
        None => detail,
    };
    let title = problem.title.trim_end_matches('.');
    let message = if message.is_empty() { title.to_owned() } else { format!("{title}: {message}") };
    Unusable { message, hint: None, at }
}

/// The place that the data of a problem of a script name: path, line and column, from 1.
pub(crate) fn place(data: &Value) -> Option<(String, usize, usize)> {
    let at = data.get("at")?;
    let number = |key: &str| at.get(key)?.as_u64().and_then(|number| usize::try_from(number).ok());
    let path = at.get("path")?.as_str()?.to_owned();
    Some((path, number("line").filter(|line| *line > 0)?, number("column").unwrap_or(1).max(1)))
}

/// A detail without the `path:line:column` that it begins or ends with.
pub(crate) fn without_place<'a>(detail: &'a str, path: &str) -> &'a str {
    let is_place = |text: &str| {
        let numbers = text.strip_prefix(path).and_then(|rest| rest.strip_prefix(':'));
        numbers.is_some_and(|numbers| numbers.chars().all(|c| c.is_ascii_digit() || c == ':'))
    };
    let detail = detail.trim();
    let first = detail.split_once(": ").map_or(detail, |(first, _)| first);
    if is_place(first) {
        return detail[first.len()..].trim_start_matches([':', ' ', '\n']);
    }
    for separator in [" at ", ", at ", " (", " "] {
        if let Some((rest, last)) = detail.rsplit_once(separator)
            && is_place(last.trim_end_matches(')'))
        {
            return rest.trim_end_matches([',', ' ']);
        }
    }
    detail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_shown_is_not_said_again() {
        assert_eq!(without_place("a.js:3:14: unexpected token", "a.js"), "unexpected token");
        assert_eq!(without_place("unexpected token at a.js:3:14", "a.js"), "unexpected token");
        assert_eq!(without_place("unexpected token (a.js:3)", "a.js"), "unexpected token");
        assert_eq!(without_place("a.js:3:14", "a.js"), "");
        assert_eq!(without_place("b.js:3:14: x", "a.js"), "b.js:3:14: x");
        assert_eq!(without_place("it is 3:4", "a.js"), "it is 3:4");
    }
}
