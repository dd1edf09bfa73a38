//! Large values: blobs that the run holds, read and stored part by part.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Bytes, Ctx, Payload, Problem};

/// Bytes of one call by default: below the limit `payload`, which is 1 MiB unless the workflow says
/// otherwise. Arbitrary.
const PART_BYTES: u64 = 512 << 10;

/// The handle of a blob, as JSON has it. It gives no right: a run reads what it was given or has
/// made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BlobHandle {
    /// `blake3:` and 64 hexadecimal digits.
    pub digest: String,
    /// The number of its bytes.
    pub size: u64,
    /// What it is, as in RFC 6838.
    pub media_type: String,
}

#[derive(Deserialize)]
struct Lines {
    lines: Vec<String>,
    next: Option<u64>,
}

impl Ctx {
    /// Reads a blob from its beginning on.
    #[must_use]
    pub fn read_blob(&self, blob: &BlobHandle) -> BlobReader {
        BlobReader { ctx: self.clone(), blob: blob.clone(), next: Some(0) }
    }

    /// Writes a blob with this media type.
    #[must_use]
    pub fn write_blob(&self, media_type: &str) -> BlobWriter {
        let (parts, rest) = (Vec::new(), Vec::new());
        BlobWriter { ctx: self.clone(), media_type: media_type.to_owned(), parts, rest }
    }
}

/// Reads a blob part by part. Each part is one call of `blob.get`, and fits into a payload.
pub struct BlobReader {
    ctx: Ctx,
    blob: BlobHandle,
    /// `None` at the end.
    next: Option<u64>,
}

impl BlobReader {
    /// Goes on from this byte.
    pub fn seek(&mut self, offset: u64) {
        self.next = (offset < self.blob.size).then_some(offset);
    }

    /// Reads the next part, of at most 512 KiB; `None` at the end.
    ///
    /// # Errors
    /// Those of `blob.get`, such as `bad-blob` and `blob-damaged`.
    pub async fn bytes(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        let Some(offset) = self.next.filter(|offset| *offset < self.blob.size) else { return Ok(None) };
        let args = json!({ "blob": self.blob.digest, "offset": offset, "length": PART_BYTES, "as": "bytes" });
        let Bytes(bytes) = self.ctx.call("blob.get", args).await?;
        self.seek(offset + bytes.len() as u64);
        Ok(Some(bytes))
    }

    /// Reads the next lines, without their ends: at most 1,000, and as many as fit. `None` at the
    /// end.
    ///
    /// # Errors
    /// As [`Self::bytes`]; `line-too-long` if one does not fit, `bad-blob-content` if one is not
    /// UTF-8.
    pub async fn lines(&mut self) -> Result<Option<Vec<String>>, Problem> {
        let Some(offset) = self.next.filter(|offset| *offset < self.blob.size) else { return Ok(None) };
        let args = json!({ "blob": self.blob.digest, "offset": offset, "as": "lines" });
        let Lines { lines, next } = self.ctx.call("blob.get", args).await?;
        self.next = next;
        Ok(Some(lines))
    }
}

/// Writes a blob part by part. Each part is a blob of its own, which counts for what the run holds.
#[must_use = "nothing is a blob until `finish`"]
pub struct BlobWriter {
    ctx: Ctx,
    media_type: String,
    parts: Vec<BlobHandle>,
    rest: Vec<u8>,
}

impl BlobWriter {
    /// Appends bytes: they are stored when there are 512 KiB of them.
    ///
    /// # Errors
    /// Those of `blob.put`, such as `blob-too-large` and `run-blobs-exhausted`.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), Problem> {
        while self.rest.len() as u64 + bytes.len() as u64 >= PART_BYTES {
            let (now, later) = bytes.split_at(PART_BYTES as usize - self.rest.len());
            self.rest.extend_from_slice(now);
            bytes = later;
            self.store().await?;
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    /// Makes a blob of all that was written.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn finish(mut self) -> Result<BlobHandle, Problem> {
        if !self.rest.is_empty() || self.parts.is_empty() {
            self.store().await?;
        }
        let parts: Vec<&str> = self.parts.iter().map(|part| part.digest.as_str()).collect();
        self.ctx.call("blob.put", json!({ "parts": parts, "media-type": self.media_type })).await
    }

    async fn store(&mut self) -> Result<(), Problem> {
        let part = Payload::Bytes(core::mem::take(&mut self.rest));
        self.parts.push(self.ctx.call("blob.put", part).await?);
        Ok(())
    }
}
