//! `answers`: what the servers behind `call` answer.

use super::ENTRIES_MAX;
use super::read::entries;
use super::templated::Templated;
use crate::process::{Micros, ProblemClass, handler};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, all_of};
use crate::workflow::expression::Jq;
use crate::workflow::model::{Fields, KnownKeys, Spanned, fixed_text, shorten, values};
use crate::workflow::syntax::{Node, Span};
use std::sync::Arc;

/// An entry of `answers`: the calls that it matches, and what they are answered.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `call`: the handler's name.
    pub call: Spanned<String>,
    /// `step`: the path of the step that calls, with or without items.
    pub step: Option<Spanned<String>>,
    /// `with`: the arguments that the call must have; it may have more.
    pub with: Option<Templated>,
    /// `where`: what must be true of the call.
    pub condition: Option<Templated>,
    /// How many calls it answers; `None` if all.
    pub times: Option<u64>,
    /// Whether the file lists several answers with `answers`, one for each call.
    pub is_list: bool,
    /// The answers: the first call gets the first one. The last one is also that of all further
    /// calls, unless `answers` lists them.
    pub replies: Vec<Reply>,
    /// The answer to a call that is sent again with the key of one that was answered: what a server
    /// says that does not honour keys. `None`: the same answer.
    pub repeated: Option<Reply>,
    /// The whole entry.
    pub span: Span,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// How long the server takes.
    pub after: Micros,
    /// What it says.
    pub kind: ReplyKind,
}

/// What a server says.
#[derive(Clone, Debug)]
pub enum ReplyKind {
    /// The handler's answer.
    Answer(Templated),
    /// A response of HTTP: `status`, `headers` and `body`.
    Response(Templated),
    /// A problem: `kind`, `title`, `detail`, `status`, `data`.
    Problem {
        /// Its members.
        members: Templated,
        /// Whether it happened.
        class: ProblemClass,
        /// How long to wait before trying again.
        retry_after: Option<Micros>,
    },
}

pub(super) const RULE: KnownKeys = KnownKeys {
    what: "an answer",
    known: &["call", "step", "with", "where", "times", "after", "answer", "answers", "problem", "repeated"],
    later: &[],
    foreign: &[
        (&["handler", "uses", "mock"], "write `call`: call: http"),
        (&["response", "returns", "return", "reply", "output", "result"], "write `answer`"),
        (&["error", "fails", "fail", "throws"], "write `problem`: problem: { title: out of stock }"),
        (&["delay", "latency", "takes"], "write `after`: after: 3s"),
        (
            &["if", "when", "match", "matches"],
            "write `where`: where: \"${ .args.url | test(\\\"/pay\\\") }\", or `with`",
        ),
        (&["status", "body", "headers"], "write it in `answer`: answer: { status: 200, body: { id: 1 } }"),
        (&["args", "request"], "write `with`: with: { url: \"https://pay.example.com/*\" }"),
    ],
};

pub(super) const REPLY: KnownKeys = KnownKeys {
    what: "an item of `answers`",
    known: &["after", "answer", "problem"],
    later: &[],
    foreign: &[(&["status", "body", "headers"], "write it in `answer`: - answer: { status: 200 }")],
};

pub(super) const REPEATED: KnownKeys = KnownKeys { what: "`repeated`", ..REPLY };

pub(super) const RESPONSE: KnownKeys = KnownKeys {
    what: "the answer of `http`",
    known: &["status", "headers", "body"],
    later: &[],
    foreign: &[(&["json", "text"], "write `body`: a mapping or a list is sent as JSON, text as it is")],
};

pub(super) const PROBLEM: KnownKeys = KnownKeys {
    what: "a problem",
    known: &["kind", "title", "detail", "status", "class", "retry-after", "data"],
    later: &[],
    foreign: &[(&["message", "error"], "write `title`"), (&["type", "code", "name"], "write `kind`")],
};

/// The statuses of a response.
pub(in crate::testing) const STATUS_MIN: u16 = 100;
pub(in crate::testing) const STATUS_MAX: u16 = 599;

/// The classes of problems.
pub(super) const CLASSES: [(&str, ProblemClass); 3] = [
    ("definite", ProblemClass::Definite),
    ("retryable", ProblemClass::Retryable),
    ("uncertain", ProblemClass::Uncertain),
];

/// Reads the list.
pub(super) fn read_answers(node: &Node, jq: &Jq, problems: &mut Diagnostics) -> Vec<Arc<Rule>> {
    let items = entries(node, "answers", ENTRIES_MAX, problems).unwrap_or_default();
    items.iter().filter_map(|item| read_rule(item, jq, problems).map(Arc::new)).collect()
}

fn read_rule(node: &Node, jq: &Jq, problems: &mut Diagnostics) -> Option<Rule> {
    let fields = Fields::read(node, &RULE, problems)?;
    let mut spanned = |key: &'static str| {
        let node = fields.get(key)?;
        fixed_text(node, key, problems).map(|text| Spanned { value: text.to_owned(), span: node.span })
    };
    let (call, step) = (spanned("call"), spanned("step"));
    if call.is_none() && fields.entry("call").is_none() && !fields.has_unknown_keys {
        let problem = Diagnostic::new("missing-key", "the answer has no `call`", start(node.span));
        problems.push(problem.hint("call: http"));
    }
    let with = fields.get("with").and_then(|node| Templated::read(node, jq, problems));
    let condition = fields.get("where").and_then(|node| Templated::condition(node, "where", jq, problems));
    let times = fields.get("times").and_then(|node| values::whole(node, "times", 0, 1_000_000, problems));
    let is_http = call.as_ref().is_some_and(|call| call.value == handler::HTTP);
    let repeated = fields.get("repeated").and_then(|node| {
        let fields = Fields::read(node, &REPEATED, problems)?;
        read_reply(&fields, node.span, is_http, jq, problems)
    });
    let replies = match fields.get("answers") {
        None => read_reply(&fields, node.span, is_http, jq, problems).into_iter().collect(),
        Some(list) => {
            for key in ["answer", "problem", "after"] {
                if let Some(other) = fields.entry(key) {
                    let message = format!("`{key}` and `answers` exclude each other");
                    problems.push(Diagnostic::new("conflict", message, other.key_span));
                }
            }
            read_sequence(list, is_http, jq, problems)
        }
    };
    let listed = fields.get("answers").map(|_| replies.len() as u64);
    let (is_list, times) = (listed.is_some(), times.or(listed));
    Some(Rule { call: call?, step, with, condition, times, is_list, replies, repeated, span: node.span })
}

fn start(span: Span) -> Span {
    Span { start: span.start, end: span.start }
}

fn read_sequence(list: &Node, is_http: bool, jq: &Jq, problems: &mut Diagnostics) -> Vec<Reply> {
    let items = entries(list, "answers", ENTRIES_MAX, problems).unwrap_or_default();
    let read = |item: &Node| {
        let fields = Fields::read(item, &REPLY, problems)?;
        read_reply(&fields, item.span, is_http, jq, problems)
    };
    items.iter().filter_map(read).collect()
}

fn read_reply(fields: &Fields<'_>, span: Span, is_http: bool, jq: &Jq, problems: &mut Diagnostics) -> Option<Reply> {
    let after = fields.get("after").map_or(Some(Micros(0)), |node| values::duration(node, "after", problems))?;
    let kind = match (fields.entry("answer"), fields.get("problem")) {
        (Some(answer), None) if is_http => {
            if !answer.value.is_null() {
                let fields = Fields::read(&answer.value, &RESPONSE, problems)?;
                read_response(&fields, problems)?;
            }
            ReplyKind::Response(Templated::read(&answer.value, jq, problems)?)
        }
        (Some(answer), None) => ReplyKind::Answer(Templated::read(&answer.value, jq, problems)?),
        (None, Some(problem)) => read_problem(problem, jq, problems)?,
        (Some(answer), Some(_)) => {
            let message = "`answer` and `problem` exclude each other";
            problems.push(Diagnostic::new("conflict", message, answer.key_span));
            return None;
        }
        (None, None) if fields.has_unknown_keys => return None,
        (None, None) => {
            let problem = Diagnostic::new("missing-key", "there is no `answer` and no `problem`", start(span));
            let hint = if is_http { "answer: { status: 200, body: { id: 1 } }" } else { "answer: { id: 1 }" };
            problems.push(problem.hint(hint));
            return None;
        }
    };
    Some(Reply { after, kind })
}

/// Checks what a response says as it stands; what an expression gives is checked when it is known.
fn read_response(fields: &Fields<'_>, problems: &mut Diagnostics) -> Option<()> {
    let is_expression = |node: &&Node| node.as_text().is_some_and(|text| text.contains("${"));
    if let Some(status) = fields.get("status").filter(|node| !is_expression(node)) {
        values::whole(status, "status", u64::from(STATUS_MIN), u64::from(STATUS_MAX), problems)?;
    }
    if let Some(headers) = fields.get("headers").filter(|node| !is_expression(node) && node.as_mapping().is_none()) {
        let message = format!("`headers` must be a mapping, not {}", headers.kind());
        problems.push(Diagnostic::new("type", message, headers.span).hint("headers: { retry-after: 30 }"));
        return None;
    }
    Some(())
}

fn read_problem(node: &Node, jq: &Jq, problems: &mut Diagnostics) -> Option<ReplyKind> {
    let fields = Fields::read(node, &PROBLEM, problems)?;
    let class = match fields.get("class") {
        None => ProblemClass::Definite,
        Some(node) => {
            let text = fixed_text(node, "class", problems)?;
            let found = CLASSES.iter().find(|(name, _)| *name == text).map(|(_, class)| *class);
            if found.is_none() {
                let message = format!("there is no class `{}`", shorten(text));
                let hint = format!("it is one of {}", all_of(CLASSES.iter().map(|(name, _)| *name)));
                problems.push(Diagnostic::new("value", message, node.span).hint(hint));
            }
            found?
        }
    };
    let retry_after = fields.get("retry-after").and_then(|node| values::duration(node, "retry-after", problems));
    if let Some(status) = fields.get("status") {
        values::whole(status, "status", 0, 999, problems)?;
    }
    Some(ReplyKind::Problem { members: Templated::read(node, jq, problems)?, class, retry_after })
}
