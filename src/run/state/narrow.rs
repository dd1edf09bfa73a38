//! What a child may use and ask for: its parent's limits and grants, or a part of them.
//!
//! `narrow` of a spawn is a JSON object `{"limits": {…}, "grants": {…}}`. Each limit in it is at
//! most the parent's. If it has `grants`, the child has those and no others, and the parent's
//! patterns cover each of their patterns.

use crate::process::{Grants, Json, Limits, Problem, problem::kind};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The limits and grants that a spawn asks for. Read before the commit lock is taken: the text may
/// be long.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::run) struct Narrow {
    #[serde(default)]
    limits: Map<String, Value>,
    grants: Option<BTreeMap<String, Vec<String>>>,
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(kind::BAD_NARROW, "A spawn asks for more than its parent has").with_detail(detail)
}

impl Narrow {
    /// # Errors
    /// `bad-narrow` if the text is no such object.
    pub(in crate::run) fn parse(text: &Json) -> Result<Self, Problem> {
        serde_json::from_slice(text.as_bytes()).map_err(|error| bad(error.to_string()))
    }

    /// The limits and grants of a child whose parent has these. `covers` returns whether patterns
    /// of a capability cover another.
    ///
    /// # Errors
    /// `bad-narrow` if it asks for more than the parent has.
    pub(in crate::run) fn within(
        self,
        limits: &Limits,
        grants: &Grants,
        covers: impl Fn(&str, &[String], &str) -> bool,
    ) -> Result<(Arc<Limits>, Grants), Problem> {
        let limits = narrow_limits(self.limits, limits)?;
        let Some(wanted) = self.grants else { return Ok((limits, grants.clone())) };
        for (capability, patterns) in &wanted {
            let granted =
                grants.of(capability).ok_or_else(|| bad(format!("The parent has no grant for {capability}.")))?;
            if let Some(pattern) = patterns.iter().find(|pattern| !covers(capability, granted, pattern)) {
                return Err(bad(format!("The parent's grants for {capability} do not cover {pattern:?}.")));
            }
        }
        Ok((limits, Grants(Arc::new(wanted))))
    }
}

fn narrow_limits(wanted: Map<String, Value>, limits: &Limits) -> Result<Arc<Limits>, Problem> {
    let Value::Object(mut all) = serde_json::to_value(limits).expect("invariant: limits are numbers") else {
        unreachable!("invariant: limits are an object");
    };
    for (name, value) in wanted {
        let granted = all.get_mut(&name).ok_or_else(|| bad(format!("There is no limit named {name}.")))?;
        match (value.as_u64(), granted.as_u64()) {
            (Some(value), Some(granted)) if value <= granted => {}
            (None, _) => return Err(bad(format!("The limit {name} is no whole number."))),
            _ => return Err(bad(format!("The parent's limit {name} is {granted}."))),
        }
        *granted = value;
    }
    let narrowed = serde_json::from_value(Value::Object(all)).map_err(|error| bad(error.to_string()))?;
    Ok(Arc::new(narrowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Result<(Arc<Limits>, Grants), String> {
        let granted = BTreeMap::from([("http".to_owned(), vec!["GET https://a.example".to_owned()])]);
        let covers = |_: &str, all: &[String], one: &str| all.iter().any(|pattern| pattern == one);
        Narrow::parse(&Json::parse(text.to_owned()).unwrap())
            .and_then(|narrow| narrow.within(&Limits::default(), &Grants(Arc::new(granted)), covers))
            .map_err(|problem| problem.detail.unwrap())
    }

    #[test]
    fn it_only_narrows() {
        let (limits, grants) = ask(r#"{"limits":{"mailbox":7,"fuel-total":5}}"#).unwrap();
        assert_eq!((limits.mailbox, limits.fuel_total), (7, 5));
        assert_eq!(limits.outstanding, Limits::default().outstanding);
        assert!(grants.of("http").is_some());

        let (_, grants) = ask(r#"{"grants":{"http":["GET https://a.example"]}}"#).unwrap();
        assert_eq!(grants.of("http").unwrap().len(), 1);
        let (_, grants) = ask(r#"{"grants":{}}"#).unwrap();
        assert!(grants.of("http").is_none());
        assert!(ask("{}").is_ok());
    }

    #[test]
    fn what_is_more_than_the_parent_has_is_refused() {
        for (text, detail) in [
            (r#"{"limits":{"mailbox":10001}}"#, "limit mailbox is 10000"),
            (r#"{"limits":{"mailbox":-1}}"#, "no whole number"),
            (r#"{"limits":{"mailbox":"7"}}"#, "no whole number"),
            (r#"{"limits":{"letterbox":7}}"#, "no limit named letterbox"),
            (r#"{"grants":{"kv":[]}}"#, "no grant for kv"),
            (r#"{"grants":{"http":["GET https://b.example"]}}"#, "do not cover"),
            (r#"{"limit":{}}"#, "unknown field"),
            ("[]", "invalid"),
        ] {
            let got = ask(text).unwrap_err();
            assert!(got.contains(detail), "{text}: {got}");
        }
    }
}
