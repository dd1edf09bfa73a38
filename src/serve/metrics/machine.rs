//! What the operating system says of this process: the `process_` metrics that every exporter has.

use super::readings::{Samples, Value};
use std::fs;

/// Reads `/proc`; where there is none, nothing is said.
pub(super) fn read(samples: &mut Samples) {
    if let Ok(stat) = fs::read_to_string("/proc/self/stat") {
        of_stat(&stat, samples);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        // One of them is the folder that is read.
        samples.level("process_open_fds", Vec::new(), (files.count() as u64).saturating_sub(1));
    }
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    samples.level("process_max_fds", Vec::new(), files.unwrap_or(u64::MAX));
}

#[allow(clippy::cast_precision_loss, reason = "times and sizes are shown, not added up")]
fn of_stat(stat: &str, samples: &mut Samples) {
    // The name of the process stands in parentheses, and may have any character.
    let fields: Vec<u64> = stat
        .rsplit_once(") ")
        .map(|(_, rest)| rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
        .unwrap_or_default();
    // Numbers of proc(5), from 3.
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
    let cpu = (field(14) + field(15)) as f64 / ticks;
    samples.0.push(("process_cpu_seconds_total", Vec::new(), Value::Amount(cpu)));
    samples.level("process_threads", Vec::new(), field(20));
    if let Some(booted) = booted() {
        let started = booted as f64 + field(22) as f64 / ticks;
        samples.0.push(("process_start_time_seconds", Vec::new(), Value::Level(started)));
    }
    samples.level("process_virtual_memory_bytes", Vec::new(), field(23));
    let page = rustix::param::page_size() as u64;
    samples.level("process_resident_memory_bytes", Vec::new(), field(24) * page);
}

/// When the machine started, in seconds since 1970.
fn booted() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
