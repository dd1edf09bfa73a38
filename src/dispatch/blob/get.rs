//! `blob.get`.

use super::{digest_of, handle_schema};
use crate::dispatch::{CallContext, Declaration, Handler, Handling, arguments, problems};
use crate::process::problem::kind;
use crate::process::{Json, NUMBER_MAX, Payload, Problem, Recalled, Recalls};
use crate::run::{BlobReader, RunBlobs};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Lines of one answer, unless the call says. Arbitrary.
const LINES: usize = 1_000;
/// Lines of one answer at most. Arbitrary.
const LINES_MAX: usize = 100_000;

/// The handler `blob.get`. Every [`Host`](crate::host::Host) has it.
#[derive(Clone, Copy, Debug)]
pub struct Get;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Args {
    blob: Value,
    #[serde(default)]
    offset: u64,
    length: Option<u64>,
    #[serde(default, rename = "as")]
    read_as: ReadAs,
    max_lines: Option<usize>,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
enum ReadAs {
    #[default]
    Text,
    Json,
    Base64,
    Bytes,
    Lines,
}

impl Handler for Get {
    fn declaration(&self) -> Declaration {
        let whole = json!({ "type": "integer", "minimum": 0, "maximum": NUMBER_MAX - 1 });
        Declaration::new("Reads a blob of the run").repeatable().schema(json!({
            "type": "object",
            "properties": {
                "blob": handle_schema(),
                "offset": whole,
                "length": whole,
                "as": { "enum": ["text", "json", "base64", "bytes", "lines"], "default": "text" },
                "max-lines": { "type": "integer", "minimum": 1, "maximum": LINES_MAX },
            },
            "required": ["blob"],
            "additionalProperties": false,
            "examples": [{ "blob": "blake3:…", "offset": 0, "length": 100 }],
        }))
    }

    fn handle(self: Arc<Self>, args: Payload, context: CallContext) -> Handling {
        Handling::later(async move {
            let work = move || get(&args, &context);
            let done = tokio::task::spawn_blocking(work).await;
            done.unwrap_or_else(|_| Err(problems::host_fault("reading a blob panicked", true))).map_err(Arc::new)
        })
    }
}

/// Answers with more bytes are not written out in records. Arbitrary: what a record has inline.
const RECORDED_BYTES_MAX: usize = 64 << 10;

fn get(args: &Payload, context: &CallContext) -> Result<Payload, Problem> {
    let args: Args = arguments(args)?;
    let blobs: &RunBlobs = context.blobs().ok_or_else(problems::no_blobs)?;
    let room = context.limits().payload_bytes;
    if args.max_lines.is_some() && args.read_as != ReadAs::Lines {
        return Err(problems::bad_arguments("at /max-lines: only `as: lines` takes it"));
    }
    let digest = digest_of(&args.blob)?.to_owned();
    let reader = blobs.open(&digest)?;
    let size = reader.size();
    if args.offset > size {
        let detail = format!("at /offset: {} is behind the end of the blob, which has {size} bytes", args.offset);
        return Err(problems::bad_arguments(&detail));
    }
    let rest = size - args.offset;
    let length = match args.read_as {
        ReadAs::Lines => args.length.unwrap_or(room).min(room),
        _ => args.length.unwrap_or(u64::MAX).min(rest),
    };
    if length > room {
        let detail = format!("{length} bytes of the blob; a payload here has at most {room}: `length` reads a part");
        return Err(Problem::new(kind::TOO_LARGE, "A part of a blob is larger than allowed").with_detail(detail));
    }
    let lines = args.max_lines.unwrap_or(LINES).min(LINES_MAX);
    let part = Part { digest, offset: args.offset, length, read_as: args.read_as, lines };
    let answer = part.read(&*reader)?;
    if answer.size() <= RECORDED_BYTES_MAX {
        return Ok(answer);
    }
    Ok(Payload::Recalled(Arc::new(Recalled::new(Json::from_value(&part), answer))))
}

/// What is read of a blob. The answer follows from it alone, so records have it in place of a large
/// answer: it is data.
#[derive(Serialize, Deserialize)]
struct Part {
    digest: String,
    offset: u64,
    length: u64,
    #[serde(rename = "as")]
    read_as: ReadAs,
    lines: usize,
}

impl Part {
    fn read(&self, reader: &dyn BlobReader) -> Result<Payload, Problem> {
        if self.read_as == ReadAs::Lines {
            return lines_from(reader, self.offset, self.lines, self.length);
        }
        let bytes = reader.read(self.offset, usize::try_from(self.length).unwrap_or(usize::MAX))?;
        match self.read_as {
            ReadAs::Bytes => Ok(Payload::Bytes(bytes)),
            ReadAs::Base64 => Ok(Payload::json(&STANDARD.encode(&bytes))),
            ReadAs::Json => {
                let read = Json::parse(bytes).map(Payload::Json);
                read.map_err(|error| unfit(&format!("it is not JSON: {error}")))
            }
            ReadAs::Text | ReadAs::Lines => {
                let text = std::str::from_utf8(&bytes).map_err(|_| unfit("it is not text in UTF-8: `as: base64`"))?;
                Ok(Payload::json(&text))
            }
        }
    }
}

/// Gives large answers of `blob.get` again: those of one run.
pub(crate) struct Recall(pub(crate) RunBlobs);

impl Recalls for Recall {
    fn recall(&self, args: &Json) -> Result<Payload, Problem> {
        let part: Part = arguments(&Payload::Json(args.clone()))?;
        part.read(&*self.0.open(&part.digest)?)
    }
}

fn unfit(detail: &str) -> Problem {
    Problem::new("bad-blob-content", "The blob's content does not fit `as`").with_detail(problems::bounded(detail))
}

/// Whole lines from an offset on, of at most so many bytes.
fn lines_from(reader: &dyn BlobReader, offset: u64, lines_max: usize, bytes_max: u64) -> Result<Payload, Problem> {
    let bytes = reader.read(offset, usize::try_from(bytes_max).unwrap_or(usize::MAX))?;
    let is_end = offset + bytes.len() as u64 >= reader.size();
    let (mut lines, mut at) = (Vec::new(), 0);
    while at < bytes.len() && lines.len() < lines_max {
        let rest = &bytes[at..];
        let (line, length) = match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&rest[..end], end + 1),
            None if is_end => (rest, rest.len()),
            None => break,
        };
        let line = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line))
            .map_err(|_| unfit(&format!("the line at byte {} is not text in UTF-8", offset + at as u64)))?;
        lines.push(line);
        at += length;
    }
    if lines.is_empty() && at < bytes.len() {
        let detail = format!("the line at byte {offset} has more than {bytes_max} bytes");
        return Err(Problem::new("line-too-long", "A line of a blob is longer than allowed").with_detail(detail));
    }
    let next = offset + at as u64;
    Ok(Payload::json(&json!({ "lines": lines, "next": (next < reader.size()).then_some(next) })))
}
