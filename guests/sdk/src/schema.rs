//! The JSON Schema of a type, learned by deserializing it from a probe.
//!
//! serde tells a deserializer what a type expects: the fields of a struct, the variants of an enum,
//! a text, a number. The probe writes that down, and answers with a sample, so that the type goes on
//! to its next field. No derive is needed but `Deserialize`.
//!
//! The schema accepts all that the type accepts, and often more: it is there to find mistakes before
//! a run. A type whose own checks refuse the samples has none.

use core::fmt;
use std::collections::BTreeSet;

use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value, json};

/// A type within itself ends here. Arbitrary.
const DEPTH_MAX: u32 = 5;

/// Returns the JSON Schema of a type; `None` if nothing can be said of it.
pub(crate) fn of<T: DeserializeOwned>() -> Option<Value> {
    let mut schema = Value::Null;
    T::deserialize(Probe { out: &mut schema, depth: 0, only: None }).ok()?;
    if schema["properties"].is_object() {
        let required: Vec<&str> = required::<T>()?.into_iter().collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
    }
    schema.as_object().is_some_and(|members| !members.is_empty()).then_some(schema)
}

/// The fields without which a struct cannot be made, found by giving it only these.
fn required<T: DeserializeOwned>() -> Option<BTreeSet<&'static str>> {
    let mut required = BTreeSet::new();
    loop {
        match T::deserialize(Probe { out: &mut Value::Null, depth: 0, only: Some(&required) }) {
            Ok(_) => return Some(required),
            Err(Fault::Missing(field)) if required.insert(field) => {}
            Err(_) => return None,
        }
    }
}

/// Why a type could not be made of the samples.
#[derive(Debug)]
enum Fault {
    Missing(&'static str),
    Other,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the samples do not fit")
    }
}

impl core::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Other
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }
}

/// Writes the schema of what is deserialized from it.
struct Probe<'a> {
    out: &'a mut Value,
    depth: u32,
    /// The fields that the outermost struct is given; `None` if all.
    only: Option<&'a BTreeSet<&'static str>>,
}

impl Probe<'_> {
    fn is_deep(&self) -> bool {
        self.depth >= DEPTH_MAX
    }
}

/// A scalar: its schema, and the sample.
macro_rules! scalars {
    ($($deserialize:ident => $visit:ident($($sample:expr)?), $schema:tt;)+) => {
        $(fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            *self.out = json!($schema);
            visitor.$visit($($sample)?)
        })+
    };
}

impl<'de> de::Deserializer<'de> for Probe<'_> {
    type Error = Fault;

    scalars! {
        deserialize_any => visit_unit(), {};
        deserialize_ignored_any => visit_unit(), {};
        deserialize_unit => visit_unit(), { "type": "null" };
        deserialize_bool => visit_bool(false), { "type": "boolean" };
        deserialize_u8 => visit_u8(0), { "type": "integer", "minimum": 0, "maximum": 255 };
        deserialize_u16 => visit_u16(0), { "type": "integer", "minimum": 0, "maximum": 65_535 };
        deserialize_u32 => visit_u32(0), { "type": "integer", "minimum": 0, "maximum": 4_294_967_295_u32 };
        deserialize_u64 => visit_u64(0), { "type": "integer", "minimum": 0 };
        deserialize_u128 => visit_u128(0), { "type": "integer", "minimum": 0 };
        deserialize_i8 => visit_i8(0), { "type": "integer", "minimum": (-128), "maximum": 127 };
        deserialize_i16 => visit_i16(0), { "type": "integer", "minimum": (-32_768), "maximum": 32_767 };
        deserialize_i32 => visit_i32(0), { "type": "integer" };
        deserialize_i64 => visit_i64(0), { "type": "integer" };
        deserialize_i128 => visit_i128(0), { "type": "integer" };
        deserialize_f32 => visit_f32(0.0), { "type": "number" };
        deserialize_f64 => visit_f64(0.0), { "type": "number" };
        deserialize_char => visit_char('a'), { "type": "string" };
        deserialize_str => visit_str(""), { "type": "string" };
        deserialize_string => visit_str(""), { "type": "string" };
        deserialize_identifier => visit_str(""), { "type": "string" };
    }

    forward_to_deserialize_any! { bytes byte_buf }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        *self.out = json!({});
        if self.is_deep() {
            return visitor.visit_none();
        }
        let mut some = Value::Null;
        let value = visitor.visit_some(Probe { out: &mut some, depth: self.depth + 1, only: None })?;
        *self.out = match some.get("type").cloned() {
            Some(Value::String(of)) if of != "null" => {
                some["type"] = json!([of, "null"]);
                some
            }
            None if some.as_object().is_some_and(|members| !members.is_empty()) => {
                json!({ "anyOf": [some, { "type": "null" }] })
            }
            _ => some,
        };
        Ok(value)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut items = Items { schemas: Vec::new(), left: usize::from(!self.is_deep()), depth: self.depth + 1 };
        let value = visitor.visit_seq(&mut items)?;
        *self.out = json!({ "type": "array" });
        if let Some(item) = items.schemas.pop() {
            self.out["items"] = item;
        }
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        let mut items = Items { schemas: Vec::new(), left: len, depth: self.depth + 1 };
        let value = visitor.visit_seq(&mut items)?;
        *self.out = json!({ "type": "array", "minItems": len, "maxItems": len, "prefixItems": items.schemas });
        Ok(value)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        // Which keys fit is not known, so it gets none. A struct with a flattened field asks so too.
        *self.out = json!({ "type": "object" });
        visitor.visit_map(&mut Fields { left: Vec::new(), schemas: Map::new(), depth: self.depth })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let is_given = |name: &&str| self.only.is_none_or(|only| only.contains(name));
        let left = fields.iter().copied().filter(is_given).rev().collect();
        let mut fields = Fields { left, schemas: Map::new(), depth: self.depth + 1 };
        let value = visitor.visit_map(&mut fields)?;
        *self.out = json!({ "type": "object", "properties": fields.schemas });
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        // Which of them have content is not known.
        let with_content = json!({ "type": "object", "minProperties": 1, "maxProperties": 1 });
        *self.out = json!({ "anyOf": [{ "enum": variants }, with_content] });
        visitor.visit_enum(Variant { name: variants.first().ok_or(Fault::Other)?, depth: self.depth + 1 })
    }
}

/// The items of an array.
struct Items {
    schemas: Vec<Value>,
    left: usize,
    depth: u32,
}

impl<'de> de::SeqAccess<'de> for &mut Items {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut schema = Value::Null;
        let value = seed.deserialize(Probe { out: &mut schema, depth: self.depth, only: None })?;
        self.schemas.push(schema);
        Ok(Some(value))
    }
}

/// The fields of a struct; the next is the last one left.
struct Fields {
    left: Vec<&'static str>,
    schemas: Map<String, Value>,
    depth: u32,
}

impl<'de> de::MapAccess<'de> for &mut Fields {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.left.last().map(|name| seed.deserialize((*name).into_deserializer())).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let name = self.left.pop().ok_or(Fault::Other)?;
        let mut schema = Value::Null;
        let value = seed.deserialize(Probe { out: &mut schema, depth: self.depth, only: None })?;
        self.schemas.insert(name.to_owned(), schema);
        Ok(value)
    }
}

/// The first variant of an enum, with a sample of its content.
struct Variant {
    name: &'static str,
    depth: u32,
}

impl<'de> de::EnumAccess<'de> for Variant {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Fault> {
        Ok((seed.deserialize(self.name.into_deserializer())?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        if self.depth > DEPTH_MAX {
            return Err(Fault::Other);
        }
        seed.deserialize(Probe { out: &mut Value::Null, depth: self.depth, only: None })
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_seq(&mut Items { schemas: Vec::new(), left: len, depth: self.depth })
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        let left = fields.iter().copied().rev().collect();
        visitor.visit_map(&mut Fields { left, schemas: Map::new(), depth: self.depth })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only their types matter")]
    struct Order {
        ids: Vec<u64>,
        #[serde(rename = "by-name")]
        by: Option<String>,
        #[serde(default)]
        express: bool,
        pair: (f64, Level),
        notes: BTreeMap<String, String>,
        any: Value,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code, reason = "only its names matter")]
    enum Level {
        Low,
        High(u8),
    }

    #[test]
    fn a_struct_has_the_schema_of_its_fields() {
        let level = json!({ "anyOf": [{ "enum": ["low", "high"] }, { "type": "object", "minProperties": 1, "maxProperties": 1 }] });
        let wanted = json!({
            "type": "object",
            "required": ["any", "ids", "notes", "pair"],
            "properties": {
                "ids": { "type": "array", "items": { "type": "integer", "minimum": 0 } },
                "by-name": { "type": ["string", "null"] },
                "express": { "type": "boolean" },
                "pair": { "type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{ "type": "number" }, level] },
                "notes": { "type": "object" },
                "any": {},
            },
        });
        assert_eq!(of::<Order>(), Some(wanted));
    }

    #[test]
    fn scalars_and_lists() {
        assert_eq!(of::<String>(), Some(json!({ "type": "string" })));
        assert_eq!(of::<Vec<i64>>(), Some(json!({ "type": "array", "items": { "type": "integer" } })));
        assert_eq!(of::<()>(), Some(json!({ "type": "null" })));
        assert_eq!(of::<Option<Vec<()>>>().unwrap()["type"], json!(["array", "null"]));
    }

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only their types matter")]
    struct Tree {
        left: Option<Box<Tree>>,
        right: Vec<Tree>,
    }

    #[test]
    fn a_type_within_itself_ends() {
        let schema = of::<Tree>().unwrap();
        assert!(schema.get("required").unwrap() == &json!(["right"]), "{schema}");
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "type")]
    #[allow(dead_code, reason = "only its form matters")]
    enum Tagged {
        A { x: u8 },
    }

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only its form matters")]
    struct Flat {
        #[serde(flatten)]
        order: Order,
    }

    #[test]
    fn what_cannot_be_said_is_not_said() {
        assert_eq!(of::<Value>(), None);
        assert_eq!(of::<de::IgnoredAny>(), None);
        assert_eq!(of::<Tagged>(), None);
        assert_eq!(of::<Flat>(), None);
    }
}
