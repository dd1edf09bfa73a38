//! The heap, which a guest has from its first moment on.
//!
//! Rust's allocator grows the memory when it is first asked for something. Where that happens while the guest is instantiated, every
//! instance begins with the grown memory, and a guest that needs no more never grows it: so the host can make its instance a fresh one
//! again for the next guest, and need not ask the operating system for anything.

/// Bytes that are there from the beginning. Most guests never need more.
const BYTES: usize = 120 << 10;

/// Called once, while the component is instantiated.
#[unsafe(export_name = "_initialize")]
extern "C" fn initialize() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BYTES)));
}
