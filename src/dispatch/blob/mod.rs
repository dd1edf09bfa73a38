//! `blob.get` and `blob.put`: the blobs of a run, for its guests and steps.
//!
//! They need no grant: a run reads what it was given or has made, and what it makes has bounds.
//! Both are safe to repeat. A blob is its content, so that the same call has the same answer, and a
//! blob that is made again is the one that is there.
//!
//! `blob.get` reads a range:
//!
//! | argument | |
//! |---|---|
//! | `blob` | the handle, or its digest |
//! | `offset`, `length` | bytes: 0, and the rest. An offset behind the end is wrong; a range that ends there is cut |
//! | `as` | `text` (default), `json`, `base64`, `bytes` (the payload of a guest), `lines` |
//! | `max-lines` | of `lines`: 1,000 |
//!
//! `lines` answers `{ lines, next }`: whole lines from the offset on, without their ends, and the
//! offset of the line after them; null after the last.
//!
//! `blob.put` makes a blob of one of these, and answers its handle:
//!
//! | argument | |
//! |---|---|
//! | `text`, `json`, `base64` | the content |
//! | `lines` | a list of values, each a line of JSON; a text is a line as it is, if `raw` |
//! | `parts` | handles: their contents, one after the other |
//! | `media-type` | as in RFC 6838: `application/octet-stream` by default |
//!
//! Arguments that are bytes, which only a guest can give, are the content. What is larger than a
//! payload is put in parts: each is a blob of its own, held until the run is removed. *Rejected*:
//! an upload that is begun, appended to and finished. It is a state beside the journal: a fork has
//! none, and a replayed append must be told from a new one.

mod get;
mod put;

pub use get::Get;
pub(crate) use get::Recall;
pub use put::Put;

use super::problems;
use crate::process::{Blob, Problem};
use serde_json::{Value, json};

/// The schema of a handle, as arguments have it.
fn handle_schema() -> Value {
    json!({
        "anyOf": [
            { "type": "string", "pattern": "^blake3:[0-9a-f]{64}$" },
            {
                "type": "object",
                "properties": {
                    "digest": { "type": "string", "pattern": "^blake3:[0-9a-f]{64}$" },
                    "size": { "type": "integer", "minimum": 0 },
                    "media-type": { "type": "string" },
                },
                "required": ["digest"],
                "additionalProperties": false,
            },
        ],
        "description": "a blob: what a step answered, or an input of type blob",
    })
}

/// The digest of a handle.
fn digest_of(value: &Value) -> Result<&str, Problem> {
    let digest = value.as_str().or_else(|| value.get("digest")?.as_str());
    digest
        .filter(|digest| Blob::is_digest(digest))
        .ok_or_else(|| problems::bad_arguments("a blob is given by its handle, or by its digest"))
}
