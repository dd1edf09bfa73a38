//! wfhost runs workflows whose steps are sandboxed WebAssembly components.
#![deny(unsafe_code)]

pub mod base;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "wasm")]
pub mod dispatch;
#[cfg(feature = "wasm")]
pub mod guest;
#[cfg(feature = "wasm")]
pub mod host;
pub mod journal;
pub mod process;
pub mod run;
pub mod scheduler;
pub mod sim;
#[cfg(feature = "wasm")]
pub mod workflow;
