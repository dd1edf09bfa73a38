//! The keys of a workflow file as editors know them: what each means, and the shape of its value.
//!
//! A [`Keys`] stands beside the table by which the model reads a mapping ([`KnownKeys`]), and adds
//! words and shapes. The schema for editors ([`json_schema`]), what the language server shows, and
//! the order in which the formatter writes keys are all made of it. A test compares both tables.
//!
//! A shape is what one value alone shows. References, cycles and expressions are checked by the
//! plan only.

mod json_schema;
mod settings;
mod steps;
#[cfg(test)]
mod tests;
mod top;

use super::fields::KnownKeys;
pub(crate) use json_schema::{json_schema, schema_of};
pub(crate) use top::WORKFLOW;

/// Keys that may be there only beside one of others.
type OnlyWith = &'static [(&'static str, &'static [&'static str])];

/// A mapping of the file.
pub(crate) struct Keys {
    /// Its name in the schema.
    pub(crate) name: &'static str,
    /// The keys that the model reads.
    pub(crate) known: &'static KnownKeys,
    /// What each of them means, in the order in which the formatter writes them.
    pub(crate) words: &'static [Word],
    /// Keys that must be there.
    pub(crate) required: &'static [&'static str],
    /// Keys of which exactly one must be there; empty for no such rule.
    pub(crate) exactly_one: &'static [&'static str],
    /// Keys that may be there only beside one of others.
    pub(crate) only_with: &'static [OnlyWith],
    /// Two keys that exclude each other.
    pub(crate) not_both: Option<(&'static str, &'static str)>,
}

/// A key.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    /// The key.
    pub(crate) key: &'static str,
    /// What it means, in Markdown.
    pub(crate) text: &'static str,
    /// What its value looks like.
    pub(crate) shape: Shape,
}

/// What a value looks like.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// Any value; texts in it may hold expressions.
    Any,
    /// A mapping of any values.
    Object,
    /// A text that may hold expressions.
    Text,
    /// A text that is taken literally.
    Fixed,
    /// A name: of a step, an input or a component.
    Name,
    /// The ids of steps: one, or a list.
    StepIds,
    /// The path of a step, `deploy[3].build`.
    StepPath,
    /// A mapping from paths of steps to values.
    StepPaths(&'static Shape),
    /// The name of a signal.
    Signal,
    /// The inputs of a run.
    Inputs,
    /// The outputs of a run.
    Outputs,
    /// Arguments of a handler.
    Arguments,
    /// A component: its name or its source.
    Component,
    /// The name of a handler.
    Handler,
    /// One whole expression, or a value that is no text.
    Condition,
    /// A list, or one whole expression.
    ListOf,
    /// `30s`.
    Duration,
    /// `30s`, or an expression.
    DurationOrExpression,
    /// `1s..30s`.
    Backoff,
    /// `64MiB`.
    Size,
    /// `500M`.
    Amount,
    /// A whole number within bounds.
    Whole(u64, u64),
    /// Any number.
    Number,
    /// True or false.
    Bool,
    /// One of some words.
    Words(fn() -> Vec<&'static str>),
    /// A list.
    List(&'static Shape),
    /// A list with at least one item.
    Some(&'static Shape),
    /// A list, or a single item.
    OneOrMore(&'static Shape),
    /// A mapping from any keys to values.
    Map(&'static Shape),
    /// A mapping from names to values.
    Names(&'static Shape),
    /// One of several shapes.
    Either(&'static [Shape]),
    /// Null.
    Null,
    /// A mapping with certain keys.
    Keys(fn() -> &'static Keys),
}

/// All mappings of a workflow file, the workflow itself first.
#[cfg(test)]
pub(crate) fn all() -> Vec<&'static Keys> {
    all_of_file(&WORKFLOW)
}

/// All mappings of a kind of file, the file itself first.
pub(crate) fn all_of_file(file: &'static Keys) -> Vec<&'static Keys> {
    let mut found: Vec<&'static Keys> = vec![file];
    let mut next = 0;
    while next < found.len() {
        for word in found[next].words {
            json_schema::collect(&word.shape, &mut found);
        }
        next += 1;
    }
    found
}

impl Keys {
    /// A mapping without rules beyond its keys.
    pub(crate) const fn new(name: &'static str, known: &'static KnownKeys, words: &'static [Word]) -> Self {
        Self { name, known, words, required: &[], exactly_one: &[], only_with: &[], not_both: None }
    }

    /// What is known of a key.
    pub(crate) fn word(&self, key: &str) -> Option<&'static Word> {
        self.words.iter().find(|word| word.key == key)
    }

    /// The keys that the model reads.
    pub(crate) fn known(&self) -> &'static [&'static str] {
        self.known.known
    }

    /// Returns whether the formatter sorts its keys.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self.name, "workflow" | "step" | "case")
    }

    /// The place of a key in the order in which the formatter writes keys. Unknown keys are last.
    pub(crate) fn rank(&self, key: &str) -> usize {
        self.words.iter().position(|word| word.key == key).unwrap_or(usize::MAX)
    }
}

impl Word {
    pub(crate) const fn new(key: &'static str, text: &'static str, shape: Shape) -> Self {
        Self { key, text, shape }
    }
}

impl Shape {
    /// The shape of what a key, or an item of a list, holds within it. Several if it depends on
    /// what is written.
    pub(crate) fn within(&'static self, part: Part<'_>) -> Vec<&'static Shape> {
        match (self, part) {
            (Self::Keys(keys), Part::Key(key)) => keys().word(key).map(|word| &word.shape).into_iter().collect(),
            (Self::Map(shape) | Self::Names(shape) | Self::StepPaths(shape), Part::Key(_)) => vec![shape],
            (Self::List(shape) | Self::Some(shape) | Self::OneOrMore(shape), Part::Item) => vec![shape],
            (Self::Either(shapes), _) => shapes.iter().flat_map(|shape| shape.within(part)).collect(),
            (Self::StepIds, Part::Item) => vec![self],
            (Self::Any | Self::Object | Self::ListOf | Self::Inputs | Self::Outputs | Self::Arguments, _) => {
                vec![&Self::Any]
            }
            _ => Vec::new(),
        }
    }

    /// The mappings with certain keys that it may be.
    pub(crate) fn mappings(&'static self) -> Vec<&'static Keys> {
        match self {
            Self::Keys(keys) => vec![keys()],
            Self::Either(shapes) => shapes.iter().flat_map(Self::mappings).collect(),
            _ => Vec::new(),
        }
    }

    /// The words that it may be.
    pub(crate) fn choices(&'static self) -> Vec<&'static str> {
        match self {
            Self::Words(words) => words(),
            Self::Bool => vec!["true", "false"],
            Self::OneOrMore(shape) => shape.choices(),
            Self::Either(shapes) => shapes.iter().flat_map(Self::choices).collect(),
            _ => Vec::new(),
        }
    }
}

/// A part of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part<'a> {
    /// The value of a key of a mapping.
    Key(&'a str),
    /// An item of a list.
    Item,
}
