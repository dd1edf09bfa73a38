//! A body's state between two steps, as bytes that outlive it: for a disk, for another process of
//! the operating system.
//!
//! Numbers are little-endian: magic, format (u32), a checksum (blake3 of all that follows it); then
//! the digest of the program and the name of the contract (each a u16 and so many bytes), how the
//! state is written (u8), the next tag (u64), how far the random stream has been read (a byte that
//! is 1 if it has, and a u128), the fuel of all steps (u64), the digest of the state, and the state
//! to the end.
//!
//! The checksum finds the errors of a disk. It is no signature: the reader trusts nothing in a
//! snapshot, and allocates nothing that the bytes at hand do not fill.

use super::{NUMBER_MAX, Tag};
use bytes::Bytes;
use std::sync::Arc;

/// How the state of a body is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Its memories and globals, as differences from a fresh instance's.
    Image,
    /// The result of the guest's own `snapshot.save`.
    GuestEncoded,
}

/// A body's state between two steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessSnapshot {
    /// The digest of its program.
    pub program: Arc<str>,
    /// The name of the interface by which it is stepped; empty if there is none.
    pub contract: Arc<str>,
    /// The first tag that it has not used.
    pub next_tag: Tag,
    /// How far its random stream has been read, if it has.
    pub random: Option<u128>,
    /// Fuel of all its steps.
    pub fuel: u64,
    /// How the state is written.
    pub form: Form,
    /// Two states of one program and form with the same digest continue in the same way.
    pub digest: [u8; 32],
    /// The state.
    pub state: Bytes,
}

/// Why no body can be made from a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Not a snapshot at all.
    #[error("these bytes are no snapshot")]
    NoSnapshot,
    /// Of a format that this release cannot read.
    #[error("the snapshot has format {0}; this release reads {FORMAT}")]
    Format(u32),
    /// Not as it was written.
    #[error("the snapshot is damaged: {0}")]
    Damaged(&'static str),
    /// Of another program.
    #[error("the snapshot is of another component: {0}")]
    OtherProgram(Arc<str>),
    /// Of the same program by another version of the contract.
    #[error("the snapshot was taken by another contract: {0}")]
    OtherContract(Arc<str>),
    /// The program's bodies cannot be made of snapshots, or not of this one.
    #[error("the snapshot does not fit: {0}")]
    Misfit(String),
}

/// The result of [`Body::save`](super::Body::save): cheap to take; [`Self::pack`] does the rest,
/// and is not for a worker.
pub trait RawSnapshot: Send {
    /// Makes the snapshot that can be stored.
    ///
    /// # Errors
    /// Why there is no snapshot after all.
    fn pack(self: Box<Self>) -> Result<ProcessSnapshot, SnapshotError>;

    /// Bytes that it takes in memory until then.
    fn bytes(&self) -> usize;
}

/// The form in which a program's bodies can be saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotSupport {
    /// In none: they are replayed.
    Never,
    /// In this form, after
    /// [`Program::learn_snapshot_support`](super::Program::learn_snapshot_support) has been called.
    ToLearn(Form),
    /// By this.
    Ready(Form),
}

const MAGIC: [u8; 4] = *b"wfsv";
const FORMAT: u32 = 1;

/// Bytes of a digest of a program, and of the name of a contract. Arbitrary.
const NAME_BYTES_MAX: usize = 1_024;

const CHECKSUM_AT: usize = MAGIC.len() + size_of::<u32>();
const CHECKED_AT: usize = CHECKSUM_AT + blake3::OUT_LEN;

impl ProcessSnapshot {
    /// The bytes of it.
    ///
    /// # Errors
    /// If a name is too long.
    pub fn encode(&self) -> Result<Vec<u8>, SnapshotError> {
        let names = [&self.program, &self.contract];
        if names.iter().any(|name| name.len() > NAME_BYTES_MAX) {
            return Err(SnapshotError::Misfit("a name is too long".into()));
        }
        let mut out = Vec::with_capacity(CHECKED_AT + 128 + names[0].len() + names[1].len() + self.state.len());
        out.extend(MAGIC);
        out.extend(FORMAT.to_le_bytes());
        out.extend([0; blake3::OUT_LEN]);
        for name in names {
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(name.as_bytes());
        }
        out.push(match self.form {
            Form::Image => 0,
            Form::GuestEncoded => 1,
        });
        out.extend(self.next_tag.0.to_le_bytes());
        out.push(u8::from(self.random.is_some()));
        out.extend(self.random.unwrap_or_default().to_le_bytes());
        out.extend(self.fuel.to_le_bytes());
        out.extend(self.digest);
        out.extend(&self.state);
        let checksum = blake3::hash(&out[CHECKED_AT..]);
        out[CHECKSUM_AT..CHECKED_AT].copy_from_slice(checksum.as_bytes());
        Ok(out)
    }

    /// Reads what [`Self::encode`] gave. The bytes may be hostile; the state shares their memory.
    ///
    /// # Errors
    /// If they are no snapshot.
    pub fn decode(bytes: &Bytes) -> Result<Self, SnapshotError> {
        let mut from = Front(bytes.clone());
        if from.array() != Some(MAGIC) {
            return Err(SnapshotError::NoSnapshot);
        }
        let short = || SnapshotError::Damaged("it ends too early");
        let format = u32::from_le_bytes(from.array().ok_or_else(short)?);
        if format != FORMAT {
            return Err(SnapshotError::Format(format));
        }
        let checksum: [u8; blake3::OUT_LEN] = from.array().ok_or_else(short)?;
        if blake3::hash(&from.0) != checksum {
            return Err(SnapshotError::Damaged("its checksum is wrong"));
        }
        let (program, contract) = (from.name()?, from.name()?);
        let form = match from.array().ok_or_else(short)? {
            [0] => Form::Image,
            [1] => Form::GuestEncoded,
            _ => return Err(SnapshotError::Damaged("its form is unknown")),
        };
        let next_tag = u64::from_le_bytes(from.array().ok_or_else(short)?);
        if next_tag == 0 || next_tag > NUMBER_MAX {
            return Err(SnapshotError::Damaged("its next tag cannot be"));
        }
        let [has_random] = from.array().ok_or_else(short)?;
        let random = u128::from_le_bytes(from.array().ok_or_else(short)?);
        let random = match (has_random, random) {
            (0, 0) => None,
            (1, position) if position < POSITION_MAX => Some(position),
            _ => return Err(SnapshotError::Damaged("its place in the random stream cannot be")),
        };
        let fuel = u64::from_le_bytes(from.array().ok_or_else(short)?);
        let digest = from.array().ok_or_else(short)?;
        Ok(Self { program, contract, next_tag: Tag(next_tag), random, fuel, form, digest, state: from.0 })
    }

    /// Whether this is of a program and a contract.
    ///
    /// # Errors
    /// Names the other program or contract.
    pub fn is_of(&self, program: &str, contract: &str) -> Result<(), SnapshotError> {
        if *self.program != *program {
            return Err(SnapshotError::OtherProgram(Arc::clone(&self.program)));
        }
        if *self.contract != *contract {
            return Err(SnapshotError::OtherContract(Arc::clone(&self.contract)));
        }
        Ok(())
    }
}

/// Words of a random stream: 2^64 blocks of 16.
const POSITION_MAX: u128 = 1 << 68;

/// Takes bytes from the front; `None` if there are too few.
struct Front(Bytes);

impl Front {
    fn take(&mut self, count: usize) -> Option<Bytes> {
        (count <= self.0.len()).then(|| self.0.split_to(count))
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.as_ref().try_into().ok()
    }

    fn name(&mut self) -> Result<Arc<str>, SnapshotError> {
        let short = || SnapshotError::Damaged("it ends too early");
        let length = usize::from(u16::from_le_bytes(self.array().ok_or_else(short)?));
        if length > NAME_BYTES_MAX {
            return Err(SnapshotError::Damaged("a name is too long"));
        }
        let name = self.take(length).ok_or_else(short)?;
        let name = std::str::from_utf8(&name).map_err(|_| SnapshotError::Damaged("a name is no text"))?;
        Ok(name.into())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_saved() -> impl Strategy<Value = ProcessSnapshot> {
        let form = prop_oneof![Just(Form::Image), Just(Form::GuestEncoded)];
        let numbers = (1..=NUMBER_MAX, proptest::option::of(0..POSITION_MAX), any::<u64>());
        (".{0,40}", ".{0,40}", form, numbers, any::<[u8; 32]>(), prop::collection::vec(any::<u8>(), 0..100)).prop_map(
            |(program, contract, form, (next_tag, random, fuel), digest, state)| ProcessSnapshot {
                program: program.into(),
                contract: contract.into(),
                next_tag: Tag(next_tag),
                random,
                fuel,
                form,
                digest,
                state: state.into(),
            },
        )
    }

    /// Makes the checksum fit, as an attacker would.
    fn forge(bytes: &mut [u8]) {
        if bytes.len() >= CHECKED_AT {
            let checksum = blake3::hash(&bytes[CHECKED_AT..]);
            bytes[CHECKSUM_AT..CHECKED_AT].copy_from_slice(checksum.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn is_read_as_it_was_written(saved in any_saved()) {
            let bytes = Bytes::from(saved.encode().unwrap());
            prop_assert_eq!(ProcessSnapshot::decode(&bytes).unwrap(), saved);
        }

        #[test]
        fn every_damaged_byte_and_every_cut_is_found(saved in any_saved(), place in any::<prop::sample::Index>(), bit in 0..8) {
            let mut bytes = saved.encode().unwrap();
            let place = place.index(bytes.len());
            prop_assert!(ProcessSnapshot::decode(&Bytes::from(bytes[..place].to_vec())).is_err());
            bytes[place] ^= 1_u8 << bit;
            prop_assert!(ProcessSnapshot::decode(&Bytes::from(bytes)).is_err());
        }

        /// Only bytes that could have been written are accepted.
        #[test]
        fn forged_bytes_are_refused_or_are_another_snapshot(
            saved in any_saved(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in proptest::option::of(any::<prop::sample::Index>()),
        ) {
            let mut bytes = saved.encode().unwrap();
            for (place, byte) in edits {
                let place = CHECKED_AT + place.index(bytes.len() - CHECKED_AT);
                bytes[place] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            forge(&mut bytes);
            if let Ok(other) = ProcessSnapshot::decode(&Bytes::from(bytes.clone())) {
                prop_assert_eq!(other.encode().unwrap(), bytes);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), as_ours in any::<bool>()) {
            if as_ours && bytes.len() >= CHECKED_AT {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4..8].copy_from_slice(&FORMAT.to_le_bytes());
                forge(&mut bytes);
            }
            let _ = ProcessSnapshot::decode(&bytes.into());
        }
    }

    #[test]
    fn says_what_it_is_not() {
        let saved = ProcessSnapshot {
            program: "one".into(),
            contract: "v1".into(),
            next_tag: Tag(1),
            random: None,
            fuel: 0,
            form: Form::GuestEncoded,
            digest: [0; 32],
            state: Bytes::new(),
        };
        let mut later = saved.encode().unwrap();
        later[4] = 2;
        assert_eq!(ProcessSnapshot::decode(&Bytes::from(later)), Err(SnapshotError::Format(2)));
        assert_eq!(ProcessSnapshot::decode(&Bytes::from_static(b"something else")), Err(SnapshotError::NoSnapshot));
        assert_eq!(saved.is_of("one", "v1"), Ok(()));
        assert_eq!(saved.is_of("two", "v1"), Err(SnapshotError::OtherProgram("one".into())));
        assert_eq!(saved.is_of("one", "v2"), Err(SnapshotError::OtherContract("v1".into())));
        let long = ProcessSnapshot { program: "x".repeat(NAME_BYTES_MAX + 1).into(), ..saved };
        assert!(long.encode().is_err());
    }
}
