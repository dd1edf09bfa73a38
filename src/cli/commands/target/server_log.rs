//! The log of a run of a server. Only what is durable there is shown.

use super::server::{RemoteRuns, record};
use super::{Row, TakeLine};
use crate::cli::args::http::Ask;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::terminal::{Terminal, say};
use crate::host::RunProjection;
use crate::run::Record;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long a server may be away while a run is followed: it may be restarted.
const AWAY_MAX: Duration = Duration::from_mins(1);

/// The pause between attempts to reach it.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How a stream ended.
#[derive(PartialEq, Eq)]
enum StreamEnd {
    /// The run has ended.
    Run,
    /// The server stops, or the connection broke.
    Broken,
}

impl RemoteRuns {
    /// Shows the lines of a run, and those to come if it is followed.
    pub(super) fn show_log(
        &self,
        id: &str,
        follow: bool,
        terminal: Terminal,
        take: TakeLine<'_>,
    ) -> Result<Exit, CommandError> {
        let mut projection = RunProjection::default();
        let mut show = |record: Record| {
            let mut failed = Ok(());
            projection.apply(&record, &mut |line| {
                if failed.is_ok() {
                    failed = take(&line);
                }
            });
            failed.map_err(CommandError::from)
        };
        if !follow {
            self.each_record(id, &mut show)?;
            return Ok(Exit::Success);
        }
        self.follow(id, terminal, &mut show)?;
        let Row { stored, .. } = self.row(id)?;
        if let Some(status) = stored.status {
            say(&format!("the run {}", status.name()));
        }
        Ok(Exit::Success)
    }

    /// Reads the records of a run until it has ended, over restarts of the server.
    pub(in crate::cli) fn follow(
        &self,
        id: &str,
        terminal: Terminal,
        take: &mut dyn FnMut(Record) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let mut next = 1;
        let mut away: Option<Instant> = None;
        loop {
            let before = next;
            let failed = match self.stream(id, &mut next, take) {
                Ok(StreamEnd::Run) => return Ok(()),
                Ok(StreamEnd::Broken) => None,
                Err(CommandError::User(error)) if error.is_of(kind::HOST_FAULT) => Some(error),
                Err(error) => return Err(error),
            };
            if next > before {
                away = None;
            }
            let since = *away.get_or_insert_with(|| {
                say(&terminal.warning_text(&format!("{} is away; waiting for it", self.server.name()), None));
                Instant::now()
            });
            if since.elapsed() > AWAY_MAX {
                let error = failed.unwrap_or_else(|| UserError::new(kind::HOST_FAULT, "the server ends its streams"));
                return Err(error
                    .running()
                    .hint(format!("the run continues there; to follow it: wfhost logs -f {id}"))
                    .into());
            }
            std::thread::sleep(TRY_AGAIN_AFTER);
        }
    }

    /// Reads one stream of events, from record `next` on.
    fn stream(
        &self,
        id: &str,
        next: &mut u64,
        take: &mut dyn FnMut(Record) -> Result<(), CommandError>,
    ) -> Result<StreamEnd, CommandError> {
        let query = [("encoded", "true".to_owned()), ("from", next.to_string())];
        let path = ["runs", id, "events"];
        let mut event = String::new();
        let mut end = StreamEnd::Broken;
        self.server.lines(&Ask::get(&path).query(&query), "text/event-stream", &mut |line| {
            if let Some(name) = line.strip_prefix(b"event: ") {
                event = String::from_utf8_lossy(name).into_owned();
            }
            let Some(data) = line.strip_prefix(b"data: ") else { return Ok(true) };
            match event.as_str() {
                "record" => {
                    take(record(data)?)?;
                    *next += 1;
                }
                "end" => {
                    end = StreamEnd::Run;
                    return Ok(false);
                }
                "problem" => {
                    let problem: Value = serde_json::from_slice(data).unwrap_or_default();
                    let why = problem["detail"].as_str().or(problem["title"].as_str()).unwrap_or("it says not why");
                    return Err(UserError::new(kind::USAGE, format!("the server ends the stream: {why}")).into());
                }
                _ => return Ok(event != "drain"),
            }
            Ok(true)
        })?;
        Ok(end)
    }
}
