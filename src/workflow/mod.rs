//! Workflows: from a YAML file to a process that runs it.
pub mod diagnostics;
pub mod expression;
pub mod interpreter;
pub mod model;
pub mod plan;
pub mod syntax;
