//! The names of a file: steps, inputs and components, each with its place; and what a path in an
//! expression reads.

use crate::workflow::syntax::{Entry, Node, Span};

/// A step of the tree.
pub(super) struct NamedStep<'a> {
    pub(super) id: &'a str,
    pub(super) id_span: Span,
    pub(super) node: &'a Node,
    /// The number of steps that it is within.
    pub(super) depth: usize,
}

/// All steps, each before those within it.
pub(super) fn steps(root: &Node) -> Vec<NamedStep<'_>> {
    let mut found = Vec::new();
    add(root, 0, &mut found);
    found
}

fn add<'a>(within: &'a Node, depth: usize, found: &mut Vec<NamedStep<'a>>) {
    for node in within.get("steps").and_then(Node::as_sequence).unwrap_or_default() {
        if let Some(id) = node.get("id")
            && let Some(text) = id.as_text()
        {
            found.push(NamedStep { id: text, id_span: id.span, node, depth });
        }
        add(node, depth + 1, found);
        for case in node.get("switch").and_then(Node::as_sequence).unwrap_or_default() {
            add(case, depth + 1, found);
        }
    }
}

/// The entries of `inputs` or `components`.
pub(super) fn entries<'a>(root: &'a Node, key: &str) -> &'a [Entry] {
    root.get(key).and_then(Node::as_mapping).unwrap_or_default()
}

/// The action of a step, and what it names.
pub(super) fn action(step: &Node) -> Option<(&str, Option<&str>)> {
    let actions = ["uses", "call", "workflow", "script", "wait", "set", "steps", "switch"];
    let entry = step.as_mapping()?.iter().find(|entry| actions.contains(&entry.key.as_str()))?;
    Some((&entry.key, entry.value.as_text().filter(|text| !text.contains('\n'))))
}

/// The path that ends, or goes on, at a byte of an expression: `.steps.a.out` is `steps`, `a`,
/// `out`. `None` if there is no path.
pub(super) fn path_before(text: &str) -> Option<Vec<String>> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']' | '"' | '-');
    let at = text.rfind(|c| !is_part(c)).map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8));
    let path = &text[at..];
    let path = &path[path.find('.')?..];
    let plain = path.replace("[\"", "").replace("\"]", "").replace("[]", "");
    Some(plain.split('.').skip(1).map(str::to_owned).collect())
}

/// The whole word around a byte: where it begins and ends.
pub(super) fn word_at(text: &str, byte: usize) -> (usize, usize) {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let start =
        text[..byte].rfind(|c| !is_word(c)).map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8));
    let end = text[byte..].find(|c| !is_word(c)).map_or(text.len(), |at| byte + at);
    (start, end)
}
