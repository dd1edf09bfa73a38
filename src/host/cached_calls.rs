//! The cache of steps, as runs reach it: questions are calls of [`CACHE`], and outcomes are kept.

use super::Host;
use crate::journal::{CacheBounds, CacheCounts, Found, NewEntry, Question, StepCache};
use crate::process::handler::CACHE;
use crate::process::secret;
use crate::process::{Blob, Json, Micros, Payload, Pid, Recalls, Tag, Timestamp};
use crate::run::{CachedOutcome, Dispatched, Effects, OutgoingCall, Reply};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a host keeps the outcomes of steps with `cache`.
#[derive(Clone, Debug, Default)]
pub enum StepCaching {
    /// In its folder of durable runs, where all hosts of the folder use them; without one in
    /// memory, as long as it lives.
    #[default]
    Default,
    /// As by default, within these bounds.
    Bounded(CacheBounds),
    /// In this folder.
    Folder(PathBuf, CacheBounds),
    /// Nowhere: every question finds nothing.
    Off,
}

impl StepCaching {
    pub(super) fn open(self, data: Option<&PathBuf>) -> Option<Arc<StepCache>> {
        let bounds = match self {
            Self::Off => return None,
            Self::Folder(folder, bounds) => return Some(Arc::new(StepCache::in_folder(&folder, bounds))),
            Self::Default => CacheBounds::default(),
            Self::Bounded(bounds) => bounds,
        };
        let cache = data.map_or_else(|| StepCache::in_memory(bounds), |folder| StepCache::in_folder(folder, bounds));
        Some(Arc::new(cache))
    }
}

/// Hands on calls, except for questions to the cache.
struct CachedCalls {
    /// `None` if nothing is cached.
    cache: Option<Arc<StepCache>>,
    effects: Arc<dyn Effects>,
}

/// The arguments of a question.
#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Arguments {
    key: Arc<str>,
    at_us: u64,
    ttl_us: Option<u64>,
}

fn question(args: &Payload) -> Option<Question> {
    let Payload::Json(json) = args else { return None };
    let Arguments { key, at_us, ttl_us } = serde_json::from_str(json.as_str()).ok()?;
    Some(Question { key, at: Timestamp(at_us), ttl: ttl_us.map(Micros) })
}

/// The answer with an outcome: an object of `from` and `output`.
fn answer_of(Found { run, at, output }: &Found) -> Payload {
    let from = serde_json::json!({ "run": run, "at": at.0 }).to_string();
    let mut text = Vec::with_capacity(from.len() + output.len() + 24);
    text.extend_from_slice(b"{\"from\":");
    text.extend_from_slice(from.as_bytes());
    text.extend_from_slice(b",\"output\":");
    text.extend_from_slice(output);
    text.push(b'}');
    // One that nests too deep for an answer is none.
    Json::parse(text).map_or(Payload::NULL, Payload::Json)
}

/// Whether an outcome is of use to its run alone: it names a blob, which other runs do not hold, or
/// has the placeholder of a secret, which is another in each run. A pure guest has only the digests
/// that are in its input.
fn is_of_its_run(json: &Json, is_pure: bool) -> bool {
    let text = json.as_str();
    let names_blob = || !is_pure || !Blob::all_of(&json.to_value()).is_empty();
    text.contains(secret::PREFIX) || (Blob::is_named_in(text) && names_blob())
}

/// An outcome as expressions see it. `None` if it is of no use to other runs.
fn output_of(payload: &Payload, is_pure: bool) -> Option<bytes::Bytes> {
    match payload {
        Payload::Json(json) if is_of_its_run(json, is_pure) => None,
        Payload::Json(json) => Some(bytes::Bytes::copy_from_slice(json.as_bytes())),
        Payload::Bytes(bytes) => Some(format!("\"{}\"", STANDARD.encode(bytes)).into()),
        Payload::Blob(_) | Payload::Recalled(_) => None,
    }
}

impl Effects for CachedCalls {
    fn dispatch(&self, call: OutgoingCall, reply: Arc<dyn Reply>) -> Dispatched {
        if &*call.handler != CACHE {
            return self.effects.dispatch(call, reply);
        }
        let (Some(cache), Some(question)) = (&self.cache, question(&call.args)) else {
            return Dispatched::Answered(Ok(Payload::NULL));
        };
        cache.find(question, move |found| reply.answer(Ok(found.as_ref().map_or(Payload::NULL, answer_of))));
        Dispatched::Pending
    }

    fn recalls(&self, run: &str) -> Option<Arc<dyn Recalls>> {
        self.effects.recalls(run)
    }

    fn abandon(&self, run: &str, pid: Pid, tag: Tag) {
        self.effects.abandon(run, pid, tag);
    }

    fn is_repeatable(&self, handler: &str, args: &Payload) -> bool {
        handler == CACHE || self.effects.is_repeatable(handler, args)
    }

    fn keep(&self, outcome: CachedOutcome) {
        let Some(cache) = &self.cache else { return };
        let CachedOutcome { key, run, at, output } = outcome;
        let Some(output) = output_of(&output, key.if_pure) else { return };
        let (of, ttl) = (Arc::clone(&key.of), key.ttl);
        cache.keep(NewEntry { key: Arc::clone(&key.key), of, run, at, ttl, output });
    }

    fn narrows(&self, capability: &str, granted: &[String], wanted: &str) -> bool {
        self.effects.narrows(capability, granted, wanted)
    }
}

impl Host {
    /// The calls of runs, with the cache before them.
    pub(super) fn cached(&self, effects: Arc<dyn Effects>) -> Arc<dyn Effects> {
        Arc::new(CachedCalls { cache: self.shared.step_cache.clone(), effects })
    }

    /// What the cache of steps was asked for; `None` if the host has none.
    #[must_use]
    pub fn step_cache_counts(&self) -> Option<CacheCounts> {
        self.shared.step_cache.as_ref().map(|cache| cache.counts())
    }

    /// Waits until what the cache of steps was given is kept.
    pub fn settle_step_cache(&self) {
        if let Some(cache) = &self.shared.step_cache {
            cache.settle();
        }
    }
}
