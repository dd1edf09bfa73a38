//! Workflows: from a YAML file to a process that runs it.
//!
//! The way of a file: [`syntax`] reads the text into a tree in which every part knows its place; [`model`] turns the tree into
//! types and judges each key by itself; [`plan`] judges the whole (references, dependencies, cycles, components) and gives a
//! plan that has no trace of YAML; [`interpreter`] is the process that runs a plan. [`expression`] is jq, which the plan checks and
//! the interpreter evaluates; [`diagnostics`] collects what is wrong and writes it for people.
//!
//! ```no_run
//! use wfhost::workflow::expression::{EngineConfig, Jq};
//! use wfhost::workflow::plan::{Unchecked, load};
//! use wfhost::workflow::syntax::Source;
//!
//! let jq = Jq::new(EngineConfig::default())?;
//! let source = Source::new("hello.yaml", "steps: [{ id: hi, uses: ./hello.wasm, with: { name: Ann } }]");
//! match load(&source, &jq, &Unchecked) {
//!     Ok(plan) => println!("{}", plan.to_json()),
//!     Err(problems) => eprintln!("{problems}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **I1** Every problem of a file is found before anything runs, and all of them are told in one go.
//! - **I2** What a file may be is bounded: its bytes, values, levels, steps, names and expressions; reading it takes time about in
//!   proportion to its size.
//! - **I3** A key that this release does not know, or does not support yet, is refused and never ignored.
//!
//! This room opens no file and loads no component: [`plan::Environment`] asks the host.
pub mod diagnostics;
pub mod expression;
pub mod interpreter;
pub mod model;
pub mod plan;
pub mod syntax;
