//! Signals: what a caller outside gives to a run under a name.
//!
//! A signal goes to the oldest unanswered call of the handler named [`NAME`] that waits for its
//! name; else to the process that has registered the name, as a message; else it is retained, in
//! order, until one of the two asks for it. So a signal that comes early is not lost, and one that
//! comes while several calls wait is taken by one of them. All of it is decided at commit, like
//! names.
//!
//! The names that the root waits for are its own: no other process takes such a signal, nor the
//! name, unless it is granted the capability [`NAME`] for it.
//!
//! Arguments of the call are `{"name": …}`, and for the person who sends it `title`, `text` and the
//! `schema` of what it carries. Its answer is what the signal carries.
//!
//! A call that waits for one of several has `{"any": [ {"name": …}, … ]}`; the first of them that
//! is retained, or comes, is its answer: `{"name": …, "body": …}`. No other one is taken.

use super::config::RunConfig;
use super::decide::{NAME_BYTES_MAX, too_large};
use super::outstanding::Pending;
use super::run_state::{Moment, State};
use super::timers::{Alarm, TimerKey};
use super::weight::message_bytes;
pub(crate) use crate::process::handler::SIGNAL as NAME;
use crate::process::{
    Answer, Call, Json, Message, Payload, Pid, Problem, ProblemClass, Sender, Tag, Timestamp, problem::kind,
};
use crate::run::record::kinds::Decision;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The topic of the message that carries a signal.
pub(in crate::run) const TOPIC: &str = "wfhost.signal";

/// Bytes of the arguments, which are read under the run's lock. Arbitrary: a name, and what a
/// person reads and fills in.
const ARGUMENTS_BYTES_MAX: usize = 64 * NAME_BYTES_MAX;

/// Signals that were not taken yet, and calls that wait for one.
#[derive(Default)]
pub(in crate::run) struct Signals {
    kept: BTreeMap<Arc<str>, VecDeque<Payload>>,
    count: u64,
    bytes: u64,
    /// By name, the oldest first.
    waiting: BTreeMap<Arc<str>, BTreeMap<u64, (Pid, Tag)>>,
    next: u64,
}

/// Most signals that one call waits for. Arbitrary: what a person chooses from.
const ANY_MAX: usize = 100;

/// A signal that a call waits for.
pub(in crate::run) struct Wanted {
    pub(in crate::run) name: Arc<str>,
    /// What a person is shown, if that is more than the name.
    pub(in crate::run) prompt: Option<Json>,
}

/// An unanswered call that waits for a signal, or for one of several.
pub(in crate::run) struct PendingSignal {
    /// At least one; each name once.
    pub(in crate::run) wanted: Vec<Wanted>,
    /// Whether the answer has the name, too.
    is_any: bool,
    /// Its position among the waiting calls.
    pub(in crate::run) number: u64,
    /// The recorded time of the step that made the call.
    pub(in crate::run) since: Timestamp,
    pub(in crate::run) timer: Option<TimerKey>,
    pub(in crate::run) bytes: u64,
}

impl PendingSignal {
    /// Bytes of the names.
    pub(in crate::run) fn names_bytes(&self) -> u64 {
        self.wanted.iter().map(|wanted| wanted.name.len() as u64).sum()
    }
}

/// What is known of the signals of one name.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct SignalStatus {
    /// The name that signals are sent under.
    pub name: Arc<str>,
    /// Calls that wait for one.
    pub waiting: usize,
    /// Signals that were not taken yet.
    pub kept: usize,
}

/// The arguments of a call, or of one of the signals that it waits for.
#[derive(serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    any: Option<Vec<Self>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<serde_json::Value>,
}

impl Arguments {
    fn is_prompt(&self) -> bool {
        self.title.is_some() || self.text.is_some() || self.schema.is_some()
    }
}

impl Signals {
    /// Bytes of the retained signals.
    pub(in crate::run) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn retain(&mut self, name: Arc<str>, body: Payload) {
        self.count += 1;
        self.bytes += body.size() as u64;
        self.kept.entry(name).or_default().push_back(body);
    }

    /// Takes out the signals retained under a name, the oldest first, as long as `takes` returns
    /// that there is room for the next.
    fn take(&mut self, name: &str, mut takes: impl FnMut(&Payload) -> bool) -> Vec<Payload> {
        let mut taken = Vec::new();
        if let Some(kept) = self.kept.get_mut(name) {
            while kept.front().is_some_and(&mut takes) {
                let body = kept.pop_front().expect("invariant: its front was just seen");
                self.count -= 1;
                self.bytes -= body.size() as u64;
                taken.push(body);
            }
            if kept.is_empty() {
                self.kept.remove(name);
            }
        }
        taken
    }

    /// Returns whether a call waits for a name.
    pub(in crate::run) fn is_awaited(&self, name: &str) -> bool {
        self.waiting.contains_key(name)
    }

    /// The oldest call that waits for a name.
    fn first_waiting(&self, name: &str) -> Option<(Pid, Tag)> {
        self.waiting.get(name)?.first_key_value().map(|(_, call)| *call)
    }

    /// Forgets a call that waits no more.
    pub(in crate::run) fn forget(&mut self, pending: &PendingSignal) {
        for wanted in &pending.wanted {
            if let Some(waiting) = self.waiting.get_mut(&wanted.name) {
                waiting.remove(&pending.number);
                if waiting.is_empty() {
                    self.waiting.remove(&wanted.name);
                }
            }
        }
    }

    /// The first of several signals that is retained.
    fn first_kept<'a>(&self, wanted: &'a [Wanted]) -> Option<(&'a Wanted, &Payload)> {
        wanted.iter().find_map(|wanted| Some((wanted, self.kept.get(&wanted.name)?.front()?)))
    }

    /// Every name that a call waits for or under which signals are retained, in the order of the
    /// names.
    pub(in crate::run) fn status(&self) -> Vec<SignalStatus> {
        let waiting = self.waiting.iter().map(|(name, calls)| (name, calls.len(), 0));
        let kept = self.kept.iter().map(|(name, bodies)| (name, 0, bodies.len()));
        let mut all: BTreeMap<&Arc<str>, (usize, usize)> = BTreeMap::new();
        for (name, waiting, kept) in waiting.chain(kept) {
            let known = all.entry(name).or_default();
            *known = (known.0 + waiting, known.1 + kept);
        }
        let status = |(name, (waiting, kept)): (&Arc<str>, _)| SignalStatus { name: Arc::clone(name), waiting, kept };
        all.into_iter().map(status).collect()
    }
}

/// Reads what a call waits for, and whether its answer has the name.
fn parse(call: &Call) -> Result<(Vec<Wanted>, bool), Box<Problem>> {
    let bad = |detail: String| {
        Box::new(Problem::new(kind::BAD_ARGUMENTS, "The arguments do not fit the handler signal").with_detail(detail))
    };
    let Payload::Json(json) = &call.args else { return Err(bad("they are JSON: {\"name\": \"approve\"}".to_owned())) };
    let mut arguments: Arguments = serde_json::from_str(json.as_str()).map_err(|error| bad(error.to_string()))?;
    let any = arguments.any.take();
    let is_any = any.is_some();
    if is_any && (arguments.name.is_some() || arguments.is_prompt()) {
        return Err(bad("`any` stands alone: each signal in it has its own name, title, text and schema".to_owned()));
    }
    let all = any.unwrap_or_else(|| vec![arguments]);
    if all.is_empty() || all.len() > ANY_MAX {
        return Err(bad(format!("`any` has {} signals, and may have 1 to {ANY_MAX}", all.len())));
    }
    let mut wanted: Vec<Wanted> = Vec::new();
    for one in all {
        let Some(name) = one.name.as_deref().filter(|_| one.any.is_none()) else {
            return Err(bad("missing field `name`".to_owned()));
        };
        if name.len() > NAME_BYTES_MAX {
            return Err(Box::new(too_large("A signal's name", name.len() as u64, NAME_BYTES_MAX as u64)));
        }
        if wanted.iter().any(|known| *known.name == *name) {
            return Err(bad(format!("`any` has the signal {name:?} twice")));
        }
        let prompt = match one.is_prompt() {
            // What one signal is given is shown as it came.
            true if is_any => Some(Json::from_value(&one)),
            true => Some(json.clone()),
            false => None,
        };
        wanted.push(Wanted { name: name.into(), prompt });
    }
    Ok((wanted, is_any))
}

/// The answer to a call: what the signal carries, with its name if the call waits for one of
/// several.
fn answer(name: &str, is_any: bool, body: Payload, limit: u64) -> Answer {
    if !is_any {
        let bytes = body.size() as u64;
        return if bytes > limit { Err(Arc::new(too_large("The signal", bytes, limit))) } else { Ok(body) };
    }
    let body = match &body {
        Payload::Json(json) => json.as_str().to_owned(),
        // As expressions see it.
        other => other.to_value().to_string(),
    };
    let text = format!("{{\"name\":{},\"body\":{body}}}", serde_json::Value::from(name));
    let bytes = text.len() as u64;
    if bytes > limit {
        return Err(Arc::new(too_large("The signal", bytes, limit)));
    }
    // The text is well-formed: only its depth can be wrong.
    Json::parse(text.into_bytes()).map(Payload::Json).map_err(|error| {
        Arc::new(
            Problem::new(kind::JSON_TOO_DEEP, "The signal nests too deep to be handed on with its name")
                .with_detail(error.to_string()),
        )
    })
}

impl State {
    /// Checks that a process may take signals of a name, by a call or as the one that has the name:
    /// those that the root waits for are the root's own, and others need a grant for them.
    pub(in crate::run) fn may_take_signal(&self, config: &RunConfig, pid: Pid, name: &str) -> Result<(), Box<Problem>> {
        if pid == Pid::ROOT || !config.root_waits_for(name) {
            return Ok(());
        }
        let granted = self.table[pid].grants.of(NAME);
        if granted.is_some_and(|names| names.iter().any(|granted| granted == "*" || granted == name)) {
            return Ok(());
        }
        Err(Box::new(
            Problem::new(kind::NOT_GRANTED, "The workflow waits for that signal itself")
                .with_detail(format!(
                    "It is named {name:?}. The capability is named {NAME}, and its patterns are names."
                ))
                .with_data(&serde_json::json!({ "capability": NAME, "pattern": name })),
        ))
    }

    /// Takes the oldest retained signal for a call, or has the call wait for one.
    pub(in crate::run) fn decide_signal(
        &self,
        config: &RunConfig,
        pid: Pid,
        call: &Call,
    ) -> Result<Decision, Box<Problem>> {
        if call.args.size() > ARGUMENTS_BYTES_MAX {
            let bytes = call.args.size() as u64;
            return Err(Box::new(too_large("What a call of `signal` is given", bytes, ARGUMENTS_BYTES_MAX as u64)));
        }
        let (wanted, is_any) = parse(call)?;
        for one in &wanted {
            self.may_take_signal(config, pid, &one.name)?;
        }
        let Some((one, body)) = self.signals.first_kept(&wanted) else {
            let names = wanted.iter().map(|one| one.name.len()).sum();
            self.may_wait(pid, call.args.size() as u64, names)?;
            return Ok(Decision::Waits);
        };
        let bytes = body.size() as u64;
        if !self.is_bounded(self.weigh(1, bytes, 0)) {
            let problem = Problem::new(kind::TOO_LARGE, "The run holds too much for a signal to be handed out")
                .with_detail(format!("{} bytes wait in the run's queues; the signal is kept.", self.bytes))
                .with_class(ProblemClass::Retryable);
            return Err(Box::new(problem));
        }
        let limit = self.table[pid].limits.payload_bytes;
        Ok(Decision::Took(answer(&one.name, is_any, body.clone(), limit)))
    }

    /// Gives a call the oldest retained signal. (A signal that is too large for the call is gone
    /// too: else it would block the name.)
    pub(in crate::run) fn take_signal(&mut self, pid: Pid, tag: Tag, call: &Call, answer: Answer) {
        if let Ok((wanted, _)) = parse(call)
            && let Some(name) = self.signals.first_kept(&wanted).map(|(one, _)| Arc::clone(&one.name))
        {
            let mut first = true;
            self.signals.take(&name, |_| std::mem::take(&mut first));
        }
        self.post_answer(pid, tag, answer);
    }

    /// Has a call wait for a signal.
    pub(in crate::run) fn await_signal(&mut self, pid: Pid, moment: Moment, tag: Tag, call: &Call) {
        let Ok((wanted, is_any)) = parse(call) else { return };
        let bytes = call.args.size() as u64;
        let timer =
            call.timeout.map(|timeout| self.timers.set(moment.mono.saturating_add(timeout), pid, Alarm::Timeout(tag)));
        self.signals.next += 1;
        let number = self.signals.next;
        for one in &wanted {
            self.signals.waiting.entry(Arc::clone(&one.name)).or_default().insert(number, (pid, tag));
        }
        let pending = PendingSignal { wanted, is_any, number, since: moment.at, timer, bytes };
        self.wait(pid, tag, Pending::Signal(Box::new(pending)));
    }

    /// Returns whether a signal can be taken now, or retained.
    pub(in crate::run) fn takes_signal(&self, name: &str, body: &Payload) -> bool {
        let bytes = message_bytes(TOPIC, body);
        match self.way_of(name, bytes) {
            Way::Call(..) => self.is_bounded(self.weigh(1, bytes, 0)),
            Way::Mailbox(_) => true,
            Way::Kept => self.signals.count < self.bounds.signals && self.is_bounded(self.signals.bytes + bytes),
        }
    }

    /// Where a signal goes. If older ones of its name are retained, it waits behind them.
    fn way_of(&self, name: &str, bytes: u64) -> Way {
        if let Some((pid, tag)) = self.signals.first_waiting(name) {
            return Way::Call(pid, tag);
        }
        match self.names.get(name) {
            Some(pid)
                if !self.signals.kept.contains_key(name)
                    && self.living(*pid).is_some_and(|entry| self.takes_message(entry, bytes)) =>
            {
                Way::Mailbox(*pid)
            }
            _ => Way::Kept,
        }
    }

    /// Delivers or retains a signal that there is room for.
    pub(in crate::run) fn deliver_signal(&mut self, name: Arc<str>, body: Payload) {
        match self.way_of(&name, message_bytes(TOPIC, &body)) {
            Way::Call(pid, tag) => {
                let limit = self.table[pid].limits.payload_bytes;
                let pending = self.settle_tag(pid, tag);
                let is_any = matches!(&pending, Some(Pending::Signal(signal)) if signal.is_any);
                self.post_answer(pid, tag, answer(&name, is_any, body, limit));
            }
            Way::Mailbox(pid) => self.post_message(pid, Box::new(signal(&name, body))),
            Way::Kept => self.signals.retain(name, body),
        }
    }

    /// Delivers the signals retained under the names of a process that has room in its mailbox
    /// again.
    pub(in crate::run) fn deliver_more_signals(&mut self, pid: Pid) {
        if self.signals.kept.is_empty() {
            return;
        }
        let names = self.table.get(pid).map(|entry| entry.names().to_vec()).unwrap_or_default();
        for name in names {
            self.deliver_signals(pid, &name);
        }
    }

    /// Moves retained signals into the mailbox of the process that has their name, as far as there
    /// is room.
    pub(in crate::run) fn deliver_signals(&mut self, pid: Pid, name: &str) {
        if self.signals.count == 0 {
            return;
        }
        let Some(entry) = self.living(pid) else { return };
        let mut room = entry.limits.mailbox.saturating_sub(entry.mail);
        let mut room_bytes = entry.limits.mailbox_bytes.saturating_sub(entry.mail_bytes);
        let mut more = 0;
        let mut signals = std::mem::take(&mut self.signals);
        let taken = signals.take(name, |body| {
            let bytes = message_bytes(TOPIC, body);
            let weight = self.weigh(1, bytes, 0);
            let fits = room > 0 && bytes <= room_bytes && self.is_bounded(more + weight);
            if fits {
                room -= 1;
                room_bytes -= bytes;
                more += weight;
            }
            fits
        });
        self.signals = signals;
        for body in taken {
            self.post_message(pid, Box::new(signal(name, body)));
        }
    }
}

/// Where a signal goes.
enum Way {
    Call(Pid, Tag),
    Mailbox(Pid),
    Kept,
}

/// The message that carries a signal.
fn signal(name: &str, body: Payload) -> Message {
    Message { sender: Sender::Outside(name.to_owned()), topic: TOPIC.into(), body }
}

impl PendingSignal {
    /// The answer to a call whose time has passed.
    pub(in crate::run) fn timed_out(&self) -> Problem {
        let names: Vec<String> = self.wanted.iter().map(|wanted| format!("{:?}", wanted.name)).collect();
        Problem::new(kind::TIMED_OUT, "No signal came in time")
            .with_detail(format!("It was to be named {}.", names.join(" or ")))
            .with_class(ProblemClass::Retryable)
    }
}
