//! The construction of an object.

use super::super::lexer::Token;
use super::super::{Entry, Id, Term};
use super::{Parser, Result};

impl Parser<'_> {
    pub(super) fn object(&mut self, start: usize) -> Result<Id> {
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
}
