//! The syntax of jq 1.8.2, as far as the host needs it: to infer what an expression reads, to
//! evaluate plain paths, and to find the end of an expression within other text.
//!
//! The grammar is that of jq's own parser (`src/parser.y` and `src/lexer.l` of 1.8.2): its
//! precedences, its postfix rules, and that `as`, `def` and `label` extend as far to the right as
//! possible. This parser may accept what jq refuses, never the other way round, except for nesting
//! beyond [`NESTING_MAX`] and [`HEIGHT_MAX`]: jq decides validity (I1 of [the room](super)), and a
//! test compares the two on every case of the conformance suite.
//!
//! A tree lives in one vector and is bounded in height, so hostile text cannot overflow the stack,
//! neither when the tree is walked nor when it is dropped.
//!
//! *Rejected:* the parser of jaq-core. It does not know `?//`, `{$a: [$b]}`, `.5` and surrogate
//! pairs, ranks `=` below `//`, and its recursion has no bound.

mod lexer;
mod parser;

pub(super) use lexer::comment as comment_length;

use std::ops::Range;

/// Most levels of parentheses, brackets, definitions and the like. Arbitrary: far above what a
/// person writes.
pub(super) const NESTING_MAX: usize = 100;

/// Greatest height of a tree; chains of operators add to it.
pub(super) const HEIGHT_MAX: u16 = 400;

/// An index into the vector of terms.
pub(super) type Id = u32;

/// A term of an expression.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Term {
    /// `.`
    Identity,
    /// `..`
    Recurse,
    /// A number: its text.
    Number(String),
    /// A string without interpolation.
    Text(String),
    /// `true`, `false`, `null`.
    Constant(&'static str),
    /// `$__loc__`, or anything else that reads nothing.
    Opaque,
    /// An interpolated string: the expressions in it.
    Interpolated(Vec<Id>),
    /// `.key`, `.["key"]`: where the key is constant.
    Key { on: Id, key: String, optional: bool },
    /// `.[index]`, with any other index.
    At { on: Id, index: Id, optional: bool },
    /// `.[from:to]`
    Slice { on: Id, from: Option<Id>, to: Option<Id> },
    /// `.[]`
    Each { on: Id },
    /// `try body catch handler`, `body?`
    Try { body: Id, handler: Option<Id> },
    /// `[body]`
    Array(Option<Id>),
    /// `{…}`
    Object(Vec<Entry>),
    /// `-body`
    Negate(Id),
    /// `left | right`
    Pipe(Id, Id),
    /// `left, right`
    Comma(Id, Id),
    /// `left // right`
    Alternative(Id, Id),
    /// An operator that computes with both sides.
    Operator(Id, Id),
    /// `target = value`, and the like.
    Assign { target: Id, value: Id },
    /// `source as pattern ?// pattern | body`
    Bind { source: Id, patterns: Vec<Pattern>, body: Id },
    /// `label $x | body`
    Label(Id),
    /// `break $x`
    Break,
    /// `reduce` and `foreach`.
    Fold { source: Id, patterns: Vec<Pattern>, init: Id, update: Id, extract: Option<Id> },
    /// `if … then … elif … then … else … end`
    If { branches: Vec<(Id, Id)>, otherwise: Option<Id> },
    /// `def name(parameters): body; rest`
    Define { name: String, parameters: Vec<String>, body: Id, rest: Id },
    /// A call, also of a format (`@csv`).
    Call { name: String, arguments: Vec<Id> },
    /// `$name`
    Variable(String),
}

/// An entry of an object construction.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Entry {
    /// `{key}`: a constant key, whose value is read from the input.
    Same(String),
    /// `{$name}`: the key is the variable's name.
    Variable(String),
    /// `{key: value}`, with a constant key.
    Constant(Id),
    /// `{(key): value}`, `{"…\(e)": value}`, `{$name: value}`.
    Computed(Id, Id),
    /// `{"…\(e)"}`: a computed key, whose value is read from the input.
    Dynamic(Id),
}

/// A pattern that binds variables.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Pattern {
    /// `$name`
    Variable(String),
    /// `[…]`
    Array(Vec<Pattern>),
    /// `{…}`: the variable of `{$name: …}`, the key if it is computed, the pattern for the value.
    Object(Vec<(Option<String>, Option<Id>, Option<Pattern>)>),
}

/// A parsed expression.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    terms: Vec<(Term, Range<u32>)>,
    root: Id,
}

/// Why a text is not an expression, as far as the host's parser knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SyntaxError {
    /// What is wrong, in one line.
    pub(super) message: String,
    /// The bytes that are wrong.
    pub(super) span: Range<usize>,
}

impl Tree {
    /// Parses an expression.
    pub(super) fn parse(text: &str) -> Result<Self, SyntaxError> {
        if text.len() > super::EXPRESSION_BYTES_MAX {
            let message = format!("the expression is longer than {} bytes", super::EXPRESSION_BYTES_MAX);
            return Err(SyntaxError { message, span: 0..text.len() });
        }
        parser::parse(text)
    }

    pub(super) fn root(&self) -> Id {
        self.root
    }

    pub(super) fn term(&self, id: Id) -> &Term {
        &self.terms[id as usize].0
    }

    /// The bytes of a term in the text.
    pub(super) fn span(&self, id: Id) -> Range<usize> {
        let span = &self.terms[id as usize].1;
        span.start as usize..span.end as usize
    }

    /// All terms by their ids, in no particular order.
    pub(super) fn ids(&self) -> impl Iterator<Item = Id> {
        (0..).zip(&self.terms).map(|(id, _)| id)
    }

    /// All terms, in no particular order.
    pub(super) fn terms(&self) -> impl Iterator<Item = &Term> {
        self.terms.iter().map(|(term, _)| term)
    }
}
