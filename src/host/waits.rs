//! Which signals a run waits for, and which wait in it, as its records tell.
//!
//! It is what the run itself decides, but for one thing: a mailbox that is full keeps signals where this takes them for taken.

use crate::process::{Micros, Payload, Pid, Tag};
use crate::run::SignalStatus;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of the signals of a run after some of its records.
#[derive(Clone, Default, Debug)]
pub(super) struct Waits {
    /// Calls that wait, the oldest first.
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    /// Who has registered a name.
    registered: BTreeMap<Arc<str>, Pid>,
    /// How many nobody has taken.
    kept: BTreeMap<Arc<str>, usize>,
}

/// A call that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// The process that asked.
    pub(super) pid: Pid,
    tag: Tag,
    /// The signal's name.
    pub(super) name: Arc<str>,
    /// Since when.
    pub(super) since: Micros,
    /// Until when at most.
    pub(super) until: Option<Micros>,
}

/// The name that a call of the handler `signal` asks for.
fn name_of(args: &Payload) -> Option<Arc<str>> {
    let Payload::Json(json) = args else { return None };
    json.to_value()["name"].as_str().map(Into::into)
}

impl Waits {
    /// A call waits.
    pub(super) fn begin(&mut self, (pid, tag): (Pid, Tag), args: &Payload, since: Micros, timeout: Option<Micros>) {
        if let Some(name) = name_of(args) {
            self.next += 1;
            let until = timeout.map(|timeout| since.saturating_add(timeout));
            self.waiting.insert(self.next, Waiting { pid, tag, name, since, until });
        }
    }

    /// The calls that wait, the oldest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values()
    }

    /// Their time stood still for so long.
    pub(super) fn later(&mut self, by: Micros) {
        for until in self.waiting.values_mut().filter_map(|waiting| waiting.until.as_mut()) {
            *until = until.saturating_add(by);
        }
    }

    /// A call has taken one that was kept.
    pub(super) fn took(&mut self, args: &Payload) {
        if let Some(name) = name_of(args)
            && let Some(kept) = self.kept.get_mut(&name)
        {
            *kept -= 1;
            if *kept == 0 {
                self.kept.remove(&name);
            }
        }
    }

    /// A call waits no more, if it did.
    pub(super) fn end(&mut self, pid: Pid, tag: Tag) {
        self.waiting.retain(|_, waiting| (waiting.pid, waiting.tag) != (pid, tag));
    }

    /// A process has a name: its mailbox takes what comes under it, and what was kept.
    pub(super) fn register(&mut self, pid: Pid, name: &Arc<str>) {
        self.kept.remove(name);
        self.registered.insert(Arc::clone(name), pid);
    }

    /// A process has ended.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.waiting.retain(|_, waiting| waiting.pid != pid);
        self.registered.retain(|_, owner| *owner != pid);
    }

    /// A signal has come.
    pub(super) fn hear(&mut self, name: &Arc<str>) {
        let first = self.waiting.iter().find(|(_, waiting)| waiting.name == *name).map(|(number, _)| *number);
        if let Some(number) = first {
            self.waiting.remove(&number);
        } else if !self.registered.contains_key(name) {
            *self.kept.entry(Arc::clone(name)).or_default() += 1;
        }
    }

    /// Whether somebody would take a signal of this name.
    pub(super) fn takes(&self, name: &str) -> bool {
        self.registered.contains_key(name) || self.waiting().any(|waiting| *waiting.name == *name)
    }

    /// Every name that a call waits for or that signals are kept of, in the order of the names.
    pub(super) fn status(&self) -> Vec<SignalStatus> {
        let mut all: BTreeMap<&Arc<str>, (usize, usize)> = BTreeMap::new();
        self.waiting().for_each(|waiting| all.entry(&waiting.name).or_default().0 += 1);
        self.kept.iter().for_each(|(name, kept)| all.entry(name).or_default().1 += kept);
        let status = |(name, (waiting, kept)): (&Arc<str>, _)| SignalStatus { name: Arc::clone(name), waiting, kept };
        all.into_iter().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn args(name: &str) -> Payload {
        Payload::json(&json!({ "name": name }))
    }

    fn seen(waits: &Waits) -> Vec<(String, usize, usize)> {
        waits.status().iter().map(|one| (one.name.to_string(), one.waiting, one.kept)).collect()
    }

    #[test]
    fn a_signal_goes_to_who_waits_longest_or_has_its_name_and_is_kept_else() {
        let mut waits = Waits::default();
        waits.begin((Pid(1), Tag(1)), &args("a"), Micros(5), Some(Micros(2)));
        waits.begin((Pid(2), Tag(1)), &args("a"), Micros(5), None);
        waits.later(Micros(10));
        let until: Vec<_> = waits.waiting().map(|waiting| waiting.until).collect();
        assert_eq!(until, [Some(Micros(17)), None]);
        waits.hear(&"a".into());
        waits.end(Pid(1), Tag(1));
        assert_eq!(seen(&waits), [("a".to_owned(), 1, 0)], "the second waits still");
        waits.end(Pid(2), Tag(1));
        assert!(!waits.takes("a"));
        waits.hear(&"a".into());
        waits.hear(&"a".into());
        waits.took(&args("a"));
        assert_eq!(seen(&waits), [("a".to_owned(), 0, 1)]);
        waits.register(Pid(3), &"a".into());
        waits.hear(&"a".into());
        assert!(waits.takes("a") && seen(&waits).is_empty());
        waits.forget(Pid(3));
        assert!(!waits.takes("a"));
    }
}
