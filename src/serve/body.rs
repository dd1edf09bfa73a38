//! Reading the body and the query of a request.

use super::misfit;
use super::problem::{ProblemKind, ServeProblem};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Bytes of a body, unless a route says otherwise.
pub(in crate::serve) const BODY_BYTES_MAX: usize = 2 << 20;

/// How long a body may take, and the bytes that must come in each second beyond that.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
const BYTES_PER_SECOND: usize = 1 << 10;

/// What the bodies that are being read may hold together, in KiB: 256 MiB.
const HELD_KIB: usize = 256 << 10;

/// The rest of it.
static HELD: Semaphore = Semaphore::const_new(HELD_KIB);

/// A JSON body. Fields that the type does not have are refused.
pub(in crate::serve) struct JsonBody<T>(pub(in crate::serve) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ServeProblem;

    async fn from_request(request: Request, _: &S) -> Result<Self, ServeProblem> {
        let bytes = json_bytes(request).await?;
        // A missing body is an empty object: most acts need nothing.
        let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        // Types are also read from a list of their fields, which no document describes.
        if bytes.trim_ascii_start().starts_with(b"[") {
            return Err(ServeProblem::new(ProblemKind::DoesNotFit).part("", "it is an object"));
        }
        parse(&bytes).map(Self)
    }
}

/// Reads an object or null for a field. A type is also read from a list of its fields, which no
/// document describes.
pub(in crate::serve) fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = Option<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }

    from.deserialize_any(Object(PhantomData))
}

/// Parses JSON, and says where it does not fit.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ServeProblem> {
    serde_json::from_slice(bytes).map_err(|error| misfit::of_body::<T>(bytes, &error))
}

/// Any JSON value as the body; none is null.
pub(in crate::serve) struct AnyJson(pub(in crate::serve) serde_json::Value);

impl<S: Send + Sync> FromRequest<S> for AnyJson {
    type Rejection = ServeProblem;

    async fn from_request(request: Request, _: &S) -> Result<Self, ServeProblem> {
        let bytes = json_bytes(request).await?;
        if bytes.is_empty() {
            return Ok(Self(serde_json::Value::Null));
        }
        parse(&bytes).map(Self)
    }
}

async fn json_bytes(request: Request) -> Result<Bytes, ServeProblem> {
    check_encoding(request.headers())?;
    check_type(request.headers())?;
    read(request, BODY_BYTES_MAX).await
}

/// Refuses a compressed body: its true size would not be known before it is unpacked.
fn check_encoding(headers: &HeaderMap) -> Result<(), ServeProblem> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(ServeProblem::new(ProblemKind::NotJson).detail("compressed bodies are not taken"));
    }
    Ok(())
}

/// Refuses a body that is not said to be JSON: a browser sends any other type without asking.
fn check_type(headers: &HeaderMap) -> Result<(), ServeProblem> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        let is_empty = headers.get(header::CONTENT_LENGTH).is_none_or(|length| length == "0")
            && !headers.contains_key(header::TRANSFER_ENCODING);
        return if is_empty { Ok(()) } else { Err(ServeProblem::new(ProblemKind::NotJson)) };
    };
    let essence = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = format!("it is said to be `{essence}`");
    Err(ServeProblem::new(ProblemKind::NotJson).detail(detail).hint("with curl: --json instead of -d"))
}

/// Reads a body of at most `most` bytes, uncompressed.
pub(in crate::serve) async fn read(request: Request, most: usize) -> Result<Bytes, ServeProblem> {
    check_encoding(request.headers())?;
    let mut body = std::pin::pin!(Limited::new(request.into_body(), most));
    let mut bytes = BytesMut::new();
    let (mut room, mut held): (Option<SemaphorePermit<'static>>, usize) = (None, 0);
    let begins = Instant::now();
    loop {
        let until = begins + BODY_TIME_MAX + Duration::from_secs((bytes.len() / BYTES_PER_SECOND) as u64);
        let frame = match tokio::time::timeout_at(until, body.frame()).await {
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) if error.is::<LengthLimitError>() => {
                let detail = format!("a body has at most {most} bytes");
                return Err(ServeProblem::new(ProblemKind::TooLarge).detail(detail));
            }
            Ok(Some(Err(_))) => return Err(ServeProblem::new(ProblemKind::Malformed).detail("the body ended early")),
            Err(_) => return Err(ServeProblem::new(ProblemKind::Malformed).detail("the body did not come in time")),
        };
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
            let more = (bytes.len() >> 10) + 1 - held;
            if more > 0 {
                let full = || ServeProblem::new(ProblemKind::TooManyWaits).detail("too many bodies come at once");
                let permit = HELD.try_acquire_many(u32::try_from(more).unwrap_or(u32::MAX));
                let permit = permit.map_err(|_| full().retry_after(5))?;
                held += more;
                match &mut room {
                    Some(room) => room.merge(permit),
                    None => room = Some(permit),
                }
            }
        }
    }
}

/// The query of a request. Parameters that the type does not have are refused.
pub(in crate::serve) struct Params<T>(pub(in crate::serve) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ServeProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ServeProblem> {
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        read.map(|query| Self(query.0)).map_err(|error| misfit::of_query(&error.body_text()))
    }
}

/// The parameters of a path.
pub(in crate::serve) struct Segments<T>(pub(in crate::serve) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Segments<T> {
    type Rejection = ServeProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ServeProblem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|path| Self(path.0)).map_err(|error| {
            ServeProblem::new(ProblemKind::Malformed).detail(format!("the path: {}", error.body_text()))
        })
    }
}
