//! Which parts of its context an expression reads, found in its syntax tree.

use std::ops::Range;

/// A part of the context that an expression reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The keys that lead to it from the root: `["steps", "download", "output"]`. Everything below the last key may be read.
    pub path: Vec<String>,
    /// Where in the text of the expression, in bytes: the first place, if there are several.
    pub span: Range<usize>,
}

/// What an expression reads of its context.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum References {
    /// These parts and no others. No path is the beginning of another one; a literal has none.
    Paths(Vec<Reference>),
    /// The context as a whole (`.`, `keys`, `..`), so what it needs is not known: it must be declared. The span is the place.
    Everything(Range<usize>),
    /// The host's parser does not know what this is, and says why. It is most likely an error to jq too.
    NotInferable {
        /// What is wrong.
        message: String,
        /// Where, in bytes.
        span: Range<usize>,
    },
}

pub(super) fn infer(_text: &str) -> References {
    todo!()
}
