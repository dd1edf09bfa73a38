//! What something costs this process.

use std::fs;
use std::process::Command;

/// What was used in the meantime.
pub(super) struct Used {
    /// Nanoseconds of processors, of all threads.
    pub(super) cpu_ns: f64,
    /// Bytes by which the process was larger, at most, than before.
    pub(super) grown: u64,
}

pub(super) fn used_by<T>(act: impl FnOnce() -> T) -> (Used, T) {
    // The previous maximum no longer counts.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let (cpu, memory) = (cpu_ns(), memory("VmRSS:"));
    let done = act();
    let used = Used { cpu_ns: cpu_ns() - cpu, grown: self::memory("VmHWM:").saturating_sub(memory) };
    (used, done)
}

/// Processor time of all existing threads.
fn cpu_ns() -> f64 {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ran = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    ran.sum()
}

/// One field of `/proc/self/status`, in bytes; 0 where there is no such file.
fn memory(field: &str) -> u64 {
    let read = || {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find(|line| line.starts_with(field))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
    };
    read().unwrap_or_default()
}

/// Runs a test in a process of its own.
pub(super) fn alone(test: &str, act: impl FnOnce()) {
    const ALONE: &str = "WFHOST_TEST_ALONE";
    if std::env::var_os(ALONE).is_some_and(|name| name == test) {
        return act();
    }
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", test, "--nocapture"]).env(ALONE, test).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let is_good = output.status.success() && said.contains("1 passed");
    assert!(is_good, "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}
