//! Answers what a plan asks about handlers, from a registry.

use crate::dispatch::http::SecretHost;
use crate::dispatch::{Registry, Schema};
use crate::process::{Grants, Payload};
use crate::run::{KV, SIGNAL};
use crate::workflow::plan::{CallRequirements, Handlers};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What `call` reaches in a run: the handlers of a registry, and `kv`, which the run itself carries
/// out.
#[derive(Clone, Copy, Debug)]
pub struct HandlerCatalog<'a>(pub &'a Registry);

impl Handlers for HandlerCatalog<'_> {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.names().chain([KV]).map(str::to_owned).collect();
        names.sort_unstable();
        names
    }

    fn requirements(&self, handler: &str, args: &Value) -> Option<CallRequirements> {
        if handler == KV {
            return Some(CallRequirements {
                schema: Some(crate::run::kv_schema(args["op"].as_str())),
                capability: Some(KV.to_owned()),
                grant_arguments: Some(Vec::new()),
            });
        }
        let declaration = self.0.declaration(handler)?;
        let names = |names: &[std::borrow::Cow<'static, str>]| names.iter().map(ToString::to_string).collect();
        Some(CallRequirements {
            schema: declaration.schema.clone(),
            capability: declaration.capability.as_deref().map(str::to_owned),
            grant_arguments: declaration.grant_arguments.as_deref().map(names),
        })
    }

    fn mismatches(&self, schema: &Value, value: &Value) -> Vec<(String, String)> {
        // A part of a schema that means nothing by itself excludes nothing.
        Schema::compile(schema).map_or(Vec::new(), |schema| schema.mismatches(value))
    }

    fn capabilities(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.capabilities().into_iter().chain([KV, SIGNAL]).map(str::to_owned).collect();
        names.sort_unstable();
        names
    }

    fn check_pattern(&self, capability: &str, pattern: &str) -> Result<(), String> {
        match (capability, pattern) {
            (KV, "*") => Ok(()),
            // Names of signals that the workflow itself waits for, or all.
            (SIGNAL, _) => Ok(()),
            // A run only checks whether `kv` is granted at all: a narrower pattern would promise a
            // limit that does not exist.
            (KV, _) => Err("the only pattern is `*`, the whole store of the run".to_owned()),
            _ => self.0.check_pattern(capability, pattern),
        }
    }

    fn check_grant(&self, handler: &str, patterns: &[String], args: &Value) -> Result<(), String> {
        if handler == KV {
            return Ok(());
        }
        let Some(capability) = self.0.declaration(handler).and_then(|one| one.capability.as_deref()) else {
            return Ok(());
        };
        let grants = Grants(Arc::new(BTreeMap::from([(capability.to_owned(), patterns.to_vec())])));
        let checked = self.0.check_grant(handler, &grants, &Payload::json(args));
        checked.map_err(|problem| problem.detail.unwrap_or(problem.title.into_owned()))
    }

    fn check_secret_host(&self, host: &str) -> Result<(), String> {
        host.parse::<SecretHost>().map(drop)
    }

    fn reaches(&self, patterns: &[String], host: &str) -> bool {
        host.parse::<SecretHost>().is_ok_and(|host| host.is_reached_by(patterns))
    }

    fn pattern_for(&self, handler: &str, args: &Value) -> Option<String> {
        if handler == KV { Some("*".to_owned()) } else { self.0.pattern_for(handler, &Payload::json(args)) }
    }
}
