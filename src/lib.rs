//! wfhost runs workflows whose steps are sandboxed WebAssembly components.
#![deny(unsafe_code)]

pub mod base;
#[cfg(feature = "wasm")]
pub mod dispatch;
#[cfg(feature = "wasm")]
pub mod guest;
pub mod journal;
pub mod process;
pub mod run;
pub mod scheduler;
pub mod sim;
#[cfg(feature = "wasm")]
pub mod workflow;
