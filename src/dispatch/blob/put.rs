//! `blob.put`.

use super::{digest_of, handle_schema};
use crate::dispatch::{CallContext, Declaration, Handler, Handling, arguments, problems};
use crate::process::{Payload, Problem};
use crate::run::{BlobError, BlobWriter, MEDIA_TYPE, MEDIA_TYPE_BYTES_MAX, RunBlobs};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;

/// Parts of one call at most: as many as a run may hold by default.
const PARTS_MAX: usize = 10_000;
/// Bytes that are copied at once. Arbitrary.
const CHUNK_BYTES: usize = 1 << 20;

/// The handler `blob.put`. Every [`Host`](crate::host::Host) has it.
#[derive(Clone, Copy, Debug)]
pub struct Put;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Args<'a> {
    text: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    json: Option<&'a RawValue>,
    base64: Option<String>,
    #[serde(borrow)]
    lines: Option<Vec<&'a RawValue>>,
    parts: Option<Vec<Value>>,
    #[serde(default)]
    raw: bool,
    media_type: Option<String>,
}

/// Tells a value that is null from one that is absent.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl Handler for Put {
    fn declaration(&self) -> Declaration {
        Declaration::new("Stores a blob of the run").repeatable().takes_bytes().schema(json!({
            "type": "object",
            "properties": {
                "text": { "type": "string" },
                "json": true,
                "base64": { "type": "string" },
                "lines": { "type": "array" },
                "raw": { "type": "boolean", "default": false },
                "parts": { "type": "array", "items": handle_schema(), "minItems": 1, "maxItems": PARTS_MAX },
                "media-type": { "type": "string", "maxLength": MEDIA_TYPE_BYTES_MAX },
            },
            "minProperties": 1,
            "additionalProperties": false,
            "examples": [{ "text": "a,b\n1,2\n", "media-type": "text/csv" }],
        }))
    }

    fn handle(self: Arc<Self>, args: Payload, context: CallContext) -> Handling {
        Handling::later(async move {
            let work = move || put(&args, &context);
            let done = tokio::task::spawn_blocking(work).await;
            done.unwrap_or_else(|_| Err(problems::host_fault("storing a blob panicked", true))).map_err(Arc::new)
        })
    }
}

fn put(args: &Payload, context: &CallContext) -> Result<Payload, Problem> {
    let blobs = context.blobs().ok_or_else(problems::no_blobs)?;
    let blob = match args {
        Payload::Bytes(bytes) => blobs.put(bytes, MEDIA_TYPE)?,
        args => put_json(&arguments(args)?, blobs)?,
    };
    Ok(Payload::from(blob.to_value()))
}

fn put_json(args: &Args<'_>, blobs: &RunBlobs) -> Result<crate::process::Blob, Problem> {
    let default = match args {
        Args { text: Some(_), .. } => "text/plain; charset=utf-8",
        Args { json: Some(_), .. } => "application/json",
        Args { lines: Some(_), raw: false, .. } => "application/x-ndjson",
        Args { lines: Some(_), .. } => "text/plain; charset=utf-8",
        _ => MEDIA_TYPE,
    };
    let media_type = args.media_type.as_deref().unwrap_or(default);
    let given = [args.text.is_some(), args.json.is_some(), args.base64.is_some(), args.lines.is_some()];
    if given.into_iter().chain([args.parts.is_some()]).filter(|is_given| *is_given).count() != 1 {
        return Err(problems::bad_arguments("give one of `text`, `json`, `base64`, `lines` and `parts`"));
    }
    let mut writer = blobs.create()?;
    if let Some(text) = &args.text {
        writer.write(text.as_bytes())?;
    } else if let Some(json) = args.json {
        writer.write(json.get().as_bytes())?;
    } else if let Some(text) = &args.base64 {
        let bytes = STANDARD.decode(text);
        writer.write(&bytes.map_err(|_| problems::bad_arguments("at /base64: this is not base64"))?)?;
    } else if let Some(lines) = &args.lines {
        write_lines(&mut *writer, lines, args.raw)?;
    }
    for part in args.parts.iter().flatten() {
        append(&mut *writer, blobs, digest_of(part)?)?;
    }
    Ok(writer.finish(media_type)?)
}

fn write_lines(writer: &mut dyn BlobWriter, lines: &[&RawValue], raw: bool) -> Result<(), Problem> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    for line in lines {
        // White space in a value may be line ends.
        let value: Value = serde_json::from_str(line.get()).expect("invariant: a part of a JSON text");
        match &value {
            Value::String(text) if raw => chunk.extend_from_slice(text.as_bytes()),
            value => chunk.extend_from_slice(value.to_string().as_bytes()),
        }
        chunk.push(b'\n');
        if chunk.len() >= CHUNK_BYTES {
            writer.write(&chunk)?;
            chunk.clear();
        }
    }
    Ok(writer.write(&chunk)?)
}

/// Appends the content of another blob.
fn append(writer: &mut dyn BlobWriter, blobs: &RunBlobs, digest: &str) -> Result<(), BlobError> {
    let reader = blobs.open(digest)?;
    if writer.size().saturating_add(reader.size()) > blobs.bounds().blob_bytes {
        return Err(BlobError::TooLarge { bytes_max: blobs.bounds().blob_bytes });
    }
    let mut offset = 0;
    while offset < reader.size() {
        let chunk = reader.read(offset, CHUNK_BYTES)?;
        writer.write(&chunk)?;
        offset += chunk.len() as u64;
    }
    Ok(())
}
