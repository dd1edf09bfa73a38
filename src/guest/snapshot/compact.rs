//! The compact encoding of a snapshot, for memory and for disk.
//!
//! Numbers are little-endian. First an uncompressed header: magic, format (u32), a checksum (blake3
//! of all that follows it), the digests of the component and of its fresh state, the length of the
//! body before compression (u64). Then the body, compressed by zstd:
//! - fuel: a byte that is 1 if there is some, and a u64;
//! - for each memory: its bytes (u64), the number of pages (u32), their numbers (u32 each,
//!   increasing), then their content, XORed with a fresh instance's: few bytes of a page differ,
//!   and the rest becomes zeros;
//! - for each global: its type (u8) and its bits (16 bytes).
//!
//! The checksum detects damage by a disk. It is no signature: parsing trusts nothing in the bytes.

use super::image::Key;
use super::state::{GlobalValue, MemoryState, PAGE_BYTES, Snapshot};
use super::template::Template;
use std::cell::RefCell;
use std::io;
use zstd::bulk::{Compressor, Decompressor};

/// Why bytes are not a snapshot of this component.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// The magic number is missing.
    #[error("these bytes are not a snapshot")]
    NoSnapshot,
    /// This version cannot read the format.
    #[error("the snapshot has format {0}; this version reads {FORMAT}")]
    Format(u32),
    /// The snapshot is of another component.
    #[error("the snapshot is of another component")]
    OtherComponent,
    /// The component is the same, but its fresh instances were different.
    #[error("the snapshot is of this component, but starts from another fresh state")]
    OtherImage,
    /// The bytes have changed since they were written.
    #[error("the snapshot is damaged: {0}")]
    Damaged(&'static str),
    /// The snapshot has more memory than the guest may have, in bytes.
    #[error("the snapshot has more than {0} bytes of memory")]
    TooLarge(u64),
    /// The compressor failed.
    #[error("the snapshot cannot be compressed: {0}")]
    Compress(#[from] io::Error),
}

const MAGIC: [u8; 4] = *b"wfsn";
const FORMAT: u32 = 1;

/// The fastest of zstd's ordinary levels. Measured: level 3 takes twice the time for a tenth less.
const LEVEL: i32 = 1;

const CHECKSUM_AT: usize = MAGIC.len() + size_of::<u32>();
const CHECKED_AT: usize = CHECKSUM_AT + blake3::OUT_LEN;
const GLOBAL_BYTES: usize = 1 + size_of::<u128>();

thread_local! {
    // Their tables take longer to set up than a small snapshot takes to compress.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

impl Template {
    /// Encodes a snapshot that this template took.
    ///
    /// # Errors
    /// Fails if the compressor has no memory.
    pub fn pack(&self, snapshot: &Snapshot) -> Result<Vec<u8>, CompactError> {
        let body = self.body(snapshot);
        let compressed = COMPRESSOR.with_borrow_mut(|compressor| match compressor {
            Some(compressor) => compressor.compress(&body),
            none => none.insert(Compressor::new(LEVEL)?).compress(&body),
        })?;
        let key = self.key();
        let mut packed = Vec::with_capacity(CHECKED_AT + size_of::<Key>() + size_of::<u64>() + compressed.len());
        packed.extend(MAGIC);
        packed.extend(FORMAT.to_le_bytes());
        packed.extend([0; blake3::OUT_LEN]);
        packed.extend(key.component);
        packed.extend(key.image);
        packed.extend((body.len() as u64).to_le_bytes());
        packed.extend(compressed);
        let checksum = blake3::hash(&packed[CHECKED_AT..]);
        packed[CHECKSUM_AT..CHECKED_AT].copy_from_slice(checksum.as_bytes());
        Ok(packed)
    }

    pub(super) fn body(&self, snapshot: &Snapshot) -> Vec<u8> {
        let mut body = Vec::with_capacity(snapshot.heap_bytes() + snapshot.globals.len() * GLOBAL_BYTES + 64);
        body.push(u8::from(snapshot.fuel.is_some()));
        body.extend(snapshot.fuel.unwrap_or(0).to_le_bytes());
        for (memory, image) in snapshot.memories.iter().zip(self.images()) {
            body.extend(memory.bytes.to_le_bytes());
            body.extend((memory.pages.len() as u32).to_le_bytes());
            body.extend(memory.pages.iter().flat_map(|page| page.to_le_bytes()));
            for (page, content) in memory.iter() {
                body.extend(content.iter().zip(image.page(page as usize)).map(|(now, fresh)| now ^ fresh));
            }
        }
        for global in &snapshot.globals {
            let (kind, bits) = global.encode();
            body.push(kind);
            body.extend(bits.to_le_bytes());
        }
        body
    }

    /// Decodes what [`Self::pack`] gave, perhaps in another process. The bytes may be hostile. The
    /// result fits this component and has at most `memory_bytes_max` bytes of memory.
    ///
    /// # Errors
    /// Fails if the bytes are not a snapshot, or not of this component.
    pub fn unpack(&self, packed: &[u8], memory_bytes_max: u64) -> Result<Snapshot, CompactError> {
        let mut head = Reader(packed);
        if head.array() != Some(MAGIC) {
            return Err(CompactError::NoSnapshot);
        }
        let short = CompactError::Damaged("it ends too early");
        let Some(format) = head.u32() else { return Err(short) };
        if format != FORMAT {
            return Err(CompactError::Format(format));
        }
        let Some(checksum) = head.array::<{ blake3::OUT_LEN }>() else { return Err(short) };
        if blake3::hash(head.0) != checksum {
            return Err(CompactError::Damaged("its checksum is wrong"));
        }
        let (Some(component), Some(image), Some(body_bytes)) = (head.array(), head.array(), head.u64()) else {
            return Err(short);
        };
        if component != self.key().component {
            return Err(CompactError::OtherComponent);
        }
        if image != self.key().image {
            return Err(CompactError::OtherImage);
        }
        if body_bytes > self.body_bytes_max(memory_bytes_max) {
            return Err(CompactError::TooLarge(memory_bytes_max));
        }
        let body = decompress(head.0, body_bytes)?;
        let snapshot = self.parse(&body, memory_bytes_max)?;
        Ok(snapshot)
    }

    /// The longest possible body. A longer one is refused before anything is allocated for it.
    fn body_bytes_max(&self, memory_bytes_max: u64) -> u64 {
        let page_numbers = memory_bytes_max / PAGE_BYTES as u64 * size_of::<u32>() as u64;
        let rest = 9 + self.images().len() * 12 + self.fresh_globals().len() * GLOBAL_BYTES;
        memory_bytes_max.saturating_add(page_numbers).saturating_add(rest as u64)
    }

    fn parse(&self, body: &[u8], memory_bytes_max: u64) -> Result<Snapshot, CompactError> {
        let mut body = Reader(body);
        let short = || CompactError::Damaged("its body ends too early");
        let has_fuel = body.u8().ok_or_else(short)?;
        let fuel = body.u64().ok_or_else(short)?;
        let fuel = match has_fuel {
            0 if fuel == 0 => None,
            1 => Some(fuel),
            _ => return Err(CompactError::Damaged("its fuel is inconsistent")),
        };
        let mut left = memory_bytes_max;
        let mut memories = Vec::with_capacity(self.images().len());
        for (ty, image) in self.memory_types().zip(self.images()) {
            let bytes = body.u64().ok_or_else(short)?;
            left = left.checked_sub(bytes).ok_or(CompactError::TooLarge(memory_bytes_max))?;
            let pages_max = ty.maximum().unwrap_or(u64::MAX);
            if bytes < image.bytes() as u64
                || !bytes.is_multiple_of(ty.page_size())
                || bytes / ty.page_size() > pages_max
            {
                return Err(CompactError::Damaged("a memory has a size that it cannot have"));
            }
            let count = body.u32().ok_or_else(short)? as usize;
            let numbers = body.take(count.checked_mul(size_of::<u32>()).ok_or_else(short)?).ok_or_else(short)?;
            let content = body.take(count.checked_mul(PAGE_BYTES).ok_or_else(short)?).ok_or_else(short)?;
            let (numbers, _) = numbers.as_chunks();
            let pages: Vec<u32> = numbers.iter().map(|number| u32::from_le_bytes(*number)).collect();
            let in_order = pages.windows(2).all(|two| two[0] < two[1]);
            if !in_order || pages.last().is_some_and(|last| u64::from(*last) >= bytes / PAGE_BYTES as u64) {
                return Err(CompactError::Damaged("its pages are out of order"));
            }
            let mut content = content.to_vec();
            for (page, content) in pages.iter().zip(content.chunks_exact_mut(PAGE_BYTES)) {
                for (byte, fresh) in content.iter_mut().zip(image.page(*page as usize)) {
                    *byte ^= fresh;
                }
            }
            memories.push(MemoryState { bytes, pages, content });
        }
        let mut globals = Vec::with_capacity(self.fresh_globals().len());
        for fresh in self.fresh_globals() {
            let kind = body.u8().ok_or_else(short)?;
            let bits = u128::from_le_bytes(body.array().ok_or_else(short)?);
            let value = GlobalValue::decode(kind, bits);
            let value = value.filter(|value| std::mem::discriminant(value) == std::mem::discriminant(fresh));
            globals.push(value.ok_or(CompactError::Damaged("a global is of another type"))?);
        }
        if body.0.is_empty() {
            Ok(Snapshot { fuel, memories, globals })
        } else {
            Err(CompactError::Damaged("its body is too long for its content"))
        }
    }
}

fn decompress(compressed: &[u8], body_bytes: u64) -> Result<Vec<u8>, CompactError> {
    let bad = |_| CompactError::Damaged("it cannot be decompressed");
    let capacity = usize::try_from(body_bytes).map_err(|_| CompactError::Damaged("its body is too long"))?;
    let body = DECOMPRESSOR.with_borrow_mut(|decompressor| match decompressor {
        Some(decompressor) => decompressor.decompress(compressed, capacity).map_err(bad),
        none => none.insert(Decompressor::new()?).decompress(compressed, capacity).map_err(bad),
    })?;
    if body.len() == capacity { Ok(body) } else { Err(CompactError::Damaged("its body has another length")) }
}

/// Takes bytes from the front; `None` if there are too few.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
