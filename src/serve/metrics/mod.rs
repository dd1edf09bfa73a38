//! Metrics for Prometheus, in its text format and in that of OpenMetrics 1.0.
//!
//! Nothing is counted for metrics alone but requests: a scrape reads the counters that the
//! scheduler, the dispatcher and the journal have anyway. What is counted of runs is counted when
//! it is durable, so that the sums agree with the journal.
//!
//! - **I1** No label is the id of a run or a text from outside: each label has a bounded number of
//!   values.
//! - **I2** [`METRICS`] has every metric: `docs/metrics.md` has the same ones.

mod collector;
mod machine;
mod readings;
mod requests;
mod text;

pub(in crate::serve) use requests::{Requests, count};
pub use text::Format;

use super::service::Service;
use collector::Collector;
use prometheus_client::metrics::MetricType;
use readings::Samples;

#[cfg(test)]
mod tests;

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name. A counter's ends with `_total`.
    pub name: &'static str,
    /// Its kind, in the words of OpenMetrics.
    pub kind: MetricType,
    /// What it counts.
    pub help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricType::Counter, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricType::Gauge, help }
}

const fn histogram(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricType::Histogram, help }
}

/// Every metric.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    Metric { name: "wfhost_build_info", kind: MetricType::Info, help: "The release of wfhost." },
    counter("wfhost_runs_started_total", "Runs whose beginning is durable, by what started them."),
    counter("wfhost_runs_ended_total", "Runs whose end is durable, by how they ended."),
    gauge("wfhost_runs", "Unfinished runs of this server: in memory, parked, and paused among those in memory."),
    histogram("wfhost_run_duration_seconds", "From the beginning of a run to its end."),
    counter("wfhost_steps_total", "Steps of workflows that ended, by how. What a run takes over from another does not count."),
    counter("wfhost_step_fuel_total", "Fuel that runs used whose end is durable."),
    counter("wfhost_calls_total", "Calls that are over, by how they ended."),
    gauge("wfhost_calls_in_flight", "Calls that a handler carries out now."),
    gauge("wfhost_calls_queued", "Calls that wait for a permit of their handler, or for its rate."),
    histogram("wfhost_call_duration_seconds", "How long a handler took for a call."),
    counter("wfhost_slices_total", "Slices that a worker ran: steps and parts of steps."),
    counter("wfhost_preemptions_total", "Slices that were used up."),
    counter("wfhost_slow_slices_total", "Slices that took more than 10 ms."),
    counter("wfhost_steals_total", "Times that a worker took processes of another."),
    counter("wfhost_parks_total", "Times that a worker went to sleep."),
    gauge("wfhost_run_queue", "Processes that are ready to be stepped, in the global queue and in those of workers."),
    gauge("wfhost_timers", "Timers that are set."),
    gauge("wfhost_slots", "Instance slots for guests, used and free."),
    gauge("wfhost_admission_waiting", "Guests that wait for a slot."),
    counter("wfhost_evictions_total", "Guests whose slot was given to another."),
    counter("wfhost_restores_total", "Guests that continued from a stored state: after an eviction, or from a snapshot."),
    gauge("wfhost_held_bytes", "What the processes of all runs make the host hold: events, commands, keys and values."),
    counter("wfhost_snapshots_total", "Snapshots of processes, by their outcome."),
    counter("wfhost_snapshot_bytes_total", "Bytes of the snapshots that were written."),
    counter("wfhost_journal_commits_total", "Commits of the journal, each with an fsync."),
    histogram("wfhost_journal_commit_seconds", "How long a commit took."),
    histogram("wfhost_journal_group_records", "Records in a commit."),
    gauge("wfhost_journal_backlog_bytes", "Bytes of records that wait for the next commit."),
    gauge("wfhost_journal_bytes", "Bytes of each file of the journal."),
    gauge("wfhost_journal_full", "1 while the disk of the journal is full, else 0."),
    gauge("wfhost_journal_failed", "1 if the journal cannot be written any more, else 0."),
    counter("wfhost_signals_total", "Signals that came to this server, by their outcome."),
    gauge("wfhost_inbox_oldest_seconds", "How long the oldest entry of the inbox waits; 0 if there is none."),
    counter("wfhost_schedule_firings_total", "Due times of schedules, by their outcome."),
    histogram("wfhost_schedule_lateness_seconds", "How long after its due time a run of a schedule started."),
    counter("wfhost_webhook_deliveries_total", "Deliveries of webhooks, by their outcome."),
    counter("wfhost_http_requests_total", "Requests that were answered. An unknown route or method is `other`."),
    histogram("wfhost_http_request_duration_seconds", "How long a request took until its answer began."),
    gauge("wfhost_http_connections", "Connections that are open."),
    gauge("wfhost_sse_clients", "Streams of events that are open."),
    gauge("wfhost_sse_lag_events", "Durable records, or changes of state, that the stream which is furthest behind was not sent."),
    counter("wfhost_otlp_spans_total", "Spans of traces, accepted by the collector or dropped."),
    counter("process_cpu_seconds_total", "Time on processors, of the user and the system."),
    gauge("process_start_time_seconds", "When the process started, in seconds since 1970."),
    gauge("process_resident_memory_bytes", "Memory in use."),
    gauge("process_virtual_memory_bytes", "Address space in use; guests reserve much of it."),
    gauge("process_open_fds", "Files that are open."),
    gauge("process_max_fds", "Files that may be open."),
    gauge("process_threads", "Threads."),
];

impl Service {
    /// All metrics as a text. It reads files, so it belongs on a thread for that.
    #[must_use]
    pub fn metrics(&self, format: Format) -> String {
        let mut samples = Samples::default();
        readings::read(self, &mut samples);
        self.requests.read(&mut samples);
        machine::read(&mut samples);
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(Collector(samples)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)
            .expect("invariant: a text takes what it is given");
        format.of(text)
    }
}
