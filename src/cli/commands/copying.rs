//! What `backup` and `restore` share: progress, and why they refuse.

use crate::cli::report::error::{UserError, kind};
use crate::cli::report::journal::ANOTHER_FOLDER;
use crate::cli::terminal::Terminal;
use crate::cli::watch::redraw::{Redraw, Size};
use crate::host::BackupError;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// How often progress is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// A line on a terminal that shows how far a copy is. It disappears when this is dropped.
pub(in crate::cli) struct Meter {
    verb: &'static str,
    /// `None` if nobody sees it.
    redraw: Option<Redraw>,
    next: Instant,
}

impl Meter {
    pub(in crate::cli) fn new(verb: &'static str, terminal: Terminal, json: bool) -> Self {
        let redraw = (terminal.live && !json).then(Redraw::default);
        Self { verb, redraw, next: Instant::now() + DRAW_EVERY }
    }

    pub(in crate::cli) fn show(&mut self, done: u64, total: u64) {
        if Instant::now() >= self.next {
            self.next = Instant::now() + DRAW_EVERY;
            self.draw(&[format!("{} {} of {}", self.verb, byte_count(done), byte_count(total))]);
        }
    }

    fn draw(&mut self, lines: &[String]) {
        if let Some(redraw) = &mut self.redraw {
            let frame = redraw.frame("", lines, Size::now());
            let _ = std::io::stderr().lock().write_all(frame.as_bytes());
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.draw(&[]);
    }
}

/// Bytes for people, with one decimal.
pub(in crate::cli) fn byte_count(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} bytes"),
        0x400..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1_024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

/// Why a copy is not made or restored.
pub(in crate::cli) fn refused(error: BackupError) -> UserError {
    let hint = match &error {
        BackupError::NotEmpty(_) => Some("name a new or empty folder".to_owned()),
        BackupError::NotABackup(_) => Some("`wfhost backup DIR` makes one".to_owned()),
        BackupError::Interrupted(_) => Some("make another one, and remove this".to_owned()),
        BackupError::Damaged { .. } | BackupError::Component(_) => Some("restore another copy".to_owned()),
        BackupError::Occupied(_) => Some(format!("move the folder away first, or {ANOTHER_FOLDER}")),
        BackupError::OriginalExists { .. } => {
            Some("stop its hosts and move it away; or --beside-original, for a second life of these runs".to_owned())
        }
        _ => None,
    };
    let kind = match &error {
        BackupError::NotEmpty(_) | BackupError::Occupied(_) | BackupError::OriginalExists { .. } => kind::CONFLICT,
        BackupError::Store(_) => kind::JOURNAL,
        _ => kind::UNREADABLE,
    };
    match error {
        BackupError::Store(error) => error.into(),
        error => UserError::new(kind, error.to_string()).hint_maybe(hint),
    }
}
