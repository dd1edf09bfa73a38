//! Builds the plan from the model.

use super::children::{ChildFile, Children, InFile};
use super::edges::Edges;
use super::environment::Environment;
use super::expressions::{Dependency, TemplateReader};
use super::hints;
use super::references::{ExpressionSite, KnownNames, ListNames, SecretNames, unknown_need};
use super::template::Template;
use super::{
    Action, Block, Cache, Case, ChildWorkflow, Compensation, Node, PLAN_VERSION, Plan, Repeat, Secret, after, cache,
    calls, components, concurrency, handlers, schedules, secret_checks, waits,
};
use crate::process::{Grants, Limits};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::expression::Jq;
use crate::workflow::model::{self, ENTRY_DEFAULT, PARALLEL_DEFAULT, Step, When, Workflow};
use crate::workflow::syntax::{self, Source};
use serde_json::Value;
use std::sync::Arc;

/// Builds the plan. `None` if a file has problems; they are in `problems`, of the file itself and
/// the others.
pub(super) fn build(
    workflow: &Workflow,
    source: &Source,
    children: &Children,
    jq: &Jq,
    environment: &dyn Environment,
    (problems, theirs): (&mut Diagnostics, &mut [Diagnostics]),
) -> Option<Plan> {
    let mut found = components::Found::default();
    let own = InFile { children, at: None };
    let (mut concurrency, mut on) = (None, None);
    let block = read_file((workflow, source, own), jq, environment, (&mut found, problems), |templates| {
        schedules::check(workflow, jq, templates.problems);
        concurrency = concurrency::read(workflow, templates);
        on = after::read_on(workflow, templates);
    });
    let handlers = handlers::read(workflow, environment, problems);
    let read = |((at, file), problems): ((usize, &ChildFile), &mut Diagnostics)| {
        let workflow = file.workflow.as_ref()?;
        let in_file = InFile { children, at: Some(at) };
        let read = (workflow, &file.source, in_file);
        let block = read_file(read, jq, environment, (&mut found, problems), |_| {})?;
        Some(Arc::new(ChildWorkflow {
            file: file.path.clone(),
            name: workflow.name.as_deref().unwrap_or_else(|| stem(&file.path)).into(),
            inputs: workflow.inputs.clone(),
            block: Arc::new(Block { pointer: in_file.pointer(""), ..block }),
            ignored: ignored(workflow),
            secrets: workflow.secrets.iter().map(|declared| Arc::new(read_secret(declared))).collect(),
        }))
    };
    let workflows: Vec<_> = children.files.iter().enumerate().zip(theirs.iter_mut()).map(read).collect();
    if !problems.is_empty() || theirs.iter().any(|theirs| !theirs.is_empty()) {
        return None;
    }
    let Block { nodes, order, outputs, .. } = block?;
    let name = workflow.name.as_deref().unwrap_or_else(|| stem(source.name()));
    Some(Plan {
        version: PLAN_VERSION,
        name: name.into(),
        inputs: workflow.inputs.clone(),
        components: found.components,
        nodes,
        order,
        outputs,
        durability: workflow.durability,
        schedule: workflow.schedule.as_ref().map(|schedule| schedule.spec.clone()),
        concurrency,
        handlers,
        workflows: workflows.into_iter().collect::<Option<_>>()?,
        on: on?,
        grace: workflow.grace,
        secrets: workflow.secrets.iter().map(|declared| Arc::new(read_secret(declared))).collect(),
    })
}

/// The keys of a file that mean nothing for a workflow within another.
fn ignored(workflow: &Workflow) -> Vec<String> {
    let keys = [
        ("schedule", workflow.schedule.is_some()),
        ("concurrency", workflow.concurrency.is_some()),
        ("handlers", !workflow.handlers.is_empty()),
        ("on", !workflow.on.is_empty()),
        ("grace", workflow.grace.is_some()),
        ("durability", workflow.durability != model::Durability::default()),
    ];
    keys.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key.to_owned()).collect()
}

/// Reads the steps and outputs of a file; `other` reads what else has expressions. `None` if there
/// is a problem.
fn read_file<'a>(
    (workflow, source, in_file): (&'a Workflow, &'a Source, InFile<'a>),
    jq: &'a Jq,
    environment: &dyn Environment,
    (found, problems): (&mut components::Found, &'a mut Diagnostics),
    other: impl FnOnce(&mut TemplateReader<'a>),
) -> Option<Block> {
    components::find((workflow, source, in_file), environment, found, problems);
    if let Some(handlers) = environment.handlers() {
        calls::check(workflow, handlers, problems);
        in_file.check_inputs(workflow, handlers, problems);
    }
    secret_checks::check(workflow, environment.handlers(), problems);
    let within = workflow.all_steps().filter_map(|step| Some((step.id.value.as_str(), step.path.rsplit_once('.')?.0)));
    let names = KnownNames {
        inputs: &workflow.inputs,
        lists: Vec::new(),
        within: within.collect(),
        secrets: SecretNames::of(workflow),
        hints: true,
    };
    let mut templates = TemplateReader {
        source,
        jq,
        names,
        problems,
        dependencies: Vec::new(),
        expressions: 0,
        outer: ExpressionSite::OUTPUTS,
        in_file,
    };
    let block = read_list(&workflow.steps, &workflow.unread, workflow.outputs.as_ref(), workflow, &mut templates);
    other(&mut templates);
    block
}

fn read_secret(declared: &model::SecretDecl) -> Secret {
    Secret {
        name: declared.name.value.as_str().into(),
        from: declared.from.clone(),
        hosts: declared.hosts.iter().map(|host| host.value.clone()).collect(),
        headers: declared.headers.clone(),
    }
}

/// The name of a workflow without `name`: its file's name without the extension.
fn stem(path: &str) -> &str {
    std::path::Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or("workflow")
}

/// Reads a list of steps and its outputs. What they depend on outside is left for the step that the
/// list is within. `None` if there is a problem.
pub(super) fn read_list<'a>(
    steps: &'a [Step],
    unread: &'a [String],
    outputs: Option<&syntax::Node>,
    workflow: &'a Workflow,
    templates: &mut TemplateReader<'a>,
) -> Option<Block> {
    let before = templates.take_dependencies();
    for step in steps.iter().filter(|step| templates.names.steps().any(|id| id == step.id.value)) {
        let message = format!("a step outside has the id `{}`, too", step.id.value);
        let problem = Diagnostic::new("duplicate-id", message, step.id.span);
        templates.problems.push(problem.hint("`.steps` has both, so their ids must differ"));
    }
    let ids: Vec<&str> = steps.iter().map(|step| step.id.value.as_str()).collect();
    let gives = steps.iter().map(|step| templates.in_file.outputs(step)).collect();
    templates.names.lists.push(ListNames { steps: ids.clone(), unread, gives });
    let mut list = List { edges: Edges::new(ids.len()), outside: before, depth: templates.names.lists.len() - 1 };
    let read = |(index, step): (usize, &'a Step)| read_step(index, step, workflow, templates, &mut list);
    let parts: Vec<_> = steps.iter().enumerate().map(read).collect();
    let outputs = read_outputs(outputs, templates, &mut list);
    templates.names.lists.pop();
    let List { edges, outside, .. } = list;
    templates.dependencies = outside;
    if !edges.report_cycles(&ids, templates.problems) {
        return None;
    }
    let parts: Vec<StepTemplates> = parts.into_iter().collect::<Option<_>>()?;
    let in_file = templates.in_file;
    let make = |(index, (step, parts))| Arc::new(make_node(step, parts, edges.of(index), (workflow, in_file)));
    let nodes = steps.iter().zip(parts).enumerate().map(make).collect();
    Some(Block { pointer: String::new(), nodes, order: edges.order(), outputs: outputs? })
}

/// A list of steps that is read.
pub(super) struct List {
    pub(super) edges: Edges,
    /// What its steps depend on outside it.
    pub(super) outside: Vec<Dependency>,
    /// The number of lists that it is within.
    pub(super) depth: usize,
}

/// The templates of a step.
pub(super) struct StepTemplates {
    action: Action,
    condition: Option<Template>,
    for_each: Option<Template>,
    repeat: Option<Repeat>,
    cache: Option<Cache>,
    compensate: Option<Compensation>,
}

/// The site of what is evaluated for each item and turn of a step.
fn each_of(step: &Step, outer: ExpressionSite) -> ExpressionSite {
    let mut each = ExpressionSite::each(step.when, step.for_each.is_some()).within(outer);
    each.turn |= step.repeat.is_some();
    each
}

/// Reads all templates of a step and adds its dependencies. `None` if one of them has a problem.
fn read_step<'a>(
    index: usize,
    step: &'a Step,
    workflow: &'a Workflow,
    templates: &mut TemplateReader<'a>,
    list: &mut List,
) -> Option<StepTemplates> {
    let parts = read_parts(step, workflow, templates);
    add_edges(index, step, templates, list);
    if step.when != When::Succeeded && list.edges.of(index).is_empty() {
        let message = format!("`{}` depends on no step, so its `when` has no effect", step.id.value);
        let problem = Diagnostic::new("when", message, step.id.span);
        templates.problems.push(problem.hint("name the steps that it reacts to: needs: [ … ]"));
    }
    let Some(undo) = &step.compensate else { return parts };
    let site = each_of(step, templates.outer);
    let compensate = after::read_compensation((index, step), undo, (workflow, site), templates, list);
    Some(StepTemplates { compensate: Some(compensate?), ..parts? })
}

/// Reads all templates of a step. `None` if one of them has a problem.
pub(super) fn read_parts<'a>(
    step: &'a Step,
    workflow: &'a Workflow,
    templates: &mut TemplateReader<'a>,
) -> Option<StepTemplates> {
    let outer = templates.outer;
    let once = ExpressionSite::once(step.when).within(outer);
    let each = each_of(step, outer);
    let condition = step.condition.as_ref().map(|node| templates.whole(node, "if", once));
    let for_each = step.for_each.as_ref().map(|node| templates.whole(node, "for-each", once));
    let in_with = ExpressionSite { secrets: true, ..each };
    templates.names.secrets.listed = step.secrets.iter().map(|name| name.value.as_str()).collect();
    let mut with =
        || step.with.as_ref().map_or(Some(Template::Literal(Value::Null)), |node| templates.value(node, in_with));
    let action = match &step.action {
        model::Action::Uses { component, entry } => with().map(|with| Action::Uses {
            component: templates.in_file.component(workflow, &component.value).into(),
            entry: entry.value.as_str().into(),
            with,
        }),
        model::Action::Script(_) => with().map(|with| Action::Uses {
            component: templates.in_file.inline(step).into(),
            entry: ENTRY_DEFAULT.into(),
            with,
        }),
        model::Action::Call { handler } => {
            with().map(|with| Action::Call { handler: handler.value.as_str().into(), with })
        }
        model::Action::Wait(_)
        | model::Action::Until(_)
        | model::Action::Signal { .. }
        | model::Action::Any { .. }
        | model::Action::All { .. } => waits::read_wait(step, templates, each),
        model::Action::Set(node) => templates.value(node, each).map(Action::Set),
        model::Action::Steps(block) => {
            read_inner(block, each, workflow, templates).map(|block| Action::Steps(Arc::new(block)))
        }
        model::Action::Switch(cases) => {
            let read = |case: &'a model::Case| {
                let condition = case.condition.as_ref().map(|node| templates.whole(node, "if", each));
                let block = Arc::new(read_inner(&case.block, each, workflow, templates)?);
                Some(Case { condition: transpose(condition)?, block })
            };
            let cases: Vec<_> = cases.iter().map(read).collect();
            cases.into_iter().collect::<Option<_>>().map(Action::Switch)
        }
        // A file that could not be read is reported already.
        model::Action::Workflow { file } => with()
            .zip(templates.in_file.child(&file.value))
            .map(|(with, (at, child))| Action::Workflow { workflow: at, with, stores: child.stores }),
    };
    let repeat = step.repeat.as_ref().map(|repeat| read_repeat(repeat, templates, each));
    let cache = cache::read(step.cache.as_ref(), templates, each);
    let repeat = if let Some(read) = repeat { Some(read?) } else { None };
    let (condition, for_each) = (transpose(condition)?, transpose(for_each)?);
    Some(StepTemplates { action: action?, condition, for_each, repeat, cache: cache?, compensate: None })
}

/// `None` if there is a part that has a problem.
#[allow(clippy::option_option, reason = "the outer one is whether all is well")]
fn transpose(part: Option<Option<Template>>) -> Option<Option<Template>> {
    part.map_or(Some(None), |part| part.map(Some))
}

/// Reads how often a step runs.
fn read_repeat(repeat: &model::Repeat, templates: &mut TemplateReader<'_>, site: ExpressionSite) -> Option<Repeat> {
    let until = repeat.until.as_ref().map(|node| templates.whole(node, "until", site));
    let while_true = repeat.while_true.as_ref().map(|node| templates.whole(node, "while", site));
    let (until, while_true) = (transpose(until)?, transpose(while_true)?);
    Some(Repeat { until, while_true, max: repeat.max, delay: repeat.delay })
}

/// Reads the steps within a step at a site.
fn read_inner<'a>(
    block: &'a model::Block,
    site: ExpressionSite,
    workflow: &'a Workflow,
    templates: &mut TemplateReader<'a>,
) -> Option<Block> {
    let outer = std::mem::replace(&mut templates.outer, site);
    let read = read_list(&block.steps, &block.unread, block.outputs.as_ref(), workflow, templates);
    templates.outer = outer;
    let pointer = templates.in_file.pointer(block.pointer.strip_suffix("/steps").unwrap_or_default());
    read.map(|read| Block { pointer, ..read })
}

fn add_edges(index: usize, step: &Step, templates: &mut TemplateReader<'_>, list: &mut List) {
    let List { edges, outside, depth } = list;
    let id = &step.id.value;
    let own = |span| {
        Diagnostic::new("own-output", format!("`{id}` cannot wait for itself"), span)
            .hint("the output of a step exists only after the step has ended")
    };
    for need in step.needs.iter().flatten() {
        templates.names.hints = !templates.problems.is_full();
        match templates.names.list().steps.iter().position(|known| *known == need.value) {
            Some(to) if to == index => templates.problems.push(own(need.span)),
            Some(to) => edges.add(index, to, need.span),
            None if templates.names.list().unread.contains(&need.value) => {}
            None => {
                let wrong = unknown_need(&templates.names, &need.value, id);
                templates.problems.push(Diagnostic::new(wrong.code, wrong.message, need.span).hint(wrong.hint));
            }
        }
    }
    for dependency in templates.take_dependencies() {
        match dependency {
            Dependency::Step(of, ..) if of < *depth => outside.push(dependency),
            Dependency::Step(_, to, span) if to == index => templates.problems.push(own(span)),
            Dependency::Step(_, to, span) => edges.add(index, to, span),
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

fn read_outputs(
    node: Option<&syntax::Node>,
    templates: &mut TemplateReader<'_>,
    list: &mut List,
) -> Option<Vec<(String, Template)>> {
    let entries = node.and_then(|node| node.as_mapping()).unwrap_or(&[]);
    let site = ExpressionSite::OUTPUTS.within(templates.outer);
    let read = entries.iter().map(|entry| Some((entry.key.clone(), templates.value(&entry.value, site)?)));
    let outputs: Vec<_> = read.collect();
    // Outputs are evaluated after every step of the list, so those add no dependencies.
    let is_outside = |dependency: &Dependency| matches!(dependency, Dependency::Step(of, ..) if *of < list.depth);
    list.outside.extend(templates.take_dependencies().into_iter().filter(is_outside));
    outputs.into_iter().collect()
}

pub(super) fn make_node(
    step: &Step,
    parts: StepTemplates,
    needs: Vec<usize>,
    (workflow, in_file): (&Workflow, InFile<'_>),
) -> Node {
    let StepTemplates { action, condition, for_each, repeat, cache, compensate } = parts;
    let mut limits = Limits::default();
    workflow.defaults.limits.apply(&mut limits);
    if let model::Action::Uses { component, .. } = &step.action
        && let Some(declared) = workflow.components.iter().find(|declared| declared.name.value == component.value)
    {
        declared.limits.apply(&mut limits);
    }
    step.limits.apply(&mut limits);
    let grants = step.allow.iter().flatten().map(|allowed| {
        let patterns = allowed.patterns.iter().map(|pattern| pattern.value.clone());
        (allowed.capability.value.clone(), patterns.collect())
    });
    let acts = matches!(action, Action::Uses { .. } | Action::Call { .. });
    let defaults = acts.then_some(&workflow.defaults);
    let acts = acts || action.has_block();
    Node {
        id: step.id.value.as_str().into(),
        pointer: in_file.pointer(&step.pointer),
        needs,
        condition,
        when: step.when,
        max_parallel: step.max_parallel.unwrap_or(PARALLEL_DEFAULT),
        for_each,
        retry: step.retry.or(defaults.and_then(|defaults| defaults.retry)).filter(|retry| acts && retry.max > 0),
        repeat,
        cache,
        timeout: step.timeout.or(defaults.and_then(|defaults| defaults.timeout)).filter(|_| acts),
        continue_on_error: step.continue_on_error,
        limits: Arc::new(limits),
        grants: Grants(Arc::new(grants.collect())),
        secrets: workflow
            .secrets
            .iter()
            .filter(|declared| step.secrets.iter().any(|name| name.value == declared.name.value))
            .map(|declared| Arc::new(read_secret(declared)))
            .collect(),
        action,
        compensate,
    }
}
