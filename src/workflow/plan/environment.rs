//! What the host knows beyond the file: its components and handlers.

use crate::workflow::model::{ComponentDecl, InlineScript};
use crate::workflow::syntax::{Source, Span};
use serde_json::Value;

/// A component that was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResolvedComponent {
    /// The digest of its bytes. `None` if it was not loaded.
    pub digest: Option<String>,
    /// Its entry points. `None` if it does not list them.
    pub entries: Option<Vec<String>>,
    /// Its name for people, if it differs from the one in the file.
    pub name: Option<String>,
    /// The digest of a script without its place in the file.
    pub content: Option<String>,
    /// The JSON Schema of its input, if `with` is checked by it: that of a program.
    pub input: Option<Value>,
}

/// Why a component cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unusable {
    /// In one line.
    pub message: String,
    /// How to fix it, if that is known.
    pub hint: Option<String>,
    /// The place in a source, if it is a script.
    pub at: Option<ScriptPlace>,
}

/// A place in a source of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScriptPlace {
    /// The file, as messages name it.
    pub file: String,
    /// Its text. `None` if it is the workflow file.
    pub text: Option<String>,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl From<(String, Option<String>)> for Unusable {
    fn from((message, hint): (String, Option<String>)) -> Self {
        Self { message, hint, at: None }
    }
}

/// What the host knows beyond the file, so that its problems get a position in the file too.
pub trait Environment {
    /// Hears the sources of all components before the first is looked up, so that several can be
    /// loaded at a time.
    fn announce(&self, sources: &[&str]) {
        let _ = sources;
    }

    /// Looks up a component by its source.
    ///
    /// # Errors
    /// Says why a run cannot use it.
    fn component(&self, source: &str) -> Result<ResolvedComponent, Unusable>;

    /// Looks up a component that the file declares with folders that it can read.
    ///
    /// # Errors
    /// Says why a run cannot use it, and where that is in the file.
    fn granted(&self, declared: &ComponentDecl) -> Result<ResolvedComponent, (Unusable, Span)> {
        self.component(&declared.source.value).map_err(|why| (why, declared.source.span))
    }

    /// Loads a script that is written in the file; `source` names it.
    ///
    /// # Errors
    /// Says why a run cannot use it.
    fn script(&self, source: &str, script: &InlineScript, file: &Source) -> Result<ResolvedComponent, Unusable> {
        let _ = (source, script, file);
        Ok(ResolvedComponent::default())
    }

    /// Reads another workflow file, by its path below the workflow's folder.
    ///
    /// # Errors
    /// Says why it cannot be read.
    fn workflow(&self, path: &str) -> Result<Source, Unusable> {
        let _ = path;
        Err(Unusable::from(("no other file can be read here".to_owned(), None)))
    }

    /// The handlers that calls reach. `None` if calls and grants are not checked.
    fn handlers(&self) -> Option<&dyn Handlers>;
}

/// What the host knows about its handlers, so that a call that must fail is reported before
/// anything runs.
pub trait Handlers {
    /// The names of all handlers, in alphabetical order.
    fn names(&self) -> Vec<String>;

    /// The requirements of a handler. `None` if there is no handler of that name. `args` has the
    /// call's arguments that the file states: other requirements may depend on them.
    fn requirements(&self, handler: &str, args: &Value) -> Option<CallRequirements>;

    /// The mismatches of a value with a JSON Schema: JSON Pointers, and what is expected there.
    fn mismatches(&self, schema: &Value, value: &Value) -> Vec<(String, String)>;

    /// The capabilities of all handlers, in alphabetical order.
    fn capabilities(&self) -> Vec<String>;

    /// Checks that a pattern is valid under a capability.
    ///
    /// # Errors
    /// Says why it is not.
    fn check_pattern(&self, capability: &str, pattern: &str) -> Result<(), String>;

    /// Checks that patterns grant a call with these arguments.
    ///
    /// # Errors
    /// Says why they do not.
    fn check_grant(&self, handler: &str, patterns: &[String], args: &Value) -> Result<(), String>;

    /// Checks that a text is a pattern of hosts that may receive a secret.
    ///
    /// # Errors
    /// Says why it is not.
    fn check_secret_host(&self, host: &str) -> Result<(), String>;

    /// Returns whether patterns under the capability `http` grant a request to some of the hosts of
    /// a pattern.
    fn reaches(&self, patterns: &[String], host: &str) -> bool;

    /// The narrowest pattern that grants a call with these arguments, if they determine one. A `*`
    /// in them stands for the value of an expression.
    fn pattern_for(&self, handler: &str, args: &Value) -> Option<String>;
}

/// The requirements of a handler on a call.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CallRequirements {
    /// The JSON Schema of its arguments. `None` accepts anything.
    pub schema: Option<Value>,
    /// The capability that a step must grant. `None` if every step may call it.
    pub capability: Option<String>,
    /// The arguments that decide whether a grant covers a call. `None` for all of them.
    pub grant_arguments: Option<Vec<String>>,
}

/// Checks nothing beyond the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unchecked;

impl Environment for Unchecked {
    fn component(&self, _: &str) -> Result<ResolvedComponent, Unusable> {
        Ok(ResolvedComponent::default())
    }

    fn handlers(&self) -> Option<&dyn Handlers> {
        None
    }
}
