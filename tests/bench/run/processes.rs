//! The processes of the workloads within a run: the same work as the bare scheduler's machines, by commands and events.

use wfhost::process::{
    Action, Context, Event, Message, Payload, Pid, Problem, Process, Send, Sender, Spawn, Status, Tag, Target,
};

/// One process, which its entry point chooses.
#[derive(Default)]
pub(crate) struct Play {
    part: Part,
    need: u64,
    sum: u64,
}

#[derive(Default)]
enum Part {
    #[default]
    Unborn,
    Pairs {
        pairs: u64,
        rounds: u64,
    },
    Ping {
        left: u64,
    },
    Pong,
    Yields {
        processes: u64,
        rounds: u64,
    },
    Yield {
        left: u64,
    },
    Fib(u64),
    Skynet {
        size: u64,
        number: u64,
    },
}

fn spawn(context: &mut Context<'_>, entry: String) -> Tag {
    context.command(Action::Spawn(Box::new(Spawn {
        component: None,
        entry: entry.into(),
        input: Payload::NULL,
        name: None,
        link: false,
        detached: false,
        narrow: None,
        placement: None,
    })))
}

fn send(context: &mut Context<'_>, to: Pid, message: Message) {
    let Message { topic, body, .. } = message;
    context.command(Action::Send(Box::new(Send { to: Target::Process(to), topic, body })));
}

fn number(payload: &Payload) -> u64 {
    match payload {
        Payload::Json(json) => json.as_str().parse().expect("a number"),
        other => panic!("{other:?}"),
    }
}

impl Process for Play {
    fn init(&mut self, _: &mut Context<'_>, entry: &str, _: Payload) -> Result<(), Problem> {
        let mut words = entry.split(' ');
        let name = words.next().unwrap_or_default();
        let mut next = || words.next().and_then(|word| word.parse().ok()).expect("a number");
        self.part = match name {
            "pairs" => Part::Pairs { pairs: next(), rounds: next() },
            "ping" => Part::Ping { left: next() },
            "pong" => Part::Pong,
            "yields" => Part::Yields { processes: next(), rounds: next() },
            "yield" => Part::Yield { left: next() },
            "fib" => Part::Fib(next()),
            "skynet" => Part::Skynet { size: next(), number: next() },
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
                    if *left == 0 {
                        return Status::Complete(Payload::NULL);
                    }
                    *left -= 1;
                    let pong = Pid(context.birth.pid.0 - 1);
                    send(context, pong, *message);
                }
                Status::Idle
            }
            Part::Pong => {
                for event in events.drain(..) {
                    match event {
                        Event::Message(message) => {
                            let Sender::Process(ping) = message.sender else { continue };
                            send(context, ping, *message);
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
            Part::Pairs { pairs, rounds } => {
                if self.need == 0 {
                    self.need = *pairs;
                    for _ in 0..*pairs {
                        spawn(context, "pong".to_owned());
                        let ping = spawn(context, format!("ping {rounds}"));
                        let body = Payload::json(&1);
                        context.command(Action::Send(Box::new(Send {
                            to: Target::Child(ping),
                            topic: "ping".into(),
                            body,
                        })));
                    }
                    return Status::Blocked;
                }
                self.join(events, |_| Status::Complete(Payload::NULL))
            }
            Part::Yields { processes, rounds } => {
                if self.need == 0 {
                    self.need = *processes;
                    for _ in 0..*processes {
                        spawn(context, format!("yield {rounds}"));
                    }
                    return Status::Blocked;
                }
                self.join(events, |_| Status::Complete(Payload::NULL))
            }
            Part::Fib(n) => {
                if *n < 2 {
                    return Status::Complete(Payload::json(n));
                }
                if self.need == 0 {
                    self.need = 2;
                    spawn(context, format!("fib {}", *n - 1));
                    spawn(context, format!("fib {}", *n - 2));
                    return Status::Blocked;
                }
                self.join(events, |sum| Status::Complete(Payload::json(&sum)))
            }
            Part::Skynet { size, number } => {
                if *size == 1 {
                    return Status::Complete(Payload::json(number));
                }
                if self.need == 0 {
                    self.need = 10;
                    let size = *size / 10;
                    for child in 0..10 {
                        spawn(context, format!("skynet {size} {}", *number + child * size));
                    }
                    return Status::Blocked;
                }
                self.join(events, |sum| Status::Complete(Payload::json(&sum)))
            }
        }
    }
}

impl Play {
    fn join(&mut self, events: &mut Vec<Event>, done: impl Fn(u64) -> Status) -> Status {
        for event in events.drain(..) {
            if let Event::Completed { answer: Ok(payload), .. } = event {
                self.need -= 1;
                self.sum += if payload == Payload::NULL { 0 } else { number(&payload) };
            }
        }
        if self.need == 0 { done(self.sum) } else { Status::Blocked }
    }
}
