//! `log`: writes a line to the run's log. It answers null on the worker and needs no grant.

use super::{CallContext, Declaration, Handler, Handling, arguments};
use crate::process::problem::kind;
use crate::process::{Answer, Json, Level, LogLine, Payload, Problem};
use serde_json::json;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Receives the lines of the handler. It is called on a worker, so it must not wait: it drops and
/// counts the lines that it cannot store.
pub trait LogSink: Send + Sync + 'static {
    /// Receives a line that this call wrote.
    fn log(&self, call: &CallContext, line: LogLine);
}

impl<F: Fn(&CallContext, LogLine) + Send + Sync + 'static> LogSink for F {
    fn log(&self, call: &CallContext, line: LogLine) {
        self(call, line);
    }
}

/// The handler `log`.
#[derive(Debug)]
pub struct Log<S> {
    sink: S,
}

impl<S: LogSink> Log<S> {
    /// Creates a handler that writes to this sink.
    pub fn new(sink: S) -> Self {
        Self { sink }
    }

    fn write(&self, args: &Payload, context: &CallContext) -> Answer {
        let Line { level, message, fields } = arguments(args)?;
        let limit = context.limits().log_bytes_per_step;
        if args.size() as u64 > u64::from(limit) {
            let problem = Problem::new(kind::TOO_LARGE, "the line is longer than a process may log")
                .with_detail(format!("{} bytes, the limit is {limit}", args.size()));
            return Err(Arc::new(problem));
        }
        let fields =
            fields.map(|fields| Json::parse(fields.get().to_owned()).expect("invariant: a part of a JSON text"));
        self.sink.log(context, LogLine { level, text: message, fields });
        Ok(Payload::NULL)
    }
}

#[derive(serde::Deserialize)]
struct Line<'a> {
    #[serde(default = "info")]
    level: Level,
    message: String,
    #[serde(borrow)]
    fields: Option<&'a RawValue>,
}

fn info() -> Level {
    Level::Info
}

impl<S: LogSink> Handler for Log<S> {
    fn declaration(&self) -> Declaration {
        Declaration::new("Writes a line to the run's log").repeatable().schema(json!({
            "type": "object",
            "properties": {
                "level": { "enum": ["trace", "debug", "info", "warn", "error"], "default": "info" },
                "message": { "type": "string" },
                "fields": { "type": "object" },
            },
            "required": ["message"],
            "examples": [{ "message": "half of it is done" }],
            "additionalProperties": false,
        }))
    }

    fn handle(self: Arc<Self>, args: Payload, context: CallContext) -> Handling {
        Handling::Now(self.write(&args, &context))
    }
}
