//! Files that are given as inputs, and become blobs of the run that is started with them: of this
//! machine, or of a server.

use super::http::Server;
use super::inputs::Unread;
use crate::cli::report::error::UserError;
use crate::host::Host;
use crate::process::Blob;
use crate::run::{BlobError, BlobWriter, MEDIA_TYPE, RunBlobs};
use crate::workflow::model::TakesBlob;
use serde_json::Value;
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// A larger file becomes a blob if the input may be one.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// Bytes of standard input for which a server is waited for. Arbitrary: what a blob may have by
/// default.
const STDIN_BYTES_MAX: u64 = 1 << 30;

/// The hint if a blob is too large.
const BOUNDS: &str = "docs/limits.md says how the operator raises the bounds of blobs";

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Media types by the ending of a file's name.
const MEDIA_TYPES: [(&str, &str); 15] = [
    ("csv", "text/csv"),
    ("gz", "application/gzip"),
    ("html", "text/html"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("jsonl", "application/x-ndjson"),
    ("md", "text/markdown"),
    ("ndjson", "application/x-ndjson"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("txt", "text/plain"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("zip", "application/zip"),
];

/// The media type of a file with this name.
pub(in crate::cli) fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    MEDIA_TYPES.iter().find(|(known, _)| *known == ending).map_or(MEDIA_TYPE, |(_, media_type)| media_type)
}

/// The ending of the name of a file with content of a media type.
pub(in crate::cli) fn ending(media_type: &str) -> Option<&'static str> {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    MEDIA_TYPES.iter().find(|(_, known)| *known == essence).map(|(ending, _)| *ending)
}

/// A file, or standard input, that is to become a blob.
struct Content {
    from: Box<dyn Read + Send>,
    media_type: &'static str,
    /// Bytes of it at most.
    bytes_max: u64,
}

impl Content {
    /// Opens what is named, unless it is read as text.
    fn open(takes: TakesBlob, path: &str) -> Result<Option<Self>, Unread> {
        let is_stdin = path == "-";
        let is_blob = match takes {
            TakesBlob::Never => false,
            TakesBlob::Always => true,
            TakesBlob::IfLarge if is_stdin => false,
            TakesBlob::IfLarge => is_large_or_no_text(Path::new(path)).map_err(|error| unreadable(path, &error))?,
        };
        if !is_blob {
            return Ok(None);
        }
        let media_type = media_type(Path::new(path));
        if is_stdin {
            return Ok(Some(Self { from: Box::new(std::io::stdin()), media_type, bytes_max: STDIN_BYTES_MAX }));
        }
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes_max, file) = opened.map_err(|error| unreadable(path, &error))?;
        Ok(Some(Self { from: Box::new(file), media_type, bytes_max }))
    }
}

fn unreadable(path: &str, error: &std::io::Error) -> Unread {
    format!("{path}: {error}").into()
}

/// Stores a file as a blob of a server, if it is to become one: the run that is started there with
/// its handle has it from then on.
pub(in crate::cli) fn store_on(server: &Server, takes: TakesBlob, path: &str) -> Result<Option<Value>, Unread> {
    let Some(Content { from, media_type, bytes_max }) = Content::open(takes, path)? else { return Ok(None) };
    server.upload(from, bytes_max, media_type).map(Some).map_err(|refused| {
        let UserError { title, hint, .. } = refused.into();
        Unread { message: format!("{path}: {title}"), hint: hint.or_else(|| Some(BOUNDS.to_owned())) }
    })
}

/// The blobs of files, which belong to this holder until the run has them.
pub(in crate::cli) struct Uploads<'a> {
    host: &'a Host,
    holder: Arc<str>,
    blobs: RunBlobs,
    is_used: Cell<bool>,
}

impl<'a> Uploads<'a> {
    pub(in crate::cli) fn new(host: &'a Host, is_durable: bool) -> Self {
        let holder: Arc<str> = format!("upload/{}", Host::fresh_id()).into();
        Self { host, blobs: host.blobs(&holder, is_durable), holder, is_used: Cell::new(false) }
    }

    pub(in crate::cli) fn holder(&self) -> Arc<str> {
        Arc::clone(&self.holder)
    }

    /// Stores a file, or standard input for `-`, if it is to become a blob.
    pub(in crate::cli) fn store(&self, takes: TakesBlob, path: &str) -> Result<Option<Value>, Unread> {
        let Some(Content { from, media_type, .. }) = Content::open(takes, path)? else { return Ok(None) };
        self.is_used.set(true);
        self.copy(from, media_type).map(|blob| Some(blob.to_value())).map_err(|why| match why {
            Ok(error) => unreadable(path, &error),
            Err(error) => refused(path, &error),
        })
    }

    fn copy(&self, mut file: impl Read, media_type: &str) -> Result<Blob, Result<std::io::Error, BlobError>> {
        let mut writer: Box<dyn BlobWriter> = self.blobs.create().map_err(Err)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let length = file.read(&mut chunk).map_err(Ok)?;
            if length == 0 {
                return writer.finish(media_type).map_err(Err);
            }
            writer.write(&chunk[..length]).map_err(Err)?;
        }
    }
}

impl Drop for Uploads<'_> {
    fn drop(&mut self) {
        if self.is_used.get() {
            // After a day it holds nothing in any case.
            let _ = self.host.release_blobs(&self.holder);
        }
    }
}

fn refused(path: &str, error: &BlobError) -> Unread {
    let hint = match error {
        BlobError::TooLarge { .. } | BlobError::RunFull { .. } | BlobError::StoreFull { .. } => Some(BOUNDS.to_owned()),
        _ => None,
    };
    Unread { message: format!("{path}: {error}"), hint }
}

fn is_large_or_no_text(path: &Path) -> std::io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes.len() as u64 > TEXT_BYTES_MAX || std::str::from_utf8(&bytes).is_err())
}
