//! The two text formats.

use std::fmt::Write as _;

/// A text format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// That of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format that a header `Accept` asks for.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        let names = |one: &str| one.split(';').next().is_some_and(|kind| kind.trim() == "application/openmetrics-text");
        if accept.split(',').any(names) { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The value of `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// A text of OpenMetrics in this format. In that of Prometheus a family of counters has the
    /// name of its samples, and there is no kind for information.
    pub(super) fn of(self, open_metrics: String) -> String {
        if self == Self::OpenMetrics {
            return open_metrics;
        }
        let mut text = String::with_capacity(open_metrics.len());
        // The help of a family stands before its kind.
        let mut help = None;
        for line in open_metrics.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "HELP", _, about] => help = Some(about),
                ["#", "TYPE", name, kind] => {
                    let (suffix, kind) = match kind {
                        "counter" => ("_total", kind),
                        "info" => ("_info", "gauge"),
                        _ => ("", kind),
                    };
                    if let Some(about) = help.take() {
                        let _ = writeln!(text, "# HELP {name}{suffix} {about}");
                    }
                    let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
                }
                ["#", ..] => {}
                _ => {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        text
    }
}
