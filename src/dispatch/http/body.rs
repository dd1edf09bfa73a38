//! Bodies that are blobs: one is sent, or one is made of what arrives, without any being in memory.

use super::exchange::broken;
use super::request::Request;
use super::response;
use super::sealed::CallSecrets;
use crate::dispatch::blob_body::{BlobBody, CHUNK_BYTES};
use crate::dispatch::blocking::blocking;
use crate::dispatch::problems;
use crate::process::{Blob, Problem, ProblemClass};
use crate::run::{BlobError, BlobReader, MEDIA_TYPE, RunBlobs};
use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a request sends.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Content {
    Bytes(Bytes),
    Blob(Blob),
}

/// The body of a request.
pub(super) enum Outgoing {
    Bytes(Option<Bytes>),
    Blob(BlobBody),
}

impl Content {
    /// Begins a body. A request that is redirected needs several.
    pub(super) async fn body(&self, blobs: Option<&RunBlobs>) -> Result<Outgoing, Problem> {
        match self {
            Self::Bytes(bytes) if bytes.is_empty() => Ok(Outgoing::Bytes(None)),
            Self::Bytes(bytes) => Ok(Outgoing::Bytes(Some(bytes.clone()))),
            Self::Blob(blob) => {
                let blobs = blobs.ok_or_else(problems::no_blobs)?.clone();
                let digest = blob.digest.clone();
                let reader: Arc<dyn BlobReader> = blocking(move || blobs.open(&digest)).await?.into();
                let size = reader.size();
                Ok(Outgoing::Blob(BlobBody::new(reader, 0, size)))
            }
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BlobError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BlobError>>> {
        match self.get_mut() {
            Self::Bytes(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Blob(blob) => Pin::new(blob).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_none(),
            Self::Blob(blob) => blob.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Bytes(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Blob(blob) => blob.size_hint(),
        }
    }
}

/// Makes a blob of a response's body, of at most so many bytes, without the secrets in it.
pub(super) async fn store<B>(
    request: &Request,
    headers: &HeaderMap,
    mut body: B,
    limit: u64,
    (blobs, secrets): (&RunBlobs, &CallSecrets<'_>),
) -> Result<Blob, Problem>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let limit = limit.min(blobs.bounds().blob_bytes);
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(MEDIA_TYPE);
    let media_type = media_type.to_owned();
    let stored = |error: BlobError| after(request, error);
    let creator = blobs.clone();
    let mut writer = blocking(move || creator.create()).await.map_err(stored)?;
    let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| broken(error.into(), request))?.into_data() else { continue };
        size += data.len() as u64;
        if size > limit {
            return Err(response::too_large(limit, request.repeatable));
        }
        chunk.extend_from_slice(&data);
        if chunk.len() >= CHUNK_BYTES + secrets.overlap() {
            let full = secrets.redact_start(&mut chunk);
            let write = move || writer.write(&full).map(|()| writer);
            writer = blocking(write).await.map_err(stored)?;
        }
    }
    let chunk = secrets.redact(chunk.to_vec());
    let finish = move || {
        writer.write(&chunk)?;
        writer.finish(&media_type)
    };
    blocking(finish).await.map_err(stored)
}

/// The problem of a blob that could not be stored after the server was asked.
fn after(request: &Request, error: BlobError) -> Problem {
    let problem = Problem::from(error);
    if request.repeatable { problem } else { problem.with_class(ProblemClass::Uncertain) }
}
