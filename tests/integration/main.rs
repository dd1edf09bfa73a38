//! Tests with real components, one module per topic.

mod blobs;
mod bounded;
mod cached;
mod cat_program;
mod charged;
mod constructs;
#[cfg(feature = "serve")]
mod embedding;
mod evictions;
mod expressions;
mod guests;
mod http;
mod process_init;
mod saving;
mod spares;
mod support;
mod wasi;
mod wat_guest;
mod workflows;
