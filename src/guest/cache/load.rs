//! The layout of a file, and the one place where compiled code is loaded.

use super::MAGIC;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Magic, checksum of all that follows, length of the note, note, code.
const CHECKSUM: std::ops::Range<usize> = 8..40;
const NOTE_LENGTH: std::ops::Range<usize> = 40..48;

/// What a file holds.
pub(super) fn file(note: &[u8], code: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(NOTE_LENGTH.end + note.len() + code.len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&[0; 32]);
    file.extend_from_slice(&(note.len() as u64).to_le_bytes());
    file.extend_from_slice(note);
    file.extend_from_slice(code);
    let checksum = blake3::hash(&file[CHECKSUM.end..]);
    file[CHECKSUM].copy_from_slice(checksum.as_bytes());
    file
}

/// Loads what a file holds.
///
/// # Errors
/// Where it is damaged, or was made by another engine.
pub(super) fn component(engine: &Engine, file: &[u8]) -> Result<(Component, Vec<u8>), String> {
    let (note, code) = parts(file).ok_or("the file is damaged")?;
    // SAFETY: `deserialize` runs whatever native code it is given, so the bytes must come from `Component::serialize` of a
    // wasmtime of the same version and settings. They do: only `file` above writes this layout, its argument is such a
    // serialization, and the folder that it was read from is writable by nobody but the user whom this process runs as
    // (`Folder::open` checks), who could replace this very program as well. The checksum, verified by `parts`, covers every
    // byte that is handed over, so neither a torn write nor a damaged disk changes them. wasmtime itself refuses code of
    // another version, target or setting.
    let component = unsafe { Component::deserialize(engine, code) }.map_err(|error| format!("{error:#}"))?;
    Ok((component, note.to_vec()))
}

/// Loads the code of a component that is loaded already into another engine.
///
/// # Errors
/// Where that engine's settings give other code.
pub(super) fn transfer(component: &Component, engine: &Engine) -> Result<Component, String> {
    let code = component.serialize().map_err(|error| format!("{error:#}"))?;
    // SAFETY: these are the bytes that `serialize` has just given, which have never left this process.
    unsafe { Component::deserialize(engine, code) }.map_err(|error| format!("{error:#}"))
}

/// Note and code, if the checksum is right.
fn parts(file: &[u8]) -> Option<(&[u8], &[u8])> {
    let checksum = file.strip_prefix(MAGIC)?.get(..CHECKSUM.len())?;
    let rest = file.get(CHECKSUM.end..)?;
    if blake3::hash(rest).as_bytes() != checksum {
        return None;
    }
    let note_length = u64::from_le_bytes(file.get(NOTE_LENGTH)?.try_into().ok()?);
    file.get(NOTE_LENGTH.end..)?.split_at_checked(usize::try_from(note_length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(note in vec(any::<u8>(), 0..100), code in vec(any::<u8>(), 0..300)) {
            let file = file(&note, &code);
            prop_assert_eq!(parts(&file), Some((note.as_slice(), code.as_slice())));
        }

        /// Also where the checksum is right, as it is in a file that somebody else wrote.
        #[test]
        fn any_bytes_are_survived(length in prop_oneof![0_u64..100, any::<u64>()], rest in vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(parts(&rest), None);
            let mut forged = file(b"", &rest);
            forged[NOTE_LENGTH].copy_from_slice(&length.to_le_bytes());
            let checksum = blake3::hash(&forged[CHECKSUM.end..]);
            forged[CHECKSUM].copy_from_slice(checksum.as_bytes());
            let found = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
            prop_assert_eq!(parts(&forged), found);
        }
    }

    #[test]
    fn every_damaged_byte_and_every_truncation_is_found() {
        let good = file(b"note", b"code");
        assert_eq!(parts(&good), Some((&b"note"[..], &b"code"[..])));
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 1;
            assert_eq!(parts(&bad), None, "byte {i}");
            assert_eq!(parts(&good[..i]), None, "length {i}");
        }
    }
}
