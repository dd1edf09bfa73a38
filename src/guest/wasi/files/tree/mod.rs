//! Files in memory: what a program finds below `/`, and what it leaves there.
//!
//! Everything is bounded by one [`Quota`]: bytes of content, and entries. A folder is at most
//! [`DEPTH_MAX`] deep, whatever is moved where, so that walking one needs little stack. There are
//! no links of any kind, so a path leads to one place, and a folder has one parent.
//!
//! A granted folder has a quota of its own, which is sealed once it is filled: it can be read only,
//! so many programs share it.

mod put;
#[cfg(test)]
mod tests;

use crate::run::BlobReader;
use parking_lot::Mutex;
use put::Blob;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// Bytes of all files together. Arbitrary.
pub(crate) const BYTES_MAX: u64 = 64 << 20;

/// Files and folders together. Arbitrary.
pub(crate) const ENTRIES_MAX: u64 = 10_000;

/// Folders within one another. Arbitrary.
pub(crate) const DEPTH_MAX: usize = 64;

/// Bytes of a path, and of one name in it, as operating systems have it.
const PATH_BYTES_MAX: usize = 4_096;
const NAME_BYTES_MAX: usize = 255;

/// What all files of one program share. A program runs on one thread at a time: the counters are
/// atomic because a body moves between threads, and are ordered with nothing.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    bytes: AtomicU64,
    entries: AtomicU64,
    /// The next identity.
    next: AtomicU64,
    /// Bytes by which files have grown since that was last asked: work that a guest pays for.
    grown: AtomicU64,
    /// Nothing below it changes any more.
    is_sealed: AtomicBool,
}

/// The first identity in a granted folder: no program makes so many files.
const GRANTED_ID: u64 = 1 << 62;

impl Quota {
    /// Refuses a change of what is sealed.
    fn writable(&self) -> Result<(), ErrorCode> {
        if self.is_sealed.load(Relaxed) { Err(ErrorCode::ReadOnly) } else { Ok(()) }
    }

    fn take(counter: &AtomicU64, count: u64, max: u64) -> Result<(), ErrorCode> {
        let used = counter.load(Relaxed);
        if count > max.saturating_sub(used) {
            return Err(ErrorCode::InsufficientSpace);
        }
        counter.store(used + count, Relaxed);
        Ok(())
    }
}

/// A file or a folder.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    File(Arc<File>),
    Folder(Arc<Folder>),
}

/// A file. It lives as long as it has a name or is open.
#[derive(Debug)]
pub(crate) struct File {
    pub(super) id: u64,
    content: Mutex<Vec<u8>>,
    /// A blob that can be read only, in place of the content.
    blob: Option<Blob>,
    quota: Arc<Quota>,
}

impl Drop for File {
    fn drop(&mut self) {
        let bytes = self.content.get_mut().len() as u64;
        self.quota.bytes.fetch_sub(bytes, Relaxed);
        self.quota.entries.fetch_sub(1, Relaxed);
    }
}

/// A folder.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(super) id: u64,
    pub(super) entries: Mutex<BTreeMap<String, Entry>>,
    /// How many folders it is within. It changes with all below it when one of them is moved.
    depth: AtomicUsize,
    quota: Arc<Quota>,
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.quota.entries.fetch_sub(1, Relaxed);
    }
}

impl Entry {
    pub(super) fn id(&self) -> u64 {
        match self {
            Self::File(file) => file.id,
            Self::Folder(folder) => folder.id,
        }
    }

    pub(super) fn folder(&self) -> Result<&Arc<Folder>, ErrorCode> {
        match self {
            Self::Folder(folder) => Ok(folder),
            Self::File(_) => Err(ErrorCode::NotDirectory),
        }
    }

    pub(super) fn file(&self) -> Result<&Arc<File>, ErrorCode> {
        match self {
            Self::File(file) => Ok(file),
            Self::Folder(_) => Err(ErrorCode::IsDirectory),
        }
    }
}

impl File {
    fn new(quota: &Arc<Quota>) -> Result<Arc<Self>, ErrorCode> {
        quota.writable()?;
        Quota::take(&quota.entries, 1, ENTRIES_MAX)?;
        let id = quota.next.fetch_add(1, Relaxed);
        Ok(Arc::new(Self { id, content: Mutex::default(), blob: None, quota: Arc::clone(quota) }))
    }

    fn of_blob(quota: &Arc<Quota>, blob: Arc<dyn BlobReader>) -> Result<Arc<Self>, ErrorCode> {
        let mut file = Self::new(quota)?;
        Arc::get_mut(&mut file).expect("invariant: it was just made").blob = Some(Blob(blob));
        Ok(file)
    }

    /// Whether it is a blob: it never changes.
    pub(crate) fn is_blob(&self) -> bool {
        self.blob.is_some()
    }

    /// Refuses to be changed if it is granted.
    pub(super) fn writable(&self) -> Result<(), ErrorCode> {
        if self.is_blob() { Err(ErrorCode::ReadOnly) } else { self.quota.writable() }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.blob.as_ref().map_or_else(|| self.content.lock().len() as u64, |Blob(blob)| blob.size())
    }

    /// All of it, but of a blob nothing.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.content.lock().clone()
    }

    /// At most `length` bytes from `offset` on; none at its end.
    pub(super) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, ErrorCode> {
        if let Some(Blob(blob)) = &self.blob {
            return blob.read(offset, length).map(Vec::from).map_err(|_| ErrorCode::Io);
        }
        let content = self.content.lock();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let to = from.saturating_add(length).min(content.len());
        Ok(content[from..to].to_vec())
    }

    /// Writes at `offset`, after zeros if that is beyond its end.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), ErrorCode> {
        self.writable()?;
        let end = offset.checked_add(bytes.len() as u64).ok_or(ErrorCode::FileTooLarge)?;
        if end > self.len() {
            self.resize(end)?;
        }
        let from = offset as usize;
        self.content.lock()[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Cuts it, or adds zeros.
    pub(super) fn resize(&self, length: u64) -> Result<(), ErrorCode> {
        self.writable()?;
        let mut content = self.content.lock();
        let now = content.len() as u64;
        if length > now {
            Quota::take(&self.quota.bytes, length - now, BYTES_MAX)?;
            self.quota.grown.fetch_add(length - now, Relaxed);
        } else {
            self.quota.bytes.fetch_sub(now - length, Relaxed);
        }
        content.resize(length as usize, 0);
        content.shrink_to(2 * length as usize);
        Ok(())
    }
}

impl Folder {
    /// An empty folder to be the root, with a quota of its own.
    pub(crate) fn root() -> Arc<Self> {
        let quota = Arc::new(Quota::default());
        Self::new(&quota, 0).expect("invariant: the quota is not used yet")
    }

    /// An empty folder to be granted: filled, then sealed.
    pub(crate) fn granted() -> Arc<Self> {
        let quota = Arc::new(Quota { next: AtomicU64::new(GRANTED_ID), ..Quota::default() });
        Self::new(&quota, 1).expect("invariant: the quota is not used yet")
    }

    /// Makes it read-only, with all below it.
    pub(crate) fn seal(&self) {
        self.quota.is_sealed.store(true, Relaxed);
    }

    fn is_sealed(&self) -> bool {
        self.quota.is_sealed.load(Relaxed)
    }

    /// Puts a sealed folder into this one, the root: it is moved nowhere, so its depth stays.
    pub(crate) fn mount(&self, name: &str, granted: &Arc<Self>) {
        self.entries.lock().insert(name.to_owned(), Entry::Folder(Arc::clone(granted)));
    }

    fn new(quota: &Arc<Quota>, depth: usize) -> Result<Arc<Self>, ErrorCode> {
        quota.writable()?;
        Quota::take(&quota.entries, 1, ENTRIES_MAX)?;
        let id = quota.next.fetch_add(1, Relaxed);
        let (entries, depth, quota) = (Mutex::default(), AtomicUsize::new(depth), Arc::clone(quota));
        Ok(Arc::new(Self { id, entries, depth, quota }))
    }

    /// Bytes by which files have grown since the last call.
    pub(crate) fn take_grown(&self) -> u64 {
        self.quota.grown.swap(0, Relaxed)
    }

    fn depth(&self) -> usize {
        self.depth.load(Relaxed)
    }

    /// Sets how deep it is, with all below it.
    fn set_depth(&self, depth: usize) {
        self.depth.store(depth, Relaxed);
        for entry in self.entries.lock().values() {
            if let Entry::Folder(folder) = entry {
                folder.set_depth(depth + 1);
            }
        }
    }

    /// The entry after the one of that name, in the order of names; the first without a name.
    pub(super) fn next(&self, after: Option<&str>) -> Option<(String, Entry)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.lock();
        entries.range::<str, _>((from, Bound::Unbounded)).next().map(|(name, entry)| (name.clone(), entry.clone()))
    }

    fn get(&self, name: &str) -> Option<Entry> {
        self.entries.lock().get(name).cloned()
    }

    /// All files with their paths, in order, without those of granted folders.
    pub(crate) fn files(&self) -> Vec<(String, Arc<File>)> {
        let mut found = Vec::new();
        self.collect("", &mut found);
        found
    }

    fn collect(&self, before: &str, found: &mut Vec<(String, Arc<File>)>) {
        for (name, entry) in &*self.entries.lock() {
            match entry {
                Entry::File(file) => found.push((format!("{before}{name}"), Arc::clone(file))),
                Entry::Folder(folder) if folder.is_sealed() => {}
                Entry::Folder(folder) => folder.collect(&format!("{before}{name}/"), found),
            }
        }
    }

    /// How many folders are within one another, this one included.
    fn height(&self) -> usize {
        let entries = self.entries.lock();
        let below = entries.values().filter_map(|entry| entry.folder().ok()).map(|folder| folder.height());
        1 + below.max().unwrap_or(0)
    }

    /// Whether that folder is this one, or below it.
    fn holds(&self, id: u64) -> bool {
        let is_below = |entry: &Entry| entry.folder().is_ok_and(|folder| folder.holds(id));
        self.id == id || self.entries.lock().values().any(is_below)
    }
}

/// The place of a path: a folder, and the name in it.
pub(super) struct Place {
    pub(super) folder: Arc<Folder>,
    /// `None` for the folder itself.
    pub(super) name: Option<String>,
    /// The path ends with a slash: it means a folder.
    wants_folder: bool,
}

/// The names of a path. `..` is one of them, `.` is not.
fn names(path: &str) -> Result<Vec<&str>, ErrorCode> {
    if path.len() > PATH_BYTES_MAX {
        return Err(ErrorCode::NameTooLong);
    }
    if path.is_empty() {
        return Err(ErrorCode::NoEntry);
    }
    if path.starts_with('/') {
        return Err(ErrorCode::NotPermitted);
    }
    let names = path.split('/').filter(|name| !name.is_empty() && *name != ".");
    names
        .map(|name| match name {
            _ if name.len() > NAME_BYTES_MAX => Err(ErrorCode::NameTooLong),
            _ if name.contains('\0') => Err(ErrorCode::Invalid),
            _ => Ok(name),
        })
        .collect()
}

impl Folder {
    /// Finds the place of a path. It never leaves this folder.
    pub(super) fn place(self: &Arc<Self>, path: &str) -> Result<Place, ErrorCode> {
        let names = names(path)?;
        let mut folders = vec![Arc::clone(self)];
        let mut last = None;
        for (index, name) in names.iter().enumerate() {
            let is_last = index + 1 == names.len();
            if *name == ".." {
                folders.pop();
                if folders.is_empty() {
                    return Err(ErrorCode::NotPermitted);
                }
            } else if is_last {
                last = Some((*name).to_owned());
            } else {
                let here = folders.last().expect("invariant: it is never left empty");
                let next = here.get(name).ok_or(ErrorCode::NoEntry)?;
                folders.push(Arc::clone(next.folder()?));
            }
        }
        let folder = folders.pop().expect("invariant: it is never left empty");
        Ok(Place { folder, name: last, wants_folder: path.ends_with('/') })
    }
}

impl Place {
    /// What is there.
    pub(super) fn entry(&self) -> Result<Entry, ErrorCode> {
        let entry = match &self.name {
            None => Entry::Folder(Arc::clone(&self.folder)),
            Some(name) => self.folder.get(name).ok_or(ErrorCode::NoEntry)?,
        };
        if self.wants_folder {
            entry.folder()?;
        }
        Ok(entry)
    }

    /// Refuses to change what is granted, and where it is.
    fn writable(&self) -> Result<(), ErrorCode> {
        match self.entry() {
            Ok(Entry::Folder(folder)) => folder.quota.writable()?,
            Ok(Entry::File(_)) | Err(_) => {}
        }
        self.folder.quota.writable()
    }

    /// Makes a file there, where nothing is.
    pub(super) fn create_file(&self) -> Result<Arc<File>, ErrorCode> {
        let name = self.name.as_ref().ok_or(ErrorCode::Exist)?;
        if self.wants_folder {
            return Err(ErrorCode::IsDirectory);
        }
        let file = File::new(&self.folder.quota)?;
        self.folder.entries.lock().insert(name.clone(), Entry::File(Arc::clone(&file)));
        Ok(file)
    }

    /// Makes a folder there.
    pub(super) fn create_folder(&self) -> Result<(), ErrorCode> {
        self.writable()?;
        let name = self.name.as_ref().ok_or(ErrorCode::Exist)?;
        if self.folder.get(name).is_some() {
            return Err(ErrorCode::Exist);
        }
        let depth = self.folder.depth() + 1;
        if depth >= DEPTH_MAX {
            return Err(ErrorCode::NameTooLong);
        }
        let made = Folder::new(&self.folder.quota, depth)?;
        self.folder.entries.lock().insert(name.clone(), Entry::Folder(made));
        Ok(())
    }

    /// Removes the file there.
    pub(super) fn remove_file(&self) -> Result<(), ErrorCode> {
        self.writable()?;
        let name = self.name.as_ref().ok_or(ErrorCode::IsDirectory)?;
        self.entry()?.file()?;
        self.folder.entries.lock().remove(name);
        Ok(())
    }

    /// Removes the empty folder there.
    pub(super) fn remove_folder(&self) -> Result<(), ErrorCode> {
        self.writable()?;
        let name = self.name.as_ref().ok_or(ErrorCode::Busy)?;
        if !self.entry()?.folder()?.entries.lock().is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        self.folder.entries.lock().remove(name);
        Ok(())
    }

    /// Moves what is there to another place. A file replaces a file, a folder an empty folder.
    pub(super) fn rename(&self, to: &Self) -> Result<(), ErrorCode> {
        self.writable()?;
        to.writable()?;
        let (Some(from_name), Some(to_name)) = (&self.name, &to.name) else { return Err(ErrorCode::Busy) };
        let moved = self.entry()?;
        match (&moved, to.entry()) {
            (_, Ok(there)) if there.id() == moved.id() => return Ok(()),
            (Entry::File(_), Ok(there)) => drop(Arc::clone(there.file()?)),
            (Entry::Folder(_), Ok(there)) if !there.folder()?.entries.lock().is_empty() => {
                return Err(ErrorCode::NotEmpty);
            }
            (Entry::File(_), Err(_)) if to.wants_folder => return Err(ErrorCode::NotDirectory),
            (_, Ok(_) | Err(_)) => {}
        }
        if let Entry::Folder(folder) = &moved {
            if folder.holds(to.folder.id) {
                return Err(ErrorCode::Invalid);
            }
            let depth = to.folder.depth() + 1;
            if depth + folder.height() > DEPTH_MAX {
                return Err(ErrorCode::NameTooLong);
            }
            folder.set_depth(depth);
        }
        self.folder.entries.lock().remove(from_name);
        to.folder.entries.lock().insert(to_name.clone(), moved);
        Ok(())
    }
}
