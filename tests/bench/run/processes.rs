//! The processes of the workloads within a run: the same work as the bare scheduler's machines, by
//! commands and events. Their messages and outputs are made once, so that commit is measured and
//! not the making of texts.

use std::sync::Arc;
use wfhost::process::{
    Action, Context, Event, Json, Message, Payload, Pid, Problem, Process, Send, Sender, Spawn, Status, Tag, Target,
};

/// Entry points that were made once: `pong`, `ping`, `yield`, and a tree's node of each size.
pub(crate) struct Names {
    pong: Arc<str>,
    ping: Arc<str>,
    yields: Arc<str>,
    nodes: Vec<Arc<str>>,
    topic: Arc<str>,
    one: Payload,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self {
            pong: "pong".into(),
            ping: "ping".into(),
            yields: "yield".into(),
            nodes: (0..40).map(|size| format!("node {size}").into()).collect(),
            topic: "t".into(),
            one: Payload::Json(Json::parse("1").expect("it is JSON")),
        }
    }
}

/// One process; its entry point selects which.
pub(crate) struct Play {
    names: Arc<Names>,
    part: Part,
    need: u64,
    sum: u64,
}

enum Part {
    Unborn,
    Pairs { pairs: u64 },
    Ping { left: Option<u64> },
    Pong,
    Yields { processes: u64 },
    Yield { left: u64 },
    Fib(usize),
    Skynet(usize),
}

/// A parameter of all processes of a run is in the first digits of its seed.
fn rounds(context: &Context<'_>) -> u64 {
    u64::from_le_bytes(context.init.seed[..8].try_into().expect("eight bytes"))
}

/// Which tree is grown.
fn is_skynet(context: &Context<'_>) -> bool {
    context.init.seed[8] == 1
}

impl Play {
    pub(crate) fn new(names: &Arc<Names>) -> Self {
        Self { names: Arc::clone(names), part: Part::Unborn, need: 0, sum: 0 }
    }

    fn spawn(context: &mut Context<'_>, entry: &Arc<str>) -> Tag {
        context.command(Action::Spawn(Box::new(Spawn {
            component: None,
            entry: Arc::clone(entry),
            input: Payload::NULL,
            name: None,
            link: false,
            detached: false,
            narrow: None,
            placement: None,
        })))
    }

    fn join(&mut self, events: &mut Vec<Event>) -> Status {
        for event in events.drain(..) {
            if let Event::Completed { answer: Ok(Payload::Json(json)), .. } = event {
                self.need -= 1;
                self.sum += json.as_str().parse().unwrap_or(0);
            }
        }
        if self.need == 0 { Status::Complete(Payload::json(&self.sum)) } else { Status::Blocked }
    }
}

fn send(context: &mut Context<'_>, to: Pid, message: Box<Message>) {
    context.command(Action::Send(Send { to: Target::Process(to), message }));
}

impl Process for Play {
    fn init(&mut self, context: &mut Context<'_>, entry: &str, _: Payload) -> Result<(), Problem> {
        let (name, number) = entry.split_once(' ').unwrap_or((entry, "0"));
        let number = number.parse().unwrap_or(0);
        let rounds = rounds(context);
        self.part = match name {
            "pairs" => Part::Pairs { pairs: number as u64 },
            "ping" => Part::Ping { left: None },
            "pong" => Part::Pong,
            "yields" => Part::Yields { processes: number as u64 },
            "yield" => Part::Yield { left: rounds },
            "node" if is_skynet(context) => Part::Skynet(number),
            "node" => Part::Fib(number),
            other => return Err(Problem::new("unknown-entry", "No such process").with_detail(other)),
        };
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> Status {
        match &mut self.part {
            Part::Unborn => unreachable!("init comes first"),
            Part::Ping { left } => {
                for event in events.drain(..) {
                    let Event::Message(message) = event else { continue };
                    let left = left.get_or_insert_with(|| rounds(context));
                    if *left == 0 {
                        return Status::Complete(Payload::NULL);
                    }
                    *left -= 1;
                    let pong = Pid(context.init.pid.0 - 1);
                    send(context, pong, message);
                }
                Status::Idle
            }
            Part::Pong => {
                for event in events.drain(..) {
                    match event {
                        Event::Message(message) => {
                            let Sender::Process(ping) = message.sender else { continue };
                            send(context, ping, message);
                        }
                        Event::Cancel { .. } => return Status::Complete(Payload::NULL),
                        _ => {}
                    }
                }
                Status::Idle
            }
            Part::Yield { left } => {
                *left -= 1;
                if *left == 0 { Status::Complete(Payload::NULL) } else { Status::Ready }
            }
            Part::Pairs { pairs } if self.need == 0 => {
                // Only the pings end by themselves; the pongs are cancelled with the root.
                self.need = *pairs;
                let names = Arc::clone(&self.names);
                for _ in 0..*pairs {
                    Self::spawn(context, &names.pong);
                    let ping = Self::spawn(context, &names.ping);
                    let (topic, body) = (Arc::clone(&names.topic), names.one.clone());
                    context.command(Action::Send(Send::new(Target::Child(ping), topic, body)));
                }
                Status::Blocked
            }
            Part::Yields { processes } if self.need == 0 => {
                self.need = *processes;
                let names = Arc::clone(&self.names);
                for _ in 0..*processes {
                    Self::spawn(context, &names.yields);
                }
                Status::Blocked
            }
            Part::Fib(0 | 1) | Part::Skynet(0) => Status::Complete(self.names.one.clone()),
            Part::Fib(n) if self.need == 0 => {
                self.need = 2;
                Self::spawn(context, &self.names.nodes[*n - 1]);
                Self::spawn(context, &self.names.nodes[*n - 2]);
                Status::Blocked
            }
            Part::Skynet(size) if self.need == 0 => {
                self.need = 10;
                for _ in 0..10 {
                    Self::spawn(context, &self.names.nodes[*size - 1]);
                }
                Status::Blocked
            }
            Part::Pairs { .. } | Part::Yields { .. } | Part::Fib(_) | Part::Skynet(_) => self.join(events),
        }
    }
}
