//! What goes into the guest: the types of the contract, borrowed from the host's, so that nothing
//! is copied twice.

use crate::process;
use wasmtime::component::{ComponentType, Lower};

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct Blob<'a> {
    digest: &'a str,
    size: u64,
    #[component(name = "media-type")]
    media_type: &'a str,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
pub(super) enum Payload<'a> {
    #[component(name = "json")]
    Json(&'a str),
    #[component(name = "bytes")]
    Bytes(&'a [u8]),
    #[component(name = "blob")]
    Blob(Blob<'a>),
}

#[derive(ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(super) enum ProblemClass {
    #[component(name = "definite")]
    Definite,
    #[component(name = "retryable")]
    Retryable,
    #[component(name = "uncertain")]
    Uncertain,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct Problem<'a> {
    kind: &'a str,
    title: &'a str,
    status: u16,
    detail: Option<&'a str>,
    class: ProblemClass,
    #[component(name = "retry-after")]
    retry_after: Option<u64>,
    data: Option<&'a str>,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
pub(super) enum Sender<'a> {
    #[component(name = "child")]
    Child(u64),
    #[component(name = "process")]
    Process(u64),
    #[component(name = "call")]
    Call(u64),
    #[component(name = "outside")]
    Outside(&'a str),
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct Message<'a> {
    sender: Sender<'a>,
    topic: &'a str,
    body: Payload<'a>,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
pub(super) enum Ending<'a> {
    #[component(name = "completed")]
    Completed,
    #[component(name = "failed")]
    Failed(Problem<'a>),
    #[component(name = "cancelled")]
    Cancelled(&'a str),
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct Exit<'a> {
    pid: u64,
    by: u64,
    ending: Ending<'a>,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct Completion<'a> {
    tag: u64,
    answer: Result<Payload<'a>, Problem<'a>>,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct Cancellation<'a> {
    reason: &'a str,
    grace: u64,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
pub(super) enum Event<'a> {
    #[component(name = "completed")]
    Completed(Completion<'a>),
    #[component(name = "message")]
    Message(Message<'a>),
    #[component(name = "exited")]
    Exited(Exit<'a>),
    #[component(name = "cancel")]
    Cancel(Cancellation<'a>),
}

pub(super) fn event(event: &process::Event) -> Event<'_> {
    match event {
        process::Event::Completed { tag, answer } => Event::Completed(Completion {
            tag: tag.0,
            answer: match answer {
                Ok(output) => Ok(payload(output)),
                Err(failure) => Err(problem(failure)),
            },
        }),
        process::Event::Message(message) => Event::Message(Message {
            sender: sender(&message.sender),
            topic: &message.topic,
            body: payload(&message.body),
        }),
        process::Event::Exited(exit) => {
            Event::Exited(Exit { pid: exit.pid.0, by: exit.by.0, ending: ending(&exit.ending) })
        }
        process::Event::Cancel { reason, grace } => Event::Cancel(Cancellation { reason, grace: grace.0 }),
    }
}

pub(super) fn payload(payload: &process::Payload) -> Payload<'_> {
    match payload {
        process::Payload::Json(json) => Payload::Json(json.as_str()),
        process::Payload::Bytes(bytes) => Payload::Bytes(bytes),
        process::Payload::Blob(blob) => {
            Payload::Blob(Blob { digest: &blob.digest, size: blob.size, media_type: &blob.media_type })
        }
        process::Payload::Recalled(_) => unreachable!("invariant: a process gets the answer itself"),
    }
}

fn problem(problem: &process::Problem) -> Problem<'_> {
    Problem {
        kind: &problem.kind,
        title: &problem.title,
        status: problem.status,
        detail: problem.detail.as_deref(),
        class: match problem.class {
            process::ProblemClass::Definite => ProblemClass::Definite,
            process::ProblemClass::Retryable => ProblemClass::Retryable,
            process::ProblemClass::Uncertain => ProblemClass::Uncertain,
        },
        retry_after: problem.retry_after.map(|micros| micros.0),
        data: problem.data.as_ref().map(process::Json::as_str),
    }
}

fn sender(sender: &process::Sender) -> Sender<'_> {
    match sender {
        process::Sender::Child(tag) => Sender::Child(tag.0),
        process::Sender::Process(pid) => Sender::Process(pid.0),
        process::Sender::Call(tag) => Sender::Call(tag.0),
        process::Sender::Outside(name) => Sender::Outside(name),
    }
}

fn ending(ending: &process::Ending) -> Ending<'_> {
    match ending {
        process::Ending::Completed => Ending::Completed,
        process::Ending::Failed(failure) => Ending::Failed(problem(failure)),
        process::Ending::Cancelled(reason) => Ending::Cancelled(reason),
    }
}
