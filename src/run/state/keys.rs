//! The keys of calls that were made before the run was made from another.
//!
//! A fork and a repeated run are other runs than the one that they were made from, and calls that
//! they make by themselves have keys of their own. But a call that the former run made may have
//! happened then, so a run that makes it again uses the key that it had. An operator who repeats a
//! run may have changed what a call asks for: if the outcome of the former call is known, a server
//! would answer the former request, or refuse the new one, so a call with other arguments has a new
//! key. If the outcome is not known, the key stays whatever the arguments: a second effect is worse
//! than the answer to another request. A call that a run makes again by itself always retains the
//! key.
//!
//! A run that repeats another does not have its own id in its keys: a call that it makes for the
//! first time, or under a new key, has a digest of what is asked for in its key, `<first
//! run>~<digest>/<path>`. So two runs that repeat the same one use the same key if they ask for the
//! same, and a server does that once. Below a guest it is the digest of the guest's input.

use super::idempotency::Segment;
use super::run_state::State;
use crate::process::{Answer, Call, Pid, ProblemClass, Spawn, Tag};
use crate::run::record::former_keys::{FormerKey, FormerKeys, asked_of, digest_of, own_beginning};
use crate::run::record::kinds::{Decision, Digest};
use crate::run::record::wire::Wire;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

impl State {
    /// The key of a call if the process gave it none. `keys` begins the keys of calls that no
    /// run has made before.
    pub(in crate::run) fn key_of(&self, keys: &str, pid: Pid, tag: Tag, call: &Call) -> Arc<str> {
        let key_path = &self.table[pid].key_path;
        let last = last_of(tag, call);
        let key = key_path.key(keys, &last);
        if self.former_keys.is_empty() && self.repeats.is_none() {
            return key;
        }
        let path = &key[keys.len()..];
        match self.former_keys.0.get(&digest_of(path)) {
            Some(known) if known.asked.is_some_and(|asked| asked != asked_of(call)) => {
                // The former key may be that of these arguments: since then, others were used under
                // it.
                let both = format!("{}{:032x}", known.beginning, asked_of(call).0);
                key_path.key(&own_beginning(keys, digest_of(&both)), &last)
            }
            Some(known) if *known.beginning == *keys => key,
            Some(known) => key_path.key(&known.beginning, &last),
            None if self.repeats.is_none() => key,
            None => match self.beginning_above(path) {
                Some(beginning) if call.placement.is_none() => key_path.key(beginning, &last),
                _ => key_path.key(&own_beginning(keys, asked_of(call)), &last),
            },
        }
    }

    /// The beginning of the keys of a process that was spawned at a place of the workflow above
    /// that path.
    fn beginning_above(&self, path: &str) -> Option<&Arc<str>> {
        let ends = path.char_indices().rev().filter(|(at, c)| *c == '/' && *at > 0);
        let mut known = ends.filter_map(|(at, _)| self.former_keys.0.get(&digest_of(&path[..at])));
        known.next().map(|known| &known.beginning)
    }

    /// Notes that a process is spawned at a place of the workflow: in a run that repeats another,
    /// the keys of its calls begin with a digest of its input.
    pub(in crate::run) fn make_keys_below(&mut self, spawn: &Spawn) {
        let (Some(keys), Some(placement)) = (&self.repeats, &spawn.placement) else { return };
        let mut bytes = Vec::new();
        spawn.component.as_deref().unwrap_or_default().to_owned().put(&mut bytes);
        spawn.entry.put(&mut bytes);
        spawn.input.put(&mut bytes);
        let known = FormerKey { beginning: own_beginning(keys, Digest::of(&bytes)), asked: None };
        self.former_keys.0.insert(digest_of(&format!("/{}", placement.scope)), known);
    }

    /// The path of a call's key, and the beginning of the key. `None` if the process gave the key.
    fn path_of<'k>(&self, pid: Pid, tag: Tag, call: &Call, key: &'k str) -> Option<(Arc<str>, &'k str)> {
        if call.idempotency_key.is_some() {
            return None;
        }
        let key_path = &self.table[pid].key_path;
        let path = key_path.key("", &last_of(tag, call));
        let beginning = key.strip_suffix(&*path)?;
        Some((path, beginning))
    }

    /// Returns whether a former run made the call of this path under a key with this beginning, and
    /// the outcome is unknown.
    fn is_unknown(&self, path: Digest, beginning: &str) -> bool {
        let known = self.former_keys.0.get(&path);
        known.is_some_and(|known| *known.beginning == *beginning && known.asked.is_none())
    }

    /// Notes that a call is made under this key: if it is made again, then by the run itself.
    /// Returns the key that the call had in another run, if this key is new because the arguments
    /// differ.
    pub(in crate::run) fn make_key(&mut self, pid: Pid, tag: Tag, call: &Call, key: &str) -> Option<Arc<str>> {
        if self.former_keys.is_empty() && self.repeats.is_none() {
            return None;
        }
        let (path, beginning) = self.path_of(pid, tag, call, key)?;
        let own = FormerKey { beginning: beginning.into(), asked: None };
        match self.former_keys.0.entry(digest_of(&path)) {
            Entry::Occupied(mut known) => {
                let former = known.insert(own);
                (*former.beginning != *beginning).then(|| format!("{}{path}", former.beginning).into())
            }
            Entry::Vacant(place) => {
                // The guest's input stays the same, and so do the keys below it.
                if call.placement.is_some() && self.repeats.is_some() {
                    place.insert(own);
                }
                None
            }
        }
    }

    /// Notes the key that a call was given before a fork was cut: the fork uses it if it makes the
    /// call again.
    pub(in crate::run) fn note_key(&mut self, pid: Pid, tag: Tag, call: &Call, decision: &Decision) {
        if let Decision::Called(key) = decision
            && let Some((path, beginning)) = self.path_of(pid, tag, call, key)
        {
            let known = FormerKey { beginning: beginning.into(), asked: None };
            self.former_keys.0.insert(digest_of(&path), known);
        }
    }
}

/// The calls of a run and their outcomes, for a run that repeats it.
#[derive(Default)]
pub(in crate::run) struct NotedKeys {
    calls: BTreeMap<Digest, Noted>,
    /// Calls without an answer.
    open: BTreeMap<(Pid, Tag), Digest>,
}

struct Noted {
    beginning: Arc<str>,
    asked: Digest,
    /// How many of its sendings have no answer.
    open: u32,
    /// Whether it was made under this key with an unknown outcome.
    doubtful: bool,
    /// Whether it was made with other arguments while that was so: a success may be that of either.
    mixed: bool,
}

impl NotedKeys {
    /// Notes a call that a process in this state makes.
    pub(in crate::run) fn ask(&mut self, state: &State, pid: Pid, tag: Tag, call: &Call, decision: &Decision) {
        let Decision::Called(key) = decision else { return };
        let Some((path, beginning)) = state.path_of(pid, tag, call, key) else { return };
        let path = digest_of(&path);
        let before = self.calls.get(&path).filter(|noted| *noted.beginning == *beginning);
        let asked = asked_of(call);
        let (open, doubtful) = match before {
            Some(noted) => (noted.open, noted.doubtful || noted.open > 0),
            None => (0, state.is_unknown(path, beginning)),
        };
        let mixed = before.is_some_and(|noted| noted.mixed || doubtful && noted.asked != asked);
        let noted = Noted { beginning: beginning.into(), asked, open: open + 1, doubtful, mixed };
        self.calls.insert(path, noted);
        self.open.insert((pid, tag), path);
    }

    /// Notes the answer of a call.
    pub(in crate::run) fn answer(&mut self, pid: Pid, tag: Tag, answer: &Answer) {
        let Some(path) = self.open.remove(&(pid, tag)) else { return };
        let Some(noted) = self.calls.get_mut(&path) else { return };
        noted.open = noted.open.saturating_sub(1);
        match answer {
            // Under one key a call happens once: now it has.
            Ok(_) => noted.doubtful = noted.mixed,
            Err(problem) => noted.doubtful |= problem.may_have_happened || problem.class == ProblemClass::Uncertain,
        }
    }

    /// The keys for a run that repeats the run of this state.
    pub(in crate::run) fn former(&self, state: &State) -> FormerKeys {
        let mut all = state.former_keys.clone();
        all.0.extend(self.calls.iter().map(|(path, Noted { beginning, asked, open, doubtful, .. })| {
            let is_known = !doubtful && *open == 0;
            let beginning = Arc::clone(beginning);
            (*path, FormerKey { beginning, asked: is_known.then_some(*asked) })
        }));
        all
    }
}

/// The last part of a call's key.
fn last_of(tag: Tag, call: &Call) -> Segment {
    match &call.placement {
        Some(placement) => Segment::Scope(Arc::clone(&placement.scope)),
        None => Segment::Tag(tag),
    }
}
