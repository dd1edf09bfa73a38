//! Where the operator's secrets are.

use super::SECRET_BYTES_MAX;
use std::fmt;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long a command may take. Arbitrary: it may ask a vault over the network.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(30);

/// How often it is looked whether a command has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A function of an embedder.
type Provider = Arc<dyn Fn() -> Result<Vec<u8>, String> + Send + Sync>;

/// Where a secret is. Only an operator can say so: no workflow file can.
#[derive(Clone)]
pub enum SecretSource {
    /// A variable of the environment.
    Env(String),
    /// A file. White space at its end does not count.
    File(PathBuf),
    /// The standard output of a command: the program and its arguments. White space at its end
    /// does not count.
    Command(Vec<String>),
    /// What an embedder's function returns. It is called for every request, and must not wait
    /// long.
    Function(Provider),
}

/// A source, as messages name it.
pub(super) struct Place<'a>(pub(super) &'a SecretSource);

impl SecretSource {
    /// Asks a function for the value, each time.
    pub fn function(provider: impl Fn() -> Result<Vec<u8>, String> + Send + Sync + 'static) -> Self {
        Self::Function(Arc::new(provider))
    }

    /// Returns whether reading it may take long.
    pub(super) fn waits(&self) -> bool {
        matches!(self, Self::Command(_))
    }
}

impl FromStr for SecretSource {
    type Err = String;

    /// Reads `env:NAME`, `file:PATH` or `command:PROGRAM ARGUMENT…`. The words of a command are
    /// separated by blanks: it is not run by a shell.
    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
        match scheme {
            "env" | "file" | "command" if rest.trim().is_empty() => Err(format!("nothing follows `{scheme}:`")),
            "env" => Ok(Self::Env(rest.to_owned())),
            "file" => Ok(Self::File(rest.into())),
            "command" => Ok(Self::Command(rest.split_whitespace().map(str::to_owned).collect())),
            _ => Err("a secret comes from `env:NAME`, `file:PATH` or `command:PROGRAM ARGUMENT…`".to_owned()),
        }
    }
}

impl Place<'_> {
    /// Reads what is there now.
    pub(super) fn read(&self) -> Result<Zeroizing<Vec<u8>>, String> {
        match self.0 {
            SecretSource::Env(name) => variable(name, SECRET_BYTES_MAX),
            SecretSource::File(path) => file(path, SECRET_BYTES_MAX),
            SecretSource::Command(words) => command(words),
            SecretSource::Function(provider) => provider().map(Zeroizing::new),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SecretSource::Env(name) => write!(f, "the variable {name:?}"),
            SecretSource::File(path) => write!(f, "the file {:?}", path.to_string_lossy()),
            SecretSource::Command(words) => {
                // Its arguments may be secrets of their own.
                write!(f, "the command {:?}", words.first().map_or("", String::as_str))
            }
            SecretSource::Function(_) => f.write_str("the embedder's function"),
        }
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Place(self), f)
    }
}

/// Reads a variable of the environment.
pub(crate) fn variable(name: &str, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, String> {
    // The standard library panics at names that no variable can have.
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err("no variable can have this name".to_owned());
    }
    let value = Zeroizing::new(std::env::var_os(name).ok_or("it is not set in the environment")?.into_vec());
    if value.len() > bytes_max {
        return Err(too_long(bytes_max));
    }
    Ok(value)
}

/// Reads a file.
pub(crate) fn file(path: &Path, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, String> {
    let text = |error: io::Error| error.to_string();
    // A pipe would be waited for.
    if !std::fs::metadata(path).map_err(text)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    bounded(std::fs::File::open(path).map_err(text)?, bytes_max)
}

/// Reads at most so many bytes, into memory that never moves.
fn bounded(from: impl io::Read, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, String> {
    let mut bytes = Zeroizing::new(vec![0; bytes_max + 1]);
    let mut len = 0;
    let mut from = from.take(bytes_max as u64 + 1);
    while len <= bytes_max {
        match from.read(&mut bytes[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    bytes.truncate(len);
    if len > bytes_max { Err(too_long(bytes_max)) } else { Ok(bytes) }
}

fn too_long(bytes_max: usize) -> String {
    format!("a secret has at most {bytes_max} bytes")
}

/// Runs a command and reads its standard output. What it says on standard error is not repeated:
/// it could be a part of the secret.
fn command(words: &[String]) -> Result<Zeroizing<Vec<u8>>, String> {
    let (program, arguments) = words.split_first().ok_or("it has no words")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("it has no standard output")?;
    let reader = std::thread::Builder::new().name("wfhost-secret".into());
    let reader = reader.spawn(move || bounded(output, SECRET_BYTES_MAX)).map_err(|error| error.to_string());
    let begun = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if begun.elapsed() < COMMAND_TIME_MAX => std::thread::sleep(LOOK_INTERVAL),
            Ok(None) => break Err(format!("it takes longer than {} s", COMMAND_TIME_MAX.as_secs())),
            Err(error) => break Err(error.to_string()),
        }
    };
    if ended.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let status = ended?;
    // A child of the command may have the pipe for longer than the command lives.
    let reader = reader?;
    while !reader.is_finished() && begun.elapsed() < COMMAND_TIME_MAX {
        std::thread::sleep(LOOK_INTERVAL);
    }
    if !reader.is_finished() {
        return Err("it has ended, and its output has not".to_owned());
    }
    let bytes = reader.join().map_err(|_| "its output could not be read".to_owned())??;
    if status.success() { Ok(bytes) } else { Err(format!("it failed: {status}")) }
}
