//! Values whose strings may hold expressions, as a plan stores them.

use crate::workflow::expression::{self, Jq, Meter, References, Scope, Size, TemplateProblem};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The inputs of the workflow that expressions read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reads {
    /// All of them, or unknown ones.
    all: bool,
    names: BTreeSet<String>,
}

impl Reads {
    /// Returns whether an input is read.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }

    fn add(&mut self, references: &References) {
        let References::Paths(paths) = references else {
            self.all = true;
            return;
        };
        for reference in paths {
            match &reference.path[..] {
                [] => self.all = true,
                [root, rest @ ..] if root == "inputs" => match rest.first() {
                    Some(name) => _ = self.names.insert(name.clone()),
                    None => self.all = true,
                },
                _ => {}
            }
        }
    }
}

/// A value whose strings may hold expressions.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Template {
    /// A value without expressions.
    Literal(Value),
    /// A string with expressions.
    Text(Text),
    /// A list that contains expressions.
    List(Vec<Template>),
    /// An object whose values contain expressions.
    Object(Vec<(String, Template)>),
}

/// A string with expressions: `${ .steps.download.output }`.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text {
    text: String,
    template: expression::TextTemplate,
}

impl Text {
    /// The string as in the file.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The parsed string.
    #[must_use]
    pub fn template(&self) -> &expression::TextTemplate {
        &self.template
    }

    /// Returns whether it is one expression as a whole, whose result keeps its type.
    pub(super) fn is_whole(&self) -> bool {
        self.text.starts_with("${") && self.text.ends_with('}') && self.template.expressions().count() == 1
    }
}

impl TryFrom<String> for Text {
    type Error = expression::TemplateError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(Self { template: expression::TextTemplate::parse(&text)?, text })
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.text
    }
}

impl Template {
    /// Evaluates all expressions and returns the value. The meter counts and bounds them together.
    ///
    /// # Errors
    /// Fails at the first expression that fails, or if the value is larger than the meter allows.
    /// The pointer leads to the string in the template.
    pub fn evaluate(&self, jq: &Jq, scope: &Scope<'_>, meter: &Meter) -> Result<Value, TemplateProblem> {
        let below = |key: &str, mut problem: TemplateProblem| {
            problem.pointer = format!("/{}{}", key.replace('~', "~0").replace('/', "~1"), problem.pointer);
            problem
        };
        let take = |size: Size| {
            meter.take(size).map_err(|problem| TemplateProblem { pointer: String::new(), offset: 0, problem })
        };
        Ok(match self {
            Self::Literal(value) => {
                take(Size::of(value))?;
                value.clone()
            }
            Self::Text(text) => text.template.evaluate_metered(jq, scope, meter)?,
            Self::List(items) => {
                take(Size { bytes: 2 + items.len().saturating_sub(1), values: 1 })?;
                let evaluate = |(index, item): (usize, &Self)| {
                    item.evaluate(jq, scope, meter).map_err(|problem| below(&index.to_string(), problem))
                };
                items.iter().enumerate().map(evaluate).collect::<Result<_, _>>()?
            }
            Self::Object(entries) => {
                take(Size { bytes: 2, values: 1 })?;
                let mut object = Map::new();
                for (key, value) in entries {
                    take(Size::bytes(key.len()))?;
                    object
                        .insert(key.clone(), value.evaluate(jq, scope, meter).map_err(|problem| below(key, problem))?);
                }
                Value::Object(object)
            }
        })
    }

    /// The value as in the file, expressions as text.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Text(text) => Value::String(text.as_str().to_owned()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(entries) => {
                Value::Object(entries.iter().map(|(key, value)| (key.clone(), value.to_value())).collect())
            }
        }
    }

    /// The entries of an object, as in the file.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, Value)> {
        let entries = if let Self::Object(entries) = self { entries.as_slice() } else { &[] };
        entries.iter().map(|(key, value)| (key.as_str(), value.to_value()))
    }

    /// Adds the inputs that its expressions read.
    pub(super) fn add_reads(&self, reads: &mut Reads) {
        match self {
            Self::Literal(_) => {}
            Self::Text(text) => {
                text.template.expressions().for_each(|placed| reads.add(placed.expression.references()));
            }
            Self::List(items) => items.iter().for_each(|item| item.add_reads(reads)),
            Self::Object(entries) => entries.iter().for_each(|(_, value)| value.add_reads(reads)),
        }
    }

    /// The number of its expressions.
    #[must_use]
    pub fn expressions(&self) -> usize {
        match self {
            Self::Literal(_) => 0,
            Self::Text(text) => text.template.expressions().count(),
            Self::List(items) => items.iter().map(Self::expressions).sum(),
            Self::Object(entries) => entries.iter().map(|(_, value)| value.expressions()).sum(),
        }
    }
}
