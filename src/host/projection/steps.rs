//! The steps of a run as its records give them: what they wait for, and how a pause or the end of
//! the run changes that.

use super::{Line, RunProjection};
use crate::process::{Json, Micros, Pid, Timestamp};
use crate::run::UNCACHED;
use crate::workflow::interpreter::progress::{Cause, NodeProgress, Wait, without_items};
use std::collections::BTreeMap;

impl RunProjection {
    /// The steps as [`Self::nodes`] has them, with the signals that their guests wait for.
    pub fn steps(&self) -> Vec<NodeProgress> {
        let mut steps = self.nodes.clone();
        for node in steps.iter_mut().filter(|_| !self.uncached.is_empty()) {
            node.uncached = self.uncached.get(&without_items(&node.node)).cloned();
        }
        for waiting in self.state.signal_waits().into_iter().filter(|waiting| waiting.pid != Pid::ROOT) {
            let Some((step, item)) = self.step_of(waiting.pid) else { continue };
            let running = |node: &&mut NodeProgress| node.node == step && node.status == "running";
            if let Some(node) = steps.iter_mut().find(running) {
                let cause = Cause::Signal { name: waiting.name.to_string() };
                node.waits.push(Wait { cause, item, since: waiting.since, until: waiting.until });
            }
        }
        steps
    }

    /// The step that a living process belongs to, and its item if the step has several. `None` for
    /// the workflow itself.
    pub fn step_of(&self, pid: Pid) -> Option<(&str, Option<usize>)> {
        step_of(self.name(pid)?)
    }

    /// Notes why the outcome of a guest was not kept.
    pub(super) fn note_uncached(&mut self, line: &Line) {
        let fields = line.line.fields.as_ref().map(Json::as_str).filter(|fields| fields.contains(UNCACHED));
        let Some(fields) = fields.filter(|_| line.pid != Pid::ROOT) else { return };
        let read: Option<BTreeMap<String, String>> = serde_json::from_str(fields).ok();
        let reason = read.and_then(|mut read| read.remove(UNCACHED));
        if let (Some(reason), Some((step, _))) = (reason, step_of(&line.process)) {
            self.uncached.entry(without_items(step)).or_insert(reason);
        }
    }

    /// Moves the ends of the waits that stood still while the run was paused.
    pub(super) fn shift(&mut self, by: Micros) {
        let later = |until: &mut Timestamp| *until = until.saturating_add(by);
        for node in &mut self.nodes {
            node.deadline.iter_mut().filter(|_| node.deadline_pauses).for_each(later);
            let signals =
                node.waits.iter_mut().filter(|wait| matches!(wait.cause, Cause::Signal { .. } | Cause::Any { .. }));
            signals.filter_map(|wait| wait.until.as_mut()).for_each(later);
        }
    }

    /// Cancels the steps that had not ended when the run did.
    pub(super) fn cut_off(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| matches!(node.status.as_str(), "waiting" | "running")) {
            "cancelled".clone_into(&mut node.status);
            node.in_flight = 0;
            node.waiting = 0;
            node.queued = 0;
            node.deadline = None;
            node.waits.clear();
        }
    }
}

/// The step of a process by its name for people, `step`, `step[item]`, `step > entry`, and its item
/// if the step has several.
fn step_of(name: &str) -> Option<(&str, Option<usize>)> {
    let place = name.split(" > ").next().filter(|place| !place.is_empty())?;
    match place.strip_suffix(']').and_then(|place| place.rsplit_once('[')) {
        Some((step, item)) => Some((step, Some(item.parse().ok()?))),
        None => Some((place, None)),
    }
}
