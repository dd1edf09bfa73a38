//! What a program is started with, and what it leaves: its world.

use super::files::tree::Folder;
use super::files::{Sink, Source};
use std::sync::Arc;
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream};

/// Nanoseconds by which a program's clocks advance whenever it reads them: a loop that waits for
/// the time to pass ends.
const TICK_NANOS: u64 = 1_000;

/// The world of one program. It is deterministic: a program sees what it is given, files that begin
/// with those that it is given, and clocks that begin at the time of its step and advance when they
/// are read, or waited for.
pub(crate) struct World {
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    stdin: Bytes,
    pub(super) root: Arc<Folder>,
    stdout: Sink,
    stderr: Sink,
    elapsed_nanos: u64,
}

impl World {
    /// `output_bytes_max` bounds standard output and standard error, each.
    pub(crate) fn new(
        arguments: Vec<String>,
        environment: Vec<(String, String)>,
        stdin: Bytes,
        root: Arc<Folder>,
        output_bytes_max: u64,
    ) -> Self {
        Self {
            arguments,
            environment,
            stdin,
            root,
            stdout: Sink::new("standard output", output_bytes_max),
            stderr: Sink::new("standard error", output_bytes_max),
            elapsed_nanos: 0,
        }
    }

    pub(super) fn stdin(&self) -> DynInputStream {
        Box::new(Source::of_bytes(self.stdin.clone()))
    }

    pub(super) fn stdout(&self) -> DynOutputStream {
        Box::new(self.stdout.clone())
    }

    pub(super) fn stderr(&self) -> DynOutputStream {
        Box::new(self.stderr.clone())
    }

    /// The nanoseconds since its step began, and a tick more each time.
    pub(super) fn tick(&mut self) -> u64 {
        self.elapsed_nanos = self.elapsed_nanos.saturating_add(TICK_NANOS);
        self.elapsed_nanos
    }

    /// Waits: the time passes at once.
    pub(super) fn wait(&mut self, nanos: u64) {
        self.elapsed_nanos = self.elapsed_nanos.saturating_add(nanos);
    }

    /// What it wrote to standard output.
    pub(crate) fn take_stdout(&self) -> Vec<u8> {
        self.stdout.take()
    }

    /// What it wrote to standard error.
    pub(crate) fn take_stderr(&self) -> Vec<u8> {
        self.stderr.take()
    }

    /// Its files.
    pub(crate) fn root(&self) -> &Arc<Folder> {
        &self.root
    }
}

/// A program has called `exit`.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the program called exit with code {0}")]
pub(crate) struct ProgramExit(pub(crate) u8);
