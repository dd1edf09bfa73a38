//! Bytes of records: numbers, texts and lists. Numbers are LEB128, least significant group first; a
//! text is its length and its bytes.

use crate::process::{Json, Micros, Pid, Tag, Timestamp};
use bytes::Bytes;
use std::sync::Arc;

/// Why bytes cannot be decoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damaged {
    /// The bytes end too early.
    #[error("the bytes end too early")]
    Short,
    /// More bytes follow than the value takes.
    #[error("{0} bytes follow the value")]
    Trailing(usize),
    /// A number names no case of what is read.
    #[error("there is no {what} with the number {number}")]
    Unknown {
        /// The type that is read.
        what: &'static str,
        /// The number found.
        number: u64,
    },
    /// A number is too large for what is read.
    #[error("a number is too large")]
    Number,
    /// A text is not UTF-8, or a JSON text is not JSON.
    #[error("a text is damaged: {0}")]
    Text(String),
    /// The bytes are of a format that this release does not know.
    #[error("format {0} is not known to this release")]
    Format(u8),
}

/// A value that can be written into a record and read from it again.
pub(in crate::run) trait Wire: Sized {
    /// Appends the value's bytes.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes the value from the front of the bytes.
    fn take(from: &mut Source) -> Result<Self, Damaged>;
}

/// Bytes that are read from the front. Values share their memory.
pub(in crate::run) struct Source(pub(in crate::run) Bytes);

impl Source {
    pub(in crate::run) fn byte(&mut self) -> Result<u8, Damaged> {
        let first = *self.0.first().ok_or(Damaged::Short)?;
        let _ = self.0.split_to(1);
        Ok(first)
    }

    pub(in crate::run) fn number(&mut self) -> Result<u64, Damaged> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            if shift == 63 && group > 1 {
                return Err(Damaged::Number);
            }
            value |= group << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damaged::Number)
    }

    pub(in crate::run) fn bytes(&mut self) -> Result<Bytes, Damaged> {
        let length = usize::try_from(self.number()?).map_err(|_| Damaged::Number)?;
        self.exactly(length)
    }

    pub(in crate::run) fn exactly(&mut self, length: usize) -> Result<Bytes, Damaged> {
        if length > self.0.len() { Err(Damaged::Short) } else { Ok(self.0.split_to(length)) }
    }

    pub(in crate::run) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let bytes = self.exactly(N)?;
        Ok(bytes.as_ref().try_into().expect("invariant: that many were taken"))
    }

    pub(in crate::run) fn text(&mut self) -> Result<String, Damaged> {
        String::from_utf8(self.bytes()?.into()).map_err(|error| Damaged::Text(error.to_string()))
    }

    pub(in crate::run) fn end(&self) -> Result<(), Damaged> {
        if self.0.is_empty() { Ok(()) } else { Err(Damaged::Trailing(self.0.len())) }
    }
}

#[inline]
pub(in crate::run) fn put_number(out: &mut Vec<u8>, value: u64) {
    if value < 1 << 7 {
        out.push(value as u8);
    } else {
        put_larger(out, value);
    }
}

/// Writes a number of more than one byte. Most of these have two or three, which are written at
/// once.
fn put_larger(out: &mut Vec<u8>, mut value: u64) {
    let group = |number: u32| (value >> (7 * number)) as u8;
    if value < 1 << 14 {
        out.extend_from_slice(&[group(0) | 0x80, group(1)]);
        return;
    }
    if value < 1 << 21 {
        out.extend_from_slice(&[group(0) | 0x80, group(1) | 0x80, group(2)]);
        return;
    }
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(in crate::run) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(in crate::run) fn unknown(what: &'static str, number: u8) -> Damaged {
    Damaged::Unknown { what, number: number.into() }
}

impl Wire for u64 {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, *self);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        from.number()
    }
}

impl Wire for u32 {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, (*self).into());
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        from.number()?.try_into().map_err(|_| Damaged::Number)
    }
}

impl Wire for bool {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(unknown("truth value", other)),
        }
    }
}

impl Wire for Pid {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        from.number().map(Self)
    }
}

impl Wire for Tag {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        from.number().map(Self)
    }
}

impl Wire for Micros {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        from.number().map(Self)
    }
}

impl Wire for Timestamp {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        from.number().map(Self)
    }
}

impl Wire for String {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        from.text()
    }
}

impl Wire for Arc<str> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        from.text().map(Into::into)
    }
}

impl Wire for Bytes {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        from.bytes()
    }
}

impl Wire for Json {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        Self::parse(from.bytes()?).map_err(|error| Damaged::Text(error.to_string()))
    }
}

impl<T: Wire> Wire for Option<T> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.put(out);
            }
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        if bool::take(from)? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Wire> Wire for Vec<T> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.len() as u64);
        for item in self {
            item.put(out);
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        let length = from.number()?;
        // The claimed length is not trusted with memory: each item takes at least one of the bytes
        // left.
        if length > from.0.len() as u64 {
            return Err(Damaged::Short);
        }
        (0..length).map(|_| T::take(from)).collect()
    }
}

impl<T: Wire> Wire for Box<T> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        T::take(from).map(Box::new)
    }
}

impl<T: Wire> Wire for Arc<T> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        T::take(from).map(Arc::new)
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Ok(value) => {
                out.push(0);
                value.put(out);
            }
            Err(error) => {
                out.push(1);
                error.put(out);
            }
        }
    }
    fn take(from: &mut Source) -> Result<Self, Damaged> {
        if bool::take(from)? { E::take(from).map(Err) } else { T::take(from).map(Ok) }
    }
}
