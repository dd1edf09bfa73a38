//! From tokens to a tree, by recursive descent with precedences. Nesting is counted, and so is the height of what is built.

use super::lexer::{Lexer, Piece, Token};
use super::{Entry, HEIGHT_MAX, Id, NESTING_MAX, Pattern, SyntaxError, Term, Tree};
use std::ops::Range;

type Result<T> = std::result::Result<T, SyntaxError>;

/// Words that are no names of functions.
const KEYWORDS: &[&str] = &[
    "as", "import", "include", "module", "def", "if", "then", "else", "elif", "and", "or", "end", "reduce", "foreach",
    "try", "catch", "label", "break",
];

pub(super) fn parse(text: &str) -> Result<Tree> {
    let mut parser =
        Parser { lexer: Lexer::new(text), peeked: None, end: 0, nesting: 0, terms: Vec::new(), heights: Vec::new() };
    let root = parser.query()?;
    match parser.peek()? {
        Token::End => Ok(Tree { terms: parser.terms, root }),
        _ => parser.unexpected("an operator or the end"),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    peeked: Option<(Token<'a>, Range<usize>)>,
    /// Where the token that was taken last ends.
    end: usize,
    nesting: usize,
    terms: Vec<(Term, Range<u32>)>,
    heights: Vec<u16>,
}

/// How tightly an operator binds, and whether it groups to the right.
struct Binding {
    strength: u8,
    right: bool,
}

fn binding(token: Token<'_>) -> Option<Binding> {
    let (strength, right) = match token {
        Token::Sign("//") => (1, true),
        Token::Sign("=" | "|=" | "+=" | "-=" | "*=" | "/=" | "%=" | "//=") => (2, false),
        Token::Word("or") => (3, false),
        Token::Word("and") => (4, false),
        Token::Sign("==" | "!=" | "<" | ">" | "<=" | ">=") => (5, false),
        Token::Sign("+" | "-") => (6, false),
        Token::Sign("*" | "/" | "%") => (7, false),
        _ => return None,
    };
    Some(Binding { strength, right })
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Result<Token<'a>> {
        if self.peeked.is_none() {
            self.peeked = Some(self.lexer.next()?);
        }
        Ok(self.peeked.as_ref().map_or(Token::End, |(token, _)| *token))
    }

    fn take(&mut self) -> Result<Token<'a>> {
        let token = self.peek()?;
        if let Some((_, span)) = self.peeked.take() {
            self.end = span.end;
        }
        Ok(token)
    }

    /// Where the next token begins.
    fn start(&mut self) -> Result<usize> {
        self.peek()?;
        Ok(self.peeked.as_ref().map_or(self.end, |(_, span)| span.start))
    }

    fn accept(&mut self, token: Token<'_>) -> Result<bool> {
        let found = self.peek()? == token;
        if found {
            self.take()?;
        }
        Ok(found)
    }

    fn expect(&mut self, token: Token<'_>, name: &str) -> Result<()> {
        if self.accept(token)? { Ok(()) } else { self.unexpected(name) }
    }

    fn sign(&mut self, sign: &'static str) -> Result<()> {
        self.expect(Token::Sign(sign), &format!("`{sign}`"))
    }

    fn unexpected<T>(&mut self, wanted: &str) -> Result<T> {
        let token = self.peek()?;
        let span = self.peeked.as_ref().map_or(self.end..self.end, |(_, span)| span.clone());
        let message = match token {
            Token::End => format!("the expression ends where {wanted} is expected"),
            _ => format!("{wanted} is expected here"),
        };
        Err(SyntaxError { message, span })
    }

    fn error<T>(&self, start: usize, message: impl Into<String>) -> Result<T> {
        Err(SyntaxError { message: message.into(), span: start..self.end.max(start) })
    }

    /// Adds a term that begins at `start` and ends with the token taken last. `children` are those it consists of.
    fn add(&mut self, start: usize, term: Term, children: &[Id]) -> Result<Id> {
        let height = 1 + children.iter().map(|&id| self.heights[id as usize]).max().unwrap_or(0);
        if height > HEIGHT_MAX {
            return self.error(start, format!("the expression has more than {HEIGHT_MAX} levels"));
        }
        let id = self.terms.len() as Id;
        self.terms.push((term, start as u32..self.end.max(start) as u32));
        self.heights.push(height);
        Ok(id)
    }

    /// Runs a rule one level deeper.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.nesting == NESTING_MAX {
            let start = self.start()?;
            return self.error(start, format!("the expression nests more than {NESTING_MAX} levels deep"));
        }
        self.nesting += 1;
        let result = rule(self);
        self.nesting -= 1;
        result
    }

    /// `left | right`, where commas bind tighter.
    fn query(&mut self) -> Result<Id> {
        self.nested(|p| p.separated("|", |p| p.separated(",", Self::item, Term::Comma), Term::Pipe))
    }

    fn separated(
        &mut self,
        sign: &'static str,
        mut rule: impl FnMut(&mut Self) -> Result<Id>,
        join: impl Fn(Id, Id) -> Term,
    ) -> Result<Id> {
        let start = self.start()?;
        let mut left = rule(self)?;
        while self.accept(Token::Sign(sign))? {
            let right = rule(self)?;
            left = self.add(start, join(left, right), &[left, right])?;
        }
        Ok(left)
    }

    /// What stands between pipes and commas. Definitions, labels and bindings extend to the end of the query.
    fn item(&mut self) -> Result<Id> {
        let start = self.start()?;
        match self.peek()? {
            Token::Word("def") => self.definition(start),
            Token::Word("label") => {
                self.take()?;
                self.variable()?;
                self.sign("|")?;
                let body = self.query()?;
                self.add(start, Term::Label(body), &[body])
            }
            _ => {
                let source = self.operation(0)?;
                if self.peek()? != Token::Word("as") {
                    return Ok(source);
                }
                let (patterns, keys) = self.patterns()?;
                self.sign("|")?;
                let body = self.query()?;
                let children = [&[source, body][..], &keys].concat();
                self.add(start, Term::Bind { source, patterns, body }, &children)
            }
        }
    }

    fn definition(&mut self, start: usize) -> Result<Id> {
        self.take()?;
        let name = self.name()?.to_owned();
        let mut parameters = Vec::new();
        if self.accept(Token::Sign("("))? {
            loop {
                parameters.push(match self.peek()? {
                    Token::Variable(name) => {
                        self.take()?;
                        format!("${name}")
                    }
                    _ => self.name()?.to_owned(),
                });
                if !self.accept(Token::Sign(";"))? {
                    break;
                }
            }
            self.sign(")")?;
        }
        self.sign(":")?;
        let body = self.query()?;
        self.sign(";")?;
        let rest = self.query()?;
        self.add(start, Term::Define { name, parameters, body, rest }, &[body, rest])
    }

    fn name(&mut self) -> Result<&'a str> {
        match self.peek()? {
            Token::Word(name) if !KEYWORDS.contains(&name) => {
                self.take()?;
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    fn variable(&mut self) -> Result<&'a str> {
        match self.peek()? {
            Token::Variable(name) => {
                self.take()?;
                Ok(name)
            }
            _ => self.unexpected("a variable"),
        }
    }

    /// Operators that bind at least as tightly as `strength`.
    fn operation(&mut self, strength: u8) -> Result<Id> {
        let start = self.start()?;
        let mut left = self.postfix()?;
        loop {
            let token = self.peek()?;
            let Some(found) = binding(token).filter(|b| b.strength >= strength) else { return Ok(left) };
            self.take()?;
            let above = found.strength + u8::from(!found.right);
            let right = self.nested(|p| p.operation(above))?;
            let term = match found.strength {
                1 => Term::Alternative(left, right),
                2 => Term::Assign { target: left, value: right },
                _ => Term::Operator(left, right),
            };
            left = self.add(start, term, &[left, right])?;
        }
    }

    /// A term and the paths and question marks after it.
    fn postfix(&mut self) -> Result<Id> {
        let start = self.start()?;
        let mut term = self.primary()?;
        loop {
            term = match self.peek()? {
                Token::Field(key) => {
                    self.take()?;
                    self.key(start, term, key.to_owned())?
                }
                Token::Sign("?") => {
                    self.take()?;
                    self.add(start, Term::Try { body: term, handler: None }, &[term])?
                }
                Token::Sign("[") => self.bracket(start, term)?,
                Token::Sign(".") => {
                    self.take()?;
                    match self.peek()? {
                        Token::Sign("[") => self.bracket(start, term)?,
                        Token::Quote | Token::Format(_) => self.string_key(start, term)?,
                        _ => return self.unexpected("a key"),
                    }
                }
                _ => return Ok(term),
            };
        }
    }

    fn key(&mut self, start: usize, on: Id, key: String) -> Result<Id> {
        let optional = self.accept(Token::Sign("?"))?;
        self.add(start, Term::Key { on, key, optional }, &[on])
    }

    fn string_key(&mut self, start: usize, on: Id) -> Result<Id> {
        let index = self.string()?;
        self.index(start, on, index)
    }

    /// `on[index]`, where the index is complete.
    fn index(&mut self, start: usize, on: Id, index: Id) -> Result<Id> {
        if let Term::Text(key) = &self.terms[index as usize].0 {
            let key = key.clone();
            return self.key(start, on, key);
        }
        let optional = self.accept(Token::Sign("?"))?;
        self.add(start, Term::At { on, index, optional }, &[on, index])
    }

    /// `[]`, `[index]`, `[from:to]`. A question mark after the first and the last is left to the caller, as a `try`.
    fn bracket(&mut self, start: usize, on: Id) -> Result<Id> {
        self.take()?;
        if self.accept(Token::Sign("]"))? {
            return self.add(start, Term::Each { on }, &[on]);
        }
        if self.accept(Token::Sign(":"))? {
            let to = self.query()?;
            self.sign("]")?;
            return self.add(start, Term::Slice { on, from: None, to: Some(to) }, &[on, to]);
        }
        let first = self.query()?;
        if !self.accept(Token::Sign(":"))? {
            self.sign("]")?;
            return self.index(start, on, first);
        }
        let to = if self.peek()? == Token::Sign("]") { None } else { Some(self.query()?) };
        self.sign("]")?;
        let children = [Some(on), Some(first), to].into_iter().flatten().collect::<Vec<_>>();
        self.add(start, Term::Slice { on, from: Some(first), to }, &children)
    }

    fn primary(&mut self) -> Result<Id> {
        let start = self.start()?;
        match self.peek()? {
            Token::Quote => return self.string(),
            Token::Format(name) => return self.format(start, name),
            Token::Field(key) => {
                let on = self.add(start, Term::Identity, &[])?;
                self.take()?;
                return self.key(start, on, key.to_owned());
            }
            Token::Word(word) => return self.word(start, word),
            _ => {}
        }
        match self.take()? {
            Token::Number(number) => self.add(start, Term::Number(number.to_owned()), &[]),
            Token::Variable("__loc__") => self.add(start, Term::Opaque, &[]),
            Token::Variable(name) => self.add(start, Term::Variable(name.to_owned()), &[]),
            Token::Sign("..") => self.add(start, Term::Recurse, &[]),
            Token::Sign(".") => {
                let identity = self.add(start, Term::Identity, &[])?;
                match self.peek()? {
                    Token::Quote | Token::Format(_) => self.string_key(start, identity),
                    _ => Ok(identity),
                }
            }
            Token::Sign("-") => {
                let body = self.nested(Self::postfix)?;
                self.add(start, Term::Negate(body), &[body])
            }
            Token::Sign("(") => {
                let body = self.query()?;
                self.sign(")")?;
                Ok(body)
            }
            Token::Sign("[") => {
                if self.accept(Token::Sign("]"))? {
                    return self.add(start, Term::Array(None), &[]);
                }
                let body = self.query()?;
                self.sign("]")?;
                self.add(start, Term::Array(Some(body)), &[body])
            }
            Token::Sign("{") => self.object(start),
            Token::End => self.error(start, "the expression ends where a value is expected"),
            _ => self.error(start, "a value is expected here"),
        }
    }

    fn word(&mut self, start: usize, word: &'a str) -> Result<Id> {
        match word {
            "if" => self.condition(start),
            "try" => {
                self.take()?;
                let body = self.nested(Self::postfix)?;
                let handler = if self.accept(Token::Word("catch"))? { Some(self.nested(Self::postfix)?) } else { None };
                let children = [Some(body), handler].into_iter().flatten().collect::<Vec<_>>();
                self.add(start, Term::Try { body, handler }, &children)
            }
            "reduce" | "foreach" => self.fold(start),
            "break" => {
                self.take()?;
                self.variable()?;
                self.add(start, Term::Break, &[])
            }
            _ if KEYWORDS.contains(&word) => self.unexpected("a value"),
            _ => {
                self.take()?;
                self.call(start, word)
            }
        }
    }

    fn call(&mut self, start: usize, name: &str) -> Result<Id> {
        let mut arguments = Vec::new();
        if self.accept(Token::Sign("("))? {
            loop {
                arguments.push(self.query()?);
                if !self.accept(Token::Sign(";"))? {
                    break;
                }
            }
            self.sign(")")?;
        }
        let constant = ["true", "false", "null"].into_iter().find(|c| *c == name && arguments.is_empty());
        match constant {
            Some(constant) => self.add(start, Term::Constant(constant), &[]),
            None => {
                let children = arguments.clone();
                self.add(start, Term::Call { name: name.to_owned(), arguments }, &children)
            }
        }
    }

    fn condition(&mut self, start: usize) -> Result<Id> {
        self.take()?;
        let mut branches = Vec::new();
        let mut children = Vec::new();
        loop {
            let condition = self.query()?;
            self.expect(Token::Word("then"), "`then`")?;
            let body = self.query()?;
            branches.push((condition, body));
            children.extend([condition, body]);
            if !self.accept(Token::Word("elif"))? {
                break;
            }
        }
        let otherwise = if self.accept(Token::Word("else"))? { Some(self.query()?) } else { None };
        self.expect(Token::Word("end"), "`elif`, `else` or `end`")?;
        children.extend(otherwise);
        self.add(start, Term::If { branches, otherwise }, &children)
    }

    fn fold(&mut self, start: usize) -> Result<Id> {
        let foreach = self.take()? == Token::Word("foreach");
        let source = self.nested(|p| p.operation(0))?;
        let (patterns, keys) = self.patterns()?;
        self.sign("(")?;
        let init = self.query()?;
        self.sign(";")?;
        let update = self.query()?;
        let extract = if foreach && self.accept(Token::Sign(";"))? { Some(self.query()?) } else { None };
        self.sign(")")?;
        let mut children = [&[source, init, update][..], &keys].concat();
        children.extend(extract);
        self.add(start, Term::Fold { source, patterns, init, update, extract }, &children)
    }

    /// `as pattern ?// pattern`, and the terms of computed keys.
    fn patterns(&mut self) -> Result<(Vec<Pattern>, Vec<Id>)> {
        self.expect(Token::Word("as"), "`as`")?;
        let mut keys = Vec::new();
        let mut patterns = vec![self.nested(|p| p.pattern(&mut keys))?];
        while self.accept(Token::Sign("?//"))? {
            patterns.push(self.nested(|p| p.pattern(&mut keys))?);
        }
        Ok((patterns, keys))
    }

    fn pattern(&mut self, keys: &mut Vec<Id>) -> Result<Pattern> {
        if self.accept(Token::Sign("["))? {
            let mut parts = Vec::new();
            loop {
                parts.push(self.nested(|p| p.pattern(keys))?);
                if !self.accept(Token::Sign(","))? {
                    break;
                }
            }
            self.sign("]")?;
            return Ok(Pattern::Array(parts));
        }
        if self.accept(Token::Sign("{"))? {
            let mut parts = Vec::new();
            loop {
                parts.push(self.pattern_entry(keys)?);
                if !self.accept(Token::Sign(","))? {
                    break;
                }
            }
            self.sign("}")?;
            return Ok(Pattern::Object(parts));
        }
        Ok(Pattern::Variable(self.variable()?.to_owned()))
    }

    fn pattern_entry(&mut self, keys: &mut Vec<Id>) -> Result<(Option<String>, Option<Id>, Option<Pattern>)> {
        let mut variable = None;
        let mut key = None;
        match self.peek()? {
            Token::Variable(name) => {
                self.take()?;
                variable = Some(name.to_owned());
                if self.peek()? != Token::Sign(":") {
                    return Ok((variable, None, None));
                }
            }
            Token::Word(_) => {
                self.take()?;
            }
            Token::Sign("(") => {
                self.take()?;
                key = Some(self.query()?);
                self.sign(")")?;
            }
            Token::Quote | Token::Format(_) => key = Some(self.string()?),
            _ => return self.unexpected("a key"),
        }
        keys.extend(key);
        self.sign(":")?;
        Ok((variable, key, Some(self.nested(|p| p.pattern(keys))?)))
    }

    fn object(&mut self, start: usize) -> Result<Id> {
        let mut entries = Vec::new();
        let mut children = Vec::new();
        while !self.accept(Token::Sign("}"))? {
            entries.push(self.entry(&mut children)?);
            if self.peek()? != Token::Sign("}") {
                self.sign(",")?;
            }
        }
        self.add(start, Term::Object(entries), &children)
    }

    fn entry(&mut self, children: &mut Vec<Id>) -> Result<Entry> {
        let start = self.start()?;
        match self.peek()? {
            Token::Variable("__loc__") => {
                self.take()?;
                let place = self.add(start, Term::Opaque, &[])?;
                Ok(Entry::Constant(place))
            }
            Token::Variable(name) => {
                self.take()?;
                if self.peek()? != Token::Sign(":") {
                    return Ok(Entry::Variable(name.to_owned()));
                }
                let key = self.add(start, Term::Variable(name.to_owned()), &[])?;
                self.entry_value(key, children)
            }
            Token::Word(name) => {
                self.take()?;
                if self.peek()? != Token::Sign(":") {
                    return Ok(Entry::Same(name.to_owned()));
                }
                self.constant_entry(children)
            }
            Token::Sign("(") => {
                self.take()?;
                let key = self.query()?;
                self.sign(")")?;
                self.entry_value(key, children)
            }
            Token::Quote | Token::Format(_) => {
                let key = self.string()?;
                children.push(key);
                let constant = match &self.terms[key as usize].0 {
                    Term::Text(text) => Some(text.clone()),
                    _ => None,
                };
                match (self.peek()? == Token::Sign(":"), constant) {
                    (true, Some(_)) => self.constant_entry(children),
                    (true, None) => self.entry_value(key, children),
                    (false, Some(text)) => Ok(Entry::Same(text)),
                    (false, None) => Ok(Entry::Dynamic(key)),
                }
            }
            _ => self.unexpected("a key"),
        }
    }

    fn constant_entry(&mut self, children: &mut Vec<Id>) -> Result<Entry> {
        self.sign(":")?;
        let value = self.nested(|p| p.separated("|", |p| p.operation(0), Term::Pipe))?;
        children.push(value);
        Ok(Entry::Constant(value))
    }

    fn entry_value(&mut self, key: Id, children: &mut Vec<Id>) -> Result<Entry> {
        self.sign(":")?;
        let value = self.nested(|p| p.separated("|", |p| p.operation(0), Term::Pipe))?;
        children.extend([key, value]);
        Ok(Entry::Computed(key, value))
    }

    /// `@name`, or a string of that format.
    fn format(&mut self, start: usize, name: &str) -> Result<Id> {
        self.take()?;
        match self.peek()? {
            Token::Quote => self.string_from(start),
            _ => self.add(start, Term::Call { name: format!("@{name}"), arguments: Vec::new() }, &[]),
        }
    }

    /// A string, perhaps with a format before it.
    fn string(&mut self) -> Result<Id> {
        let start = self.start()?;
        if let Token::Format(_) = self.peek()? {
            self.take()?;
        }
        match self.peek()? {
            Token::Quote => self.string_from(start),
            _ => self.unexpected("a string"),
        }
    }

    fn string_from(&mut self, start: usize) -> Result<Id> {
        self.take()?;
        let mut text = String::new();
        let mut known = true;
        let mut parts = Vec::new();
        loop {
            match self.lexer.piece()? {
                Piece::Text(raw) => match serde_json::from_str::<String>(&format!("\"{}\"", control_escaped(raw))) {
                    Ok(part) => text.push_str(&part),
                    // jq replaces what is no character; the host need not know by what.
                    Err(_) => known = false,
                },
                Piece::Interpolation => {
                    parts.push(self.query()?);
                    if self.peek()? != Token::Sign(")") {
                        return self.unexpected("`)`");
                    }
                    self.take()?;
                }
                Piece::Close => break,
            }
        }
        self.end = self.lexer.position();
        if known && parts.is_empty() {
            return self.add(start, Term::Text(text), &[]);
        }
        let children = parts.clone();
        self.add(start, Term::Interpolated(parts), &children)
    }
}

/// Control characters may stand in jq's strings as they are, and not in JSON's.
fn control_escaped(raw: &str) -> std::borrow::Cow<'_, str> {
    if raw.bytes().all(|b| b >= 0x20) {
        return raw.into();
    }
    let mut escaped = String::with_capacity(raw.len() + 8);
    for c in raw.chars() {
        match c {
            '\0'..'\x20' => escaped.push_str(&format!("\\u{:04x}", c as u32)),
            _ => escaped.push(c),
        }
    }
    escaped.into()
}
