//! The keys of calls that earlier runs have made, as the first record of a run that repeats them
//! carries them. Their rules are in [`crate::run::state::keys`].

use super::kinds::Digest;
use super::wire::{Damaged, Source, Wire, put_number, unknown};
use crate::process::Call;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The calls that were asked for in another run, by a digest of what follows the beginning of their
/// keys.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct FormerKeys(pub(in crate::run) BTreeMap<Digest, FormerKey>);

/// When the key of a call is used by a run that makes the call again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// Whatever the arguments: nobody knows whether the call happened.
    Always,
    /// With the same arguments; with others the call has a new key.
    Same,
    /// It has not been used: the call before it is known not to have happened.
    Never,
}

/// The key of a call that was asked for in another run.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(in crate::run) struct FormerKey {
    /// What its key begins with.
    pub(in crate::run) beginning: Arc<str>,
    /// The handler and the arguments, where it is known what became of the call: with others it is
    /// another call. None: nobody knows whether it happened, or this run has made it itself since,
    /// and it keeps the key whatever its arguments.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::run) asked: Option<Digest>,
}

impl FormerKeys {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The calls: a digest of what follows the beginning of the key, that beginning, and a digest of
    /// the handler and the arguments where it is known what became of the call.
    pub fn iter(&self) -> impl Iterator<Item = (Digest, &Arc<str>, Option<Digest>)> {
        self.0.iter().map(|(path, known)| (*path, &known.beginning, known.asked))
    }

    /// The key of the call with this path, `/` and what follows in it, and when it is used again.
    /// None: no run has asked for it.
    #[must_use]
    pub fn reuse(&self, path: &str) -> Option<(String, Reuse)> {
        let FormerKey { beginning, asked } = self.0.get(&digest_of(path))?;
        let reuse = if asked.is_some() { Reuse::Same } else { Reuse::Always };
        Some((format!("{beginning}{path}"), reuse))
    }

    /// Whether all are of the first form, in which no arguments are noted.
    pub(in crate::run) fn is_plain(&self) -> bool {
        self.0.values().all(|known| known.asked.is_none())
    }

    #[cfg(test)]
    pub(in crate::run) fn of(keys: BTreeMap<Digest, FormerKey>) -> Self {
        Self(keys)
    }

    /// As [`Wire::put`] does, without the arguments.
    pub(in crate::run) fn put_plain(&self, out: &mut Vec<u8>) {
        self.put_each(out, |_, _| {});
    }

    /// As [`Wire::take`] does, without the arguments.
    pub(in crate::run) fn take_plain(from: &mut Source) -> Result<Self, Damaged> {
        Self::take_each(from, |_| Ok(None))
    }

    /// By where keys begin, which most of them have in common.
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

/// What follows the id of the first run, in the keys of what a run that repeats it makes for the
/// first time: before a digest of what is asked for. No id of a run has it. Two runs that repeat the
/// same one ask for the same under one key, and for other things under others.
pub(crate) const REPEATS: char = '~';

/// What begins the keys of a run that repeats one of these keys.
#[must_use]
pub fn repeats(keys: &str) -> Arc<str> {
    format!("{}{REPEATS}", keys.trim_end_matches(REPEATS)).into()
}

/// Where the key of a call begins that no run has made with these arguments.
pub(in crate::run) fn own_beginning(keys: &str, Digest(asked): Digest) -> Arc<str> {
    format!("{}{REPEATS}{:016x}", keys.trim_end_matches(REPEATS), asked as u64).into()
}

pub(in crate::run) fn digest_of(path: &str) -> Digest {
    Digest::of(path.as_bytes())
}

/// What a call asks for.
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
