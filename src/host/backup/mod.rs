//! Copies of a data folder, made while hosts use it, and data folders restored from them.
//!
//! A backup is a folder with `journal.db`, `components`, `blobs` and `backup.json`, which names the
//! others with their digests and is written last: a folder without it is no backup. The journal is
//! copied at one moment. What else belongs to it is copied so that nothing of that moment is
//! missing: snapshots before it, since a snapshot of a later step would belong to another future,
//! and components and blobs before and after it, since a run that is removed takes its own along,
//! and a run that begins brings its own.
//!
//! - **I1** No host owns a run of a backup.
//! - **I2** `backup.json` is there only when all that it names is on disk.
//! - **I3** A restored journal gets its name last, and never in place of another one.
//!
//! It does not keep the original from continuing the same runs: [`restore`] refuses if the original
//! is on the same machine, and otherwise only its operator can know.

mod blobs;
mod restore;

pub use restore::restore;

use crate::journal::{ComponentStore, ComponentStoreError, JournalFile, StoreError, layout};
use crate::run::system_time;
use blobs::Blobs;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The version of `backup.json`.
const VERSION: u32 = 1;
/// The file that marks a backup as unfinished.
const UNFINISHED: &str = "backup.unfinished";
/// Bytes of `backup.json` that are read: some hundred thousand components.
const BACKUP_BYTES_MAX: u64 = 64 << 20;

/// What a backup consists of: the file `backup.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct BackupManifest {
    /// The version of this form.
    #[serde(rename = "wfhost-backup")]
    pub version: u32,
    /// The release of wfhost that made it.
    pub release: String,
    /// The moment of the copy, in RFC 3339.
    pub taken: String,
    /// The number of runs.
    pub runs: u64,
    /// The number of those that had not ended.
    pub unfinished: u64,
    /// The journal.
    pub journal: CopiedFile,
    /// The snapshots, if they were copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<CopiedFile>,
    /// Bytes of each component, by its BLAKE3 in hexadecimal.
    pub components: BTreeMap<String, u64>,
    /// Components that runs or deployed workflows name and that could not be copied, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
    /// Bytes of each blob, by its BLAKE3 in hexadecimal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blobs: BTreeMap<String, u64>,
    /// Blobs that runs hold and that could not be copied, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing_blobs: BTreeMap<String, String>,
    /// Where it was copied from.
    pub origin: Origin,
}

/// A file of a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct CopiedFile {
    /// Its length.
    pub bytes: u64,
    /// Its BLAKE3 in hexadecimal.
    pub blake3: String,
}

/// The data folder that a backup was copied from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Origin {
    /// Its path.
    pub folder: PathBuf,
    /// The number of its journal in the file system.
    pub inode: u64,
}

impl BackupManifest {
    /// Returns the bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.journal.bytes
            + self.snapshots.as_ref().map_or(0, |snapshots| snapshots.bytes)
            + self.components.values().sum::<u64>()
            + self.blobs.values().sum::<u64>()
    }
}

/// Why a backup cannot be made or restored.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A file or folder cannot be used.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A component of a backup cannot be used.
    #[error(transparent)]
    Component(#[from] ComponentStoreError),
    /// The folder for a backup has something in it.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The folder is no backup.
    #[error("{} is not a backup: it has no backup.json", .0.display())]
    NotABackup(PathBuf),
    /// The backup was interrupted.
    #[error("the backup {} was interrupted, and is not complete", .0.display())]
    Interrupted(PathBuf),
    /// The file `backup.json` cannot be read.
    #[error("{}: {why}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file of a backup is not what was copied.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The folder to restore to has a journal.
    #[error("{} exists: restoring would overwrite its runs", .0.display())]
    Occupied(PathBuf),
    /// The folder that the backup was copied from is there, and would continue the same runs.
    #[error("the backup was made of {}, which still has its journal; unfinished runs would continue in both: {unfinished}", folder.display())]
    OriginalExists {
        /// The folder that the backup was copied from.
        folder: PathBuf,
        /// The number of unfinished runs.
        unfinished: u64,
    },
}

crate::base::report_debug::report_debug!(BackupError);

fn io_of(path: &Path) -> impl Fn(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |error| BackupError::Io { path: path.clone(), error }
}

/// Copies a data folder to a new or empty one. Other processes may use it meanwhile. `progress`
/// gets the bytes of the journal that are copied, and how many there are. When it returns, the copy
/// is durable.
///
/// Snapshots only save the time of replaying. With `snapshots` they are copied too.
///
/// # Errors
/// Fails if the folder is not empty, or cannot be written; what is in it then is no backup.
pub fn backup(
    store: &dyn JournalFile,
    to: &Path,
    snapshots: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BackupManifest, BackupError> {
    let journal = store.path();
    let from = journal.parent().unwrap_or(Path::new(".")).canonicalize().map_err(io_of(&journal))?;
    let inode = std::fs::metadata(&journal).map_err(io_of(&journal))?.ino();
    claim(to)?;
    let mut components =
        Components { from: ComponentStore::of(&from), to: ComponentStore::of(to), copied: BTreeMap::new() };
    components.copy_all(&from.join(layout::COMPONENTS))?;
    let mut blobs = Blobs::new(from.join(layout::BLOBS), to.join(layout::BLOBS));
    blobs.copy_all()?;
    let at = to.join(layout::SNAPSHOTS);
    let snapshots = (snapshots && store.copy_snapshots_to(&at, &mut |_, _| {})?).then(|| synced(&at)).transpose()?;
    let taken = jiff::Timestamp::from_microsecond(system_time().0.cast_signed()).unwrap_or_default();
    let at = to.join(layout::JOURNAL);
    let contents = store.copy_to(&at, progress)?;
    components.copy_all(&from.join(layout::COMPONENTS))?;
    blobs.copy_all()?;
    let manifest = BackupManifest {
        version: VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        taken: taken.to_string(),
        runs: contents.runs,
        unfinished: contents.unfinished,
        journal: synced(&at)?,
        snapshots,
        missing: components.missing(&contents.components),
        components: components.copied,
        missing_blobs: blobs.missing(&contents.blobs),
        blobs: blobs.copied,
        origin: Origin { folder: from, inode },
    };
    finish(to, &manifest)?;
    Ok(manifest)
}

/// Makes the folder of a backup, or takes an empty one, for its owner alone.
fn claim(to: &Path) -> Result<(), BackupError> {
    DirBuilder::new().recursive(true).mode(0o700).create(to).map_err(io_of(to))?;
    let is_empty = std::fs::read_dir(to).map_err(io_of(to))?.next().is_none();
    if !is_empty {
        return Err(BackupError::NotEmpty(to.to_owned()));
    }
    std::fs::set_permissions(to, Permissions::from_mode(0o700)).map_err(io_of(to))?;
    let mark = to.join(UNFINISHED);
    match File::options().write(true).create_new(true).mode(0o600).open(&mark) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(BackupError::NotEmpty(to.to_owned())),
        Err(error) => Err(io_of(&mark)(error)),
    }
}

/// Writes `backup.json`, when all else is durable.
fn finish(to: &Path, manifest: &BackupManifest) -> Result<(), BackupError> {
    sync_folder(to)?;
    let mark = to.join(UNFINISHED);
    let text = serde_json::to_vec_pretty(manifest).expect("invariant: it has names and numbers only");
    let written = File::options().write(true).truncate(true).open(&mark).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.and_then(|()| std::fs::rename(&mark, to.join(layout::BACKUP))).map_err(io_of(&mark))?;
    sync_folder(to)?;
    // The folder itself may be new. Of `DIR` the parent is the working folder.
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_folder(parent)
}

fn sync_folder(folder: &Path) -> Result<(), BackupError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_of(folder))
}

/// Syncs a file and computes its digest.
fn synced(path: &Path) -> Result<CopiedFile, BackupError> {
    let digest = || {
        let mut file = File::open(path)?;
        file.sync_all()?;
        let mut hasher = blake3::Hasher::new();
        let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
        loop {
            let length = file.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            hasher.update(&buffer[..length]);
            bytes += length as u64;
        }
        Ok(CopiedFile { bytes, blake3: hasher.finalize().to_hex().to_string() })
    };
    digest().map_err(io_of(path))
}

/// The components of a folder, and those that are copied.
struct Components {
    from: ComponentStore,
    to: ComponentStore,
    /// The bytes of each.
    copied: BTreeMap<String, u64>,
}

impl Components {
    /// Copies what is there now. A file that vanishes meanwhile was of a run that is removed, and
    /// one that is damaged is left out.
    fn copy_all(&mut self, folder: &Path) -> Result<(), BackupError> {
        let files = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            files => files.map_err(io_of(folder))?,
        };
        for file in files {
            let name = file.map_err(io_of(folder))?.file_name();
            let Some(hash) = name.to_str().and_then(digest_of).filter(|hash| !self.copied.contains_key(*hash)) else {
                continue;
            };
            match self.from.read(hash) {
                Ok(bytes) => {
                    self.to.store(hash, &bytes).map_err(io_of(folder))?;
                    self.copied.insert(hash.to_owned(), bytes.len() as u64);
                }
                Err(ComponentStoreError::Damaged { .. }) => {}
                Err(ComponentStoreError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Those of `named` that are not copied, and why.
    fn missing(&self, named: &BTreeSet<String>) -> BTreeMap<String, String> {
        let missing = named.iter().filter(|hash| !self.copied.contains_key(*hash));
        let why = |hash: &String| match self.from.read(hash) {
            Ok(_) => "it was stored after the copy".to_owned(),
            Err(error) => error.to_string(),
        };
        missing.map(|hash| (hash.clone(), why(hash))).collect()
    }
}

/// The digest that names a component's file.
fn digest_of(name: &str) -> Option<&str> {
    let hash = name.strip_suffix(".wasm")?;
    (hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hash)
}
