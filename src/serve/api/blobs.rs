//! Blobs: uploaded for a run that is to be started, and downloaded from a run that holds them.
//!
//! An upload belongs to the token that sent it, and to nobody else, until a run is started with its
//! handle: that run holds it from then on. After a day it is gone otherwise.

use crate::dispatch::{BLOB_CHUNK_BYTES, BlobBody};
use crate::process::Blob;
use crate::run::{BlobError, BlobReader, BlobWriter, MEDIA_TYPE, MEDIA_TYPE_BYTES_MAX};
use crate::serve::access::Caller;
use crate::serve::body::Segments;
use crate::serve::problem::{Answered, ProblemKind, ServeProblem};
use crate::serve::service::Service;
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::BytesMut;
use http_body_util::BodyExt as _;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use utoipa::ToSchema;

/// How long an upload may take, and the bytes that must come in each second beyond that.
const UPLOAD_TIME_MAX: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND: u64 = 16 << 10;

/// Uploads and downloads that may begin at one time. Arbitrary: each holds a MiB at most.
static TRANSFERS: Semaphore = Semaphore::const_new(64);

/// The handle of a blob: what an input of the type `blob` is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Blob)]
pub struct BlobView {
    /// `blake3:` and 64 hexadecimal digits.
    pub digest: String,
    /// The number of its bytes.
    pub size: u64,
    /// What it is, as in RFC 6838.
    pub media_type: String,
}

impl From<Blob> for BlobView {
    fn from(blob: Blob) -> Self {
        Self { digest: blob.digest, size: blob.size, media_type: blob.media_type }
    }
}

/// The blobs that a run holds.
#[derive(Debug, Serialize, ToSchema)]
pub struct BlobList {
    /// Ordered by their digests.
    pub items: Vec<BlobView>,
}

/// Who holds what a caller has uploaded.
pub(in crate::serve) fn holder(caller: &Caller) -> Arc<str> {
    format!("upload/token/{}", caller.token()).into()
}

impl From<BlobError> for ServeProblem {
    fn from(error: BlobError) -> Self {
        let kind = match &error {
            BlobError::Unknown { .. } => ProblemKind::Unknown,
            BlobError::Damaged { .. } | BlobError::Gone { .. } => ProblemKind::Damaged,
            BlobError::TooLarge { .. } | BlobError::RunFull { .. } => ProblemKind::TooLarge,
            BlobError::StoreFull { .. } => ProblemKind::BlobStoreFull,
            BlobError::DiskFull { .. } => return Self::new(ProblemKind::DiskFull).retry_after(30),
            // Its text names files of the server.
            _ => {
                tracing::error!(%error, "a blob cannot be stored or read");
                return Self::new(ProblemKind::JournalFailed).retry_after(5);
            }
        };
        Self::new(kind).detail(error.to_string())
    }
}

/// Does something with blobs on a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, ServeProblem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(BlobError::Unusable("the work with a blob panicked".to_owned()))).map_err(Into::into)
}

/// Stores a blob: its bytes are the body, and its media type is that of the body. The handle that
/// is answered can be an input of a run that the same token starts within a day.
#[utoipa::path(post, path = "/v1/blobs", tag = "runs",
    request_body(content = Option<serde_json::Value>, content_type = "application/octet-stream"),
    responses((status = 201, body = BlobView),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn upload(
    State(service): State<Arc<Service>>,
    caller: Caller,
    request: Request,
) -> Answered<Response> {
    super::runs::check_room(&service)?;
    let _turn = TRANSFERS.acquire().await;
    let media_type = request.headers().get(header::CONTENT_TYPE).map_or(Ok(MEDIA_TYPE), HeaderValue::to_str);
    let media_type = media_type.unwrap_or(MEDIA_TYPE).to_owned();
    if request.headers().contains_key(header::CONTENT_ENCODING) || media_type.len() > MEDIA_TYPE_BYTES_MAX {
        let detail = "a blob is sent uncompressed, with a media type of at most 255 bytes";
        return Err(ServeProblem::new(ProblemKind::NotJson).detail(detail));
    }
    let blobs = service.host.blobs(&holder(&caller), true);
    let writer = blocking(move || blobs.create()).await?;
    let blob = receive(request, writer, media_type).await?;
    let digest = blob.digest.clone();
    service.with_store(move |service| service.note(&caller, "blobs.upload", &digest, None)).await?;
    Ok((StatusCode::CREATED, Json(BlobView::from(blob))).into_response())
}

/// Writes a body to a blob, piece by piece.
async fn receive(request: Request, mut writer: Box<dyn BlobWriter>, media_type: String) -> Answered<Blob> {
    let mut body = request.into_body();
    let mut chunk = BytesMut::with_capacity(BLOB_CHUNK_BYTES);
    let begins = Instant::now();
    loop {
        let until = begins + UPLOAD_TIME_MAX + Duration::from_secs(writer.size() / BYTES_PER_SECOND);
        let malformed = |detail: &str| ServeProblem::new(ProblemKind::Malformed).detail(detail);
        let frame = match tokio::time::timeout_at(until, body.frame()).await {
            Ok(None) => break,
            Ok(Some(frame)) => frame.map_err(|_| malformed("the body ended early"))?,
            Err(_) => return Err(malformed("the body did not come in time")),
        };
        let Ok(data) = frame.into_data() else { continue };
        chunk.extend_from_slice(&data);
        if chunk.len() >= BLOB_CHUNK_BYTES {
            let full = std::mem::replace(&mut chunk, BytesMut::with_capacity(BLOB_CHUNK_BYTES));
            writer = blocking(move || writer.write(&full).map(|()| writer)).await?;
        }
    }
    let finish = move || {
        writer.write(&chunk)?;
        writer.finish(&media_type)
    };
    blocking(finish).await
}

/// Lists the blobs that a run holds: what it was given, has fetched and has made.
#[utoipa::path(get, path = "/v1/runs/{id}/blobs", tag = "runs", params(("id" = String, Path)),
    responses((status = 200, body = BlobList),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Answered<Json<BlobList>> {
    service
        .with_store(move |service| {
            let run = service.run_for(&caller, &id)?;
            let held = service.host.blobs(&run.id, true).all()?;
            Ok(Json(BlobList { items: held.into_iter().map(BlobView::from).collect() }))
        })
        .await
}

/// Downloads a blob that a run holds, or one range of it (RFC 9110, section 14). Its entity tag is
/// its digest.
#[utoipa::path(get, path = "/v1/runs/{id}/blobs/{digest}", tag = "runs",
    params(("id" = String, Path), ("digest" = String, Path), ("Range" = Option<String>, Header),
        ("If-None-Match" = Option<String>, Header)),
    responses((status = 200, content_type = "application/octet-stream"), (status = 206, description = "A range"),
        (status = 304, description = "It is the one that `If-None-Match` names"),
        (status = "4XX", body = ServeProblem, content_type = "application/problem+json"),
        (status = "5XX", body = ServeProblem, content_type = "application/problem+json")))]
pub(in crate::serve) async fn download(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Segments((id, digest)): Segments<(String, String)>,
    headers: HeaderMap,
) -> Answered<Response> {
    let run = service.with_store(move |service| service.run_for(&caller, &id)).await?;
    let blobs = service.host.blobs(&run.id, true);
    let tag = format!("\"{digest}\"");
    let turn = TRANSFERS.acquire().await;
    let reader: Arc<dyn BlobReader> = blocking(move || blobs.open(&digest)).await?.into();
    drop(turn);
    if names(&headers, &header::IF_NONE_MATCH, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let size = reader.size();
    // A range of another content is of no use: then all of it is sent.
    let is_of_this = !headers.contains_key(header::IF_RANGE) || names(&headers, &header::IF_RANGE, &tag);
    let range = headers.get(header::RANGE).filter(|_| is_of_this).and_then(|range| range.to_str().ok());
    let part = range.map_or(Part::Whole, |range| Part::read(range, size));
    let media_type = HeaderValue::from_str(reader.media_type()).unwrap_or(HeaderValue::from_static(MEDIA_TYPE));
    let (status, offset, length) = match part {
        Part::Whole => (StatusCode::OK, 0, size),
        Part::Range { offset, length } => (StatusCode::PARTIAL_CONTENT, offset, length),
        Part::None => {
            let detail = format!("the blob has {size} bytes");
            let problem = ServeProblem::new(ProblemKind::BadRange).detail(detail);
            return Ok(([(header::CONTENT_RANGE, format!("bytes */{size}"))], problem).into_response());
        }
    };
    let mut response = Response::new(Body::new(BlobBody::new(reader, offset, length)));
    *response.status_mut() = status;
    let text = |text: String| HeaderValue::from_str(&text).expect("invariant: visible ASCII characters");
    let answered = response.headers_mut();
    answered.insert(header::CONTENT_TYPE, media_type);
    answered.insert(header::CONTENT_LENGTH, length.into());
    answered.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    answered.insert(header::ETAG, text(tag));
    // Content of guests and servers is never shown as a page of this server.
    answered.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    if status == StatusCode::PARTIAL_CONTENT {
        let last = offset + length - 1;
        answered.insert(header::CONTENT_RANGE, text(format!("bytes {offset}-{last}/{size}")));
    }
    Ok(response)
}

/// Returns whether a field with entity tags names this one, or any.
fn names(headers: &HeaderMap, field: &header::HeaderName, tag: &str) -> bool {
    let values = headers.get_all(field).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// What of a blob is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// All of it; also if several ranges are asked for, or what is no range.
    Whole,
    Range {
        offset: u64,
        length: u64,
    },
    /// Nothing that it has.
    None,
}

impl Part {
    fn read(text: &str, size: u64) -> Self {
        let Some((first, last)) = text.trim().strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
            return Self::Whole;
        };
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
        match (first.trim(), last.trim()) {
            ("", last) => match number(last) {
                Some(0) => Self::None,
                Some(_) if size == 0 => Self::None,
                Some(length) => Self::Range { offset: size.saturating_sub(length), length: length.min(size) },
                None => Self::Whole,
            },
            (first, last) => match (number(first), if last.is_empty() { Some(u64::MAX) } else { number(last) }) {
                (Some(first), Some(last)) if last < first => Self::Whole,
                (Some(first), Some(_)) if first >= size => Self::None,
                (Some(first), Some(last)) => Self::Range { offset: first, length: last.min(size - 1) - first + 1 },
                _ => Self::Whole,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Part;

    #[test]
    fn ranges_of_rfc_9110() {
        let range = |offset, length| Part::Range { offset, length };
        for (text, expected) in [
            ("bytes=0-0", range(0, 1)),
            ("bytes=2-", range(2, 8)),
            ("bytes=-3", range(7, 3)),
            ("bytes=-30", range(0, 10)),
            ("bytes=5-99999999999999999", range(5, 5)),
            ("bytes=10-", Part::None),
            ("bytes=-0", Part::None),
            ("bytes=3-2", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=+1-2", Part::Whole),
            ("bytes=99999999999999999999-", Part::Whole),
            ("lines=0-1", Part::Whole),
            ("", Part::Whole),
        ] {
            assert_eq!(Part::read(text, 10), expected, "{text}");
        }
        assert_eq!(Part::read("bytes=-1", 0), Part::None);
        assert_eq!(Part::read("bytes=0-", 0), Part::None);
    }
}
