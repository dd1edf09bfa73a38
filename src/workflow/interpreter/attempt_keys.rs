//! The keys of calls within a step that is tried again.
//!
//! An attempt of a step runs the steps within it anew, and a call of these goes on where it was in
//! the attempt before:
//!
//! - **K1** A call that has succeeded, or may have, keeps its key however often it is sent in
//!   further attempts: a server that honours keys does it once.
//! - **K2** If every send of a call is known not to have happened, its next send has a new key.
//!
//! What is known is kept until the outermost step with `retry` around the call has ended its item,
//! or its turn.

use super::blocks::ROOT;
use super::{Interpreter, ItemKey};
use crate::workflow::expression::Size;
use crate::workflow::plan::Action;
use std::collections::BTreeMap;

/// What an entry is counted as, beside its path. About what it takes.
const ENTRY_BYTES: usize = 64;

/// What a further attempt has to know of a call: the number in its key, and whether one under it
/// may have happened.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct CallKey {
    pub(super) number: u32,
    pub(super) may_have_happened: bool,
}

/// Calls within steps that may be tried again, by what their keys have before the number.
#[derive(Default, Debug)]
pub(super) struct AttemptKeys(BTreeMap<String, CallKey>);

fn size_of(path: &str) -> Size {
    Size { bytes: path.len() + ENTRY_BYTES, values: 1 }
}

impl Interpreter {
    /// Whether a step around a node has a `retry`.
    fn is_tried_again(&self, index: usize) -> bool {
        let mut place = self.nodes[index].block;
        while let Some(((around, _), _)) = &self.blocks.get(place).of {
            if self.node(*around).retry.is_some_and(|retry| retry.max > 0) {
                return true;
            }
            place = self.nodes[*around].block;
        }
        false
    }

    /// Notes the key of a call whose item, or turn, has ended. That a call under this number may
    /// have happened is not forgotten.
    pub(super) fn keep_call_key(&mut self, (index, item): ItemKey, turn: u32, mut key: CallKey) {
        let is_known = key.number > 0 || key.may_have_happened;
        let is_call = matches!(self.node(index).action, Action::Call { .. });
        if !is_known || !is_call || self.nodes[index].block == ROOT || !self.is_tried_again(index) {
            return;
        }
        let path = self.key_path_of(index, item, turn);
        match self.attempt_keys.0.get(&path) {
            Some(known) => key.may_have_happened |= known.may_have_happened && known.number == key.number,
            None => self.retained += size_of(&path),
        }
        self.attempt_keys.0.insert(path, key);
    }

    /// The key that a call has had in an earlier attempt of a step around it.
    pub(super) fn former_call_key(&self, (index, item): ItemKey, turn: u32) -> CallKey {
        if self.attempt_keys.0.is_empty() {
            return CallKey::default();
        }
        self.attempt_keys.0.get(&self.key_path_of(index, item, turn)).copied().unwrap_or_default()
    }

    /// Forgets the keys of calls within an item, or a turn, that has ended.
    pub(super) fn forget_call_keys(&mut self, (index, item): ItemKey, turn: u32) {
        if self.attempt_keys.0.is_empty() || !self.node(index).action.has_block() || self.is_tried_again(index) {
            return;
        }
        let prefix = format!("{}/", self.key_path_of(index, item, turn));
        let within = self.attempt_keys.0.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let within: Vec<String> = within.map(|(path, _)| path.clone()).collect();
        for path in within {
            self.retained -= size_of(&path);
            self.attempt_keys.0.remove(&path);
        }
    }
}
