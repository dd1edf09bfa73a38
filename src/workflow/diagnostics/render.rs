//! Writes problems as text and as JSON.

use super::{Diagnostic, Diagnostics, Excerpt};
use crate::base::text::steers;
use crate::workflow::source::{Source, Span};
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet, renderer::DecorStyle};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Write;

pub(super) fn render(problems: &Diagnostics, colours: bool) -> String {
    let mut out = render_each(problems, colours);
    let count = problems.count();
    let _ = write!(out, "error: {} has {count} problem{}", problems.source.name(), if count == 1 { "" } else { "s" });
    out
}

/// The problems without the line that counts them.
pub(super) fn render_each(problems: &Diagnostics, colours: bool) -> String {
    let renderer = if colours { Renderer::styled() } else { Renderer::plain() }.decor_style(DecorStyle::Ascii);
    let mut out = String::new();
    for problem in problems.iter() {
        out.push_str(&renderer.render(&[group(&problems.source, problem)]));
        out.push_str("\n\n");
    }
    if problems.dropped > 0 {
        let _ = writeln!(out, "… and {} more\n", problems.dropped);
    }
    out
}

fn group<'a>(source: &'a Source, problem: &'a Diagnostic) -> Group<'a> {
    let main = if problem.excerpt.is_some() { AnnotationKind::Context } else { AnnotationKind::Primary };
    let mut snippet = Snippet::source(shown(source.text()))
        .path(escape(source.name()))
        .annotation(main.span(visible(source, problem.span)));
    for (span, label) in &problem.related {
        snippet = snippet.annotation(AnnotationKind::Context.span(visible(source, *span)).label(label.as_str()));
    }
    let title = Level::ERROR.primary_title(escape(&problem.message)).id(problem.code);
    let cause = problem.excerpt.iter().map(|cause| other(cause, AnnotationKind::Primary));
    let through = problem.through.iter().map(|place| other(place, AnnotationKind::Context));
    let mut group = title.elements(cause.chain(through)).element(snippet);
    if let Some(hint) = &problem.hint {
        group = group.element(Level::HELP.with_name("hint").message(escape(hint)));
    }
    group
}

/// A place in another file.
fn other(Excerpt { file, text, span, related }: &Excerpt, kind: AnnotationKind) -> Snippet<'_, Annotation<'_>> {
    let snippet = Snippet::source(shown(text)).path(escape(file)).annotation(kind.span(first_line(text, *span)));
    let label = |(span, label): &'_ (Span, String)| (first_line(text, *span), label.clone());
    related
        .iter()
        .map(label)
        .fold(snippet, |snippet, (range, label)| snippet.annotation(AnnotationKind::Context.span(range).label(label)))
}

/// The part of a span to underline: its first line, without trailing blanks.
fn visible(source: &Source, span: Span) -> std::ops::Range<usize> {
    first_line(source.text(), span)
}

fn first_line(text: &str, span: Span) -> std::ops::Range<usize> {
    let line = text.get(span.range()).unwrap_or("").split('\n').next().unwrap_or("").trim_end();
    let start = (span.start as usize).min(text.len());
    start..start + line.len()
}

/// A source to show lines of: what could steer a terminal is replaced by characters of as many
/// bytes, so that spans stay. The renderer itself replaces control characters of one byte.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let shows = |c: char| c.is_ascii() || !steers(c);
    if text.chars().all(shows) {
        return Cow::Borrowed(text);
    }
    let replaced = |c: char| match c.len_utf8() {
        _ if shows(c) => c,
        2 => '\u{a4}',
        _ => char::REPLACEMENT_CHARACTER,
    };
    Cow::Owned(text.chars().map(replaced).collect())
}

/// Escapes control characters, and those that change the direction of text, for a terminal.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && steers(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

pub(super) fn to_json(problems: &Diagnostics) -> Value {
    let place = |span: Span| {
        let (start, end) = (problems.source.position(span.start), problems.source.position(span.end));
        json!({
            "file": problems.source.name(), "line": start.line, "column": start.column, "end-line": end.line, "end-column": end.column,
            "start-byte": span.start, "end-byte": span.end,
        })
    };
    let list: Vec<Value> = problems
        .iter()
        .map(|problem| {
            let (code, message, hint) = (problem.code, &problem.message, &problem.hint);
            let mut value = json!({"code": code, "message": message, "hint": hint, "at": place(problem.span)});
            if let Some(cause) = &problem.excerpt {
                value["cause"] = place_of(cause);
            }
            if !problem.through.is_empty() {
                value["through"] = problem.through.iter().map(place_of).collect();
            }
            if !problem.related.is_empty() {
                let related = problem.related.iter().map(|(span, label)| json!({"label": label, "at": place(*span)}));
                value["related"] = related.collect();
            }
            value
        })
        .collect();
    json!({"file": problems.source.name(), "problems": list, "count": problems.count()})
}

fn place_of(Excerpt { file, text, span, .. }: &Excerpt) -> Value {
    let source = Source::new(file, text);
    let (start, end) = (source.position(span.start), source.position(span.end));
    json!({
        "file": file, "line": start.line, "column": start.column, "end-line": end.line, "end-column": end.column,
    })
}
