//! What a snapshot holds.

use wasmtime::{V128, Val};

/// Bytes of a snapshot's page, whatever the size of the kernel's pages.
pub const PAGE_BYTES: usize = 4096;

/// The value of a global, by its bits: a NaN keeps its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GlobalValue {
    /// An i32.
    I32(u32),
    /// An i64.
    I64(u64),
    /// The bits of an f32.
    F32(u32),
    /// The bits of an f64.
    F64(u64),
    /// A v128.
    V128(u128),
}

impl GlobalValue {
    /// `None` for a reference.
    pub(super) fn of(value: &Val) -> Option<Self> {
        Some(match value {
            Val::I32(value) => Self::I32(value.cast_unsigned()),
            Val::I64(value) => Self::I64(value.cast_unsigned()),
            Val::F32(bits) => Self::F32(*bits),
            Val::F64(bits) => Self::F64(*bits),
            Val::V128(value) => Self::V128(value.as_u128()),
            _ => return None,
        })
    }

    pub(super) fn to_val(self) -> Val {
        match self {
            Self::I32(value) => Val::I32(value.cast_signed()),
            Self::I64(value) => Val::I64(value.cast_signed()),
            Self::F32(bits) => Val::F32(bits),
            Self::F64(bits) => Val::F64(bits),
            Self::V128(value) => Val::V128(V128::from(value)),
        }
    }

    /// A number for the type, and all bits of the value.
    pub(super) fn encode(self) -> (u8, u128) {
        match self {
            Self::I32(value) => (0, value.into()),
            Self::I64(value) => (1, value.into()),
            Self::F32(bits) => (2, bits.into()),
            Self::F64(bits) => (3, bits.into()),
            Self::V128(value) => (4, value),
        }
    }

    /// `None` if no type has the number, or the value is too large for the type.
    pub(super) fn decode(kind: u8, bits: u128) -> Option<Self> {
        Some(match kind {
            0 => Self::I32(bits.try_into().ok()?),
            1 => Self::I64(bits.try_into().ok()?),
            2 => Self::F32(bits.try_into().ok()?),
            3 => Self::F64(bits.try_into().ok()?),
            4 => Self::V128(bits),
            _ => return None,
        })
    }
}

/// One memory: its size, and the pages that differ from a fresh instance's.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct MemoryState {
    pub(super) bytes: u64,
    /// Page numbers, increasing.
    pub(super) pages: Vec<u32>,
    /// Their content, one after the other.
    pub(super) content: Vec<u8>,
}

impl MemoryState {
    pub(super) fn push(&mut self, page: u32, content: &[u8]) {
        self.pages.push(page);
        self.content.extend_from_slice(content);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.pages.iter().copied().zip(self.content.chunks_exact(PAGE_BYTES))
    }
}

/// The state of a guest between two steps, as it differs from a fresh instance.
/// [`Template::pack`](super::Template::pack) encodes it compactly.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Snapshot {
    pub(super) fuel: Option<u64>,
    pub(super) memories: Vec<MemoryState>,
    pub(super) globals: Vec<GlobalValue>,
}

impl Snapshot {
    /// Fuel left in the store; `None` if the engine does not count fuel.
    pub fn fuel(&self) -> Option<u64> {
        self.fuel
    }

    /// Number of pages that the snapshot holds.
    pub fn pages(&self) -> usize {
        self.memories.iter().map(|memory| memory.pages.len()).sum()
    }

    /// Bytes of all memories of the guest.
    pub fn memory_bytes(&self) -> u64 {
        self.memories.iter().map(|memory| memory.bytes).sum()
    }

    /// Bytes that the snapshot takes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.memories.iter().map(|memory| memory.content.len() + memory.pages.len() * size_of::<u32>()).sum()
    }

    /// A digest of the guest's state without its fuel. Two guests of one template have equal
    /// digests if and only if their memories and globals are equal, since a snapshot holds exactly
    /// what differs from a fresh instance.
    pub fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for memory in &self.memories {
            hasher.update(&memory.bytes.to_le_bytes());
            hasher.update(&(memory.pages.len() as u64).to_le_bytes());
            for (page, content) in memory.iter() {
                hasher.update(&page.to_le_bytes());
                hasher.update(content);
            }
        }
        for global in &self.globals {
            let (kind, bits) = global.encode();
            hasher.update(&[kind]);
            hasher.update(&bits.to_le_bytes());
        }
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_differs_but_fuel_makes_another_digest() {
        let snapshot = |fuel, bytes, page, fill, global| {
            let mut memory = MemoryState { bytes, ..MemoryState::default() };
            memory.push(page, &[fill; PAGE_BYTES]);
            Snapshot { fuel, memories: vec![memory], globals: vec![global] }
        };
        let one = snapshot(None, 1 << 16, 3, 1, GlobalValue::I32(5)).digest();
        assert_eq!(one, snapshot(Some(9), 1 << 16, 3, 1, GlobalValue::I32(5)).digest());
        let others = [
            snapshot(None, 2 << 16, 3, 1, GlobalValue::I32(5)),
            snapshot(None, 1 << 16, 4, 1, GlobalValue::I32(5)),
            snapshot(None, 1 << 16, 3, 2, GlobalValue::I32(5)),
            snapshot(None, 1 << 16, 3, 1, GlobalValue::I32(6)),
            snapshot(None, 1 << 16, 3, 1, GlobalValue::F32(5)),
        ];
        for other in others {
            assert_ne!(one, other.digest(), "{:?}, {:?}", other.memories[0].pages, other.globals);
        }
    }
}
