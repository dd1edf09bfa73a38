//! Outcomes that are used again: a step with `cache` looks before it runs.
//!
//! # Protocol
//! 1. With the input of an item its key is computed: a digest of all that the outcome may depend
//!    on.
//! 2. Before its first attempt the item asks for the key by a call of [`CACHE`], which is no
//!    attempt. What the cache answers is a record like any answer, so a replay, a recovery and a
//!    fork see the same, and never ask again what was answered.
//! 3. On a hit the item, or its turn, ends with that outcome. On a miss, or if the cache cannot
//!    say, the attempt begins as it would without a cache. Its command has the key
//!    ([`Placement::cache`]): when it succeeds and its record is durable, the run gives the outcome
//!    to the cache. With `auto` it does so only if the guest is known to have had no influence
//!    beside its input.
//!
//! The keys are in the records of runs, so their definition never changes: another one has another
//! number.

use super::progress::NodeProgress;
use super::state::Stage;
use super::{Interpreter, ItemKey};
use crate::process::handler::CACHE;
use crate::process::{
    Action as Ask, Answer, CacheKey, Call, Context, Limits, Micros, Payload, Placement, Problem, Tag, Timestamp,
};
use crate::workflow::expression::Size;
use crate::workflow::interpreter::progress::without_items;
use crate::workflow::plan::{Action, Cache};
use serde_json::{Value, json};
use std::sync::Arc;

/// How long an item waits for what the cache says. Arbitrary: much longer than a disk takes.
const LOOKUP_TIME_MAX: Micros = Micros(10_000_000);

/// Where an outcome of the cache comes from.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CachedFrom {
    /// The id of the run that computed it.
    pub run: String,
    /// When it did, in microseconds since 1970.
    pub at: Timestamp,
}

/// What an item has of the cache.
#[derive(Debug)]
pub(super) struct ItemCache {
    pub(super) key: Arc<CacheKey>,
    pub(super) lookup: Lookup,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lookup {
    /// Nothing was asked yet.
    Open,
    /// The cache was asked.
    Asked,
    /// It has nothing, or is not to be asked.
    Missed,
}

/// A digest of parts, none of which runs into the next.
struct KeyDigest(blake3::Hasher);

impl KeyDigest {
    fn of(kind: &str) -> Self {
        let digest = Self(blake3::Hasher::new_derive_key("wfhost cache of steps, keys of version 1"));
        digest.and(kind.as_bytes())
    }

    fn and(mut self, part: &[u8]) -> Self {
        self.0.update(&(part.len() as u64).to_le_bytes()).update(part);
        self
    }

    fn payload(self, payload: &Payload) -> Self {
        match payload {
            Payload::Json(json) => self.and(b"json").and(json.as_bytes()),
            Payload::Bytes(bytes) => self.and(b"bytes").and(bytes),
            Payload::Blob(blob) => self.and(b"blob").and(blob.digest.as_bytes()),
            Payload::Recalled(recalled) => self.and(b"recalled").and(recalled.digest.as_bytes()),
        }
    }

    /// The limits that a guest can notice. A limit of a later release is added only where it is not
    /// the default.
    fn limits(self, limits: &Limits) -> Self {
        let numbers = [
            limits.memory_bytes,
            limits.table_elements,
            limits.fuel_per_step,
            limits.fuel_total,
            limits.commands_per_step.into(),
            limits.outstanding.into(),
            limits.outstanding_bytes,
            limits.payload_bytes,
            limits.output_bytes,
            limits.log_bytes_per_step.into(),
        ];
        numbers.iter().fold(self, |digest, number| digest.and(&number.to_le_bytes()))
    }

    fn finish(self) -> Arc<str> {
        self.0.finalize().to_hex().as_str().into()
    }
}

impl Interpreter {
    /// What an item with this input has of the cache. `None` if its step has no cache, or its
    /// component no digest.
    pub(super) fn item_cache(&self, key: ItemKey, input: &Payload) -> Result<Option<Box<ItemCache>>, Problem> {
        let node = self.node(key.0);
        let Some(cache) = &node.cache else { return Ok(None) };
        let path = without_items(&self.path(key.0));
        let digest = KeyDigest::of(if *cache == Cache::Auto { "auto" } else { "kept" });
        let digest = match &node.action {
            Action::Uses { component, entry, .. } => {
                let found = self.plan.components.iter().find(|known| known.name == *component);
                let Some(of) = found.and_then(|found| found.digest.as_ref()) else { return Ok(None) };
                digest.and(b"guest 0.1").and(of.as_bytes()).and(entry.as_bytes())
            }
            Action::Call { handler, .. } => {
                digest.and(b"call").and(handler.as_bytes()).and(self.plan.name.as_bytes()).and(path.as_bytes())
            }
            _ => return Ok(None),
        };
        let digest = match cache.key() {
            Some(template) => {
                self.budget.spend(template.expressions().max(1));
                let value = self.evaluate(key.0, Some(key.1), template, "cache/key")?;
                digest.and(b"key").and(value.to_string().as_bytes())
            }
            None if matches!(node.action, Action::Uses { .. }) => {
                digest.and(b"input").payload(input).limits(&node.limits)
            }
            None => digest.and(b"input").payload(input),
        };
        let key = CacheKey {
            key: digest.finish(),
            of: format!("{}/{path}", self.plan.name).into(),
            ttl: cache.ttl(),
            if_pure: *cache == Cache::Auto,
        };
        let lookup = if self.is_fresh(&path) { Lookup::Missed } else { Lookup::Open };
        Ok(Some(Box::new(ItemCache { key: Arc::new(key), lookup })))
    }

    /// Whether a step is run again on purpose, or is within one that is.
    fn is_fresh(&self, path: &str) -> bool {
        self.fresh
            .iter()
            .any(|step| path.strip_prefix(step).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    }

    /// Asks the cache for the outcome of an item that is about to begin. Returns whether it was
    /// asked.
    pub(super) fn look_up(&mut self, context: &mut Context<'_>, key: ItemKey) -> bool {
        let item = self.item(key);
        let number = item.known_failures;
        let Some(cache) = item.cache.as_mut().filter(|cache| cache.lookup == Lookup::Open) else { return false };
        cache.lookup = Lookup::Asked;
        let cached = Arc::clone(&cache.key);
        let CacheKey { key: name, ttl, .. } = &*cached;
        let scope = format!("{}/{number}", self.key_path(key)).into();
        let placement = Placement { scope, limits: None, grants: None, cache: None };
        let mut args = json!({ "key": &**name, "at-us": context.now.0 });
        if let Some(ttl) = ttl {
            args["ttl-us"] = json!(ttl.0);
        }
        let call = Call {
            handler: CACHE.into(),
            args: Payload::json(&args),
            timeout: Some(LOOKUP_TIME_MAX),
            idempotency_key: Some(Arc::clone(name)),
            placement: Some(Arc::new(placement)),
        };
        let tag = context.command(Ask::Call(Box::new(call)));
        self.item(key).stage = Stage::InFlight(tag);
        self.in_flight.insert(tag, key);
        self.changed.insert(key.0);
        true
    }

    /// Whether what an item has in flight is a question to the cache.
    pub(super) fn is_asking(&self, key: ItemKey) -> bool {
        let running = self.nodes[key.0].running.as_ref();
        let item = running.and_then(|running| running.live.get(&key.1));
        item.and_then(|item| item.cache.as_ref()).is_some_and(|cache| cache.lookup == Lookup::Asked)
    }

    /// Handles what the cache says.
    pub(super) fn looked_up(&mut self, now: Timestamp, key: ItemKey, answer: &Answer) {
        self.fillable.insert(key.0);
        let is_over = self.block(key.0).is_halted || self.running(key.0).stopped;
        if let Some(cache) = &mut self.item(key).cache {
            cache.lookup = Lookup::Missed;
        }
        match hit(answer) {
            Some((from, output)) if !self.block(key.0).is_halted => match self.retain(key.0, Size::of(&output)) {
                Ok(()) => {
                    let state = &mut self.nodes[key.0];
                    state.cached += 1;
                    state.cached_from.get_or_insert(from);
                    self.turn_over(now, key, output);
                }
                Err(problem) => self.failed(key, 0, problem),
            },
            _ if is_over => self.cut_off(key),
            _ => {
                self.item(key).stage = Stage::Queued;
                self.running(key.0).queued.insert(key.1);
            }
        }
        self.end_if_finished(key.0);
    }

    /// The command that takes back what is in flight for a question to the cache.
    pub(super) fn stop_asking(&self, context: &mut Context<'_>, key: ItemKey, tag: Tag) -> bool {
        let is_asking = self.is_asking(key);
        if is_asking {
            context.command(Ask::Cancel(tag));
        }
        is_asking
    }
}

/// The outcome that the cache has, and where it comes from.
fn hit(answer: &Answer) -> Option<(CachedFrom, Value)> {
    let Ok(Payload::Json(json)) = answer else { return None };
    let mut value = json.to_value();
    let object = value.as_object_mut()?;
    let from = serde_json::from_value(object.remove("from")?).ok()?;
    Some((from, object.remove("output")?))
}

/// What the line of a node says of the cache.
pub(super) fn in_words(progress: &NodeProgress) -> String {
    match progress.cached {
        0 => String::new(),
        1 if progress.total == 1 => ", cached".to_owned(),
        cached => format!(", {cached} cached"),
    }
}
