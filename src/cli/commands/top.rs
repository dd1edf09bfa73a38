//! `wfhost top`: what a server does, as a table that changes.

use crate::cli::args::authority::{Authority, trusting, unanswered};
use crate::cli::args::http::{named, token_for};
use crate::cli::args::server::ServerArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::table::Table;
use crate::cli::terminal::{Terminal, unwritable};
use crate::dispatch::http::{Client, client};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt as _, Full, Limited};
use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tower_service::Service as _;
use url::Url;

/// Bytes of the server's metrics.
const METRICS_BYTES_MAX: usize = 16 << 20;

/// How long the server may take to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost top
  wfhost top --server https://flows.example.com --every 5
  wfhost top --once

It reads the metrics of `wfhost serve` with the token in WFHOST_TOKEN or that of the login, which needs the scope `metrics`. Rates are \
those since the table before; the first table, and that of --once, has totals. Where the output is no terminal, each \
table is appended.")]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    pub(in crate::cli) server: ServerArguments,
    /// Seconds between two tables: 1 to 3,600.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(in crate::cli) every: u64,
    /// Print one table.
    #[arg(long)]
    pub(in crate::cli) once: bool,
}

pub(in crate::cli) fn top(command: &Arguments, _: Terminal) -> Result<Exit, CommandError> {
    let fault = |error: std::io::Error| UserError::new(kind::HOST_FAULT, format!("no threads can be started: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fault)?;
    let mut server = Server::new(&command.server)?;
    let mut before: Option<(Instant, Samples)> = None;
    loop {
        let now = Samples::read(&runtime.block_on(server.metrics())?);
        let at = Instant::now();
        let clears = !command.once && std::io::stdout().is_terminal();
        let since = before.as_ref().map(|(begun, samples)| (samples, at.duration_since(*begun)));
        let table = tables(&now, since);
        let screen = if clears { format!("\x1b[H\x1b[2J{table}") } else { table };
        let mut out = std::io::stdout().lock();
        match out.write_all(screen.as_bytes()).and_then(|()| out.flush()) {
            // The reader has what it wanted.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Success),
            written => written.map_err(unwritable)?,
        }
        drop(out);
        if command.once {
            return Ok(Exit::Success);
        }
        before = Some((at, now));
        std::thread::sleep(Duration::from_secs(command.every));
    }
}

/// Where the metrics are read.
struct Server {
    client: Client,
    url: Url,
    token: String,
}

impl Server {
    fn new(server: &ServerArguments) -> Result<Self, UserError> {
        let mut url = server.url()?;
        let token = token_for(&url)?;
        let authority = Authority::of(server.ca.as_deref(), &named(&url))?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("metrics");
        }
        let client = client(&Arc::new(trusting(authority.as_ref())?));
        let client = client.map_err(|error| UserError::new(kind::HOST_FAULT, error.to_string()))?;
        Ok(Self { client, url, token })
    }

    async fn metrics(&mut self) -> Result<String, UserError> {
        let refused = |(why, hint): (String, Option<String>)| {
            UserError::new(kind::HOST_FAULT, format!("{}: {why}", self.url)).hint_maybe(hint)
        };
        let request = http::Request::get(self.url.as_str()).header("authorization", format!("Bearer {}", self.token));
        let request = request.body(Full::new(Bytes::new())).map_err(|error| refused((error.to_string(), None)))?;
        let whole = async {
            let answer = self.client.call(request).await.map_err(|error| unanswered(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), METRICS_BYTES_MAX).collect().await;
            let bytes = body.map_err(|error| (error.to_string(), None))?.to_bytes();
            if status.is_success() { Ok(bytes) } else { Err((format!("the server answers {status}"), None)) }
        };
        let answered = tokio::time::timeout(ANSWER_TIME_MAX, whole).await;
        let bytes = answered.unwrap_or_else(|_| Err(("no answer in time".to_owned(), None))).map_err(refused)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| refused(("the answer is no text".to_owned(), None)))
    }
}

/// Samples by their names and labels, as the text has them.
#[derive(Default)]
struct Samples(BTreeMap<String, f64>);

impl Samples {
    fn read(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.rsplit_once(' '));
        Self(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
    }

    fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The values of a label, in all samples of this name.
    fn values<'s>(&'s self, name: &str, label: &str) -> Vec<&'s str> {
        let begins = format!("{name}{{");
        let of = |sample: &'s String| {
            let labels = sample.strip_prefix(&begins)?;
            labels.split_once(&format!("{label}=\""))?.1.split_once('"').map(|(value, _)| value)
        };
        let mut values: Vec<&str> = self.0.keys().filter_map(of).collect();
        values.dedup();
        values
    }
}

fn tables(now: &Samples, before: Option<(&Samples, Duration)>) -> String {
    // A rate, or a total if there was no table before.
    let rate = |name: &str| match before {
        Some((before, time)) => {
            format!("{:.1}/s", (now.get(name) - before.get(name)).max(0.0) / time.as_secs_f64().max(0.001))
        }
        None => format!("{}", now.get(name)),
    };
    let level = |name: &str| format!("{}", now.get(name));
    let mut text = format!(
        "runs: {} in memory, {} parked, {} paused   slots: {} used, {} free, {} guests wait   ready: {}\n\
         journal: {} commits, {} bytes wait{}   requests open: {} connections, {} streams\n\n",
        level("wfhost_runs{state=\"resident\"}"),
        level("wfhost_runs{state=\"parked\"}"),
        level("wfhost_runs{state=\"paused\"}"),
        level("wfhost_slots{state=\"used\"}"),
        level("wfhost_slots{state=\"free\"}"),
        level("wfhost_admission_waiting"),
        now.get("wfhost_run_queue{queue=\"global\"}") + now.get("wfhost_run_queue{queue=\"local\"}"),
        rate("wfhost_journal_commits_total"),
        level("wfhost_journal_backlog_bytes"),
        if now.get("wfhost_journal_full") > 0.0 { ", the disk is full" } else { "" },
        level("wfhost_http_connections"),
        level("wfhost_sse_clients"),
    );
    let mut workers = Table::new(&["WORKER", "SLICES", "PREEMPTED", "SLOW", "STEALS", "PARKS"]);
    for worker in now.values("wfhost_slices_total", "worker") {
        let of = |name: &str| rate(&format!("wfhost_{name}_total{{worker=\"{worker}\"}}"));
        let cells = ["slices", "preemptions", "slow_slices", "steals", "parks"].map(of);
        workers.row([&[worker.to_owned()], &cells[..]].concat());
    }
    let mut calls = Table::new(&["HANDLER", "ANSWERED", "FAILED", "REFUSED", "IN FLIGHT", "QUEUED"]);
    for handler in now.values("wfhost_calls_in_flight", "handler") {
        let of = |outcome| rate(&format!("wfhost_calls_total{{handler=\"{handler}\",outcome=\"{outcome}\"}}"));
        let mut cells = vec![handler.to_owned()];
        cells.extend(["answered", "failed", "refused"].map(of));
        cells.extend(
            ["in_flight", "queued"].map(|what| level(&format!("wfhost_calls_{what}{{handler=\"{handler}\"}}"))),
        );
        calls.row(cells);
    }
    let mut ended = Table::new(&["WORKFLOW", "SUCCEEDED", "FAILED", "CANCELLED", "TIMED OUT"]);
    for workflow in now.values("wfhost_run_duration_seconds_count", "workflow") {
        let of = |status| rate(&format!("wfhost_runs_ended_total{{workflow=\"{workflow}\",status=\"{status}\"}}"));
        let cells = ["succeeded", "failed", "cancelled", "timed-out"].map(of);
        ended.row([&[workflow.to_owned()], &cells[..]].concat());
    }
    for table in [workers, calls, ended] {
        text.push_str(&table.text());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP wfhost_slices_total Slices.
wfhost_slices_total{worker=\"0\"} 100
wfhost_runs{state=\"resident\"} 7
wfhost_calls_in_flight{handler=\"http\"} 2
wfhost_calls_total{handler=\"http\",outcome=\"answered\"} 50
wfhost_run_duration_seconds_count{workflow=\"order\"} 5
wfhost_runs_ended_total{workflow=\"order\",status=\"succeeded\"} 5
";

    #[test]
    fn a_table_has_totals_first_and_then_rates() {
        let before = Samples::read(TEXT);
        let first = tables(&before, None);
        assert!(first.starts_with("runs: 7 in memory, 0 parked"), "{first}");
        let now = Samples::read(&TEXT.replace("} 100", "} 300").replace("} 50", "} 60"));
        let second = tables(&now, Some((&before, Duration::from_secs(2))));
        for (table, row) in [
            (&first, "0       100"),
            (&first, "http     50"),
            (&first, "order     5"),
            (&second, "0       100.0/s"),
            (&second, "http     5.0/s"),
            (&second, "order     0.0/s"),
        ] {
            assert!(table.lines().any(|line| line.starts_with(row)), "{row} in\n{table}");
        }
    }
}
