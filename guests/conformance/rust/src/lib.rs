//! The conformance guest in Rust, on the bare bindings. ../../README.md describes what it does.

use std::cell::RefCell;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;
use wfhost_guest::bindings::exports::wfhost::process::guest::Guest;
use wfhost_guest::bindings::wfhost::process::host::{self, Level};
use wfhost_guest::bindings::wfhost::process::types::{
    Action, Call, Command, Completion, Event, Message, Outcome, Payload, Problem, ProblemClass, Send, Sender, Spawn,
    Status, Tag, Target,
};

enum Entry {
    Echo(Payload),
    Sleep { micros: u64 },
    Call { handler: String, args: String },
    Concurrent { left: usize, order: Vec<Tag> },
    Spawn { left: usize, outputs: Vec<String> },
    Message,
    Ponger,
    Cancel,
    Failure,
    Imports,
}

struct State {
    entry: Entry,
    first: Tag,
    started: bool,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

const COUNT_MAX: usize = 1000;
const MICROS_MAX: u64 = (1 << 53) - 1;

fn problem(kind: &str, title: &str, detail: Option<String>) -> Problem {
    Problem {
        kind: kind.to_owned(),
        title: title.to_owned(),
        status: 0,
        detail,
        class: ProblemClass::Definite,
        retry_after: None,
        data: None,
    }
}

fn json(text: impl Into<String>) -> Payload {
    Payload::Json(text.into())
}

fn read<'a, T: Deserialize<'a>>(input: &'a Payload) -> Option<T> {
    match input {
        Payload::Json(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SleepInput {
    micros: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallInput<'a> {
    handler: String,
    #[serde(borrow)]
    args: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Count {
    n: usize,
}

fn count(input: &Payload) -> Option<usize> {
    read::<Count>(input).map(|count| count.n).filter(|n| *n <= COUNT_MAX)
}

fn parse(entry: &str, input: Payload) -> Result<Entry, Problem> {
    let parsed = match entry {
        "echo" => Some(Entry::Echo(input)),
        "sleep" => read(&input)
            .filter(|input: &SleepInput| input.micros <= MICROS_MAX)
            .map(|input| Entry::Sleep { micros: input.micros }),
        "call" => read(&input)
            .map(|input: CallInput| Entry::Call { handler: input.handler, args: input.args.get().to_owned() }),
        "concurrent" => count(&input).map(|n| Entry::Concurrent { left: n, order: Vec::new() }),
        "spawn" => count(&input).map(|n| Entry::Spawn { left: n, outputs: vec![String::new(); n] }),
        "message" => Some(Entry::Message),
        "ponger" => Some(Entry::Ponger),
        "cancel" => Some(Entry::Cancel),
        "failure" => Some(Entry::Failure),
        "imports" => Some(Entry::Imports),
        _ => return Err(problem("unknown-entry", "The component has no such entry", Some(entry.to_owned()))),
    };
    parsed.ok_or_else(|| problem("bad-input", "The input does not fit the entry", None))
}

impl State {
    fn commands(&self, actions: impl IntoIterator<Item = Action>) -> Vec<Command> {
        actions.into_iter().zip(self.first..).map(|(action, tag)| Command { tag, action }).collect()
    }

    fn waiting(&self, status: Status, actions: impl IntoIterator<Item = Action>) -> Outcome {
        Outcome { status, commands: self.commands(actions) }
    }

    fn start(&mut self) -> Outcome {
        let blocked = Status::Blocked;
        match &mut self.entry {
            Entry::Echo(input) => complete(input.clone()),
            Entry::Sleep { micros } => {
                let micros = *micros;
                self.waiting(blocked, [Action::Sleep(micros)])
            }
            Entry::Call { handler, args } => {
                let call =
                    Call { handler: handler.clone(), args: json(args.clone()), timeout: None, idempotency_key: None };
                self.waiting(blocked, [Action::Call(call)])
            }
            Entry::Concurrent { left: 0, .. } | Entry::Spawn { left: 0, .. } => complete(json("[]")),
            Entry::Concurrent { left, .. } => {
                let left = *left as u64;
                self.waiting(blocked, (1..=left).rev().map(|n| Action::Sleep(n * 1000)))
            }
            Entry::Spawn { left, .. } => {
                let left = *left;
                self.waiting(blocked, (1..=left).map(|n| spawn("echo", n.to_string())))
            }
            Entry::Message => {
                let ping = send(Target::Child(self.first), "ping");
                self.waiting(Status::Idle, [spawn("ponger", "null".to_owned()), ping])
            }
            Entry::Ponger => self.waiting(Status::Idle, []),
            Entry::Cancel => {
                let first = self.first;
                self.waiting(blocked, [Action::Sleep(3_600_000_000), Action::Cancel(first)])
            }
            Entry::Failure => failed(Problem {
                status: 503,
                class: ProblemClass::Retryable,
                retry_after: Some(250_000),
                data: Some("{\"asked\":true}".to_owned()),
                ..problem("conformance-failure", "The guest was asked to fail", Some("as asked".to_owned()))
            }),
            Entry::Imports => complete(imports()),
        }
    }

    /// The outcome with which this event ends the process, if any.
    fn hear(&mut self, event: Event) -> Option<Outcome> {
        match event {
            Event::Cancel(cancellation) => {
                Some(failed(problem("cancelled", "The guest was cancelled", Some(cancellation.reason))))
            }
            Event::Completed(completion) => self.answered(completion),
            Event::Message(message) => self.received(message),
            Event::Exited(_) => None,
        }
    }

    fn answered(&mut self, completion: Completion) -> Option<Outcome> {
        let index = usize::try_from(completion.tag.checked_sub(self.first)?).ok()?;
        if let Entry::Cancel = self.entry {
            return (index == 0).then(|| match completion.answer {
                Err(problem) => complete(json(format!("\"{}\"", problem.kind))),
                Ok(_) => failed(problem("not-cancelled", "The sleep was not cancelled", None)),
            });
        }
        let answer = match completion.answer {
            Ok(answer) => answer,
            Err(problem) => return Some(failed(problem)),
        };
        match &mut self.entry {
            Entry::Sleep { .. } => Some(complete(json("null"))),
            Entry::Call { .. } => Some(complete(answer)),
            Entry::Concurrent { left, order } => {
                order.push(completion.tag);
                *left -= 1;
                (*left == 0).then(|| complete(json(list(order.iter().map(ToString::to_string)))))
            }
            Entry::Spawn { left, outputs } => {
                let Payload::Json(output) = answer else { return None };
                *outputs.get_mut(index)? = output;
                *left -= 1;
                (*left == 0).then(|| complete(json(list(outputs.drain(..)))))
            }
            _ => None,
        }
    }

    fn received(&mut self, message: Message) -> Option<Outcome> {
        match (&self.entry, message.topic.as_str(), message.sender) {
            (Entry::Message, "pong", _) => Some(complete(message.body)),
            (Entry::Ponger, "ping", Sender::Process(pid)) => {
                let commands = self.commands([send(Target::Process(pid), "pong")]);
                Some(Outcome { status: Status::Complete(json("null")), commands })
            }
            _ => None,
        }
    }
}

fn complete(output: Payload) -> Outcome {
    Outcome { status: Status::Complete(output), commands: Vec::new() }
}

fn failed(problem: Problem) -> Outcome {
    Outcome { status: Status::Failed(problem), commands: Vec::new() }
}

fn spawn(entry: &str, input: String) -> Action {
    Action::Spawn(Spawn {
        component: None,
        entry: entry.to_owned(),
        input: json(input),
        name: None,
        link: false,
        detached: false,
        narrow: None,
    })
}

/// Its body is the topic, as JSON.
fn send(to: Target, topic: &str) -> Action {
    Action::Send(Send { to, topic: topic.to_owned(), body: json(format!("\"{topic}\"")) })
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn imports() -> Payload {
    host::log(Level::Info, "conformance", Some("{\"answer\":42}"));
    let me = host::whoami();
    let random = host::random(8).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let clock = host::now() != 0;
    json(format!("{{\"pid\":{},\"next-tag\":{},\"random\":\"{random}\",\"clock\":{clock}}}", me.pid, me.next_tag))
}

struct Component;

impl Guest for Component {
    fn init(entry: String, input: Payload) -> Result<(), Problem> {
        let entry = parse(&entry, input)?;
        STATE.set(Some(State { entry, first: host::whoami().next_tag, started: false }));
        Ok(())
    }

    fn step(events: Vec<Event>) -> Outcome {
        STATE.with_borrow_mut(|state| {
            let state = state.as_mut().expect("invariant: the host calls init first");
            let begins = !core::mem::replace(&mut state.started, true);
            if begins && !matches!(state.entry, Entry::Ponger) {
                return state.start();
            }
            let ended = events.into_iter().find_map(|event| state.hear(event));
            ended.unwrap_or_else(|| {
                let idle = matches!(state.entry, Entry::Message | Entry::Ponger);
                Outcome { status: if idle { Status::Idle } else { Status::Blocked }, commands: Vec::new() }
            })
        })
    }

    fn close() {}
}

#[cfg(target_arch = "wasm32")]
wfhost_guest::bindings::export_guest! { Component with_types_in wfhost_guest::bindings }
#[cfg(not(target_arch = "wasm32"))]
const _: () = wfhost_guest::export_nowhere(&Component);
