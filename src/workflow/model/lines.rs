//! `for-each: { lines: … }`: a step for each line of a blob, however large it is.
//!
//! Neither the blob nor all lines are ever in memory, and the interpreter knows of no blob: such a
//! step is read as steps within a step, which repeat. Each turn reads some whole lines, runs the
//! step for each of them, and stores the results as a blob of lines of JSON; the last turn joins
//! these.
//!
//! ```yaml
//! - id: ID                                   # with its name, needs, if, when
//!   repeat: { while: "${ .last.next != null }", max: … }
//!   steps:
//!     - { id: read_lines, call: blob.get, with: { blob: …, offset: …, as: lines, … } }
//!     - { id: each_line, for-each: …, … }    # everything else
//!     - { id: keep_results, call: blob.put, with: { lines: … } }
//!     - { id: join_results, if: …, call: blob.put, with: { parts: … } }
//!   outputs: { lines: …, results: …, next: …, parts: … }
//! ```

use super::fields::{Fields, KnownKeys};
use super::values::whole;
use super::{Action, Step, TURNS_MAX, foreign_keys};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::{Content, Entry, Node, Scalar, Span, Style};

/// Lines that are read at once, unless the step says. Arbitrary.
const WINDOW: u64 = 10_000;
/// Lines that are read at once at most: as many as a `for-each` has items.
pub(super) const WINDOW_MAX: u64 = 100_000;
/// Bytes of the lines that are read at once, and so of the longest line. Arbitrary: what a payload
/// of a guest has.
pub(crate) const LINES_BYTES_MAX: u64 = 1 << 20;
/// Bytes of these lines as JSON at most, where a byte may become six and each line has quotes and a
/// comma.
const LINES_JSON_BYTES_MAX: u64 = 6 * LINES_BYTES_MAX + 3 * WINDOW_MAX + 1024;
/// Bytes of the results of these lines at most: what the interpreter commands in one step.
const RESULTS_BYTES_MAX: u64 = 12 << 20;

const EXAMPLE: &str = "for-each: { lines: \"${ .inputs.data }\" }, where the input is declared with type: blob";

pub(super) const KEYS: KnownKeys =
    KnownKeys { what: "`for-each`", known: &["lines", "batch", "window"], later: &[], foreign: foreign_keys::NOTHING };

/// What the step for the lines keeps for itself.
const OF_THE_STEP: &[&str] = &["id", "name", "needs", "if", "when", "continue-on-error"];

/// Reads a step for each line as what it is short for; `None` if it is another step.
pub(super) fn rewritten(step: &Node, problems: &mut Diagnostics) -> Option<Node> {
    let for_each = step.get("for-each").filter(|node| node.as_mapping().is_some())?;
    let fields = Fields::read(for_each, &KEYS, problems)?;
    let Some(lines) = fields.get("lines") else {
        if !fields.has_unknown_keys {
            let problem = Diagnostic::new("missing-key", "the `for-each` does not say of what", for_each.span);
            problems.push(problem.hint(EXAMPLE));
        }
        return None;
    };
    let batch = fields.get("batch").and_then(|node| whole(node, "batch", 1, WINDOW_MAX, problems));
    let window = fields.get("window").and_then(|node| whole(node, "window", 1, WINDOW_MAX, problems));
    let window = window.unwrap_or(WINDOW).max(batch.unwrap_or(1));
    let at = Made { span: for_each.span };
    let entries = step.as_mapping()?;
    let own = entries.iter().filter(|entry| OF_THE_STEP.contains(&entry.key.as_str())).cloned();
    let steps = vec![
        at.mapping(vec![
            at.text("id", "read_lines"),
            at.text("call", "blob.get"),
            at.entry(
                "with",
                at.mapping(vec![
                    at.entry("blob", lines.clone()),
                    at.text("offset", "${ .last.next // 0 }"),
                    at.text("as", "lines"),
                    at.number("max-lines", window),
                    at.number("length", LINES_BYTES_MAX),
                ]),
            ),
        ]),
        each_line(entries, batch, at),
        at.mapping(vec![
            at.text("id", "keep_results"),
            at.text("call", "blob.put"),
            at.entry("with", at.mapping(vec![at.text("lines", "${ .steps.each_line.output }")])),
        ]),
        at.mapping(vec![
            at.text("id", "join_results"),
            at.text("if", "${ .steps.read_lines.output.next == null }"),
            at.text("call", "blob.put"),
            at.entry(
                "with",
                at.mapping(vec![
                    at.text("parts", "${ (.last.parts // []) + [ .steps.keep_results.output ] }"),
                    at.text("media-type", "application/x-ndjson"),
                ]),
            ),
        ]),
    ];
    let outputs = [
        ("lines", "${ (.last.lines // 0) + (.steps.read_lines.output.lines | length) }"),
        ("results", "${ .steps.join_results.output }"),
        ("next", "${ .steps.read_lines.output.next }"),
        (
            "parts",
            "${ if .steps.read_lines.output.next == null then [] else (.last.parts // []) + [ .steps.keep_results.output ] end }",
        ),
    ];
    let repeat = at.mapping(vec![at.text("while", "${ .last.next != null }"), at.number("max", TURNS_MAX.into())]);
    let made = [
        at.entry("steps", at.node(Content::Sequence(steps))),
        at.entry("outputs", at.mapping(outputs.map(|(name, text)| at.text(name, text)).into())),
        at.entry("repeat", repeat),
    ];
    Some(Node { span: step.span, content: Content::Mapping(own.chain(made).collect()) })
}

/// Lets the steps that read the lines and store the results have larger payloads than others. No
/// file can: calls have no `limits`.
pub(super) fn widen(step: &mut Step) {
    let Action::Steps(block) = &mut step.action else { return };
    for step in &mut block.steps {
        let bytes_max = match step.id.value.as_str() {
            "read_lines" => LINES_JSON_BYTES_MAX,
            "keep_results" => RESULTS_BYTES_MAX,
            _ => continue,
        };
        step.limits.0.insert("payload", bytes_max);
    }
}

/// The step that is run for each line, or for some lines at once.
fn each_line(entries: &[Entry], batch: Option<u64>, at: Made) -> Node {
    const LINES: &str = ".steps.read_lines.output.lines";
    let items = match batch {
        None => format!("${{ {LINES} }}"),
        Some(batch) => {
            format!("${{ {LINES} as $lines | [ range(0; $lines | length; {batch}) | $lines[.:. + {batch}] ] }}")
        }
    };
    let is_own = |entry: &&Entry| !OF_THE_STEP.contains(&entry.key.as_str()) || entry.key == "continue-on-error";
    let others = entries.iter().filter(is_own).filter(|entry| entry.key != "for-each").cloned();
    let mut all = vec![at.text("id", "each_line"), at.text("for-each", &items)];
    all.extend(others);
    at.mapping(all)
}

/// Makes parts of the file that are not in it: problems point to what they are made of.
#[derive(Clone, Copy)]
struct Made {
    span: Span,
}

impl Made {
    fn node(self, content: Content) -> Node {
        Node { span: self.span, content }
    }

    fn scalar(self, text: &str, style: Style) -> Node {
        self.node(Content::Scalar(Scalar { text: text.to_owned(), style }))
    }

    fn mapping(self, entries: Vec<Entry>) -> Node {
        self.node(Content::Mapping(entries))
    }

    fn entry(self, key: &str, value: Node) -> Entry {
        Entry { key: key.to_owned(), key_span: self.span, value }
    }

    fn text(self, key: &str, text: &str) -> Entry {
        self.entry(key, self.scalar(text, Style::Double))
    }

    fn number(self, key: &str, number: u64) -> Entry {
        self.entry(key, self.scalar(&number.to_string(), Style::Plain))
    }
}
