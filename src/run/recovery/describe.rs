//! Describes what a step gave, for people who compare two steps.

use crate::process::{Action, Command, Payload, Status, Target};
use std::fmt::Write;

/// Bytes of a payload that are shown. Arbitrary.
const PAYLOAD_SHOWN_MAX: usize = 1_000;

/// Describes a step's commands and then its status, one per line.
#[must_use]
pub fn describe_act<'a>(status: &Status, commands: impl IntoIterator<Item = &'a Command>) -> Vec<String> {
    commands.into_iter().map(describe_command).chain([describe_status(status)]).collect()
}

/// Describes a command: its tag, and what it asks for.
#[must_use]
pub fn describe_command(command: &Command) -> String {
    let Command { tag, action } = command;
    let mut line = format!("{tag}: ");
    match action {
        Action::Sleep(time) => put(&mut line, format_args!("sleep {:?}", std::time::Duration::from(*time))),
        Action::Spawn(spawn) => {
            put(&mut line, format_args!("spawn {}", spawn.entry));
            put_some(&mut line, "of", spawn.component.as_deref());
            put_some(&mut line, "named", spawn.name.as_deref());
            put_placed(&mut line, spawn.placement.as_deref());
            put_some(&mut line, "narrowed to", spawn.narrow.as_ref().map(crate::process::Json::as_str));
            line.push_str(if spawn.link { ", linked" } else { "" });
            line.push_str(if spawn.detached { ", detached" } else { "" });
            put(&mut line, format_args!(", input {}", shown(&spawn.input)));
        }
        Action::Call(call) => {
            put(&mut line, format_args!("call {}", call.handler));
            put_placed(&mut line, call.placement.as_deref());
            put_some(&mut line, "key", call.idempotency_key.as_deref());
            if let Some(timeout) = call.timeout {
                put(&mut line, format_args!(", at most {:?}", std::time::Duration::from(timeout)));
            }
            put(&mut line, format_args!(", arguments {}", shown(&call.args)));
        }
        Action::Send(send) => {
            put(
                &mut line,
                format_args!("send {} to {}: {}", send.message.topic, target(&send.to), shown(&send.message.body)),
            );
        }
        Action::Cancel(other) => put(&mut line, format_args!("cancel {other}")),
        Action::Stop(to) => put(&mut line, format_args!("stop {}", target(to))),
        Action::Monitor(to) => put(&mut line, format_args!("monitor {}", target(to))),
        Action::Link(to) => put(&mut line, format_args!("link {}", target(to))),
        Action::Unlink(to) => put(&mut line, format_args!("unlink {}", target(to))),
        Action::Register(name) => put(&mut line, format_args!("register {name}")),
        Action::Expose { query, value } => put(&mut line, format_args!("expose {query}: {}", shown(value))),
    }
    line
}

/// Describes how a step ended.
#[must_use]
pub fn describe_status(status: &Status) -> String {
    match status {
        Status::Ready => "ready".to_owned(),
        Status::Blocked => "blocked".to_owned(),
        Status::Idle => "idle".to_owned(),
        Status::Complete(output) => format!("complete: {}", shown(output)),
        Status::Failed(problem) => format!("failed: {problem}"),
        Status::Renew { entry, input } => format!("renew {entry}, input {}", shown(input)),
    }
}

fn put(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("invariant: a string takes all that is written");
}

fn put_some(line: &mut String, what: &str, value: Option<&str>) {
    if let Some(value) = value {
        put(line, format_args!(", {what} {value}"));
    }
}

fn put_placed(line: &mut String, placement: Option<&crate::process::Placement>) {
    put_some(line, "at", placement.map(|placement| &*placement.scope));
}

fn target(target: &Target) -> String {
    match target {
        Target::Process(pid) => format!("process {pid}"),
        Target::Child(tag) => format!("the child of {tag}"),
        Target::Name(name) => format!("the name {name}"),
        Target::Run { run, name } => format!("the name {name} of run {run}"),
    }
}

fn shown(payload: &Payload) -> String {
    match payload {
        Payload::Json(json) => cut(json.as_str()),
        Payload::Bytes(bytes) => {
            let digits = bytes.iter().take(PAYLOAD_SHOWN_MAX / 2).fold(String::new(), |mut digits, byte| {
                put(&mut digits, format_args!("{byte:02x}"));
                digits
            });
            format!("{} bytes {digits}{}", bytes.len(), if bytes.len() * 2 > PAYLOAD_SHOWN_MAX { "…" } else { "" })
        }
        Payload::Blob(blob) => format!("blob {} of {} bytes", blob.digest, blob.size),
        Payload::Recalled(recalled) => format!("{} bytes, read by {}", recalled.size, cut(recalled.args.as_str())),
    }
}

/// Shortens a text for display. A longer one is shown with its size and digest, so that two texts
/// with the same beginning still differ.
fn cut(text: &str) -> String {
    if text.len() <= PAYLOAD_SHOWN_MAX {
        return text.to_owned();
    }
    let mut end = PAYLOAD_SHOWN_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let digest = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    format!("{}… ({} bytes, xxh3 {digest:016x})", &text[..end], text.len())
}
