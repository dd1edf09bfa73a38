//! What exists in an expression, by the place where it stands.

use crate::workflow::diagnostics::{all_of, closest, one_of};
use crate::workflow::model::{Inputs, When, shorten};

/// What exists at the top of an expression.
pub(super) const ROOTS: [&str; 6] = ["inputs", "steps", "item", "index", "run", "error"];

/// Where an expression stands: it decides what exists there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExpressionSite {
    /// There is an item.
    pub(super) item: bool,
    /// There may be an error.
    pub(super) error: bool,
}

impl ExpressionSite {
    /// Evaluated once for a step: `if` and `for-each`.
    pub(super) fn once(when: When) -> Self {
        Self { item: false, error: when != When::Succeeded }
    }

    /// Evaluated for each item.
    pub(super) fn each(when: When, for_each: bool) -> Self {
        Self { item: for_each, ..Self::once(when) }
    }

    /// The outputs of the run.
    pub(super) const OUTPUTS: Self = Self { item: false, error: false };
}

/// What a reference reads.
pub(super) enum ReferenceTarget {
    /// A step, by index.
    Step(usize),
    /// All steps that there are.
    Steps,
    /// Something that exists before any step.
    Given,
}

/// What is wrong with a reference.
pub(super) struct BadReference {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) hint: String,
}

impl BadReference {
    fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }
}

/// The names that references are checked against.
pub(super) struct KnownNames<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) steps: &'a [&'a str],
    /// Ids of steps that have problems of their own.
    pub(super) unread: &'a [String],
    /// Whether anybody wants to hear what was probably meant: looking for it takes long where there are many names.
    pub(super) hints: bool,
}

const STEP_FIELDS: [&str; 4] = ["output", "status", "error", "attempts"];
const RUN_FIELDS: [&str; 3] = ["id", "name", "started"];

impl KnownNames<'_> {
    /// What a path reads. `path` holds its keys as far as they are known before the run.
    pub(super) fn resolve(&self, path: &[String], site: ExpressionSite) -> Result<ReferenceTarget, BadReference> {
        let Some((root, rest)) = path.split_first() else { return Ok(ReferenceTarget::Steps) };
        match root.as_str() {
            "inputs" => self.resolve_input(rest),
            "steps" => self.resolve_step(rest),
            "item" | "index" if !site.item => Err(BadReference::new(
                "no-item",
                format!("there is no `.{root}` here"),
                "an item exists within a step that has `for-each`, but not in its `if` and `for-each`",
            )),
            "error" if !site.error => Err(BadReference::new(
                "no-error",
                "there is no `.error` here",
                "a step reacts to a failure by `when: failed`, `unreached`, `done` or `any`",
            )),
            "item" | "index" | "error" => Ok(ReferenceTarget::Given),
            "run" => match rest.first() {
                Some(field) if !RUN_FIELDS.contains(&field.as_str()) => Err(BadReference::new(
                    "unknown-reference",
                    format!("there is no `.run.{field}`"),
                    suggest(field, ".run.", &RUN_FIELDS),
                )),
                _ => Ok(ReferenceTarget::Given),
            },
            other => Err(self.unknown_root(other)),
        }
    }

    fn meant<'n>(&self, word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
        if self.hints { closest(word, names) } else { None }
    }

    fn unknown_root(&self, root: &str) -> BadReference {
        let hint = if self.inputs.0.iter().any(|input| input.name == root) {
            format!("did you mean `.inputs.{root}`?")
        } else if self.steps.contains(&root) {
            format!("did you mean `.steps.{root}.output`?")
        } else {
            suggest(root, ".", &ROOTS)
        };
        BadReference::new("unknown-reference", format!("there is no `.{root}` in an expression"), hint)
    }

    fn resolve_input(&self, rest: &[String]) -> Result<ReferenceTarget, BadReference> {
        let names = || self.inputs.0.iter().map(|input| input.name.as_str());
        let Some(name) = rest.first().filter(|name| !names().any(|known| known == *name)) else {
            return Ok(ReferenceTarget::Given);
        };
        let hint = match (dashed(name, names()), self.meant(name, names())) {
            (Some(known), _) => format!("a name with a dash is written .inputs[\"{known}\"]"),
            (None, Some(meant)) => format!("did you mean `.inputs.{meant}`?"),
            (None, None) if self.inputs.0.is_empty() => format!("declare it: inputs: {{ {name}: {{ type: string }} }}"),
            (None, None) => format!("the inputs are {}; declare it where it is one more", all_of(names().take(20))),
        };
        Err(BadReference::new("unknown-input", format!("there is no input `{name}`"), hint))
    }

    fn resolve_step(&self, rest: &[String]) -> Result<ReferenceTarget, BadReference> {
        let Some((id, rest)) = rest.split_first() else { return Ok(ReferenceTarget::Steps) };
        let Some(index) = self.steps.iter().position(|known| known == id) else {
            return if self.unread.contains(id) { Ok(ReferenceTarget::Given) } else { Err(self.unknown_step(id)) };
        };
        match rest.first() {
            Some(field) if !STEP_FIELDS.contains(&field.as_str()) => {
                let hint = match self.meant(field, STEP_FIELDS) {
                    Some(meant) => format!("did you mean `.steps.{id}.{meant}`?"),
                    None => format!("did you mean `.steps.{id}.output.{field}`?"),
                };
                let message = format!("of a step there is {}, but no `{field}`", one_of(STEP_FIELDS));
                Err(BadReference::new("unknown-reference", message, hint))
            }
            _ => Ok(ReferenceTarget::Step(index)),
        }
    }

    fn unknown_step(&self, id: &str) -> BadReference {
        let steps = || self.steps.iter().copied();
        let hint = match (dashed(id, steps()), self.meant(id, steps())) {
            (Some(known), _) => format!("a name with a dash is written .steps[\"{known}\"]"),
            (None, Some(meant)) => format!("did you mean `{meant}`?"),
            (None, None) => format!("the steps are {}", all_of(steps().take(20))),
        };
        BadReference::new("unknown-step", format!("there is no step `{id}`"), hint)
    }
}

/// A step that `needs` names and that there is not. `own` is the step that has the `needs`.
pub(super) fn unknown_need(names: &KnownNames<'_>, id: &str, own: &str) -> BadReference {
    let others = || names.steps.iter().copied().filter(|name| *name != own);
    let hint = match names.meant(id, others()) {
        _ if id.contains(',') => {
            let parts: Vec<&str> = id.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
            format!("several steps are a list: needs: [ {} ]", parts.join(", "))
        }
        _ if id.contains("${") => {
            "`needs` holds ids as they are; what an expression reads need not be named".to_owned()
        }
        Some(meant) => format!("did you mean `{meant}`?"),
        None if others().next().is_none() && names.unread.iter().all(|other| other == own) => {
            "there is no other step".to_owned()
        }
        None if others().next().is_none() => {
            format!("the other steps are {}", all_of(names.unread.iter().map(String::as_str).take(20)))
        }
        None => format!("the other steps are {}", all_of(others().take(20))),
    };
    BadReference::new("unknown-step", format!("there is no step `{}`", shorten(id)), hint)
}

/// The name of which `start` is what jq reads where it is written after a dot: `.steps.my-step` is a subtraction.
fn dashed<'a>(start: &str, mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names.find(|known| known.strip_prefix(start).is_some_and(|rest| rest.starts_with('-')))
}

fn suggest(word: &str, prefix: &str, names: &[&str]) -> String {
    match closest(word, names.iter().copied()) {
        Some(meant) => format!("did you mean `{prefix}{meant}`?"),
        None => {
            let names: Vec<_> = names.iter().map(|name| format!("{prefix}{name}")).collect();
            format!("there is {}", one_of(names.iter().map(String::as_str)))
        }
    }
}
