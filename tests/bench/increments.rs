//! The size of a snapshot that would hold only the changes since another. The pages are read from
//! packed snapshots, whose layout is in `src/guest/snapshot/compact.rs`.

use std::collections::{BTreeMap, BTreeSet};
use wfhost::guest::snapshot::PAGE_BYTES;

/// Magic, format, checksum, two digests.
const HEAD_BYTES: usize = 4 + 4 + 32 + 64;
const GLOBAL_BYTES: usize = 17;
/// The level of whole snapshots.
const LEVEL: i32 = 1;

/// The pages of a snapshot, XORed with a fresh instance's.
pub(crate) struct Pages {
    pages: BTreeMap<(usize, u32), Vec<u8>>,
    /// The sizes of memories and the globals: an increment has them too.
    rest: Vec<u8>,
}

impl Pages {
    pub(crate) fn of(packed: &[u8]) -> Self {
        let (bytes, compressed) = packed[HEAD_BYTES..].split_first_chunk().expect("a head");
        let body = zstd::bulk::decompress(compressed, u64::from_le_bytes(*bytes) as usize).expect("zstd");
        // Only the template knows the number of memories: it is the number that leaves nothing but
        // globals after them.
        (1..=8).find_map(|memories| Self::parse(&body, memories)).expect("a body")
    }

    fn parse(body: &[u8], memories: usize) -> Option<Self> {
        let (fuel, mut body) = body.split_at_checked(9)?;
        let (mut pages, mut rest) = (BTreeMap::new(), fuel.to_vec());
        for memory in 0..memories {
            let (size, after) = body.split_first_chunk::<8>()?;
            rest.extend(size);
            let (count, after) = after.split_first_chunk()?;
            let count = u32::from_le_bytes(*count) as usize;
            let (numbers, after) = after.split_at_checked(count.checked_mul(4)?)?;
            let (content, after) = after.split_at_checked(count.checked_mul(PAGE_BYTES)?)?;
            for (number, page) in numbers.as_chunks().0.iter().zip(content.chunks_exact(PAGE_BYTES)) {
                pages.insert((memory, u32::from_le_bytes(*number)), page.to_vec());
            }
            body = after;
        }
        let globals = body.chunks(GLOBAL_BYTES).all(|global| global.len() == GLOBAL_BYTES && global[0] < 5);
        rest.extend(body);
        (globals && !body.is_empty()).then_some(Self { pages, rest })
    }

    pub(crate) fn count(&self) -> usize {
        self.pages.len()
    }

    /// The bytes of the increment from an earlier snapshot to this one, with its head, and the
    /// number of its pages: those that changed, XORed with the earlier ones.
    pub(crate) fn increment(&self, before: &Self) -> (usize, usize) {
        let all: BTreeSet<_> = self.pages.keys().chain(before.pages.keys()).collect();
        let fresh = vec![0; PAGE_BYTES];
        let (mut numbers, mut content) = (Vec::new(), Vec::new());
        for page in all {
            let [now, before] = [self, before].map(|of| of.pages.get(page).unwrap_or(&fresh));
            if now != before {
                numbers.extend(page.1.to_le_bytes());
                content.extend(now.iter().zip(before).map(|(now, before)| now ^ before));
            }
        }
        let pages = numbers.len() / 4;
        let body = [&self.rest[..], &numbers, &content].concat();
        let compressed = zstd::bulk::compress(&body, LEVEL).expect("zstd");
        // The earlier snapshot must be named: 8 bytes.
        (HEAD_BYTES + 8 + 8 + compressed.len(), pages)
    }
}
