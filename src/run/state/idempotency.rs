//! Idempotency keys: `run/<node path>/<item>/<n>/<spawn tags>/<tag>`.
//!
//! A key names the logical call, so it is made of the parts that stay the same when a node is tried
//! again: the place of its process in the run, and the process's own tag. Pids depend on which
//! process committed first, so none occurs in it.

use crate::process::Tag;
use std::fmt::Write;
use std::sync::Arc;

/// One part of a path.
#[derive(Clone, Debug)]
pub(in crate::run) enum Segment {
    /// The tag of the spawn that made the process.
    Tag(Tag),
    /// The scope that a native process has given instead.
    Scope(Arc<str>),
}

/// The paths of a process's children hang below this node, which is made when it spawns the first.
#[derive(Debug)]
pub(in crate::run) struct Branch {
    above: Option<Arc<Branch>>,
    segment: Option<Segment>,
}

/// The place of a process in its run. A process without children of its own costs no allocation.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct KeyPath {
    above: Option<Arc<Branch>>,
    segment: Option<Segment>,
    below: Option<Arc<Branch>>,
}

impl KeyPath {
    /// The path of a child.
    pub(in crate::run) fn child(&mut self, segment: Segment) -> Self {
        let below = self
            .below
            .get_or_insert_with(|| Arc::new(Branch { above: self.above.clone(), segment: self.segment.clone() }));
        Self { above: Some(Arc::clone(below)), segment: Some(segment), below: None }
    }

    /// The scope that a native process has given for it.
    pub(in crate::run) fn scope(&self) -> Option<Arc<str>> {
        match &self.segment {
            Some(Segment::Scope(scope)) => Some(Arc::clone(scope)),
            _ => None,
        }
    }

    /// The key of a call of the process with this path.
    pub(in crate::run) fn key(&self, run: &str, last: &Segment) -> Arc<str> {
        let mut segments = vec![last];
        segments.extend(&self.segment);
        let mut above = self.above.as_ref();
        while let Some(branch) = above {
            segments.extend(&branch.segment);
            above = branch.above.as_ref();
        }
        let mut key = String::from(run);
        for segment in segments.into_iter().rev() {
            key.push('/');
            match segment {
                Segment::Tag(tag) => write!(key, "{tag}").expect("invariant: a string takes all that is written"),
                Segment::Scope(scope) => key.push_str(scope),
            }
        }
        key.into()
    }
}

impl Drop for Branch {
    // A run can be deeper than a thread's stack: the chain is taken apart in a loop.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut branch) = above.and_then(Arc::into_inner) {
            above = branch.above.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_run_the_scopes_the_spawn_tags_and_the_tag() {
        let mut root = KeyPath::default();
        let mut node = root.child(Segment::Scope("download/3/0".into()));
        let leaf = node.child(Segment::Tag(Tag(7)));
        assert_eq!(&*leaf.key("run-1", &Segment::Tag(Tag(9))), "run-1/download/3/0/7/9");
        assert_eq!(&*root.key("run-1", &Segment::Tag(Tag(2))), "run-1/2");
        assert_eq!(&*root.key("run-1", &Segment::Scope("notify/-/1".into())), "run-1/notify/-/1");
    }

    #[test]
    fn a_deep_chain_is_dropped_without_recursion() {
        let mut place = KeyPath::default();
        for _ in 0..1_000_000 {
            place = place.child(Segment::Tag(Tag(1)));
        }
    }
}
