//! The text of a lock: YAML that is read with the positions of its problems.

use super::{LockFile, LockedKind, LockedParts};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{self, Entry, Node, Source};
use std::fmt::Write as _;

/// The version of the text.
const VERSION: u32 = 1;

const HEADER: &str = "\
# The parts of the workflows in this folder, as they were accepted. `wfhost lock FILE` writes this file;
# keep it under version control. What differs from it is refused.
";

const HINT: &str = "`wfhost lock FILE` writes it; take it from version control, or remove it and write it anew";

impl LockFile {
    /// Writes it as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = format!("{HEADER}version: {VERSION}\nworkflows:");
        if self.workflows.is_empty() {
            out.push_str(" {}");
        }
        out.push('\n');
        for (file, LockedParts(parts)) in &self.workflows {
            let _ = writeln!(out, "  {}:{}", quoted(file), if parts.is_empty() { " {}" } else { "" });
            for kind in LockedKind::ALL {
                let mut of_kind = parts.iter().filter(|((one, _), _)| *one == kind).peekable();
                if of_kind.peek().is_some() {
                    let _ = writeln!(out, "    {}:", kind.key());
                }
                for ((_, name), digest) in of_kind {
                    let _ = writeln!(out, "      {}: {digest}", quoted(name));
                }
            }
        }
        out
    }

    /// Reads a text.
    ///
    /// # Errors
    /// Returns all of its problems.
    pub fn parse(source: &Source) -> Result<Self, Diagnostics> {
        let mut problems = Diagnostics::new(source.clone());
        let lock = syntax::parse(source, &mut problems).map(|root| read(&root, &mut problems));
        problems.into_result().map(|()| lock.unwrap_or_default())
    }
}

/// A name as a key of YAML: in quotes unless it needs none.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/@:-+~=".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.' || c == '_');
    if starts && !name.ends_with(':') && name.chars().all(is_plain) && !name.contains("..:") {
        return name.to_owned();
    }
    serde_json::Value::from(name).to_string()
}

fn read(root: &Node, problems: &mut Diagnostics) -> LockFile {
    let mut lock = LockFile::default();
    let Some(entries) = root.as_mapping() else {
        let message = format!("a lock must be a mapping, not {}", root.kind());
        problems.push(Diagnostic::new("lock", message, root.span).hint(HINT));
        return lock;
    };
    let version = root.get("version");
    match version.and_then(Node::as_scalar).map(|scalar| scalar.text.as_str()) {
        Some(text) if text == VERSION.to_string() => {}
        Some(other) => {
            let message = format!("the lock has version {other}; this release reads version {VERSION}");
            let span = version.map_or(root.span, |node| node.span);
            problems
                .push(Diagnostic::new("lock", message, span).hint("use the release that wrote it, or write it anew"));
            return lock;
        }
        None => problems.push(Diagnostic::new("lock", "the lock has no `version`", root.span).hint(HINT)),
    }
    for entry in entries {
        match entry.key.as_str() {
            "version" => {}
            "workflows" => {
                for workflow in mapping(&entry.value, "`workflows`", problems) {
                    lock.workflows.insert(workflow.key.clone(), read_parts(workflow, problems));
                }
            }
            _ => problems.push(unknown(entry, "a lock")),
        }
    }
    lock
}

fn read_parts(workflow: &Entry, problems: &mut Diagnostics) -> LockedParts {
    let mut parts = LockedParts::default();
    for section in mapping(&workflow.value, "a workflow", problems) {
        let Some(kind) = LockedKind::ALL.into_iter().find(|kind| kind.key() == section.key) else {
            problems.push(unknown(section, "a workflow of a lock"));
            continue;
        };
        for part in mapping(&section.value, &format!("`{}`", section.key), problems) {
            match part.value.as_text().filter(|digest| is_digest(digest)) {
                Some(digest) => _ = parts.0.insert((kind, part.key.clone()), digest.to_owned()),
                None => {
                    let message = "this is no digest: `blake3:` or `sha256:` and 64 hexadecimal digits";
                    problems.push(Diagnostic::new("lock", message, part.value.span).hint(HINT));
                }
            }
        }
    }
    parts
}

fn mapping<'n>(node: &'n Node, what: &str, problems: &mut Diagnostics) -> &'n [Entry] {
    let entries = node.as_mapping();
    if entries.is_none() {
        let message = format!("{what} must be a mapping, not {}", node.kind());
        problems.push(Diagnostic::new("lock", message, node.span).hint(HINT));
    }
    entries.unwrap_or_default()
}

fn unknown(entry: &Entry, what: &str) -> Diagnostic {
    let key = crate::workflow::model::shorten(&entry.key);
    Diagnostic::new("lock", format!("{what} has no key `{key}`"), entry.key_span).hint(HINT)
}

fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("blake3:").or_else(|| text.strip_prefix("sha256:"));
    digits.is_some_and(|digits| {
        digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}
