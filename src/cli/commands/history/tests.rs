//! Every kind of record and of its members, in the shape that programs read.

use crate::host::record_json::*;
use crate::process::*;
use crate::process::{Blob, Json, Micros, Pid, Tag, Timestamp};
use crate::run::*;
use crate::run::{Bounds, FormerKeys};
use clap::Args as _;
use serde_json::{Value, json};
use std::sync::Arc;

fn json_payload() -> Payload {
    Payload::json(&json!({ "a": [1, "x", null] }))
}

fn whole_problem() -> Problem {
    let mut problem = Problem::new("http-status", "it broke").with_detail("GET /").with_unknown_outcome(true);
    (problem.status, problem.retry_after) = (503, Some(Micros(5)));
    problem.with_data(&json!({ "x": 1 }))
}

fn line_of(level: Level) -> LogLine {
    LogLine { level, text: "said".to_owned(), fields: Some(Json::from_value(&json!({ "n": 1 }))) }
}

fn placement_of() -> Arc<Placement> {
    let grants = Grants(Arc::new([("http".to_owned(), vec!["GET https://a.b".to_owned()])].into()));
    Arc::new(Placement { scope: "step/3/0".into(), limits: Some(Arc::default()), grants: Some(grants), cache: None })
}

fn actions() -> Vec<Action> {
    let placement = Some(placement_of());
    let spawn = Spawn {
        component: Some("hello".into()),
        entry: "run".into(),
        input: json_payload(),
        name: Some("n".into()),
        link: true,
        detached: false,
        narrow: Some(Json::from_value(&json!({ "limits": { "memory": 1 } }))),
        placement: placement.clone(),
    };
    let call = Call {
        handler: "http".into(),
        args: Payload::Bytes(vec![0xff].into()),
        timeout: Some(Micros(7)),
        idempotency_key: Some("k".into()),
        placement,
    };
    let plain = Call { timeout: None, idempotency_key: None, placement: None, ..call.clone() };
    let blob = Blob { digest: "blake3:00".to_owned(), size: 3, media_type: "text/csv".to_owned() };
    let send = Send::new(Target::Run { run: "r".into(), name: "n".into() }, "t".into(), Payload::Blob(Arc::new(blob)));
    vec![
        Action::Sleep(Micros(9)),
        Action::Spawn(Box::new(spawn)),
        Action::Call(Box::new(call)),
        Action::Call(Box::new(plain)),
        Action::Send(send),
        Action::Cancel(Tag(1)),
        Action::Stop(Target::Process(Pid(2))),
        Action::Monitor(Target::Child(Tag(2))),
        Action::Link(Target::Name("n".into())),
        Action::Unlink(Target::Process(Pid(3))),
        Action::Register("n".into()),
        Action::Expose { query: "q".into(), value: json_payload() },
    ]
}

fn decisions() -> Vec<Decision> {
    let failed = || Err(Arc::new(whole_problem()));
    let mut all = vec![
        Decision::Done,
        Decision::Answered(Ok(json_payload())),
        Decision::Answered(failed()),
        Decision::Due(Timestamp(10)),
        Decision::Spawned(Pid(4)),
        Decision::Called("run/step/3/0".into()),
        Decision::Delivered(Pid(5)),
        Decision::Meant(Pid(6)),
        Decision::Waits,
        Decision::Took(failed()),
    ];
    all.extend(endings().into_iter().map(|ending| Decision::Gone { pid: Pid(7), ending }));
    all
}

fn endings() -> Vec<Ending> {
    vec![Ending::Completed, Ending::Failed(Arc::new(Problem::new("k", "t"))), Ending::Cancelled("why".into())]
}

fn all_news() -> Vec<News> {
    let (pid, tag) = (Pid(2), Tag(3));
    let senders = [Sender::Child(tag), Sender::Process(pid), Sender::Call(tag), Sender::Outside("somebody".to_owned())];
    let message = |sender| News::Message { pid, message: Message { sender, topic: "t".into(), body: json_payload() } };
    let mut all: Vec<News> = senders.into_iter().map(message).collect();
    all.extend([
        News::Answered { pid, tag, answer: Ok(json_payload()) },
        News::Answered { pid, tag, answer: Err(Arc::new(whole_problem())) },
        News::Due { pid, tag },
        News::Cancel { pid, reason: "why".into(), grace: Some(Micros(1)) },
        News::Cancel { pid, reason: "why".into(), grace: None },
        News::Signal { name: "approve".into(), body: json_payload() },
        News::Paused(true),
        News::Paused(false),
        News::TimedOut { after: Micros(1) },
        News::GraceAgain,
        News::Again { pid, tag },
    ]);
    all
}

/// A record of each kind, with every member set.
fn records() -> Vec<Record> {
    let at = Timestamp(1_700_000_000_000_000);
    let former: FormerKeys = serde_json::from_value(json!({ "5": { "beginning": "before", "asked": 7 } })).unwrap();
    let origin = Origin {
        run: "before".into(),
        record: 0,
        keys: "before".into(),
        seen_as: "before".into(),
        held: vec![3],
        former_keys: former,
    };
    let started = Started {
        run: "it".into(),
        seed: [0xab; 32],
        at,
        root: "native:workflow@1".into(),
        programs: vec![("hello".into(), "blake3:00".into())],
        entry: "run".into(),
        input: json_payload(),
        limits: crate::process::Limits::default(),
        grants: Grants::default(),
        bounds: Bounds::default(),
        origin: Some(origin),
    };
    let levels = [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error];
    let stepped = |status: Status, decided: Vec<Decided>| {
        Record::Stepped(Box::new(Stepped {
            pid: Pid::ROOT,
            step: 1,
            at,
            took: 2,
            fuel: u64::MAX - 1,
            digest: Digest(u128::MAX),
            status,
            owes: true,
            decided,
            log: levels.map(line_of).into(),
            log_dropped: 1,
        }))
    };
    let numbered = |(index, (action, decision))| Decided { command: Command { tag: Tag(index), action }, decision };
    let first = actions().remove(0);
    let decided = actions().into_iter().map(|action| (action, Decision::Done));
    let decided = decided.chain(decisions().into_iter().map(|decision| (first.clone(), decision)));
    let decided = (1..).zip(decided).map(numbered).collect();
    let statuses = [
        Status::Ready,
        Status::Idle,
        Status::Complete(json_payload()),
        Status::Failed(Arc::new(whole_problem())),
        Status::Renew { entry: "run".into(), input: json_payload() },
    ];
    let mut all = vec![Record::Started(Box::new(started)), stepped(Status::Blocked, decided)];
    all.extend(statuses.map(|status| stepped(status, Vec::new())));
    all.extend(endings().into_iter().map(|ending| {
        let log = vec![line_of(Level::Info)];
        Record::Died(Box::new(Died { pid: Pid(2), step: 3, at, fuel: 4, ending, log, log_dropped: 0 }))
    }));
    let act = Some(ActId { id: "a-1".into(), digest: Digest(1) });
    all.extend(all_news().into_iter().map(|news| Record::Arrived(Box::new(Arrived { at, act: act.clone(), news }))));
    all.push(Record::Leaving { pid: Pid(2), tag: Tag(3) });
    all
}

/// Visits all of a value except what users and guests gave.
fn walk(value: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            visit(name, value);
            if !matches!(name.as_str(), "json" | "data" | "fields" | "narrow" | "grants" | "programs" | "former-keys") {
                walk(value, visit);
            }
        }),
        Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        _ => {}
    }
}

#[test]
fn every_record_is_in_words_and_numbers_that_every_reader_keeps() {
    let mut names = std::collections::BTreeSet::new();
    for (index, one) in records().iter().enumerate() {
        let value = record(index + 1, one);
        assert_eq!((&value["version"], &value["number"]), (&json!(1), &json!(index + 1)));
        walk(&value, &mut |name, value| {
            names.insert(name.to_owned());
            let is_word =
                |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || b"-0123456789".contains(&byte));
            assert!(is_word(name), "{name}");
            if let Value::Number(number) = value {
                assert!(number.as_u64().is_some_and(|number| number <= INTEGER_MAX), "{name}: {number}");
            }
            let is_enum = ["status", "ending", "command", "decision", "news", "class", "level"].contains(&name);
            if let (true, Value::String(text)) = (is_enum, value) {
                assert!(is_word(text), "{name}: {text}");
            }
            assert!(!(name == "status" && *value == json!(0)), "a problem without a status has none");
        });
    }
    // The help documents every member.
    let help = super::Arguments::augment_args(clap::Command::new("history"));
    let help = help.get_after_help().unwrap().to_string();
    let settings = |name: &String| {
        let limits = json!(crate::process::Limits::default());
        let bounds = json!(Bounds::default());
        limits.get(name).is_some() || bounds.get(name).is_some()
    };
    let untold: Vec<_> = names.iter().filter(|name| !settings(name) && !help.contains(name.as_str())).collect();
    assert!(untold.is_empty(), "{untold:?}");
}

/// A change of it is a change of what others read.
#[test]
fn the_shape_of_records_is_what_it_was() {
    let lines: Vec<String> =
        records().iter().enumerate().map(|(index, one)| record(index + 1, one).to_string()).collect();
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("history_records", lines.join("\n"));
    });
}

#[test]
fn what_is_too_large_for_a_number_is_a_text_and_what_has_no_limit_is_null() {
    assert_eq!(integer((1 << 53) - 1), json!(9_007_199_254_740_991_u64));
    assert_eq!(integer(1 << 53), json!("9007199254740992"));
    assert_eq!(integer(u64::MAX), Value::Null);
    assert_eq!(digest(Digest(5)), json!("00000000000000000000000000000005"));
}

#[test]
fn that_a_call_is_to_be_sent_again_is_said_in_words() {
    let again = News::Again { pid: Pid(2), tag: Tag(3) };
    assert_eq!(super::news(&again, &|pid| format!("process {pid}")), "process 2: call 3 is to be sent again");
}
