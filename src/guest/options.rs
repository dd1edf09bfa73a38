//! The options of an engine.

use super::cache::CodeCache;
use super::compiler::{CompileLimits, Compiler};
use std::path::PathBuf;

/// How linear memories are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// 4 GiB of addresses for each memory, so that no access needs a bounds check.
    #[default]
    Fast,
    /// 64 MiB of addresses for each memory, and explicit bounds checks: for little address space.
    Dense,
}

impl Profile {
    /// The largest size of a memory in this profile, in bytes.
    pub fn memory_bytes_max(self) -> u64 {
        match self {
            Self::Fast => 4 << 30,
            Self::Dense => 64 << 20,
        }
    }
}

/// The options of an engine. The defaults suit a service. For a short run, lower `slots`, since
/// each slot costs an mprotect at the start.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How linear memories are laid out.
    pub profile: Profile,
    /// Guests that can be live at the same time; `None` computes the number from the kernel's
    /// limits.
    pub slots: Option<u32>,
    /// Bytes that guests may take outside the pool, each counted by its limits. A guest lives there
    /// if every slot is held by a waiting guest that cannot be evicted. With 0 no guest does, and
    /// such a newcomer ends with `no-capacity`.
    pub on_demand_bytes: u64,
    /// Bytes that the images of evicted guests may take in memory. A run may hold as much as it
    /// leaves free: alone, half of it.
    pub image_bytes: u64,
    /// An existing folder for images that do not fit into memory; `None` is a host's folder of
    /// runs, if it has one. They are in a file without a name, which vanishes with the engine.
    pub spill_dir: Option<PathBuf>,
    /// Bytes that images may take there, by the same rule.
    pub spill_bytes: u64,
    /// Fuel of one slice; about one unit an instruction.
    pub slice_fuel: u64,
    /// Where compiled code is stored; `None` stores none.
    pub cache_dir: Option<PathBuf>,
    /// Bytes that the stored code may take before the oldest is removed.
    pub cache_bytes_max: u64,
    /// Where components without stored code are compiled.
    pub compiler: Compiler,
    /// What compiling one component may take in a process of its own.
    pub compile_limits: CompileLimits,
    /// The most instances of ended guests, reset to fresh, that may wait for another guest of their
    /// component. They take no slots, and at most 2 MiB of memory each. At most a quarter of the
    /// slots; with 0 every guest gets an instance of its own.
    pub spares: u32,
    /// Whether guests may be evicted from the pool; if not,
    /// [`Body::evict`](crate::process::Body::evict) refuses.
    pub snapshots: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            profile: Profile::Fast,
            slots: None,
            on_demand_bytes: ON_DEMAND_BYTES,
            image_bytes: IMAGE_BYTES,
            spill_dir: None,
            spill_bytes: SPILL_BYTES,
            slice_fuel: SLICE_FUEL,
            cache_dir: CodeCache::default_dir(),
            cache_bytes_max: CACHE_BYTES_MAX,
            compiler: Compiler::default(),
            compile_limits: CompileLimits::default(),
            spares: SPARES,
            snapshots: true,
        }
    }
}

/// Arbitrary: about a millisecond, so that a turn of a hog is short against what people notice and
/// long against a fiber switch.
const SLICE_FUEL: u64 = 1_000_000;

/// Arbitrary: 59 guests with the default limits. It counts what they may take, not what they do
/// take.
const ON_DEMAND_BYTES: u64 = 4 << 30;

/// Arbitrary: many times the workers of most machines, as guests start and end in bursts.
const SPARES: u32 = 32;

/// Arbitrary: some ten thousand evicted Python guests, of which one run may have half.
const IMAGE_BYTES: u64 = 2 << 30;

/// Arbitrary.
const SPILL_BYTES: u64 = 16 << 30;

/// Arbitrary: about 25 compiled JavaScript guests.
const CACHE_BYTES_MAX: u64 = 1 << 30;
