//! The layout of a file, and the one place where compiled code is loaded.
//!
//! The code comes first, as the engine gave it, so that the file can be mapped into memory: code,
//! note, length of the note, checksum of all that and of the file's name, magic. So a file under
//! another file's name is detected too.

use super::MAGIC;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use wasmtime::Engine;
use wasmtime::component::Component;

const LENGTH_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 32;
/// The bytes after the note.
const TRAILER_BYTES: usize = LENGTH_BYTES + CHECKSUM_BYTES + MAGIC.len();

/// Bytes read at a time to compute the checksum. Small enough to stay in a cache, large enough for
/// the hash's widest path.
const CHUNK_BYTES: usize = 32 << 10;

/// The bytes of the file of this name.
pub(super) fn file(name: &str, note: &[u8], code: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(code.len() + note.len() + TRAILER_BYTES);
    file.extend_from_slice(code);
    file.extend_from_slice(note);
    file.extend_from_slice(&(note.len() as u64).to_le_bytes());
    let checksum = blake3::Hasher::new().update(&file).update(name.as_bytes()).finalize();
    file.extend_from_slice(checksum.as_bytes());
    file.extend_from_slice(MAGIC);
    file
}

/// Loads the code and note of the file of this name.
///
/// # Errors
/// Fails if the file is damaged, or was made by another engine.
pub(super) fn component(engine: &Engine, name: &str, file: &File) -> Result<(Component, Vec<u8>), String> {
    let note = check(name, file).ok().flatten().ok_or("the file is damaged")?;
    // If code cannot be executed out of a file (a file system may forbid it), it is read into
    // memory.
    let component = mapped(engine, file).or_else(|_| copied(engine, name, file))?;
    Ok((component, note))
}

/// The bytes in the place of code, in a file that no engine loads, if the file is undamaged.
pub(super) fn stored(name: &str, mut file: &File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let length = code(name, &bytes)?.len();
    bytes.truncate(length);
    Some(bytes)
}

/// Maps the code of a file that was checked.
fn mapped(engine: &Engine, file: &File) -> Result<Component, String> {
    // This name opens the very file that was checked, whatever is at its path by now.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: `deserialize_file` runs whatever native code it is given, so the bytes must come from
    // `Component::serialize` of a wasmtime of the same version and settings. They do: only `file`
    // above writes this layout, its argument is such a serialization, and the folder it was opened
    // in is writable only by the user that this process runs as (`Folder::open` checks), who could
    // replace this very program as well. `check` has verified the checksum of every byte, so
    // neither a torn write nor a damaged disk has changed them; and they do not change while they
    // are mapped, since files of the folder are replaced whole and never written in place. wasmtime
    // itself refuses code of another version, target or setting, and reads only what the code's own
    // headers name, so it ignores what follows the code.
    unsafe { Component::deserialize_file(engine, path) }.map_err(|error| format!("{error:#}"))
}

/// Loads the code of a file through memory.
fn copied(engine: &Engine, name: &str, mut file: &File) -> Result<Component, String> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| error.to_string())?;
    let code = code(name, &bytes).ok_or("the file is damaged")?;
    // SAFETY: as above; the checksum was verified once more, of these very bytes.
    unsafe { Component::deserialize(engine, code) }.map_err(|error| format!("{error:#}"))
}

/// Loads code that a child process of ours has just compiled.
///
/// # Errors
/// Fails if another engine made it.
pub(super) fn compiled(engine: &Engine, code: Vec<u8>) -> Result<Component, String> {
    // SAFETY: `deserialize` runs whatever native code it is given. These bytes are what
    // `Engine::precompile_component` gave in a child that this process started, from this very
    // program or from the one that its embedder has named for that, whose code would be run here as
    // well. They came, complete, through a pipe that no other process has: an answer is accepted
    // only from a child that has exited successfully. wasmtime itself refuses code of another
    // version, target or setting.
    unsafe { Component::deserialize(engine, code) }.map_err(|error| format!("{error:#}"))
}

/// Loads the code of a component that is already loaded into another engine.
///
/// # Errors
/// Fails if that engine's settings give other code.
pub(super) fn transfer(component: &Component, engine: &Engine) -> Result<Component, String> {
    let code = component.serialize().map_err(|error| format!("{error:#}"))?;
    // SAFETY: these are the bytes that `serialize` has just given, which have never left this
    // process.
    unsafe { Component::deserialize(engine, code) }.map_err(|error| format!("{error:#}"))
}

/// The note of a file, if the checksum is right. The file is read piece by piece: its pages are
/// mapped later, not copied.
fn check(name: &str, file: &File) -> io::Result<Option<Vec<u8>>> {
    let length = file.metadata()?.len();
    let Some(note_end) = length.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, note_end)?;
    let (note_length, rest) = trailer.split_at(LENGTH_BYTES);
    let (checksum, magic) = rest.split_at(CHECKSUM_BYTES);
    if magic != MAGIC {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < note_end {
        let wanted = chunk.len().min(usize::try_from(note_end - at).unwrap_or(usize::MAX));
        file.read_exact_at(&mut chunk[..wanted], at)?;
        hasher.update(&chunk[..wanted]);
        at += wanted as u64;
    }
    hasher.update(note_length).update(name.as_bytes());
    if hasher.finalize().as_bytes() != checksum {
        return Ok(None);
    }
    let note_length = u64::from_le_bytes(note_length.try_into().expect("invariant: it was split off at 8"));
    let Some(note_start) = note_end.checked_sub(note_length) else { return Ok(None) };
    let mut note = vec![0; usize::try_from(note_length).unwrap_or_default()];
    file.read_exact_at(&mut note, note_start)?;
    Ok(Some(note))
}

/// The code in the bytes of a file, if the checksum is right.
fn code<'a>(name: &str, file: &'a [u8]) -> Option<&'a [u8]> {
    let rest = file.strip_suffix(MAGIC)?;
    let (rest, checksum) = rest.split_at_checked(rest.len().checked_sub(CHECKSUM_BYTES)?)?;
    if blake3::Hasher::new().update(rest).update(name.as_bytes()).finalize().as_bytes() != checksum {
        return None;
    }
    let (rest, note_length) = rest.split_at_checked(rest.len().checked_sub(LENGTH_BYTES)?)?;
    let note_length = usize::try_from(u64::from_le_bytes(note_length.try_into().ok()?)).ok()?;
    rest.get(..rest.len().checked_sub(note_length)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::io::Write as _;

    const NAME: &str = "a.wfcode";

    fn written(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn checked(bytes: &[u8]) -> Option<Vec<u8>> {
        check(NAME, &written(bytes)).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(note in vec(any::<u8>(), 0..100), text in vec(any::<u8>(), 0..300)) {
            let file = file(NAME, &note, &text);
            prop_assert_eq!(code(NAME, &file), Some(text.as_slice()));
            prop_assert_eq!(checked(&file), Some(note));
        }

        /// Even with the right checksum, as in a file that another person wrote.
        #[test]
        fn any_bytes_are_survived(length in prop_oneof![0_u64..100, any::<u64>()], rest in vec(any::<u8>(), 0..100)) {
            prop_assert_eq!((checked(&rest), code(NAME, &rest)), (None, None));
            let mut forged = [rest.as_slice(), &length.to_le_bytes()].concat();
            let checksum = blake3::Hasher::new().update(&forged).update(NAME.as_bytes()).finalize();
            forged.extend_from_slice(checksum.as_bytes());
            forged.extend_from_slice(MAGIC);
            let code_length = usize::try_from(length).ok().and_then(|length| rest.len().checked_sub(length));
            let found = code_length.map(|length| rest.split_at(length));
            prop_assert_eq!(code(NAME, &forged), found.map(|(code, _)| code));
            prop_assert_eq!(checked(&forged), found.map(|(_, note)| note.to_vec()));
        }
    }

    #[test]
    fn every_damaged_byte_and_every_truncation_is_found() {
        let good = file(NAME, b"note", b"code");
        assert_eq!((checked(&good), code(NAME, &good)), (Some(b"note".to_vec()), Some(&b"code"[..])));
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 1;
            assert_eq!((checked(&bad), code(NAME, &bad)), (None, None), "byte {i}");
            assert_eq!((checked(&good[..i]), code(NAME, &good[..i])), (None, None), "length {i}");
        }
    }

    #[test]
    fn a_file_with_the_name_of_another_one_is_found() {
        let other = file("b.wfcode", b"note", b"code");
        assert_eq!((checked(&other), code(NAME, &other)), (None, None));
    }

    #[test]
    fn a_long_file_is_checked_to_its_last_byte() {
        let long = vec![7; 3 * CHUNK_BYTES + 5];
        let good = file(NAME, b"", &long);
        assert_eq!((checked(&good), code(NAME, &good)), (Some(Vec::new()), Some(&long[..])));
        for i in [0, CHUNK_BYTES, 3 * CHUNK_BYTES, long.len() - 1] {
            let mut bad = good.clone();
            bad[i] ^= 1;
            assert_eq!(checked(&bad), None, "byte {i}");
        }
    }

    #[test]
    fn mapped_and_copied_code_are_the_same() {
        let engine = Engine::default();
        let text = r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
            (func (export "f") (canon lift (core func $i "f"))))"#;
        let original = Component::new(&engine, wat::parse_str(text).unwrap()).unwrap().serialize().unwrap();
        let file = written(&file(NAME, b"a note of an odd length", &original));
        for loaded in [mapped(&engine, &file).unwrap(), copied(&engine, NAME, &file).unwrap()] {
            assert_eq!(loaded.serialize().unwrap()[..original.len()], original[..]);
        }
        assert_eq!(check(NAME, &file).unwrap().unwrap(), b"a note of an odd length");
        let mut other = wasmtime::Config::new();
        other.consume_fuel(true);
        assert!(component(&Engine::new(&other).unwrap(), NAME, &file).is_err());
    }
}
