//! What comes out of the guest: the types of the contract, and the checks on the way to those of the host.

use crate::process::{self, Json, Limits, Micros, NUMBER_MAX, Pid, Tag, problem::kind};
use std::sync::Arc;
use wasmtime::component::{ComponentType, Lift};

type Checked<T> = Result<T, process::Problem>;

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Blob {
    digest: String,
    size: u64,
    #[component(name = "media-type")]
    media_type: String,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Payload {
    #[component(name = "json")]
    Json(String),
    #[component(name = "bytes")]
    Bytes(Vec<u8>),
    #[component(name = "blob")]
    Blob(Blob),
}

#[derive(ComponentType, Lift, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[allow(dead_code)] // Its cases are made by the derived `Lift`, from their numbers.
pub(super) enum ProblemClass {
    #[component(name = "definite")]
    Definite,
    #[component(name = "retryable")]
    Retryable,
    #[component(name = "uncertain")]
    Uncertain,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Problem {
    kind: String,
    title: String,
    status: u16,
    detail: Option<String>,
    class: ProblemClass,
    #[component(name = "retry-after")]
    retry_after: Option<u64>,
    data: Option<String>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct RunTarget {
    run: Arc<str>,
    name: Arc<str>,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Target {
    #[component(name = "process")]
    Process(u64),
    #[component(name = "child")]
    Child(u64),
    #[component(name = "name")]
    Name(Arc<str>),
    #[component(name = "run")]
    Run(RunTarget),
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Spawn {
    component: Option<Arc<str>>,
    entry: Arc<str>,
    input: Payload,
    name: Option<Arc<str>>,
    link: bool,
    detached: bool,
    narrow: Option<String>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct HandlerCall {
    handler: Arc<str>,
    args: Payload,
    timeout: Option<u64>,
    #[component(name = "idempotency-key")]
    idempotency_key: Option<Arc<str>>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Send {
    to: Target,
    topic: Arc<str>,
    body: Payload,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Expose {
    query: Arc<str>,
    value: Payload,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Action {
    #[component(name = "sleep")]
    Sleep(u64),
    #[component(name = "spawn")]
    Spawn(Spawn),
    #[component(name = "call")]
    Call(HandlerCall),
    #[component(name = "send")]
    Send(Send),
    #[component(name = "cancel")]
    Cancel(u64),
    #[component(name = "stop")]
    Stop(Target),
    #[component(name = "monitor")]
    Monitor(Target),
    #[component(name = "link")]
    Link(Target),
    #[component(name = "unlink")]
    Unlink(Target),
    #[component(name = "register")]
    Register(Arc<str>),
    #[component(name = "expose")]
    Expose(Expose),
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Command {
    tag: u64,
    action: Action,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Renewal {
    entry: Arc<str>,
    input: Payload,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Status {
    #[component(name = "ready")]
    Ready,
    #[component(name = "blocked")]
    Blocked,
    #[component(name = "idle")]
    Idle,
    #[component(name = "complete")]
    Complete(Payload),
    #[component(name = "failed")]
    Failed(Problem),
    #[component(name = "renew")]
    Renew(Renewal),
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Outcome {
    status: Status,
    commands: Vec<Command>,
}

/// Reads what a guest returned: every number, every JSON text and every size is checked here, and nowhere else again.
pub(super) struct Reader<'a> {
    limits: &'a Limits,
}

impl<'a> Reader<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self { limits }
    }

    pub(super) fn outcome(&self, outcome: Outcome) -> Checked<super::Outcome> {
        let count = outcome.commands.len();
        if count > self.limits.commands_per_step as usize {
            let max = self.limits.commands_per_step;
            return Err(process::Problem::new(kind::TOO_MANY_COMMANDS, "The step gave too many commands")
                .with_detail(format!("{count} commands in one step; at most {max} are taken")));
        }
        let mut commands = Vec::with_capacity(count);
        for command in outcome.commands {
            commands.push(self.command(command)?);
        }
        Ok(super::Outcome { status: self.status(outcome.status)?, commands })
    }

    pub(super) fn problem(&self, problem: Problem) -> Checked<process::Problem> {
        Ok(process::Problem {
            kind: problem.kind.into(),
            title: problem.title.into(),
            status: problem.status,
            detail: problem.detail,
            class: match problem.class {
                ProblemClass::Definite => process::ProblemClass::Definite,
                ProblemClass::Retryable => process::ProblemClass::Retryable,
                ProblemClass::Uncertain => process::ProblemClass::Uncertain,
            },
            may_have_happened: false,
            retry_after: problem.retry_after.map(|micros| self.micros(micros, "retry-after")).transpose()?,
            data: problem.data.map(|data| self.object(data, "data")).transpose()?,
        })
    }

    fn command(&self, command: Command) -> Checked<process::Command> {
        Ok(process::Command { tag: self.tag(command.tag)?, action: self.action(command.action)? })
    }

    fn action(&self, action: Action) -> Checked<process::Action> {
        Ok(match action {
            Action::Sleep(micros) => process::Action::Sleep(self.micros(micros, "sleep")?),
            Action::Spawn(spawn) => process::Action::Spawn(Box::new(self.spawn(spawn)?)),
            Action::Call(call) => process::Action::Call(Box::new(self.call(call)?)),
            Action::Send(send) => process::Action::Send(Box::new(self.send(send)?)),
            Action::Cancel(tag) => process::Action::Cancel(self.tag(tag)?),
            Action::Stop(target) => process::Action::Stop(self.target(target)?),
            Action::Monitor(target) => process::Action::Monitor(self.target(target)?),
            Action::Link(target) => process::Action::Link(self.target(target)?),
            Action::Unlink(target) => process::Action::Unlink(self.target(target)?),
            Action::Register(name) => process::Action::Register(name),
            Action::Expose(expose) => {
                process::Action::Expose { query: expose.query, value: self.payload(expose.value)? }
            }
        })
    }

    fn spawn(&self, spawn: Spawn) -> Checked<process::Spawn> {
        Ok(process::Spawn {
            component: spawn.component,
            entry: spawn.entry,
            input: self.payload(spawn.input)?,
            name: spawn.name,
            link: spawn.link,
            detached: spawn.detached,
            narrow: spawn.narrow.map(|narrow| self.object(narrow, "narrow")).transpose()?,
            placement: None,
        })
    }

    fn call(&self, call: HandlerCall) -> Checked<process::Call> {
        Ok(process::Call {
            handler: call.handler,
            args: self.payload(call.args)?,
            timeout: call.timeout.map(|micros| self.micros(micros, "timeout")).transpose()?,
            idempotency_key: call.idempotency_key,
            placement: None,
        })
    }

    fn send(&self, send: Send) -> Checked<process::Send> {
        Ok(process::Send { to: self.target(send.to)?, topic: send.topic, body: self.payload(send.body)? })
    }

    fn target(&self, target: Target) -> Checked<process::Target> {
        Ok(match target {
            Target::Process(pid) => process::Target::Process(Pid(self.number(pid, "pid")?)),
            Target::Child(tag) => process::Target::Child(self.tag(tag)?),
            Target::Name(name) => process::Target::Name(name),
            Target::Run(target) => process::Target::Run { run: target.run, name: target.name },
        })
    }

    fn status(&self, status: Status) -> Checked<process::Status> {
        Ok(match status {
            Status::Ready => process::Status::Ready,
            Status::Blocked => process::Status::Blocked,
            Status::Idle => process::Status::Idle,
            Status::Complete(output) => process::Status::Complete(self.payload(output)?),
            Status::Failed(problem) => process::Status::Failed(Box::new(self.problem(problem)?)),
            Status::Renew(renewal) => {
                process::Status::Renew { entry: renewal.entry, input: self.payload(renewal.input)? }
            }
        })
    }

    fn payload(&self, payload: Payload) -> Checked<process::Payload> {
        Ok(match payload {
            Payload::Json(text) => {
                self.size(text.len())?;
                process::Payload::Json(json(text, "payload")?)
            }
            Payload::Bytes(bytes) => {
                self.size(bytes.len())?;
                process::Payload::Bytes(bytes.into())
            }
            Payload::Blob(blob) => process::Payload::Blob(Arc::new(process::Blob {
                digest: blob.digest,
                size: self.number(blob.size, "size")?,
                media_type: blob.media_type,
            })),
        })
    }

    fn size(&self, bytes: usize) -> Checked<()> {
        if bytes as u64 <= self.limits.payload_bytes {
            return Ok(());
        }
        let max = self.limits.payload_bytes;
        Err(process::Problem::new(kind::TOO_LARGE, "A payload is too large")
            .with_detail(format!("a payload has {bytes} bytes; at most {max} are taken")))
    }

    fn tag(&self, tag: u64) -> Checked<Tag> {
        self.number(tag, "tag").map(Tag)
    }

    fn micros(&self, micros: u64, what: &str) -> Checked<Micros> {
        self.number(micros, what).map(Micros)
    }

    #[allow(clippy::unused_self)] // Read like its siblings.
    fn number(&self, number: u64, what: &str) -> Checked<u64> {
        if number < NUMBER_MAX {
            return Ok(number);
        }
        Err(process::Problem::new(kind::BAD_NUMBER, "A number is 2^53 or more")
            .with_detail(format!("{what} is {number}; numbers of the contract stay below 2^53")))
    }

    /// A JSON text that must be an object.
    #[allow(clippy::unused_self)]
    fn object(&self, text: String, what: &str) -> Checked<Json> {
        let json = json(text, what)?;
        if json.as_str().trim_start().starts_with('{') {
            return Ok(json);
        }
        Err(process::Problem::new(kind::BAD_JSON, "A JSON text is not an object")
            .with_detail(format!("{what} must be a JSON object")))
    }
}

fn json(text: String, what: &str) -> Checked<Json> {
    Json::parse(text).map_err(|error| {
        process::Problem::new(kind::BAD_JSON, "A JSON payload is not JSON").with_detail(format!("{what}: {error}"))
    })
}
