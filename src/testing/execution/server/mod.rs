//! The servers behind `call`: they answer as the case says, remember what they were asked, and
//! outlive the host.

#[cfg(test)]
mod former;
mod real;

use super::disk::Disk;
use super::said::{attempts_of, response, value_of};
use super::{End, Stage};
use crate::base::{Monotonic, VirtualClock};
use crate::dispatch::http::SimulatedRequest;
use crate::dispatch::{CallContext, Dispatcher, Log, Registry};
use crate::process::{Answer, Json, LogLine, Micros, Payload, Pid, Problem, ProblemClass, Tag, Timestamp, handler};
use crate::run::{Dispatched, Effects, Kernel, OutgoingCall, Reply};
use crate::testing::case_file::{Case, Reply as CaseReply, ReplyKind, Rule};
use crate::testing::faults::{CallNumber, Fault, Faults};
use crate::testing::judge::fits::{Fitting, fits};
use crate::workflow::expression::{Jq, Scope};
use crate::workflow::interpreter::progress::path_of;
use crate::workflow::plan::Plan;
use crate::workflow::syntax::Span;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A call that reached a server.
#[derive(Clone, Debug)]
pub struct SeenCall {
    /// The handler's name.
    pub handler: Arc<str>,
    /// Its number among the calls of that handler, from 1.
    pub number: usize,
    /// The path of the step that called.
    pub step: String,
    /// The arguments; bytes are null.
    pub args: Value,
    /// When it was first sent.
    pub at: Timestamp,
    /// How many records there were then.
    pub record: u64,
    /// How often it was sent.
    pub sends: u64,
    /// Its idempotency key.
    pub key: Arc<str>,
    /// The answer of the server.
    pub answer: Option<Answer>,
    /// After how long the caller gave up, since the answer took longer. `None` if it did not.
    pub gave_up: Option<Micros>,
    /// Whether it may be sent again after an unknown outcome.
    pub is_repeatable: bool,
    /// Whether a fault of the execution answered it, and not the case.
    pub is_injected: bool,
    /// How much later the answer may come without the caller giving up; `None` if it always waits.
    pub(in crate::testing) slack: Option<Micros>,
    origin: (Pid, Tag),
    rule: Option<usize>,
    /// How long the server takes.
    after: Micros,
}

/// A call that no answer matches.
#[derive(Clone, Debug)]
pub struct UnansweredCall {
    /// The handler's name.
    pub handler: String,
    /// The path of the step that called.
    pub step: String,
    /// The arguments; bytes are null.
    pub args: Value,
    /// Why entries of `answers` for that handler do not match, each with its place.
    pub others: Vec<(Span, String)>,
}

/// The servers of an execution.
pub(super) struct Servers {
    jq: Arc<Jq>,
    inputs: Value,
    rules: Vec<Arc<Rule>>,
    plan: Arc<Plan>,
    real: Vec<String>,
    dispatcher: Arc<Dispatcher>,
    /// Writes lines to the log of the run that lives.
    log: Dispatcher,
    /// The kernel of the host that lives.
    pub(super) kernel: Arc<Mutex<Option<Kernel>>>,
    time: VirtualClock,
    epoch: Timestamp,
    pub(super) disk: Arc<Mutex<Disk>>,
    faults: Faults,
    #[cfg(test)]
    oracle: Option<super::oracle::Oracle>,
    pub(super) inner: Mutex<Inner>,
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) calls: Vec<SeenCall>,
    /// How many calls each rule has answered.
    used: BTreeMap<usize, u64>,
    /// Answers on their way, by when they arrive and in which order they were given.
    due: BTreeMap<(Monotonic, u64), (Arc<dyn Reply>, Answer)>,
    sequence: u64,
    /// The calls that faults let fail, by the numbers that the faults name: the attempts of a step,
    /// and how many have failed.
    pub(super) failed: BTreeMap<CallNumber, (String, u64)>,
    /// The host has just died by a fault of a call: the time without a host.
    pub(super) down: Option<Micros>,
    /// Why the execution ends, if a call decided it.
    pub(super) end: Option<End>,
    #[cfg(test)]
    cache: super::oracle::Cache,
}

impl Inner {
    /// The number of the next call of a handler.
    fn next_number(&self, handler: &str) -> usize {
        1 + self.calls.iter().filter(|seen| *seen.handler == *handler && !seen.is_injected).count()
    }
}

impl SeenCall {
    /// Whether two calls are attempts of one step.
    pub(in crate::testing) fn is_attempt_of(&self, other: &Self) -> bool {
        self.handler == other.handler && attempts_of(&self.key) == attempts_of(&other.key)
    }
}

impl Servers {
    pub(super) fn new(
        stage: &Stage,
        case: &Case,
        faults: &Faults,
        (time, disk): (&VirtualClock, &Arc<Mutex<Disk>>),
    ) -> Self {
        let kernel: Arc<Mutex<Option<Kernel>>> = Arc::default();
        let lives = Arc::clone(&kernel);
        let write = move |call: &CallContext, line: LogLine| {
            let kernel = lives.lock().clone();
            if let Some(kernel) = kernel {
                kernel.log(call.run(), call.pid(), call.scope().cloned(), line);
            }
        };
        let registry = Registry::builder().built_in(handler::LOG, Log::new(write)).build();
        let plan = stage.workflow.plan();
        Self {
            jq: Arc::clone(&stage.jq),
            inputs: stage.inputs_of(case),
            rules: case.answers.clone(),
            plan: Arc::clone(plan),
            real: stage.real.clone(),
            dispatcher: Arc::clone(&stage.dispatcher),
            log: Dispatcher::new(registry.expect("invariant: the handler `log` can be registered")),
            kernel,
            time: time.clone(),
            epoch: case.clock,
            disk: Arc::clone(disk),
            faults: faults.clone(),
            #[cfg(test)]
            oracle: stage.oracle.clone(),
            #[cfg(test)]
            inner: Mutex::new(former::begun(stage)),
            #[cfg(not(test))]
            inner: Mutex::default(),
        }
    }

    /// The answer that the server gave to the call with this key, if the call reached it.
    pub(super) fn answer_of(&self, key: &str) -> Option<Answer> {
        self.inner.lock().calls.iter().rev().find(|seen| *seen.key == *key)?.answer.clone()
    }

    /// How many calls of a handler reached a server.
    pub(super) fn count(&self, handler: &str) -> usize {
        self.inner.lock().next_number(handler) - 1
    }

    /// When the next answer arrives.
    pub(super) fn next_due(&self) -> Option<Monotonic> {
        self.inner.lock().due.keys().next().map(|(due, _)| *due)
    }

    /// Delivers the answers that have arrived. Returns whether there were any.
    pub(super) fn deliver(&self) -> bool {
        let now = self.time.now();
        let mut any = false;
        loop {
            let mut inner = self.inner.lock();
            let first = inner.due.first_entry().filter(|entry| entry.key().0 <= now);
            let Some((reply, answer)) = first.map(std::collections::btree_map::OccupiedEntry::remove) else {
                return any;
            };
            drop(inner);
            any = true;
            reply.answer(answer);
        }
    }

    /// The host has died: what was on its way to it is lost.
    pub(super) fn lose(&self) {
        let lost = std::mem::take(&mut self.inner.lock().due);
        // Dropping a reply answers it, which nobody hears any more.
        drop(lost);
    }

    /// The step of a call, with its item.
    fn step_of(&self, call: &OutgoingCall) -> String {
        match &call.scope {
            Some(scope) => path_of(scope, |path| self.plan.is_list(path)),
            None => self.disk.lock().story.name(call.pid),
        }
    }

    fn serve(&self, call: &OutgoingCall, reply: &Arc<dyn Reply>) -> Dispatched {
        let (step, args) = (self.step_of(call), value_of(&call.args));
        let mut inner = self.inner.lock();
        if inner.end.is_some() {
            return Dispatched::Pending;
        }
        let request = (*call.handler == *handler::HTTP).then(|| SimulatedRequest::read(&call.args)).flatten();
        let known = self.known(&inner, call, request.as_ref());
        let told = match known {
            Some(index) => {
                inner.calls[index].sends += 1;
                let has_key = request.as_ref().is_none_or(|request| request.has_key);
                self.again(&inner.calls[index], call, has_key)
            }
            None => self.first(&mut inner, call, step, args),
        };
        let (answer, after) = match told {
            Ok(told) => told,
            Err(end) => {
                inner.end = Some(end);
                return Dispatched::Pending;
            }
        };
        let index = known.unwrap_or(inner.calls.len().saturating_sub(1));
        let (seen, timeout) = (&mut inner.calls[index], request.as_ref().map(|request| request.timeout));
        seen.slack = timeout.map(|timeout| Micros(timeout.0.saturating_sub(seen.after.0)));
        seen.gave_up = timeout.filter(|timeout| *timeout < after);
        let (answer, after) = match request.filter(|_| seen.gave_up.is_some()) {
            Some(request) => (Err(Arc::new(request.timed_out)), request.timeout),
            None => (answer, after),
        };
        if inner.down.is_some() {
            // The host dies before it hears the answer.
            return Dispatched::Pending;
        }
        if after == Micros(0) {
            return Dispatched::Answered(answer);
        }
        inner.sequence += 1;
        let due = (self.time.now().saturating_add(after), inner.sequence);
        inner.due.insert(due, (Arc::clone(reply), answer));
        Dispatched::Pending
    }

    /// The call that this one repeats for its server. The same attempt is sent again after a crash.
    /// Another attempt, after a timeout, repeats one that succeeded if it carries the key, unless
    /// the case lists what each attempt is answered.
    fn known(&self, inner: &Inner, call: &OutgoingCall, request: Option<&SimulatedRequest>) -> Option<usize> {
        let of_key = || inner.calls.iter().enumerate().filter(|(_, seen)| seen.key == call.idempotency_key);
        let same = of_key().find(|(_, seen)| seen.origin == (call.pid, call.tag));
        let succeeded = || {
            let has_key = request.is_none_or(|request| request.has_key);
            of_key().filter(|_| has_key).find(|(_, seen)| {
                let rule = seen.rule.map(|rule| &self.rules[rule]);
                let is_listed = rule.is_some_and(|rule| rule.is_list && rule.repeated.is_none());
                matches!(seen.answer, Some(Ok(_))) && !is_listed
            })
        };
        same.or_else(succeeded).map(|(index, _)| index)
    }

    /// The answer to a call that was answered before.
    fn again(&self, seen: &SeenCall, call: &OutgoingCall, has_key: bool) -> Result<(Answer, Micros), End> {
        let is_known = has_key && matches!(seen.answer, Some(Ok(_)));
        let repeated = seen.rule.and_then(|rule| self.rules[rule].repeated.as_ref()).filter(|_| is_known);
        let same = || seen.answer.clone().expect("invariant: a call is seen with its answer");
        match repeated {
            Some(reply) => Ok((self.answer(reply, call, &seen.step, seen.sends)?, reply.after)),
            None => Ok((same(), seen.after)),
        }
    }

    /// The answer to a call that is new.
    fn first(
        &self,
        inner: &mut Inner,
        call: &OutgoingCall,
        step: String,
        args: Value,
    ) -> Result<(Answer, Micros), End> {
        let number = CallNumber { handler: call.handler.to_string(), number: inner.next_number(&call.handler) };
        if let Some(problem) = self.injected(inner, call, &number) {
            let answer = Err(Arc::new(problem));
            self.note(inner, call, (step, args), None, &answer);
            inner.calls.last_mut().expect("invariant: it was just noted").is_injected = true;
            return Ok((answer, Micros(0)));
        }
        #[cfg(test)]
        if let Some(oracle) = &self.oracle {
            let answer = super::oracle::answer(oracle, call, &inner.calls);
            self.note(inner, call, (step, args), None, &answer);
            return Ok((answer, self.delayed(inner, &number, Micros(0))));
        }
        let mut others = Vec::new();
        for (index, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.call.value == *call.handler) {
            let used = inner.used.get(&index).copied().unwrap_or(0);
            let scope = self.scope(&args, &step, used + 1);
            if let Some(why) = self.mismatch(rule, used, &step, &args, &scope)? {
                others.push((rule.span, why));
                continue;
            }
            let last = rule.replies.len().saturating_sub(1);
            let Some(reply) = rule.replies.get(last.min(used as usize)) else { continue };
            let answer = self.answer(reply, call, &step, used + 1)?;
            inner.used.insert(index, used + 1);
            self.note(inner, call, (step, args), Some(index), &answer);
            inner.calls.last_mut().expect("invariant: it was just noted").after = reply.after;
            let after = self.delayed(inner, &number, reply.after);
            return Ok((answer, after));
        }
        let handler = call.handler.to_string();
        Err(End::Unanswered(Box::new(UnansweredCall { handler, step, args, others })))
    }

    /// When the answer to a call comes, with the faults that hit it.
    fn delayed(&self, inner: &mut Inner, number: &CallNumber, mut after: Micros) -> Micros {
        for fault in &self.faults.0 {
            match fault {
                Fault::Late { call, by } if call == number => after = after.saturating_add(*by),
                Fault::Lost { call, down } if call == number => {
                    self.disk.lock().is_dead = true;
                    inner.down = Some(*down);
                }
                _ => {}
            }
        }
        after
    }

    fn note(
        &self,
        inner: &mut Inner,
        call: &OutgoingCall,
        (step, args): (String, Value),
        rule: Option<usize>,
        answer: &Answer,
    ) {
        let number = inner.next_number(&call.handler);
        inner.calls.push(SeenCall {
            handler: Arc::clone(&call.handler),
            number,
            step,
            args,
            at: self.epoch.saturating_add(Micros(self.time.now().0)),
            record: self.disk.lock().story.records,
            sends: 1,
            key: Arc::clone(&call.idempotency_key),
            answer: Some(answer.clone()),
            gave_up: None,
            slack: None,
            is_repeatable: self.dispatcher.is_repeatable(&call.handler, &call.args),
            is_injected: false,
            origin: (call.pid, call.tag),
            rule,
            after: Micros(0),
        });
    }

    /// The problem of an attempt that a fault lets fail. The call with the number of the fault is
    /// the one whose further attempts fail, too: calls of other steps may come between.
    fn injected(&self, inner: &mut Inner, call: &OutgoingCall, number: &CallNumber) -> Option<Problem> {
        let attempts = attempts_of(&call.idempotency_key);
        let is_hit = self.faults.0.iter().any(|fault| {
            let Fault::Fail { call: named, times } = fault else { return false };
            if named == number && !inner.failed.contains_key(named) {
                inner.failed.insert(named.clone(), (attempts.to_owned(), 0));
            }
            match inner.failed.get_mut(named) {
                Some((of, failed)) if of == attempts && *failed < *times => {
                    *failed += 1;
                    true
                }
                _ => false,
            }
        });
        let problem = || Problem::new("unavailable", "A fault of the test").with_class(ProblemClass::Retryable);
        is_hit.then(problem)
    }

    fn scope<'a>(&'a self, args: &'a Value, step: &str, count: u64) -> Scope<'a> {
        Scope::object([
            ("args", Scope::Borrowed(args)),
            ("step", Scope::Owned(json!(step))),
            ("count", Scope::Owned(json!(count))),
            ("inputs", Scope::Borrowed(&self.inputs)),
        ])
    }

    /// Why a rule does not match a call; `None` if it does.
    fn mismatch(
        &self,
        rule: &Rule,
        used: u64,
        step: &str,
        args: &Value,
        scope: &Scope<'_>,
    ) -> Result<Option<String>, End> {
        if rule.times.is_some_and(|times| used >= times) {
            let times = used;
            return Ok(Some(format!("it has answered {times} call{}", if times == 1 { "" } else { "s" })));
        }
        let fitting = Fitting { jq: &self.jq, scope };
        let pattern = (rule.step.as_ref(), rule.with.as_ref(), rule.condition.as_ref());
        fits(&fitting, pattern, step, args).map_err(|(span, why)| End::BadExpression(span, why))
    }

    /// What a reply says.
    fn answer(&self, reply: &CaseReply, call: &OutgoingCall, step: &str, count: u64) -> Result<Answer, End> {
        let args = value_of(&call.args);
        let scope = self.scope(&args, step, count);
        let templated = match &reply.kind {
            ReplyKind::Answer(templated) | ReplyKind::Response(templated) => templated,
            ReplyKind::Problem { members, .. } => members,
        };
        let value = templated
            .evaluate(&self.jq, &scope)
            .map_err(|bad| End::BadExpression(templated.place(&bad.pointer), bad.problem.to_string()))?;
        Ok(match &reply.kind {
            ReplyKind::Answer(_) => Ok(Payload::json(&value)),
            ReplyKind::Response(_) => {
                let response =
                    response(&value).map_err(|(pointer, why)| End::BadExpression(templated.place(pointer), why))?;
                response.answer(&call.args, &call.idempotency_key, call.limits.payload_bytes)
            }
            ReplyKind::Problem { class, retry_after, .. } => {
                let text = |key: &str| value[key].as_str().map(str::to_owned);
                let mut problem = Problem::new(
                    text("kind").unwrap_or_else(|| "failed".to_owned()),
                    text("title").unwrap_or_else(|| "the test says that it failed".to_owned()),
                );
                problem = problem.with_class(*class);
                problem.detail = text("detail");
                problem.status = value["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(0);
                problem.retry_after = *retry_after;
                problem.data = value.get("data").filter(|data| data.is_object()).map(Json::from_value);
                Err(Arc::new(problem))
            }
        })
    }
}

impl Effects for Servers {
    fn dispatch(&self, call: OutgoingCall, reply: Arc<dyn Reply>) -> Dispatched {
        if *call.handler == *handler::CACHE {
            #[cfg(test)]
            if self.oracle.is_some() && !super::oracle::may_die(&self.faults) {
                return Dispatched::Answered(Ok(self.inner.lock().cache.find(&call.args)));
            }
            // A case runs every step.
            return Dispatched::Answered(Ok(Payload::NULL));
        }
        if *call.handler == *handler::LOG {
            return self.log.dispatch(call, reply);
        }
        if let Err(problem) = self.dispatcher.check(&call) {
            return Dispatched::Answered(Err(Arc::new(problem)));
        }
        if self.real.iter().any(|real| *real == *call.handler) {
            return self.carry_out(call);
        }
        self.serve(&call, &reply)
    }

    fn abandon(&self, _: &str, _: Pid, _: Tag) {}

    #[cfg(test)]
    fn keep(&self, outcome: crate::run::CachedOutcome) {
        self.inner.lock().cache.keep(&outcome);
    }

    fn is_repeatable(&self, name: &str, args: &Payload) -> bool {
        name == handler::CACHE || self.dispatcher.is_repeatable(name, args)
    }

    fn narrows(&self, capability: &str, granted: &[String], wanted: &str) -> bool {
        self.dispatcher.narrows(capability, granted, wanted)
    }
}
