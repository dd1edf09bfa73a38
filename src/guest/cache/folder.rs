//! A folder that only this user can write, with a bound on its size.

use crate::base::guarded;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A use is written to a file's time only if that time is older than this, so most loads write
/// nothing. Arbitrary.
const TOUCH_AFTER: Duration = Duration::from_hours(24);

/// Age at which the remains of a write that a crash interrupted are removed. Arbitrary.
const TEMPORARY_AGE_MAX: Duration = Duration::from_hours(1);

pub(super) struct Folder {
    path: PathBuf,
    bytes_max: u64,
}

impl Folder {
    /// Opens the folder, and creates it if it is missing.
    pub(super) fn open(path: PathBuf, bytes_max: u64) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::other(format!("{}: {error}", path.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(named)?;
        // Symbolic links on the path are resolved once, so the folder that is checked is the one
        // used.
        let path = path.canonicalize().map_err(named)?;
        let folder = Self { path, bytes_max };
        folder.check()?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a folder that another user owns or can write to, or can replace through one of its
    /// parents.
    fn check(&self) -> io::Result<()> {
        guarded(&self.path, self.my_user()?)
    }

    /// The user who owns the files that this process makes, taken from the owner of the process's
    /// own `/proc` entry. (The entry of a process that may not be inspected belongs to root: then
    /// only root's folders are accepted, which is the safe side.)
    fn my_user(&self) -> io::Result<u32> {
        match fs::metadata("/proc/self") {
            Ok(metadata) => Ok(metadata.uid()),
            Err(_) => self.probe(),
        }
    }

    /// Makes a file, removes it, and returns its owner.
    pub(super) fn probe(&self) -> io::Result<u32> {
        let path = self.temporary();
        let file = create(&path)?;
        let written = (&file).write_all(b"probe");
        let user = file.metadata().map(|metadata| metadata.uid());
        fs::remove_file(&path)?;
        written.and(user)
    }

    /// Opens a file if it exists. Files are replaced whole and never written in place, so the
    /// content of an open file does not change.
    pub(super) fn open_file(&self, name: &str) -> Option<File> {
        let file = File::open(self.path.join(name)).ok()?;
        touch(&file);
        Some(file)
    }

    /// Writes a file whole, by a rename, and makes room for it. If that fails, nothing is stored.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) {
        if bytes.len() as u64 > self.bytes_max {
            return;
        }
        let temporary = self.temporary();
        let written = create(&temporary).and_then(|mut file| file.write_all(bytes));
        if written.and_then(|()| fs::rename(&temporary, self.path.join(name))).is_err() {
            let _ = fs::remove_file(&temporary);
        }
        self.shrink(name);
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files().iter().map(|file| file.bytes).sum()
    }

    /// Removes the least recently used files until the rest is within the bound.
    fn shrink(&self, newest: &str) {
        let now = SystemTime::now();
        let mut files = self.files();
        files.sort_by_key(|file| file.modified);
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            let abandoned =
                file.is_temporary && now.duration_since(file.modified).is_ok_and(|age| age > TEMPORARY_AGE_MAX);
            let excess = bytes > self.bytes_max && !file.is_temporary && !file.path.ends_with(newest);
            if (abandoned || excess) && fs::remove_file(&file.path).is_ok() {
                bytes -= file.bytes;
            }
        }
    }

    fn files(&self) -> Vec<Entry> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        entries.filter_map(Result::ok).filter_map(|entry| Entry::of(&entry)).collect()
    }

    fn temporary(&self) -> PathBuf {
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        // Only the number's uniqueness matters.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        self.path.join(format!("{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Relaxed)))
    }
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
    is_temporary: bool,
}

impl Entry {
    /// Whether a file is one of ours; others are not touched.
    fn of(entry: &fs::DirEntry) -> Option<Self> {
        let path = entry.path();
        let extension = path.extension()?;
        let is_temporary = extension == "tmp";
        if !is_temporary && extension != "wfcode" {
            return None;
        }
        let metadata = entry.metadata().ok()?;
        Some(Self { bytes: metadata.len(), modified: metadata.modified().ok()?, is_temporary, path })
    }
}

/// Records that a file was used.
fn touch(file: &File) {
    let now = SystemTime::now();
    let old = |modified: SystemTime| now.duration_since(modified).is_ok_and(|age| age > TOUCH_AFTER);
    if file.metadata().and_then(|metadata| metadata.modified()).is_ok_and(old) {
        // If its time cannot be set, the file only seems a little older than it is.
        let _ = file.set_modified(now);
    }
}

fn create(path: &Path) -> io::Result<File> {
    // A leftover of an earlier process with the same id is of no use.
    let _ = fs::remove_file(path);
    File::options().write(true).create_new(true).mode(0o600).open(path)
}
