//! Records in memory.

use crate::run::{Durability, Log, Record};
use bytes::Bytes;

/// How large a piece of memory for records is. Arbitrary.
const CHUNK_BYTES: usize = 64 << 10;

/// Keeps the records of a run in memory, up to a bound: beyond it the records are incomplete and all are let go, and only their number
/// is known. Processes of such a run cannot be rebuilt; the run itself goes on.
pub struct Memory {
    chunks: Vec<Vec<u8>>,
    /// Where each record ends: the number of its chunk, and the place in it. A record never spans two.
    ends: Vec<(u32, u32)>,
    bytes: usize,
    bytes_max: usize,
}

impl Memory {
    /// An empty log that keeps up to so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { chunks: Vec::new(), ends: Vec::new(), bytes: 0, bytes_max }
    }
}

impl Default for Memory {
    /// 256 MiB. Arbitrary.
    fn default() -> Self {
        Self::new(256 << 20)
    }
}

impl Log for Memory {
    fn append(&mut self, parts: &[&[u8]]) -> Durability {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes > self.bytes_max {
            (self.chunks, self.ends) = (Vec::new(), Vec::new());
            return Durability::Now;
        }
        let fits = self.chunks.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= length);
        if !fits {
            self.chunks.push(Vec::with_capacity(length.max(CHUNK_BYTES.min(64 + 2 * self.bytes))));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        for part in parts {
            chunk.extend_from_slice(part);
        }
        self.ends.push((number as u32, chunk.len() as u32));
        Durability::Now
    }

    fn records(&self) -> Option<Vec<Record>> {
        if self.bytes > self.bytes_max {
            return None;
        }
        let chunks: Vec<Bytes> = self.chunks.iter().map(|chunk| Bytes::copy_from_slice(chunk)).collect();
        let mut last = (0, 0);
        let mut records = Vec::with_capacity(self.ends.len());
        for (chunk, end) in &self.ends {
            let start = if last.0 == *chunk { last.1 } else { 0 };
            let bytes = chunks[*chunk as usize].slice(start as usize..*end as usize);
            records.push(Record::decode(bytes).ok()?);
            last = (*chunk, *end);
        }
        Some(records)
    }
}

/// Keeps nothing: for runs whose records nobody will ask for.
#[derive(Clone, Copy, Default, Debug)]
pub struct Nothing;

impl Log for Nothing {
    fn append(&mut self, _: &[&[u8]]) -> Durability {
        Durability::Now
    }

    fn records(&self) -> Option<Vec<Record>> {
        None
    }
}
