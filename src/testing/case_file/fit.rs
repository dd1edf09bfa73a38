//! What only the cases and their workflow together show: names of steps, handlers and signals, and
//! inputs that do not fit.

use super::templated::{Templated, json_of};
use super::{Case, CaseFile};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of, closest};
use crate::workflow::interpreter::kind::BAD_INPUT;
use crate::workflow::interpreter::progress::without_items;
use crate::workflow::model::{Spanned, shorten};
use crate::workflow::plan::{ChildWorkflow, Node, Plan};
use crate::workflow::syntax::Span;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

impl CaseFile {
    /// Checks that the cases fit their workflow, whose host has these handlers. `schema` returns
    /// the JSON Schema of a handler's arguments; `None` if it has none.
    ///
    /// # Errors
    /// Fails if they do not: all problems are reported.
    pub fn check(&self, plan: &Plan, handlers: &[String], schema: &SchemaOf<'_>) -> Result<(), Diagnostics> {
        let mut problems = Diagnostics::new(self.source.clone());
        let mut fit =
            Fit { plan, handlers, schema, paths: paths(plan), problems: &mut problems, checked: BTreeSet::new() };
        self.cases.iter().for_each(|case| fit.case(case));
        problems.into_result()
    }
}

/// The schema of a handler's arguments.
pub type SchemaOf<'a> = dyn Fn(&str) -> Option<Value> + 'a;

/// Paths that are known of one workflow. Arbitrary: files that use each other have many.
const PATHS_MAX: usize = 100_000;

/// The paths of all steps, without items. A workflow that runs itself is entered once.
pub(crate) fn paths(plan: &Plan) -> BTreeSet<String> {
    let mut all = Paths { plan, within: Vec::new(), found: BTreeSet::new() };
    all.add(&plan.nodes, "");
    for (occasion, block) in &plan.on {
        all.add(&block.nodes, &format!("{}.", occasion.path()));
    }
    all.found
}

struct Paths<'a> {
    plan: &'a Plan,
    /// The workflows of other files that the current one is within.
    within: Vec<&'a Arc<ChildWorkflow>>,
    found: BTreeSet<String>,
}

impl<'a> Paths<'a> {
    fn add(&mut self, nodes: &'a [Arc<Node>], prefix: &str) {
        for node in nodes {
            if self.found.len() >= PATHS_MAX {
                return;
            }
            let path = format!("{prefix}{}", node.id);
            self.found.insert(path.clone());
            let inner = format!("{path}.");
            let undo = node.compensate.iter().map(|undo| &undo.block);
            node.action.blocks().chain(undo).for_each(|block| self.add(&block.nodes, &inner));
            if let Some(child) = self.plan.workflow_of(&node.action)
                && !self.within.iter().any(|one| Arc::ptr_eq(one, child))
            {
                self.within.push(child);
                self.add(&child.block.nodes, &inner);
                self.within.pop();
            }
        }
    }
}

impl Case {
    /// Whether it expects that its inputs do not fit the workflow.
    pub(in crate::testing) fn expects_refusal(&self) -> bool {
        let kind = self.expect.problem.as_ref().and_then(|problem| problem.members.node.get("kind")?.as_text());
        kind == Some(BAD_INPUT)
    }

    /// The inputs of its run.
    ///
    /// # Errors
    /// Returns the place of a value that is not JSON, and why.
    pub(crate) fn given(&self) -> Result<Map<String, Value>, (Span, &'static str)> {
        Ok(match self.inputs.as_ref().map(json_of).transpose()? {
            Some(Value::Object(inputs)) => inputs,
            _ => Map::new(),
        })
    }
}

pub(super) struct Fit<'a> {
    pub(super) plan: &'a Plan,
    handlers: &'a [String],
    schema: &'a SchemaOf<'a>,
    paths: BTreeSet<String>,
    pub(super) problems: &'a mut Diagnostics,
    /// The entries of `answers` that were checked: cases share those at the top of the file.
    checked: BTreeSet<Span>,
}

impl Fit<'_> {
    fn case(&mut self, case: &Case) {
        self.inputs(case);
        for rule in &case.answers {
            if !self.checked.insert(rule.span) {
                continue;
            }
            self.handler(&rule.call);
            rule.step.iter().for_each(|step| self.step(step, false));
            rule.with.iter().for_each(|with| self.arguments(&rule.call.value, with));
            self.reads_of_answer(rule);
        }
        for signal in &case.signals {
            self.signal(&signal.name);
        }
        let expect = &case.expect;
        for call in &expect.calls {
            self.handler(&call.call);
            call.step.iter().for_each(|step| self.step(step, false));
            call.with.iter().for_each(|with| self.arguments(&call.call.value, with));
        }
        expect.steps.iter().for_each(|(path, _)| self.step(path, true));
        expect.order.iter().for_each(|path| self.step(path, true));
        self.reads(case);
    }

    fn inputs(&mut self, case: &Case) {
        let whole = case.inputs.as_ref().map_or(case.name.span, |inputs| inputs.span);
        let given = match case.given() {
            Ok(given) => given,
            Err((span, why)) => return self.problems.push(Diagnostic::new("type", why, span)),
        };
        let violations = self.plan.inputs.accept(given).err().filter(|_| !case.expects_refusal());
        for violation in violations.into_iter().flatten() {
            let span =
                case.inputs.as_ref().map_or(whole, |inputs| super::templated::at(inputs, &violation.pointer).span);
            let input = violation.pointer.trim_start_matches('/');
            let message = format!("the input `{}` {}", shorten(input), violation.message);
            self.problems.push(Diagnostic::new("inputs", message, span));
        }
    }

    fn handler(&mut self, name: &Spanned<String>) {
        if self.handlers.contains(&name.value) {
            return;
        }
        let known = || self.handlers.iter().map(String::as_str);
        let hint = match closest(&name.value, known()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("the handlers are {}", all_of(known())),
        };
        let message = format!("there is no handler `{}`", shorten(&name.value));
        self.problems.push(Diagnostic::new("unknown-handler", message, name.span).hint(hint));
    }

    /// Arguments that the handler does not take are those of no call.
    fn arguments(&mut self, handler: &str, with: &Templated) {
        // What `kv` takes depends on its `op`.
        let schema = (self.schema)(handler)
            .filter(|_| handler != crate::run::KV)
            .filter(|schema| schema["additionalProperties"] == false);
        let Some(Value::Object(known)) = schema.map(|mut schema| schema["properties"].take()) else { return };
        for entry in with.node.as_mapping().unwrap_or_default() {
            if known.contains_key(&entry.key) {
                continue;
            }
            let names = || known.keys().map(String::as_str);
            let hint = match closest(&entry.key, names()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("it takes {}", all_of(names().take(20))),
            };
            let message = format!("`{handler}` does not take `{}`", shorten(&entry.key));
            self.problems.push(Diagnostic::new("arguments", message, entry.key_span).hint(hint));
        }
    }

    fn step(&mut self, path: &Spanned<String>, is_one: bool) {
        if let Some((message, hint)) = self.unknown_path(&path.value, is_one) {
            self.problems.push(Diagnostic::new("unknown-step", message, path.span).hint(hint));
        }
    }

    /// Why no step has this path, and a hint; `None` if there is one. If it must be one step, those
    /// that it is within need their items.
    pub(super) fn unknown_path(&self, path: &str, is_one: bool) -> Option<(String, String)> {
        let bare = without_items(path);
        if self.plan.node(&bare).is_some() {
            return if is_one { self.without_item(path) } else { None };
        }
        let known = || self.paths.iter().map(String::as_str);
        let within = known().find(|known| known.rsplit('.').next() == Some(&bare));
        let hint = match within.or_else(|| closest(&bare, known())) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("the steps are {}", all_of(known().take(20))),
        };
        Some((format!("the workflow has no step `{}`", shorten(path)), hint))
    }

    /// The path with the first item of each list that it leads through.
    pub(super) fn with_items(&self, path: &str) -> String {
        let mut whole = String::new();
        for part in path.split('.') {
            let is_list = self.plan.is_list(&without_items(&whole));
            whole.push_str(if is_list && !whole.ends_with(']') { "[0]" } else { "" });
            whole.push_str(if whole.is_empty() { "" } else { "." });
            whole.push_str(part);
        }
        whole
    }

    /// Why a path does not name one step, since a part of it is a list or is none.
    fn without_item(&self, path: &str) -> Option<(String, String)> {
        let parts: Vec<&str> = path.split('.').collect();
        let mut bare = String::new();
        for (index, part) in parts.iter().enumerate() {
            let name = part.split('[').next().unwrap_or_default();
            bare.push_str(if index == 0 { "" } else { "." });
            bare.push_str(name);
            let (is_list, has_item) = (self.plan.is_list(&bare), part.contains('['));
            let is_last = index + 1 == parts.len();
            let meant = match (is_list, has_item) {
                (true, false) if !is_last => format!("{name}[0]"),
                (false, true) => name.to_owned(),
                _ => continue,
            };
            let whole: Vec<&str> =
                parts.iter().enumerate().map(|(at, part)| if at == index { meant.as_str() } else { part }).collect();
            let (what, whole) = (if is_list { "a list" } else { "no list" }, whole.join("."));
            return Some((format!("`{bare}` is {what}"), format!("write `{whole}`")));
        }
        None
    }

    /// A workflow whose guests wait for signals may wait for any.
    fn signal(&mut self, name: &Spanned<String>) {
        let is_guests = self.plan.all_nodes().any(|node| node.grants.of("signal").is_some());
        if is_guests || self.plan.waits_for_signal(&name.value) {
            return;
        }
        let message = format!("no step waits for the signal `{}`", shorten(&name.value));
        let waited = self.plan.signals();
        let hint = match closest(&name.value, waited.iter().copied()) {
            Some(meant) => Some(format!("did you mean `{meant}`?")),
            None if waited.is_empty() => None,
            None => Some(format!("the signals are {}", all_of(waited.iter().copied().take(20)))),
        };
        self.problems.push(Diagnostic::new("unknown-signal", message, name.span).hint_maybe(hint));
    }
}
