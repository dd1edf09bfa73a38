//! Names: the first process to commit a name has it, until that process ends.

use super::config::RunConfig;
use super::run_state::State;
use crate::process::{Answer, Payload, Pid, Problem, ProblemClass, Tag, problem::kind};
use crate::run::record::kinds::Decision;
use std::sync::Arc;

impl State {
    /// Checks that a name is free, and that the process may register it.
    pub(in crate::run) fn may_register(&self, config: &RunConfig, pid: Pid, name: &str) -> Result<(), Box<Problem>> {
        self.may_take_signal(config, pid, name)?;
        let weight = self.weight_of_name(name);
        match self.names.get(name) {
            None if self.has_room(weight) => Ok(()),
            None => Err(Box::new(
                Problem::new(kind::TOO_MANY_LINKS, "There is no room for another name of the run")
                    .with_detail(self.no_room(weight))
                    .with_class(ProblemClass::Retryable),
            )),
            Some(pid) => Err(Box::new(
                Problem::new(kind::NAME_TAKEN, "Another process has that name")
                    .with_detail(format!("Process {pid} has the name {name:?}.")),
            )),
        }
    }

    pub(in crate::run) fn decide_register(
        &self,
        config: &RunConfig,
        pid: Pid,
        name: &str,
    ) -> Result<Decision, Box<Problem>> {
        self.may_register(config, pid, name)?;
        let entry = &self.table[pid];
        if entry.names().len() >= entry.limits.links as usize {
            return Err(Box::new(
                Problem::new(kind::TOO_MANY_LINKS, "More names than allowed")
                    .with_detail(format!("The limit is {}.", entry.limits.links)),
            ));
        }
        Ok(Decision::Answered(Ok(Payload::NULL)))
    }

    pub(in crate::run) fn apply_register(&mut self, pid: Pid, tag: Tag, name: Arc<str>, answer: Answer) {
        let granted = answer.is_ok();
        self.post_answer(pid, tag, answer);
        if granted {
            self.name(pid, name);
        }
    }

    /// Gives a free name to a process, which then gets the signals that were sent to the name
    /// before.
    pub(in crate::run) fn name(&mut self, pid: Pid, name: Arc<str>) {
        self.bytes += self.weight_of_name(&name);
        self.names.insert(Arc::clone(&name), pid);
        if let Some(entry) = self.table.get_mut(pid) {
            entry.ties_mut().names.push(Arc::clone(&name));
        }
        self.report(|| super::events::RunEvent::Named { pid, name: Arc::clone(&name) });
        self.deliver_signals(pid, &name);
    }
}
