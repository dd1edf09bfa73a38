//! Parts of a valid plan that were hardly intended. The plan runs all the same.

use super::hints::assigns;
use super::{Action, ChildWorkflow, Node, Plan, Secret, Template};
use crate::workflow::diagnostics::{all_of, closest};
use crate::workflow::expression::{Expression, References};
use serde_json::Value;
use std::sync::Arc;

/// The fields of a response of `http`.
pub(crate) const RESPONSE_FIELDS: [&str; 5] = ["status", "url", "headers", "encoding", "body"];

/// The fields of an error, as the interpreter's `outcome.rs` writes them.
pub(crate) const ERROR_FIELDS: [&str; 10] =
    ["kind", "title", "class", "status", "detail", "data", "step", "pointer", "item", "attempt"];

/// A part of a plan that was hardly intended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// A short name for the kind of mistake, stable across releases.
    pub code: &'static str,
    /// JSON Pointer to the step in the file, or `/outputs`.
    pub pointer: String,
    /// What is suspicious, in one line.
    pub message: String,
    /// What was probably meant.
    pub hint: String,
}

impl Plan {
    /// Returns the warnings for the plan, in file order.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut look = |pointer: &str, template: &Template| {
            each(template, &mut |expression| {
                let found = self.misread_response(expression).into_iter().chain(misread_error(expression));
                warnings.extend(found.map(|(message, hint)| {
                    let (code, pointer) = ("always-null", pointer.to_owned());
                    Warning { code, pointer, message, hint }
                }));
            });
        };
        let nodes: Vec<&Node> = self.all_nodes().collect();
        for node in &nodes {
            node.templates().for_each(|template| look(&node.pointer, template));
            let outputs = node.action.blocks().flat_map(|block| &block.outputs);
            outputs.for_each(|(_, template)| look(&node.pointer, template));
        }
        for (_, template) in &self.outputs {
            look("/outputs", template);
        }
        for child in &self.workflows {
            child.block.outputs.iter().for_each(|(_, template)| look(&format!("{}#/outputs", child.file), template));
        }
        warnings.extend(self.workflows.iter().flat_map(|child| child.ignored.iter().map(|key| ignored(child, key))));
        for node in nodes {
            if let Some(Template::Text(text)) = &node.condition
                && let Some(placed) = text.template().expressions().next()
                && let Some(hint) = assigns(placed.expression.text())
            {
                let message = "`=` assigns and gives its whole input, so this condition is always true".to_owned();
                warnings.push(Warning { code: "assigns", pointer: node.pointer.clone(), message, hint });
            }
        }
        warnings.extend(self.unused_secrets());
        warnings
    }

    /// Secrets that no step can send.
    fn unused_secrets(&self) -> Vec<Warning> {
        let unused = self.secret_uses().into_iter().filter(|(_, users)| users.is_empty());
        let mut warnings: Vec<Warning> = unused
            .map(|(secret, _)| Warning {
                code: "unused-secret",
                pointer: self.place_of(secret),
                message: format!("no step lists the secret `{}`", secret.name),
                hint: format!("a step that sends it says so: secrets: [ {} ]", secret.name),
            })
            .collect();
        for node in self.all_nodes() {
            let (Action::Uses { with, .. } | Action::Call { with, .. }) = &node.action else { continue };
            let is_read = |name: &str| {
                let mut is_read = false;
                each(with, &mut |expression| {
                    is_read |= match expression.references() {
                        References::Paths(paths) => paths.iter().any(|one| match &one.path[..] {
                            [root, secret, ..] => root == "secrets" && secret == name,
                            _ => false,
                        }),
                        _ => true,
                    };
                });
                is_read
            };
            warnings.extend(node.secrets.iter().filter(|one| !is_read(&one.name)).map(|secret| &secret.name).map(
                |name| Warning {
                    code: "unread-secret",
                    pointer: node.pointer.clone(),
                    message: format!("`{}` lists the secret `{name}`, and its `with` does not read it", node.id),
                    hint: format!("it gets the placeholder by its `with`: ${{ .secrets.{name} }}"),
                },
            ));
        }
        warnings
    }

    /// The JSON Pointer to the declaration of a secret.
    fn place_of(&self, secret: &Secret) -> String {
        let declares = |child: &&Arc<ChildWorkflow>| child.secrets.iter().any(|one| **one == *secret);
        let is_own = self.secrets.iter().any(|one| **one == *secret);
        let file = self.workflows.iter().find(declares).filter(|_| !is_own);
        file.map_or(String::new(), |child| format!("{}#", child.file)) + "/secrets/" + &secret.name
    }

    /// A field read from a response of `http` that is only in its body.
    fn misread_response(&self, expression: &Expression) -> Option<(String, String)> {
        let References::Paths(paths) = expression.references() else { return None };
        paths.iter().find_map(|reference| {
            let [root, id, output, key, ..] = &reference.path[..] else { return None };
            let is_response = |node: &Node| node.for_each.is_none() && gives_a_response(&node.action);
            if root != "steps" || output != "output" || RESPONSE_FIELDS.contains(&key.as_str()) {
                return None;
            }
            // Steps in different places may have the same id.
            let mut meant = self.all_nodes().filter(|node| *node.id == **id).peekable();
            meant.peek()?;
            if !meant.all(is_response) {
                return None;
            }
            let message = format!(
                "`.steps.{id}.output.{key}` is always null: a response of `http` has {}",
                all_of(RESPONSE_FIELDS)
            );
            Some((message, format!("did you mean `.steps.{id}.output.body.{key}`?")))
        })
    }
}

/// A key that has no effect in a workflow that another one runs.
fn ignored(child: &ChildWorkflow, key: &str) -> Warning {
    let message = format!("`{key}` has no effect here: the workflow that runs `{}` decides it", child.file);
    let hint = format!("write `{key}` in the file that is run, or keep it for runs of this file alone");
    Warning { code: "ignored-key", pointer: format!("{}#/{key}", child.file), message, hint }
}

/// A field read from an error that no error has.
fn misread_error(expression: &Expression) -> Option<(String, String)> {
    let References::Paths(paths) = expression.references() else { return None };
    paths.iter().find_map(|reference| {
        let (of, field) = match &reference.path[..] {
            [root, field, ..] if root == "error" => (".error".to_owned(), field),
            [root, id, error, field, ..] if root == "steps" && error == "error" => {
                (format!(".steps.{id}.error"), field)
            }
            _ => return None,
        };
        if ERROR_FIELDS.contains(&field.as_str()) {
            return None;
        }
        let hint = match closest(field, ERROR_FIELDS) {
            Some(meant) => format!("did you mean `{of}.{meant}`?"),
            None => format!("members of the problem itself are in `{of}.data`"),
        };
        Some((format!("`{of}.{field}` is always null: an error has {}", all_of(ERROR_FIELDS)), hint))
    })
}

/// Returns whether the output of a step is a whole response, not the body alone.
fn gives_a_response(action: &Action) -> bool {
    let Action::Call { handler, with } = action else { return false };
    let reads_as = match with {
        Template::Literal(Value::Object(with)) => {
            with.get("as").map(|value| value.as_str().unwrap_or_default().to_owned())
        }
        Template::Object(with) => with.iter().find(|(key, _)| key == "as").map(|(_, value)| match value {
            Template::Literal(Value::String(value)) => value.clone(),
            // An expression decides it at run time.
            _ => "bytes".to_owned(),
        }),
        Template::Literal(_) => None,
        Template::Text(_) | Template::List(_) => return false,
    };
    &**handler == crate::process::handler::HTTP && reads_as.as_deref() != Some("bytes")
}

fn each(template: &Template, look: &mut impl FnMut(&Expression)) {
    match template {
        Template::Literal(_) => {}
        Template::Text(text) => text.template().expressions().for_each(|placed| look(&placed.expression)),
        Template::List(items) => items.iter().for_each(|item| each(item, look)),
        Template::Object(entries) => entries.iter().for_each(|(_, value)| each(value, look)),
    }
}
