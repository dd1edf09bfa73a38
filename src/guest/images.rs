//! Room for the images of evicted guests: in memory, and beyond that in a file.
//!
//! Memory and file have a budget each. Of either, a run may hold as much as it leaves free. A run
//! alone may hold half of it, each of `n` greedy runs one part in `n + 1`, and a later run finds as
//! much room as any of them holds. So a run that asks for too much reaches its own bound and never
//! a neighbour's. (The dynamic threshold of switches with shared memory: A. Choudhury, E. Hahne,
//! "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on
//! Networking 6(2), 1998, with α = 1.)
//!
//! *Rejected.* A fixed share for each run: with enough runs the host's budget is used up while each
//! run is below its own share, and then a run that did nothing wrong has to end.

use crate::process::{Problem, problem::kind};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What an image counts in addition to its bytes, so that empty ones are bounded too. Arbitrary:
/// about what its guest's structures take.
const IMAGE_BYTES: u64 = 256;

/// The images of all evicted guests of an engine.
#[derive(Debug)]
pub struct Images {
    memory: Arc<Shares>,
    disk: Option<Disk>,
}

impl Images {
    /// Makes room for `memory_bytes_max` bytes in memory, and for as many bytes as `disk` says in a
    /// file in its folder. The folder must exist when it is first needed.
    pub(crate) fn new(memory_bytes_max: u64, disk: Option<(PathBuf, u64)>) -> Self {
        Self { memory: Arc::new(Shares::new(memory_bytes_max)), disk: disk.map(|(folder, max)| Disk::new(folder, max)) }
    }

    /// Bytes that images take in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory.inner.lock().used
    }

    /// Bytes that images take in the file.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.disk.as_ref().map_or(0, |disk| disk.shares.inner.lock().used)
    }

    /// Whether an image of at most `bytes` may go to the file.
    pub(crate) fn may_spill(&self, run: &Arc<str>, bytes: u64) -> bool {
        self.disk.is_some() && !self.memory.has_room(run, bytes)
    }

    /// Holds an image of a guest of a run.
    ///
    /// # Errors
    /// Returns the guest's problem if its run holds too much already.
    pub(crate) fn hold(&self, run: &Arc<str>, image: Bytes) -> Result<Held, Problem> {
        let bytes = image.len() as u64 + IMAGE_BYTES;
        if let Some(share) = self.memory.take(run, bytes) {
            return Ok(Held::Memory { image, _share: Arc::new(share) });
        }
        let spilled = self.disk.as_ref().map(|disk| disk.hold(run, &image));
        if let Some(Ok(Some(spilled))) = spilled {
            return Ok(Held::Disk(Arc::new(spilled)));
        }
        let mut detail = format!(
            "Its image has {} bytes, and the images of its run's evicted guests hold {} in memory; a run may hold as much as it leaves \
             free of {} (`EngineOptions::image_bytes`).",
            image.len(),
            self.memory.used_by(run),
            self.memory.bytes_max,
        );
        match (&self.disk, spilled) {
            (Some(_), Some(Err(error))) => detail.push_str(&format!(" Images cannot be written to a file: {error}.")),
            (Some(disk), _) => {
                let (used, max) = (disk.shares.used_by(run), disk.shares.bytes_max);
                detail.push_str(&format!(" In the file they hold {used} of {max} (`EngineOptions::spill_bytes`)."));
            }
            (None, _) => {}
        }
        Err(Problem::new(kind::IMAGES_EXHAUSTED, "The images of the run's evicted guests are larger than allowed")
            .with_detail(detail))
    }
}

/// An image that is held. Cloning it is cheap; its room is freed with the last clone.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    Memory { image: Bytes, _share: Arc<Share> },
    Disk(Arc<Spilled>),
}

impl Held {
    /// Returns the image. This may read from a disk.
    ///
    /// # Errors
    /// Fails if the disk cannot be read.
    pub(crate) fn read(&self) -> io::Result<Bytes> {
        match self {
            Self::Memory { image, .. } => Ok(image.clone()),
            Self::Disk(spilled) => spilled.read(),
        }
    }

    /// Bytes that the image takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Memory { image, .. } => image.len(),
            Self::Disk(_) => 0,
        }
    }

    /// Whether the image is on disk.
    pub(crate) fn is_spilled(&self) -> bool {
        matches!(self, Self::Disk(_))
    }
}

/// Bytes that runs share.
#[derive(Debug)]
struct Shares {
    bytes_max: u64,
    inner: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    used: u64,
    by: HashMap<Arc<str>, u64>,
}

impl Shares {
    fn new(bytes_max: u64) -> Self {
        Self { bytes_max, inner: Mutex::default() }
    }

    fn fits(&self, inner: &Used, run: &Arc<str>, bytes: u64) -> bool {
        let own = inner.by.get(run).copied().unwrap_or(0).saturating_add(bytes);
        let all = inner.used.saturating_add(bytes);
        all <= self.bytes_max && own <= self.bytes_max - all
    }

    fn has_room(&self, run: &Arc<str>, bytes: u64) -> bool {
        self.fits(&self.inner.lock(), run, bytes)
    }

    fn used_by(&self, run: &Arc<str>) -> u64 {
        self.inner.lock().by.get(run).copied().unwrap_or(0)
    }

    /// Takes `bytes` for a run, if that leaves as many free as the run then holds.
    fn take(self: &Arc<Self>, run: &Arc<str>, bytes: u64) -> Option<Share> {
        let mut inner = self.inner.lock();
        if !self.fits(&inner, run, bytes) {
            return None;
        }
        inner.used += bytes;
        *inner.by.entry(Arc::clone(run)).or_default() += bytes;
        Some(Share { of: Arc::clone(self), run: Arc::clone(run), bytes })
    }
}

/// The bytes of one image.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Shares>,
    run: Arc<str>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut inner = self.of.inner.lock();
        inner.used -= self.bytes;
        let left = inner.by.get_mut(&self.run).map(|own| {
            *own -= self.bytes;
            *own
        });
        if left == Some(0) {
            inner.by.remove(&self.run);
        }
    }
}

/// A file without a name, which vanishes with the engine, however that ends.
#[derive(Debug)]
struct Disk {
    shares: Arc<Shares>,
    folder: PathBuf,
    file: Mutex<Option<Arc<Spill>>>,
}

#[derive(Debug)]
struct Spill {
    file: File,
    free: Mutex<FreeList>,
}

/// An image's position in the file.
#[derive(Debug)]
pub(crate) struct Spilled {
    spill: Arc<Spill>,
    at: u64,
    bytes: usize,
    _share: Share,
}

impl Disk {
    fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self { shares: Arc::new(Shares::new(bytes_max)), folder, file: Mutex::new(None) }
    }

    /// `None` if the run may not hold that much.
    fn hold(&self, run: &Arc<str>, image: &Bytes) -> io::Result<Option<Spilled>> {
        let Some(share) = self.shares.take(run, image.len() as u64 + IMAGE_BYTES) else { return Ok(None) };
        let spill = {
            let mut file = self.file.lock();
            match &*file {
                Some(spill) => Arc::clone(spill),
                None => Arc::clone(
                    file.insert(Arc::new(Spill { file: unnamed_file(&self.folder)?, free: Mutex::default() })),
                ),
            }
        };
        let at = spill.free.lock().take(image.len() as u64);
        let spilled = Spilled { spill, at, bytes: image.len(), _share: share };
        spilled.spill.file.write_all_at(image, at)?;
        Ok(Some(spilled))
    }
}

impl Spilled {
    fn read(&self) -> io::Result<Bytes> {
        let mut image = vec![0; self.bytes];
        self.spill.file.read_exact_at(&mut image, self.at)?;
        Ok(image.into())
    }
}

impl Drop for Spilled {
    fn drop(&mut self) {
        let mut free = self.spill.free.lock();
        if let Some(end) = free.release(self.at, self.bytes as u64) {
            // Under the lock: no other image is in the part that is cut off. If this fails, the
            // file is longer than it need be.
            let _ = self.spill.file.set_len(end);
        }
    }
}

/// Creates a file that only this process can open, and removes its name.
fn unnamed_file(folder: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let path = folder.join(format!(".images-{}-{number}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// The free parts of a file: first fit, neighbours joined.
#[derive(Debug, Default)]
struct FreeList {
    /// Bytes of the free part at each offset.
    parts: BTreeMap<u64, u64>,
    /// Where the file ends.
    end: u64,
}

impl FreeList {
    /// Takes a part and returns its offset.
    fn take(&mut self, bytes: u64) -> u64 {
        let found = self.parts.iter().find(|(_, free)| **free >= bytes).map(|(at, free)| (*at, *free));
        let Some((at, free)) = found else {
            let at = self.end;
            self.end += bytes;
            return at;
        };
        self.parts.remove(&at);
        if free > bytes {
            self.parts.insert(at + bytes, free - bytes);
        }
        at
    }

    /// Frees a part. Returns the new end if the file can be truncated.
    fn release(&mut self, mut at: u64, mut bytes: u64) -> Option<u64> {
        if bytes == 0 {
            return None;
        }
        if let Some(after) = self.parts.remove(&(at + bytes)) {
            bytes += after;
        }
        if let Some((before, free)) = self.parts.range(..at).next_back().map(|(at, free)| (*at, *free))
            && before + free == at
        {
            self.parts.remove(&before);
            (at, bytes) = (before, bytes + free);
        }
        if at + bytes == self.end {
            self.end = at;
            return Some(at);
        }
        self.parts.insert(at, bytes);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> Arc<str> {
        name.into()
    }

    fn image(bytes: usize, content: u8) -> Bytes {
        vec![content; bytes - IMAGE_BYTES as usize].into()
    }

    #[test]
    fn a_run_holds_as_much_as_it_leaves_free() {
        let images = Images::new(8_000, None);
        let mut held = Vec::new();
        while let Ok(image) = images.hold(&run("greedy"), image(1_000, 1)) {
            held.push(image);
        }
        assert_eq!((held.len(), images.memory_bytes()), (4, 4_000));
        let problem = images.hold(&run("greedy"), image(300, 1)).unwrap_err();
        assert_eq!(problem.kind, kind::IMAGES_EXHAUSTED);
        assert!(problem.detail.as_ref().unwrap().contains("EngineOptions::image_bytes"), "{problem}");
        // A neighbour has its own share, and so has every later run.
        let second: Vec<_> = (0..2).map(|_| images.hold(&run("second"), image(1_000, 2)).unwrap()).collect();
        assert!(images.hold(&run("second"), image(1_000, 2)).is_err());
        let third = images.hold(&run("third"), image(1_000, 3)).unwrap();
        assert_eq!(images.memory_bytes(), 7_000);
        let clone = third.clone();
        drop((held, second, third));
        assert_eq!(images.memory_bytes(), 1_000, "of a clone the room is still taken");
        assert_eq!(clone.read().unwrap()[0], 3);
        drop(clone);
        assert_eq!(images.memory_bytes(), 0);
        assert!(images.memory.inner.lock().by.is_empty());
    }

    #[test]
    fn what_does_not_fit_into_memory_goes_to_a_file_without_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let images = Images::new(2_000, Some((folder.path().to_owned(), 20_000)));
        let mut held = Vec::new();
        let refused = loop {
            let content = held.len() as u8;
            match images.hold(&run("greedy"), image(1_000, content)) {
                Ok(image) => held.push(image),
                Err(problem) => break problem,
            }
        };
        assert_eq!((held.len(), images.memory_bytes(), images.disk_bytes()), (11, 1_000, 10_000));
        assert!(refused.detail.as_ref().unwrap().contains("EngineOptions::spill_bytes"), "{refused}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        for (content, held) in held.iter().enumerate() {
            assert_eq!(held.is_spilled(), content > 0);
            assert_eq!(held.read().unwrap(), image(1_000, content as u8));
        }
        // Freed parts are used for other images, and the rest is cut off.
        let Held::Disk(last) = &held[10] else { unreachable!() };
        let spill = Arc::clone(&last.spill);
        held.remove(5);
        held.push(images.hold(&run("greedy"), image(700, 77)).unwrap());
        for (at, content) in [(4, 4), (5, 6), (9, 10)] {
            assert_eq!(held[at].read().unwrap(), image(1_000, content));
        }
        assert_eq!(held[10].read().unwrap(), image(700, 77));
        held.clear();
        assert_eq!((images.memory_bytes(), images.disk_bytes()), (0, 0));
        assert_eq!(spill.file.metadata().unwrap().len(), 0);
    }

    #[test]
    fn a_missing_folder_is_reported() {
        let images = Images::new(0, Some(("/nowhere/at/all".into(), 1 << 20)));
        let problem = images.hold(&run("x"), image(1_000, 0)).unwrap_err();
        assert!(problem.detail.as_ref().unwrap().contains("cannot be written"), "{problem}");
        assert_eq!(images.disk_bytes(), 0);
    }

    #[test]
    fn parts_of_the_file_are_joined_again() {
        let mut free = FreeList::default();
        let parts: Vec<_> = [10, 20, 30, 40].map(|bytes| (free.take(bytes), bytes)).into();
        assert_eq!(free.end, 100);
        assert_eq!(free.release(parts[0].0, 10), None);
        assert_eq!(free.release(parts[2].0, 30), None);
        assert_eq!(free.release(parts[1].0, 20), None);
        assert_eq!(free.parts, BTreeMap::from([(0, 60)]));
        assert_eq!((free.take(15), free.take(50)), (0, 100));
        assert_eq!(free.release(100, 50), Some(100));
        assert_eq!(free.release(60, 40), Some(15));
        assert_eq!(free.release(0, 15), Some(0));
        assert!(free.parts.is_empty() && free.end == 0);
    }
}
