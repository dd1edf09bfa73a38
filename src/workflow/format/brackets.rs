//! Collections in brackets, within the outline.

use super::FormatError;
use super::outline::{Bytes, Owner, Reader, Role, Wide};
use saphyr_parser::Event;

impl Reader<'_> {
    /// A collection in brackets.
    pub(super) fn flow(&mut self, owner: Owner) -> Result<(), FormatError> {
        let (start, begins) = (self.at, self.outline.line_of(self.at));
        let comments = self.outline.comment_starts.len();
        let mut found = Vec::new();
        let Some(end) = flow_end(self.text, start, &mut found) else {
            return self.unusual("brackets are not where they are looked for");
        };
        self.outline.comment_starts.extend(found);
        let parts = self.flow_parts(start, self.text[start..].starts_with('{'))?;
        let last = self.outline.line_of(end - 1);
        for line in begins + 1..=last {
            self.outline.roles[line] = Role::Flow { begins };
            self.outline.open_text[line - 1] = true;
        }
        self.at = end;
        let rest = self.rest().lines().next().unwrap_or_default();
        let is_alone = rest.trim().is_empty() && self.outline.comment_starts.len() == comments;
        if last == begins && owner.line == begins && is_alone {
            let (owner, is_dash) = (owner.new, owner.is_dash);
            self.outline.wide.push(Wide { start, end, owner, is_dash, parts });
        }
        Ok(())
    }

    /// The bytes of the keys and values of a collection in brackets, up to its end event.
    fn flow_parts(&mut self, start: usize, is_mapping: bool) -> Result<Vec<(Option<Bytes>, Bytes)>, FormatError> {
        let mut parts = Vec::new();
        let (mut key, mut opened, mut reached) = (None, start, start);
        let mut depth = 1;
        while depth > 0 {
            let (event, span) = self.next()?;
            let (from, to) = (self.byte(span.start.index()), self.byte(span.end.index()));
            let mut part = None;
            match event {
                Event::MappingStart(anchor, _) | Event::SequenceStart(anchor, _) => {
                    self.outline.is_fixed |= anchor != 0;
                    if depth == 1 {
                        opened = from;
                    }
                    depth += 1;
                }
                Event::MappingEnd | Event::SequenceEnd => {
                    depth -= 1;
                    // A pair in a list has no brackets of its own.
                    let end = flow_end(self.text, opened, &mut Vec::new()).unwrap_or(reached);
                    part = (depth == 1).then_some((opened, end));
                }
                Event::Scalar(_, _, anchor, _) | Event::Alias(anchor) => {
                    self.outline.is_fixed |= anchor != 0;
                    reached = to;
                    part = (depth == 1).then_some((from, to));
                }
                _ => return self.unusual("this is not expected"),
            }
            match (part, is_mapping, key.take()) {
                (Some(part), true, None) => key = Some(part),
                (Some(part), true, known) => parts.push((known, part)),
                (Some(part), false, _) => parts.push((None, part)),
                (None, _, known) => key = known,
            }
        }
        Ok(parts)
    }
}

/// The byte behind the bracket that closes the one at `start`, and the comments between them: `#`
/// behind a blank. A text without quotes has no brackets here. `None` if none opens at `start`.
fn flow_end(text: &str, start: usize, comments: &mut Vec<usize>) -> Option<usize> {
    let mut quote = None;
    let mut previous = ' ';
    let mut depth = 0usize;
    let mut chars = text[start..].char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some('"'), '\\') => drop(chars.next()),
            (Some(mark), _) if mark == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if previous.is_whitespace() || matches!(previous, '[' | '{' | ',' | ':') => {
                quote = Some(c);
            }
            (None, '#') if previous.is_whitespace() => {
                comments.push(start + at);
                chars.by_ref().find(|(_, c)| *c == '\n');
                previous = '\n';
                continue;
            }
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(start + at + 1);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
        previous = c;
    }
    None
}
