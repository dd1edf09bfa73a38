//! Workflows that are written in Rust.
//!
//! A [`Definition`] collects the keys of a workflow file and renders them as its text. The text
//! goes the way of every file: the same reader, checks and planner, so the plan, its digest, the
//! problems, recovery and retries are those of the file. `Host::load_definition` loads it.
//!
//! Each key of the language is a method; docs/workflows.md says what a key means. What a [`Step`]
//! does is chosen by the function that makes it, so a step has exactly one action. Values are
//! anything that serialises, and are literals: [`expr`] and [`template`] make expressions.
//!
//! ```
//! use serde_json::json;
//! use wfhost::workflow::builder::{Definition, Input, Step, expr};
//!
//! let definition = Definition::new("greeting")
//!     .input("name", Input::string())
//!     .step("greet", Step::set(json!({ "for": expr(".inputs.name"), "price": "5 ${}" })))
//!     .output("greeting", expr(".steps.greet.output"));
//! assert_eq!(
//!     definition.to_string(),
//!     "\
//! name: greeting
//! inputs:
//!   name:
//!     type: string
//! steps:
//!   - id: greet
//!     set:
//!       for: ${ .inputs.name }
//!       price: 5 $${}
//! outputs:
//!   greeting: ${ .steps.greet.output }
//! "
//! );
//! ```
//!
//! - **I1** A literal stays a literal, whatever it holds: only what [`expr`] and [`template`] made
//!   is evaluated.
//! - **I2** Equal definitions render to equal texts: keys are in the order in which they were
//!   given.
//! - **I3** Nothing is checked here: what a file reports is reported of a definition, a key that is
//!   given twice too.
//!
//! *Rejected*: making the plan directly. Each check would need a second place for its problems, and
//! a run would have no text to be shown, stored and compared.
mod definition;
mod rendering;
mod schema;
mod settings;
mod step;
#[cfg(test)]
mod tests;
mod tree;
mod value;
mod wait;

pub use definition::Definition;
pub use schema::Input;
pub use settings::{CallBounds, Component, Concurrency, Limits, Schedule, Secret};
pub use step::{Cache, Case, Lines, Repeat, Retry, Step};
pub use value::{Expr, Interval, Text, expr, template};
pub use wait::{Several, Signal, Wait};

// What the keys with a choice of words take.
pub use crate::run::OnLimit;
pub use crate::workflow::model::schema::{Format, Type};
pub use crate::workflow::model::{Durability, ScriptLanguage, When};
pub use crate::workflow::schedule::{CatchUp, FoldRule, GapRule, Overlap};
