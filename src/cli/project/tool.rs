//! The tools of a language.

use crate::cli::report::error::{UserError, kind};
use crate::cli::terminal::{printable, say};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether what tools print is shown while they run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Talk {
    /// All of it, on standard error.
    Shown,
    /// Only that of a tool that fails.
    OnFailure,
}

/// Bytes of a failed tool's text that are shown: its end. Arbitrary.
const TEXT_MAX: usize = 64 << 10;

/// Runs a tool. Returns its standard output.
///
/// `missing` is the hint if there is no such program.
pub(super) fn run(command: &mut Command, talk: Talk, missing: &str) -> Result<Vec<u8>, UserError> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(if talk == Talk::Shown { Stdio::inherit() } else { Stdio::piped() });
    let output = command.output().map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            UserError::new(kind::MISSING_TOOL, format!("`{name}` is not installed")).hint(missing)
        } else {
            UserError::new(kind::MISSING_TOOL, format!("`{name}` cannot be started: {error}"))
        }
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    if talk == Talk::OnFailure {
        let begins = output.stderr.len().saturating_sub(TEXT_MAX);
        say(printable(&String::from_utf8_lossy(&output.stderr[begins..])).trim_end());
    }
    Err(failed(&name, &output.status.to_string()))
}

/// The error of a tool that has said itself what is wrong.
pub(super) fn failed(name: &str, status: &str) -> UserError {
    // What it wrote comes before what is said about it.
    let _ = io::stderr().flush();
    UserError::new(kind::BUILD_FAILED, format!("`{name}` failed ({status}): it says above what is wrong"))
}

/// The folder of a project where a Python environment keeps programs.
const ENVIRONMENT: &str = ".venv/bin";

/// A program: of the Python environment in the project's folder, or of the PATH.
pub(super) fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let own = folder.join(ENVIRONMENT);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(own)
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))?;
    // The tool starts in another folder.
    std::path::absolute(found).ok()
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The command that installs a package of PyPI where [`find`] looks for it.
pub(super) fn in_environment(package: &str) -> String {
    format!("python3 -m venv .venv && .venv/bin/pip install {package}")
}

/// A folder that is removed with this value.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Self, UserError> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut unique = [0; 16];
        let unwritten =
            |why: String| UserError::new(kind::UNREADABLE, format!("cannot make a temporary folder: {why}"));
        getrandom::fill(&mut unique).map_err(|error| unwritten(error.to_string()))?;
        let folder = std::env::temp_dir().join(format!("wfhost-build-{:032x}", u128::from_le_bytes(unique)));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| unwritten(format!("{}: {error}", folder.display())))?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in it.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), UserError> {
        let path = self.path(name);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&path, text))
            .map_err(|error| UserError::new(kind::UNREADABLE, format!("cannot write {}: {error}", path.display())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a tool has written.
pub(super) fn made(path: &Path) -> Result<Vec<u8>, UserError> {
    let unread = |error| UserError::new(kind::UNREADABLE, format!("cannot read {}: {error}", path.display()));
    std::fs::read(path).map_err(unread)
}

/// The end of a text of a tool, in one line.
pub(super) fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
