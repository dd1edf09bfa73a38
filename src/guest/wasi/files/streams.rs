//! Streams of bytes that are in memory: ready at any time.

use super::tree::File;
use crate::guest::problem::Breach;
use crate::guest::wasi::lines::WRITE_BYTES_MAX;
use crate::process::{Problem, problem::kind};
use crate::run::{BlobReader, BlobWriter};
use parking_lot::Mutex;
use std::sync::Arc;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{InputStream, OutputStream, StreamError, StreamResult};

/// Bytes that one call reads at most.
const READ_BYTES_MAX: usize = super::READ_BYTES_MAX as usize;

/// Bytes that are written to a blob at once. Arbitrary.
const BLOB_CHUNK_BYTES: usize = 64 << 10;

/// What is read from: a file, or bytes such as those of standard input.
pub(in crate::guest::wasi) struct Source {
    from: From,
    position: u64,
}

enum From {
    File(Arc<File>),
    Bytes(Bytes),
    Blob(Arc<dyn BlobReader>),
}

impl Source {
    pub(super) fn of_file(file: Arc<File>, position: u64) -> Self {
        Self { from: From::File(file), position }
    }

    pub(in crate::guest::wasi) fn of_bytes(bytes: Bytes) -> Self {
        Self { from: From::Bytes(bytes), position: 0 }
    }

    pub(in crate::guest::wasi) fn of_blob(blob: Arc<dyn BlobReader>) -> Self {
        Self { from: From::Blob(blob), position: 0 }
    }
}

#[async_trait]
impl Pollable for Source {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for Source {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        let size = size.min(READ_BYTES_MAX);
        let bytes = match &self.from {
            From::File(file) => {
                let read = file.read(self.position, size).map(Bytes::from);
                read.map_err(|error| StreamError::LastOperationFailed(wasmtime::Error::from(error)))?
            }
            From::Blob(blob) => {
                blob.read(self.position, size).map_err(|error| StreamError::Trap(Breach(error.into()).into()))?
            }
            From::Bytes(all) => {
                let from = usize::try_from(self.position).unwrap_or(usize::MAX).min(all.len());
                all.slice(from..from.saturating_add(size).min(all.len()))
            }
        };
        if bytes.is_empty() {
            return Err(StreamError::Closed);
        }
        self.position += bytes.len() as u64;
        Ok(bytes)
    }
}

/// Writes to a file: from a position on, or at its end each time.
pub(super) struct Writer {
    file: Arc<File>,
    position: Option<u64>,
}

impl Writer {
    pub(super) fn new(file: Arc<File>, position: Option<u64>) -> Self {
        Self { file, position }
    }
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let at = self.position.unwrap_or_else(|| self.file.len());
        let failed = |error: ErrorCode| StreamError::LastOperationFailed(wasmtime::Error::from(error));
        self.file.write(at, &bytes).map_err(failed)?;
        if let Some(position) = &mut self.position {
            *position += bytes.len() as u64;
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

/// Standard output or standard error of a program. What is beyond its bound ends the program: to
/// drop it would be a loss in silence.
#[derive(Clone)]
pub(in crate::guest::wasi) struct Sink {
    name: &'static str,
    bytes_max: u64,
    written: Arc<Mutex<Written>>,
}

/// What was written.
enum Written {
    Bytes(Vec<u8>),
    /// A blob, and what is still to be written to it. `None` once it was taken.
    Blob(Option<Box<dyn BlobWriter>>, Vec<u8>),
}

impl Sink {
    pub(in crate::guest::wasi) fn new(name: &'static str, bytes_max: u64) -> Self {
        Self { name, bytes_max, written: Arc::new(Mutex::new(Written::Bytes(Vec::new()))) }
    }

    /// One whose bytes become a blob. The blob's own bound applies.
    pub(in crate::guest::wasi) fn of_blob(name: &'static str, writer: Box<dyn BlobWriter>) -> Self {
        let written = Written::Blob(Some(writer), Vec::with_capacity(BLOB_CHUNK_BYTES));
        Self { name, bytes_max: u64::MAX, written: Arc::new(Mutex::new(written)) }
    }

    /// What was written, if it was not to become a blob.
    pub(in crate::guest::wasi) fn take(&self) -> Vec<u8> {
        match &mut *self.written.lock() {
            Written::Bytes(bytes) => std::mem::take(bytes),
            Written::Blob(..) => Vec::new(),
        }
    }

    /// The blob that is not finished yet, and its last bytes.
    pub(in crate::guest::wasi) fn take_blob(&self) -> Option<(Box<dyn BlobWriter>, Vec<u8>)> {
        match &mut *self.written.lock() {
            Written::Bytes(_) => None,
            Written::Blob(writer, rest) => Some((writer.take()?, std::mem::take(rest))),
        }
    }

    #[cold]
    fn too_large(&self) -> StreamError {
        let problem = Problem::new(kind::TOO_LARGE, "The program writes more than it may").with_detail(format!(
            "more than {} bytes to {} (`limits: {{ payload: … }}`, or `parse: blob`)",
            self.bytes_max, self.name
        ));
        StreamError::Trap(Breach(problem).into())
    }
}

#[async_trait]
impl Pollable for Sink {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Sink {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        match &mut *self.written.lock() {
            Written::Bytes(written) => {
                if written.len() as u64 + bytes.len() as u64 > self.bytes_max {
                    return Err(self.too_large());
                }
                written.extend_from_slice(&bytes);
            }
            Written::Blob(writer, chunk) => {
                chunk.extend_from_slice(&bytes);
                if let Some(writer) = writer.as_mut().filter(|_| chunk.len() >= BLOB_CHUNK_BYTES) {
                    writer.write(chunk).map_err(|error| StreamError::Trap(Breach(error.into()).into()))?;
                    chunk.clear();
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}
