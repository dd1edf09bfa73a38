//! wfhost runs workflows whose steps are sandboxed WebAssembly components.
#![deny(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

pub mod process;
pub mod run;
pub mod scheduler;
