//! Encodes the types of [`crate::process`] in records. The numbers of cases are never reused.

use super::wire::{Damaged, Source, Wire, put_number, unknown};
use crate::process::{
    Action, Blob, CacheKey, Call, Command, Ending, Grants, Level, Limits, LogLine, Message, Micros, Payload, Placement,
    Problem, ProblemClass, Recalled, Send, Sender, Spawn, Status, Target,
};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Wire for Payload {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Json(json) => {
                out.push(0);
                json.put(out);
            }
            Self::Bytes(bytes) => {
                out.push(1);
                bytes.put(out);
            }
            Self::Blob(blob) => {
                out.push(2);
                blob.digest.put(out);
                blob.size.put(out);
                blob.media_type.put(out);
            }
            Self::Recalled(recalled) => {
                out.push(3);
                recalled.args.put(out);
                recalled.size.put(out);
                recalled.digest.put(out);
            }
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(match from.byte()? {
            0 => Self::Json(Wire::take(from)?),
            1 => Self::Bytes(Wire::take(from)?),
            2 => Self::Blob(Arc::new(Blob {
                digest: Wire::take(from)?,
                size: Wire::take(from)?,
                media_type: Wire::take(from)?,
            })),
            3 => {
                let (args, size, digest) = (Wire::take(from)?, Wire::take(from)?, Wire::take(from)?);
                Self::Recalled(Arc::new(Recalled::recorded(args, size, digest)))
            }
            other => return Err(unknown("payload", other)),
        })
    }
}

impl Wire for ProblemClass {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Definite => 0,
            Self::Retryable => 1,
            Self::Uncertain => 2,
        });
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        match from.byte()? {
            0 => Ok(Self::Definite),
            1 => Ok(Self::Retryable),
            2 => Ok(Self::Uncertain),
            other => Err(unknown("class of problems", other)),
        }
    }
}

impl Wire for Problem {
    fn put(&self, out: &mut Vec<u8>) {
        super::wire::put_bytes(out, self.kind.as_bytes());
        super::wire::put_bytes(out, self.title.as_bytes());
        u32::from(self.status).put(out);
        self.detail.put(out);
        self.class.put(out);
        self.may_have_happened.put(out);
        self.retry_after.put(out);
        self.data.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self {
            kind: from.text()?.into(),
            title: from.text()?.into(),
            status: u32::take(from)?.try_into().map_err(|_| Damaged::Number)?,
            detail: Wire::take(from)?,
            class: Wire::take(from)?,
            may_have_happened: Wire::take(from)?,
            retry_after: Wire::take(from)?,
            data: Wire::take(from)?,
        })
    }
}

impl Wire for Target {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Process(pid) => {
                out.push(0);
                pid.put(out);
            }
            Self::Child(tag) => {
                out.push(1);
                tag.put(out);
            }
            Self::Name(name) => {
                out.push(2);
                name.put(out);
            }
            Self::Run { run, name } => {
                out.push(3);
                run.put(out);
                name.put(out);
            }
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(match from.byte()? {
            0 => Self::Process(Wire::take(from)?),
            1 => Self::Child(Wire::take(from)?),
            2 => Self::Name(Wire::take(from)?),
            3 => Self::Run { run: Wire::take(from)?, name: Wire::take(from)? },
            other => return Err(unknown("target", other)),
        })
    }
}

impl Wire for Sender {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Child(tag) => {
                out.push(0);
                tag.put(out);
            }
            Self::Process(pid) => {
                out.push(1);
                pid.put(out);
            }
            Self::Call(tag) => {
                out.push(2);
                tag.put(out);
            }
            Self::Outside(name) => {
                out.push(3);
                name.put(out);
            }
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(match from.byte()? {
            0 => Self::Child(Wire::take(from)?),
            1 => Self::Process(Wire::take(from)?),
            2 => Self::Call(Wire::take(from)?),
            3 => Self::Outside(Wire::take(from)?),
            other => return Err(unknown("sender", other)),
        })
    }
}

impl Wire for Message {
    fn put(&self, out: &mut Vec<u8>) {
        self.sender.put(out);
        self.topic.put(out);
        self.body.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self { sender: Wire::take(from)?, topic: Wire::take(from)?, body: Wire::take(from)? })
    }
}

impl Wire for Ending {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Completed => out.push(0),
            Self::Failed(problem) => {
                out.push(1);
                problem.put(out);
            }
            Self::Cancelled(reason) => {
                out.push(2);
                reason.put(out);
            }
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(match from.byte()? {
            0 => Self::Completed,
            1 => Self::Failed(Wire::take(from)?),
            2 => Self::Cancelled(Wire::take(from)?),
            other => return Err(unknown("ending", other)),
        })
    }
}

impl Wire for Limits {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            memory_bytes,
            table_elements,
            fuel_per_step,
            fuel_total,
            commands_per_step,
            outstanding,
            outstanding_bytes,
            mailbox,
            mailbox_bytes,
            payload_bytes,
            output_bytes,
            spawn_depth,
            processes,
            links,
            log_bytes_per_step,
            grace,
        } = self;
        for number in [memory_bytes, table_elements, fuel_per_step, fuel_total] {
            number.put(out);
        }
        for number in [commands_per_step, outstanding, mailbox, spawn_depth, processes, links, log_bytes_per_step] {
            number.put(out);
        }
        for number in [outstanding_bytes, mailbox_bytes, payload_bytes, output_bytes, &grace.0] {
            number.put(out);
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self {
            memory_bytes: Wire::take(from)?,
            table_elements: Wire::take(from)?,
            fuel_per_step: Wire::take(from)?,
            fuel_total: Wire::take(from)?,
            commands_per_step: Wire::take(from)?,
            outstanding: Wire::take(from)?,
            mailbox: Wire::take(from)?,
            spawn_depth: Wire::take(from)?,
            processes: Wire::take(from)?,
            links: Wire::take(from)?,
            log_bytes_per_step: Wire::take(from)?,
            outstanding_bytes: Wire::take(from)?,
            mailbox_bytes: Wire::take(from)?,
            payload_bytes: Wire::take(from)?,
            output_bytes: Wire::take(from)?,
            grace: Micros(Wire::take(from)?),
        })
    }
}

impl Wire for Grants {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.0.len() as u64);
        for (capability, patterns) in self.0.iter() {
            capability.put(out);
            patterns.put(out);
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        let length = from.number()?;
        let mut grants = BTreeMap::new();
        for _ in 0..length {
            grants.insert(Wire::take(from)?, Wire::take(from)?);
        }
        Ok(Self(Arc::new(grants)))
    }
}

impl Wire for Placement {
    fn put(&self, out: &mut Vec<u8>) {
        self.scope.put(out);
        self.limits.as_deref().cloned().put(out);
        self.grants.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self {
            scope: Wire::take(from)?,
            limits: <Option<Limits> as Wire>::take(from)?.map(Arc::new),
            grants: Wire::take(from)?,
            cache: None,
        })
    }
}

impl Wire for CacheKey {
    fn put(&self, out: &mut Vec<u8>) {
        self.key.put(out);
        self.of.put(out);
        self.ttl.put(out);
        self.if_pure.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self { key: Wire::take(from)?, of: Wire::take(from)?, ttl: Wire::take(from)?, if_pure: Wire::take(from)? })
    }
}

/// Writes the placement of a command: 0 for none, 1 for one, 2 for one whose outcome is cached.
fn put_placement(placement: Option<&Placement>, out: &mut Vec<u8>) {
    match placement {
        None => out.push(0),
        Some(placement) => {
            out.push(1 + u8::from(placement.cache.is_some()));
            placement.put(out);
            placement.cache.iter().for_each(|cache| cache.put(out));
        }
    }
}

fn take_placement(from: &mut Source) -> Result<Option<Arc<Placement>>, Damaged> {
    Ok(match from.byte()? {
        0 => None,
        1 => Some(Wire::take(from)?),
        2 => {
            let placement = Placement::take(from)?;
            Some(Arc::new(Placement { cache: Some(Wire::take(from)?), ..placement }))
        }
        other => return Err(unknown("placement", other)),
    })
}

impl Wire for Spawn {
    fn put(&self, out: &mut Vec<u8>) {
        self.component.put(out);
        self.entry.put(out);
        self.input.put(out);
        self.name.put(out);
        out.push(u8::from(self.link) | u8::from(self.detached) << 1);
        self.narrow.put(out);
        put_placement(self.placement.as_deref(), out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        let (component, entry, input, name) =
            (Wire::take(from)?, Wire::take(from)?, Wire::take(from)?, Wire::take(from)?);
        let flags = from.byte()?;
        if flags > 3 {
            return Err(unknown("flags of a spawn", flags));
        }
        Ok(Self {
            component,
            entry,
            input,
            name,
            link: flags & 1 != 0,
            detached: flags & 2 != 0,
            narrow: Wire::take(from)?,
            placement: take_placement(from)?,
        })
    }
}

impl Wire for Call {
    fn put(&self, out: &mut Vec<u8>) {
        self.handler.put(out);
        self.args.put(out);
        self.timeout.put(out);
        self.idempotency_key.put(out);
        put_placement(self.placement.as_deref(), out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self {
            handler: Wire::take(from)?,
            args: Wire::take(from)?,
            timeout: Wire::take(from)?,
            idempotency_key: Wire::take(from)?,
            placement: take_placement(from)?,
        })
    }
}

impl Wire for Send {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.to.put(out);
        self.message.topic.put(out);
        self.message.body.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(Self::new(Wire::take(from)?, Wire::take(from)?, Wire::take(from)?))
    }
}

impl Wire for Command {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.tag.put(out);
        match &self.action {
            Action::Sleep(duration) => numbered(out, 0, duration),
            Action::Spawn(spawn) => numbered(out, 1, spawn),
            Action::Call(call) => numbered(out, 2, call),
            Action::Send(send) => numbered(out, 3, send),
            Action::Cancel(tag) => numbered(out, 4, tag),
            Action::Stop(target) => numbered(out, 5, target),
            Action::Monitor(target) => numbered(out, 6, target),
            Action::Link(target) => numbered(out, 7, target),
            Action::Unlink(target) => numbered(out, 8, target),
            Action::Register(name) => numbered(out, 9, name),
            Action::Expose { query, value } => {
                numbered(out, 10, query);
                value.put(out);
            }
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        let tag = Wire::take(from)?;
        let action = match from.byte()? {
            0 => Action::Sleep(Wire::take(from)?),
            1 => Action::Spawn(Wire::take(from)?),
            2 => Action::Call(Wire::take(from)?),
            3 => Action::Send(Wire::take(from)?),
            4 => Action::Cancel(Wire::take(from)?),
            5 => Action::Stop(Wire::take(from)?),
            6 => Action::Monitor(Wire::take(from)?),
            7 => Action::Link(Wire::take(from)?),
            8 => Action::Unlink(Wire::take(from)?),
            9 => Action::Register(Wire::take(from)?),
            10 => Action::Expose { query: Wire::take(from)?, value: Wire::take(from)? },
            other => return Err(unknown("action", other)),
        };
        Ok(Self { tag, action })
    }
}

#[inline]
fn numbered(out: &mut Vec<u8>, number: u8, part: &impl Wire) {
    out.push(number);
    part.put(out);
}

impl Wire for Status {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ready => out.push(0),
            Self::Blocked => out.push(1),
            Self::Idle => out.push(2),
            Self::Complete(output) => {
                out.push(3);
                output.put(out);
            }
            Self::Failed(problem) => {
                out.push(4);
                problem.put(out);
            }
            Self::Renew { entry, input } => {
                out.push(5);
                entry.put(out);
                input.put(out);
            }
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Ok(match from.byte()? {
            0 => Self::Ready,
            1 => Self::Blocked,
            2 => Self::Idle,
            3 => Self::Complete(Wire::take(from)?),
            4 => Self::Failed(Wire::take(from)?),
            5 => Self::Renew { entry: Wire::take(from)?, input: Wire::take(from)? },
            other => return Err(unknown("status", other)),
        })
    }
}

impl Wire for LogLine {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(match self.level {
            Level::Trace => 0,
            Level::Debug => 1,
            Level::Info => 2,
            Level::Warn => 3,
            Level::Error => 4,
        });
        self.text.put(out);
        self.fields.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        let level = match from.byte()? {
            0 => Level::Trace,
            1 => Level::Debug,
            2 => Level::Info,
            3 => Level::Warn,
            4 => Level::Error,
            other => return Err(unknown("log level", other)),
        };
        Ok(Self { level, text: Wire::take(from)?, fields: Wire::take(from)? })
    }
}
