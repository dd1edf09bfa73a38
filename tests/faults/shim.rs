//! A disk that fails and a clock that jumps, for a host process: `shim.c`, compiled on first use.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What goes wrong with the files of one folder, from now on and until it is changed.
pub(crate) struct Shim {
    folder: PathBuf,
    control: tempfile::TempDir,
}

/// The shared object.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shim-{}.so", std::process::id()));
        let flags = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"];
        let output = Command::new("cc")
            .args(flags)
            .arg(&library)
            .arg(&source)
            .output()
            .expect("a C compiler, which SQLite needs too");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        library
    })
}

impl Shim {
    /// Nothing goes wrong yet.
    pub(crate) fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), control: tempfile::tempdir().unwrap() }
    }

    /// Preloads it.
    pub(crate) fn put<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_PRELOAD", library())
            .env("WFHOST_SHIM_FOLDER", &self.folder)
            .env("WFHOST_SHIM_CONTROL", self.control.path())
    }

    /// Sets a fault: `full`, `sync-fails`, `read-only`; `bytes` and `clock` take a number.
    pub(crate) fn set(&self, name: &str, value: &str) {
        // Written whole or not at all, for those that read it in the meantime.
        let next = self.control.path().join("next");
        std::fs::write(&next, value).unwrap();
        std::fs::rename(next, self.control.path().join(name)).unwrap();
    }

    pub(crate) fn unset(&self, name: &str) {
        std::fs::remove_file(self.control.path().join(name)).unwrap();
    }

    /// The number of `syncs`, `failed-syncs` or `failed-writes`.
    pub(crate) fn count(&self, name: &str) -> u64 {
        std::fs::metadata(self.control.path().join(name)).map_or(0, |file| file.len())
    }
}
