//! The limits of the expression engine.

/// Warm instances on a machine of few processors: the filters of some large workflows. With more
/// filters in turn, each is compiled anew each time. Arbitrary: at most 64 MiB.
const WARM_INSTANCES: usize = 16;

/// The limits of the engine. The defaults suit a host that runs untrusted workflows.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Most warm instances kept between calls, 0.3 to 4 MiB each. Each has compiled at most 256
    /// filters.
    pub warm_instances_max: usize,
    /// Units of fuel for a call, regardless of its input.
    pub fuel_base: u64,
    /// Units of fuel added for each byte of input.
    pub fuel_per_byte: u64,
    /// Most units of fuel for a call, however large its input, and for all calls of one
    /// [`Meter`](super::Meter) together.
    pub fuel_max: u64,
    /// Bytes of memory for a call, regardless of its input.
    pub memory_base_bytes: usize,
    /// Bytes of memory added for each byte of input.
    pub memory_per_byte: usize,
    /// Most bytes of memory for a call, however large its input.
    pub memory_max_bytes: usize,
    /// Most outputs of a call.
    pub outputs_max: u32,
    /// Most bytes of all outputs of a call together.
    pub output_bytes_max: u32,
}

impl Default for EngineConfig {
    // Measured on lists of objects, in units of fuel per byte of input: reading takes 260, writing
    // 280, sorting, grouping or indexing 600, changing a string in each 100 bytes 1,700 to 2,000,
    // changing all members by `with_entries` and `|=` more than 3,000. A list of one-digit numbers
    // takes 60 bytes of memory per byte of input, and as much again for a second one. A million
    // units take a seventh of a millisecond. The upper bounds are arbitrary: more than a second is
    // too long to hold a worker.
    fn default() -> Self {
        Self {
            warm_instances_max: crate::base::processors().max(WARM_INSTANCES),
            fuel_base: 50_000_000,
            fuel_per_byte: 5_000,
            fuel_max: 10_000_000_000,
            memory_base_bytes: 16 << 20,
            memory_per_byte: 128,
            memory_max_bytes: 1 << 30,
            outputs_max: 10_000,
            output_bytes_max: 16 << 20,
        }
    }
}
