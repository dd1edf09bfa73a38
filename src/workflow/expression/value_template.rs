//! A JSON tree whose strings may hold expressions.

use super::text_template::{Part, Placed, TemplateError, TemplateProblem, TextTemplate};
use super::{Jq, Meter, Scope};
use serde_json::Value;

/// Why a JSON tree is not a template.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{pointer}: {error}")]
pub struct ValueTemplateError {
    /// The JSON Pointer (RFC 6901) of the string.
    pub pointer: String,
    /// What is wrong with the string.
    pub error: TemplateError,
}

/// A JSON tree whose strings are templates. Keys are not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueTemplate {
    root: Slot,
}

/// A part of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Slot {
    /// A value without templates.
    Value(Value),
    /// A string with expressions, and its JSON Pointer.
    Template(String, TextTemplate),
    Array(Vec<Slot>),
    Object(Vec<(String, Slot)>),
}

impl ValueTemplate {
    /// Parses all strings of a tree.
    ///
    /// # Errors
    /// Returns an error for each string that is not a template.
    pub fn parse(value: &Value) -> Result<Self, Vec<ValueTemplateError>> {
        let mut errors = Vec::new();
        let root = Slot::parse(value, &mut String::new(), &mut errors);
        if errors.is_empty() { Ok(Self { root }) } else { Err(errors) }
    }

    /// Its expressions, each with the JSON Pointer of its string, in order.
    pub fn expressions(&self) -> impl Iterator<Item = (&str, &Placed)> {
        let mut found = Vec::new();
        self.root.collect(&mut found);
        found.into_iter()
    }

    /// Evaluates it.
    ///
    /// # Errors
    /// Fails at the first expression that cannot be evaluated.
    pub fn evaluate(&self, jq: &Jq, scope: &Scope<'_>) -> Result<Value, TemplateProblem> {
        self.root.evaluate(jq, scope, &Meter::default())
    }
}

impl Slot {
    fn parse(value: &Value, pointer: &mut String, errors: &mut Vec<ValueTemplateError>) -> Self {
        let length = pointer.len();
        let slot = match value {
            Value::String(text) => match TextTemplate::parse(text) {
                Ok(template) => match template.parts.as_slice() {
                    [Part::Text(literal)] => Self::Value(Value::String(literal.clone())),
                    _ => Self::Template(pointer.clone(), template),
                },
                Err(error) => {
                    errors.push(ValueTemplateError { pointer: pointer.clone(), error });
                    Self::Value(Value::Null)
                }
            },
            Value::Array(items) => {
                let slots = items.iter().enumerate().map(|(index, item)| {
                    pointer.push_str(&format!("/{index}"));
                    let slot = Self::parse(item, pointer, errors);
                    pointer.truncate(length);
                    slot
                });
                Self::Array(slots.collect()).folded(value)
            }
            Value::Object(entries) => {
                let slots = entries.iter().map(|(key, item)| {
                    pointer.push('/');
                    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                    let slot = Self::parse(item, pointer, errors);
                    pointer.truncate(length);
                    (key.clone(), slot)
                });
                Self::Object(slots.collect()).folded(value)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::Value(value.clone()),
        };
        debug_assert_eq!(pointer.len(), length);
        slot
    }

    /// Folds into a plain value, if there is no template below and no escape has changed it.
    fn folded(self, value: &Value) -> Self {
        let is_plain = |slot: &Slot, value: &Value| matches!(slot, Self::Value(same) if same == value);
        let plain = match (&self, value) {
            (Self::Array(slots), Value::Array(items)) => {
                slots.iter().zip(items).all(|(slot, item)| is_plain(slot, item))
            }
            (Self::Object(slots), Value::Object(entries)) => {
                slots.iter().zip(entries.values()).all(|((_, slot), item)| is_plain(slot, item))
            }
            _ => false,
        };
        if plain { Self::Value(value.clone()) } else { self }
    }

    fn collect<'t>(&'t self, found: &mut Vec<(&'t str, &'t Placed)>) {
        match self {
            Self::Value(_) => {}
            Self::Template(pointer, template) => {
                found.extend(template.expressions().map(|placed| (pointer.as_str(), placed)));
            }
            Self::Array(slots) => slots.iter().for_each(|slot| slot.collect(found)),
            Self::Object(slots) => slots.iter().for_each(|(_, slot)| slot.collect(found)),
        }
    }

    fn evaluate(&self, jq: &Jq, scope: &Scope<'_>, meter: &Meter) -> Result<Value, TemplateProblem> {
        Ok(match self {
            Self::Value(value) => value.clone(),
            Self::Template(pointer, template) => {
                let located = |problem| TemplateProblem { pointer: pointer.clone(), ..problem };
                template.evaluate_metered(jq, scope, meter).map_err(located)?
            }
            Self::Array(slots) => {
                Value::Array(slots.iter().map(|slot| slot.evaluate(jq, scope, meter)).collect::<Result<_, _>>()?)
            }
            Self::Object(slots) => {
                let entries = slots.iter().map(|(key, slot)| Ok((key.clone(), slot.evaluate(jq, scope, meter)?)));
                Value::Object(entries.collect::<Result<_, _>>()?)
            }
        })
    }
}
