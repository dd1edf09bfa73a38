//! Where components are compiled: in a process of its own, with bounds on its time and memory, or
//! in this one.
//!
//! The bounds of the [survey](super::survey) exclude the known causes of long compiling. A compiler
//! has more causes than are known, so the bytes go to a child. The child first limits itself (time,
//! memory, priority), then compiles, and returns the code through a pipe. It can be killed at any
//! moment without harm.
//!
//! - **I1** The child has no more than the bytes: no environment, no path, and of this program's
//!   descriptors only its three pipes.
//! - **I2** The child's answer is trusted as far as this program is, and no further: the child is
//!   this very program, or the one that the embedder names. So its code is treated, and stored, as
//!   if it had been compiled here.
//! - **I3** A child never outlives the thread that waits for it: it is killed if its load ends in
//!   another way, and the kernel kills it if its parent is gone.
//!
//! A program can be the child if its `main` begins with [`serve_compiler`]. If it does not,
//! components are compiled in the process itself, guarded by the survey alone.

mod child;
mod functions;
mod parent;

pub use child::serve_compiler;

use super::cache::CodeCache;
use super::engine;
use super::options::EngineOptions;
use super::problem::LoadError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Where components are compiled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Compiler {
    /// In a process of its own if this program calls [`serve_compiler`], otherwise in this process.
    #[default]
    Auto,
    /// In this process, where nothing bounds the time and memory that compiling takes, and nothing
    /// can stop it.
    InProcess,
    /// In a process of that program, whose `main` begins with [`serve_compiler`]: the binary
    /// `wfhost` of this very version is one. Its answer is run as native code, so it must be as
    /// trustworthy as this program.
    Program(PathBuf),
}

impl Compiler {
    /// The program of the child; `None` if there is no child.
    fn program(&self) -> Option<&Path> {
        match self {
            // It names this program even after another has been put in its place on disk.
            Self::Auto => child::is_served().then_some(Path::new("/proc/self/exe")),
            Self::InProcess => None,
            Self::Program(program) => Some(program),
        }
    }
}

/// Cancels loads from another thread. A clone is another handle of the same cancellation.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Makes one that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the loads that were given this, now and later. A compiler that runs in a process of
    /// its own is killed.
    pub fn cancel(&self) {
        // It carries no data: its readers only stop.
        self.0.store(true, Relaxed);
    }

    /// Returns whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Returns a guard that cancels when it is dropped, as a future is when its caller stops
    /// waiting.
    #[must_use]
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// Cancels when it is dropped.
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What compiling a component may take in a process of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileLimits {
    /// Processor time for any component, however small. Rounded down to seconds.
    pub cpu_base: Duration,
    /// Additional processor time for each MiB of the component.
    pub cpu_per_mib: Duration,
    /// Bytes of memory for any component, however small.
    pub memory_base_bytes: u64,
    /// Additional bytes of memory for each MiB of the component.
    pub memory_per_mib_bytes: u64,
}

impl Default for CompileLimits {
    // Measured on two busy processors: 12 MiB of JavaScript take 21 s and 410 MiB, 18 MiB of Python
    // 16 s and 400 MiB. The rest is room for slower machines, and for those with more processors,
    // each of which compiles a function at a time.
    fn default() -> Self {
        Self {
            cpu_base: Duration::from_secs(20),
            cpu_per_mib: Duration::from_secs(10),
            memory_base_bytes: 1 << 30,
            memory_per_mib_bytes: 64 << 20,
        }
    }
}

/// What compiling one component may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
struct Allowance {
    cpu_seconds: u64,
    memory_bytes: u64,
}

/// Elapsed time, as a multiple of the processor time, after which the child counts as stuck.
/// Arbitrary: other processes use the machine.
const WALL_PER_CPU: u64 = 20;

impl CompileLimits {
    fn of(&self, bytes: usize) -> Allowance {
        let mib = (bytes as u64).div_ceil(1 << 20);
        let cpu = self.cpu_base.as_secs().saturating_add(self.cpu_per_mib.as_secs().saturating_mul(mib));
        let memory = self.memory_base_bytes.saturating_add(self.memory_per_mib_bytes.saturating_mul(mib));
        Allowance { cpu_seconds: cpu.max(1), memory_bytes: memory }
    }
}

impl Allowance {
    fn wall(self) -> Duration {
        Duration::from_secs(self.cpu_seconds.saturating_mul(WALL_PER_CPU))
    }
}

/// Compiles a component for engines of these options in a process of its own. `None` if there is no
/// such process. Functions that `cache` has of another component of its family are not compiled
/// again.
///
/// # Errors
/// Fails if it cannot be compiled, exceeds its bounds, or was cancelled.
pub(crate) fn compile(
    options: &EngineOptions,
    engine: &wasmtime::Engine,
    cache: &CodeCache,
    bytes: &[u8],
    cancellation: &Cancellation,
) -> Result<Option<Vec<u8>>, LoadError> {
    let Some(program) = options.compiler.program() else { return Ok(None) };
    let fingerprint = engine::fingerprint(engine).to_hex().to_string();
    let mut allowance = options.compile_limits.of(bytes.len());
    let family = cache.dir().ok().and_then(|_| functions::family(bytes));
    let functions = family.and_then(|family| cache.functions(engine, &family)).unwrap_or_default();
    if family.is_some() {
        // As read, and as written.
        allowance.memory_bytes = allowance.memory_bytes.saturating_add(2 * functions::FUNCTIONS_BYTES_MAX as u64);
    }
    let job = parent::CompileJob {
        program,
        profile: options.profile,
        fingerprint,
        bytes,
        functions: family.map(|_| functions.as_slice()),
        allowance,
    };
    let compiled = parent::compile(&job, cancellation)?;
    if let Some(family) = family
        && !compiled.functions.is_empty()
    {
        cache.store_functions(engine, &family, &compiled.functions);
    }
    Ok(Some(compiled.code))
}
