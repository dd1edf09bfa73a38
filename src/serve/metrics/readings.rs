//! Reads the counters of the host and its journal.

use crate::base::HistogramCounts;
use crate::dispatch::HandlerStatistics;
use crate::journal::JournalStatistics;
use crate::journal::catalog::InboxFilter;
use crate::run::{AwaitedKind, system_time};
use crate::scheduler::Stats;
use crate::serve::service::Service;

/// Labels with their values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Microseconds in a second.
const MICROS: f64 = 1e6;

/// What a sample is.
#[derive(Debug)]
pub(super) enum Value {
    Count(u64),
    /// A counter that is no whole number.
    Amount(f64),
    Level(f64),
    /// What was counted, and by what its numbers are divided.
    Histogram(HistogramCounts, f64),
    Info,
}

/// The samples of a scrape, by the names of their metrics.
#[derive(Debug, Default)]
pub(super) struct Samples(pub(super) Vec<(&'static str, Labels, Value)>);

impl Samples {
    pub(super) fn count(&mut self, name: &'static str, labels: Labels, count: u64) {
        self.0.push((name, labels, Value::Count(count)));
    }

    #[allow(clippy::cast_precision_loss, reason = "levels are shown, not added up")]
    pub(super) fn level(&mut self, name: &'static str, labels: Labels, level: u64) {
        self.0.push((name, labels, Value::Level(level as f64)));
    }

    /// Durations in microseconds, as seconds.
    pub(super) fn durations(&mut self, name: &'static str, labels: Labels, counts: HistogramCounts) {
        self.0.push((name, labels, Value::Histogram(counts, MICROS)));
    }
}

fn label(name: &'static str, value: impl ToString) -> Labels {
    vec![(name, value.to_string())]
}

pub(super) fn read(service: &Service, samples: &mut Samples) {
    let release = label("version", env!("CARGO_PKG_VERSION"));
    samples.0.push(("wfhost_build_info", release, Value::Info));
    let host = service.host();
    runs(service, samples);
    for (workflow, ending, count) in host.step_counts() {
        let labels = vec![("workflow", workflow.to_string()), ("outcome", ending.name().to_owned())];
        samples.count("wfhost_steps_total", labels, count);
    }
    samples.count("wfhost_restores_total", Vec::new(), host.guests().restores());
    for (handler, statistics) in host.call_statistics() {
        calls(&handler, statistics, samples);
    }
    for (worker, stats) in host.worker_stats().iter().enumerate() {
        of_worker(worker, stats, samples);
    }
    scheduler(&host.stats(), host.guests().slots().into(), samples);
    samples.level("wfhost_held_bytes", Vec::new(), host.held_bytes());
    let snapshots = host.snapshot_counts();
    for (outcome, count) in [("written", snapshots.kept), ("skipped", snapshots.skipped), ("failed", snapshots.failed)]
    {
        samples.count("wfhost_snapshots_total", label("outcome", outcome), count);
    }
    samples.count("wfhost_snapshot_bytes_total", Vec::new(), snapshots.bytes);
    if let Ok(Some(statistics)) = host.journal().map(|journal| journal.map(|journal| journal.store().statistics())) {
        journal(statistics, samples);
    }
    #[cfg(feature = "otlp")]
    if let Some(exporter) = service.exporter.get() {
        let (sent, dropped) = exporter.counts();
        for (outcome, count) in [("sent", sent), ("dropped", dropped)] {
            samples.count("wfhost_otlp_spans_total", label("outcome", outcome), count);
        }
    }
    of_service(service, samples);
    samples.level("wfhost_sse_clients", Vec::new(), service.open_streams() as u64);
    samples.level("wfhost_sse_lag_events", Vec::new(), service.stream_lag());
}

/// What comes to the service from outside, and what it starts by itself.
fn of_service(service: &Service, samples: &mut Samples) {
    for (outcome, count) in service.host().signal_counts() {
        samples.count("wfhost_signals_total", label("outcome", outcome), count);
    }
    let now = system_time();
    for kind in [AwaitedKind::Signal, AwaitedKind::Uncertain] {
        let oldest = InboxFilter { kind: Some(kind), limit: Some(1), ..InboxFilter::default() };
        // What cannot be read is told by the metrics of the journal.
        let waiting = service.host().inbox(&oldest, &|_| true).unwrap_or_default();
        let age = waiting.first().map_or(0, |waiting| now.since(waiting.awaited.since).0 / 1_000_000);
        samples.level("wfhost_inbox_oldest_seconds", label("kind", kind.name()), age);
    }
    for (schedule, outcome, count) in service.schedule_firings() {
        let labels = vec![("schedule", schedule), ("outcome", outcome.to_owned())];
        samples.count("wfhost_schedule_firings_total", labels, count);
    }
    samples.durations("wfhost_schedule_lateness_seconds", Vec::new(), service.schedule_lateness());
    for ((webhook, outcome), count) in service.delivery_counts() {
        let labels = vec![("webhook", webhook.to_string()), ("outcome", outcome.to_string())];
        samples.count("wfhost_webhook_deliveries_total", labels, count);
    }
}

fn runs(service: &Service, samples: &mut Samples) {
    let runs = service.host().runs();
    let (resident, parked) = service.host().run_counts();
    let paused = runs.iter().filter(|run| run.is_paused()).count();
    let parked = parked as u64 + service.inherited();
    for (state, count) in [("resident", resident as u64), ("parked", parked), ("paused", paused as u64)] {
        samples.level("wfhost_runs", label("state", state), count);
    }
}

fn calls(handler: &str, statistics: HandlerStatistics, samples: &mut Samples) {
    let outcomes = [
        ("answered", statistics.answered),
        ("failed", statistics.failed),
        ("refused", statistics.refused),
        ("fault", statistics.faults),
        ("abandoned", statistics.abandoned),
    ];
    for (outcome, count) in outcomes {
        let labels = vec![("handler", handler.to_owned()), ("outcome", outcome.to_owned())];
        samples.count("wfhost_calls_total", labels, count);
    }
    samples.level("wfhost_calls_in_flight", label("handler", handler), statistics.running);
    samples.level("wfhost_calls_queued", label("handler", handler), statistics.waiting);
    samples.durations("wfhost_call_duration_seconds", label("handler", handler), statistics.durations);
}

fn of_worker(worker: usize, stats: &Stats, samples: &mut Samples) {
    for (name, count) in [
        ("wfhost_slices_total", stats.steps),
        ("wfhost_preemptions_total", stats.preemptions),
        ("wfhost_slow_slices_total", stats.slow_steps),
        ("wfhost_steals_total", stats.steals),
        ("wfhost_parks_total", stats.parks),
    ] {
        samples.count(name, label("worker", worker), count);
    }
}

fn scheduler(stats: &Stats, slots: u64, samples: &mut Samples) {
    samples.level("wfhost_run_queue", label("queue", "global"), stats.global_queue);
    samples.level("wfhost_run_queue", label("queue", "local"), stats.local_deques);
    samples.level("wfhost_timers", Vec::new(), stats.timers);
    let used = stats.slots_used.min(slots);
    samples.level("wfhost_slots", label("state", "used"), used);
    samples.level("wfhost_slots", label("state", "free"), slots - used);
    samples.level("wfhost_admission_waiting", Vec::new(), stats.admitting);
    samples.count("wfhost_evictions_total", Vec::new(), stats.evictions);
}

fn journal(statistics: JournalStatistics, samples: &mut Samples) {
    for (workflow, runs) in statistics.workflows {
        let with = |name, value: &str| vec![("workflow", workflow.to_string()), (name, value.to_owned())];
        for (source, count) in &runs.started {
            samples.count("wfhost_runs_started_total", with("source", source), *count);
        }
        for (status, count) in &runs.ended {
            samples.count("wfhost_runs_ended_total", with("status", status.name()), *count);
        }
        samples.durations("wfhost_run_duration_seconds", label("workflow", &workflow), runs.durations);
        samples.count("wfhost_step_fuel_total", label("workflow", &workflow), runs.fuel);
    }
    samples.count("wfhost_journal_commits_total", Vec::new(), statistics.commits.count());
    samples.durations("wfhost_journal_commit_seconds", Vec::new(), statistics.commits);
    let records = Value::Histogram(statistics.group_records, 1.0);
    samples.0.push(("wfhost_journal_group_records", Vec::new(), records));
    samples.level("wfhost_journal_backlog_bytes", Vec::new(), statistics.backlog_bytes);
    for (file, bytes) in statistics.files {
        samples.level("wfhost_journal_bytes", label("file", file), bytes);
    }
    samples.level("wfhost_journal_full", Vec::new(), statistics.is_full.into());
    samples.level("wfhost_journal_failed", Vec::new(), statistics.has_failed.into());
}
