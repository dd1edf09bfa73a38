//! Dispatch: what a process asks of the outside, handed to those who carry it out.

#![allow(dead_code)] // the dispatcher that uses it follows

mod context;
mod handler;
mod problems;
mod registry;
mod schema;

pub use context::CallContext;
pub use handler::{Declaration, Handler, Handling, Rate, arguments, from_fn, from_inline_fn};
pub use problems::kind;
pub use registry::{Registry, RegistryBuilder, RegistryError};
pub use schema::{Schema, SchemaError};
