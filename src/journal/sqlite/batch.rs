//! What a row of the log holds: records one after the other, and a checksum.
//!
//! `[format: u8] ([length: LEB128] [record])* [XXH3 of all before, 64 bits, little endian]`

use bytes::Bytes;

const FORMAT: u8 = 1;
const SUM_BYTES: usize = 8;

/// An empty batch.
pub(super) fn begin(out: &mut Vec<u8>) {
    out.push(FORMAT);
}

pub(super) fn put(out: &mut Vec<u8>, record: &[u8]) {
    let mut length = record.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(record);
}

/// Closes a batch.
pub(super) fn seal(out: &mut Vec<u8>) {
    let sum = xxhash_rust::xxh3::xxh3_64(out);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// The records of a sealed batch, which share its memory.
///
/// # Errors
/// What is wrong with it.
pub(super) fn open(batch: Bytes) -> Result<Vec<Bytes>, String> {
    let body = batch.len().checked_sub(SUM_BYTES).ok_or("a row is too short")?;
    let sum = u64::from_le_bytes(batch[body..].try_into().expect("invariant: so many are left"));
    if xxhash_rust::xxh3::xxh3_64(&batch[..body]) != sum {
        return Err("the checksum of a row is wrong".to_owned());
    }
    if batch.first() != Some(&FORMAT) {
        return Err(format!("a row has the format {:?}, unknown to this release", batch.first()));
    }
    records(&batch.slice(..body)).map_err(str::to_owned)
}

/// The records of a batch that is not sealed.
pub(super) fn records(batch: &Bytes) -> Result<Vec<Bytes>, &'static str> {
    let mut records = Vec::new();
    let mut at = 1;
    while at < batch.len() {
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let byte = *batch.get(at).ok_or("a row ends within a length")?;
            at += 1;
            let group =
                usize::from(byte & 0x7f).checked_shl(shift).filter(|group| group >> shift == usize::from(byte & 0x7f));
            length |= group.ok_or("a length is too large")?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let end = at.checked_add(length).filter(|end| *end <= batch.len()).ok_or("a row ends within a record")?;
        records.push(batch.slice(at..end));
        at = end;
    }
    Ok(records)
}
