//! The heap that a guest has from the start.
//!
//! Rust's allocator grows the memory at the first allocation. If that happens during instantiation,
//! every fresh instance has the grown memory, and a guest that needs no more never grows it. So the
//! host can reset its instance for the next guest without asking the operating system for anything.

/// Bytes allocated at the start. Most guests never need more.
const BYTES: usize = 120 << 10;

/// Called once, while the component is instantiated.
#[unsafe(export_name = "_initialize")]
extern "C" fn initialize() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BYTES)));
}
