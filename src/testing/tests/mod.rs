//! Drawn workflows, executed.

mod drawn_retries;
mod drawn_workflows;
