//! What a valid plan says that was hardly meant: it runs all the same.

use super::hints::assigns;
use super::{Action, Node, Plan, Template};
use crate::workflow::diagnostics::one_of;
use crate::workflow::expression::{Expression, References};
use serde_json::Value;

/// What an answer of `http` has.
const ANSWER: [&str; 5] = ["status", "url", "headers", "encoding", "body"];

/// Something that was hardly meant, and what probably was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// A JSON Pointer to the step in the file; `/outputs` for the outputs of the workflow.
    pub pointer: String,
    /// What it is.
    pub message: String,
    /// What probably was meant.
    pub hint: String,
}

impl Plan {
    /// What was hardly meant, in the order of the file.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut look = |pointer: &str, template: &Template| {
            each(template, &mut |expression| {
                let found = self.beside_the_body(expression);
                warnings.extend(found.map(|(message, hint)| Warning { pointer: pointer.to_owned(), message, hint }));
            });
        };
        for node in &self.nodes {
            for template in templates(node) {
                look(&node.pointer, template);
            }
        }
        for (_, template) in &self.outputs {
            look("/outputs", template);
        }
        for node in &self.nodes {
            if let Some(Template::Text(text)) = &node.condition
                && let Some(placed) = text.template().expressions().next()
                && let Some(hint) = assigns(placed.expression.text())
            {
                let message = "`=` sets a value, and gives all of what it was set in: no condition".to_owned();
                warnings.push(Warning { pointer: node.pointer.clone(), message, hint });
            }
        }
        warnings
    }

    /// Something that is read of an answer of `http` and is not there: it stands in the body.
    fn beside_the_body(&self, expression: &Expression) -> Option<(String, String)> {
        let References::Paths(paths) = expression.references() else { return None };
        paths.iter().find_map(|reference| {
            let [root, id, output, key, ..] = &reference.path[..] else { return None };
            let is_answer = |node: &&Node| *node.id == **id && node.for_each.is_none() && gives_an_answer(&node.action);
            if root != "steps" || output != "output" || ANSWER.contains(&key.as_str()) {
                return None;
            }
            self.nodes.iter().find(is_answer)?;
            let message =
                format!("`.steps.{id}.output.{key}` is always null: an answer of `http` has {}", one_of(ANSWER));
            Some((message, format!("did you mean `.steps.{id}.output.body.{key}`?")))
        })
    }
}

/// Whether a step gives an answer with its status, and not the body alone.
fn gives_an_answer(action: &Action) -> bool {
    let Action::Call { handler, with } = action else { return false };
    let reads_as = match with {
        Template::Literal(Value::Object(with)) => {
            with.get("as").map(|value| value.as_str().unwrap_or_default().to_owned())
        }
        Template::Object(with) => with.iter().find(|(key, _)| key == "as").map(|(_, value)| match value {
            Template::Literal(Value::String(value)) => value.clone(),
            // An expression says it when the run comes there.
            _ => "bytes".to_owned(),
        }),
        Template::Literal(_) => None,
        Template::Text(_) | Template::List(_) => return false,
    };
    &**handler == "http" && reads_as.as_deref() != Some("bytes")
}

fn templates(node: &Node) -> impl Iterator<Item = &Template> {
    let (first, second) = match &node.action {
        Action::Uses { with, .. } | Action::Call { with, .. } => (with, None),
        Action::Wait(template) | Action::Set(template) => (template, None),
        Action::Signal { name, timeout } => (name, timeout.as_ref()),
    };
    node.condition.iter().chain(&node.for_each).chain([first]).chain(second)
}

fn each(template: &Template, look: &mut impl FnMut(&Expression)) {
    match template {
        Template::Literal(_) => {}
        Template::Text(text) => text.template().expressions().for_each(|placed| look(&placed.expression)),
        Template::List(items) => items.iter().for_each(|item| each(item, look)),
        Template::Object(entries) => entries.iter().for_each(|(_, value)| each(value, look)),
    }
}
