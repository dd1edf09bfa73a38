//! Handlers by name. A registry never changes once it is built, so a lookup takes no lock.

use super::handler::{Declaration, Handler};
use super::problems;
use super::schema::{Schema, SchemaError};
use crate::process::{Grants, Payload, Problem, secret};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Longest name of a handler, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Handlers by name, ready to be called.
pub struct Registry {
    entries: BTreeMap<Arc<str>, Arc<RegisteredHandler>>,
}

/// A handler, its declaration, and its compiled schema.
pub(super) struct RegisteredHandler {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) declaration: Declaration,
    /// Compiled when the registry is built; for a built-in handler, when it is first needed.
    schema: OnceLock<Option<Arc<Schema>>>,
}

/// Gathers handlers. See [`Registry::builder`].
#[derive(Default)]
pub struct RegistryBuilder {
    handlers: Vec<(String, Arc<dyn Handler>)>,
    /// The names of our own handlers: their schemas are known to be valid, and compiling them takes
    /// longer than the rest of a short run's start.
    built_in: BTreeSet<String>,
}

/// The reason why handlers cannot be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two handlers have one name.
    #[error("two handlers have the name `{name}`")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A name is empty, longer than 128 bytes, or has other characters than lowercase letters,
    /// digits, `-`, `_` and `.`.
    #[error("`{name}` is not a handler's name: a name may have lowercase letters, digits, `-`, `_` and `.`")]
    BadName {
        /// The name.
        name: String,
    },
    /// The schema of a handler's arguments cannot be used.
    #[error("the schema of the handler `{name}` cannot be used")]
    BadSchema {
        /// The handler's name.
        name: String,
        /// The fault in the schema.
        #[source]
        source: SchemaError,
    },
    /// A handler's concurrency is zero, so that it could never run.
    #[error("the handler `{name}` allows no call at all")]
    NoConcurrency {
        /// The handler's name.
        name: String,
    },
}

impl RegistryBuilder {
    /// Adds a handler under a name.
    #[must_use]
    pub fn handler(self, name: impl Into<String>, handler: impl Handler) -> Self {
        self.shared(name, Arc::new(handler))
    }

    /// Adds a handler that is shared, perhaps under another name.
    #[must_use]
    pub fn shared(mut self, name: impl Into<String>, handler: Arc<dyn Handler>) -> Self {
        self.handlers.push((name.into(), handler));
        self
    }

    /// Adds a handler of our own.
    pub(crate) fn built_in(mut self, name: &str, handler: impl Handler) -> Self {
        self.built_in.insert(name.to_owned());
        self.handler(name, handler)
    }

    /// Asks every handler for its declaration and freezes the registry.
    ///
    /// # Errors
    /// A name or a declaration cannot be used.
    pub fn build(self) -> Result<Registry, RegistryError> {
        let mut entries = BTreeMap::new();
        for (name, handler) in self.handlers {
            if !is_name(&name) {
                return Err(RegistryError::BadName { name });
            }
            if entries.contains_key(name.as_str()) {
                return Err(RegistryError::Duplicate { name });
            }
            let entry = RegisteredHandler::new(&name, handler)?;
            if let Some(reserved) = entry.declaration.capability.as_deref().filter(|one| *one == secret::CAPABILITY) {
                return Err(RegistryError::BadName { name: reserved.to_owned() });
            }
            if !self.built_in.contains(&name) {
                entry.compile().map_err(|source| RegistryError::BadSchema { name: name.clone(), source })?;
            }
            entries.insert(Arc::from(name), Arc::new(entry));
        }
        Ok(Registry { entries })
    }
}

impl RegisteredHandler {
    fn new(name: &str, handler: Arc<dyn Handler>) -> Result<Self, RegistryError> {
        let declaration = handler.declaration();
        if declaration.concurrent_max == 0 {
            return Err(RegistryError::NoConcurrency { name: name.to_owned() });
        }
        Ok(Self { handler, declaration, schema: OnceLock::new() })
    }

    fn compile(&self) -> Result<(), SchemaError> {
        let schema = self.declaration.schema.as_ref().map(Schema::compile).transpose()?;
        self.schema.get_or_init(|| schema.map(Arc::new));
        Ok(())
    }

    /// Returns the schema of the arguments, compiling it if needed.
    pub(super) fn schema(&self) -> Option<&Arc<Schema>> {
        if self.schema.get().is_none() {
            self.compile().expect("invariant: the schemas of built-in handlers are good");
        }
        self.schema.get().and_then(Option::as_ref)
    }

    pub(super) fn is_repeatable(&self, args: &Payload) -> bool {
        self.declaration.repeatable || self.handler.is_repeatable(args)
    }

    /// Checks whether the workflow grants this call: first the capability, then the handler's own
    /// check.
    pub(super) fn check_grant(&self, grants: &Grants, args: &Payload) -> Result<(), Problem> {
        match self.declaration.capability {
            Some(_) => self.handler.check_grant(self.patterns(grants)?, args),
            None => Ok(()),
        }
    }

    /// Returns the patterns that are granted under the handler's capability.
    pub(super) fn patterns<'g>(&self, grants: &'g Grants) -> Result<&'g [String], Problem> {
        let Some(capability) = &self.declaration.capability else { return Ok(&[]) };
        let patterns = grants.of(capability).filter(|patterns| !patterns.is_empty());
        patterns.ok_or_else(|| {
            problems::not_granted(format!("it needs the capability `{capability}`"))
                .with_data(&serde_json::json!({ "capability": capability }))
        })
    }

    /// Adds the pattern that would grant the call to the problem of a capability that is not
    /// granted.
    pub(super) fn ungranted(&self, bare: Problem, args: &Payload) -> Problem {
        match (&self.declaration.capability, self.handler.pattern_for(args)) {
            (Some(capability), Some(pattern)) => {
                bare.with_data(&serde_json::json!({ "capability": capability, "pattern": pattern }))
            }
            _ => bare,
        }
    }
}

impl Registry {
    /// Begins a registry without handlers.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// Returns the handlers' names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(|name| &**name)
    }

    /// Returns a handler's declaration; `None` if there is no handler of that name.
    pub fn declaration(&self, name: &str) -> Option<&Declaration> {
        self.entries.get(name).map(|entry| &entry.declaration)
    }

    /// Checks arguments against a handler's schema, before anything runs.
    ///
    /// # Errors
    /// The problem that would answer the call: `unknown-handler` or `bad-arguments`.
    pub fn check_arguments(&self, name: &str, args: &Payload) -> Result<(), Problem> {
        let entry = self.entries.get(name).ok_or_else(|| self.unknown(name))?;
        entry.schema().map_or(Ok(()), |schema| schema.check(args))
    }

    /// Checks a pattern that a workflow grants under a capability.
    ///
    /// # Errors
    /// The pattern is not valid, or no handler has that capability.
    pub fn check_pattern(&self, capability: &str, pattern: &str) -> Result<(), String> {
        match self.of_capability(capability) {
            Some(entry) => entry.handler.check_pattern(pattern),
            None => Err(format!("no handler has the capability `{}`", problems::bounded(capability))),
        }
    }

    /// Returns the capabilities of all handlers, in alphabetical order.
    pub fn capabilities(&self) -> Vec<&str> {
        let all: BTreeSet<&str> =
            self.entries.values().filter_map(|entry| entry.declaration.capability.as_deref()).collect();
        all.into_iter().collect()
    }

    /// Checks whether grants cover a call, before anything runs.
    ///
    /// # Errors
    /// The problem that would answer the call: `unknown-handler`, `not-granted`, or the handler's
    /// own.
    pub fn check_grant(&self, name: &str, grants: &Grants, args: &Payload) -> Result<(), Problem> {
        self.entries.get(name).ok_or_else(|| self.unknown(name))?.check_grant(grants, args)
    }

    /// Returns the narrowest pattern that grants a call: see [`Handler::pattern_for`].
    pub fn pattern_for(&self, name: &str, args: &Payload) -> Option<String> {
        self.entries.get(name)?.handler.pattern_for(args)
    }

    /// Returns whether a pattern of a capability asks for no more than the others grant.
    pub fn narrows(&self, capability: &str, granted: &[String], wanted: &str) -> bool {
        match self.of_capability(capability) {
            Some(entry) => entry.handler.narrows(granted, wanted),
            None => granted.iter().any(|pattern| pattern == wanted),
        }
    }

    pub(super) fn unknown(&self, name: &str) -> Problem {
        let known: Vec<&str> = self.names().take(20).collect();
        problems::unknown_handler(name, &known.join(", "))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<RegisteredHandler>)> {
        self.entries.iter()
    }

    /// Returns the first handler of a capability: handlers that share one agree on its patterns.
    fn of_capability(&self, capability: &str) -> Option<&Arc<RegisteredHandler>> {
        self.entries.values().find(|entry| entry.declaration.capability.as_deref() == Some(capability))
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_allowed)
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl fmt::Debug for RegistryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.handlers.iter().map(|(name, _)| name)).finish()
    }
}
