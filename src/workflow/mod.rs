//! Workflows: from a YAML file to a process that runs it.
//!
//! The way of a file: [`syntax`] reads the text into a tree in which every part has its span;
//! [`model`] turns the tree into types and checks each key by itself; [`plan`] checks the whole
//! (references, dependencies, cycles, components) and makes a plan without a trace of YAML;
//! [`interpreter`] is the process that runs a plan. [`expression`] is jq, which the plan checks and
//! the interpreter evaluates; [`diagnostics`] collects the problems and writes them for people.
//! [`builder`] makes the text of a file for workflows that are written in Rust.
//!
//! In this room a *step* is an item of the user's `steps:`, and a *node* is a step of the plan. A
//! step of the interpreter is, as in all other rooms, one call of its `step`.
//!
//! ```no_run
//! use wfhost::workflow::expression::{EngineConfig, Jq};
//! use wfhost::workflow::plan::{Unchecked, load};
//! use wfhost::workflow::syntax::Source;
//!
//! let jq = Jq::new(EngineConfig::default())?;
//! let text = "steps: [{ id: hi, uses: ./hello.wasm, with: { name: Ann } }]";
//! let source = Source::new("hello.yaml", text);
//! match load(&source, &jq, &Unchecked) {
//!     Ok(plan) => println!("{}", plan.to_json()),
//!     Err(problems) => eprintln!("{problems}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **I1** Every problem of a file is found before anything runs, and all are reported at once.
//! - **I2** A file is bounded in its bytes, values, levels, steps, names and expressions; the time
//!   to read it is about proportional to its size.
//! - **I3** A key that this release does not know, or does not support yet, is refused, never
//!   ignored.
//!
//! This room opens no file and loads no component: it asks the host through [`plan::Environment`].
pub mod builder;
pub mod diagnostics;
pub mod expression;
#[cfg(feature = "cli")]
pub(crate) mod format;
pub mod interpreter;
pub mod model;
pub mod plan;
pub mod schedule;
mod source;
pub mod syntax;
