//! What the host knows beyond the file: its components and its handlers.

use serde_json::Value;

/// What a component turned out to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResolvedComponent {
    /// The digest of its bytes.
    pub digest: Option<String>,
    /// Its entry points, where it tells them.
    pub entries: Option<Vec<String>>,
    /// What it is called for people, where that is not what the file calls it.
    pub name: Option<String>,
}

/// What the host knows beyond the file, so that its problems get their places in the file too.
pub trait Environment {
    /// Looks a component up by its source.
    ///
    /// # Errors
    /// Why a run could not use it, in a line, and perhaps the way out.
    fn component(&self, source: &str) -> Result<ResolvedComponent, (String, Option<String>)>;

    /// What calls reach; none where calls and grants are not to be checked.
    fn handlers(&self) -> Option<&dyn Handlers>;
}

/// What the host knows of its handlers, so that a call that must fail is told before anything runs.
pub trait Handlers {
    /// Their names, in alphabetical order.
    fn names(&self) -> Vec<String>;

    /// What a handler wants; none where there is no handler of that name. `args` has those of the call's arguments that the file
    /// states: what else it wants may depend on them.
    fn requirements(&self, handler: &str, args: &Value) -> Option<CallRequirements>;

    /// Where a value does not fit a JSON Schema: a JSON Pointer and what is wrong there.
    fn mismatches(&self, schema: &Value, value: &Value) -> Vec<(String, String)>;

    /// The capabilities that handlers have, in alphabetical order.
    fn capabilities(&self) -> Vec<String>;

    /// Whether a pattern means something under a capability.
    ///
    /// # Errors
    /// Why it means nothing.
    fn check_pattern(&self, capability: &str, pattern: &str) -> Result<(), String>;

    /// Whether patterns grant a call with these arguments.
    ///
    /// # Errors
    /// Why they do not.
    fn check_grant(&self, handler: &str, patterns: &[String], args: &Value) -> Result<(), String>;

    /// The narrowest pattern that grants a call with these arguments, where they tell. A `*` stands in them for what an expression
    /// will give.
    fn pattern_for(&self, handler: &str, args: &Value) -> Option<String>;
}

/// What a handler wants of a call.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CallRequirements {
    /// The JSON Schema of its arguments; none: anything.
    pub schema: Option<Value>,
    /// The capability that a step must grant; none: every step may call it.
    pub capability: Option<String>,
    /// The arguments that decide whether a grant covers a call; none: all of them.
    pub grant_arguments: Option<Vec<String>>,
}

/// Checks nothing beyond the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unchecked;

impl Environment for Unchecked {
    fn component(&self, _: &str) -> Result<ResolvedComponent, (String, Option<String>)> {
        Ok(ResolvedComponent::default())
    }

    fn handlers(&self) -> Option<&dyn Handlers> {
        None
    }
}
