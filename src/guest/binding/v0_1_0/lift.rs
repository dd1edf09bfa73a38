//! What comes out of the guest: the types of the contract, and the checks on the way to the host's
//! types.

use crate::process::{self, Json, Micros, NUMBER_MAX, Pid, Tag, problem::kind};
use std::sync::Arc;
use wasmtime::component::{ComponentType, Lift};

type Checked<T> = Result<T, process::Problem>;

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Blob {
    pub(super) digest: String,
    pub(super) size: u64,
    #[component(name = "media-type")]
    pub(super) media_type: String,
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
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) status: u16,
    pub(super) detail: Option<String>,
    pub(super) class: ProblemClass,
    #[component(name = "retry-after")]
    pub(super) retry_after: Option<u64>,
    pub(super) data: Option<String>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct RunTarget {
    pub(super) run: Arc<str>,
    pub(super) name: Arc<str>,
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
    pub(super) component: Option<Arc<str>>,
    pub(super) entry: Arc<str>,
    pub(super) input: Payload,
    pub(super) name: Option<Arc<str>>,
    pub(super) link: bool,
    pub(super) detached: bool,
    pub(super) narrow: Option<String>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct HandlerCall {
    pub(super) handler: Arc<str>,
    pub(super) args: Payload,
    pub(super) timeout: Option<u64>,
    #[component(name = "idempotency-key")]
    pub(super) idempotency_key: Option<Arc<str>>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Send {
    pub(super) to: Target,
    pub(super) topic: Arc<str>,
    pub(super) body: Payload,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Expose {
    pub(super) query: Arc<str>,
    pub(super) value: Payload,
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
    pub(super) tag: u64,
    pub(super) action: Action,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Renewal {
    pub(super) entry: Arc<str>,
    pub(super) input: Payload,
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
    pub(super) status: Status,
    pub(super) commands: Vec<Command>,
}

/// Reads what a guest returned, after [`super::charge`] has checked its texts and sizes. Every
/// number is checked here and nowhere else.
pub(super) struct Reader;

#[allow(clippy::unused_self)] // Its functions are read like each other.
impl Reader {
    pub(super) fn outcome(&self, outcome: Outcome) -> Checked<super::Outcome> {
        let commands = outcome.commands.into_iter().map(|command| self.command(command)).collect::<Checked<_>>()?;
        Ok(super::Outcome { status: self.status(outcome.status)?, commands })
    }

    pub(super) fn problem(&self, problem: Problem) -> Checked<process::Problem> {
        let problem = process::Problem {
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
        };
        Ok(problem.bounded())
    }

    fn command(&self, command: Command) -> Checked<process::Command> {
        Ok(process::Command { tag: self.tag(command.tag)?, action: self.action(command.action)? })
    }

    fn action(&self, action: Action) -> Checked<process::Action> {
        Ok(match action {
            Action::Sleep(micros) => process::Action::Sleep(self.micros(micros, "sleep")?),
            Action::Spawn(spawn) => process::Action::Spawn(Box::new(self.spawn(spawn)?)),
            Action::Call(call) => process::Action::Call(Box::new(self.call(call)?)),
            Action::Send(send) => process::Action::Send(self.send(send)?),
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
        Ok(process::Send::new(self.target(send.to)?, send.topic, self.payload(send.body)?))
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
            Status::Failed(problem) => process::Status::Failed(Arc::new(self.problem(problem)?)),
            Status::Renew(renewal) => {
                process::Status::Renew { entry: renewal.entry, input: self.payload(renewal.input)? }
            }
        })
    }

    fn payload(&self, payload: Payload) -> Checked<process::Payload> {
        Ok(match payload {
            Payload::Json(text) => process::Payload::Json(Json::checked(text)),
            Payload::Bytes(bytes) => process::Payload::Bytes(bytes.into()),
            Payload::Blob(blob) => process::Payload::Blob(Arc::new(process::Blob {
                digest: blob.digest,
                size: self.number(blob.size, "size")?,
                media_type: blob.media_type,
            })),
        })
    }

    fn tag(&self, tag: u64) -> Checked<Tag> {
        self.number(tag, "tag").map(Tag)
    }

    fn micros(&self, micros: u64, what: &str) -> Checked<Micros> {
        self.number(micros, what).map(Micros)
    }

    fn number(&self, number: u64, what: &str) -> Checked<u64> {
        if number < NUMBER_MAX {
            return Ok(number);
        }
        Err(process::Problem::new(kind::BAD_NUMBER, "A number is 2^53 or more")
            .with_detail(format!("{what} is {number}; numbers of the contract must be below 2^53")))
    }

    /// Accepts a JSON text only if it is an object.
    fn object(&self, text: String, what: &str) -> Checked<Json> {
        let json = Json::checked(text);
        if json.as_str().trim_start().starts_with('{') {
            return Ok(json);
        }
        Err(process::Problem::new(kind::BAD_JSON, "A JSON text is not an object")
            .with_detail(format!("{what} must be a JSON object")))
    }
}
