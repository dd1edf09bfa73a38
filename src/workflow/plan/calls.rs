//! Reports calls and grants that must fail, before anything runs: an unknown handler, a capability
//! or pattern without meaning, arguments that do not fit, a call that its step does not grant.
//!
//! Only what the file states is checked. The values of expressions are checked when the call is
//! made.

use super::arguments::{self, Argument};
use super::components::is_source;
use super::environment::{CallRequirements, Handlers};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of, closest};
use crate::workflow::model::{Action, Allowed, Spanned, Step, Workflow, shorten};
use crate::workflow::syntax::Node;
use serde_json::{Map, Value};

/// Most names that a hint lists. Arbitrary.
const NAMES_SHOWN_MAX: usize = 20;

/// Checks all grants and calls of a workflow.
pub(super) fn check(workflow: &Workflow, handlers: &dyn Handlers, problems: &mut Diagnostics) {
    let capabilities = handlers.capabilities();
    for step in workflow.all_steps() {
        let before = problems.count();
        for allowed in step.allow.iter().flatten() {
            check_allowed(allowed, &capabilities, handlers, problems);
        }
        // A grant with a problem cannot show whether it covers the call.
        let is_clear = problems.count() == before;
        if let Action::Call { handler } = &step.action {
            check_call(step, handler, workflow, handlers, is_clear, problems);
        }
    }
}

fn check_allowed(allowed: &Allowed, capabilities: &[String], handlers: &dyn Handlers, problems: &mut Diagnostics) {
    let Allowed { capability, patterns, is_whole } = allowed;
    let name = &capability.value;
    if !capabilities.contains(name) {
        let names = || capabilities.iter().map(String::as_str);
        let hint = match closest(name, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if handlers.names().contains(name) => format!("every step may call `{name}`: no grant is needed"),
            None => format!("the capabilities are {}", all_of(names().take(NAMES_SHOWN_MAX))),
        };
        let message = format!("no handler has the capability `{}`", shorten(name));
        problems.push(Diagnostic::new("unknown-capability", message, capability.span).hint(hint));
        return;
    }
    if patterns.is_empty() && *is_whole {
        let problem =
            Diagnostic::new("grant", format!("`{name}` has no pattern, so nothing is granted"), capability.span);
        problems.push(problem.hint(example(name, None)));
    }
    for pattern in patterns.iter().filter(|pattern| !pattern.value.contains("${")) {
        if let Err(why) = handlers.check_pattern(name, &pattern.value) {
            let problem = Diagnostic::new("grant", format!("not a pattern of `{name}`: {why}"), pattern.span);
            problems.push(problem.hint(example(name, None)));
        }
    }
}

/// An example of a grant.
fn example(capability: &str, pattern: Option<&str>) -> String {
    let pattern = pattern.unwrap_or(if capability == crate::process::handler::HTTP {
        "GET https://example.com/items/*"
    } else {
        "*"
    });
    format!("allow: {{ {capability}: [ \"{}\" ] }}", pattern.replace('\\', "\\\\").replace('"', "\\\""))
}

fn check_call(
    step: &Step,
    handler: &Spanned<String>,
    workflow: &Workflow,
    handlers: &dyn Handlers,
    is_clear: bool,
    problems: &mut Diagnostics,
) {
    let with = step.with.as_ref();
    let stated = stated(with);
    let Some(wants) = handlers.requirements(&handler.value, &Value::Object(stated.clone())) else {
        problems.push(unknown(handler, workflow, handlers));
        return;
    };
    let before = problems.count();
    if let Some(schema) = &wants.schema {
        let argument = Argument { handler, handlers };
        match with {
            Some(node) => argument.check(node, schema, problems),
            None => argument.check_absent(schema, problems),
        }
    }
    // Wrong arguments do not show which grant is needed.
    if is_clear && problems.count() == before {
        check_grant(step, handler, &wants, stated, handlers, problems);
    }
}

/// The arguments without expressions.
fn stated(with: Option<&Node>) -> Map<String, Value> {
    let entries = with.and_then(Node::as_mapping).unwrap_or_default();
    let literal = entries.iter().filter(|entry| !arguments::has_expression(&entry.value));
    literal.filter_map(|entry| Some((entry.key.clone(), entry.value.to_json().ok()?))).collect()
}

fn check_grant(
    step: &Step,
    handler: &Spanned<String>,
    wants: &CallRequirements,
    stated: Map<String, Value>,
    handlers: &dyn Handlers,
    problems: &mut Diagnostics,
) {
    let Some(capability) = &wants.capability else { return };
    let with = step.with.as_ref();
    let name = &handler.value;
    let hint = || {
        let starred = arguments::with_stars(with);
        example(capability, handlers.pattern_for(name, &starred).as_deref())
    };
    let Some(all) = &step.allow else { return };
    let Some(allowed) = all.iter().find(|allowed| allowed.capability.value == *capability) else {
        let id = &step.id.value;
        let message = format!("`{id}` may not call `{name}`: a step may do only what its `allow` lists");
        problems.push(Diagnostic::new("not-granted", message, handler.span).hint(hint()));
        return;
    };
    // A problem of the grant itself is reported already.
    if allowed.patterns.is_empty() || !allowed.is_whole || !decides(with, wants) {
        return;
    }
    let patterns: Vec<String> = allowed.patterns.iter().map(|pattern| pattern.value.clone()).collect();
    if let Err(why) = handlers.check_grant(name, &patterns, &Value::Object(stated)) {
        let message = format!("`{}` may not make this call: {why}", step.id.value);
        let problem = Diagnostic::new("not-granted", message, handler.span);
        problems.push(problem.related(allowed.capability.span, "granted here").hint(hint()));
    }
}

/// Returns whether the file states every argument that a grant depends on.
fn decides(with: Option<&Node>, wants: &CallRequirements) -> bool {
    let Some(with) = with else { return true };
    let Some(entries) = with.as_mapping() else { return !arguments::has_expression(with) };
    let matters = |key: &String| wants.grant_arguments.as_ref().is_none_or(|keys| keys.contains(key));
    !entries.iter().any(|entry| matters(&entry.key) && arguments::has_expression(&entry.value))
}

fn unknown(handler: &Spanned<String>, workflow: &Workflow, handlers: &dyn Handlers) -> Diagnostic {
    let name = handler.value.as_str();
    let known = handlers.names();
    let names = || known.iter().map(String::as_str);
    let is_component = workflow.components.iter().any(|component| component.name.value == name);
    let hint = match closest(name, names()) {
        _ if name.contains("${") => {
            "a handler cannot be chosen by an expression: use one step for each handler, each with an `if`".to_owned()
        }
        _ if is_component || is_source(name) && !name.contains("://") => {
            format!("run a component with `uses`: uses: {}", shorten(name))
        }
        _ if name.contains("://") => format!("write call: http, with: {{ url: \"{}\" }}", shorten(name)),
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the handlers are {}", all_of(names().take(NAMES_SHOWN_MAX))),
    };
    Diagnostic::new("unknown-handler", format!("there is no handler `{}`", shorten(name)), handler.span).hint(hint)
}
