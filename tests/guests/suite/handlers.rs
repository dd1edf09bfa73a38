//! The handlers of the suite, and what they saw.

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wfhost::dispatch::{CallContext, Declaration, arguments, from_fn};
use wfhost::host::HostBuilder;
use wfhost::process::{Answer, LogLine, Micros, Payload, Problem, ProblemClass};
use wfhost::run::{LogOrigin, LogSink};

/// What the handlers saw of one run.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) begun: BTreeMap<String, usize>,
    pub(super) abandoned: usize,
    pub(super) notes: Vec<Value>,
    /// Effects by key, and the values of each.
    pub(super) counted: BTreeMap<String, Vec<Value>>,
    in_flight: usize,
    pub(super) in_flight_max: usize,
    pub(super) lines: Vec<LogLine>,
}

/// What the handlers of a host share.
#[derive(Clone, Default)]
pub(super) struct Board {
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
    /// Calls of these handlers that are answered; those after them are not.
    hold: Arc<BTreeMap<String, usize>>,
}

impl Board {
    pub(super) fn holding(hold: &BTreeMap<String, usize>) -> Self {
        Self { seen: Arc::default(), hold: Arc::new(hold.clone()) }
    }

    /// The same, as another host sees it: no call is held.
    pub(super) fn released(&self) -> Self {
        Self { seen: Arc::clone(&self.seen), hold: Arc::default() }
    }

    pub(super) fn of<T>(&self, run: &str, read: impl FnOnce(&mut Seen) -> T) -> T {
        read(self.seen.lock().entry(run.to_owned()).or_default())
    }

    fn at<T>(&self, call: &CallContext, read: impl FnOnce(&mut Seen) -> T) -> T {
        self.of(call.run(), read)
    }

    /// Adds the handlers to a host.
    pub(super) fn handlers(&self, builder: HostBuilder) -> HostBuilder {
        ["echo", "delay", "fail", "hang", "key", "bytes", "count", "note"].into_iter().fold(builder, |builder, name| {
            let board = self.clone();
            let declaration = Declaration::new("A handler of the suite").repeatable();
            let handler = from_fn(declaration, move |args, call| {
                let board = board.clone();
                async move { board.answer(name, args, call).await }
            });
            builder.handler(name, handler)
        })
    }

    async fn answer(&self, name: &'static str, args: Payload, call: CallContext) -> Answer {
        let begun = self.at(&call, |seen| {
            let begun = seen.begun.entry(name.to_owned()).or_default();
            *begun += 1;
            *begun
        });
        if self.hold.get(name).is_some_and(|answered| begun > *answered) {
            std::future::pending::<()>().await;
        }
        match name {
            "echo" => Ok(args),
            "delay" => self.delay(&args, &call).await,
            "fail" => Err(Arc::new(failure(&args)?)),
            "hang" => self.hang(&call).await,
            "key" => Ok(Payload::json(&call.idempotency_key().to_string())),
            "bytes" => Ok(Payload::Bytes((0..=255).collect::<Vec<u8>>().into())),
            "count" => {
                let value = arguments::<Valued>(&args).map_err(Arc::new)?.value;
                let key = call.idempotency_key().to_string();
                self.at(&call, |seen| seen.counted.entry(key).or_default().push(value.clone()));
                Ok(Payload::json(&value))
            }
            "note" => {
                let note = arguments::<Value>(&args).map_err(Arc::new)?;
                self.at(&call, |seen| seen.notes.push(note));
                Ok(Payload::NULL)
            }
            _ => unreachable!("{name} is not registered"),
        }
    }

    async fn delay(&self, args: &Payload, call: &CallContext) -> Answer {
        let delayed = arguments::<Delayed>(args).map_err(Arc::new)?;
        self.at(call, |seen| {
            seen.in_flight += 1;
            seen.in_flight_max = seen.in_flight_max.max(seen.in_flight);
        });
        let _ended = Ended(self, call, |seen| seen.in_flight -= 1);
        tokio::time::sleep(Duration::from_millis(delayed.ms)).await;
        Ok(Payload::json(&delayed.value))
    }

    async fn hang(&self, call: &CallContext) -> Answer {
        let _ended = Ended(self, call, |seen| seen.abandoned += 1);
        std::future::pending().await
    }
}

/// Tells the end of a call, whether it is answered or given up.
struct Ended<'a>(&'a Board, &'a CallContext, fn(&mut Seen));

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.at(self.1, self.2);
    }
}

#[derive(Deserialize)]
struct Valued {
    value: Value,
}

#[derive(Deserialize)]
struct Delayed {
    ms: u64,
    value: Value,
}

#[derive(Deserialize)]
struct Failure {
    kind: String,
    title: String,
    #[serde(default)]
    status: u16,
    detail: Option<String>,
    class: Option<ProblemClass>,
    retry: Option<u64>,
    data: Option<Value>,
}

fn failure(args: &Payload) -> Result<Problem, Arc<Problem>> {
    let failure = arguments::<Failure>(args).map_err(Arc::new)?;
    let mut problem = Problem::new(failure.kind, failure.title);
    problem.status = failure.status;
    problem.detail = failure.detail;
    problem.class = failure.class.unwrap_or(ProblemClass::Definite);
    problem.retry_after = failure.retry.map(|ms| Micros(ms * 1_000));
    problem.data = failure.data.as_ref().map(Into::into);
    Ok(problem)
}

/// The log of one run.
pub(super) struct Sink(pub(super) Board, pub(super) String);

impl LogSink for Sink {
    fn lines(&self, _: &LogOrigin, lines: &[LogLine], _: u64) {
        self.0.of(&self.1, |seen| seen.lines.extend_from_slice(lines));
    }
}
