//! What the expressions of a case read: names that do not exist are reported with their places.

use super::fit::Fit;
use super::templated::Templated;
use super::{Case, Reply, ReplyKind, Rule};
use crate::workflow::diagnostics::{Diagnostic, all_of, closest};
use crate::workflow::expression::References;
use crate::workflow::model::shorten;

/// What expressions of `answers` see.
const OF_ANSWERS: &[&str] = &["args", "step", "count", "inputs"];
/// What those of expected calls see.
const OF_CALLS: &[&str] = &["args", "step", "inputs"];
/// The facts.
const FACTS: &[&str] = &["inputs", "outputs", "status", "problem", "steps", "calls", "logs", "takes"];
/// What a step has in the facts.
const STEP: &[&str] = &["status", "attempts", "error"];
/// What a call has in the facts.
const CALL: &[&str] = &["call", "step", "args", "sends"];
/// What a problem has.
const PROBLEM: &[&str] = &["kind", "title", "status", "detail", "class", "may-have-happened", "retry-after", "data"];

/// Why a name does not exist: what is wrong, and a hint.
type Unknown = (String, String);

impl Fit<'_> {
    /// Checks what all expressions of a case read.
    pub(super) fn reads(&mut self, case: &Case) {
        let expect = &case.expect;
        for call in &expect.calls {
            call.with.iter().chain(&call.condition).for_each(|one| self.expressions(one, OF_CALLS));
        }
        let problem = expect.problem.iter().map(|problem| &problem.members);
        let facts = expect.outputs.iter().chain(&expect.outputs_match).chain(&expect.that).chain(problem);
        facts.for_each(|one| self.expressions(one, FACTS));
    }

    /// Checks what the expressions of an entry of `answers` read.
    pub(super) fn reads_of_answer(&mut self, rule: &Rule) {
        rule.with.iter().chain(&rule.condition).for_each(|one| self.expressions(one, OF_ANSWERS));
        rule.replies.iter().chain(&rule.repeated).for_each(|reply| self.expressions(said(reply), OF_ANSWERS));
    }

    fn expressions(&mut self, templated: &Templated, roots: &[&str]) {
        let mut found = Vec::new();
        for (pointer, placed) in templated.expressions() {
            let References::Paths(paths) = placed.expression.references() else { continue };
            for reference in paths {
                if let Err(unknown) = self.resolve(&reference.path, roots) {
                    found.push((
                        templated.part(self.problems.source(), (pointer, placed), reference.span.clone()),
                        unknown,
                    ));
                }
            }
            if !roots.contains(&"calls") {
                continue;
            }
            for (key, range) in placed.expression.keys_of_items("calls") {
                if !CALL.contains(&key.as_str()) {
                    let unknown = unknown("a call", &key, ".calls[0].", CALL);
                    found.push((templated.part(self.problems.source(), (pointer, placed), range), unknown));
                }
            }
        }
        for (span, (message, hint)) in found {
            self.problems.push(Diagnostic::new("unknown-reference", message, span).hint(hint));
        }
    }

    fn resolve(&self, path: &[String], roots: &[&str]) -> Result<(), Unknown> {
        let Some((root, rest)) = path.split_first() else { return Ok(()) };
        if !roots.contains(&root.as_str()) {
            return Err(unknown("an expression", root, ".", roots));
        }
        let Some(name) = rest.first() else { return Ok(()) };
        match root.as_str() {
            "inputs" => {
                let names: Vec<&str> = self.plan.inputs.0.iter().map(|input| input.name.as_str()).collect();
                known("the workflow has no input", name, ".inputs.", &names)
            }
            "outputs" => {
                let names: Vec<&str> = self.plan.outputs.iter().map(|(name, _)| name.as_str()).collect();
                known("the workflow has no output", name, ".outputs.", &names)
            }
            "problem" if !PROBLEM.contains(&name.as_str()) => Err(unknown("a problem", name, ".problem.", PROBLEM)),
            "steps" => self.resolve_step(name, rest.get(1)),
            _ => Ok(()),
        }
    }

    fn resolve_step(&self, path: &str, field: Option<&String>) -> Result<(), Unknown> {
        self.unknown_path(path, true).map_or(Ok(()), Err)?;
        let Some(field) = field.filter(|field| !STEP.contains(&field.as_str())) else { return Ok(()) };
        let inner = format!("{path}.{field}");
        if self.plan.node(&crate::workflow::interpreter::progress::without_items(&inner)).is_some() {
            let hint = format!("write the path of a step within another as .steps[\"{}\"]", self.with_items(&inner));
            return Err((format!("a step has {}, but no `{field}`", all_of(STEP.iter().copied())), hint));
        }
        if field == "output" {
            let message = "a test does not see the output of a step".to_owned();
            let hint =
                "name it in the workflow's `outputs`, or expect what is sent: calls: [ { call: http, with: … } ]";
            return Err((message, hint.to_owned()));
        }
        let is_word = path.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let prefix = if is_word { format!(".steps.{path}.") } else { format!(".steps[\"{path}\"].") };
        Err(unknown("a step", field, &prefix, STEP))
    }
}

/// What a server says, with its expressions.
fn said(reply: &Reply) -> &Templated {
    match &reply.kind {
        ReplyKind::Answer(templated) | ReplyKind::Response(templated) => templated,
        ReplyKind::Problem { members, .. } => members,
    }
}

fn unknown(what: &str, name: &str, prefix: &str, names: &[&str]) -> Unknown {
    let message = format!("{what} has {}, but no `{}` here", all_of(names.iter().copied()), shorten(name));
    let hint = match closest(name, names.iter().copied()) {
        Some(meant) => format!("did you mean `{prefix}{meant}`?"),
        None => "docs/testing.md says what expressions of a test see".to_owned(),
    };
    (message, hint)
}

fn known(what: &str, name: &str, prefix: &str, names: &[&str]) -> Result<(), Unknown> {
    if names.contains(&name) {
        return Ok(());
    }
    let dashed = names.iter().find(|known| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')));
    let hint = match (dashed, closest(name, names.iter().copied())) {
        (Some(dashed), _) => format!("write a name with a dash as {}[\"{dashed}\"]", prefix.trim_end_matches('.')),
        (None, Some(meant)) => format!("did you mean `{prefix}{meant}`?"),
        (None, None) if names.is_empty() => "it declares none".to_owned(),
        (None, None) => format!("they are {}", all_of(names.iter().copied().take(20))),
    };
    Err((format!("{what} `{}`", shorten(name)), hint))
}
