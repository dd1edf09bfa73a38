//! The outside of the simulated runs: servers that remember their requests, and answers that come
//! late, twice, or never.

use super::disk::Disk;
use crate::process::{Payload, Pid, Tag};
use crate::run::{Dispatched, Effects, OutgoingCall, Reply};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state of the outside.
#[derive(Default)]
pub(super) struct Outside {
    /// Calls that wait for an answer.
    pub(super) waiting: Mutex<Vec<(OutgoingCall, Arc<dyn Reply>)>>,
    /// The logs of the runs.
    pub(super) disks: Mutex<BTreeMap<Arc<str>, Arc<Mutex<Disk>>>>,
    /// The call of each key, and how often it was sent.
    sent: Mutex<BTreeMap<Arc<str>, SentCall>>,
    /// What was found wrong.
    pub(super) breaches: Mutex<Vec<String>>,
}

struct SentCall {
    call: (Arc<str>, Pid, Tag),
    args: Payload,
    times: u64,
    /// How often a call that is not safe to repeat may be sent: once, and once more for each retry
    /// that an operator asks for.
    times_max: u64,
}

impl Outside {
    /// Permits one more sending of a call.
    pub(super) fn permit_again(&self, key: &str) {
        if let Some(sent) = self.sent.lock().get_mut(key) {
            sent.times_max += 1;
        }
    }

    fn note(&self, call: &OutgoingCall) -> Result<(), String> {
        let OutgoingCall { run, pid, tag, handler, idempotency_key: key, args, .. } = call;
        let is_repeatable = self.is_repeatable(handler, args);
        if let Some(disk) = self.disks.lock().get(run)
            && !disk.lock().may_leave(*pid, *tag, is_repeatable)
        {
            return Err(format!("a call was sent before its record was durable: {call:?}"));
        }
        // Players give some calls a key of their own, always the same one.
        if &**key == "mine" {
            return Ok(());
        }
        let mut known = self.sent.lock();
        let sent = known.entry(Arc::clone(key)).or_insert_with(|| SentCall {
            call: (Arc::clone(run), *pid, *tag),
            args: args.clone(),
            times: 0,
            times_max: 1,
        });
        sent.times += 1;
        if sent.call != (Arc::clone(run), *pid, *tag) || sent.args != *args {
            return Err(format!("two calls have the key {key}: {:?} and {call:?}", sent.call));
        }
        if !is_repeatable && sent.times > sent.times_max {
            return Err(format!("a call that is not safe to repeat was sent {} times: {call:?}", sent.times));
        }
        Ok(())
    }

    /// Counts the keys that were used more than once.
    pub(super) fn repeated(&self) -> u64 {
        self.sent.lock().values().filter(|sent| sent.times > 1).count() as u64
    }
}

impl Effects for Outside {
    fn dispatch(&self, call: OutgoingCall, reply: Arc<dyn Reply>) -> Dispatched {
        if let Err(breach) = self.note(&call) {
            self.breaches.lock().push(breach);
        }
        if &*call.handler == "inline" {
            return Dispatched::Answered(Ok(call.args));
        }
        self.waiting.lock().push((call, reply));
        Dispatched::Pending
    }

    fn abandon(&self, _: &str, _: Pid, _: Tag) {}

    fn is_repeatable(&self, handler: &str, _: &Payload) -> bool {
        handler != "unsafe"
    }
}
