//! The dependencies between nodes, and an order that respects them.

use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::Span;
use std::collections::{BTreeMap, BTreeSet};

/// For each node, the nodes that it depends on, each with the span that states it.
#[derive(Debug)]
pub(super) struct Edges(Vec<BTreeMap<usize, Span>>);

impl Edges {
    pub(super) fn new(nodes: usize) -> Self {
        Self(vec![BTreeMap::new(); nodes])
    }

    /// Adds the dependency of `from` on `to`. The span of the first one is kept.
    pub(super) fn add(&mut self, from: usize, to: usize, span: Span) {
        self.0[from].entry(to).or_insert(span);
    }

    /// The dependencies of a node, ascending.
    pub(super) fn of(&self, node: usize) -> Vec<usize> {
        self.0[node].keys().copied().collect()
    }

    /// An order in which each node follows its dependencies, and otherwise file order. Nodes in or
    /// behind a cycle are left out.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut open: Vec<usize> = self.0.iter().map(BTreeMap::len).collect();
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); self.0.len()];
        for (from, edges) in self.0.iter().enumerate() {
            for to in edges.keys() {
                waiting[*to].push(from);
            }
        }
        let mut ready: BTreeSet<usize> = (0..self.0.len()).filter(|node| open[*node] == 0).collect();
        let mut order = Vec::with_capacity(self.0.len());
        while let Some(node) = ready.pop_first() {
            order.push(node);
            for from in &waiting[node] {
                open[*from] -= 1;
                if open[*from] == 0 {
                    ready.insert(*from);
                }
            }
        }
        order
    }

    /// Reports each cycle once, with the span of every dependency in it. Returns whether there is
    /// none.
    pub(super) fn report_cycles(&self, ids: &[&str], problems: &mut Diagnostics) -> bool {
        let mut left: BTreeSet<usize> = (0..self.0.len()).collect();
        for node in self.order() {
            left.remove(&node);
        }
        let acyclic = left.is_empty();
        while let Some(start) = left.first().copied() {
            // Every remaining node depends on another remaining one, so the walk must return to
            // itself.
            let mut path = vec![start];
            let cycle = loop {
                let last = path[path.len() - 1];
                let next = self.0[last].keys().find(|to| left.contains(to)).copied();
                match next {
                    Some(next) => match path.iter().position(|node| *node == next) {
                        Some(from) => break path.split_off(from),
                        None => path.push(next),
                    },
                    // It depends on a cycle that was reported already.
                    None => break Vec::new(),
                }
            };
            if cycle.is_empty() {
                left.remove(&path[path.len() - 1]);
                continue;
            }
            self.report(&cycle, ids, problems);
            for node in cycle {
                left.remove(&node);
            }
        }
        acyclic
    }

    fn report(&self, cycle: &[usize], ids: &[&str], problems: &mut Diagnostics) {
        let next = |at: usize| cycle[(at + 1) % cycle.len()];
        let names: Vec<_> = cycle.iter().chain([&cycle[0]]).map(|node| ids[*node]).collect();
        let message = format!("these steps wait for each other: {}", names.join(" → "));
        let mut problem = Diagnostic::new("cycle", message, self.0[cycle[0]][&next(0)]);
        for at in 1..cycle.len() {
            let label = format!("`{}` waits for `{}`", ids[cycle[at]], ids[next(at)]);
            problem = problem.related(self.0[cycle[at]][&next(at)], label);
        }
        problems.push(problem.hint("a step starts only when the steps it refers to have ended: break the cycle"));
    }
}
