//! Reads what a step waits for.

use super::expressions::TemplateReader;
use super::references::ExpressionSite;
use super::template::Template;
use super::{Action, Block, Node, Part};
use crate::process::{Grants, Limits};
use crate::workflow::model::{self, PARALLEL_DEFAULT, Step, When};
use crate::workflow::syntax;
use std::sync::Arc;

/// The action of a step with `wait`. `None` if it has a problem.
pub(super) fn read_wait(step: &Step, templates: &mut TemplateReader<'_>, site: ExpressionSite) -> Option<Action> {
    match &step.action {
        model::Action::Wait(node) => templates.value(node, site).map(Action::Wait),
        model::Action::Until(node) => templates.value(node, site).map(Action::Until),
        model::Action::Signal { name, timeout, prompt } => {
            let name = templates.value(name, site);
            let timeout = read_timeout(timeout.as_ref(), templates, site);
            let prompt = read_prompt(prompt, templates, site);
            Some(Action::Signal { name: name?, timeout: timeout?, prompt: prompt? })
        }
        model::Action::Any { parts, timeout } => {
            let read: Vec<_> = parts.iter().map(|part| read_part(part, templates, site)).collect();
            let timeout = read_timeout(timeout.as_ref(), templates, site);
            let named = parts.iter().zip(read).map(|(part, read)| Some((part.name.value.as_str().into(), read?)));
            Some(Action::Any { parts: named.collect::<Option<_>>()?, timeout: timeout? })
        }
        model::Action::All { parts, timeout } => {
            let timeout = read_timeout(timeout.as_ref(), templates, site);
            let read: Vec<_> = parts.iter().map(|part| read_part(part, templates, site)).collect();
            let timeout = timeout?;
            let make =
                |(part, read): (&model::Part, Option<Part>)| Some(Arc::new(node(step, part, read?, timeout.as_ref())));
            let nodes: Vec<_> = parts.iter().zip(read).map(make).collect::<Option<_>>()?;
            let order = (0..nodes.len()).collect();
            Some(Action::All(Arc::new(Block { pointer: step.pointer.clone(), nodes, order, outputs: Vec::new() })))
        }
        _ => unreachable!("invariant: the action of a step with `wait`"),
    }
}

fn read_part(part: &model::Part, templates: &mut TemplateReader<'_>, site: ExpressionSite) -> Option<Part> {
    match &part.action {
        model::Action::Wait(node) => templates.value(node, site).map(Part::Wait),
        model::Action::Until(node) => templates.value(node, site).map(Part::Until),
        model::Action::Signal { name, prompt, .. } => {
            let name = templates.value(name, site);
            let prompt = read_prompt(prompt, templates, site);
            Some(Part::Signal { name: name?, prompt: prompt? })
        }
        _ => unreachable!("invariant: one of several waits is for one thing"),
    }
}

/// The node of one of several waits that all must end.
fn node(step: &Step, part: &model::Part, read: Part, timeout: Option<&Template>) -> Node {
    Node {
        id: part.name.value.as_str().into(),
        pointer: format!("{}/wait/all/{}", step.pointer, part.name.value),
        action: match read {
            Part::Wait(template) => Action::Wait(template),
            Part::Until(template) => Action::Until(template),
            Part::Signal { name, prompt } => Action::Signal { name, timeout: timeout.cloned(), prompt },
        },
        needs: Vec::new(),
        condition: None,
        when: When::Succeeded,
        for_each: None,
        max_parallel: PARALLEL_DEFAULT,
        retry: None,
        repeat: None,
        timeout: None,
        cache: None,
        continue_on_error: false,
        limits: Arc::new(Limits::default()),
        grants: Grants::default(),
        compensate: None,
        secrets: Vec::new(),
    }
}

#[allow(clippy::option_option, reason = "the outer one is whether all is well")]
fn read_timeout(
    node: Option<&syntax::Node>,
    templates: &mut TemplateReader<'_>,
    site: ExpressionSite,
) -> Option<Option<Template>> {
    node.map_or(Some(None), |node| templates.value(node, site).map(Some))
}

/// What a person is shown who sends a signal. `None` if there is a problem.
#[allow(clippy::option_option, reason = "the outer one is whether all is well")]
fn read_prompt(
    prompt: &model::Prompt,
    templates: &mut TemplateReader<'_>,
    site: ExpressionSite,
) -> Option<Option<Template>> {
    let mut entries = Vec::new();
    for (key, node) in [("title", &prompt.title), ("text", &prompt.text)] {
        if let Some(node) = node {
            entries.push((key.to_owned(), templates.value(node, site)));
        }
    }
    if let Some(schema) = &prompt.schema {
        entries.push(("schema".to_owned(), Some(Template::Literal(schema.clone()))));
    }
    let entries: Vec<_> = entries.into_iter().map(|(key, value)| Some((key, value?))).collect::<Option<_>>()?;
    Some((!entries.is_empty()).then_some(Template::Object(entries)))
}
