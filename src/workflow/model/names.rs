//! Checks of names, of how many there are, and of the sources that components are named by.

use super::durations::NO_EXPRESSION;
use super::fields::shorten;
use super::script::INLINE;
use super::{NAMES_MAX, ScriptLanguage, Spanned};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{Node, Span};
use std::path::Path;

/// Checks that references and idempotency keys can hold a name.
pub(super) fn check_name(name: &str, span: Span, what: &str, problems: &mut Diagnostics) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && name.len() <= 64 && name.chars().all(good) {
        return true;
    }
    let message = format!("`{}` cannot name {what}", shorten(name));
    let rule = "a name starts with a letter or `_`, and has at most 64 letters, digits, `_` and `-`";
    let hint = if name.contains("${") { NO_EXPRESSION } else { rule };
    problems.push(Diagnostic::new("name", message, span).hint(hint));
    false
}

/// Reports a mapping with too many names.
pub(super) fn check_count(node: &Node, count: usize, what: &str, problems: &mut Diagnostics) {
    if count > NAMES_MAX {
        let message = format!("the file has {count} {what}, more than the {NAMES_MAX} that a workflow may have");
        problems.push(Diagnostic::new("too-large", message, node.span));
    }
}

/// How the source of a component in a registry begins.
const REGISTRY: &str = "oci://";

/// Checks the source of a component: a path, or a reference to a registry.
pub(super) fn check_source(path: &str, span: Span, problems: &mut Diagnostics) -> bool {
    let problem = if path.contains("${") {
        Diagnostic::new("source", "a component cannot be chosen by an expression", span)
            .hint("use one step for each component, each with an `if`")
    } else if let Some((scheme, _)) = path.split_once("://").filter(|_| !path.starts_with(REGISTRY)) {
        Diagnostic::new("not-supported", format!("`{}://` sources are not supported", shorten(scheme)), span)
            .hint("give the path of a file, or a component in a registry: oci://registry.example.com/name:1.0")
    } else if path.starts_with(INLINE) {
        Diagnostic::new("source", "a script in the workflow file has no name", span)
            .hint("write it under `script`, or put it into a file: uses: ./program.js")
    } else if path.is_empty() || path.chars().any(char::is_control) {
        Diagnostic::new("source", "not a path", span)
    } else {
        return true;
    };
    problems.push(problem);
    false
}

/// Checks the path of a workflow file that a step runs.
pub(super) fn check_workflow_file(file: &Spanned<String>, problems: &mut Diagnostics) -> bool {
    let path = file.value.as_str();
    let refused = |message: String| Diagnostic::new("source", message, file.span);
    let is_wasm = Path::new(path).extension().is_some_and(|ending| ending == "wasm");
    let is_component = is_wasm || ScriptLanguage::of(path).is_some();
    let problem = if path.contains("${") {
        refused("a workflow cannot be chosen by an expression: it must be known before anything runs".to_owned())
            .hint("use one step for each workflow, each with an `if`, or a `switch`")
    } else if path.contains("://") {
        refused(format!("`{}` is no path of a file", shorten(path)))
            .hint("give the path of a file that is below the workflow's folder: workflow: ./label.yaml")
    } else if is_component {
        refused(format!("`{}` is no workflow file", shorten(path)))
            .hint(format!("components and scripts are run with `uses`: uses: {}", shorten(path)))
    } else if path.is_empty() || path.contains('#') || path.chars().any(char::is_control) {
        refused("not a path of a workflow file".to_owned()).hint("workflow: ./label.yaml")
    } else {
        return true;
    };
    problems.push(problem);
    false
}
