//! Tests with real components, one module per topic.

mod guests;
mod support;
mod workflows;
