//! Reads the keys at the top of a file.

use super::block::{check_outputs, empty, read_steps};
use super::fields::{Fields, KnownKeys, fixed_text, shorten, text};
use super::foreign_keys;
use super::names::{check_count, check_name, check_source};
use super::retry::read_retry;
use super::values::duration;
use super::{ComponentDecl, Defaults, Durability, LimitsPatch, NAMES_MAX, Spanned, Workflow};
use crate::base::text::steers;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{Entry, Node, Span};

pub(super) const KEYS: KnownKeys = KnownKeys {
    what: "a workflow",
    known: &[
        "name",
        "description",
        "inputs",
        "components",
        "defaults",
        "steps",
        "outputs",
        "durability",
        "schedule",
        "concurrency",
        "handlers",
        "on",
        "grace",
        "secrets",
    ],
    later: &[("document", "until then, write the steps as docs/workflows.md describes")],
    foreign: foreign_keys::TOP,
};

pub(super) const COMPONENT: KnownKeys = KnownKeys {
    what: "a component",
    known: &["source", "limits", "folders"],
    later: &[],
    foreign: foreign_keys::COMPONENT,
};

pub(super) const DEFAULTS: KnownKeys = KnownKeys {
    what: "`defaults`",
    known: &["timeout", "retry", "limits"],
    later: &[],
    foreign: foreign_keys::NOTHING,
};

/// Reads the tree of a file.
#[must_use]
pub fn read(root: &Node, problems: &mut Diagnostics) -> Workflow {
    let mut workflow = Workflow::default();
    if let Some(document) = root.get("document").filter(|_| root.get("steps").is_none()) {
        let message = "the Open Workflow DSL (`document.dsl`) is not supported yet";
        problems.push(Diagnostic::new("not-supported", message, document.span));
        return workflow;
    }
    if root.is_null() {
        problems.push(empty(root.span));
        return workflow;
    }
    let Some(fields) = Fields::read(root, &KEYS, problems) else { return workflow };
    workflow.name = fields.get("name").and_then(|node| read_name(node, problems));
    if let Some(node) = fields.get("description") {
        text(node, "description", problems);
    }
    if let Some(node) = fields.get("inputs") {
        workflow.inputs = super::inputs::read_inputs(node, problems);
    }
    if let Some(node) = fields.get("components") {
        read_components(node, &mut workflow, problems);
    }
    if let Some(node) = fields.get("defaults") {
        workflow.defaults = read_defaults(node, problems);
    }
    if let Some(node) = fields.get("durability") {
        workflow.durability = read_durability(node, problems);
    }
    if let Some(node) = fields.get("schedule") {
        workflow.schedule = super::schedule::read_schedule(node, problems);
    }
    if let Some(node) = fields.get("concurrency") {
        workflow.concurrency = super::concurrency::read_concurrency(node, problems);
    }
    if let Some(node) = fields.get("secrets") {
        workflow.secrets = super::secrets::read_secrets(node, &mut workflow.unread_secrets, problems);
    }
    if let Some(node) = fields.get("handlers") {
        workflow.handlers = super::handlers::read_handlers(node, problems);
    }
    match fields.get("steps") {
        Some(node) => read_steps(node, &mut workflow, problems),
        None => problems.push(empty(fields.entry("steps").map_or(Span::new(0..0), |entry| entry.key_span))),
    }
    if let Some(node) = fields.get("on") {
        super::after::read_on(node, &mut workflow, problems);
    }
    workflow.grace = fields.get("grace").and_then(|node| duration(node, "grace", problems));
    workflow.outputs = fields.get("outputs").filter(|node| check_outputs(node, problems)).cloned();
    workflow
}

fn read_components(node: &Node, workflow: &mut Workflow, problems: &mut Diagnostics) {
    let Some(entries) = node.as_mapping() else {
        let message = format!("`components` must be a mapping with a key for each component, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span).hint("components: { resize: ./resize.wasm }"));
        return;
    };
    check_count(node, entries.len(), "components", problems);
    for entry in entries.iter().take(NAMES_MAX) {
        match read_component(entry, problems) {
            Some(component) => workflow.components.push(component),
            None => workflow.unread_components.push(entry.key.clone()),
        }
    }
}

/// Reads `name:`, which lists and reports show in a line.
fn read_name(node: &Node, problems: &mut Diagnostics) -> Option<String> {
    let name = fixed_text(node, "name", problems)?;
    if name.chars().any(steers) {
        let why = "a name has no line ends, nor other characters that control how text is shown";
        problems.push(Diagnostic::new("name", why, node.span));
        return None;
    }
    Some(name.to_owned())
}

fn read_component(entry: &Entry, problems: &mut Diagnostics) -> Option<ComponentDecl> {
    check_name(&entry.key, entry.key_span, "a component", problems);
    let (source, limits, folders) = if entry.value.as_scalar().is_some() {
        (&entry.value, LimitsPatch::default(), Vec::new())
    } else {
        let fields = Fields::read(&entry.value, &COMPONENT, problems)?;
        let limits = fields.get("limits").map(|node| LimitsPatch::read(node, problems)).unwrap_or_default();
        let Some(source) = fields.get("source") else {
            if fields.has_unknown_keys {
                return None;
            }
            let message = format!("the component `{}` has no `source`", shorten(&entry.key));
            problems.push(Diagnostic::new("missing-key", message, entry.key_span).hint("source: ./component.wasm"));
            return None;
        };
        let folders = fields.get("folders").map(|node| read_folders(node, problems));
        (source, limits, folders.unwrap_or_default())
    };
    let path = text(source, "source", problems)?;
    if !check_source(path, source.span, problems) {
        return None;
    }
    Some(ComponentDecl {
        name: Spanned { value: entry.key.clone(), span: entry.key_span },
        source: Spanned { value: path.to_owned(), span: source.span },
        limits,
        folders,
    })
}

/// Most folders of a component. Arbitrary.
const FOLDERS_MAX: usize = 16;

/// Reads `folders:` of a component, and reports what cannot be one.
fn read_folders(node: &Node, problems: &mut Diagnostics) -> Vec<(Spanned<String>, Spanned<String>)> {
    const EXAMPLE: &str = "folders: { /data: ./data }";
    let Some(entries) = node.as_mapping() else {
        problems.push(Diagnostic::new("wrong-type", "`folders` is a mapping", node.span).hint(EXAMPLE));
        return Vec::new();
    };
    if entries.len() > FOLDERS_MAX {
        let message = format!("{} folders are more than {FOLDERS_MAX}", entries.len());
        problems.push(Diagnostic::new("too-many", message, node.span));
        return Vec::new();
    }
    let mut folders = Vec::new();
    for entry in entries {
        let name = entry.key.strip_prefix('/').unwrap_or_default();
        let is_name =
            !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']) && name.len() < 256;
        if !is_name {
            let message = format!("`{}` is not a name below `/`", shorten(&entry.key));
            problems.push(Diagnostic::new("folder", message, entry.key_span).hint(EXAMPLE));
            continue;
        }
        if let Some(path) = text(&entry.value, "a folder", problems) {
            let name = Spanned { value: name.to_owned(), span: entry.key_span };
            folders.push((name, Spanned { value: path.to_owned(), span: entry.value.span }));
        }
    }
    folders
}

fn read_defaults(node: &Node, problems: &mut Diagnostics) -> Defaults {
    let Some(fields) = Fields::read(node, &DEFAULTS, problems) else { return Defaults::default() };
    Defaults {
        timeout: fields.get("timeout").and_then(|node| duration(node, "timeout", problems)),
        retry: fields.get("retry").and_then(|node| read_retry(node, problems)),
        limits: fields.get("limits").map(|node| LimitsPatch::read(node, problems)).unwrap_or_default(),
    }
}

fn read_durability(node: &Node, problems: &mut Diagnostics) -> Durability {
    match fixed_text(node, "durability", problems) {
        None | Some("journal") => Durability::Journal,
        Some("none") => Durability::None,
        Some(other) => {
            let message = format!("there is no durability `{}`", shorten(other));
            let hint = "write `journal` (the default) or `none`";
            problems.push(Diagnostic::new("value", message, node.span).hint(hint));
            Durability::default()
        }
    }
}
