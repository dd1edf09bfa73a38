//! A single term, before the paths that follow it: literals, brackets, calls and keyword forms.

use super::super::lexer::Token;
use super::super::{Id, Term};
use super::{KEYWORDS, Parser, Result};

impl<'a> Parser<'a> {
    pub(super) fn primary(&mut self) -> Result<Id> {
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
}
