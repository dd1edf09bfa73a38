//! What a program is started with, and what it leaves: its world.

use super::files::tree::Folder;
use super::files::{Sink, Source};
use crate::run::{BlobReader, BlobWriter};
use std::sync::Arc;
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream};

/// Nanoseconds by which a program's clocks advance whenever it reads them: a loop that waits for
/// the time to pass ends.
const TICK_NANOS: u64 = 1_000;

/// What a program reads from standard input.
pub(crate) enum Stdin {
    Bytes(Bytes),
    Blob(Arc<dyn BlobReader>),
}

/// The world of one program. It is deterministic: a program sees what it is given, files that begin
/// with those that it is given, and clocks that begin at the time of its step and advance when they
/// are read, or waited for.
pub(crate) struct World {
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    stdin: Stdin,
    pub(super) root: Arc<Folder>,
    stdout: Sink,
    stderr: Sink,
    elapsed_nanos: u64,
}

impl World {
    /// `output_bytes_max` bounds standard output and standard error, each. Standard output becomes
    /// a blob if there is one to write to.
    pub(crate) fn new(
        arguments: Vec<String>,
        environment: Vec<(String, String)>,
        stdin: Stdin,
        root: Arc<Folder>,
        output_bytes_max: u64,
        stdout: Option<Box<dyn BlobWriter>>,
    ) -> Self {
        const STDOUT: &str = "standard output";
        Self {
            arguments,
            environment,
            stdin,
            root,
            stdout: stdout.map_or_else(|| Sink::new(STDOUT, output_bytes_max), |blob| Sink::of_blob(STDOUT, blob)),
            stderr: Sink::new("standard error", output_bytes_max),
            elapsed_nanos: 0,
        }
    }

    pub(super) fn stdin(&self) -> DynInputStream {
        Box::new(match &self.stdin {
            Stdin::Bytes(bytes) => Source::of_bytes(bytes.clone()),
            Stdin::Blob(blob) => Source::of_blob(Arc::clone(blob)),
        })
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

    /// The blob that it wrote to standard output, not finished yet, and its last bytes.
    pub(crate) fn take_stdout_blob(&self) -> Option<(Box<dyn BlobWriter>, Vec<u8>)> {
        self.stdout.take_blob()
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
