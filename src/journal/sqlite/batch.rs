//! What a row of the log holds: records one after the other, and a checksum.
//!
//! `[format: u8] ([length << 1 | is reference: LEB128] [record or hash])* [XXH3 of all before, 64
//! bits, little endian]`
//!
//! A record above [`INLINE_BYTES_MAX`] is a blob of its own, and the row has its BLAKE3 instead.

use super::error::ReadError;
use bytes::Bytes;

const FORMAT: u8 = 1;
const SUM_BYTES: usize = 8;
/// Longer records are blobs. Arbitrary.
pub(super) const INLINE_BYTES_MAX: usize = 64 << 10;

/// The BLAKE3 of a blob.
pub(super) type Hash = [u8; 32];

/// A batch as it is written.
pub(super) struct Sealed {
    pub(super) bytes: Vec<u8>,
    /// Written before the batch.
    pub(super) blobs: Vec<(Hash, Bytes)>,
}

impl Sealed {
    /// The total size of its blobs.
    pub(super) fn blob_bytes(&self) -> usize {
        self.blobs.iter().map(|(_, data)| data.len()).sum()
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8], is_reference: bool) {
    let mut head = (bytes.len() << 1) | usize::from(is_reference);
    while head >= 0x80 {
        out.push(head as u8 | 0x80);
        head >>= 7;
    }
    out.push(head as u8);
    out.extend_from_slice(bytes);
}

/// Encodes a batch of records.
pub(super) fn seal(records: &[Bytes]) -> Sealed {
    let bytes = records.iter().map(|record| record.len().min(INLINE_BYTES_MAX) + 4).sum::<usize>() + 1 + SUM_BYTES;
    let mut sealed = Sealed { bytes: Vec::with_capacity(bytes), blobs: Vec::new() };
    sealed.bytes.push(FORMAT);
    for record in records {
        if record.len() > INLINE_BYTES_MAX {
            let hash = *blake3::hash(record).as_bytes();
            put(&mut sealed.bytes, &hash, true);
            sealed.blobs.push((hash, record.clone()));
        } else {
            put(&mut sealed.bytes, record, false);
        }
    }
    let sum = xxhash_rust::xxh3::xxh3_64(&sealed.bytes);
    sealed.bytes.extend_from_slice(&sum.to_le_bytes());
    sealed
}

/// Decodes the records of a sealed batch, which share its memory. `fetch` reads a blob.
///
/// # Errors
/// Says what is wrong with the batch.
pub(super) fn open(batch: &Bytes, fetch: impl Fn(&Hash) -> Result<Bytes, ReadError>) -> Result<Vec<Bytes>, ReadError> {
    let body = batch.len().checked_sub(SUM_BYTES).ok_or_else(|| "it is too short".to_owned())?;
    let sum = u64::from_le_bytes(batch[body..].try_into().expect("invariant: so many are left"));
    if xxhash_rust::xxh3::xxh3_64(&batch[..body]) != sum {
        return Err("its checksum is wrong".to_owned().into());
    }
    if batch.first() != Some(&FORMAT) {
        return Err(format!("it has the format {:?}, unknown to this release", batch.first()).into());
    }
    let mut records = Vec::new();
    let mut at = 1;
    while at < body {
        let (head, from) = number(&batch[..body], at).ok_or_else(|| "a length is cut".to_owned())?;
        let end = from.checked_add(head >> 1).filter(|end| *end <= body).ok_or_else(|| "a record is cut".to_owned())?;
        let bytes = batch.slice(from..end);
        records.push(if head & 1 == 0 {
            bytes
        } else {
            fetch(bytes[..].try_into().map_err(|_| "a reference to a blob has another length".to_owned())?)?
        });
        at = end;
    }
    Ok(records)
}

/// Reads a number, and returns it with its end.
fn number(batch: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let (mut number, mut shift) = (0_usize, 0);
    loop {
        let byte = *batch.get(at)?;
        at += 1;
        let bits = usize::from(byte & 0x7f);
        number |= bits.checked_shl(shift).filter(|group| group >> shift == bits)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some((number, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_bytes_of_another_format_are_not_read() {
        let mut bytes = seal(&[Bytes::from_static(b"one")]).bytes;
        bytes[0] = FORMAT + 1;
        let body = bytes.len() - SUM_BYTES;
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..body]);
        bytes[body..].copy_from_slice(&sum.to_le_bytes());
        let Err(ReadError::Damaged(why)) = open(&bytes.into(), |_| unreachable!("it has no blobs")) else {
            panic!("it was read")
        };
        assert!(why.contains("unknown to this release"), "{why}");
    }

    proptest! {
        #[test]
        fn gives_back_what_was_sealed(lengths in proptest::collection::vec(0_usize..200_000, 0..8), cut in 0.0..1.0) {
            let records: Vec<Bytes> = lengths.iter().map(|length| vec![*length as u8; *length].into()).collect();
            let sealed = seal(&records);
            let large = lengths.iter().filter(|length| **length > INLINE_BYTES_MAX).count();
            prop_assert_eq!(sealed.blobs.len(), large);
            let fetch = |hash: &Hash| {
                Ok(sealed.blobs.iter().find(|(known, _)| known == hash).expect("it was sealed").1.clone())
            };
            let bytes = Bytes::from(sealed.bytes.clone());
            prop_assert_eq!(open(&bytes, fetch).ok().unwrap(), records);
            // Any truncation and any change is found.
            let cut = (cut * bytes.len() as f64) as usize;
            prop_assert!(open(&bytes.slice(..cut), fetch).is_err());
            let mut flipped = bytes.to_vec();
            flipped[cut] ^= 1;
            prop_assert!(open(&flipped.into(), fetch).is_err());
        }
    }
}
