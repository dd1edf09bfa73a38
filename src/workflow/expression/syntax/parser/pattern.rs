//! The patterns that bind variables, after `as`.

use super::super::lexer::Token;
use super::super::{Id, Pattern};
use super::{Parser, Result};

impl Parser<'_> {
    /// `as pattern ?// pattern`, and the terms of computed keys.
    pub(super) fn patterns(&mut self) -> Result<(Vec<Pattern>, Vec<Id>)> {
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
}
