//! Builds a tree from tokens, by recursive descent with precedences. Nesting and height are
//! bounded.
//!
//! Queries, operators and paths are in this file, everything below them in a file each.

mod object;
mod pattern;
mod string;
mod term;

use super::lexer::{Lexer, Token};
use super::{HEIGHT_MAX, Id, NESTING_MAX, SyntaxError, Term, Tree};
use std::ops::Range;

type Result<T> = std::result::Result<T, SyntaxError>;

/// Words that cannot name functions.
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
    /// The end of the last token taken.
    end: usize,
    nesting: usize,
    terms: Vec<(Term, Range<u32>)>,
    heights: Vec<u16>,
}

/// The precedence of an operator, and whether it groups to the right.
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

    /// The start of the next token.
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

    /// Adds a term that begins at `start` and ends with the last token taken. `children` are its
    /// parts.
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

    /// An item between pipes and commas. Definitions, labels and bindings extend to the end of the
    /// query.
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

    /// `[]`, `[index]`, `[from:to]`. The caller reads a question mark after the first and the last
    /// form, as a `try`.
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
}
