//! Resolves the paths that expressions read, by the site of the expression.

use crate::workflow::diagnostics::{all_of, closest};
use crate::workflow::model::{Inputs, When, Workflow, shorten};
use std::collections::BTreeMap;

/// The top-level names of an expression.
pub(super) const ROOTS: [&str; 9] = ["inputs", "steps", "item", "index", "last", "turn", "run", "error", "secrets"];

/// The site of an expression, which decides what exists there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExpressionSite {
    /// Whether `.item` and `.index` exist.
    pub(super) item: bool,
    /// Whether `.error` exists.
    pub(super) error: bool,
    /// Whether `.last` and `.turn` exist.
    pub(super) turn: bool,
    /// Whether nothing but `.inputs` exists: the run has not begun.
    pub(super) only_inputs: bool,
    /// Whether `.output` exists: the result of the step that is undone.
    pub(super) output: bool,
    /// Whether `.run.problem` exists: the steps have ended.
    pub(super) after: bool,
    /// Whether `.secrets` exists, with those that the step lists.
    pub(super) secrets: bool,
}

impl ExpressionSite {
    /// A site evaluated once per step: `if` and `for-each`.
    pub(super) fn once(when: When) -> Self {
        Self { error: when != When::Succeeded, ..Self::OUTPUTS }
    }

    /// A site evaluated for each item.
    pub(super) fn each(when: When, for_each: bool) -> Self {
        Self { item: for_each, ..Self::once(when) }
    }

    /// The outputs of the run.
    pub(super) const OUTPUTS: Self = Self {
        item: false,
        error: false,
        turn: false,
        only_inputs: false,
        output: false,
        after: false,
        secrets: false,
    };

    /// The same site within a step that is at another one: what exists there exists here.
    pub(super) fn within(self, outer: Self) -> Self {
        Self {
            item: self.item || outer.item,
            error: self.error || outer.error,
            turn: self.turn || outer.turn,
            only_inputs: self.only_inputs,
            output: self.output || outer.output,
            after: self.after || outer.after,
            secrets: self.secrets,
        }
    }

    /// What is decided before the run begins.
    pub(super) const INPUTS: Self = Self { only_inputs: true, ..Self::OUTPUTS };
}

/// The target of a reference.
pub(super) enum ReferenceTarget {
    /// A step: the depth of the list that it is in, and its index there.
    Step(usize, usize),
    /// All steps.
    Steps,
    /// Something that exists before any step.
    Given,
}

/// A problem with a reference.
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

/// The names of secrets.
#[derive(Default)]
pub(super) struct SecretNames<'a> {
    pub(super) declared: Vec<&'a str>,
    /// Those that have problems of their own.
    pub(super) unread: &'a [String],
    /// Those that the step lists that is read.
    pub(super) listed: Vec<&'a str>,
}

impl<'a> SecretNames<'a> {
    pub(super) fn of(workflow: &'a Workflow) -> Self {
        let declared = workflow.secrets.iter().map(|secret| secret.name.value.as_str()).collect();
        Self { declared, unread: &workflow.unread_secrets, listed: Vec::new() }
    }
}

/// The names in a list of steps.
pub(super) struct ListNames<'a> {
    pub(super) steps: Vec<&'a str>,
    /// Ids of steps that have problems of their own.
    pub(super) unread: &'a [String],
    /// For each step, the outputs that it gives, if they are known.
    pub(super) gives: Vec<Option<Vec<&'a str>>>,
}

/// The names that references are checked against.
pub(super) struct KnownNames<'a> {
    pub(super) inputs: &'a Inputs,
    /// The list of steps that is read, after those that it is within.
    pub(super) lists: Vec<ListNames<'a>>,
    /// The steps within others, with the paths of those.
    pub(super) within: BTreeMap<&'a str, &'a str>,
    pub(super) secrets: SecretNames<'a>,
    /// Whether hints are wanted: the search for a similar name takes long if there are many.
    pub(super) hints: bool,
}

const STEP_FIELDS: [&str; 4] = ["output", "status", "error", "attempts"];
const RUN_FIELDS: [&str; 3] = ["id", "name", "started"];

impl<'a> KnownNames<'a> {
    /// The list of steps that is read.
    pub(super) fn list(&self) -> &ListNames<'a> {
        self.lists.last().expect("invariant: the workflow's own list is always there")
    }

    /// The ids of all steps that can be referred to, the nearest first.
    pub(super) fn steps(&self) -> impl Iterator<Item = &'a str> {
        self.lists.iter().rev().flat_map(|list| list.steps.iter().copied())
    }

    /// Finds a step: the depth of its list, and its index there.
    fn find(&self, id: &str) -> Option<(usize, usize)> {
        let find = |(depth, list): (usize, &ListNames<'_>)| {
            list.steps.iter().position(|known| *known == id).map(|index| (depth, index))
        };
        self.lists.iter().enumerate().rev().find_map(find)
    }

    /// Resolves a path. `path` holds its keys as far as they are known before the run.
    pub(super) fn resolve(&self, path: &[String], site: ExpressionSite) -> Result<ReferenceTarget, BadReference> {
        let only_inputs = || {
            let hint = "it is decided before the run begins: ${ .inputs.stage }";
            BadReference::new("only-inputs", "expressions read `.inputs` alone here", hint)
        };
        let Some((root, rest)) = path.split_first() else {
            return if site.only_inputs { Err(only_inputs()) } else { Ok(ReferenceTarget::Steps) };
        };
        if site.only_inputs && root != "inputs" && ROOTS.contains(&root.as_str()) {
            return Err(only_inputs());
        }
        match root.as_str() {
            "inputs" => self.resolve_input(rest),
            "secrets" => self.resolve_secret(rest, site),
            "steps" => self.resolve_step(rest),
            "item" | "index" if !site.item => Err(BadReference::new(
                "no-item",
                format!("there is no `.{root}` here"),
                "`.item` and `.index` exist in a step with `for-each`, except in its `if` and `for-each`",
            )),
            "last" | "turn" if !site.turn => Err(BadReference::new(
                "no-turn",
                format!("there is no `.{root}` here"),
                "`.last` and `.turn` exist in a step with `repeat`, except in its `if` and `for-each`",
            )),
            "error" if !site.error => Err(BadReference::new(
                "no-error",
                "there is no `.error` here",
                "`.error` exists in a step with `when: failed`, `unreached`, `done` or `any`",
            )),
            "item" | "index" | "last" | "turn" | "error" => Ok(ReferenceTarget::Given),
            "output" if site.output => Ok(ReferenceTarget::Given),
            "run" if rest.first().is_some_and(|field| field == "problem") => {
                if site.after {
                    Ok(ReferenceTarget::Given)
                } else {
                    Err(BadReference::new(
                        "no-problem",
                        "there is no `.run.problem` here",
                        "`.run.problem` exists in what runs after the steps: below `on`, and in `compensate`",
                    ))
                }
            }
            "run" => match rest.first() {
                Some(field) if !RUN_FIELDS.contains(&field.as_str()) => Err(BadReference::new(
                    "unknown-reference",
                    format!("there is no `.run.{field}`"),
                    suggest(field, ".run.", &RUN_FIELDS),
                )),
                _ => Ok(ReferenceTarget::Given),
            },
            other => Err(self.unknown_root(other, rest, site)),
        }
    }

    fn meant<'n>(&self, word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
        if self.hints { closest(word, names) } else { None }
    }

    fn unknown_root(&self, root: &str, rest: &[String], site: ExpressionSite) -> BadReference {
        let hint = if let Some(meant) = self.of_needs(root, rest) {
            format!("did you mean `{meant}`?")
        } else if root == "matrix" {
            "the item of a `for-each` is `.item`: with for-each: [ { os: linux } ], `.item.os`".to_owned()
        } else if self.inputs.0.iter().any(|input| input.name == root) {
            format!("did you mean `.inputs.{root}`?")
        } else if self.secrets.declared.contains(&root) {
            format!("did you mean `.secrets.{root}`?")
        } else if self.steps().any(|id| id == root) {
            format!("did you mean `.steps.{root}.output`?")
        } else {
            let given = site.output.then_some("output");
            suggest(root, ".", &ROOTS.into_iter().chain(given).collect::<Vec<_>>())
        };
        BadReference::new("unknown-reference", format!("there is no `.{root}` in an expression"), hint)
    }

    /// The path to a step's output for `.needs.a.outputs.x` of GitHub Actions.
    fn of_needs(&self, root: &str, rest: &[String]) -> Option<String> {
        let (id, rest) = rest.split_first().filter(|(id, _)| root == "needs" && self.find(id).is_some())?;
        let rest = match rest.split_first() {
            Some((first, rest)) if first == "outputs" || first == "output" => rest,
            _ => rest,
        };
        let key = |key: &str| {
            let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if is_plain { format!(".{key}") } else { format!("[{}]", serde_json::Value::from(key)) }
        };
        let rest: String = rest.iter().map(|one| key(one)).collect();
        Some(format!(".steps{}.output{rest}", key(id)))
    }

    fn resolve_input(&self, rest: &[String]) -> Result<ReferenceTarget, BadReference> {
        let names = || self.inputs.0.iter().map(|input| input.name.as_str());
        let Some(name) = rest.first().filter(|name| !names().any(|known| known == *name)) else {
            return Ok(ReferenceTarget::Given);
        };
        let hint = match (dashed(name, names()), self.meant(name, names())) {
            (Some(known), _) => format!("write a name with a dash as .inputs[\"{known}\"]"),
            (None, Some(meant)) => format!("did you mean `.inputs.{meant}`?"),
            (None, None) if self.inputs.0.is_empty() => format!("declare it: inputs: {{ {name}: {{ type: string }} }}"),
            (None, None) => format!("the inputs are {}; if it is a new one, declare it", all_of(names().take(20))),
        };
        Err(BadReference::new("unknown-input", format!("there is no input `{name}`"), hint))
    }

    fn resolve_secret(&self, rest: &[String], site: ExpressionSite) -> Result<ReferenceTarget, BadReference> {
        let SecretNames { declared, unread, listed } = &self.secrets;
        if !site.secrets {
            let message = "there is no `.secrets` here";
            let hint = "`.secrets` exists in the `with` of a step that lists its secrets: secrets: [ API_KEY ]";
            return Err(BadReference::new("no-secrets", message, hint));
        }
        let Some(name) = rest.first() else {
            let hint = "name one of those that the step lists: ${ .secrets.API_KEY }";
            return Err(BadReference::new("no-secrets", "`.secrets` as a whole is no value", hint));
        };
        if listed.contains(&name.as_str()) || unread.contains(name) {
            return Ok(ReferenceTarget::Given);
        }
        if declared.contains(&name.as_str()) {
            let message = format!("the step may not use the secret `{name}`: it does not list it");
            let all: Vec<&str> = listed.iter().copied().chain([name.as_str()]).collect();
            return Err(BadReference::new("secret-not-listed", message, format!("secrets: [ {} ]", all.join(", "))));
        }
        let hint = match self.meant(name, declared.iter().copied()) {
            Some(meant) => format!("did you mean `.secrets.{meant}`?"),
            None => {
                format!("declare it at the top: secrets: {{ {name}: {{ from: env, hosts: [ api.example.com ] }} }}")
            }
        };
        Err(BadReference::new("unknown-secret", format!("there is no secret `{name}`"), hint))
    }

    fn resolve_step(&self, rest: &[String]) -> Result<ReferenceTarget, BadReference> {
        let Some((id, rest)) = rest.split_first() else { return Ok(ReferenceTarget::Steps) };
        let Some((depth, index)) = self.find(id) else {
            let is_unread = self.lists.iter().any(|list| list.unread.contains(id));
            return if is_unread { Ok(ReferenceTarget::Given) } else { Err(self.unknown_step(id)) };
        };
        match rest.first() {
            Some(field) if !STEP_FIELDS.contains(&field.as_str()) => {
                let hint = match self.meant(field, STEP_FIELDS) {
                    Some(meant) => format!("did you mean `.steps.{id}.{meant}`?"),
                    None => format!("did you mean `.steps.{id}.output.{field}`?"),
                };
                let message = format!("a step has {}, but no `{field}`", all_of(STEP_FIELDS));
                Err(BadReference::new("unknown-reference", message, hint))
            }
            Some(field) if field == "output" => match (rest.get(1), &self.lists[depth].gives[index]) {
                (Some(key), Some(gives)) if !gives.contains(&key.as_str()) => Err(self.no_output(id, key, gives)),
                _ => Ok(ReferenceTarget::Step(depth, index)),
            },
            _ => Ok(ReferenceTarget::Step(depth, index)),
        }
    }

    /// What a step does not give, although its outputs are known.
    fn no_output(&self, id: &str, key: &str, gives: &[&str]) -> BadReference {
        let names = || gives.iter().copied();
        let hint = match (dashed(key, names()), self.meant(key, names())) {
            (Some(known), _) => format!("write a name with a dash as .steps.{id}.output[\"{known}\"]"),
            (None, Some(meant)) => format!("did you mean `.steps.{id}.output.{meant}`?"),
            (None, None) if gives.is_empty() => format!("declare it in that file: outputs: {{ {key}: … }}"),
            (None, None) => format!("it gives {}; if it is a new one, declare it there", all_of(names().take(20))),
        };
        let message = format!("the workflow that `{id}` runs has no output `{}`", shorten(key));
        BadReference::new("unknown-reference", message, hint)
    }

    fn unknown_step(&self, id: &str) -> BadReference {
        let steps = || self.steps();
        let hint = match (dashed(id, steps()), self.meant(id, steps())) {
            _ if self.within.get(id).is_some_and(|group| group.starts_with("on.")) => {
                format!("`{id}` is below `on`, and runs when all other steps have ended")
            }
            _ if self.within.contains_key(id) => {
                let group = self.within[id];
                format!(
                    "`{id}` is within `{group}`: name what it gives in the `outputs` of that, and read .steps.{group}.output"
                )
            }
            (Some(known), _) => format!("write a name with a dash as .steps[\"{known}\"]"),
            (None, Some(meant)) => format!("did you mean `{meant}`?"),
            (None, None) => format!("the steps are {}", all_of(steps().take(20))),
        };
        BadReference::new("unknown-step", format!("there is no step `{id}`"), hint)
    }
}

/// Reports a step in `needs` that does not exist. `own` is the step that has the `needs`.
pub(super) fn unknown_need(names: &KnownNames<'_>, id: &str, own: &str) -> BadReference {
    let ListNames { steps, unread, .. } = names.list();
    let others = || steps.iter().copied().filter(|name| *name != own);
    let hint = match names.meant(id, others()) {
        _ if names.find(id).is_some() => {
            format!("it is a step of the list outside: write needs: {id} in the step that `{own}` is within")
        }
        _ if let Some(group) = names.within.get(id).filter(|group| others().any(|other| other == **group)) => {
            format!("`{id}` is within `{group}`: write needs: {group}")
        }
        _ if id.contains(',') => {
            let parts: Vec<&str> = id.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
            format!("write several steps as a list: needs: [ {} ]", parts.join(", "))
        }
        _ if id.contains("${") => {
            "`needs` takes ids literally; steps that an expression reads need not be named".to_owned()
        }
        Some(meant) => format!("did you mean `{meant}`?"),
        None if others().next().is_none() && unread.iter().all(|other| other == own) => {
            "there is no other step".to_owned()
        }
        None if others().next().is_none() => {
            format!("the other steps are {}", all_of(unread.iter().map(String::as_str).take(20)))
        }
        None => format!("the other steps are {}", all_of(others().take(20))),
    };
    BadReference::new("unknown-step", format!("there is no step `{}`", shorten(id)), hint)
}

/// The name that was written after a dot, if jq read only its `start`: `.steps.my-step` is a
/// subtraction.
fn dashed<'a>(start: &str, mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names.find(|known| known.strip_prefix(start).is_some_and(|rest| rest.starts_with('-')))
}

fn suggest(word: &str, prefix: &str, names: &[&str]) -> String {
    match closest(word, names.iter().copied()) {
        Some(meant) => format!("did you mean `{prefix}{meant}`?"),
        None => {
            let names: Vec<_> = names.iter().map(|name| format!("{prefix}{name}")).collect();
            format!("the known names are {}", all_of(names.iter().map(String::as_str)))
        }
    }
}
