//! Compiled functions that components of one family share.
//!
//! A program in JavaScript or Python is an interpreter of thousands of functions with the program's
//! text as data: two of them differ in a handful of functions. So the compiled functions of such a
//! component are kept, and the next version of it compiles only those that are new. The child does
//! all of it: it gets the functions with the component's bytes, and returns those that the
//! component uses, if enough of them are new to be worth a file.
//!
//! - **I1** A function is found by the digest (SHA-256) of what the compiler is given for it, which
//!   Cranelift computes: the same input gives the same code, whoever compiled it first. So one
//!   component cannot give code to another, short of a collision or a flaw of that digest.
//! - **I2** Only what a child returned is stored, in the folder of the code cache, with its checks
//!   (`cache/load.rs`). What is damaged is compiled.
//! - **I3** A family has one file, with the functions of its last component.
//!
//! *Rejected*: one store for all components, which every compilation would have to read; a store
//! that the child opens: it has no files.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use wasmtime::CacheStore;

/// Smaller components compile in less time than this saves. Arbitrary.
const COMPONENT_BYTES_MIN: usize = 512 << 10;

/// Functions that make a family: the largest ones belong to the interpreter. Arbitrary.
const FAMILY_FUNCTIONS: usize = 8;

/// A part smaller than this is not worth writing all the functions again: one in that many bytes.
/// Arbitrary.
const NEW_PART_MIN: usize = 16;

/// Bytes of the functions of a family, before compression. Those of a Python guest have 53 MB.
pub(super) const FUNCTIONS_BYTES_MAX: usize = 256 << 20;

const KEY_BYTES: usize = 32;
const LENGTH_BYTES: usize = 4;

/// Fast: the functions are written by the process that a person waits for.
const COMPRESSION_LEVEL: i32 = 1;

/// The family of a component; `None` if it is too small to have one.
pub(super) fn family(component: &[u8]) -> Option<blake3::Hash> {
    use wasmparser::{Parser, Payload};
    if component.len() < COMPONENT_BYTES_MIN {
        return None;
    }
    let bodies = Parser::new(0).parse_all(component).filter_map(|payload| match payload {
        Ok(Payload::CodeSectionEntry(body)) => Some(body.range()),
        _ => None,
    });
    let mut bodies: Vec<_> = bodies.collect();
    bodies.sort_by_key(|body| std::cmp::Reverse(body.len()));
    let mut family = blake3::Hasher::new();
    for body in bodies.into_iter().take(FAMILY_FUNCTIONS) {
        family.update(blake3::hash(component.get(body)?).as_bytes());
    }
    Some(family.finalize())
}

/// The functions that a component finds and adds.
#[derive(Debug, Default)]
pub(super) struct Functions {
    old: Vec<u8>,
    /// Where the code of each is in `old`.
    places: HashMap<[u8; KEY_BYTES], (usize, usize)>,
    /// Guards those that the compiler's threads have found and added.
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    found: Vec<[u8; KEY_BYTES]>,
    new: Vec<([u8; KEY_BYTES], Vec<u8>)>,
    new_bytes: usize,
}

impl Functions {
    /// Reads functions as [`Self::used`] wrote them. What is damaged is empty.
    pub(super) fn read(compressed: &[u8]) -> Arc<Self> {
        let old = zstd::bulk::decompress(compressed, FUNCTIONS_BYTES_MAX).unwrap_or_default();
        let mut places = HashMap::new();
        let mut at = 0;
        while let Some((key, length)) = entry(&old, at) {
            let begins = at + KEY_BYTES + LENGTH_BYTES;
            if length > old.len() - begins {
                break;
            }
            places.insert(key, (begins, length));
            at = begins + length;
        }
        Arc::new(Self { old, places, used: Mutex::default() })
    }

    /// The functions that were found and added, if those that were added are worth writing.
    pub(super) fn used(&self) -> Option<Vec<u8>> {
        let used = self.used.lock().ok()?;
        if used.new_bytes == 0 || used.new_bytes < self.old.len() / NEW_PART_MIN {
            return None;
        }
        let mut all = Vec::with_capacity(self.old.len() + used.new_bytes);
        let old = used.found.iter().filter_map(|key| Some((key, self.code(key)?)));
        let new = used.new.iter().map(|(key, code)| (key, code.as_slice()));
        for (key, code) in old.chain(new) {
            let length = u32::try_from(code.len()).ok()?;
            if all.len() + KEY_BYTES + LENGTH_BYTES + code.len() > FUNCTIONS_BYTES_MAX {
                break;
            }
            all.extend_from_slice(key);
            all.extend_from_slice(&length.to_le_bytes());
            all.extend_from_slice(code);
        }
        zstd::bulk::compress(&all, COMPRESSION_LEVEL).ok()
    }

    fn code(&self, key: &[u8; KEY_BYTES]) -> Option<&[u8]> {
        let (begins, length) = *self.places.get(key)?;
        self.old.get(begins..begins + length)
    }
}

/// The key and the length of the entry there.
fn entry(entries: &[u8], at: usize) -> Option<([u8; KEY_BYTES], usize)> {
    let (key, rest) = entries.get(at..)?.split_first_chunk()?;
    let length = u32::from_le_bytes(*rest.first_chunk()?);
    Some((*key, length as usize))
}

impl CacheStore for Functions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let key = key.try_into().ok()?;
        let code = self.code(&key)?;
        self.used.lock().ok()?.found.push(key);
        Some(Cow::Borrowed(code))
    }

    fn insert(&self, key: &[u8], code: Vec<u8>) -> bool {
        let (Ok(key), Ok(mut used)) = (key.try_into(), self.used.lock()) else { return false };
        if used.new_bytes + code.len() > FUNCTIONS_BYTES_MAX {
            return false;
        }
        used.new_bytes += code.len();
        used.new.push((key, code));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(count: u8) -> Vec<u8> {
        let functions = Functions::read(&[]);
        for i in 0..count {
            assert!(functions.insert(&[i; KEY_BYTES], vec![i; 100]));
        }
        functions.used().unwrap()
    }

    #[test]
    fn what_was_added_is_found() {
        let functions = Functions::read(&filled(20));
        for i in 0..20 {
            assert_eq!(functions.get(&[i; KEY_BYTES]).as_deref(), Some(&[i; 100][..]));
        }
        assert_eq!(functions.get(&[20; KEY_BYTES]), None);
        assert_eq!(functions.get(b"short"), None);
    }

    #[test]
    fn a_few_new_functions_are_not_written_and_unused_ones_vanish() {
        let first = filled(100);
        let functions = Functions::read(&first);
        functions.get(&[1; KEY_BYTES]);
        functions.insert(&[200; KEY_BYTES], vec![0; 100]);
        assert_eq!(functions.used(), None);
        functions.insert(&[201; KEY_BYTES], vec![0; 2000]);
        let second = Functions::read(&functions.used().unwrap());
        let mut keys: Vec<u8> = second.places.keys().map(|key| key[0]).collect();
        keys.sort_unstable();
        assert_eq!(keys, [1, 200, 201]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            Functions::read(&bytes);
            let functions = Functions::read(&zstd::bulk::compress(&bytes, 1).unwrap());
            for key in functions.places.keys() {
                prop_assert!(functions.code(key).is_some());
            }
        }
    }

    #[test]
    fn a_family_is_its_largest_functions() {
        let body = |bytes: usize, add: &str| format!("(func {} {add})", "(drop (i32.const 7))".repeat(bytes / 3));
        let component = |small: &str| {
            let large: String = (1..=8).map(|i| body(90_000 + 3 * i, "")).collect();
            wat::parse_str(format!("(component (core module {large} {}))", body(90, small))).unwrap()
        };
        let first = family(&component("")).unwrap();
        assert_eq!(family(&component("(drop (i32.const 8))")), Some(first));
        assert_eq!(family(b"small"), None);
        let other = wat::parse_str(format!("(component (core module {}))", body(600_000, ""))).unwrap();
        assert_ne!(family(&other), Some(first));
    }
}
