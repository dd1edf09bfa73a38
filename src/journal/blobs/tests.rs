//! The store of blobs, with its references in memory and in SQLite.

use super::{BlobFolder, MemoryReferences, Place, Reference, References, Removal, StoredBlobs};
use crate::journal::{InMemory, Journal, NewRun, Sqlite};
use crate::process::Blob;
use crate::run::{BlobBounds, BlobError, BlobStore};
use bytes::Bytes;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Ignore;

impl crate::journal::DurabilityListener for Ignore {
    fn durable(&self, _: &str, _: u64) {}
    fn failed(&self, _: &crate::journal::StoreError) {}
}

pub(super) fn sqlite(folder: &Path) -> Sqlite {
    Sqlite::open(folder, Arc::new(Ignore)).unwrap()
}

/// Does something with each kind of store, and the folder of its blobs.
fn each(then: impl Fn(&dyn BlobStore, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(BlobFolder::new(folder.path().to_owned()));
    then(&StoredBlobs::new(files, Arc::new(MemoryReferences::default())), folder.path());
    let folder = tempfile::tempdir().unwrap();
    let journal = sqlite(folder.path());
    then(&*journal.blobs().unwrap(), &folder.path().join("blobs"));
}

fn put_within(store: &dyn BlobStore, run: &str, bytes: &[u8], bounds: &BlobBounds) -> Result<Blob, BlobError> {
    let mut writer = store.create(run, bounds)?;
    for chunk in bytes.chunks(1_000) {
        writer.write(chunk)?;
    }
    writer.finish("text/plain")
}

pub(super) fn put(store: &dyn BlobStore, run: &str, bytes: &[u8]) -> Blob {
    put_within(store, run, bytes, &BlobBounds::default()).unwrap()
}

pub(super) fn read(store: &dyn BlobStore, run: &str, digest: &str) -> Result<Bytes, BlobError> {
    let reader = store.open(run, digest)?;
    reader.read(0, reader.size() as usize)
}

/// The files of blobs below a folder, without those that are being written.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let below = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let folders = below(folder.to_owned()).filter(|folder| !folder.ends_with("new"));
    folders.flat_map(below).collect()
}

#[test]
fn the_same_content_is_stored_once_and_removed_with_its_last_run() {
    each(|store, folder| {
        let bytes = vec![7; 100_000];
        let blob = put(store, "a", &bytes);
        assert_eq!(blob.digest, format!("blake3:{}", blake3::hash(&bytes).to_hex()));
        assert_eq!((blob.size, put(store, "b", &bytes)), (100_000, blob.clone()));
        assert_eq!(files(folder).len(), 1);
        assert_eq!(store.held_by("a").unwrap(), std::slice::from_ref(&blob));
        store.release("a").unwrap();
        assert_eq!(read(store, "b", &blob.digest).unwrap(), bytes);
        store.release("b").unwrap();
        assert!(files(folder).is_empty());
        assert_eq!(fs::read_dir(folder.join("new")).unwrap().count(), 0, "what was written is not left");
        // The same content later is another file.
        assert_eq!(put(store, "c", &bytes), blob);
        assert_eq!(read(store, "c", &blob.digest).unwrap(), bytes);
    });
}

#[test]
fn a_run_reads_only_what_it_was_given() {
    each(|store, _| {
        let blob = put(store, "a", b"secret");
        let other = blob.digest.replace("blake3:", "BLAKE3:");
        for digest in [blob.digest.as_str(), &other, "", "blake3:", "blake3:../../etc/passwd", &"x".repeat(10_000)] {
            let Err(error) = store.open("b", digest) else { panic!("{digest} was opened") };
            assert!(matches!(&error, BlobError::Unknown { digest } if digest.len() <= 90), "{error}");
        }
        assert!(matches!(store.share(&blob.digest, "b", "c", &BlobBounds::default()), Err(BlobError::Unknown { .. })));
        store.share(&blob.digest, "a", "b", &BlobBounds::default()).unwrap();
        assert_eq!(read(store, "b", &blob.digest).unwrap(), &b"secret"[..]);
    });
}

/// References of which a run releases its own as soon as somebody has looked at them.
struct Fleeting(MemoryReferences, Arc<BlobFolder>);

impl References for Fleeting {
    fn hold(
        &self,
        run: &str,
        reference: &Reference,
        bounds: &BlobBounds,
        place: &mut Place<'_>,
    ) -> Result<(), BlobError> {
        self.0.hold(run, reference, bounds, place)
    }

    fn share(&self, hash: &[u8; 32], from: &str, to: &str, bounds: &BlobBounds) -> Result<(), BlobError> {
        self.0.share(hash, from, to, bounds)
    }

    fn held(&self, run: &str, hash: &[u8; 32]) -> Result<Option<Reference>, BlobError> {
        let held = self.0.held(run, hash);
        self.0.release(run)?;
        self.0.remove_unheld(&mut |hash| self.1.remove(hash))?;
        held
    }

    fn held_by(&self, run: &str) -> Result<Vec<Reference>, BlobError> {
        self.0.held_by(run)
    }

    fn all(&self) -> Result<Vec<([u8; 32], u64)>, BlobError> {
        self.0.all()
    }

    fn release(&self, run: &str) -> Result<(), BlobError> {
        self.0.release(run)
    }

    fn remove_unheld(&self, remove: &mut Removal<'_>) -> Result<u64, BlobError> {
        self.0.remove_unheld(remove)
    }

    fn remove_if_unheld(&self, hashes: &[[u8; 32]], remove: &mut Removal<'_>) -> Result<(), BlobError> {
        self.0.remove_if_unheld(hashes, remove)
    }
}

#[test]
fn what_a_run_is_given_is_there_though_its_holder_releases_it_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Arc::new(BlobFolder::new(folder.path().to_owned()));
    let references = Fleeting(MemoryReferences::default(), Arc::clone(&blobs));
    let store = StoredBlobs::new(blobs, Arc::new(references));
    let blob = put(&store, "from", b"shared");
    let shared = store.share(&blob.digest, "from", "to", &BlobBounds::default());
    assert_eq!((shared.is_ok(), store.held_by("to").unwrap().len(), files(folder.path()).len()), (true, 1, 1));
}

#[test]
fn each_bound_has_its_own_error() {
    each(|store, folder| {
        let bounds = BlobBounds { blob_bytes: 100, run_bytes: 150, run_blobs: 2, store_bytes: 200 };
        let put = |run: &str, byte: u8, length: usize| put_within(store, run, &vec![byte; length], &bounds);
        assert!(matches!(put("a", 0, 101), Err(BlobError::TooLarge { bytes_max: 100 })));
        put("a", 1, 100).unwrap();
        assert!(matches!(put("a", 2, 51), Err(BlobError::RunFull { blobs: 1, bytes: 100, .. })));
        put("a", 2, 50).unwrap();
        assert!(matches!(put("a", 3, 0), Err(BlobError::RunFull { blobs: 2, bytes: 150, .. })));
        put("a", 1, 100).expect("it holds that already");
        assert!(matches!(put("b", 4, 51), Err(BlobError::StoreFull { bytes: 150, .. })));
        put("b", 1, 100).expect("it is stored already");
        store.release("a").unwrap();
        put("b", 4, 50).expect("there is room again");
        assert_eq!(files(folder).len(), 2);
        assert_eq!(fs::read_dir(folder.join("new")).unwrap().count(), 0, "what was refused is not left");
    });
}

#[test]
fn ranges_end_with_the_blob() {
    each(|store, _| {
        let blob = put(store, "a", b"0123456789");
        let reader = store.open("a", &blob.digest).unwrap();
        for (offset, length, expected) in
            [(0, 3, "012"), (8, 100, "89"), (10, 1, ""), (u64::MAX, 1, ""), (3, 0, ""), (0, usize::MAX, "0123456789")]
        {
            assert_eq!(reader.read(offset, length).unwrap(), expected.as_bytes(), "{offset} {length}");
        }
        let empty = put(store, "a", b"");
        assert_eq!(read(store, "a", &empty.digest).unwrap().len(), 0);
    });
}

#[test]
fn a_damaged_blob_is_refused_and_healed_by_its_content() {
    each(|store, folder| {
        let blob = put(store, "a", &[1; 5_000]);
        let path = files(folder).pop().unwrap();
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[4_000] ^= 1;
        for damaged in [&bad[..], &good[..100], b""] {
            fs::write(&path, damaged).unwrap();
            assert!(matches!(store.open("a", &blob.digest).err(), Some(BlobError::Damaged { .. })));
            assert_eq!(put(store, "b", &good), blob);
            assert_eq!(read(store, "a", &blob.digest).unwrap(), good);
        }
        fs::remove_file(&path).unwrap();
        assert!(
            matches!(store.open("a", &blob.digest).err(), Some(BlobError::Gone { digest }) if digest == blob.digest)
        );
        let problem = crate::process::Problem::from(store.open("a", &blob.digest).err().unwrap());
        assert_eq!((&*problem.kind, &*problem.title), ("blob-damaged", "A stored blob is gone"));
        put(store, "b", &good);
        assert_eq!(read(store, "a", &blob.digest).unwrap(), good);
    });
}

#[test]
fn what_a_killed_process_was_writing_is_removed_when_the_folder_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let journal = sqlite(folder.path());
    let store = journal.blobs().unwrap();
    let mut writing = store.create("a", &BlobBounds::default()).unwrap();
    writing.write(b"half").unwrap();
    let left = folder.path().join("blobs/new/1-1");
    fs::write(&left, "its writer has ended").unwrap();
    let _other = sqlite(folder.path());
    assert!(!left.exists());
    // A living process goes on.
    writing.write(b" and half").unwrap();
    let written = writing.finish("text/plain").unwrap();
    assert_eq!(read(&*store, "a", &written.digest).unwrap(), &b"half and half"[..]);
}

#[test]
fn a_sweep_removes_what_belongs_to_nothing_and_nothing_else() {
    each(|store, folder| {
        let kept = put(store, "a", b"kept");
        let mut writing = store.create("a", &BlobBounds::default()).unwrap();
        writing.write(b"half").unwrap();
        fs::write(folder.join("new/1-1"), "its writer has ended").unwrap();
        let stray = blake3::hash(b"stray").to_hex().to_string();
        fs::create_dir_all(folder.join(&stray[..2])).unwrap();
        fs::write(folder.join(&stray[..2]).join(&stray), "stray").unwrap();
        store.sweep().unwrap();
        assert_eq!(read(store, "a", &kept.digest).unwrap(), &b"kept"[..]);
        assert!(!folder.join("new/1-1").exists() && !folder.join(&stray[..2]).join(&stray).exists());
        writing.write(b" and half").unwrap();
        let written = writing.finish("text/plain").unwrap();
        assert_eq!(read(store, "a", &written.digest).unwrap(), &b"half and half"[..]);
    });
}

fn new_run(id: &str) -> NewRun {
    NewRun {
        id: id.into(),
        name: "test".into(),
        created: crate::run::system_time(),
        manifest: "{}".to_owned(),
        components: Vec::new(),
        version: None,
        source: "test".into(),
        labels: Vec::new(),
        group: None,
    }
}

#[test]
fn the_blobs_of_a_removed_run_go_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let journal = sqlite(folder.path());
    let blobs = journal.blobs().unwrap();
    for run in ["a", "b"] {
        put(&*blobs, run, b"of both");
        put(&*blobs, run, run.as_bytes());
        journal.create(&new_run(run), &[Bytes::from_static(b"record")]).unwrap();
    }
    let path = folder.path().join("blobs");
    assert_eq!(files(&path).len(), 3);
    let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
    let days_pass = || db.execute("UPDATE blob_holder SET at = at - 25 * 3600 * 1000000", []).unwrap();
    days_pass();
    journal.sweep(&crate::journal::Retention::default()).unwrap();
    assert_eq!(files(&path).len(), 3, "a run has its blobs as long as it is there");
    journal.remove("a").unwrap();
    assert_eq!(files(&path).len(), 2);
    assert!(blobs.held_by("a").unwrap().is_empty());
    journal.remove("b").unwrap();
    assert!(files(&path).is_empty());
    // What was given to a run that does not begin stays for a while.
    put(&*blobs, "never", b"given");
    journal.sweep(&crate::journal::Retention::default()).unwrap();
    assert_eq!(files(&path).len(), 1);
    days_pass();
    put(&*blobs, "never", b"given");
    journal.sweep(&crate::journal::Retention::default()).unwrap();
    assert_eq!(files(&path).len(), 1, "it was given again");
    days_pass();
    journal.sweep(&crate::journal::Retention::default()).unwrap();
    assert!(files(&path).is_empty());
    assert_eq!(db.query_row("SELECT bytes FROM held_bytes", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn two_stores_of_a_folder_write_and_remove_the_same_content_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::thread::scope(|scope| {
        for thread in 0..2_u8 {
            scope.spawn(move || {
                let journal = sqlite(path);
                let blobs = journal.blobs().unwrap();
                let run = format!("run {thread}");
                for round in 0..40_u8 {
                    let bytes = [round % 4; 3_000];
                    let blob = put(&*blobs, &run, &bytes);
                    assert_eq!(read(&*blobs, &run, &blob.digest).unwrap(), &bytes[..]);
                    if round % 3 == 0 {
                        blobs.release(&run).unwrap();
                    } else if round % 3 == 1 {
                        blobs.sweep().unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn a_journal_in_memory_stores_none() {
    assert!(InMemory::default().blobs().is_none());
}
