//! Restoring a data folder from a backup.

use super::blobs::{Blobs, Copied};
use super::{
    BACKUP_BYTES_MAX, BackupError, BackupManifest, ComponentStore, CopiedFile, UNFINISHED, VERSION, digest_of, io_of,
    sync_folder,
};
use crate::journal::{CopyError, check_copy, layout};
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// What the name of a file ends with until it is checked.
const RESTORING: &str = "restoring";

/// Makes a data folder of a backup: all of it is checked before the journal gets its name.
/// `progress` gets the bytes that are copied, and how many there are.
///
/// Its runs are suspended, as they were at the moment of the copy: what they did since is done
/// again, under the same idempotency keys. If the folder that the backup was copied from still has
/// its journal, both would continue the same runs: it refuses that unless `beside_original`.
///
/// # Errors
/// Fails if the backup is not complete or is damaged, or the data folder has a journal.
pub fn restore(
    from: &Path,
    data: &Path,
    beside_original: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BackupManifest, BackupError> {
    let manifest = read(from)?;
    if manifest.unfinished > 0 && !beside_original && is_original_there(&manifest, data) {
        let folder = manifest.origin.folder.clone();
        return Err(BackupError::OriginalExists { folder, unfinished: manifest.unfinished });
    }
    DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(io_of(data))?;
    // SQLite would take a log that is left over for that of the restored file.
    for name in [layout::JOURNAL, layout::JOURNAL_WAL, layout::JOURNAL_SHM, layout::SNAPSHOTS] {
        let path = data.join(name);
        if path.symlink_metadata().is_ok() {
            return Err(BackupError::Occupied(path));
        }
    }
    let (mut done, total) = (0, manifest.bytes());
    let mut add = |bytes| {
        done += bytes;
        progress(done, total);
    };
    let (source, target) = (ComponentStore::of(from), ComponentStore::of(data));
    for hash in manifest.components.keys() {
        let bytes = source.read(hash)?;
        target.store(hash, &bytes).map_err(io_of(&data.join(layout::COMPONENTS)))?;
        add(bytes.len() as u64);
    }
    let blobs = Blobs::new(from.join(layout::BLOBS), data.join(layout::BLOBS));
    for (name, bytes) in &manifest.blobs {
        let hash = blake3::Hash::from_hex(name).map_err(|_| BackupError::Manifest {
            path: from.join(layout::BACKUP),
            why: format!("`{name}` is not the digest of a blob"),
        })?;
        if blobs.copy(hash.as_bytes())? != Copied::Whole(*bytes) {
            let why = format!("the blob {name} is missing, or is not what its name says");
            return Err(BackupError::Damaged { path: from.join(layout::BLOBS), why });
        }
        add(*bytes);
    }
    let journal = copy(from, data, layout::JOURNAL, &manifest.journal, &mut add)?;
    let contents = match check_copy(&journal) {
        Ok(contents) => contents,
        Err(CopyError::Store(error)) => return Err(error.into()),
        Err(CopyError::Damaged(why)) => return Err(BackupError::Damaged { path: from.join(layout::JOURNAL), why }),
    };
    let is_here = |hash: &String| manifest.components.contains_key(hash) || manifest.missing.contains_key(hash);
    if let Some(hash) = contents.components.iter().find(|hash| !is_here(hash)) {
        let why = format!("it does not name the component {hash}, which the journal does");
        return Err(BackupError::Manifest { path: from.join(layout::BACKUP), why });
    }
    if let Some(file) = &manifest.snapshots {
        let snapshots = copy(from, data, layout::SNAPSHOTS, file, &mut add)?;
        give_name(&snapshots, &data.join(layout::SNAPSHOTS))?;
    }
    note(data, &manifest)?;
    sync_folder(data)?;
    give_name(&journal, &data.join(layout::JOURNAL))?;
    sync_folder(data)?;
    Ok(manifest)
}

/// Reads the manifest of a backup.
fn read(from: &Path) -> Result<BackupManifest, BackupError> {
    let path = from.join(layout::BACKUP);
    let refused = |why: String| BackupError::Manifest { path: path.clone(), why };
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::read_dir(from).map_err(io_of(from))?;
            let is_interrupted = from.join(UNFINISHED).exists();
            let refusal = if is_interrupted { BackupError::Interrupted } else { BackupError::NotABackup };
            return Err(refusal(from.to_owned()));
        }
        file => file.map_err(io_of(&path))?,
    };
    let mut text = Vec::new();
    file.take(BACKUP_BYTES_MAX + 1).read_to_end(&mut text).map_err(io_of(&path))?;
    if text.len() as u64 > BACKUP_BYTES_MAX {
        return Err(refused(format!("it has more than {BACKUP_BYTES_MAX} bytes")));
    }
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
    match value["wfhost-backup"].as_u64() {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            let release = value["release"].as_str().unwrap_or("of another release");
            return Err(refused(format!(
                "it has version {version}, and this release reads {VERSION}: use wfhost {release}"
            )));
        }
        None => return Err(refused("it does not say `wfhost-backup`".to_owned())),
    }
    let manifest: BackupManifest = serde_json::from_value(value).map_err(|error| refused(error.to_string()))?;
    // A name is a path here.
    match manifest.components.keys().find(|hash| digest_of(&format!("{hash}.wasm")).is_none()) {
        Some(hash) => Err(refused(format!("`{hash}` is not the digest of a component"))),
        None => Ok(manifest),
    }
}

/// Returns whether the folder of the original still has its journal, and is another one.
fn is_original_there(manifest: &BackupManifest, data: &Path) -> bool {
    let journal = manifest.origin.folder.join(layout::JOURNAL);
    let is_same = data.canonicalize().is_ok_and(|data| data == manifest.origin.folder);
    !is_same && std::fs::metadata(journal).is_ok_and(|file| file.ino() == manifest.origin.inode)
}

/// Copies a file of a backup under a name that nobody uses yet, and checks its bytes.
fn copy(
    from: &Path,
    data: &Path,
    name: &str,
    expected: &CopiedFile,
    add: &mut impl FnMut(u64),
) -> Result<std::path::PathBuf, BackupError> {
    let (source, target) = (from.join(name), data.join(format!("{name}.{RESTORING}")));
    let mut input = File::open(&source).map_err(io_of(&source))?;
    let options = File::options().write(true).create(true).truncate(true).mode(0o600).open(&target);
    let mut output = options.map_err(io_of(&target))?;
    let mut hasher = blake3::Hasher::new();
    let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
    loop {
        let length = input.read(&mut buffer).map_err(io_of(&source))?;
        if length == 0 {
            break;
        }
        hasher.update(&buffer[..length]);
        output.write_all(&buffer[..length]).map_err(io_of(&target))?;
        bytes += length as u64;
        add(length as u64);
    }
    output.sync_all().map_err(io_of(&target))?;
    if (bytes, &*hasher.finalize().to_hex()) != (expected.bytes, &expected.blake3) {
        let _ = std::fs::remove_file(&target);
        let why = "its content is not the one that backup.json names".to_owned();
        return Err(BackupError::Damaged { path: source, why });
    }
    Ok(target)
}

/// Notes in the data folder what it was restored from.
fn note(data: &Path, manifest: &BackupManifest) -> Result<(), BackupError> {
    let path = data.join(layout::RESTORED);
    let text = serde_json::to_vec_pretty(manifest).expect("invariant: it was JSON before");
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.map_err(io_of(&path))
}

/// Gives a file its name, unless there is another one of that name.
fn give_name(file: &Path, name: &Path) -> Result<(), BackupError> {
    match std::fs::hard_link(file, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(BackupError::Occupied(name.to_owned())),
        linked => linked.and_then(|()| std::fs::remove_file(file)).map_err(io_of(name)),
    }
}
