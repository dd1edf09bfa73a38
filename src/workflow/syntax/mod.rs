//! Reading a YAML file into a tree in which every part knows its place.
//!
//! `saphyr-parser` gives marked events; [`parse`] builds the tree from them and refuses what a workflow file has no use for
//! (tags, several documents, keys that are not strings) or what would hurt (duplicate keys, aliases that multiply).
//! Plain values without places are read by [`read_value`] (`serde_yaml`).
//!
//! - **I1** A tree has at most [`NODES_MAX`] nodes, [`TEXT_BYTES_MAX`] bytes of text and [`DEPTH_MAX`] levels, aliases counted
//!   as often as they are used.
//! - **I2** A mapping of a tree has each key once.
//! - **I3** Every span lies within its source, on character borders.
//!
//! *Rejected*: `serde_yaml` for the model too. It stops at the first error and gives no place for values.

mod hints;
mod node;
mod plain;
mod reader;
mod scalar;
mod source;
#[cfg(test)]
mod tests;

pub use node::{Content, Entry, Node, Scalar, Style};
pub use plain::read_value;
pub use reader::parse;
pub(crate) use scalar::ScalarOffsets;
pub use source::{Position, SOURCE_BYTES_MAX, Source, Span};

/// Nodes of a tree. Arbitrary: a file of the largest size has fewer unless it uses aliases.
pub const NODES_MAX: usize = 100_000;
/// Bytes of text of a tree, aliases counted as often as they are used. Arbitrary.
pub const TEXT_BYTES_MAX: usize = 4 << 20;
/// Levels of a tree: half of what JSON may have, since expressions and results are put around it.
pub const DEPTH_MAX: usize = 64;
/// Bytes of an input file. Arbitrary; what a payload may hold is checked later.
pub const VALUE_BYTES_MAX: usize = 16 << 20;
