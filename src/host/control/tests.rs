//! Over real sockets, with a real host.

use super::carry_out::{Carried, carry_out};
use super::server::{CONNECTIONS_MAX, Control, WATCHERS_MAX};
use super::*;
use crate::host::{Host, RunHandle, RunOptions, Status};
use crate::process::{Action, Context, Event, Payload, Problem, Process, Status as Step, Tag};
use crate::run::{ActId, Record, RunEvent};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

/// Adds up what it is told under its name, until it is told `null`; shows the sum.
#[derive(Default)]
struct Tally(u64);

impl Process for Tally {
    fn init(&mut self, context: &mut Context<'_>, _: &str, _: Payload) -> Result<(), Problem> {
        context.command(Action::Register("tally".into()));
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> Step {
        for event in events.drain(..) {
            match event {
                Event::Message(message) if message.body == Payload::NULL => {
                    return Step::Complete(Payload::json(&self.0));
                }
                Event::Message(message) => {
                    let Payload::Json(json) = message.body else { continue };
                    self.0 += json.to_value().as_u64().unwrap_or(0);
                }
                Event::Cancel { .. } => return Step::Failed(Problem::new("stopped", "It was stopped").into()),
                _ => {}
            }
        }
        context.command(Action::Expose { query: "sum".into(), value: Payload::json(&self.0) });
        Step::Idle
    }
}

struct World {
    folder: tempfile::TempDir,
    host: Host,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let guests = crate::guest::EngineOptions { slots: Some(1), ..Default::default() };
        let host = Host::builder().workers(1).guests(guests).native("tally", 1, Tally::default);
        let host = host.data(folder.path()).build().unwrap();
        host.journal().unwrap();
        Self { folder, host }
    }

    fn start(&self, id: &str) -> RunHandle {
        let text = "{ steps: [{ id: x, uses: 'native:tally' }], outputs: { x: '${ .steps.x.output }' } }";
        let workflow = self.host.parse("tally.yaml", text, ".").unwrap();
        let options = RunOptions { id: Some(id.to_owned()), durable: Some(true), ..RunOptions::default() };
        self.host.start(&workflow, Map::new(), options).unwrap()
    }

    fn client(&self) -> Client {
        let mut hosts = Client::hosts(self.folder.path()).unwrap();
        assert_eq!(hosts.len(), 1);
        hosts.remove(0)
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.host.socket().unwrap().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        stream
    }

    /// What the host says to these bytes.
    fn answer_to(&self, bytes: &[u8]) -> Value {
        let mut stream = self.connect();
        // It may have refused them before they were all written.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
}

fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6_000 {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never happens");
}

fn signal(run: &str, body: &Value) -> Request {
    Request::Signal { run: run.to_owned(), name: "tally".to_owned(), body: Payload::json(body), id: None }
}

fn refusal(answer: Result<Answer, ControlError>) -> Refusal {
    match answer {
        Err(ControlError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_is_seen_and_steered_from_outside() {
    let world = World::new();
    let run = world.start("a");
    let client = world.client();
    let sum = |name: &str| client.ask(Request::Query { run: "a".into(), name: Some(name.to_owned()) });
    eventually(|| sum("sum").ok());
    assert_eq!(client.ask(signal("a", &json!(2))).unwrap(), Answer::Done);
    eventually(|| (sum("sum").unwrap() == Answer::Value(Payload::json(&2))).then_some(()));
    // The same act twice is one, and another one under its id is told.
    let twice = |body: u64| {
        let (run, name) = ("a".to_owned(), "kept".to_owned());
        client.ask(Request::Signal { run, name, body: Payload::json(&body), id: Some("x".into()) })
    };
    assert_eq!((twice(1).unwrap(), twice(1).unwrap()), (Answer::Done, Answer::Done));
    assert_eq!(run.inner().signals()[0].kept, 1);
    assert_eq!(refusal(twice(2)), Refusal::Conflict { id: "x".into() });
    assert_eq!(refusal(sum("some")), Refusal::NotExposed { name: "some".into(), names: vec!["sum".into()] });
    let names = client.ask(Request::Query { run: "a".into(), name: None }).unwrap();
    assert_eq!(names, Answer::Names(vec!["sum".into()]));

    let facts = || match client.ask(Request::Runs).unwrap() {
        Answer::Runs(mut runs) => runs.pop().unwrap(),
        other => panic!("{other:?}"),
    };
    eventually(|| (facts().state == RunState::Waiting).then_some(()));
    assert_eq!((&*facts().run, facts().host, facts().processes), ("a", std::process::id(), 2));
    assert_eq!(client.ask(Request::Pause { run: "a".into(), id: None }).unwrap(), Answer::Done);
    assert_eq!(facts().state, RunState::Paused);
    assert_eq!(client.ask(signal("a", &json!(3))).unwrap(), Answer::Done);
    assert_eq!(client.ask(Request::Unpause { run: "a".into(), id: None }).unwrap(), Answer::Done);
    eventually(|| (sum("sum").unwrap() == Answer::Value(Payload::json(&5))).then_some(()));

    let Answer::Status(status) = client.ask(Request::Status { run: "a".into() }).unwrap() else { panic!() };
    assert_eq!((status.processes.len(), status.queries.len(), status.uncertain.len()), (2, 1, 0));
    let resolve = Request::Resolve { run: "a".into(), pid: None, tag: Tag(7), outcome: Resolve::Resend, id: None };
    assert_eq!(refusal(client.ask(resolve)), Refusal::NoSuchCall { tag: Tag(7), count: 0 });
    assert_eq!(refusal(client.ask(signal("b", &json!(1)))), Refusal::UnknownRun { run: "b".into() });
    let Answer::Host(facts) = client.ask(Request::Host).unwrap() else { panic!() };
    assert_eq!((facts.pid, facts.runs), (std::process::id(), 1));

    let cancel = Request::Cancel { run: "a".into(), reason: "enough".into(), now: false, id: None };
    assert_eq!(client.ask(cancel).unwrap(), Answer::Done);
    assert_ne!(run.wait().status, Status::Succeeded);
    eventually(|| matches!(client.ask(signal("a", &json!(1))), Err(ControlError::Refused(_))).then_some(()));
}

/// Another process is in the middle of a transaction, so nothing becomes durable.
#[test]
fn whoever_ends_a_run_at_once_hears_so_when_that_is_durable() {
    let world = World::new();
    let run = world.start("a");
    world.host.journal().unwrap().unwrap().store().flush().unwrap();
    let other = rusqlite::Connection::open(world.folder.path().join("journal.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let cancel = || Request::Cancel { run: "a".into(), reason: "enough".into(), now: true, id: Some("x".into()) };
    let Ok(Carried::Acted(acted)) = carry_out(&world.host.shared.kernel, cancel()) else { panic!() };
    assert!(!acted.is_durable() && run.outcome().is_none());
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(acted.wait_for(Duration::from_mins(1)), Ok(Some(())));
    assert_eq!(run.wait().status, Status::Cancelled);
    let ended = world.host.journal().unwrap().unwrap().records("a").unwrap();
    let is_it = |act: &Option<ActId>| act.as_ref().is_some_and(|act| &*act.id == "x");
    assert!(ended.iter().any(|record| matches!(record, Record::Arrived(arrived) if is_it(&arrived.act))));
}

#[test]
fn a_watcher_sees_what_happens_and_how_it_ends() {
    let world = World::new();
    let run = world.start("a");
    let client = world.client();
    let watched = client.watch("a").unwrap();
    assert!(watched.records() > 0);
    client.ask(signal("a", &Value::Null)).unwrap();
    let answers: Vec<Answer> = watched.map(Result::unwrap).collect();
    let Some(Answer::Ended(outcome)) = answers.last() else { panic!("{answers:?}") };
    assert_eq!(**outcome, run.wait());
    let spawned = |answer: &&Answer| matches!(answer, Answer::Event(RunEvent::Spawned { .. }));
    assert_eq!(answers.iter().filter(spawned).count(), 2, "{answers:?}");
    assert!(answers.iter().any(|answer| matches!(answer, Answer::Event(RunEvent::Ended { .. }))));
    assert!(matches!(client.watch("a"), Err(ControlError::Refused(Refusal::UnknownRun { .. }))));
}

#[test]
fn what_watches_hears_when_the_host_ends() {
    let world = World::new();
    let run = world.start("a");
    let client = world.client();
    let mut watched = client.watch("a").unwrap();
    let World { folder, host } = world;
    let path = host.socket().unwrap().unwrap();
    drop((run, host));
    assert!(!watched.any(|answer| matches!(answer, Ok(Answer::Ended(_)))), "nothing has an outcome");
    assert!(!path.exists());
    assert!(Client::hosts(folder.path()).unwrap().is_empty());
    assert!(matches!(client.ask(Request::Host), Err(ControlError::Gone)));
}

#[test]
fn only_the_user_can_reach_it_and_stale_ones_go() {
    let world = World::new();
    let path = world.host.socket().unwrap().unwrap();
    let folder = path.parent().unwrap();
    assert_eq!(std::fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    // What a host leaves that was killed.
    let stale = folder.join("1-00000000.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    assert_eq!(world.client().path(), path);
    assert!(!stale.exists() && path.exists());
}

#[test]
fn a_stranger_is_told_so_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (own, someone) = (super::socket_folder::user().unwrap(), 4_242);
    let control = Control::listen_for(folder.path(), Weak::new(), someone).unwrap();
    let answer = Client::at(control.path()).ask(Request::Host);
    // Root may do what it likes anyway.
    if own == 0 {
        assert!(matches!(refusal(answer), Refusal::Failed { .. }));
        as_user(control.path(), someone + 1, r#""not-yours""#);
        as_user(control.path(), someone, "shutting down");
    } else {
        assert_eq!(refusal(answer), Refusal::NotYours);
    }
}

/// Asks as another user, whom the folders are opened to, and expects that in the answer.
fn as_user(socket: &Path, user: u32, expected: &str) {
    use std::os::unix::fs::PermissionsExt;
    let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    socket.ancestors().take(3).for_each(open);
    let ask = format!(
        "import os,socket\nos.setgroups([]);os.setgid({user});os.setuid({user})\ns=socket.socket(socket.AF_UNIX)\ns.connect({socket:?})\n\
         # A stranger may be turned away before anything is said.\ntry:\n    s.sendall(b'{{\"version\":1,\"request\":\"host\"}}\\n')\nexcept BrokenPipeError:\n    pass\nprint(s.recv(4096).decode())"
    );
    let Ok(output) = std::process::Command::new("python3").args(["-c", &ask]).output() else {
        eprintln!("SKIPPED: there is no python3");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(expected), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_is_no_request_is_refused_and_does_no_harm() {
    let world = World::new();
    world.start("a");
    let refused = |bytes: &[u8]| world.answer_to(bytes)["answer"]["refused"].clone();
    for bytes in [
        &b"\n"[..],
        b"hello\n",
        b"\0\xff\xfe\n",
        b"{}\n",
        b"{\"version\":1}\n",
        b"{\"version\":1,\"request\":\"nonsense\"}\n",
        b"{\"version\":1,\"request\":{\"status\":{\"run\":7}}}\n",
        b"{\"version\":1,\"request\":{\"signal\":{\"run\":\"a\",\"name\":\"x\",\"body\":{\"Json\":\"{\"}}}}\n",
        // Without an end there is no line, and so no request.
        b"{\"version\":1,\"request\":\"host\"}",
        b"",
    ] {
        let text = String::from_utf8_lossy(bytes);
        assert!(refused(bytes)["malformed"]["why"].is_string(), "{text}");
    }
    let nested = format!("{{\"version\":1,\"request\":{}\n", "[".repeat(1 << 20));
    assert!(refused(nested.as_bytes())["malformed"]["why"].is_string());
    assert_eq!(refused(b"{\"version\":2,\"request\":\"of the future\"}\n")["other-version"]["version"], 1);
    let endless = vec![b' '; super::protocol::REQUEST_BYTES_MAX + 2];
    assert!(refused(&endless)["malformed"]["why"].as_str().unwrap().contains("bytes"));
    assert!(matches!(world.client().ask(Request::Runs), Ok(Answer::Runs(runs)) if runs.len() == 1));
}

#[test]
fn those_who_say_nothing_take_no_more_than_their_places() {
    let world = World::new();
    let client = world.client();
    let mut silent = Vec::new();
    while client.ask(Request::Host).is_ok() {
        silent.push(world.connect());
        assert!(silent.len() < 2 * CONNECTIONS_MAX);
    }
    assert!(silent.len() >= CONNECTIONS_MAX);
    assert_eq!(refusal(client.ask(Request::Host)), Refusal::Busy);
    silent.truncate(CONNECTIONS_MAX / 2);
    eventually(|| client.ask(Request::Host).ok());
    // Half a request is none either.
    let mut half = world.connect();
    half.write_all(b"{\"version\":1,").unwrap();
    assert!(client.ask(Request::Host).is_ok());
}

#[test]
fn watchers_leave_room_for_others_and_slow_ones_hold_nothing() {
    let world = World::new();
    let run = world.start("a");
    let client = world.client();
    let watchers: Vec<Answers> = (0..WATCHERS_MAX).map(|_| client.watch("a").unwrap()).collect();
    let one_more = eventually(|| client.watch("a").err());
    assert!(matches!(one_more, ControlError::Refused(Refusal::Busy)), "{one_more:?}");
    for _ in 0..200 {
        client.ask(signal("a", &json!(1))).unwrap();
    }
    // None of them has read anything.
    client.ask(signal("a", &Value::Null)).unwrap();
    assert_eq!(run.wait().outputs(), Some(json!({ "x": 200 })));
    for watcher in watchers {
        assert!(matches!(watcher.map(Result::unwrap).last(), Some(Answer::Ended(_))));
    }
    let mut gone = world.connect();
    gone.write_all(b"{\"version\":1,\"request\":{\"watch\":{\"run\":\"none\"}}}\n").unwrap();
    let mut said = String::new();
    gone.read_to_string(&mut said).unwrap();
    assert!(said.contains("unknown-run"), "{said}");
}

#[test]
fn messages_are_read_as_they_were_written() {
    let payload = Payload::Json(crate::process::Json::parse("{\"a\": 1e999, \"b\":\"\\u0000\"}").unwrap());
    let requests = [
        Request::Signal { run: "r".into(), name: "n".into(), body: payload.clone(), id: Some("i".into()) },
        Request::Resolve {
            run: "r".into(),
            pid: None,
            tag: Tag(u64::MAX),
            outcome: Resolve::Completed(Payload::Bytes(vec![0, 255].into())),
            id: None,
        },
        Request::Runs,
    ];
    for request in requests {
        let line = super::protocol::line(&json!({ "version": VERSION, "request": request }));
        assert_eq!(super::protocol::RequestLine::read(&line).unwrap(), request);
    }
    let answer = Answer::Value(payload);
    assert_eq!(super::protocol::AnswerLine::read(&super::protocol::AnswerLine::of(answer.clone())).unwrap(), answer);
}
