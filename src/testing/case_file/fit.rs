//! What only the cases and their workflow together show: names of steps, handlers and signals, and
//! inputs that do not fit.

use super::templated::json_of;
use super::{Case, CaseFile};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of, closest};
use crate::workflow::interpreter::progress::without_items;
use crate::workflow::model::{Spanned, shorten};
use crate::workflow::plan::{ChildWorkflow, Node, Plan};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

impl CaseFile {
    /// Checks that the cases fit their workflow, whose host has these handlers.
    ///
    /// # Errors
    /// Fails if they do not: all problems are reported.
    pub fn check(&self, plan: &Plan, handlers: &[String]) -> Result<(), Diagnostics> {
        let mut problems = Diagnostics::new(self.source.clone());
        let mut fit = Fit { plan, handlers, paths: paths(plan), problems: &mut problems };
        self.cases.iter().for_each(|case| fit.case(case));
        problems.into_result()
    }
}

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
    /// The inputs of its run.
    ///
    /// # Errors
    /// Returns the place of a value that is not JSON, and why.
    pub(crate) fn given(&self) -> Result<Map<String, Value>, (crate::workflow::syntax::Span, &'static str)> {
        Ok(match self.inputs.as_ref().map(json_of).transpose()? {
            Some(Value::Object(inputs)) => inputs,
            _ => Map::new(),
        })
    }
}

struct Fit<'a> {
    plan: &'a Plan,
    handlers: &'a [String],
    paths: BTreeSet<String>,
    problems: &'a mut Diagnostics,
}

impl Fit<'_> {
    fn case(&mut self, case: &Case) {
        self.inputs(case);
        for rule in &case.answers {
            self.handler(&rule.call);
            rule.step.iter().for_each(|step| self.step(step));
        }
        for signal in &case.signals {
            self.signal(&signal.name);
        }
        let expect = &case.expect;
        for call in &expect.calls {
            self.handler(&call.call);
            call.step.iter().for_each(|step| self.step(step));
        }
        expect.steps.iter().for_each(|(path, _)| self.step(path));
        expect.order.iter().for_each(|path| self.step(path));
    }

    fn inputs(&mut self, case: &Case) {
        let whole = case.inputs.as_ref().map_or(case.name.span, |inputs| inputs.span);
        let given = match case.given() {
            Ok(given) => given,
            Err((span, why)) => return self.problems.push(Diagnostic::new("type", why, span)),
        };
        for violation in self.plan.inputs.accept(given).err().into_iter().flatten() {
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

    fn step(&mut self, path: &Spanned<String>) {
        let bare = without_items(&path.value);
        if self.plan.node(&bare).is_some() {
            return;
        }
        let known = || self.paths.iter().map(String::as_str);
        let within = known().find(|known| known.rsplit('.').next() == Some(&bare));
        let hint = match within.or_else(|| closest(&bare, known())) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("the steps are {}", all_of(known().take(20))),
        };
        let message = format!("the workflow has no step `{}`", shorten(&path.value));
        self.problems.push(Diagnostic::new("unknown-step", message, path.span).hint(hint));
    }

    /// A workflow whose guests wait for signals may wait for any.
    fn signal(&mut self, name: &Spanned<String>) {
        let is_guests = self.plan.all_nodes().any(|node| node.grants.of("signal").is_some());
        if is_guests || self.plan.waits_for_signal(&name.value) {
            return;
        }
        let message = format!("no step waits for the signal `{}`", shorten(&name.value));
        self.problems.push(Diagnostic::new("unknown-signal", message, name.span));
    }
}
