//! Blobs in a folder: each a file named by the BLAKE3 of its content, once for all runs.
//!
//! **Layout.** `XX/DIGEST` is a blob, where `XX` are the first two digits of its digest. `new/` has
//! those that are being written; each is locked (`flock`) by the process that writes it. Which runs
//! hold which blobs stands elsewhere ([`References`]): in the journal, for durable runs.
//!
//! **Writing.** The bytes go to a file in `new/`, which is synced. Within the transaction that
//! makes the run hold the digest, the file is renamed to its place, and the folder synced; then the
//! transaction is committed. So a crash leaves a file in `new/` that no process has locked, or a
//! file that no run holds. A sweep removes both, and opening the journal the first; what is held is
//! stored.
//!
//! **Removing.** A file is removed within a transaction too, in which no run holds its digest. The
//! transactions of all processes come one after the other, so none adds a reference in between.
//! *Rejected*: hard links in a folder for each run, whose counts would be the references. A copy of
//! the folder loses them, and a run is not removed together with its folder.
//!
//! **Reading.** The first time that a process opens a blob, it reads all of it and compares the
//! digest; after that, the file's time and length must be the same. A damaged blob is refused, and
//! replaced when the same content is stored again.

mod folder;
#[cfg(any(feature = "wasm", test))]
mod memory;
mod references;
mod store;

pub(crate) use folder::BlobFolder;
#[cfg(any(feature = "wasm", test))]
pub(crate) use memory::MemoryReferences;
pub(crate) use references::{Place, Reference, References, Removal, check, digest_of};
pub(crate) use store::StoredBlobs;

#[cfg(test)]
mod killed;
#[cfg(test)]
mod tests;
