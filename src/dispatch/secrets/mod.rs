//! Secrets: where the operator's values come from, and how they are kept out of what comes back.
//!
//! A workflow declares names ([`SecretGrant`](crate::process::secret::SecretGrant)); which value a
//! name has is the operator's matter alone ([`Secrets`]). No process ever has a value: the handler
//! `http` puts it in when a request leaves, and takes it out of the response.
//!
//! - **I1** A value is in memory that is overwritten when it is dropped, has no `Debug`, and is in
//!   no message: errors name the place of a secret, never its content.
//! - **I2** A name has the value that its place has now: it is read for every request. That of a
//!   command is kept for a minute, or until a server refuses it.
//! - **I3** What a server sends is searched for every value that this host has read, the former
//!   one of each name included, whichever run it is for.

mod redact;
mod source;
mod value;

pub use source::SecretSource;
#[cfg(feature = "serve")]
pub(crate) use source::{file, variable};
pub use value::SecretValue;

use super::http::SecretHost;
use parking_lot::Mutex;
use source::Place;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest value, in bytes. Arbitrary: as large as all header fields of a request may be.
pub const SECRET_BYTES_MAX: usize = 64 << 10;

/// The shortest value, in bytes. A shorter one can be guessed, and would be found where it is not
/// meant.
pub const SECRET_BYTES_MIN: usize = 8;

/// Secrets of a host at most. Arbitrary: each response is searched for all of them.
pub const SECRETS_MAX: usize = 256;

/// How long the output of a command counts as the value. Arbitrary: commands take long, and a
/// value is seldom replaced.
const COMMAND_KEPT: Duration = Duration::from_mins(1);

/// Values of a name that responses are searched for: the present one, and the one before it.
const VALUES_MAX: usize = 2;

/// The secrets of a host: what the operator has set aside for workflows.
///
/// ```
/// use wfhost::dispatch::{SecretSource, Secrets};
///
/// let source: SecretSource = "file:/run/secrets/s3".parse()?;
/// let secrets = Secrets::default().with("S3_KEY", source, Some(vec!["*.s3.example.com".to_owned()]))?;
/// assert!(secrets.has("S3_KEY"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Secrets {
    entries: BTreeMap<String, Entry>,
}

/// A secret.
struct Entry {
    source: SecretSource,
    /// The hosts that may receive it, whatever a workflow declares; `None`: those of the workflow.
    hosts: Option<Vec<SecretHost>>,
    read: Mutex<Read>,
    /// Held while a command runs, so that it runs once for all who wait.
    running: Mutex<()>,
}

/// What was read of a secret.
#[derive(Default)]
struct Read {
    /// The newest first.
    values: Vec<Arc<SecretValue>>,
    /// When the newest was read.
    at: Option<Instant>,
}

/// Why a secret cannot be used. It never says what the secret is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the secret {name}: {why}")]
pub struct SecretError {
    /// The secret.
    pub name: String,
    /// The reason, with the secret's place.
    pub why: String,
    /// Whether the operator has not said at all where it is.
    pub is_unknown: bool,
}

impl SecretError {
    fn new(name: &str, why: impl Into<String>) -> Self {
        Self { name: name.to_owned(), why: why.into(), is_unknown: false }
    }
}

impl Secrets {
    /// Adds a secret, in place of one with this name. `hosts` bounds who may receive it, whatever
    /// a workflow declares.
    ///
    /// # Errors
    /// The name cannot be that of a secret, a host is not a pattern of hosts, or there are too
    /// many.
    pub fn with(mut self, name: &str, source: SecretSource, hosts: Option<Vec<String>>) -> Result<Self, SecretError> {
        if !crate::process::secret::is_name(name) {
            let why = "its name has other characters than letters, digits and `_`, or is longer than 64 bytes";
            return Err(SecretError::new(name, why));
        }
        let parse = |host: &String| host.parse().map_err(|why| SecretError::new(name, format!("`{host}`: {why}")));
        let hosts = hosts.map(|hosts| hosts.iter().map(parse).collect::<Result<_, _>>()).transpose()?;
        self.entries
            .insert(name.to_owned(), Entry { source, hosts, read: Mutex::default(), running: Mutex::default() });
        if self.entries.len() > SECRETS_MAX {
            return Err(SecretError::new(name, format!("a host has at most {SECRETS_MAX} secrets")));
        }
        Ok(self)
    }

    /// Returns whether the operator has said where a secret is.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The names, sorted, each with whether its hosts are bounded by the operator.
    pub fn names(&self) -> impl Iterator<Item = (&str, bool)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry.hosts.is_some()))
    }

    /// Returns whether the operator lets a host receive a secret. `None` if there is no such
    /// secret.
    pub(super) fn allows(&self, name: &str, url: &url::Url) -> Option<bool> {
        let entry = self.entries.get(name)?;
        Some(entry.hosts.as_ref().is_none_or(|hosts| hosts.iter().any(|host| host.matches(url))))
    }

    /// Checks that secrets can be used now. It reads them on this thread, and may run a command.
    ///
    /// # Errors
    /// Says of each one that cannot be used why.
    pub fn check<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<(), Vec<SecretError>> {
        let errors: Vec<_> = names.into_iter().filter_map(|name| self.load(name).err()).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Reads a secret. It may run a command, which takes long: [`Self::waits`].
    pub(super) fn load(&self, name: &str) -> Result<Arc<SecretValue>, SecretError> {
        let entry = self.entries.get(name).ok_or_else(|| SecretError {
            is_unknown: true,
            ..SecretError::new(name, "the operator has not said where it is")
        })?;
        let _running = entry.source.waits().then(|| entry.running.lock());
        let fresh = |read: &Read| read.values.first().filter(|_| read.is_fresh(&entry.source)).map(Arc::clone);
        if let Some(value) = fresh(&entry.read.lock()) {
            return Ok(value);
        }
        let place = Place(&entry.source);
        let bytes = place.read().map_err(|why| SecretError::new(name, format!("{place}: {why}")))?;
        let value = SecretValue::new(bytes).map_err(|why| SecretError::new(name, format!("{place}: {why}")))?;
        let mut read = entry.read.lock();
        read.at = Some(Instant::now());
        match read.values.iter().position(|known| known.is(&value)) {
            Some(0) => {}
            Some(at) => {
                let known = read.values.remove(at);
                read.values.insert(0, known);
            }
            None => read.values.insert(0, Arc::new(value)),
        }
        read.values.truncate(VALUES_MAX);
        Ok(Arc::clone(&read.values[0]))
    }

    /// Returns whether [`Self::load`] would run a command.
    pub(super) fn waits(&self, name: &str) -> bool {
        let waits = |entry: &Entry| entry.source.waits() && !entry.read.lock().is_fresh(&entry.source);
        self.entries.get(name).is_some_and(waits)
    }

    /// Forgets when a secret was read: a server has refused it, so it may have been replaced.
    pub(super) fn renew(&self, name: &str) {
        if let Some(entry) = self.entries.get(name) {
            entry.read.lock().at = None;
        }
    }

    /// The values that were read, with their names.
    fn known(&self) -> Vec<(&str, Arc<SecretValue>)> {
        let mut known = Vec::new();
        for (name, entry) in &self.entries {
            known.extend(entry.read.lock().values.iter().map(|value| (name.as_str(), Arc::clone(value))));
        }
        known
    }

    /// Replaces every value in what a server has sent: by `[secret NAME]`. `None` if there is
    /// none in it.
    pub(super) fn redacted(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        redact::redacted(bytes, &self.known())
    }

    /// As [`Self::redacted`] of the name of a header field: by `secret-NAME`, whatever the case of
    /// its letters.
    pub(super) fn redacted_name(&self, name: &[u8]) -> Option<Vec<u8>> {
        redact::redacted_name(name, &self.known())
    }

    /// Redacts the beginning of a text that is still arriving: at least the last `staying` bytes
    /// are left, since a value may go on after them. Returns how many bytes the beginning has, and
    /// what replaces them if a value is in them.
    pub(super) fn redacted_start(&self, bytes: &[u8], staying: usize) -> (usize, Option<Vec<u8>>) {
        redact::redacted_start(bytes, staying, &self.known())
    }

    /// The longest text that a value can take in what a server sends.
    pub(super) fn longest(&self) -> usize {
        self.known().iter().map(|(_, value)| value.longest()).max().unwrap_or(0)
    }
}

impl Read {
    /// Returns whether the newest value counts without being read again.
    fn is_fresh(&self, source: &SecretSource) -> bool {
        source.waits() && self.at.is_some_and(|at| at.elapsed() < COMMAND_KEPT)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
