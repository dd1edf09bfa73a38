//! What a run waits for from people, as its state has it.

use super::outstanding::{Pending, PendingCall};
use super::run_state::State;
use super::signals::{PendingSignal, Wanted};
use crate::process::{Json, Pid, Tag};
use crate::run::seam::awaited::{AWAITED_MAX, Awaited, AwaitedKind};
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

impl State {
    /// What the run waits for from people, at most [`AWAITED_MAX`]: the signals in the order of
    /// their names, then the calls.
    pub(in crate::run) fn awaited(&self) -> Vec<Awaited> {
        let mut signals = BTreeMap::new();
        let mut calls = Vec::new();
        let living = self.table.iter().filter(|(_, entry)| entry.lives());
        let pending = living.flat_map(|(pid, entry)| entry.outstanding.iter().map(move |(tag, one)| (pid, tag, one)));
        for (pid, tag, pending) in pending {
            match pending {
                Pending::Signal(signal) => {
                    for wanted in &signal.wanted {
                        match signals.entry(&wanted.name) {
                            Entry::Vacant(place) => _ = place.insert((&**signal, wanted)),
                            Entry::Occupied(mut place) if signal.number < place.get().0.number => {
                                _ = place.insert((signal, wanted));
                            }
                            Entry::Occupied(_) => {}
                        }
                    }
                }
                Pending::Call(call) if self.uncertain.contains_key(&(pid, tag)) => calls.push((pid, tag, &**call)),
                _ => {}
            }
        }
        let signals = signals.into_values().map(awaited_signal);
        let calls = calls.into_iter().map(|(pid, tag, call)| awaited_call(pid, tag, call));
        signals.chain(calls).take(AWAITED_MAX).collect()
    }
}

fn awaited_signal((signal, wanted): (&PendingSignal, &Wanted)) -> Awaited {
    let name = Arc::clone(&wanted.name);
    Awaited { kind: AwaitedKind::Signal, name, since: signal.since, detail: wanted.prompt.clone() }
}

fn awaited_call(pid: Pid, tag: Tag, call: &PendingCall) -> Awaited {
    let detail = Json::from_value(&serde_json::json!({ "handler": call.handler, "key": call.key }));
    let name = format!("{}/{}", pid.0, tag.0).into();
    Awaited { kind: AwaitedKind::Uncertain, name, since: call.since, detail: Some(detail) }
}
