//! Records as JSON, for programs: the shape that `wfhost history --help` documents, whatever the
//! internal records are.
//!
//! Words are kebab-case. A number is one that every JSON reader represents exactly; a larger one is
//! a string of its digits, and the maximum, which means no limit, is null. Digests and seeds are
//! hexadecimal texts. Every struct is destructured completely, so that a new field of a record
//! cannot be forgotten here.

use crate::process::{
    Action, Answer, CacheKey, Call, Command, Ending, Grants, Level, LogLine, Message, Payload, Placement, Problem,
    Send, Sender, Spawn, Status, Target,
};
use crate::run::{
    ActId, Arrived, Decided, Decision, Died, Digest, News, Origin, Record, RunVersion, Started, Stepped, Upgraded,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The version of the shape. It grows when a member changes its meaning or is removed.
pub(crate) const VERSION: u32 = 1;

/// The largest integer that a reader with only floating-point numbers represents exactly (RFC 8259,
/// section 6).
pub(crate) const INTEGER_MAX: u64 = (1 << 53) - 1;

/// A record and its number, from 1.
pub(crate) fn record(number: usize, record: &Record) -> Value {
    let (kind, value) = match record {
        Record::Started(record) => ("started", started(record)),
        Record::Stepped(record) => ("stepped", stepped(record)),
        Record::Died(record) => ("died", died(record)),
        Record::Arrived(record) => ("arrived", arrived(record)),
        Record::Leaving { pid, tag } => ("leaving", json!({ "pid": integer(pid.0), "tag": integer(tag.0) })),
        Record::Upgraded(record) => ("upgraded", upgraded(record)),
    };
    json!({ "version": VERSION, "number": number, kind: value })
}

/// The process that some news is for.
pub(crate) fn pid_of(news: &News) -> Option<crate::process::Pid> {
    match news {
        News::Answered { pid, .. }
        | News::Due { pid, .. }
        | News::Again { pid, .. }
        | News::Message { pid, .. }
        | News::Cancel { pid, .. } => Some(*pid),
        News::Signal { .. } | News::Paused(_) | News::TimedOut { .. } | News::GraceAgain => None,
    }
}

pub(crate) fn integer(number: u64) -> Value {
    match number {
        0..=INTEGER_MAX => json!(number),
        u64::MAX => Value::Null,
        more => json!(more.to_string()),
    }
}

pub(crate) fn digest(Digest(digest): Digest) -> Value {
    json!(format!("{digest:032x}"))
}

/// The same object with `more` in it.
fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(members), Value::Object(more)) = (&mut object, more) {
        members.extend(more);
    }
    object
}

/// Settings by their names, which have no structure of their own here.
fn settings(value: &impl serde::Serialize) -> Value {
    let Value::Object(members) = json!(value) else { return Value::Null };
    let plain = |(name, value): (String, Value)| {
        let value = value.as_u64().map_or(value, integer);
        (name, value)
    };
    members.into_iter().map(plain).collect::<Map<_, _>>().into()
}

fn started(record: &Started) -> Value {
    let Started { run, seed, at, root, programs, entry, input, limits, grants, bounds, origin } = record;
    let programs: Map<_, _> = programs.iter().map(|(name, digest)| (name.to_string(), json!(digest))).collect();
    json!({
        "run": run, "at": integer(at.0), "seed": hex(seed), "root": root, "programs": programs, "entry": entry,
        "input": payload(input), "limits": settings(limits), "grants": granted(grants),
        "bounds": settings(bounds), "origin": origin.as_ref().map(from),
    })
}

fn upgraded(record: &Upgraded) -> Value {
    let Upgraded { run, at, from, to } = record;
    json!({ "run": run, "at": integer(at.0), "from": version(from), "to": version(to) })
}

fn version(version: &RunVersion) -> Value {
    let RunVersion { number, root, programs, grants } = version;
    let programs: Map<_, _> = programs.iter().map(|(name, digest)| (name.to_string(), json!(digest))).collect();
    json!({ "version": number.map(integer), "root": root, "programs": programs, "grants": granted(grants) })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from(origin: &Origin) -> Value {
    let Origin { run, record, keys, seen_as, held, former_keys } = origin;
    let former = former_keys.iter().map(
        |(call, beginning, asked)| json!({ "beginning": beginning, "call": digest(call), "asked": asked.map(digest) }),
    );
    let former: Vec<Value> = former.collect();
    json!({
        "run": run, "record": integer(*record), "keys": keys, "seen-as": seen_as,
        "held": held.iter().copied().map(integer).collect::<Vec<_>>(), "former-keys": former,
    })
}

fn stepped(record: &Stepped) -> Value {
    let Stepped { pid, step, at, took, fuel, digest: of, status: ends, owes, decided, log, log_dropped } = record;
    let value = json!({
        "pid": integer(pid.0), "step": integer(*step), "at": integer(at.0), "took": took, "fuel": integer(*fuel),
        "digest": digest(*of), "owes": owes, "commands": decided.iter().map(command).collect::<Vec<_>>(),
        "log": log.iter().map(line).collect::<Vec<_>>(), "log-dropped": integer(*log_dropped),
    });
    with(value, status(ends))
}

fn status(status: &Status) -> Value {
    match status {
        Status::Ready => json!({ "status": "ready" }),
        Status::Blocked => json!({ "status": "blocked" }),
        Status::Idle => json!({ "status": "idle" }),
        Status::Complete(output) => json!({ "status": "complete", "output": payload(output) }),
        Status::Failed(why) => json!({ "status": "failed", "problem": problem(why) }),
        Status::Renew { entry, input } => json!({ "status": "renew", "entry": entry, "input": payload(input) }),
    }
}

fn died(record: &Died) -> Value {
    let Died { pid, step, at, fuel, ending: how, log, log_dropped } = record;
    let value = json!({
        "pid": integer(pid.0), "step": integer(*step), "at": integer(at.0), "fuel": integer(*fuel),
        "log": log.iter().map(line).collect::<Vec<_>>(), "log-dropped": integer(*log_dropped),
    });
    with(value, ending(how))
}

fn ending(ending: &Ending) -> Value {
    match ending {
        Ending::Completed => json!({ "ending": "completed" }),
        Ending::Failed(why) => json!({ "ending": "failed", "problem": problem(why) }),
        Ending::Cancelled(reason) => json!({ "ending": "cancelled", "reason": reason }),
    }
}

fn arrived(record: &Arrived) -> Value {
    let Arrived { at, act, news } = record;
    let act = act.as_ref().map(|ActId { id, digest: of }| json!({ "id": id, "digest": digest(*of) }));
    let value = json!({ "at": integer(at.0), "act": act });
    with(
        value,
        match news {
            News::Answered { pid, tag, answer: given } => {
                with(json!({ "news": "answered", "pid": integer(pid.0), "tag": integer(tag.0) }), answer(given))
            }
            News::Due { pid, tag } => json!({ "news": "due", "pid": integer(pid.0), "tag": integer(tag.0) }),
            News::Message { pid, message } => {
                let Message { sender, topic, body } = message;
                json!({
                    "news": "message", "pid": integer(pid.0), "sender": from_whom(sender), "topic": topic,
                    "body": payload(body),
                })
            }
            News::Cancel { pid, reason, grace } => json!({
                "news": "cancel", "pid": integer(pid.0), "reason": reason,
                "grace-us": grace.map(|grace| integer(grace.0)),
            }),
            News::Signal { name, body } => json!({ "news": "signal", "name": name, "body": payload(body) }),
            News::Paused(true) => json!({ "news": "paused" }),
            News::Paused(false) => json!({ "news": "unpaused" }),
            News::GraceAgain => json!({ "news": "grace-again" }),
            News::TimedOut { after } => json!({ "news": "timed-out", "after-us": integer(after.0) }),
            News::Again { pid, tag } => json!({ "news": "again", "pid": integer(pid.0), "tag": integer(tag.0) }),
        },
    )
}

fn from_whom(sender: &Sender) -> Value {
    match sender {
        Sender::Child(tag) => json!({ "child": integer(tag.0) }),
        Sender::Process(pid) => json!({ "process": integer(pid.0) }),
        Sender::Call(tag) => json!({ "call": integer(tag.0) }),
        Sender::Outside(name) => json!({ "outside": name }),
    }
}

/// A command, and what was decided for it.
fn command(Decided { command: Command { tag, action }, decision }: &Decided) -> Value {
    let value = with(json!({ "tag": integer(tag.0) }), asked(action));
    with(value, decided(decision))
}

fn asked(action: &Action) -> Value {
    match action {
        Action::Sleep(time) => json!({ "command": "sleep", "duration-us": integer(time.0) }),
        Action::Spawn(spawn) => {
            let Spawn { component, entry, input, name, link, detached, narrow, placement: at } = &**spawn;
            let value = json!({
                "command": "spawn", "component": component, "entry": entry, "input": payload(input), "name": name,
                "link": link, "detached": detached, "narrow": narrow.as_ref().map(crate::process::Json::to_value),
            });
            with(value, placement(at.as_deref()))
        }
        Action::Call(call) => {
            let Call { handler, args, timeout, idempotency_key, placement: at } = &**call;
            let value = json!({
                "command": "call", "handler": handler, "args": payload(args),
                "timeout-us": timeout.map(|timeout| integer(timeout.0)), "idempotency-key": idempotency_key,
            });
            with(value, placement(at.as_deref()))
        }
        Action::Send(send) => {
            let Send { to, message } = send;
            let Message { sender: _, topic, body } = &**message;
            json!({ "command": "send", "target": target(to), "topic": topic, "body": payload(body) })
        }
        Action::Cancel(tag) => json!({ "command": "cancel", "target": { "tag": integer(tag.0) } }),
        Action::Stop(whom) => json!({ "command": "stop", "target": target(whom) }),
        Action::Monitor(whom) => json!({ "command": "monitor", "target": target(whom) }),
        Action::Link(whom) => json!({ "command": "link", "target": target(whom) }),
        Action::Unlink(whom) => json!({ "command": "unlink", "target": target(whom) }),
        Action::Register(name) => json!({ "command": "register", "name": name }),
        Action::Expose { query, value } => json!({ "command": "expose", "query": query, "value": payload(value) }),
    }
}

fn placement(placement: Option<&Placement>) -> Value {
    let Some(Placement { scope, limits, grants, cache }) = placement else { return json!({}) };
    let limits = limits.as_ref().map(|limits| settings(&**limits));
    let mut json = json!({ "scope": scope, "limits": limits, "grants": grants.as_ref().map(granted) });
    if let Some(CacheKey { key, of, ttl, if_pure }) = cache.as_deref() {
        let ttl = ttl.map(|ttl| integer(ttl.0));
        json["cache"] = json!({ "key": key, "of": of, "ttl-us": ttl, "if-pure": if_pure });
    }
    json
}

fn granted(Grants(grants): &Grants) -> Value {
    json!(**grants)
}

fn target(target: &Target) -> Value {
    match target {
        Target::Process(pid) => json!({ "process": integer(pid.0) }),
        Target::Child(tag) => json!({ "child": integer(tag.0) }),
        Target::Name(name) => json!({ "name": name }),
        Target::Run { run, name } => json!({ "run": run, "name": name }),
    }
}

fn decided(decision: &Decision) -> Value {
    match decision {
        Decision::Done => json!({ "decision": "done" }),
        Decision::Answered(given) => with(json!({ "decision": "answered" }), answer(given)),
        Decision::Due(at) => json!({ "decision": "due", "due": integer(at.0) }),
        Decision::Spawned(pid) => json!({ "decision": "spawned", "pid": integer(pid.0) }),
        Decision::Called(key) => json!({ "decision": "called", "key": key }),
        Decision::Delivered(pid) => json!({ "decision": "delivered", "pid": integer(pid.0) }),
        Decision::Meant(pid) => json!({ "decision": "meant", "pid": integer(pid.0) }),
        Decision::Gone { pid, ending: how } => with(json!({ "decision": "gone", "pid": integer(pid.0) }), ending(how)),
        Decision::Waits => json!({ "decision": "waits" }),
        Decision::Took(given) => with(json!({ "decision": "took" }), answer(given)),
    }
}

fn answer(answer: &Answer) -> Value {
    match answer {
        Ok(output) => json!({ "output": payload(output) }),
        Err(why) => json!({ "problem": problem(why) }),
    }
}

pub(crate) fn payload(payload: &Payload) -> Value {
    match payload {
        Payload::Json(json) => json!({ "json": json.to_value() }),
        Payload::Bytes(bytes) => json!({ "base64": STANDARD.encode(bytes) }),
        Payload::Blob(blob) => json!({
            "blob": { "digest": blob.digest, "size": integer(blob.size), "media-type": blob.media_type },
        }),
        Payload::Recalled(recalled) => json!({
            "read": { "args": recalled.args.to_value(), "size": integer(recalled.size), "digest": recalled.digest },
        }),
    }
}

fn problem(problem: &Problem) -> Value {
    let Problem { kind, title, status, detail, class, may_have_happened, retry_after, data } = problem;
    let mut value = json!({ "kind": kind, "title": title, "class": class });
    let more = [
        ("status", (*status != 0).then(|| json!(status))),
        ("detail", detail.as_ref().map(|detail| json!(detail))),
        ("may-have-happened", may_have_happened.then_some(Value::Bool(true))),
        ("retry-after-us", retry_after.map(|after| integer(after.0))),
        ("data", data.as_ref().map(crate::process::Json::to_value)),
    ];
    for (name, more) in more {
        if let Some(more) = more {
            value[name] = more;
        }
    }
    value
}

fn line(line: &LogLine) -> Value {
    let LogLine { level, text, fields } = line;
    json!({ "level": level_name(*level), "text": text, "fields": fields.as_ref().map(crate::process::Json::to_value) })
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Trace => "trace",
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    }
}
