//! The keys of calls that were asked for before a run was made from another.
//!
//! A fork and a repeated run are other runs than the one that they were made of, and what they do
//! by themselves has keys of their own. But a call that was asked for before may have happened
//! then, so whoever makes it again makes it under the key that it had. A person who repeats a run
//! may have changed what a call asks for: where it is known what became of the former call, a
//! server would answer the former request, or refuse the new one, so a call with other arguments
//! has a new key. Where it is not known, the key stays whatever the arguments: a second effect is
//! worse than the answer to another request. What a run makes again by itself always keeps the key.
//!
//! A run that repeats another has no id of its own in its keys: what it calls for the first time, or
//! under a new key, has a digest of what is asked for there, `<first run>~<digest>/<path>`. So two
//! runs that repeat the same one have one key where they ask for the same, and a server does that
//! once. Below a guest it is the digest of what the guest is given.

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
    /// The key of a call that has none of its own. `keys` begins those of calls that no run has made
    /// before.
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
                // The former key may be that of these arguments: others were asked for under it since.
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

    /// Where the keys of a process begin that was spawned at a place of the workflow above that path.
    fn beginning_above(&self, path: &str) -> Option<&Arc<str>> {
        let ends = path.char_indices().rev().filter(|(at, c)| *c == '/' && *at > 0);
        let mut known = ends.filter_map(|(at, _)| self.former_keys.0.get(&digest_of(&path[..at])));
        known.next().map(|known| &known.beginning)
    }

    /// A process is spawned at a place of the workflow: in a run that repeats another, the keys of its
    /// calls begin with a digest of what it is given.
    pub(in crate::run) fn make_keys_below(&mut self, spawn: &Spawn) {
        let (Some(keys), Some(placement)) = (&self.repeats, &spawn.placement) else { return };
        let mut bytes = Vec::new();
        spawn.component.as_deref().unwrap_or_default().to_owned().put(&mut bytes);
        spawn.entry.put(&mut bytes);
        spawn.input.put(&mut bytes);
        let known = FormerKey { beginning: own_beginning(keys, Digest::of(&bytes)), asked: None };
        self.former_keys.0.insert(digest_of(&format!("/{}", placement.scope)), known);
    }

    /// The path of a call's key, and where the key begins. None: the process has given it.
    fn path_of<'k>(&self, pid: Pid, tag: Tag, call: &Call, key: &'k str) -> Option<(Arc<str>, &'k str)> {
        if call.idempotency_key.is_some() {
            return None;
        }
        let key_path = &self.table[pid].key_path;
        let path = key_path.key("", &last_of(tag, call));
        let beginning = key.strip_suffix(&*path)?;
        Some((path, beginning))
    }

    /// Whether a run before made the call of this path under a key that begins so, and nobody knows
    /// what became of it.
    fn is_unknown(&self, path: Digest, beginning: &str) -> bool {
        let known = self.former_keys.0.get(&path);
        known.is_some_and(|known| *known.beginning == *beginning && known.asked.is_none())
    }

    /// A call is made under this key: if it is made again, that is the run's own doing. It gives
    /// the key that the call had in another run, where this one is new because the arguments are
    /// others.
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
                // What a guest is given stays the same, and so do the keys below it.
                if call.placement.is_some() && self.repeats.is_some() {
                    place.insert(own);
                }
                None
            }
        }
    }

    /// Notes the key that a call was given before a fork was cut: the fork makes it again under
    /// that one.
    pub(in crate::run) fn keep_key(&mut self, pid: Pid, tag: Tag, call: &Call, decision: &Decision) {
        if let Decision::Called(key) = decision
            && let Some((path, beginning)) = self.path_of(pid, tag, call, key)
        {
            let known = FormerKey { beginning: beginning.into(), asked: None };
            self.former_keys.0.insert(digest_of(&path), known);
        }
    }
}

/// The calls of a run and what became of them, for a run that repeats it.
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
    /// Somebody made it under this key, and nobody knows whether it happened.
    doubtful: bool,
    /// It was made with other arguments while that was so: what succeeds may be either of them.
    mixed: bool,
}

impl NotedKeys {
    /// A call is asked for, of a process in this state.
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

    /// A call is answered.
    pub(in crate::run) fn answer(&mut self, pid: Pid, tag: Tag, answer: &Answer) {
        let Some(path) = self.open.remove(&(pid, tag)) else { return };
        let Some(noted) = self.calls.get_mut(&path) else { return };
        noted.open = noted.open.saturating_sub(1);
        match answer {
            // Under one key it happens once: now it has.
            Ok(_) => noted.doubtful = noted.mixed,
            Err(problem) => noted.doubtful |= problem.may_have_happened || problem.class == ProblemClass::Uncertain,
        }
    }

    /// The keys for a run that repeats the one of this state.
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
