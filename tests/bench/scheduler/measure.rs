//! What is measured, and how it is printed.

use std::time::Duration;

pub(crate) fn out(metric: &str, value: f64) {
    println!("{metric} {value:.3}");
}

/// Bytes of this process in memory.
pub(crate) fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: f64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096.0
}

/// CPU time of all threads so far, in nanoseconds as the kernel's scheduler counts it.
pub(crate) fn cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let nanos = tasks.flatten().filter_map(|task| {
        let line = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        line.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

pub(crate) fn percentile_us(values_ns: &mut [u64], of: f64) -> f64 {
    values_ns.sort_unstable();
    values_ns.get(((values_ns.len().max(1) - 1) as f64 * of) as usize).map_or(0.0, |ns| *ns as f64 / 1e3)
}
