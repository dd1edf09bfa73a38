//! The parent, which has a component compiled.

use super::child::{self, ARGUMENT, Request};
use super::{Allowance, Cancellation};
use crate::guest::options::Profile;
use crate::guest::problem::{CompileBound, LoadError};
use std::io::{self, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the parent checks whether the load is still wanted. Arbitrary: few wake-ups in what
/// takes seconds.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Bytes of a child's standard error that are read.
const STDERR_BYTES_MAX: u64 = 4 << 10;

/// Identifies a failed allocation, which ends the process with this text.
const NO_MEMORY_TEXT: &str = "memory allocation of";

/// The child's task.
pub(super) struct CompileJob<'a> {
    pub(super) program: &'a Path,
    pub(super) profile: Profile,
    pub(super) fingerprint: String,
    pub(super) bytes: &'a [u8],
    /// The functions of its family; `None` if it has no family.
    pub(super) functions: Option<&'a [u8]>,
    pub(super) allowance: Allowance,
}

/// What a child returns.
pub(super) struct Compiled {
    pub(super) code: Vec<u8>,
    /// The functions of its family to store; empty if what is stored will do.
    pub(super) functions: Vec<u8>,
}

/// A child that does not outlive this value.
struct KillOnDrop(Child);

impl KillOnDrop {
    fn kill(&mut self) {
        // It fails if the child has already ended.
        let _ = self.0.kill();
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}

/// The code of a component, compiled by a child.
pub(super) fn compile(job: &CompileJob<'_>, cancellation: &Cancellation) -> Result<Compiled, LoadError> {
    let CompileJob { program, profile, ref fingerprint, bytes, functions, allowance } = *job;
    let fingerprint = fingerprint.clone();
    let functions_length = functions.map(<[u8]>::len);
    let request = Request { profile, fingerprint, bytes: bytes.len(), functions: functions_length, allowance };
    let request = serde_json::to_string(&request).expect("invariant: a request can be written as JSON");
    let mut command = Command::new(program);
    command.arg(ARGUMENT).arg(request).env_clear();
    // In a process group of its own: Ctrl-C on a terminal is for this process, which ends the
    // child.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let failed = |error: io::Error| LoadError::Compiler(format!("{} cannot be started: {error}", program.display()));
    let mut child = KillOnDrop(command.spawn().map_err(failed)?);
    let missing = || LoadError::Compiler("it has no pipes".to_owned());
    let mut input = child.0.stdin.take().ok_or_else(missing)?;
    let output = child.0.stdout.take().ok_or_else(missing)?;
    let stderr = child.0.stderr.take().ok_or_else(missing)?;
    std::thread::scope(|threads| {
        // A child that ends early does not read the rest.
        threads.spawn(move || input.write_all(bytes).and_then(|()| input.write_all(functions.unwrap_or_default())));
        let stderr = threads.spawn(move || read_stderr(stderr));
        let (send, answers) = channel();
        threads.spawn(move || {
            let mut answer = Vec::new();
            let read = output.take(allowance.memory_bytes).read_to_end(&mut answer);
            // The receiver may have given up.
            let _ = send.send(read.map(|_| answer));
        });
        let until = Instant::now() + allowance.wall();
        let ended_by = loop {
            match answers.recv_timeout(POLL_INTERVAL) {
                Ok(answer) => break Ok(answer),
                Err(RecvTimeoutError::Disconnected) => break Ok(Err(io::Error::other("it ended without an answer"))),
                Err(RecvTimeoutError::Timeout) if cancellation.is_cancelled() => break Err(LoadError::Cancelled),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                    break Err(LoadError::CompileBound(CompileBound::Wall(allowance.wall())));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        if ended_by.is_err() {
            child.kill();
        }
        let status = child.0.wait();
        let stderr = stderr.join().unwrap_or_default();
        let failed = |error: io::Error| LoadError::Compiler(error.to_string());
        let answer = ended_by?.map_err(failed)?;
        read(answer, status.map_err(failed)?, &stderr, allowance)
    })
}

/// Reads a child's standard error.
fn read_stderr(mut stderr: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = stderr.by_ref().take(STDERR_BYTES_MAX).read_to_end(&mut bytes);
    // The child must not block on a full pipe.
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&bytes).into_owned()
}

fn read(mut answer: Vec<u8>, status: ExitStatus, stderr: &str, allowance: Allowance) -> Result<Compiled, LoadError> {
    const CPU: i32 = rustix::process::Signal::XCPU.as_raw();
    let no_memory = || LoadError::CompileBound(CompileBound::Memory(allowance.memory_bytes));
    if !status.success() {
        return Err(match status.signal() {
            Some(CPU) => LoadError::CompileBound(CompileBound::Cpu(Duration::from_secs(allowance.cpu_seconds))),
            _ if stderr.contains(NO_MEMORY_TEXT) => no_memory(),
            _ => LoadError::Compiler(format!("{status}: {}", stderr.trim())),
        });
    }
    if answer.is_empty() {
        return Err(LoadError::Compiler("it gave no answer".to_owned()));
    }
    // Removing the last byte does not copy the code of a large guest once more.
    match answer.pop() {
        Some(child::CODE) => divide(answer).ok_or_else(|| LoadError::Compiler("its answer is too short".to_owned())),
        Some(child::NO_MEMORY) => Err(no_memory()),
        _ => Err(LoadError::Compile(String::from_utf8_lossy(&answer).into_owned())),
    }
}

/// Divides code and functions.
fn divide(mut code: Vec<u8>) -> Option<Compiled> {
    let (_, length) = code.split_last_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    code.truncate(code.len() - size_of::<u64>());
    let functions = code.split_off(code.len().checked_sub(length)?);
    Some(Compiled { code, functions })
}
