//! Messages of JSON-RPC with their headers, as the Language Server Protocol has them.
//!
//! *Rejected*: the crate `lsp-server`. It reads as many bytes as a header announces, however many
//! these are.

use serde_json::{Value, json};
use std::io::{self, BufRead, Read as _, Write};

/// Most bytes of a message: a file of the largest size, with each character as an escape.
/// Arbitrary.
pub(super) const MESSAGE_BYTES_MAX: u64 = 16 << 20;

/// Most bytes of the headers of a message. Arbitrary.
const HEADER_BYTES_MAX: u64 = 8 << 10;

/// Error codes of JSON-RPC and of the protocol.
pub(super) mod code {
    pub(in super::super) const PARSE: i64 = -32_700;
    pub(in super::super) const INVALID_REQUEST: i64 = -32_600;
    pub(in super::super) const METHOD_NOT_FOUND: i64 = -32_601;
    pub(in super::super) const INVALID_PARAMS: i64 = -32_602;
    pub(in super::super) const NOT_INITIALIZED: i64 = -32_002;
}

/// What was read.
pub(super) enum Incoming {
    Message(Value),
    /// A message that cannot be used; the next one can be read.
    Unusable(i64, String),
    /// The stream has ended.
    Closed,
}

/// Reads the next message.
///
/// # Errors
/// Fails if it is unknown where the next message begins.
pub(super) fn read(from: &mut impl BufRead) -> io::Result<Incoming> {
    let Some(length) = read_length(from)? else { return Ok(Incoming::Closed) };
    if length > MESSAGE_BYTES_MAX {
        io::copy(&mut from.take(length), &mut io::sink())?;
        let why = format!("the message has {length} bytes, more than the {MESSAGE_BYTES_MAX} allowed");
        return Ok(Incoming::Unusable(code::INVALID_REQUEST, why));
    }
    let mut bytes = Vec::new();
    if from.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Ok(Incoming::Closed);
    }
    Ok(match serde_json::from_slice(&bytes) {
        Ok(message @ Value::Object(_)) => Incoming::Message(message),
        Ok(_) => Incoming::Unusable(code::INVALID_REQUEST, "a message must be an object".to_owned()),
        Err(error) => Incoming::Unusable(code::PARSE, error.to_string()),
    })
}

/// Reads headers up to the empty line. `None` at the end of the stream.
fn read_length(from: &mut impl BufRead) -> io::Result<Option<u64>> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut headers = from.take(HEADER_BYTES_MAX);
    let mut length = None;
    let mut is_first = true;
    loop {
        let mut line = Vec::new();
        headers.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            let is_end = is_first && line.is_empty();
            return if is_end { Ok(None) } else { Err(invalid("the headers of a message do not end")) };
        }
        is_first = false;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        if line.is_empty() {
            return length.map(Some).ok_or_else(|| invalid("a message has no Content-Length"));
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = Some(value.trim().parse().map_err(|_| invalid("Content-Length is not a number"))?);
        }
    }
}

/// Writes a message.
pub(super) fn write(to: &mut impl Write, message: &Value) -> io::Result<()> {
    let text = message.to_string();
    write!(to, "Content-Length: {}\r\n\r\n{text}", text.len())?;
    to.flush()
}

pub(super) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

pub(super) fn response(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<String> {
        let mut from = bytes;
        let mut found = Vec::new();
        loop {
            found.push(match read(&mut from) {
                Ok(Incoming::Message(message)) => message.to_string(),
                Ok(Incoming::Unusable(code, _)) => code.to_string(),
                Ok(Incoming::Closed) => return found,
                Err(error) => {
                    found.push(error.to_string());
                    return found;
                }
            });
        }
    }

    #[test]
    fn messages_are_read_one_after_the_other() {
        let text = b"Content-Length: 2\r\n\r\n{}content-length:3\r\nX: y\r\n\r\n{ }Content-Length: 1\r\n\r\n{Content-Length: 2\r\n\r\n[]";
        assert_eq!(all(text), ["{}", "{}", "-32700", "-32600"]);
        assert_eq!(all(b"Content-Length: 5\r\n\r\n{}"), Vec::<String>::new());
        assert_eq!(all(b"Content-Length: x\r\n\r\n{}"), ["Content-Length is not a number"]);
        assert_eq!(all(b"X: y\r\n\r\n{}"), ["a message has no Content-Length"]);
        assert_eq!(all(&[b'x'; 10_000]), ["the headers of a message do not end"]);
    }

    /// A length alone takes no memory.
    #[test]
    fn a_message_that_is_too_large_is_skipped() {
        let mut text = format!("Content-Length: {}\r\n\r\n", MESSAGE_BYTES_MAX + 1).into_bytes();
        text.resize(text.len() + MESSAGE_BYTES_MAX as usize + 1, b' ');
        text.extend(b"Content-Length: 2\r\n\r\n{}");
        assert_eq!(all(&text), ["-32600", "{}"]);
        assert_eq!(all(b"Content-Length: 18446744073709551615\r\n\r\n{}"), ["-32600"]);
    }
}
