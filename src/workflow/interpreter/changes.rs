//! Which parts of a step are not as they were in the run that is repeated.

use super::repeat::Comparison;
use super::taken_over::PriorStep;
use crate::workflow::plan::{Action, Block, Node, Plan, Template};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A step, and the list that it is in.
type InList<'a> = (&'a [Arc<Node>], &'a Node);

/// Pairs of workflows that steps run, and whether they do the same.
#[derive(Default)]
pub(super) struct SameWorkflows {
    pairs: RefCell<BTreeMap<(usize, usize), bool>>,
    /// Whether that is being found out.
    is_deciding: Cell<bool>,
}

impl Comparison<'_> {
    /// The changed keys of a step, of those that its result depends on. A step comes with its list.
    pub(super) fn changed(&self, former: InList<'_>, now: InList<'_>) -> Vec<&'static str> {
        let ids = |(nodes, node): InList<'_>| -> BTreeSet<Arc<str>> {
            node.needs.iter().map(|need| Arc::clone(&nodes[*need].id)).collect()
        };
        let needs = ids(former) != ids(now);
        let (former, node) = (former.1, now.1);
        let mut changed = self.changed_action(&former.action, &node.action);
        let others = [
            ("needs", needs),
            ("when", former.when != node.when),
            ("if", former.condition != node.condition),
            ("for-each", former.for_each != node.for_each),
        ];
        changed.extend(others.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key));
        changed
    }

    fn changed_action(&self, former: &Action, now: &Action) -> Vec<&'static str> {
        let with = |former: &Template, now: &Template| (former != now).then_some("with");
        match (former, now) {
            (
                Action::Uses { component: former, entry: former_entry, with: former_with },
                Action::Uses { component, entry, with: now_with },
            ) => {
                let uses = !self.is_component(former, component);
                let keys = [
                    uses.then_some(now.key()),
                    (former_entry != entry).then_some("entry"),
                    with(former_with, now_with),
                ];
                keys.into_iter().flatten().collect()
            }
            (Action::Call { handler: former, with: former_with }, Action::Call { handler, with: now_with }) => {
                let keys = [(former != handler).then_some("call"), with(former_with, now_with)];
                keys.into_iter().flatten().collect()
            }
            (Action::Steps(former), Action::Steps(block)) | (Action::All(former), Action::All(block))
                if self.is_same_block(former, block) =>
            {
                Vec::new()
            }
            (Action::Switch(former), Action::Switch(cases))
                if former.len() == cases.len()
                    && former.iter().zip(cases).all(|(former, case)| {
                        former.condition == case.condition && self.is_same_block(&former.block, &case.block)
                    }) =>
            {
                Vec::new()
            }
            (Action::Steps(_) | Action::Switch(_) | Action::All(_), now) => vec![now.key()],
            (
                Action::Workflow { workflow: former, with: former_with, .. },
                Action::Workflow { workflow, with: now_with, .. },
            ) => {
                let is_same = self.is_same_workflow((*former, *workflow));
                [(!is_same).then_some(now.key()), with(former_with, now_with)].into_iter().flatten().collect()
            }
            (former, now) if former == now => Vec::new(),
            (_, now) => vec![now.key()],
        }
    }

    /// Returns whether two workflows that steps run do the same. They may run themselves: pairs are
    /// the same until a difference is found.
    fn is_same_workflow(&self, pair: (usize, usize)) -> bool {
        let SameWorkflows { pairs, is_deciding } = &self.same;
        let known = pairs.borrow().get(&pair).copied();
        if known.is_some() || is_deciding.get() {
            return *pairs.borrow_mut().entry(pair).or_insert(true);
        }
        pairs.borrow_mut().insert(pair, true);
        is_deciding.set(true);
        loop {
            let before = pairs.borrow().clone();
            for (&(former, now), _) in before.iter().filter(|(_, is_same)| **is_same) {
                let (former_child, child) = (&self.former.plan.workflows[former], &self.plan.workflows[now]);
                let is_same =
                    former_child.inputs == child.inputs && self.is_same_block(&former_child.block, &child.block);
                pairs.borrow_mut().insert((former, now), is_same);
            }
            if *pairs.borrow() == before {
                break;
            }
        }
        is_deciding.set(false);
        pairs.borrow()[&pair]
    }

    /// Returns whether the steps within a step do the same.
    fn is_same_block(&self, former: &Block, block: &Block) -> bool {
        let ids =
            |block: &Block| -> BTreeSet<Arc<str>> { block.nodes.iter().map(|node| Arc::clone(&node.id)).collect() };
        let is_same = |node: &Arc<Node>| self.is_unchanged(former, block, node);
        former.outputs == block.outputs && ids(former) == ids(block) && block.nodes.iter().all(is_same)
    }

    /// Returns whether a step within a step is as it was.
    fn is_unchanged(&self, former: &Block, block: &Block, node: &Node) -> bool {
        let before = former.nodes.iter().find(|before| before.id == node.id);
        before.is_some_and(|before| self.changed((&former.nodes, before), (&block.nodes, node)).is_empty())
    }

    /// The steps within an item of a step that has changed: those that are as they were, and need
    /// only such, keep their results.
    pub(super) fn within(
        &self,
        former: &Node,
        node: &Node,
        steps: &BTreeMap<String, PriorStep>,
    ) -> BTreeMap<String, PriorStep> {
        let mut kept = BTreeMap::new();
        let inputs = |plan: &'_ Plan, node: &Node| plan.workflow_of(&node.action).map(|child| child.inputs.clone());
        if inputs(&self.former.plan, former) != inputs(self.plan, node) {
            return kept;
        }
        let blocks = self.former.plan.blocks_of(&former.action).zip(self.plan.blocks_of(&node.action));
        for (former, block) in blocks {
            let mut is_kept = vec![false; block.nodes.len()];
            for &index in &block.order {
                let node = &block.nodes[index];
                let Some(before) = former.nodes.iter().find(|before| before.id == node.id) else { continue };
                if !node.needs.iter().all(|need| is_kept[*need]) {
                    continue;
                }
                let changed = self.changed((&former.nodes, before), (&block.nodes, node));
                is_kept[index] = changed.is_empty();
                let Some(prior) = steps.get(&*node.id) else { continue };
                if changed.is_empty() {
                    kept.insert(node.id.to_string(), prior.clone());
                } else if changed == [node.action.key()] && !prior.skipped {
                    let mut prior = prior.clone();
                    prior.open(node.for_each.is_some());
                    prior.within.values_mut().for_each(|steps| *steps = self.within(before, node, steps));
                    kept.insert(node.id.to_string(), prior);
                }
            }
        }
        kept
    }

    /// Returns whether a component is the one that the former run used.
    fn is_component(&self, former: &str, name: &str) -> bool {
        // A script that has only moved within its file is the same.
        let digest = |plan: &Plan, name: &str| {
            let found = plan.components.iter().find(|component| *component.name == *name);
            found.and_then(|found| found.content.clone().or_else(|| found.digest.clone()))
        };
        match (digest(&self.former.plan, former), digest(self.plan, name)) {
            _ if self.substituted && former == name => true,
            (Some(former), Some(now)) => former == now,
            _ => former == name,
        }
    }
}
