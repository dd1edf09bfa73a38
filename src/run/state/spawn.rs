//! Children: which processes may have them, what they inherit, and the list of the attached ones.

use super::config::{RunConfig, permit_of};
use super::decide::Asker;
use super::events::RunEvent;
use super::idempotency::Segment;
use super::narrow::Narrow;
use super::outstanding::Pending;
use super::run_state::State;
use super::table::{Birth, Entry, Family};
use crate::process::{Body, Grants, Limits, Permit, Pid, Problem, ProblemClass, Program, Spawn, Tag, problem::kind};
use crate::run::record::kinds::Decision;
use std::sync::Arc;

/// A process that is to be started.
pub(in crate::run) struct Newborn {
    pub(in crate::run) pid: Pid,
    pub(in crate::run) body: Box<dyn Body>,
    pub(in crate::run) program: Arc<dyn Program>,
    pub(in crate::run) permit: Permit,
    /// Its limits and grants, until its entry has them.
    bounds: Option<(Arc<Limits>, Grants)>,
}

impl State {
    pub(in crate::run) fn decide_spawn(
        &mut self,
        config: &RunConfig,
        asker: &mut Asker<'_>,
        spawn: &Spawn,
    ) -> Result<Decision, Box<Problem>> {
        let read = || {
            let narrow = asker.read.as_mut().and_then(|read| read.narrows.pop_front());
            narrow.expect("invariant: what each spawn asks for was read")
        };
        let narrow = spawn.narrow.is_some().then(read);
        self.may_spawn(config, asker.pid, spawn)?;
        let entry = &self.table[asker.pid];
        let program = match &spawn.component {
            None => asker.program,
            Some(name) => config.program(Some(name))?,
        };
        let (limits, grants) =
            inherit(entry, spawn, narrow, |capability, granted, one| config.narrows(capability, granted, one))?;
        let pid = self.next_pid();
        let bounds = (&limits, &grants);
        let body = config.body(program, pid, Tag(1), &spawn.entry, &spawn.input, bounds, is_anonymous(spawn))?;
        let permit = permit_of(&**program, &limits)?;
        let program = Arc::clone(program);
        self.newborn.push_back(Newborn { pid, body, permit, program, bounds: Some((limits, grants)) });
        Ok(Decision::Spawned(pid))
    }

    fn may_spawn(&self, config: &RunConfig, pid: Pid, spawn: &Spawn) -> Result<(), Box<Problem>> {
        let entry = &self.table[pid];
        self.may_carry(pid, &spawn.input)?;
        self.may_wait(pid, spawn.input.size() as u64, 0)?;
        if entry.depth >= entry.limits.spawn_depth {
            return Err(Box::new(
                Problem::new(kind::TOO_DEEP, "Spawned deeper than allowed")
                    .with_detail(format!("The limit is {} below the root.", entry.limits.spawn_depth)),
            ));
        }
        if self.living >= entry.limits.processes {
            return Err(Box::new(
                Problem::new(kind::TOO_MANY_PROCESSES, "More processes in the run than allowed")
                    .with_detail(format!("{} live; the limit is {}.", self.living, entry.limits.processes))
                    .with_class(ProblemClass::Retryable),
            ));
        }
        if spawn.detached && self.result.is_some() {
            return Err(Box::new(Problem::new(kind::SHUTTING_DOWN, "The run is ending: its root has ended")));
        }
        if let Some(name) = &spawn.name {
            self.may_register(config, pid, name)?;
        }
        let ties = entry.watches();
        if spawn.link
            && (ties >= entry.limits.links as usize || self.ties + self.promised.all().ties >= self.bounds.ties)
        {
            return Err(Box::new(
                Problem::new(kind::TOO_MANY_LINKS, "More links and monitors than allowed")
                    .with_detail(format!("The limit is {}.", entry.limits.links)),
            ));
        }
        Ok(())
    }

    /// Returns whether a child of a process can have the limits and grants that a spawn asks for.
    /// (That the grants cover the wanted ones was decided once.)
    pub(in crate::run) fn may_inherit(&self, pid: Pid, spawn: &Spawn) -> bool {
        spawn.narrow.is_none() || self.inherited(pid, spawn).is_ok()
    }

    fn inherited(&self, pid: Pid, spawn: &Spawn) -> Result<(Arc<Limits>, Grants), Box<Problem>> {
        inherit(&self.table[pid], spawn, spawn.narrow.as_ref().map(Narrow::parse), |_, _, _| true)
    }

    pub(in crate::run) fn apply_spawn(&mut self, pid: Pid, tag: Tag, spawn: Spawn, child: Pid) {
        let bytes = spawn.input.size() as u64;
        // A rebuild has no newborn; that the grants cover the wanted ones was decided once.
        let (limits, grants) = match self.newborn.back_mut().and_then(|newborn| newborn.bounds.take()) {
            Some(bounds) => bounds,
            None => {
                self.inherited(pid, &spawn).expect("invariant: a spawn that was granted has limits that its parent has")
            }
        };
        self.make_keys_below(&spawn);
        let Some(parent) = self.table.get_mut(pid) else { return };
        let is_anonymous = is_anonymous(&spawn);
        let segment = match &spawn.placement {
            Some(placement) => Segment::Scope(Arc::clone(&placement.scope)),
            None => Segment::Tag(tag),
        };
        let entry = Entry::new(Birth {
            parent: Some((pid, tag, parent.depth + 1)),
            detached: spawn.detached,
            component: spawn.component.or_else(|| parent.component.clone()),
            entrypoint: spawn.entry,
            limits,
            grants,
            key_path: parent.key_path.child(segment),
            is_anonymous,
        });
        self.report(|| RunEvent::Spawned {
            pid: child,
            parent: Some(pid),
            component: entry.component.clone(),
            entry: Arc::clone(&entry.entrypoint),
            scope: spawn.placement.as_ref().map(|placement| Arc::clone(&placement.scope)),
        });
        if let Some(key) = spawn.placement.as_ref().and_then(|placement| placement.cache.as_ref()) {
            self.caching.enter(pid, tag, key);
        }
        self.wait(pid, tag, Pending::Spawn { child, bytes });
        self.enter(child, entry);
        if !spawn.detached {
            self.attach(pid, child);
        }
        if spawn.link {
            self.tie(pid, tag, child, true);
        }
        if let Some(name) = spawn.name {
            self.name(child, name);
        }
    }

    fn attach(&mut self, parent: Pid, child: Pid) {
        let Some(entry) = self.table.get_mut(parent) else { return };
        entry.family.attached += 1;
        let older = std::mem::replace(&mut entry.family.youngest, child.0);
        if let Some(entry) = self.table.get_mut(child) {
            entry.family.older = older;
        }
        if let Some(entry) = self.table.get_mut(Pid(older)) {
            entry.family.younger = child.0;
        }
    }

    /// Removes a child that is no longer in the table from its parent's list.
    pub(in crate::run) fn detach(&mut self, parent: Pid, family: &Family) {
        if let Some(entry) = self.table.get_mut(Pid(family.older)) {
            entry.family.younger = family.younger;
        }
        if let Some(entry) = self.table.get_mut(Pid(family.younger)) {
            entry.family.older = family.older;
        }
        if let Some(entry) = self.table.get_mut(parent) {
            entry.family.attached -= 1;
            if family.younger == 0 {
                entry.family.youngest = family.older;
            }
        }
    }

    /// The attached children of a process, the youngest first.
    pub(in crate::run) fn attached(&self, parent: &Entry) -> Vec<Pid> {
        let mut children = Vec::with_capacity(parent.family.attached as usize);
        let mut next = Pid(parent.family.youngest);
        while let Some(entry) = self.table.get(next) {
            children.push(next);
            next = Pid(entry.family.older);
        }
        children
    }
}

/// Whether a child is not told who it is: its outcome may stand for that of others.
fn is_anonymous(spawn: &Spawn) -> bool {
    spawn.placement.as_ref().and_then(|placement| placement.cache.as_ref()).is_some_and(|cache| cache.if_pure)
}

/// The limits and grants of a child.
fn inherit(
    parent: &Entry,
    spawn: &Spawn,
    narrow: Option<Result<Narrow, Problem>>,
    covers: impl Fn(&str, &[String], &str) -> bool,
) -> Result<(Arc<Limits>, Grants), Box<Problem>> {
    let placement = spawn.placement.as_deref();
    let limits = placement.and_then(|placement| placement.limits.as_ref()).unwrap_or(&parent.limits);
    let grants = placement.and_then(|placement| placement.grants.as_ref()).unwrap_or(&parent.grants);
    match narrow {
        None => Ok((Arc::clone(limits), grants.clone())),
        Some(narrow) => narrow.and_then(|narrow| narrow.within(limits, grants, covers)).map_err(Box::new),
    }
}
