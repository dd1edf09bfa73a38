//! Files that are given as inputs, and become blobs of the run that is started with them.

use super::inputs::Unread;
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
        let is_stdin = path == "-";
        let unreadable = |error: std::io::Error| Unread::from(format!("{path}: {error}"));
        let is_blob = match takes {
            TakesBlob::Never => false,
            TakesBlob::Always => true,
            TakesBlob::IfLarge if is_stdin => false,
            TakesBlob::IfLarge => is_large_or_no_text(Path::new(path)).map_err(unreadable)?,
        };
        if !is_blob {
            return Ok(None);
        }
        let file: Box<dyn Read> =
            if is_stdin { Box::new(std::io::stdin()) } else { Box::new(File::open(path).map_err(unreadable)?) };
        self.is_used.set(true);
        let media_type = media_type(Path::new(path));
        self.copy(file, media_type).map(|blob| Some(blob.to_value())).map_err(|why| match why {
            Ok(error) => unreadable(error),
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
        BlobError::TooLarge { .. } | BlobError::RunFull { .. } | BlobError::StoreFull { .. } => {
            Some("docs/limits.md says how the operator raises the bounds of blobs")
        }
        _ => None,
    };
    Unread { message: format!("{path}: {error}"), hint }
}

fn is_large_or_no_text(path: &Path) -> std::io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes.len() as u64 > TEXT_BYTES_MAX || std::str::from_utf8(&bytes).is_err())
}
