//! Reads a YAML file into a tree in which every part has its span.
//!
//! `saphyr-parser` gives events with positions; [`parse`] builds the tree from them and refuses
//! what a workflow file has no use for (tags, several documents, keys that are not strings) or what
//! would do harm (duplicate keys, aliases that multiply). Plain values without positions are read
//! by [`read_value`] (`serde_yaml`).
//!
//! - **I1** A tree has at most [`NODES_MAX`] nodes, [`TEXT_BYTES_MAX`] bytes of text and
//!   [`DEPTH_MAX`] levels; an alias counts each time it is used.
//! - **I2** A mapping of a tree has each key once.
//! - **I3** Every span lies within its source, on character boundaries.
//!
//! *Rejected*: `serde_yaml` for the model too. It stops at the first error and gives no positions
//! of values.

mod hints;
mod node;
mod plain;
mod reader;
mod scalar;
#[cfg(test)]
mod tests;

pub use super::source::{Position, SOURCE_BYTES_MAX, Source, Span};
pub use node::{Content, Entry, Node, Scalar, Style};
pub use plain::read_value;
pub use reader::parse;
pub(crate) use scalar::ScalarOffsets;

/// Most nodes of a tree. Arbitrary: a file of the largest size has fewer unless it uses aliases.
pub const NODES_MAX: usize = 100_000;
/// Most bytes of text of a tree; an alias counts each time it is used. Arbitrary.
pub const TEXT_BYTES_MAX: usize = 4 << 20;
/// Most levels of a tree: half of what JSON may have, since its values are put into others.
pub const DEPTH_MAX: usize = 64;
/// Most bytes of an input file. Arbitrary; the limit of a payload is checked later.
pub const VALUE_BYTES_MAX: usize = 16 << 20;
