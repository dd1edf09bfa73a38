//! The memory of a fresh instance, stored sparsely: most of it is zero.

use super::state::PAGE_BYTES;

static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Marks a page of zeros in [`Image::slots`].
const ZERO: u32 = u32::MAX;

/// Identifies the component and the fresh state that a snapshot belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Digest of the component's bytes.
    pub component: [u8; 32],
    /// Digest of a fresh instance: the types and contents of its memories and globals.
    pub image: [u8; 32],
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Image {
    /// For each page its position in `content`, or [`ZERO`].
    slots: Vec<u32>,
    content: Vec<u8>,
}

impl Image {
    pub(super) fn of(memory: &[u8]) -> Self {
        let mut image = Self::default();
        for page in memory.chunks_exact(PAGE_BYTES) {
            if page == ZEROS {
                image.slots.push(ZERO);
            } else {
                image.slots.push((image.content.len() / PAGE_BYTES) as u32);
                image.content.extend_from_slice(page);
            }
        }
        image
    }

    /// Bytes of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * PAGE_BYTES
    }

    /// Bytes that the image takes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.content.len() + self.slots.len() * size_of::<u32>()
    }

    /// A page of the memory. Beyond the end there are zeros, because that is what a memory grows
    /// by.
    pub(super) fn page(&self, page: usize) -> &[u8] {
        match self.slots.get(page) {
            None | Some(&ZERO) => &ZEROS,
            Some(&slot) => {
                let start = slot as usize * PAGE_BYTES;
                self.content.get(start..start + PAGE_BYTES).expect("invariant: a slot is the place of a whole page")
            }
        }
    }

    pub(super) fn hash_into(&self, hasher: &mut blake3::Hasher) {
        hasher.update(&(self.slots.len() as u64).to_le_bytes());
        for slot in &self.slots {
            hasher.update(&slot.to_le_bytes());
        }
        hasher.update(&self.content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_every_page_and_zeros_beyond() {
        let mut memory = vec![0; 5 * PAGE_BYTES];
        memory[PAGE_BYTES + 7] = 1;
        memory[4 * PAGE_BYTES] = 2;
        let image = Image::of(&memory);
        for page in 0..5 {
            assert_eq!(image.page(page), &memory[page * PAGE_BYTES..(page + 1) * PAGE_BYTES]);
        }
        assert_eq!(image.page(5), &ZEROS);
        assert_eq!(image.bytes(), memory.len());
        assert!(image.heap_bytes() < 3 * PAGE_BYTES);
    }
}
