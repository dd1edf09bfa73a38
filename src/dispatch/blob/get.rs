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
    let part = Part { digest, offset: args.offset, length, read_as: args.read_as, lines, room };
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
    /// Bytes of the answer at most, of `lines`. Older records have none: their answers fitted.
    #[serde(default = "unbounded")]
    room: u64,
}

fn unbounded() -> u64 {
    u64::MAX
}

impl Part {
    fn read(&self, reader: &dyn BlobReader) -> Result<Payload, Problem> {
        if self.read_as == ReadAs::Lines {
            return self.lines_from(reader);
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

    /// Whole lines: as many as have no more bytes than `length` in the blob, and no more than
    /// `room` as JSON, where a line has quotes, a comma, and escapes.
    fn lines_from(&self, reader: &dyn BlobReader) -> Result<Payload, Problem> {
        let offset = self.offset;
        let bytes = reader.read(offset, usize::try_from(self.length).unwrap_or(usize::MAX))?;
        let is_end = offset + bytes.len() as u64 >= reader.size();
        let (mut lines, mut at) = (Vec::new(), 0);
        let mut room = self.room.saturating_sub(AROUND_LINES_BYTES_MAX);
        while at < bytes.len() && lines.len() < self.lines {
            let rest = &bytes[at..];
            let (line, length) = match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => (&rest[..end], end + 1),
                None if is_end => (rest, rest.len()),
                None => break,
            };
            let line = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line))
                .map_err(|_| unfit(&format!("the line at byte {} is not text in UTF-8", offset + at as u64)))?;
            let json_bytes = json_bytes(line) + 1;
            if json_bytes > room {
                if lines.is_empty() {
                    let detail = format!(
                        "the line at byte {offset} has {} bytes as JSON, the limit `payload` is {}",
                        json_bytes, self.room
                    );
                    return Err(too_long(&detail));
                }
                break;
            }
            room -= json_bytes;
            lines.push(line);
            at += length;
        }
        if lines.is_empty() && at < bytes.len() {
            return Err(too_long(&format!("the line at byte {offset} has more than {} bytes", self.length)));
        }
        let next = offset + at as u64;
        Ok(Payload::json(&json!({ "lines": lines, "next": (next < reader.size()).then_some(next) })))
    }
}

/// Bytes of `{"lines":[],"next":…}` at most.
const AROUND_LINES_BYTES_MAX: u64 = 64;

/// The bytes of a text as JSON.
fn json_bytes(text: &str) -> u64 {
    serde_json::to_string(text).expect("invariant: a text is JSON").len() as u64
}

fn too_long(detail: &str) -> Problem {
    Problem::new("line-too-long", "A line of a blob is longer than allowed").with_detail(detail)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::BlobError;
    use bytes::Bytes;
    use proptest::prelude::*;

    struct Content(Bytes);

    impl BlobReader for Content {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn media_type(&self) -> &'static str {
            "text/plain"
        }

        fn read(&self, offset: u64, length: usize) -> Result<Bytes, BlobError> {
            let offset = offset as usize;
            Ok(self.0.slice(offset..offset.saturating_add(length).min(self.0.len())))
        }
    }

    /// The lines of a text, read as a step does that goes on from `next`, and how often it read.
    fn read_all(text: &str, length: u64, room: u64) -> Result<(Vec<String>, usize), Problem> {
        let reader = Content(Bytes::copy_from_slice(text.as_bytes()));
        let (mut all, mut turns, mut offset) = (Vec::new(), 0, Some(0));
        while let Some(from) = offset {
            let read_as = ReadAs::Lines;
            let part = Part { digest: String::new(), offset: from, length, read_as, lines: LINES_MAX, room };
            let answer = part.read(&reader)?;
            assert!(answer.size() as u64 <= room, "{} bytes of {room}", answer.size());
            let value = answer.to_value();
            all.extend(value["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()));
            offset = value["next"].as_u64();
            turns += 1;
            assert!(offset.is_none_or(|next| next > from));
        }
        Ok((all, turns))
    }

    /// Lines of one content each, with quotes, escapes, and characters of several bytes.
    fn lines() -> impl Strategy<Value = Vec<String>> {
        let unit =
            prop::sample::select(vec!["y", "\"", "\\", "\u{1}", "\t", "\u{7f}", "é", "日", "😀", "a,\"b\"\u{1b}é"]);
        let line = (unit, 0..400_usize).prop_map(|(unit, times)| unit.repeat(times));
        prop_oneof![
            prop::collection::vec(line.clone(), 0..40),
            (line, 0..200_usize).prop_map(|(line, count)| vec![line; count]),
        ]
    }

    proptest! {
        #[test]
        fn lines_of_any_content_are_read_whole_and_fit(lines in lines(), room in 16_000..64_000_u64, ends in any::<bool>()) {
            // The longest line has 4,000 bytes, and 10,800 as JSON.
            let mut text = lines.join("\n");
            if ends && !lines.is_empty() {
                text.push('\n');
            }
            let expected: Vec<&str> = text.split_terminator('\n').collect();
            let (all, turns) = read_all(&text, room, room).unwrap();
            prop_assert_eq!(&all, &expected);
            // No answer is so small that two of them would have been one.
            let json: u64 = expected.iter().map(|line| json_bytes(line) + 1).sum();
            prop_assert!(turns as u64 <= 1 + 2 * json / (room - 11_000), "{turns} turns");
        }
    }

    #[test]
    fn a_line_that_does_not_fit_as_json_is_too_long() {
        let text = format!("short\n{}\n", "\u{1}".repeat(1_000));
        let problem = read_all(&text, 4_000, 4_000).unwrap_err();
        assert_eq!(problem.kind, "line-too-long");
        assert_eq!(
            problem.detail.as_deref(),
            Some("the line at byte 6 has 6003 bytes as JSON, the limit `payload` is 4000")
        );
        assert_eq!(read_all(&text, 4_000, 6_100).unwrap().0.len(), 2);
        let problem = read_all(&text, 900, 6_100).unwrap_err();
        assert_eq!(problem.detail.as_deref(), Some("the line at byte 6 has more than 900 bytes"));
    }

    #[test]
    fn older_records_are_read_as_they_were() {
        let part: Part = serde_json::from_str(r#"{"digest":"","offset":0,"length":9,"as":"lines","lines":2}"#).unwrap();
        let reader = Content(Bytes::from_static(b"a\nb\nc\n"));
        assert_eq!(part.read(&reader).unwrap().to_value(), json!({ "lines": ["a", "b"], "next": 4 }));
    }
}
