//! Finds in a text what each line is: the beginning of keys and items, or a part of a value.
//!
//! The parser's events say which values follow each other; dashes, colons, comments and the lines
//! of block scalars are found in the text between them, which holds nothing else.

use super::FormatError;
use crate::workflow::model::keys::{Part, Shape, WORKFLOW};
use saphyr_parser::{Event, Parser, ScalarStyle, Span};

/// Columns of one level.
pub(super) const INDENT: usize = 2;

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Blank,
    Comment,
    /// `---`, `...` or a directive.
    Marker,
    /// It begins keys or items: a range of [`Outline::openers`].
    Opens {
        first: usize,
        count: usize,
    },
    /// It begins a value whose key or dash is on a line above; `column` is its new indentation.
    Value {
        column: usize,
    },
    /// It continues a text; `column` is its new indentation. Blanks at its end may count.
    Text {
        column: usize,
    },
    /// It continues a collection in brackets, and moves as the line where that begins.
    Flow {
        begins: usize,
    },
    /// It is in a block scalar: so many columns are replaced by `column`.
    Block {
        strip: usize,
        column: usize,
    },
}

/// A key or a dash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opener {
    /// The bytes of a key in the text; those of a dash.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The byte after the colon or the dash.
    pub(super) after: usize,
    /// The column in the text, in bytes: indentation is ASCII.
    pub(super) old: usize,
    pub(super) new: usize,
    pub(super) is_dash: bool,
}

/// A mapping whose keys have an order.
#[derive(Debug)]
pub(super) struct Ordered {
    pub(super) column: usize,
    /// For each entry the line of its key, and its rank.
    pub(super) entries: Vec<(usize, usize)>,
    /// The last line of the last entry.
    pub(super) last: usize,
    /// Its first key is behind a dash, on the dash's line.
    pub(super) is_item: bool,
}

/// A part of the text.
pub(super) type Bytes = (usize, usize);

/// A collection in brackets, on one line behind its key or dash.
#[derive(Debug)]
pub(super) struct Wide {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The column of its key or dash.
    pub(super) owner: usize,
    pub(super) is_dash: bool,
    /// The bytes of keys and values; of a list only values.
    pub(super) parts: Vec<(Option<Bytes>, Bytes)>,
}

/// What is on which line.
#[derive(Debug)]
pub(super) struct Outline {
    /// Where each line begins.
    pub(super) starts: Vec<usize>,
    pub(super) roles: Vec<Role>,
    pub(super) openers: Vec<Opener>,
    /// Inner mappings before those that they are in.
    pub(super) ordered: Vec<Ordered>,
    pub(super) wide: Vec<Wide>,
    /// Lines at whose end a quoted text is open.
    pub(super) open_text: Vec<bool>,
    /// The bytes where comments begin.
    pub(super) comment_starts: Vec<usize>,
    /// Entries cannot change their places.
    pub(super) is_fixed: bool,
}

impl Outline {
    /// The texts of the comments, in file order.
    pub(super) fn comments(&self, text: &str) -> Vec<String> {
        let line = |at: &usize| text[*at..].lines().next().unwrap_or_default().trim_end().to_owned();
        self.comment_starts.iter().map(line).collect()
    }

    pub(super) fn line_of(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte) - 1
    }

    fn column_of(&self, byte: usize) -> usize {
        byte - self.starts[self.line_of(byte)]
    }
}

/// Reads a text with line feeds only.
pub(super) fn read(text: &str) -> Result<Outline, FormatError> {
    let starts: Vec<usize> = std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .filter(|start| *start < text.len() || text.is_empty())
        .collect();
    let count = starts.len();
    let outline = Outline {
        starts,
        roles: vec![Role::Blank; count],
        openers: Vec::new(),
        ordered: Vec::new(),
        wide: Vec::new(),
        open_text: vec![false; count],
        comment_starts: Vec::new(),
        is_fixed: false,
    };
    let chars = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
    let mut reader = Reader { text, at: 0, events: Parser::new_from_str(text), chars, outline, peeked: None };
    reader.document()?;
    let mut outline = reader.outline;
    if outline.is_fixed {
        // An alias must stay behind its anchor, and no blank line may come behind a text that keeps
        // those at its end.
        outline.ordered.clear();
    }
    Ok(outline)
}

pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    /// The byte up to which the text has been read.
    pub(super) at: usize,
    events: Parser<'t, saphyr_parser::StrInput<'t>>,
    chars: Option<Vec<usize>>,
    pub(super) outline: Outline,
    peeked: Option<(Event<'t>, Span)>,
}

/// The key or dash that a value belongs to.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) line: usize,
    old: usize,
    pub(super) new: usize,
    /// The column of a value on a line of its own.
    inner: usize,
    pub(super) is_dash: bool,
}

type Done<T = ()> = Result<T, FormatError>;

impl<'t> Reader<'t> {
    pub(super) fn unusual<T>(&self, what: &'static str) -> Done<T> {
        let line = self.outline.line_of(self.at.min(self.text.len().saturating_sub(1))) + 1;
        Err(FormatError::Unusual { line, what })
    }

    pub(super) fn next(&mut self) -> Done<(Event<'t>, Span)> {
        if let Some(peeked) = self.peeked.take() {
            return Ok(peeked);
        }
        match self.events.next_event() {
            Some(Ok(next)) => Ok(next),
            _ => self.unusual("it is not YAML"),
        }
    }

    fn peek(&mut self) -> Done<&Event<'t>> {
        if self.peeked.is_none() {
            self.peeked = Some(self.next()?);
        }
        Ok(&self.peeked.as_ref().expect("invariant: it was just set").0)
    }

    /// The byte of one of the parser's positions.
    pub(super) fn byte(&self, index: usize) -> usize {
        match &self.chars {
            Some(table) => table.get(index).copied().unwrap_or(self.text.len()),
            None => index.min(self.text.len()),
        }
    }

    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Goes over blanks, line ends and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
            if !self.rest().starts_with('#') {
                return;
            }
            self.comment();
        }
    }

    /// Goes over a comment.
    fn comment(&mut self) {
        let line = self.outline.line_of(self.at);
        let before = &self.text[self.outline.starts[line]..self.at];
        if before.trim().is_empty() && self.outline.roles[line] == Role::Blank {
            self.outline.roles[line] = Role::Comment;
        }
        self.outline.comment_starts.push(self.at);
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    fn document(&mut self) -> Done {
        while let Event::StreamStart | Event::DocumentStart(_) | Event::Nothing = self.peek()? {
            self.next()?;
        }
        self.markers();
        if !matches!(self.peek()?, Event::StreamEnd | Event::DocumentEnd) {
            let owner = Owner { line: usize::MAX, old: 0, new: 0, inner: 0, is_dash: false };
            self.skip();
            if matches!(self.peek()?, Event::MappingStart(..)) && !self.rest().starts_with('{') {
                self.next()?;
                let shape: &'static Shape = &Shape::Keys(|| &WORKFLOW);
                self.mapping(0, false, vec![shape])?;
            } else {
                self.value(owner, Vec::new())?;
            }
        }
        self.markers();
        if self.at < self.text.len() { self.unusual("this is not expected") } else { Ok(()) }
    }

    /// Goes over directives and the marks of a document.
    fn markers(&mut self) {
        loop {
            self.skip();
            let line = self.outline.line_of(self.at.min(self.text.len().saturating_sub(1)));
            let is_start = self.outline.starts.get(line) == Some(&self.at);
            let rest = self.rest();
            let mark = ["---", "..."].into_iter().find(|mark| rest.starts_with(mark));
            if !is_start || rest.is_empty() || (mark.is_none() && !rest.starts_with('%')) {
                return;
            }
            self.outline.roles[line] = Role::Marker;
            self.at += mark.map_or_else(|| rest.find('\n').unwrap_or(rest.len()), str::len);
        }
    }

    fn open(&mut self, start: usize, end: usize, after: usize, new: usize, is_dash: bool) -> Done<Owner> {
        let line = self.outline.line_of(start);
        let old = self.outline.column_of(start);
        self.outline.openers.push(Opener { start, end, after, old, new, is_dash });
        let index = self.outline.openers.len() - 1;
        self.outline.roles[line] = match self.outline.roles[line] {
            Role::Opens { first, count } => Role::Opens { first, count: count + 1 },
            Role::Blank => Role::Opens { first: index, count: 1 },
            _ => return self.unusual("a key is on a line with something else"),
        };
        Ok(Owner { line, old, new, inner: new + INDENT, is_dash })
    }

    /// Reads a mapping on lines of its own, up to its end event.
    fn mapping(&mut self, column: usize, is_item: bool, shapes: Vec<&'static Shape>) -> Done {
        let keys = shapes.iter().flat_map(|shape| shape.mappings()).find(|keys| keys.is_ordered());
        let mut entries = Vec::new();
        while !matches!(self.peek()?, Event::MappingEnd) {
            self.skip();
            let start = self.at;
            if self.rest().starts_with("? ") || self.rest().starts_with("?\n") {
                return self.unusual("a key is written with `?`");
            }
            self.properties();
            let (event, span) = self.next()?;
            let Event::Scalar(name, ..) = event else { return self.unusual("a key is no text") };
            let end = self.byte(span.end.index());
            let end = self.text[..end].trim_end().len().max(self.at);
            self.at = end;
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
            if !self.rest().starts_with(':') || self.outline.line_of(start) != self.outline.line_of(self.at) {
                return self.unusual("a key has no colon behind it");
            }
            self.at += 1;
            let owner = self.open(start, end, self.at, column, false)?;
            entries.push((owner.line, keys.map_or(0, |keys| keys.rank(&name))));
            let within = shapes.iter().flat_map(|shape| shape.within(Part::Key(&name))).collect();
            self.value(owner, within)?;
        }
        self.next()?;
        if keys.is_some() && entries.len() > 1 {
            let last = self.outline.line_of(self.at);
            self.outline.ordered.push(Ordered { column, entries, last, is_item });
        }
        Ok(())
    }

    /// Reads a list on lines of its own, up to its end event.
    fn sequence(&mut self, column: usize, shapes: &[&'static Shape]) -> Done {
        let within: Vec<&'static Shape> = shapes.iter().flat_map(|shape| shape.within(Part::Item)).collect();
        while !matches!(self.peek()?, Event::SequenceEnd) {
            self.skip();
            let start = self.at;
            if !self.rest().starts_with('-') {
                return self.unusual("an item has no dash");
            }
            self.at += 1;
            let owner = self.open(start, self.at, self.at, column, true)?;
            self.value(owner, within.clone())?;
        }
        self.next()?;
        Ok(())
    }

    /// Goes over anchors and tags.
    fn properties(&mut self) {
        while self.rest().starts_with(['&', '!']) {
            self.outline.is_fixed = true;
            let rest = self.rest();
            self.at += rest.find(char::is_whitespace).unwrap_or(rest.len());
            self.skip();
        }
    }

    /// Marks the line where a value begins, if its key or dash is above.
    fn begins(&mut self, owner: Owner) {
        let line = self.outline.line_of(self.at.min(self.text.len().saturating_sub(1)));
        if line != owner.line && self.outline.roles[line] == Role::Blank {
            self.outline.roles[line] = Role::Value { column: owner.inner };
        }
    }

    fn value(&mut self, owner: Owner, shapes: Vec<&'static Shape>) -> Done {
        let before = self.at;
        let (event, span) = self.next()?;
        if let Event::Scalar(text, ScalarStyle::Plain, ..) = &event
            && text.is_empty()
            && !self.has_properties()
        {
            // Nothing is written.
            self.at = before;
            return Ok(());
        }
        self.skip();
        if self.rest().starts_with(['&', '!']) {
            self.begins(owner);
        }
        self.properties();
        let column = owner.inner;
        match event {
            Event::MappingStart(..) if !self.rest().starts_with('{') => {
                let is_item = owner.is_dash && self.outline.line_of(self.at) == owner.line;
                self.mapping(column, is_item, shapes)
            }
            Event::SequenceStart(..) if !self.rest().starts_with('[') => self.sequence(column, &shapes),
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                self.begins(owner);
                self.flow(owner)
            }
            Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..) => {
                self.begins(owner);
                self.block(owner)
            }
            Event::Scalar(text, style, ..) => {
                if text.is_empty() && style == ScalarStyle::Plain {
                    return Ok(());
                }
                self.begins(owner);
                self.scalar(owner, span, style)
            }
            Event::Alias(_) => {
                self.outline.is_fixed = true;
                self.begins(owner);
                let rest = self.rest();
                self.at += rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len());
                Ok(())
            }
            _ => self.unusual("this is not expected"),
        }
    }

    /// Returns whether an anchor or a tag comes next.
    fn has_properties(&self) -> bool {
        let mut rest = self.rest().trim_start();
        while rest.starts_with('#') {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
        }
        rest.starts_with(['&', '!'])
    }

    /// A text that is not in a block scalar: its further lines continue it.
    fn scalar(&mut self, owner: Owner, span: Span, style: ScalarStyle) -> Done {
        let end = self.byte(span.end.index());
        if end < self.at {
            return self.unusual("a value ends before it begins");
        }
        let end = if style == ScalarStyle::Plain { self.text[..end].trim_end().len() } else { end };
        let (first, last) = (self.outline.line_of(self.at), self.outline.line_of(end.saturating_sub(1).max(self.at)));
        for line in first..last {
            self.outline.roles[line + 1] = Role::Text { column: owner.inner };
            self.outline.open_text[line] = style != ScalarStyle::Plain;
        }
        self.at = end.max(self.at);
        Ok(())
    }

    /// A block scalar, from its `|` or `>`: its lines are found by their indentation.
    fn block(&mut self, owner: Owner) -> Done {
        let header_line = self.outline.line_of(self.at);
        let rest = self.rest();
        if !rest.starts_with(['|', '>']) {
            return self.unusual("a block of text has no `|` or `>`");
        }
        let header = &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())];
        let keeps = header.contains('+');
        self.outline.is_fixed |= keeps;
        let digit = header.chars().find_map(|c| c.to_digit(10)).map(|digit| digit as usize);
        self.at += header.len();
        // A comment may stand behind it.
        let line_end = |line: usize| {
            self.outline
                .starts
                .get(line + 1)
                .map_or(self.text.strip_suffix('\n').unwrap_or(self.text).len(), |next| next - 1)
        };
        let end = line_end(header_line).max(self.at);
        if let Some(hash) = self.text[self.at..end].find('#') {
            self.outline.comment_starts.push(self.at + hash);
        }
        let mut lines = (header_line + 1)..self.outline.starts.len();
        let indent_of = |line: usize| {
            let text = &self.text[self.outline.starts[line]..line_end(line)];
            let indent = text.len() - text.trim_start_matches(' ').len();
            (!text.trim_matches(' ').is_empty()).then_some(indent)
        };
        let strip = digit.map(|digit| owner.old + digit);
        let strip = strip.or_else(|| lines.clone().find_map(indent_of)).unwrap_or(0);
        let mut last = header_line;
        if strip > owner.old || owner.line == usize::MAX {
            let mut blank_until = header_line;
            for line in lines.by_ref() {
                match indent_of(line) {
                    None => blank_until = line,
                    Some(indent) if indent < strip => break,
                    Some(_) => last = line,
                }
            }
            if keeps && blank_until > last {
                last = blank_until;
            }
        }
        let column = owner.new + digit.unwrap_or(INDENT);
        for line in header_line + 1..=last {
            self.outline.roles[line] = Role::Block { strip, column };
        }
        self.at = line_end(last).max(end);
        Ok(())
    }
}
