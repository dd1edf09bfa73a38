//! The child process that compiles.

use super::Allowance;
use super::functions::Functions;
use crate::guest::engine;
use crate::guest::options::Profile;
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wasmtime::Engine;

/// The first argument of a process that is to compile. No command has this name.
pub(super) const ARGUMENT: &str = "--wfhost-compile";

/// The last byte of an answer: says what the rest is. Code is followed by functions for the file of
/// the family, and by their length.
pub(super) const CODE: u8 = 0;
pub(super) const REFUSED: u8 = 1;
pub(super) const NO_MEMORY: u8 = 2;

/// Bytes of memory for each compiling thread, in addition to the component's allowance: its stack,
/// and what its allocator holds back.
const MEMORY_BYTES_PER_THREAD: u64 = 16 << 20;

/// By how much the child's priority is lowered. Compiling should not delay what is already running.
const NICE: i32 = 5;

/// Descriptors that a child may have: its pipes, and what a library opens for a moment.
const DESCRIPTORS_MAX: u64 = 32;

/// Whether this program has said that it can be the child. Set before there are other threads, and
/// read by every thread that compiles.
static SERVES: AtomicBool = AtomicBool::new(false);

/// The request, without the component's bytes: these come through standard input.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Request {
    pub(super) profile: Profile,
    /// The engine that the code is for: an engine of another version gives other code.
    pub(super) fingerprint: String,
    pub(super) bytes: usize,
    /// Bytes of the functions of its family, which follow; `None` if it has no family.
    pub(super) functions: Option<usize>,
    pub(super) allowance: Allowance,
}

/// Compiles a component and ends the process, if it was started for that; otherwise does nothing.
///
/// Call it first in `main`, before there are threads. Then components are compiled in a process of
/// their own, with bounds on its time and memory ([`Compiler::Auto`](super::Compiler::Auto)).
///
/// ```
/// // fn main() {
/// wfhost::guest::serve_compiler();
/// // …
/// ```
pub fn serve_compiler() {
    SERVES.store(true, Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ARGUMENT) {
        return;
    }
    let request = arguments.next().and_then(|request| serde_json::from_str(request.to_str()?).ok());
    let done = request.ok_or_else(|| io::Error::other("no request")).and_then(|request| serve(&request));
    if let Err(error) = &done {
        // If this fails, there is no way left to report it.
        let _ = writeln!(io::stderr(), "{error}");
    }
    std::process::exit(i32::from(done.is_err()));
}

/// Whether this program can be the child.
pub(super) fn is_served() -> bool {
    SERVES.load(Relaxed)
}

fn serve(request: &Request) -> io::Result<()> {
    limit_self(request.allowance)?;
    let mut bytes = vec![0; request.bytes];
    // If the parent is gone, there are fewer bytes.
    io::stdin().read_exact(&mut bytes)?;
    let mut config = engine::code_config(request.profile);
    let failed = |error: wasmtime::Error| io::Error::other(format!("{error:#}"));
    let functions = match request.functions {
        Some(length) => {
            let mut functions = vec![0; length];
            io::stdin().read_exact(&mut functions)?;
            let functions = Functions::read(&functions);
            config.enable_incremental_compilation(functions.clone()).map_err(failed)?;
            Some(functions)
        }
        None => None,
    };
    let engine = Engine::new(&config).map_err(failed)?;
    if engine::fingerprint(&engine).to_hex().as_str() != request.fingerprint {
        return Err(io::Error::other("this is another version of wfhost: its code would be different"));
    }
    let (kind, mut answer) = match engine.precompile_component(&bytes) {
        Ok(code) => (CODE, code),
        Err(error) if is_out_of_memory(&error) => (NO_MEMORY, Vec::new()),
        Err(error) => (REFUSED, format!("{error:#}").into_bytes()),
    };
    if kind == CODE {
        let used = functions.and_then(|functions| functions.used()).unwrap_or_default();
        answer.extend_from_slice(&used);
        answer.extend_from_slice(&(used.len() as u64).to_le_bytes());
    }
    let mut out = io::stdout().lock();
    out.write_all(&answer)?;
    out.write_all(&[kind])?;
    out.flush()
}

fn is_out_of_memory(error: &wasmtime::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::OutOfMemory)
}

/// Limits this process to its allowance. Nothing that it does can raise the limits again.
#[cfg(target_os = "linux")]
fn limit_self(Allowance { cpu_seconds, memory_bytes }: Allowance) -> io::Result<()> {
    use rustix::process::{Resource, Signal, nice, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let threads = crate::base::processors() as u64;
    // The limit counts memory mapped for writing, not all addresses: allocators reserve more of
    // these than they use.
    limit(Resource::Data, memory_bytes.saturating_add(threads * MEMORY_BYTES_PER_THREAD), 0)?;
    // The soft limit sends a signal of its own; the hard limit ends a process that ignores it.
    limit(Resource::Cpu, cpu_seconds, 1)?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Fsize, 0, 0)?;
    limit(Resource::Nofile, DESCRIPTORS_MAX, 0)?;
    // If the priority cannot be changed, it stays as it is.
    let _ = nice(NICE);
    Ok(())
}

/// Lowers a soft limit to `most`, and the hard limit to `most + more`. A limit that is already
/// lower stays.
#[cfg(target_os = "linux")]
fn limit(resource: rustix::process::Resource, most: u64, more: u64) -> io::Result<()> {
    use rustix::process::{Rlimit, getrlimit, setrlimit};
    let now = getrlimit(resource);
    let lower = |limit: u64, now: Option<u64>| Some(now.map_or(limit, |now| now.min(limit)));
    let maximum = lower(most.saturating_add(more), now.maximum);
    setrlimit(resource, Rlimit { current: lower(most, now.current), maximum })?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn limit_self(_: Allowance) -> io::Result<()> {
    Ok(())
}
