//! The inputs of a workflow.

use super::tree::{Map, Tree};
use super::{Format, Type};
use crate::workflow::model::values::Unit;
use serde::Serialize;

/// An input, or the schema of a value within one: a subset of JSON Schema. Defaults and allowed
/// values are literals.
///
/// An input must be given unless it has a [default](Self::default_value) or is
/// [optional](Self::optional).
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Input(pub(super) Map);

impl Input {
    /// Any value.
    pub fn any() -> Self {
        Self(Map::default())
    }

    /// `type`: a value of one of these types.
    pub fn of(types: impl IntoIterator<Item = Type>) -> Self {
        Self(Map::default().with("type", Tree::texts(types.into_iter().map(Type::name))))
    }

    fn of_type(one: Type) -> Self {
        Self(Map::default().with("type", one.name()))
    }

    /// A text.
    pub fn string() -> Self {
        Self::of_type(Type::String)
    }

    /// A number without a fraction.
    pub fn integer() -> Self {
        Self::of_type(Type::Integer)
    }

    /// Any number.
    pub fn number() -> Self {
        Self::of_type(Type::Number)
    }

    /// True or false.
    pub fn boolean() -> Self {
        Self::of_type(Type::Boolean)
    }

    /// A list; [`Self::items`] says of what.
    pub fn array() -> Self {
        Self::of_type(Type::Array)
    }

    /// An object; [`Self::property`] says with which keys.
    pub fn object() -> Self {
        Self::of_type(Type::Object)
    }

    /// A large value.
    pub fn blob() -> Self {
        Self::of_type(Type::Blob)
    }

    fn key(self, key: &str, value: impl Into<Tree>) -> Self {
        Self(self.0.with(key, value))
    }

    /// `title`: a short name for people.
    pub fn title(self, title: impl Into<String>) -> Self {
        self.key("title", title.into())
    }

    /// `description`: an explanation for people.
    pub fn description(self, description: impl Into<String>) -> Self {
        self.key("description", description.into())
    }

    /// `default`: the value of an input that is not given.
    pub fn default_value(self, value: impl Serialize) -> Self {
        self.key("default", Tree::literal(value))
    }

    /// `required: false`: the input is null when it is not given.
    pub fn optional(self) -> Self {
        self.key("required", false)
    }

    /// `enum`: the allowed values.
    pub fn one_of(self, values: impl IntoIterator<Item = impl Serialize>) -> Self {
        self.key("enum", Tree::List(values.into_iter().map(Tree::literal).collect()))
    }

    /// `const`: the only allowed value.
    pub fn constant(self, value: impl Serialize) -> Self {
        self.key("const", Tree::literal(value))
    }

    /// `format`: the form of a string.
    pub fn format(self, format: Format) -> Self {
        self.key("format", format.name())
    }

    /// `minimum`: the inclusive lower bound of a number.
    pub fn minimum(self, bound: f64) -> Self {
        self.key("minimum", bound)
    }

    /// `maximum`: the inclusive upper bound of a number.
    pub fn maximum(self, bound: f64) -> Self {
        self.key("maximum", bound)
    }

    /// `exclusiveMinimum`: the exclusive lower bound of a number.
    pub fn exclusive_minimum(self, bound: f64) -> Self {
        self.key("exclusiveMinimum", bound)
    }

    /// `exclusiveMaximum`: the exclusive upper bound of a number.
    pub fn exclusive_maximum(self, bound: f64) -> Self {
        self.key("exclusiveMaximum", bound)
    }

    /// `minLength`: the fewest characters of a string.
    pub fn min_length(self, characters: u32) -> Self {
        self.key("minLength", characters)
    }

    /// `maxLength`: the most characters of a string.
    pub fn max_length(self, characters: u32) -> Self {
        self.key("maxLength", characters)
    }

    /// `items`: the schema of each item of a list.
    pub fn items(self, items: Input) -> Self {
        self.key("items", items.0)
    }

    /// `minItems`: the fewest items of a list.
    pub fn min_items(self, items: u32) -> Self {
        self.key("minItems", items)
    }

    /// `maxItems`: the most items of a list.
    pub fn max_items(self, items: u32) -> Self {
        self.key("maxItems", items)
    }

    /// `uniqueItems: true`: no two items of a list are equal.
    pub fn unique_items(self) -> Self {
        self.key("uniqueItems", true)
    }

    /// `maxBytes`: the most bytes of a blob.
    pub fn max_bytes(self, bytes: u64) -> Self {
        self.key("maxBytes", Unit::Bytes.write(bytes))
    }

    /// An entry of `properties`: the schema of a key of an object.
    pub fn property(self, key: impl Into<String>, schema: Input) -> Self {
        Self(self.0.with_within("properties", key, schema.0))
    }

    /// `required`: the keys that an object must have.
    pub fn required_properties(self, keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.key("required", Tree::texts(keys))
    }

    /// `additionalProperties: false`: an object has no keys beyond its properties.
    pub fn no_additional_properties(self) -> Self {
        self.key("additionalProperties", false)
    }
}
