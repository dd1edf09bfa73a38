//! Compiled code on disk, so that a second start does not compile.
//!
//! The files hold native code, and whoever can write them controls every process that loads them.
//! So the folder is created with mode 0700, and is not used at all if it belongs to another user,
//! or if others could write to it or replace one of its parents. A checksum in each file detects
//! what a disk or a crash has damaged; it is no defence against a person.
//!
//! A file's name is a digest of everything that shapes its content: the engine's own fingerprint
//! (wasmtime's version, target, settings), the bytes of the component, and the format below. The
//! file is written under a temporary name and renamed, so a reader sees all of it or nothing.

mod folder;
#[allow(unsafe_code)]
mod load;

use super::engine;
use super::problem::LoadError;
use blake3::Hash;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wasmtime::Engine;
use wasmtime::component::Component;

/// The last bytes of a file. A change of the layout changes the names of files.
const MAGIC: &[u8; 8] = b"wfcode03";

/// Stores compiled code, or nothing if it has no folder that is safe to use.
pub struct CodeCache {
    folder: Result<folder::Folder, String>,
    /// Every thread that loads reads and writes them. They are figures only, ordered with nothing.
    hits: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
}

/// Counts of a cache's loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheUse {
    /// Loads that found compiled code.
    pub hits: u64,
    /// Loads that compiled.
    pub misses: u64,
    /// Files whose checksum was wrong, or that the engine refused. They were compiled anew.
    pub damaged: u64,
}

impl CodeCache {
    /// Makes a cache in that folder, which is created if it is missing. With `None`, nothing is
    /// stored.
    pub fn new(dir: Option<PathBuf>, bytes_max: u64) -> Self {
        let folder = match dir {
            Some(dir) => folder::Folder::open(dir, bytes_max).map_err(|error| error.to_string()),
            None => Err("none is configured".into()),
        };
        Self { folder, hits: AtomicU64::new(0), misses: AtomicU64::new(0), damaged: AtomicU64::new(0) }
    }

    /// `$WFHOST_CACHE`, or `wfhost` in `$XDG_CACHE_HOME` or `~/.cache`. `None` if the first is
    /// empty or there is no home.
    pub fn default_dir() -> Option<PathBuf> {
        if let Some(dir) = std::env::var_os("WFHOST_CACHE") {
            return (!dir.is_empty()).then(|| PathBuf::from(dir));
        }
        let absolute = |dir: PathBuf| dir.is_absolute().then_some(dir);
        let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
        let base = base.or_else(|| std::env::home_dir().and_then(absolute).map(|home| home.join(".cache")))?;
        Some(base.join("wfhost"))
    }

    /// The folder, or why nothing is stored.
    ///
    /// # Errors
    /// Returns the reason as text.
    pub fn dir(&self) -> Result<&std::path::Path, &str> {
        self.folder.as_ref().map(folder::Folder::path).map_err(String::as_str)
    }

    /// Checks that the cache can store something now, by writing and removing a small file.
    ///
    /// # Errors
    /// Returns the reason as text.
    pub fn probe(&self) -> Result<(), String> {
        self.folder.as_ref().map_err(Clone::clone)?.probe().map(|_| ()).map_err(|error| error.to_string())
    }

    /// Bytes that the stored code takes.
    pub fn bytes(&self) -> u64 {
        self.folder.as_ref().map_or(0, folder::Folder::bytes)
    }

    /// Counts of the loads so far.
    pub fn usage(&self) -> CacheUse {
        CacheUse {
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            damaged: self.damaged.load(Relaxed),
        }
    }

    /// Returns the component of these bytes, compiled for that engine, and the note stored beside
    /// it. `prepare` is called only if nothing is stored, and before the compiler of this process
    /// runs, so it is the place for checks that guard the compiler.
    ///
    /// # Errors
    /// Fails as `prepare` or the compiler does. A cache that cannot be read or written is no error.
    pub fn load_or_compile(
        &self,
        engine: &Engine,
        bytes: &[u8],
        digest: &Hash,
        prepare: impl FnOnce() -> Result<Prepared, LoadError>,
    ) -> Result<(Component, Vec<u8>), LoadError> {
        let folder = self.folder.as_ref().ok().map(|folder| (folder, file_name(engine, digest)));
        let cached = || {
            let (folder, name) = folder.as_ref()?;
            Some(load::component(engine, name, &folder.open_file(name)?))
        };
        match cached() {
            Some(Ok(loaded)) => {
                self.hits.fetch_add(1, Relaxed);
                return Ok(loaded);
            }
            Some(Err(_)) => {
                self.damaged.fetch_add(1, Relaxed);
            }
            None => {}
        }
        self.misses.fetch_add(1, Relaxed);
        let Prepared { note, code } = prepare()?;
        let compile_error = |error: wasmtime::Error| LoadError::Compile(format!("{error:#}"));
        // If it cannot be written, it is compiled again next time.
        let store = |code: &[u8]| {
            if let Some((folder, name)) = &folder {
                folder.write(name, &load::file(name, &note, code));
            }
        };
        let component = if let Some(code) = code {
            store(&code);
            // Mapped from its file, it does not take memory twice.
            match cached() {
                Some(Ok((component, _))) => component,
                // The version is right: what is refused now is larger than an instance may be.
                _ => load::compiled(engine, code).map_err(LoadError::Compile)?,
            }
        } else {
            let component = Component::from_binary(engine, bytes).map_err(compile_error)?;
            if folder.is_some()
                && let Ok(code) = component.serialize()
            {
                store(&code);
            }
            component
        };
        Ok((component, note))
    }
}

impl CodeCache {
    /// Returns the functions that are stored for a family of components, if any are, undamaged.
    pub(super) fn functions(&self, engine: &Engine, family: &Hash) -> Option<Vec<u8>> {
        let name = functions_name(engine, family);
        let file = self.folder.as_ref().ok()?.open_file(&name)?;
        let functions = load::stored(&name, &file);
        if functions.is_none() {
            self.damaged.fetch_add(1, Relaxed);
        }
        functions
    }

    /// Stores the functions of a family, in the place of those before. If they cannot be written,
    /// they are compiled again next time.
    pub(super) fn store_functions(&self, engine: &Engine, family: &Hash, functions: &[u8]) {
        if let Ok(folder) = &self.folder {
            let name = functions_name(engine, family);
            folder.write(&name, &load::file(&name, &[], functions));
        }
    }
}

/// What is known of a component before it is loaded.
#[derive(Debug, Default)]
pub struct Prepared {
    /// The note to store beside its code.
    pub note: Vec<u8>,
    /// The compiled code; `None` if it is to be compiled in this process.
    pub(crate) code: Option<Vec<u8>>,
}

impl From<Vec<u8>> for Prepared {
    /// A note of a component that is compiled in this process.
    fn from(note: Vec<u8>) -> Self {
        Self { note, code: None }
    }
}

/// Loads the same component into another engine with the same code settings, without compiling.
///
/// # Errors
/// Fails if the settings differ.
pub(crate) fn transfer(component: &Component, engine: &Engine) -> Result<Component, String> {
    load::transfer(component, engine)
}

/// The name of a component's file.
fn file_name(engine: &Engine, digest: &Hash) -> String {
    let mut name = blake3::Hasher::new();
    name.update(engine::fingerprint(engine).as_bytes());
    name.update(MAGIC);
    name.update(digest.as_bytes());
    format!("{}.wfcode", name.finalize().to_hex())
}

/// The name of the file of a family's functions.
fn functions_name(engine: &Engine, family: &Hash) -> String {
    let mut name = blake3::Hasher::new_derive_key("wfhost functions of a family of components");
    name.update(engine::fingerprint(engine).as_bytes());
    name.update(MAGIC);
    name.update(family.as_bytes());
    format!("{}.wfcode", name.finalize().to_hex())
}

#[cfg(test)]
mod tests;
