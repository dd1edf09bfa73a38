//! The keys of calls that earlier runs have made, as the first record of a run that repeats them
//! carries them. Their rules are in [`crate::run::state::keys`].

use super::kinds::Digest;
use super::wire::{Damaged, Source, Wire, put_number, unknown};
use crate::process::Call;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The calls of another run, by a digest of the part of their keys after the beginning.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct FormerKeys(pub(in crate::run) BTreeMap<Digest, FormerKey>);

/// When a run that makes a call again uses the key of the former call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// Whatever the arguments: the outcome of the former call is unknown.
    Always,
    /// With the same arguments; with others the call has a new key.
    Same,
    /// The key has not been used: the former call is known not to have happened.
    Never,
}

/// The key of a call of another run.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(in crate::run) struct FormerKey {
    /// What the key begins with.
    pub(in crate::run) beginning: Arc<str>,
    /// The digest of handler and arguments, if the outcome of the call is known: a call with others
    /// is another call. `None` if the outcome is unknown, or if this run has made the call itself
    /// since; the key is then used whatever the arguments.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::run) asked: Option<Digest>,
}

impl FormerKeys {
    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The calls: a digest of the part of the key after the beginning, that beginning, and a digest
    /// of the handler and the arguments if the outcome of the call is known.
    pub fn iter(&self) -> impl Iterator<Item = (Digest, &Arc<str>, Option<Digest>)> {
        self.0.iter().map(|(path, known)| (*path, &known.beginning, known.asked))
    }

    /// The key of the call with this path (`/` and the parts after it), and when it is used again.
    /// `None` if no run has made the call.
    #[must_use]
    pub fn reuse(&self, path: &str) -> Option<(String, Reuse)> {
        let FormerKey { beginning, asked } = self.0.get(&digest_of(path))?;
        let reuse = if asked.is_some() { Reuse::Same } else { Reuse::Always };
        Some((format!("{beginning}{path}"), reuse))
    }

    /// Returns whether all are of the first form, which notes no arguments.
    pub(in crate::run) fn is_plain(&self) -> bool {
        self.0.values().all(|known| known.asked.is_none())
    }

    #[cfg(test)]
    pub(in crate::run) fn of(keys: BTreeMap<Digest, FormerKey>) -> Self {
        Self(keys)
    }

    /// Like [`Wire::put`], without the arguments.
    pub(in crate::run) fn put_plain(&self, out: &mut Vec<u8>) {
        self.put_each(out, |_, _| {});
    }

    /// Like [`Wire::take`], without the arguments.
    pub(in crate::run) fn take_plain(from: &mut Source) -> Result<Self, Damaged> {
        Self::take_each(from, |_| Ok(None))
    }

    /// Writes the keys grouped by their beginning, which most of them share.
    fn put_each(&self, out: &mut Vec<u8>, put: impl Fn(&mut Vec<u8>, &FormerKey)) {
        let mut groups: BTreeMap<&Arc<str>, Vec<(&Digest, &FormerKey)>> = BTreeMap::new();
        for (path, known) in &self.0 {
            groups.entry(&known.beginning).or_default().push((path, known));
        }
        put_number(out, groups.len() as u64);
        for (beginning, paths) in groups {
            beginning.put(out);
            put_number(out, paths.len() as u64);
            for (Digest(path), known) in paths {
                out.extend_from_slice(&path.to_le_bytes());
                put(out, known);
            }
        }
    }

    fn take_each(
        from: &mut Source,
        take: impl Fn(&mut Source) -> Result<Option<Digest>, Damaged>,
    ) -> Result<Self, Damaged> {
        let mut all = BTreeMap::new();
        for _ in 0..from.number()? {
            let beginning: Arc<str> = Wire::take(from)?;
            for _ in 0..from.number()? {
                let path = Digest(u128::from_le_bytes(from.array()?));
                all.insert(path, FormerKey { beginning: Arc::clone(&beginning), asked: take(from)? });
            }
        }
        Ok(Self(all))
    }
}

/// Follows the id of the first run in the keys of calls that a repeating run makes for the first
/// time, and is followed by a digest of what the call asks for. No id of a run contains it. Two
/// runs that repeat the same one ask for the same under one key, and for other things under others.
pub(crate) const REPEATS: char = '~';

/// The beginning of the keys of a run that repeats a run with this beginning.
#[must_use]
pub fn repeats(keys: &str) -> Arc<str> {
    format!("{}{REPEATS}", keys.trim_end_matches(REPEATS)).into()
}

/// The beginning of the key of a call that no run has made with these arguments.
pub(in crate::run) fn own_beginning(keys: &str, Digest(asked): Digest) -> Arc<str> {
    format!("{}{REPEATS}{:016x}", keys.trim_end_matches(REPEATS), asked as u64).into()
}

pub(in crate::run) fn digest_of(path: &str) -> Digest {
    Digest::of(path.as_bytes())
}

/// The digest of what a call asks for.
pub(in crate::run) fn asked_of(call: &Call) -> Digest {
    let mut bytes = Vec::new();
    call.handler.put(&mut bytes);
    call.args.put(&mut bytes);
    Digest::of(&bytes)
}

impl Wire for FormerKeys {
    fn put(&self, out: &mut Vec<u8>) {
        self.put_each(out, |out, known| match known.asked {
            None => out.push(0),
            Some(Digest(asked)) => {
                out.push(1);
                out.extend_from_slice(&asked.to_le_bytes());
            }
        });
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Self::take_each(from, |from| match from.byte()? {
            0 => Ok(None),
            1 => Ok(Some(Digest(u128::from_le_bytes(from.array()?)))),
            other => Err(unknown("former key", other)),
        })
    }
}
