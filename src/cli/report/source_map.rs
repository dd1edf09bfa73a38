//! From the JSON Pointer in a problem of a run to a position in the workflow file.

use crate::cli::terminal::{Terminal, in_line, printable};
use crate::host::Workflow;
use crate::workflow::diagnostics::{Excerpt, shown};
use crate::workflow::expression::TextTemplate;
use crate::workflow::syntax::{self, Content, Node, ScalarOffsets, Source, Span};
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet, renderer::DecorStyle};
use serde_json::{Value, json};

/// The name of a workflow from standard input.
pub(in crate::cli) const STDIN: &str = "stdin";

/// The files of a workflow, parsed again for positions in them.
pub(in crate::cli) struct SourceMap<'a> {
    /// The workflow's own file.
    own: ParsedFile<'a>,
    /// The files that its steps run, by their paths.
    others: Vec<(&'a str, ParsedFile<'a>)>,
}

struct ParsedFile<'a> {
    source: &'a Source,
    root: Node,
}

/// A range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) struct SourceSpan {
    /// Its index among the files that steps run; `None` for the workflow's own.
    file: Option<usize>,
    span: Span,
}

impl<'a> ParsedFile<'a> {
    /// `None` if the text does not parse.
    fn of(source: &'a Source) -> Option<Self> {
        let mut problems = crate::workflow::diagnostics::Diagnostics::new(source.clone());
        let root = syntax::parse(source, &mut problems)?;
        Some(Self { source, root })
    }

    fn find(&self, pointer: &str, offset: Option<usize>) -> Span {
        let mut node = &self.root;
        for segment in pointer.split('/').skip(1) {
            let key = segment.replace("~1", "/").replace("~0", "~");
            let next = match &node.content {
                Content::Mapping(_) => node.get(&key),
                Content::Sequence(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
                Content::Scalar(_) => None,
            };
            let Some(next) = next else { break };
            node = next;
        }
        if let Some(id) = node.get("id") {
            return id.span;
        }
        let expression = || {
            let scalar = node.as_scalar()?;
            let template = TextTemplate::parse(&scalar.text).ok()?;
            let placed = template.expressions().find(|placed| Some(placed.offset) == offset)?;
            let places = ScalarOffsets::new(self.source, node.span, scalar);
            let end = placed.offset + placed.expression.text().len();
            Some(Span { start: places.at(placed.offset), end: places.at(end) })
        };
        expression().unwrap_or(node.span)
    }
}

impl<'a> SourceMap<'a> {
    /// `None` if a text does not parse.
    pub(in crate::cli) fn of(workflow: &'a Workflow) -> Option<Self> {
        let parsed = |(path, source): (&'a str, &'a Source)| Some((path, ParsedFile::of(source)?));
        let others = workflow.children().map(parsed).collect::<Option<_>>()?;
        Some(Self { own: ParsedFile::of(workflow.source())?, others })
    }

    fn file(&self, file: Option<usize>) -> &ParsedFile<'a> {
        file.map_or(&self.own, |index| &self.others[index].1)
    }

    /// The range that a pointer of the plan leads to, or the last part of its path that exists. For
    /// a step it is the id. With an offset it is the expression that begins there in a string.
    pub(in crate::cli) fn find(&self, pointer: &str, offset: Option<usize>) -> SourceSpan {
        let other = pointer.split_once('#').filter(|_| !pointer.starts_with('/'));
        let other = other.and_then(|(file, rest)| {
            let index = self.others.iter().position(|(path, _)| *path == file)?;
            Some((Some(index), rest))
        });
        let (file, pointer) = other.unwrap_or((None, pointer));
        SourceSpan { file, span: self.file(file).find(pointer, offset) }
    }

    /// The file and the part of it.
    pub(in crate::cli) fn part(&self, span: SourceSpan) -> (&Source, Span) {
        (self.file(span.file).source, span.span)
    }

    /// `file:line:column`.
    pub(in crate::cli) fn short(&self, span: SourceSpan) -> String {
        let source = self.file(span.file).source;
        let at = source.position(span.span.start);
        format!("{}:{}:{}", source.name(), at.line, at.column)
    }

    /// As [`span_json`].
    pub(in crate::cli) fn json(&self, span: SourceSpan) -> Value {
        span_json(self.file(span.file).source, span.span)
    }

    /// The error with its line, underlined, and its notes and hint below. If the cause is in a
    /// script, its line comes first.
    pub(in crate::cli) fn excerpt(
        &self,
        span: SourceSpan,
        cause: Option<&Excerpt>,
        error: &Message<'_>,
        terminal: Terminal,
    ) -> String {
        let primary = AnnotationKind::Primary;
        let source = self.file(span.file).source;
        let here = |kind| snippet(source.name(), source.text(), span.span, kind);
        match cause {
            None => error.render(vec![here(primary)], terminal),
            // A script in the workflow file is in its step.
            Some(Excerpt { file, text, span, .. }) if file == source.name() => {
                error.render(vec![snippet(file, text, *span, primary)], terminal)
            }
            Some(Excerpt { file, text, span, .. }) => {
                let cause = snippet(file, text, *span, primary);
                error.render(vec![cause, here(AnnotationKind::Context)], terminal)
            }
        }
    }
}

/// File, line and column, both from 1; the end is behind the last character.
pub(in crate::cli) fn span_json(source: &Source, span: Span) -> Value {
    let (start, end) = (source.position(span.start), source.position(span.end));
    json!({
        "file": source.name(), "line": start.line, "column": start.column,
        "end-line": end.line, "end-column": end.column,
    })
}

/// The first line of a span, annotated.
fn snippet<'s>(
    file: &'s str,
    text: &'s str,
    span: Span,
    kind: AnnotationKind,
) -> Snippet<'s, annotate_snippets::Annotation<'s>> {
    let line = text.get(span.range()).unwrap_or("").split('\n').next().unwrap_or("").trim_end();
    let start = (span.start as usize).min(text.len());
    Snippet::source(shown(text)).path(in_line(file)).annotation(kind.span(start..start + line.len()))
}

/// A problem as users read it.
pub(in crate::cli) struct Message<'a> {
    pub(in crate::cli) kind: &'a str,
    pub(in crate::cli) title: String,
    pub(in crate::cli) notes: Vec<String>,
    pub(in crate::cli) hint: Option<String>,
}

impl Message<'_> {
    /// Rendered without a position in the file.
    pub(in crate::cli) fn plain(&self, terminal: Terminal) -> String {
        let error = terminal.paint("1;31", &format!("error[{}]", in_line(self.kind)));
        let mut out = format!("{error}: {}", in_line(&self.title));
        for note in &self.notes {
            out.push_str(&format!("\n  {}", printable(note).replace('\n', "\n  ")));
        }
        if let Some(hint) = &self.hint {
            out.push_str(&format!("\n{}: {}", terminal.paint("1;36", "hint"), printable(hint)));
        }
        out
    }

    /// Rendered with a place in a script.
    pub(in crate::cli) fn at(&self, Excerpt { file, text, span, .. }: &Excerpt, terminal: Terminal) -> String {
        self.render(vec![snippet(file, text, *span, AnnotationKind::Primary)], terminal)
    }

    fn render<'s>(
        &'s self,
        snippets: Vec<Snippet<'s, annotate_snippets::Annotation<'s>>>,
        terminal: Terminal,
    ) -> String {
        let renderer = if terminal.colour { Renderer::styled() } else { Renderer::plain() };
        let title = Level::ERROR.primary_title(in_line(&self.title)).id(in_line(self.kind));
        let mut group = title.elements(snippets);
        for note in &self.notes {
            group = group.element(Level::NOTE.message(printable(note)));
        }
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.with_name("hint").message(printable(hint)));
        }
        renderer.decor_style(DecorStyle::Ascii).render(&[group])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "steps:\n  - id: one\n    set: \"a${ .inputs.x }b${ .inputs.y | error }\"\n  - { id: \
    two, with: { a/b: [ 1, \"${ .x }\" ] } }\n";

    fn find(pointer: &str, offset: Option<usize>) -> (String, &'static str) {
        let source = Source::new("flow.yaml", TEXT);
        let map = SourceMap { own: ParsedFile::of(&source).unwrap(), others: Vec::new() };
        let span = map.find(pointer, offset);
        (map.short(span), &TEXT[span.span.range()])
    }

    #[test]
    fn a_step_is_at_its_id_and_an_expression_where_it_begins() {
        assert_eq!(find("/steps/0", None), ("flow.yaml:2:9".to_owned(), "one"));
        assert_eq!(find("/steps/1", None), ("flow.yaml:4:11".to_owned(), "two"));
        assert_eq!(find("/steps/0/set", Some(4)), ("flow.yaml:3:15".to_owned(), ".inputs.x"));
        assert_eq!(find("/steps/0/set", Some(19)), ("flow.yaml:3:30".to_owned(), ".inputs.y | error"));
        assert_eq!(find("/steps/1/with/a~1b/1", Some(3)).1, ".x");
    }

    #[test]
    fn a_pointer_that_leads_too_far_ends_at_what_there_is() {
        assert_eq!(find("/steps/1/with/a~1b/7", None).1.trim_end(), "[ 1, \"${ .x }\" ]");
        assert!(find("/outputs/x", Some(3)).1.starts_with("steps:"));
        assert!(find("", None).1.starts_with("steps:"));
    }
}
