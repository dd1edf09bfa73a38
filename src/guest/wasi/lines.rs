//! What a guest writes to standard output and standard error, as log lines.

use crate::process::{Level, LogLine};
use parking_lot::Mutex;
use std::sync::Arc;
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{OutputStream, StreamError, StreamResult};

/// Bytes of a line; a longer one is split. Arbitrary.
const LINE_BYTES_MAX: usize = 4_096;

/// Bytes recorded of one step; the rest is dropped and its lines are counted. The process's own
/// limit applies after it. Arbitrary.
const STEP_BYTES_MAX: usize = 256 << 10;

/// What a line counts in addition to its text, so that empty ones are bounded too. Arbitrary.
const LINE_COST_BYTES: usize = 16;

/// Bytes that a stream accepts in one call, as `check-write` reports; more is a trap. Arbitrary.
pub(super) const WRITE_BYTES_MAX: usize = 64 << 10;

/// The two streams of one guest. All of the guest's handles for one of them refer to the same
/// stream. The lock is never contended: a guest runs on one thread at a time.
#[derive(Clone, Default)]
pub(super) struct Captured(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    done: Vec<LogLine>,
    /// The line being written, for each stream.
    unfinished: [Vec<u8>; 2],
    /// Bytes and costs of this step.
    bytes: usize,
    dropped: u64,
    /// Whether the line being written has lost bytes, for each stream.
    cut: [bool; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn level(self) -> Level {
        match self {
            Self::Stdout => Level::Info,
            Self::Stderr => Level::Warn,
        }
    }
}

impl Captured {
    pub(super) fn stream(&self, stream: Stream) -> Box<dyn OutputStream> {
        Box::new(Writer { captured: self.clone(), stream })
    }

    pub(super) fn take_lines(&self) -> Vec<LogLine> {
        std::mem::take(&mut self.0.lock().done)
    }

    pub(super) fn end_step(&self) -> u64 {
        let mut lines = self.0.lock();
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !lines.unfinished[stream as usize].is_empty() || lines.cut[stream as usize] {
                lines.end_line(stream);
            }
        }
        lines.bytes = 0;
        std::mem::take(&mut lines.dropped)
    }
}

impl Lines {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece {
                [text @ .., b'\n'] => (text, true),
                text => (text, false),
            };
            self.append(stream, text);
            if ends {
                self.end_line(stream);
            }
        }
    }

    fn append(&mut self, stream: Stream, mut text: &[u8]) {
        while !text.is_empty() {
            let left = STEP_BYTES_MAX.saturating_sub(self.bytes);
            let line = &mut self.unfinished[stream as usize];
            let taken = text.len().min(LINE_BYTES_MAX - line.len()).min(left);
            line.extend_from_slice(&text[..taken]);
            self.bytes += taken;
            text = &text[taken..];
            if taken == left && !text.is_empty() {
                self.cut[stream as usize] = true;
                return;
            }
            if !text.is_empty() {
                self.end_line(stream);
            }
        }
    }

    fn end_line(&mut self, stream: Stream) {
        let line = std::mem::take(&mut self.unfinished[stream as usize]);
        let cut = std::mem::take(&mut self.cut[stream as usize]);
        self.bytes += LINE_COST_BYTES;
        if cut || self.bytes > STEP_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        let text = String::from_utf8_lossy(line).into_owned();
        self.done.push(LogLine { level: stream.level(), text, fields: None });
    }
}

struct Writer {
    captured: Captured,
    stream: Stream,
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > WRITE_BYTES_MAX {
            return Err(StreamError::trap("cannot write more than `check-write` allows"));
        }
        self.captured.0.lock().write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[LogLine]) -> Vec<(Level, &str)> {
        lines.iter().map(|line| (line.level, line.text.as_str())).collect()
    }

    #[test]
    fn lines_end_at_newlines_and_at_the_end_of_the_step() {
        let captured = Captured::default();
        let mut lines = captured.0.lock();
        lines.write(Stream::Stdout, b"one\r\ntw");
        lines.write(Stream::Stderr, b"bad \xff\n");
        lines.write(Stream::Stdout, b"o\n\nthree");
        drop(lines);
        let done = captured.take_lines();
        let info = |text| (Level::Info, text);
        assert_eq!(texts(&done), [info("one"), (Level::Warn, "bad \u{fffd}"), info("two"), info("")]);
        let (dropped, done) = (captured.end_step(), captured.take_lines());
        assert_eq!((texts(&done), dropped), (vec![info("three")], 0));
        assert_eq!((captured.end_step(), captured.take_lines()), (0, vec![]));
    }

    #[test]
    fn a_long_line_is_cut_into_several() {
        let captured = Captured::default();
        captured.0.lock().write(Stream::Stdout, &[b'x'; 2 * LINE_BYTES_MAX + 1]);
        let (dropped, done) = (captured.end_step(), captured.take_lines());
        let lengths: Vec<_> = done.iter().map(|line| line.text.len()).collect();
        assert_eq!((lengths, dropped), (vec![LINE_BYTES_MAX, LINE_BYTES_MAX, 1], 0));
    }

    #[test]
    fn what_is_beyond_the_bound_of_a_step_is_dropped_and_counted() {
        let captured = Captured::default();
        let flood = b"0123456789abcde\n".repeat(1 << 16);
        captured.0.lock().write(Stream::Stdout, &flood);
        let (dropped, done) = (captured.end_step(), captured.take_lines());
        assert_eq!(done.len() as u64 + dropped, 1 << 16);
        assert!(done.iter().all(|line| line.text == "0123456789abcde"));
        let recorded: usize = done.iter().map(|line| line.text.len() + LINE_COST_BYTES).sum();
        assert!(recorded <= STEP_BYTES_MAX && recorded > STEP_BYTES_MAX - 100);

        let endless = vec![b'x'; 4 * STEP_BYTES_MAX];
        captured.0.lock().write(Stream::Stdout, &endless);
        captured.0.lock().write(Stream::Stdout, &endless);
        let (dropped, done) = (captured.end_step(), captured.take_lines());
        assert!(done.len() <= STEP_BYTES_MAX / LINE_BYTES_MAX && dropped == 1, "{} {dropped}", done.len());

        captured.0.lock().write(Stream::Stdout, b"the next step starts anew\n");
        captured.end_step();
        assert_eq!(captured.take_lines().len(), 1);
    }
}
