//! The keys of calls that were asked for before a run was made from another.
//!
//! A fork and a repeated run are other runs than the one that they were made of, and what they do by themselves has keys of their own. But a
//! call that was asked for before may have happened then, so whoever makes it again makes it under the key that it had, however often.

use super::record::{Decision, Digest};
use super::scope::{Place, Segment};
use super::state::State;
use super::wire::{Damaged, Source, Wire, put_number};
use crate::process::{Call, Pid, Tag};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// By where keys begin, the calls whose keys do: digests of what follows in their keys, 16 bytes for each call.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct FormerKeys(BTreeMap<Arc<str>, BTreeSet<Digest>>);

impl FormerKeys {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// By where keys begin, the digests of what follows in them.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &BTreeSet<Digest>)> {
        self.0.iter()
    }

    #[cfg(test)]
    pub(super) fn of(keys: BTreeMap<Arc<str>, BTreeSet<Digest>>) -> Self {
        Self(keys)
    }

    fn digest(path: &str) -> Digest {
        Digest::of(path.as_bytes())
    }

    /// Where the key of the call of this path began; none: nobody asked for it.
    fn beginning(&self, path: &str) -> Option<&Arc<str>> {
        let digest = Self::digest(path);
        self.0.iter().find(|(_, paths)| paths.contains(&digest)).map(|(beginning, _)| beginning)
    }

    fn insert(&mut self, beginning: &str, path: &str) {
        match self.0.get_mut(beginning) {
            Some(paths) => paths.insert(Self::digest(path)),
            None => self.0.entry(beginning.into()).or_default().insert(Self::digest(path)),
        };
    }
}

impl State {
    /// The key of a call that has none of its own.
    pub(super) fn key_of(&self, keys: &str, pid: Pid, tag: Tag, call: &Call) -> Arc<str> {
        let place = &self.table[pid].place;
        let last = last_of(tag, call);
        let key = place.key(keys, &last);
        if self.former_keys.is_empty() {
            return key;
        }
        let beginning = self.former_keys.beginning(&key[keys.len()..]);
        beginning.filter(|beginning| ***beginning != *keys).map_or(key, |beginning| place.key(beginning, &last))
    }

    /// Notes the key that a call was given, for whoever makes it again in a run that is made from this one.
    pub(super) fn note_key(&mut self, pid: Pid, tag: Tag, call: &Call, decision: &Decision) {
        let Decision::Called(key) = decision else { return };
        let place: &Place = &self.table[pid].place;
        if call.idempotency_key.is_none() {
            let path = place.key("", &last_of(tag, call));
            if let Some(beginning) = key.strip_suffix(&*path) {
                self.former_keys.insert(beginning, &path);
            }
        }
    }
}

/// The last part of a call's key.
fn last_of(tag: Tag, call: &Call) -> Segment {
    match &call.placement {
        Some(placement) => Segment::Scope(Arc::clone(&placement.scope)),
        None => Segment::Tag(tag),
    }
}

impl Wire for FormerKeys {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.0.len() as u64);
        for (beginning, paths) in &self.0 {
            beginning.put(out);
            put_number(out, paths.len() as u64);
            for Digest(digest) in paths {
                out.extend_from_slice(&digest.to_le_bytes());
            }
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        let mut all = BTreeMap::new();
        for _ in 0..from.number()? {
            let beginning = Wire::take(from)?;
            let mut paths = BTreeSet::new();
            for _ in 0..from.number()? {
                paths.insert(Digest(u128::from_le_bytes(from.array()?)));
            }
            all.insert(beginning, paths);
        }
        Ok(Self(all))
    }
}
