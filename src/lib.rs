//! wfhost runs workflows that survive crashes. A step is an HTTP call, a wait, a value, or a
//! sandboxed WebAssembly component.
//!
//! A [`Host`](host::Host) owns workers, handlers and compiled components; a program may have
//! several. A workflow is loaded from a file, from text, or from a definition in Rust, and run any
//! number of times:
//!
#![cfg_attr(feature = "wasm", doc = "```")]
#![cfg_attr(not(feature = "wasm"), doc = "```ignore")]
//! use serde_json::{Map, json};
//! use wfhost::{dispatch::{Declaration, from_inline_fn}, host::Host};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What a workflow can call beside `http`, `kv` and `log`.
//! let shout = from_inline_fn(Declaration::new("Adds emphasis"), |args, _| Ok(args));
//! let host = Host::builder().workers(2).handler("shout", shout).build()?;
//!
//! let text = r#"
//! inputs: { name: string }
//! steps:
//!   - { id: greet, uses: ./hello.wasm, with: { name: "${ .inputs.name }" } }
//!   - { id: shout, call: shout, with: "${ .steps.greet.output.greeting }" }
//! outputs: { greeting: "${ .steps.shout.output }" }
//! "#;
//! let components = concat!(env!("CARGO_MANIFEST_DIR"), "/guests/built");
//! let workflow = host.parse("greet.yaml", text, components)?;
//! let outcome = host.run(&workflow, Map::from_iter([("name".to_owned(), json!("Ann"))])).await?;
//! assert_eq!(outcome.outputs(), Some(json!({ "greeting": "Hello, Ann!" })));
//! host.shutdown(std::time::Duration::from_secs(10)).await;
//! # Ok(())
//! # }
//! ```
//!
//! `docs/embedding.md` has handlers, durable runs and what else a service needs.
#![deny(unsafe_code)]

/// The Rust in the documents is compiled.
#[cfg(all(doctest, feature = "wasm"))]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/embedding.md")]
    struct Embedding;
    #[doc = include_str!("../docs/testing.md")]
    struct Testing;
}

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
#[cfg(feature = "wasm")]
pub mod oci;
pub mod process;
pub mod run;
pub mod scheduler;
#[cfg(feature = "serve")]
pub mod serve;
pub mod sim;
#[cfg(feature = "wasm")]
pub mod testing;
#[cfg(feature = "wasm")]
pub mod workflow;
