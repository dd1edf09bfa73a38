//! Builds the plan from the model.

use super::edges::Edges;
use super::environment::Environment;
use super::expressions::{Dependency, TemplateReader};
use super::hints;
use super::references::{ExpressionSite, KnownNames, unknown_need};
use super::template::Template;
use super::{Action, Node, PLAN_VERSION, Plan, calls, components, concurrency, schedules};
use crate::process::{Grants, Limits};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::expression::Jq;
use crate::workflow::model::{self, ENTRY_DEFAULT, INLINE, PARALLEL_DEFAULT, Step, When, Workflow};
use crate::workflow::syntax::Source;
use serde_json::Value;
use std::sync::Arc;

/// Builds the plan. `None` if the file has problems; they are in `problems`.
pub(super) fn build(
    workflow: &Workflow,
    source: &Source,
    jq: &Jq,
    environment: &dyn Environment,
    problems: &mut Diagnostics,
) -> Option<Plan> {
    let ids: Vec<&str> = workflow.steps.iter().map(|step| step.id.value.as_str()).collect();
    let components = components::find(workflow, source, environment, problems);
    if let Some(handlers) = environment.handlers() {
        calls::check(workflow, handlers, problems);
    }
    let names = KnownNames { inputs: &workflow.inputs, steps: &ids, unread: &workflow.unread, hints: true };
    let mut templates = TemplateReader { source, jq, names, problems, dependencies: Vec::new(), expressions: 0 };
    let mut edges = Edges::new(ids.len());
    let read = |(index, step): (usize, &Step)| read_step(index, step, &mut templates, &mut edges);
    let parts: Vec<_> = workflow.steps.iter().enumerate().map(read).collect();
    let outputs = read_outputs(workflow, &mut templates);
    schedules::check(workflow, jq, templates.problems);
    let concurrency = concurrency::read(workflow, &mut templates);
    let acyclic = edges.report_cycles(&ids, problems);
    if !acyclic || !problems.is_empty() {
        return None;
    }
    let parts: Vec<StepTemplates> = parts.into_iter().collect::<Option<_>>()?;
    let nodes: Vec<Node> = workflow
        .steps
        .iter()
        .zip(parts)
        .enumerate()
        .map(|(index, (step, parts))| make_node(step, parts, edges.of(index), workflow))
        .collect();
    let name = workflow.name.as_deref().unwrap_or_else(|| stem(source.name()));
    Some(Plan {
        version: PLAN_VERSION,
        name: name.into(),
        inputs: workflow.inputs.clone(),
        components,
        nodes,
        order: edges.order(),
        outputs: outputs?,
        durability: workflow.durability,
        schedule: workflow.schedule.as_ref().map(|schedule| schedule.spec.clone()),
        concurrency,
    })
}

/// The name of a workflow without `name`: its file's name without the extension.
fn stem(path: &str) -> &str {
    std::path::Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or("workflow")
}

/// The templates of a step.
struct StepTemplates {
    action: Action,
    condition: Option<Template>,
    for_each: Option<Template>,
}

/// Reads all templates of a step and adds its dependencies. `None` if one of them has a problem.
fn read_step(
    index: usize,
    step: &Step,
    templates: &mut TemplateReader<'_>,
    edges: &mut Edges,
) -> Option<StepTemplates> {
    let once = ExpressionSite::once(step.when);
    let each = ExpressionSite::each(step.when, step.for_each.is_some());
    let condition = step.condition.as_ref().map(|node| templates.whole(node, "if", once));
    let for_each = step.for_each.as_ref().map(|node| templates.whole(node, "for-each", once));
    let mut with =
        || step.with.as_ref().map_or(Some(Template::Literal(Value::Null)), |node| templates.value(node, each));
    let action = match &step.action {
        model::Action::Uses { component, entry } => with().map(|with| Action::Uses {
            component: component.value.as_str().into(),
            entry: entry.value.as_str().into(),
            with,
        }),
        model::Action::Script(_) => with().map(|with| Action::Uses {
            component: format!("{INLINE}{}", step.id.value).into(),
            entry: ENTRY_DEFAULT.into(),
            with,
        }),
        model::Action::Call { handler } => {
            with().map(|with| Action::Call { handler: handler.value.as_str().into(), with })
        }
        model::Action::Wait(node) => templates.value(node, each).map(Action::Wait),
        model::Action::Signal { name, timeout, prompt } => {
            let name = templates.value(name, each);
            let timeout = timeout.as_ref().map_or(Some(None), |node| templates.value(node, each).map(Some));
            let prompt = read_prompt(prompt, templates, each);
            name.zip(timeout).zip(prompt).map(|((name, timeout), entries)| {
                let prompt = (!entries.is_empty()).then_some(Template::Object(entries));
                Action::Signal { name, timeout, prompt }
            })
        }
        model::Action::Set(node) => templates.value(node, each).map(Action::Set),
    };
    add_edges(index, step, templates, edges);
    if step.when != When::Succeeded && edges.of(index).is_empty() {
        let message = format!("`{}` depends on no step, so its `when` has no effect", step.id.value);
        let problem = Diagnostic::new("when", message, step.id.span);
        templates.problems.push(problem.hint("name the steps that it reacts to: needs: [ … ]"));
    }
    let transpose = |part: Option<Option<Template>>| part.map_or(Some(None), |part| part.map(Some));
    Some(StepTemplates { action: action?, condition: transpose(condition)?, for_each: transpose(for_each)? })
}

/// What a person is shown who sends a signal. `None` if there is a problem.
fn read_prompt(
    prompt: &model::Prompt,
    templates: &mut TemplateReader<'_>,
    site: ExpressionSite,
) -> Option<Vec<(String, Template)>> {
    let mut entries = Vec::new();
    for (key, node) in [("title", &prompt.title), ("text", &prompt.text)] {
        if let Some(node) = node {
            entries.push((key.to_owned(), templates.value(node, site)));
        }
    }
    if let Some(schema) = &prompt.schema {
        entries.push(("schema".to_owned(), Some(Template::Literal(schema.clone()))));
    }
    entries.into_iter().map(|(key, value)| Some((key, value?))).collect()
}

fn add_edges(index: usize, step: &Step, templates: &mut TemplateReader<'_>, edges: &mut Edges) {
    let id = &step.id.value;
    let own = |span| {
        Diagnostic::new("own-output", format!("`{id}` cannot wait for itself"), span)
            .hint("the output of a step exists only after the step has ended")
    };
    for need in step.needs.iter().flatten() {
        templates.names.hints = !templates.problems.is_full();
        match templates.names.steps.iter().position(|known| *known == need.value) {
            Some(to) if to == index => templates.problems.push(own(need.span)),
            Some(to) => edges.add(index, to, need.span),
            None if templates.names.unread.contains(&need.value) => {}
            None => {
                let wrong = unknown_need(&templates.names, &need.value, id);
                templates.problems.push(Diagnostic::new(wrong.code, wrong.message, need.span).hint(wrong.hint));
            }
        }
    }
    for dependency in templates.take_dependencies() {
        match dependency {
            Dependency::Step(to, span) if to == index => templates.problems.push(own(span)),
            Dependency::Step(to, span) => edges.add(index, to, span),
            Dependency::Unknown(span) if step.needs.is_none() => {
                let compared = hints::assigns(templates.source.slice(span));
                let hint = "name the steps that it reads: needs: [ … ], or `needs: []` if it reads none";
                templates.problems.push(
                    Diagnostic::new(
                        "unknown-dependency",
                        "this expression can read any step, so its dependencies are unknown",
                        span,
                    )
                    .hint(hint)
                    .hint_maybe(compared),
                );
            }
            Dependency::Unknown(_) => {}
        }
    }
}

fn read_outputs(workflow: &Workflow, templates: &mut TemplateReader<'_>) -> Option<Vec<(String, Template)>> {
    let entries = workflow.outputs.as_ref().and_then(|node| node.as_mapping()).unwrap_or(&[]);
    let read =
        entries.iter().map(|entry| Some((entry.key.clone(), templates.value(&entry.value, ExpressionSite::OUTPUTS)?)));
    let outputs: Vec<_> = read.collect();
    // Outputs are evaluated after every step, so they add no dependencies.
    templates.take_dependencies();
    outputs.into_iter().collect()
}

fn make_node(step: &Step, parts: StepTemplates, needs: Vec<usize>, workflow: &Workflow) -> Node {
    let StepTemplates { action, condition, for_each } = parts;
    let mut limits = Limits::default();
    workflow.defaults.limits.apply(&mut limits);
    if let Action::Uses { component, .. } = &action
        && let Some(declared) = workflow.components.iter().find(|declared| *declared.name.value == **component)
    {
        declared.limits.apply(&mut limits);
    }
    step.limits.apply(&mut limits);
    let grants = step.allow.iter().flatten().map(|allowed| {
        let patterns = allowed.patterns.iter().map(|pattern| pattern.value.clone());
        (allowed.capability.value.clone(), patterns.collect())
    });
    let acts = matches!(action, Action::Uses { .. } | Action::Call { .. });
    Node {
        id: step.id.value.as_str().into(),
        pointer: format!("/steps/{}", step.index),
        needs,
        condition,
        when: step.when,
        max_parallel: step.max_parallel.unwrap_or(PARALLEL_DEFAULT),
        for_each,
        retry: step.retry.or(workflow.defaults.retry).filter(|retry| acts && retry.max > 0),
        timeout: step.timeout.or(workflow.defaults.timeout).filter(|_| acts),
        continue_on_error: step.continue_on_error,
        limits: Arc::new(limits),
        grants: Grants(Arc::new(grants.collect())),
        action,
    }
}
