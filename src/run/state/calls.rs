//! Commands that are answered later (calls and sleeps), and cancelling them.

use super::config::RunConfig;
use super::decide::{Asker, too_large};
use super::events::RunEvent;
use super::kv::{self, Refused};
use super::outstanding::{Pending, PendingCall, Sending};
use super::run_state::{ABANDONED_MAX, Abandoned, Consequence, Moment, State};
use super::signals;
use super::timers::Alarm;
use crate::process::handler::CACHE;
use crate::process::{Answer, Call, Micros, Payload, Pid, Placement, Problem, ProblemClass, Tag, problem::kind};
use crate::run::record::kinds::Decision;
use crate::run::seam::effects::OutgoingCall;
use std::sync::Arc;

impl State {
    pub(in crate::run) fn decide_call(
        &mut self,
        config: &RunConfig,
        asker: &mut Asker<'_>,
        tag: Tag,
        call: &Call,
    ) -> Result<Decision, Box<Problem>> {
        let pid = asker.pid;
        if &*call.handler == kv::NAME {
            let arguments = asker.read.as_mut().and_then(|read| read.kv.pop_front());
            let arguments = arguments.expect("invariant: the arguments of each call were read");
            self.may_carry(pid, &call.args)?;
            return self.decide_kv(asker, call, arguments).map(|answer| Decision::Answered(Ok(answer)));
        }
        self.may_carry(pid, &call.args)?;
        if &*call.handler == signals::NAME {
            return self.decide_signal(config, pid, call);
        }
        if &*call.handler == CACHE && !asker.program.permit().is_none() {
            let problem = Problem::new(kind::NOT_GRANTED, "The cache of steps is not for guests");
            return Err(Box::new(problem.with_detail("`cache:` of a step keeps what its guest gives.")));
        }
        let own = call.idempotency_key.as_ref().map(Arc::clone);
        let key = own.unwrap_or_else(|| self.key_of(&config.keys, pid, tag, call));
        self.may_wait(pid, call.args.size() as u64, call.handler.len() + key.len())?;
        Ok(Decision::Called(key))
    }

    fn decide_kv(
        &mut self,
        asker: &mut Asker<'_>,
        call: &Call,
        arguments: Result<kv::Arguments, Problem>,
    ) -> Result<Payload, Box<Problem>> {
        let entry = &self.table[asker.pid];
        let placed = call.placement.as_deref();
        let grants = placed.and_then(|placement| placement.grants.as_ref()).unwrap_or(&entry.grants);
        if grants.of(kv::NAME).is_none() {
            return Err(Box::new(
                Problem::new(kind::NOT_GRANTED, "The workflow does not grant the key-value store")
                    .with_detail("The capability is named kv.")
                    .with_data(&serde_json::json!({ "capability": kv::NAME })),
            ));
        }
        // All answers are written into the record of the step, under the lock: a MiB takes a guest
        // about three slices.
        let (payload_bytes, output_bytes) = (entry.limits.payload_bytes, entry.limits.output_bytes);
        let is_native = asker.program.permit().is_none();
        let step_bytes = if is_native { output_bytes } else { payload_bytes.min(output_bytes) };
        let room = payload_bytes.min(step_bytes.saturating_sub(asker.kv_bytes));
        let (answer, change) = self.kv.decide(arguments?, &self.bounds, room).map_err(|refused| match refused {
            Refused::Full(problem) => problem,
            Refused::Answer(bytes) if bytes > payload_bytes => too_large("The answer", bytes, payload_bytes),
            Refused::Answer(_) => {
                Problem::new(kind::TOO_LARGE, "A step is answered more of the key-value store than one step may be")
                    .with_detail(format!("The limit is {step_bytes} bytes."))
                    .with_class(ProblemClass::Retryable)
            }
        })?;
        let bytes = answer.size() as u64;
        // The answer waits in the queue until the process takes it.
        let weight = self.weigh(1, bytes, 0);
        if !self.has_room(weight) {
            return Err(Box::new(
                Problem::new(kind::TOO_LARGE, "There is no room for more answers of the key-value store")
                    .with_detail(self.no_room(weight))
                    .with_class(ProblemClass::Retryable),
            ));
        }
        let more = change.bytes();
        if more > 0 && self.held().saturating_add(more) > self.ceiling {
            return Err(Box::new(
                Problem::new(kind::TOO_LARGE, "The host has no room for more in the run's key-value store")
                    .with_detail(self.no_room(0))
                    .with_class(ProblemClass::Retryable),
            ));
        }
        asker.kv_bytes += bytes;
        self.kv.note(change);
        Ok(answer)
    }

    pub(in crate::run) fn apply_kv(&mut self, pid: Pid, tag: Tag, call: &Call, answer: Answer) {
        if let Ok(answer) = &answer {
            self.kv.apply(&call.args, answer);
        }
        self.post_answer(pid, tag, answer);
    }

    pub(in crate::run) fn apply_call(&mut self, pid: Pid, moment: Moment, tag: Tag, call: Call, key: Arc<str>) {
        let former = self.make_key(pid, tag, &call, &key);
        let Some(entry) = self.table.get_mut(pid) else { return };
        let bytes = call.args.size() as u64;
        let timer =
            call.timeout.map(|timeout| self.timers.set(moment.mono.saturating_add(timeout), pid, Alarm::Timeout(tag)));
        let is_lookup = &*call.handler == CACHE;
        self.counts.calls += u64::from(!is_lookup);
        let handler = Arc::clone(&call.handler);
        let placed: Option<&Placement> = call.placement.as_deref();
        let limits = placed.and_then(|placement| placement.limits.clone()).unwrap_or_else(|| Arc::clone(&entry.limits));
        let grants = placed.and_then(|placement| placement.grants.clone()).unwrap_or_else(|| entry.grants.clone());
        let scope = placed.map(|placement| Arc::clone(&placement.scope));
        let pending = PendingCall {
            handler: Arc::clone(&handler),
            key: Arc::clone(&key),
            since: moment.at,
            timeout: call.timeout,
            timer,
            bytes,
            sending: Sending::First,
        };
        self.wait(pid, tag, Pending::Call(Box::new(pending)));
        if let Some(cached) = placed.and_then(|placement| placement.cache.as_ref()) {
            self.caching.enter(pid, tag, cached);
        }
        if !is_lookup {
            self.report(|| RunEvent::Called { pid, tag, handler: Arc::clone(&handler), scope: scope.clone() });
        }
        if let Some(former) = former {
            let key = Arc::clone(&key);
            self.report(|| RunEvent::Rekeyed { pid, tag, former, key });
        }
        self.consequences.push(Consequence::Call(Box::new(OutgoingCall {
            run: Arc::clone(&self.run),
            pid,
            tag,
            scope,
            handler,
            args: call.args,
            timeout: call.timeout,
            idempotency_key: key,
            grants,
            limits,
            traceparent: None,
        })));
    }

    pub(in crate::run) fn apply_sleep(&mut self, pid: Pid, moment: Moment, tag: Tag, duration: Micros) {
        let timer = self.timers.set(moment.mono.saturating_add(duration), pid, Alarm::Sleep(tag));
        self.wait(pid, tag, Pending::Sleep(timer));
    }

    /// Notes a command that waits for its answer.
    pub(in crate::run) fn wait(&mut self, pid: Pid, tag: Tag, pending: Pending) {
        let weight = self.weight_of_pending(&pending);
        if let Some(entry) = self.table.get_mut(pid) {
            self.bytes += weight;
            entry.outstanding_bytes += pending.bytes();
            entry.outstanding.push(tag, pending);
        }
    }

    /// Applies the process's own `cancel`: the tag is answered `cancelled`.
    pub(in crate::run) fn apply_cancel(&mut self, pid: Pid, moment: Moment, tag: Tag) {
        let Some(pending) = self.settle_tag(pid, tag) else { return };
        let problem = Problem::new(kind::CANCELLED, "The process itself cancelled it");
        let problem = match &pending {
            Pending::Call(call) => problem.with_unknown_outcome(!call.sending.is_leaving()),
            // How far the child got is not known.
            Pending::Spawn { .. } => problem.with_class(ProblemClass::Uncertain),
            Pending::Sleep(_) | Pending::Signal(_) => problem,
        };
        match pending {
            Pending::Sleep(_) | Pending::Signal(_) => {}
            Pending::Call(_) => self.consequences.push(Consequence::Abandon { pid, tag }),
            Pending::Spawn { child, .. } => self.cancel(moment, child, "its parent cancelled it", None),
        }
        let answer = Err(problem.into());
        self.caching.forget(pid, tag);
        self.answered(pid, tag, &answer);
        self.post_answer(pid, tag, answer);
    }

    /// Removes an unanswered command, whose one answer the caller then gives.
    pub(in crate::run) fn settle_tag(&mut self, pid: Pid, tag: Tag) -> Option<Pending> {
        let entry = self.table.get_mut(pid).filter(|entry| entry.lives())?;
        let pending = entry.outstanding.remove(tag)?;
        entry.outstanding_bytes -= pending.bytes();
        self.bytes -= self.weight_of_pending(&pending);
        match &pending {
            Pending::Sleep(timer) => self.timers.unset(*timer),
            Pending::Spawn { .. } => {}
            Pending::Call(call) => {
                if let Some(timer) = call.timer {
                    self.timers.unset(timer);
                }
            }
            Pending::Signal(signal) => {
                if let Some(timer) = signal.timer {
                    self.timers.unset(timer);
                }
                self.signals.forget(signal);
            }
        }
        Some(pending)
    }

    /// Reports the answer of a call to observers.
    pub(in crate::run) fn answered(&mut self, pid: Pid, tag: Tag, answer: &Answer) {
        self.report(|| RunEvent::Answered { pid, tag, problem: answer.as_ref().err().cloned() });
    }

    /// Lists a call that its process did not wait for.
    pub(in crate::run) fn abandon(&mut self, pid: Pid, tag: Tag, call: &PendingCall) {
        if self.abandoned.len() < ABANDONED_MAX {
            let (handler, key) = (Arc::clone(&call.handler), Arc::clone(&call.key));
            self.abandoned.push(Abandoned { pid, tag, handler, key });
        } else {
            self.abandoned_more += 1;
        }
    }
}
