//! Decides and applies a step's commands: each is decided once, against the state that the commands
//! before it have left, and applied.
//!
//! Deciding reads the state and changes nothing; applying changes the state by the decision alone.
//! A rebuild takes the decision from the record and only applies it.
//!
//! A command beyond the process's bounds is answered with a problem if it has an answer. If it has
//! none (`monitor`, `link`, `expose`, the status), or if the whole output violates the contract,
//! the process fails and none of its commands happens: [`check`]. An output that is given in parts
//! is checked with the first of them.

use super::config::RunConfig;
use super::kv;
use super::links::Tie;
use super::narrow::Narrow;
use super::run_state::{Moment, State};
use super::table::Entry;
use crate::process::{
    Action, Blob, Command, Ending, Limits, NUMBER_MAX, Output, Owed, Payload, Pid, Problem, ProblemClass, Program,
    Status, Tag, Target, problem::kind,
};
use crate::run::record::kinds::Decision;
use std::collections::VecDeque;
use std::sync::Arc;

/// The longest name of anything. Arbitrary.
pub(in crate::run) const NAME_BYTES_MAX: usize = 1_024;

/// The process whose commands are decided.
pub(in crate::run) struct Asker<'a> {
    pub(in crate::run) pid: Pid,
    pub(in crate::run) program: &'a Arc<dyn Program>,
    pub(in crate::run) read: Option<Read>,
    /// Bytes that `kv` has answered to commands of the step.
    pub(in crate::run) kv_bytes: u64,
}

/// The parts of a step's commands that are read before the lock is taken, since they may be long.
#[derive(Default)]
pub(in crate::run) struct Read {
    /// The arguments of the calls of `kv`, in order.
    pub(in crate::run) kv: VecDeque<Result<kv::Arguments, Problem>>,
    /// The narrowing that spawns ask for, in order.
    pub(in crate::run) narrows: VecDeque<Result<Narrow, Problem>>,
}

impl Read {
    /// `None` if there is nothing to read in the commands.
    pub(in crate::run) fn of(commands: &[Command]) -> Option<Self> {
        let mut read: Option<Self> = None;
        for command in commands {
            match &command.action {
                Action::Call(call) if &*call.handler == kv::NAME => {
                    read.get_or_insert_default().kv.push_back(kv::Arguments::parse(&call.args));
                }
                Action::Spawn(spawn) => {
                    if let Some(narrow) = &spawn.narrow {
                        read.get_or_insert_default().narrows.push_back(Narrow::parse(narrow));
                    }
                }
                _ => {}
            }
        }
        read
    }
}

#[cold]
pub(in crate::run) fn too_large(what: &str, bytes: u64, limit: u64) -> Problem {
    Problem::new(kind::TOO_LARGE, "Something is larger than allowed")
        .with_detail(format!("{what} has {bytes} bytes; the limit is {limit}."))
}

/// Checks that a step's output as a whole is within the contract and the process's limits. `owed`
/// is the part still to be given; `bytes` is the size of the output in the record. Whatever was
/// checked with an earlier part is granted.
///
/// # Errors
/// The problem that the process fails with.
pub(in crate::run) fn check(
    state: &State,
    (pid, entry): (Pid, &Entry),
    status: &Status,
    output: &Output,
    owed: Option<Owed<'_>>,
    bytes: usize,
) -> Result<(), Box<Problem>> {
    if state.promised.covers(pid) {
        return Ok(());
    }
    let Output { commands, fuel, .. } = output;
    let (further, status) = owed.map_or((&[][..], status), |owed| (owed.commands, owed.status));
    let count = commands.len() + further.len();
    let limits = &*entry.limits;
    let bytes = bytes as u64;
    let fuel_max = limits.fuel_total.saturating_sub(entry.fuel);
    if *fuel > fuel_max || count > limits.commands_per_step as usize || bytes > limits.output_bytes {
        return Err(Box::new(too_much(limits, *fuel > fuel_max, count, bytes)));
    }
    check_status(status, limits)?;
    if count == 0 { Ok(()) } else { check_commands(state, entry, commands.iter().chain(further)) }
}

/// Why a step gave too much: it used too much fuel, or gave too many commands, or too many bytes.
#[cold]
fn too_much(limits: &Limits, fuel: bool, count: usize, bytes: u64) -> Problem {
    if fuel {
        Problem::new(kind::FUEL_EXHAUSTED, "The process used more fuel than it may")
            .with_detail(format!("Its steps may use {} together.", limits.fuel_total))
    } else if count > limits.commands_per_step as usize {
        Problem::new(kind::TOO_MANY_COMMANDS, "A step gave more commands than it may")
            .with_detail(format!("It gave {count}; the limit is {}.", limits.commands_per_step))
    } else {
        too_large("The output of a step", bytes, limits.output_bytes)
    }
}

#[inline]
fn check_status(status: &Status, limits: &Limits) -> Result<(), Box<Problem>> {
    let payload = match status {
        Status::Complete(output) => output,
        Status::Renew { entry, input } => {
            check_name("An entry point", entry)?;
            input
        }
        _ => return Ok(()),
    };
    check_payload(payload, limits)
}

#[inline]
fn check_payload(payload: &Payload, limits: &Limits) -> Result<(), Box<Problem>> {
    let bytes = payload.size() as u64;
    if bytes > limits.payload_bytes {
        return Err(Box::new(too_large("A payload", bytes, limits.payload_bytes)));
    }
    match payload {
        Payload::Blob(blob) if !Blob::is_digest(&blob.digest) => Err(Box::new(no_blob())),
        // Whether the run holds it is checked whenever it is read: a handle alone is only text.
        _ => Ok(()),
    }
}

#[cold]
fn no_blob() -> Problem {
    let detail = "The digest of a blob is `blake3:` and 64 hexadecimal digits.";
    Problem::new(kind::BAD_BLOB, "The run was given no such blob").with_detail(detail)
}

#[inline]
fn check_name(what: &str, name: &str) -> Result<(), Box<Problem>> {
    if name.len() <= NAME_BYTES_MAX { Ok(()) } else { Err(Box::new(too_long(what, name))) }
}

#[cold]
fn too_long(what: &str, name: &str) -> Problem {
    Problem::new(kind::TOO_LARGE, "A name is longer than allowed")
        .with_detail(format!("{what} has {} bytes; the limit is {NAME_BYTES_MAX}.", name.len()))
}

#[inline]
fn check_number(what: &str, number: u64) -> Result<(), Box<Problem>> {
    if number < NUMBER_MAX { Ok(()) } else { Err(Box::new(bad_number(what, number))) }
}

#[cold]
fn bad_number(what: &str, number: u64) -> Problem {
    Problem::new(kind::BAD_NUMBER, "A number is too large")
        .with_detail(format!("{what} is {number}; the contract's numbers are below 2^53."))
}

fn check_commands<'a>(
    state: &State,
    entry: &Entry,
    commands: impl Iterator<Item = &'a Command>,
) -> Result<(), Box<Problem>> {
    let limits = &*entry.limits;
    let mut last = entry.last_tag;
    let mut ties = 0;
    let (mut exposed, mut exposed_bytes) = (0, 0);
    for Command { tag, action } in commands {
        check_number("A tag", tag.0)?;
        if *tag <= last {
            return Err(Box::new(
                Problem::new(kind::BAD_TAG, "A tag is not greater than the one before")
                    .with_detail(format!("Tag {tag} came after {last}.")),
            ));
        }
        last = *tag;
        match action {
            Action::Sleep(duration) => check_number("A duration", duration.0)?,
            Action::Spawn(spawn) => {
                check_name("An entry point", &spawn.entry)?;
                spawn.component.iter().try_for_each(|name| check_name("A component's name", name))?;
                spawn.name.iter().try_for_each(|name| check_name("A name", name))?;
            }
            Action::Call(call) => {
                check_name("A handler's name", &call.handler)?;
                call.timeout.iter().try_for_each(|timeout| check_number("A timeout", timeout.0))?;
                call.idempotency_key.iter().try_for_each(|key| check_name("An idempotency key", key))?;
            }
            Action::Send(send) => {
                check_name("A topic", &send.message.topic)?;
                check_target(&send.to)?;
            }
            Action::Cancel(_) => {}
            Action::Monitor(target) | Action::Link(target) => {
                check_target(target)?;
                ties += 1;
            }
            Action::Stop(target) | Action::Unlink(target) => check_target(target)?,
            Action::Register(name) => check_name("A name", name)?,
            Action::Expose { query, value } => {
                check_name("A query's name", query)?;
                check_payload(value, limits)?;
                exposed += u64::from(!state.exposed.contains_key(query));
                exposed_bytes += value.size() as u64;
            }
        }
    }
    check_exposed(state, exposed, exposed_bytes)?;
    check_ties(state, entry, ties)
}

/// A query that is set twice in a step, or set anew, counts as if it stayed beside the value that
/// was there.
fn check_exposed(state: &State, new: u64, new_bytes: u64) -> Result<(), Box<Problem>> {
    if new == 0 && new_bytes == 0 {
        return Ok(());
    }
    let promised = state.promised.all();
    let all = state.exposed.len() as u64 + promised.exposed + new;
    let bytes = state.exposed_bytes + promised.exposed_bytes + new_bytes;
    if all > state.bounds.exposed || bytes > state.bounds.exposed_bytes {
        return Err(Box::new(Problem::new(kind::TOO_LARGE, "The run exposes too much").with_detail(format!(
            "{all} queries of {bytes} bytes; the run may have {} of {}.",
            state.bounds.exposed, state.bounds.exposed_bytes
        ))));
    }
    if new_bytes > 0 && state.held().saturating_add(new_bytes) > state.ceiling {
        return Err(Box::new(
            Problem::new(kind::TOO_LARGE, "The host has no room for what the run exposes")
                .with_detail(state.no_room(0)),
        ));
    }
    Ok(())
}

fn check_target(target: &Target) -> Result<(), Box<Problem>> {
    match target {
        Target::Process(_) | Target::Child(_) => Ok(()),
        Target::Name(name) => check_name("A name", name),
        Target::Run { run, name } => check_name("A run's id", run).and_then(|()| check_name("A name", name)),
    }
}

fn check_ties(state: &State, entry: &Entry, new: u64) -> Result<(), Box<Problem>> {
    if new == 0 {
        return Ok(());
    }
    let limits = &entry.limits;
    let own = entry.watches() as u64 + new;
    let all = state.ties + state.promised.all().ties + new;
    if own > limits.links.into() || all > state.bounds.ties {
        return Err(Box::new(Problem::new(kind::TOO_MANY_LINKS, "More links and monitors than allowed").with_detail(
            format!("The process would have {own} of {}, its run {all} of {}.", limits.links, state.bounds.ties),
        )));
    }
    Ok(())
}

impl State {
    /// Decides one command.
    pub(in crate::run) fn decide(
        &mut self,
        config: &RunConfig,
        asker: &mut Asker<'_>,
        moment: Moment,
        command: &Command,
    ) -> Decision {
        let tag = command.tag;
        let decided = match &command.action {
            Action::Send(send) => self.decide_send(asker.pid, send),
            Action::Spawn(spawn) => self.decide_spawn(config, asker, spawn),
            Action::Call(call) => self.decide_call(config, asker, tag, call),
            Action::Sleep(duration) => {
                self.may_wait(asker.pid, 0, 0).map(|()| Decision::Due(moment.at.saturating_add(*duration)))
            }
            Action::Register(name) => self.decide_register(config, asker.pid, name),
            Action::Stop(target) => self.look_up_accepting(asker.pid, target),
            // A link has no answer but the end of the other process: that there is no link is
            // reported at once.
            Action::Link(target) => Ok(self.look_up_accepting(asker.pid, target).unwrap_or_else(|problem| {
                let pid = self.resolve(asker.pid, target).unwrap_or(Pid(0));
                Decision::Gone { pid, ending: Ending::Failed(problem.into()) }
            })),
            Action::Monitor(target) | Action::Unlink(target) => Ok(self.look_up(asker.pid, target)),
            Action::Cancel(_) | Action::Expose { .. } => Ok(Decision::Done),
        };
        decided.unwrap_or_else(|problem| Decision::Answered(Err(problem.into())))
    }

    /// Applies one command by what was decided for it.
    pub(in crate::run) fn apply(&mut self, pid: Pid, moment: Moment, command: Command, decision: Decision) {
        let Command { tag, action } = command;
        self.counts.commands += 1;
        match action {
            Action::Send(send) => match decision {
                Decision::Delivered(to) => self.apply_send(pid, to, send),
                decision => self.apply_answer(pid, tag, decision),
            },
            Action::Spawn(spawn) => match decision {
                Decision::Spawned(child) => self.apply_spawn(pid, tag, *spawn, child),
                decision => self.apply_answer(pid, tag, decision),
            },
            Action::Call(call) => match decision {
                Decision::Called(key) => self.apply_call(pid, moment, tag, *call, key),
                Decision::Waits => self.await_signal(pid, moment, tag, &call),
                Decision::Took(answer) => self.take_signal(pid, tag, &call, answer),
                Decision::Answered(answer) => self.apply_kv(pid, tag, &call, answer),
                _ => {}
            },
            Action::Sleep(duration) => match decision {
                Decision::Due(_) => self.apply_sleep(pid, moment, tag, duration),
                decision => self.apply_answer(pid, tag, decision),
            },
            Action::Register(name) => {
                if let Decision::Answered(answer) = decision {
                    self.apply_register(pid, tag, name, answer);
                }
            }
            Action::Stop(_) => match decision {
                Decision::Meant(target) => self.cancel(moment, target, "it was asked to stop", None),
                decision => self.apply_answer(pid, tag, decision),
            },
            Action::Monitor(_) => self.apply_tie(pid, tag, Tie::Monitor, decision),
            Action::Link(_) => self.apply_tie(pid, tag, Tie::Link, decision),
            Action::Unlink(_) => {
                if let Decision::Meant(target) = decision {
                    self.untie(pid, target);
                }
            }
            Action::Cancel(cancelled) => self.apply_cancel(pid, moment, cancelled),
            Action::Expose { query, value } => self.apply_expose(query, value),
        }
    }

    /// Gives an answer at once. (A decision of another kind does not belong to the command: this
    /// host writes no such record.)
    fn apply_answer(&mut self, pid: Pid, tag: Tag, decision: Decision) {
        if let Decision::Answered(answer) = decision {
            self.post_answer(pid, tag, answer);
        }
    }

    /// Checks that one more command may wait for its answer, with this many bytes of its own and of
    /// names.
    pub(in crate::run) fn may_wait(&self, pid: Pid, bytes: u64, names: usize) -> Result<(), Box<Problem>> {
        let entry = &self.table[pid];
        let limits = &entry.limits;
        let all = entry.outstanding_bytes + bytes;
        let weight = self.weigh(1, bytes, names as u64);
        if entry.outstanding.len() >= limits.outstanding as usize {
            return Err(Box::new(
                Problem::new(kind::TOO_MANY_OUTSTANDING, "More unanswered commands than allowed")
                    .with_detail(format!("The limit is {}.", limits.outstanding)),
            ));
        }
        if all > limits.outstanding_bytes || weight > 0 && !self.is_bounded(weight) {
            return Err(Box::new(
                Problem::new(kind::TOO_MANY_OUTSTANDING, "Unanswered commands hold more than allowed").with_detail(
                    format!(
                        "They would hold {all} bytes of {}, their run {} of {}.",
                        limits.outstanding_bytes,
                        self.bytes.saturating_add(weight),
                        self.bounds.bytes
                    ),
                ),
            ));
        }
        if !self.has_room(weight) {
            return Err(Box::new(
                Problem::new(kind::TOO_MANY_OUTSTANDING, "The host has no room for another command of the run")
                    .with_detail(self.no_room(weight))
                    .with_class(ProblemClass::Retryable),
            ));
        }
        Ok(())
    }

    /// Checks that the process may give a payload.
    #[inline]
    pub(in crate::run) fn may_carry(&self, pid: Pid, payload: &Payload) -> Result<(), Box<Problem>> {
        check_payload(payload, &self.table[pid].limits)
    }

    /// Resolves a target to a process.
    #[inline]
    pub(in crate::run) fn resolve(&self, pid: Pid, target: &Target) -> Option<Pid> {
        match target {
            Target::Process(target) => Some(*target),
            Target::Child(tag) => self.child_of(pid, *tag),
            Target::Name(name) => self.names.get(name).copied(),
            Target::Run { .. } => None,
        }
    }

    fn child_of(&self, pid: Pid, tag: Tag) -> Option<Pid> {
        match self.table.get(pid)?.outstanding.get(tag)? {
            super::outstanding::Pending::Spawn { child, .. } => Some(*child),
            _ => None,
        }
    }

    fn apply_expose(&mut self, query: Arc<str>, value: Payload) {
        self.exposed_bytes += value.size() as u64;
        if let Some(before) = self.exposed.insert(query, value) {
            self.exposed_bytes -= before.size() as u64;
        }
    }
}
