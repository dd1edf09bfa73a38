//! Reading, pulling and compiling the components of a workflow, several at a time.
//!
//! A workflow is checked in the order of its text, and needs each component there. So that a file
//! with several large components does not wait for one after the other, all of them are loaded
//! before the check begins. What fails is reported by the check, at its place.

use super::load::ComponentLocation;
use super::{Shared, component_file};
use crate::base::processors;
use crate::guest::{Cancellation, Component, LoadError, WasiCommand};
use crate::oci;
use crate::process::{Json, Problem, Program};
use crate::workflow::model::ScriptLanguage;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Components that are loaded at a time. Arbitrary: a compiler uses several processors itself.
const AT_A_TIME_MAX: usize = 4;

/// What a step can run: a guest, or a program for the command line.
pub(super) enum Runnable {
    Guest(Component),
    Command(WasiCommand),
}

impl Runnable {
    pub(super) fn digest(&self) -> Arc<str> {
        match self {
            Self::Guest(component) => component.digest(),
            Self::Command(command) => command.digest(),
        }
    }

    /// Returns whether it is a program, whose input is checked when a workflow is loaded.
    pub(super) fn is_command(&self) -> bool {
        matches!(self, Self::Command(_))
    }

    /// Its own description, if it has one.
    ///
    /// # Errors
    /// Why a guest could not describe itself.
    pub(super) fn describe(&self) -> Result<Option<Json>, Problem> {
        match self {
            Self::Guest(component) => component.describe(),
            Self::Command(_) => Ok(Some(WasiCommand::describe())),
        }
    }

    pub(super) fn into_program(self) -> Arc<dyn Program> {
        match self {
            Self::Guest(component) => Arc::new(component),
            Self::Command(command) => Arc::new(command),
        }
    }
}

/// A component that was loaded, the BLAKE3 of its bytes, and these.
pub(super) struct Ready {
    pub(super) component: Runnable,
    pub(super) hash: blake3::Hash,
    pub(super) bytes: Bytes,
    /// The digest of its manifest, if it was pulled from a registry.
    pub(super) pulled: Option<String>,
}

impl Ready {
    /// Its digest in a lock.
    pub(super) fn digest(&self) -> String {
        self.pulled.clone().unwrap_or_else(|| format!("blake3:{}", self.hash.to_hex()))
    }
}

/// A message and a hint.
type Refusal = (String, Option<String>);

/// The components that were loaded before they are needed, by their sources.
pub(super) type Ahead = BTreeMap<String, Result<Ready, Refusal>>;

impl Shared {
    /// Loads the components of these sources, if there are several. Scripts are not among them:
    /// they share an engine.
    pub(super) fn components_ahead(
        &self,
        sources: &[&str],
        find: &dyn Fn(&str) -> ComponentLocation,
        cancellation: &Cancellation,
    ) -> Ahead {
        let mut paths = BTreeSet::new();
        let mut jobs: Vec<(&str, ComponentLocation)> = sources
            .iter()
            .filter(|source| !source.starts_with("native:"))
            .map(|source| (*source, find(source)))
            // A file that has two names is compiled once, and found by the second.
            .filter(|(source, location)| {
                ScriptLanguage::of(location.name_of(source)).is_none() && paths.insert(location.path.clone())
            })
            .collect();
        let threads = jobs.len().min(processors()).min(AT_A_TIME_MAX);
        if threads < 2 {
            return Ahead::new();
        }
        // Taken from the end: the first of the file begins first.
        jobs.reverse();
        let (jobs, loaded) = (Mutex::new(jobs), Mutex::new(Ahead::new()));
        let work = || {
            loop {
                let Some((source, location)) = jobs.lock().pop() else { break };
                let ready = self.load_component(source, location, cancellation);
                loaded.lock().insert(source.to_owned(), ready);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // If a thread cannot be started, the others do its work.
                let _ = std::thread::Builder::new().name("loading".to_owned()).spawn_scoped(scope, work);
            }
            work();
        });
        loaded.into_inner()
    }

    /// Loads a component: of its file, its registry, or the bytes that are known.
    pub(super) fn load_component(
        &self,
        source: &str,
        location: ComponentLocation,
        cancellation: &Cancellation,
    ) -> Result<Ready, Refusal> {
        let ComponentLocation { path, bytes, name, is_other, pinned, .. } = location;
        // If the caller has named another file, the message names it, and what it replaces.
        let about =
            |message: String| if is_other { format!("{message} (in the place of `{source}`)") } else { message };
        let (bytes, pulled) = match bytes {
            None if source.starts_with(oci::SCHEME) && !is_other => {
                let oci::Pulled { bytes, digest } = self.pull(source, pinned.as_deref(), cancellation)?;
                (Some(bytes), Some(digest))
            }
            bytes => (bytes, None),
        };
        let read = || component_file::read(&path).map(Bytes::from);
        let bytes = bytes.map_or_else(read, Ok).map_err(|error| {
            let hint = (error.kind() == std::io::ErrorKind::NotFound && !is_other).then(|| {
                let whole = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
                format!("the path is taken from the workflow's folder: {}", whole.display())
            });
            (about(format!("cannot read the component `{name}`: {error}")), hint)
        })?;
        let loaded = if WasiCommand::recognizes(&bytes) {
            self.command(&name, &bytes, cancellation).map(|(command, hash)| (Runnable::Command(command), hash))
        } else {
            self.component(&name, &bytes, cancellation).map(|(component, hash)| (Runnable::Guest(component), hash))
        };
        let (component, hash) = loaded.map_err(|error| {
            let (message, hint) = component_file::explain(&name, &bytes, &error);
            (about(message), Some(hint))
        })?;
        Ok(Ready { component, hash, bytes, pulled })
    }

    /// Loads the program of these bytes. Returns it with their hash.
    fn command(
        &self,
        name: &str,
        bytes: &[u8],
        cancellation: &Cancellation,
    ) -> Result<(WasiCommand, blake3::Hash), LoadError> {
        // What it is called by is an argument that it sees.
        let called = Path::new(name).file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
        let loaded = self
            .noticed(name, bytes, |compiling| WasiCommand::load(&self.guests, &called, bytes, cancellation, compiling));
        Ok((loaded?, blake3::hash(bytes)))
    }

    /// Pulls a component from its registry: what a lock pins its tag to, unless it has a digest.
    fn pull(&self, source: &str, pinned: Option<&str>, cancellation: &Cancellation) -> Result<oci::Pulled, Refusal> {
        let reference: oci::Reference =
            source.parse().map_err(|error: oci::ReferenceError| (format!("`{source}`: {error}"), Some(error.hint)))?;
        let reference = match pinned.filter(|_| reference.digest().is_none()) {
            Some(digest) => reference.pinned(digest),
            None => reference,
        };
        let pulled = self.registries.pull(&reference, &|| cancellation.is_cancelled());
        pulled.map_err(|error| (error.message, error.hint))
    }
}
