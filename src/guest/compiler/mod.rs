//! Where components are compiled: in a process of its own, with bounds on its time and memory, or
//! in this one.
//!
//! What the [survey](super::survey) bounds keeps known causes of long compiling out. A compiler has
//! more than are known: so the bytes go to a child, which first takes away from itself what it does
//! not need (time, memory, priority), then compiles, and gives the code back through a pipe. It can
//! be ended at any moment, and takes nothing with it.
//!
//! - **I1** The child has no more than the bytes: no environment, no path, and of this program's
//!   descriptors none but its three pipes.
//! - **I2** What comes back is trusted as far as this program is, and not further: the child is
//!   this very program, or the one that the embedder names. So its code is taken as if it had been
//!   compiled here, and kept like that.
//! - **I3** A child never outlives who waits for it: it is killed where its load ends in another
//!   way, and the kernel kills it where its parent is gone.
//!
//! A program is able to be the child where its `main` begins with [`serve_compiler`]. Where it does
//! not, components are compiled in the process itself, guarded by the survey alone.

mod child;
mod parent;

pub use child::serve_compiler;

use super::engine::{self, EngineOptions};
use super::problem::LoadError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Where components are compiled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Compiler {
    /// In a process of its own where this program calls [`serve_compiler`], and in this process
    /// where it does not.
    #[default]
    Auto,
    /// In this process, where nothing bounds the time and memory that it takes and nothing ends it.
    InProcess,
    /// In a process of that program, whose `main` begins with [`serve_compiler`]: the binary
    /// `wfhost` of this very version is one. What it gives is run as native code, so it must be as
    /// trustworthy as this program.
    Program(PathBuf),
}

impl Compiler {
    /// The program of the child; none where there is no child.
    fn program(&self) -> Option<&Path> {
        match self {
            // It stays this program where another has been put into its place.
            Self::Auto => child::is_served().then_some(Path::new("/proc/self/exe")),
            Self::InProcess => None,
            Self::Program(program) => Some(program),
        }
    }
}

/// Ends loads from another thread. Cloning it gives another handle of the same.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// One that nothing was cancelled with.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the loads that were given it, now and later. A compiler that runs in a process of its
    /// own is killed.
    pub fn cancel(&self) {
        // It carries no data: whoever reads it only stops.
        self.0.store(true, Relaxed);
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Cancels when it is dropped, as a future is that nobody waits for any more.
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
    /// Time of processors, however small the component is. Whole seconds count.
    pub cpu_base: Duration,
    /// The same for each MiB of it.
    pub cpu_per_mib: Duration,
    /// Bytes of memory, however small the component is.
    pub memory_base_bytes: u64,
    /// The same for each MiB of it.
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

/// How many times the time of processors may pass by the clock before the child is taken to be
/// stuck. Arbitrary: others use the machine.
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

/// The code of a component for engines of these options, compiled in a process of its own. None
/// where there is none.
///
/// # Errors
/// It cannot be compiled, or not within its bounds, or is not wanted any more.
pub(crate) fn compile(
    options: &EngineOptions,
    engine: &wasmtime::Engine,
    bytes: &[u8],
    cancellation: &Cancellation,
) -> Result<Option<Vec<u8>>, LoadError> {
    let Some(program) = options.compiler.program() else { return Ok(None) };
    let fingerprint = engine::fingerprint(engine).to_hex().to_string();
    let allowance = options.compile_limits.of(bytes.len());
    let work = parent::Work { program, profile: options.profile, fingerprint, bytes, allowance };
    parent::compile(&work, cancellation).map(Some)
}
