//! Values in other values: as their JSON texts, since one of the greatest depth would not fit.

/// A value as its JSON text.
pub(super) mod text {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde_json::Value;

    pub(in super::super) fn serialize<S: serde::Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        serde_json::from_str(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Values as their JSON texts.
pub(super) mod texts {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde_json::Value;
    use std::collections::BTreeMap;

    pub(in super::super) fn serialize<K: serde::Serialize, S: serde::Serializer>(
        items: &BTreeMap<K, Value>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(items.iter().map(|(item, value)| (item, value.to_string())))
    }

    pub(in super::super) fn deserialize<'de, K: Deserialize<'de> + Ord, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<K, Value>, D::Error> {
        let texts = BTreeMap::<K, String>::deserialize(deserializer)?;
        let parse = |(item, text): (K, String)| Ok((item, serde_json::from_str(&text).map_err(D::Error::custom)?));
        texts.into_iter().map(parse).collect()
    }
}
