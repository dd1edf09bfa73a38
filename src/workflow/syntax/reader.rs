//! Builds the tree from the parser's events.

use super::{
    Content, DEPTH_MAX, Entry, NODES_MAX, Node, SOURCE_BYTES_MAX, Scalar, Source, Span, Style, TEXT_BYTES_MAX, hints,
};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use std::collections::BTreeMap;

/// Reads a file. Returns what could be read even if there are problems, so that later checks run
/// too. `None` if the YAML itself does not parse, or exceeds a bound.
pub fn parse(source: &Source, problems: &mut Diagnostics) -> Option<Node> {
    let text = source.text();
    if text.len() > SOURCE_BYTES_MAX {
        let message =
            format!("the file has more than {SOURCE_BYTES_MAX} bytes, the most that a workflow file may have");
        problems.push(Diagnostic::new("too-large", message, Span::default()));
        return None;
    }
    let mut reader = Reader {
        source,
        offsets: Offsets::new(text),
        problems,
        frames: Vec::new(),
        anchors: BTreeMap::new(),
        root: None,
        nodes: 0,
        text_bytes: 0,
    };
    match reader.run() {
        // A file without a document is an empty value; the model reports it.
        Ok(()) => Some(reader.root.unwrap_or_else(nothing)),
        Err(problem) => {
            problems.push(*problem);
            None
        }
    }
}

/// Converts the parser's positions, which count characters, to bytes.
struct Offsets(Option<Vec<u32>>, usize);

impl Offsets {
    fn new(text: &str) -> Self {
        let table = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at as u32).collect());
        Self(table, text.len())
    }

    fn byte(&self, index: usize) -> usize {
        match &self.0 {
            Some(table) => table.get(index).map_or(self.1, |at| *at as usize),
            None => index.min(self.1),
        }
    }
}

/// A collection that is being read.
struct Frame {
    start: usize,
    anchor: usize,
    kind: FrameKind,
}

enum FrameKind {
    Sequence(Vec<Node>),
    Mapping { entries: Vec<Entry>, first: BTreeMap<String, Span>, key: Option<(Option<String>, Span)> },
}

/// A problem that ends the reading.
type Fatal = Box<Diagnostic>;

struct Reader<'a> {
    source: &'a Source,
    offsets: Offsets,
    problems: &'a mut Diagnostics,
    frames: Vec<Frame>,
    anchors: BTreeMap<usize, (Node, usize, usize)>,
    root: Option<Node>,
    nodes: usize,
    text_bytes: usize,
}

impl Reader<'_> {
    fn run(&mut self) -> Result<(), Fatal> {
        let text = self.source.text();
        let mut parser = Parser::new_from_str(text);
        let mut documents = 0;
        while let Some(next) = parser.next_event() {
            let (event, marks) = next.map_err(|error| Box::new(self.scan_problem(&error)))?;
            let (start, end) = (self.offsets.byte(marks.start.index()), self.offsets.byte(marks.end.index()));
            let span = Span::new(start..end.max(start));
            match event {
                Event::DocumentStart(_) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(Diagnostic::new(
                            "many-documents",
                            "a workflow file must hold one document only",
                            span,
                        )
                        .hint("put each workflow into its own file")
                        .into());
                    }
                }
                Event::Scalar(text, style, anchor, tag) => {
                    self.refuse_tag(tag.is_some(), span);
                    let node = self.scalar(text.into_owned(), style, span);
                    self.count(1, node.as_scalar().map_or(0, |scalar| scalar.text.len()), span)?;
                    self.finish(node, anchor);
                }
                Event::SequenceStart(anchor, tag) => {
                    self.refuse_tag(tag.is_some(), span);
                    self.open(start, anchor, FrameKind::Sequence(Vec::new()), span)?;
                }
                Event::MappingStart(anchor, tag) => {
                    self.refuse_tag(tag.is_some(), span);
                    let kind = FrameKind::Mapping { entries: Vec::new(), first: BTreeMap::new(), key: None };
                    self.open(start, anchor, kind, span)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.close(end),
                Event::Alias(anchor) => self.alias(anchor, span)?,
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Nothing => {}
            }
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize, text_bytes: usize, span: Span) -> Result<(), Fatal> {
        self.nodes += nodes;
        self.text_bytes += text_bytes;
        let what = if self.nodes > NODES_MAX {
            format!("more than {NODES_MAX} values")
        } else if self.text_bytes > TEXT_BYTES_MAX {
            format!("more than {TEXT_BYTES_MAX} bytes of text")
        } else {
            return Ok(());
        };
        Err(Diagnostic::new("too-large", format!("the file has {what}; an alias counts each time it is used"), span)
            .into())
    }

    fn refuse_tag(&mut self, tagged: bool, span: Span) {
        if tagged {
            self.problems.push(
                Diagnostic::new("tag", "tags have no meaning in a workflow", span)
                    .hint("remove the tag; to make a value a string, quote it"),
            );
        }
    }

    fn scalar(&self, text: String, style: ScalarStyle, mut span: Span) -> Node {
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted => Style::Single,
            ScalarStyle::DoubleQuoted => Style::Double,
            ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
        };
        // The span of an anchored scalar includes the anchor.
        let raw = self.source.slice(span);
        if raw.starts_with(['&', '!']) && style != Style::Block {
            let value = match style {
                Style::Single => raw.find('\''),
                Style::Double => raw.find('"'),
                _ => {
                    Some(raw.find(char::is_whitespace).map_or(raw.len(), |at| raw.len() - raw[at..].trim_start().len()))
                }
            };
            span.start += value.unwrap_or(0) as u32;
        }
        Node { span, content: Content::Scalar(Scalar { text, style }) }
    }

    fn open(&mut self, start: usize, anchor: usize, kind: FrameKind, span: Span) -> Result<(), Fatal> {
        self.count(1, 0, span)?;
        if self.frames.len() >= DEPTH_MAX {
            let message = format!("values nest deeper than {DEPTH_MAX} levels");
            return Err(Diagnostic::new("too-deep", message, span).into());
        }
        self.frames.push(Frame { start, anchor, kind });
        Ok(())
    }

    fn close(&mut self, end: usize) {
        let frame = self.frames.pop().expect("invariant: the parser closes what it opened");
        let (content, last) = match frame.kind {
            FrameKind::Sequence(items) => {
                let last = items.last().map(|item| item.span);
                (Content::Sequence(items), last)
            }
            FrameKind::Mapping { entries, .. } => {
                let last = entries.last().map(|entry| entry.key_span.to(entry.value.span));
                (Content::Mapping(entries), last)
            }
        };
        // A block collection "ends" where the next token starts: the end of its last part is closer
        // to what a reader sees.
        let flow = self.source.text()[frame.start..].starts_with(['[', '{']);
        let end = if flow { end } else { last.map_or(end, |last| last.end as usize) };
        let span = Span::new(frame.start..end.max(frame.start));
        self.finish(Node { span, content }, frame.anchor);
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Fatal> {
        let Some((mut node, nodes, text_bytes)) = self.anchors.get(&anchor).cloned() else {
            return Err(Diagnostic::new("alias", "an alias is used within the value of its own anchor", span).into());
        };
        self.count(nodes, text_bytes, span)?;
        let depth = depth(&node);
        if self.frames.len() + depth > DEPTH_MAX {
            let message = format!("values nest deeper than {DEPTH_MAX} levels");
            return Err(Diagnostic::new("too-deep", message, span).into());
        }
        if let Content::Scalar(_) = node.content {
            node.span = span;
        }
        self.finish(node, 0);
        Ok(())
    }

    fn finish(&mut self, node: Node, anchor: usize) {
        if anchor != 0 {
            let (mut nodes, mut text_bytes) = (0, 0);
            measure(&node, &mut nodes, &mut text_bytes);
            self.anchors.insert(anchor, (node.clone(), nodes, text_bytes));
        }
        match self.frames.last_mut() {
            None => self.root = Some(node),
            Some(Frame { kind: FrameKind::Sequence(items), .. }) => items.push(node),
            Some(Frame { kind: FrameKind::Mapping { entries, first, key }, .. }) => match key.take() {
                None => *key = Some(read_key(node, self.problems)),
                // The value of an invalid key is dropped.
                Some((None, _)) => {}
                Some((Some(name), span)) => match first.get(&name) {
                    Some(before) => {
                        let message = format!("the key `{name}` is given twice");
                        let problem = Diagnostic::new("duplicate-key", message, span)
                            .related(*before, "first given here")
                            .hint("remove one of them");
                        self.problems.push(problem);
                    }
                    None => {
                        first.insert(name.clone(), span);
                        entries.push(Entry { key: name, key_span: span, value: node });
                    }
                },
            },
        }
    }

    fn scan_problem(&self, error: &ScanError) -> Diagnostic {
        let at = self.offsets.byte(error.marker().index());
        let text = self.source.text();
        let end = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
        let span = Span::new(at..end);
        if error.info().contains("recursion limit") {
            return Diagnostic::new("too-deep", format!("values nest deeper than {DEPTH_MAX} levels"), span);
        }
        let mut problem = Diagnostic::new("yaml", format!("not YAML: {}", hints::plain_message(error.info())), span);
        if let Some(hint) = hints::of(text, at, error) {
            problem = problem.hint(hint.hint);
            if let Some((span, label)) = hint.elsewhere {
                problem = problem.related(span, label);
            }
        }
        problem
    }
}

fn nothing() -> Node {
    Node { span: Span::default(), content: Content::Scalar(Scalar { text: String::new(), style: Style::Plain }) }
}

fn read_key(node: Node, problems: &mut Diagnostics) -> (Option<String>, Span) {
    match node.content {
        Content::Scalar(scalar) if scalar.text == "<<" && scalar.style == Style::Plain => {
            problems.push(
                Diagnostic::new("merge-key", "merge keys (`<<`) are not supported", node.span)
                    .hint("repeat the keys, or put common settings under `defaults`"),
            );
            (None, node.span)
        }
        Content::Scalar(scalar) => (Some(scalar.text), node.span),
        _ => {
            let text = problems.source().slice(node.span);
            // `{{ x }}` is a mapping whose key is a mapping.
            let is_template =
                text.starts_with('{') && problems.source().text()[..node.span.start as usize].ends_with('{');
            let hint = "an expression is written in quotes, with one pair of braces: \"${ .inputs.name }\"";
            let hint = is_template.then(|| hint.to_owned());
            problems.push(Diagnostic::new("key", "a key must be a string", node.span).hint_maybe(hint));
            (None, node.span)
        }
    }
}

fn measure(node: &Node, nodes: &mut usize, text_bytes: &mut usize) {
    *nodes += 1;
    match &node.content {
        Content::Scalar(scalar) => *text_bytes += scalar.text.len(),
        Content::Sequence(items) => items.iter().for_each(|item| measure(item, nodes, text_bytes)),
        Content::Mapping(entries) => entries.iter().for_each(|entry| {
            *nodes += 1;
            *text_bytes += entry.key.len();
            measure(&entry.value, nodes, text_bytes);
        }),
    }
}

fn depth(node: &Node) -> usize {
    match &node.content {
        Content::Scalar(_) => 0,
        Content::Sequence(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Content::Mapping(entries) => 1 + entries.iter().map(|entry| depth(&entry.value)).max().unwrap_or(0),
    }
}
