//! `wfhost history`: the records of a run.

use crate::cli::args::target::TargetArguments;
use crate::cli::exit::Exit;
use crate::cli::report::brief::{cut, shown};
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::units::exact_duration;
use crate::cli::table::{clock, moment, rfc3339};
use crate::cli::terminal::{Terminal, printable, printable_json, quoted, unwritable};
use crate::host::RunProjection;
use crate::process::handler::CACHE;
use crate::process::{Action, Answer, Ending, Pid, Status, Tag, Timestamp};
use crate::run::{Decided, Decision, News, Record, RunVersion};
use crate::workflow::diagnostics::closest;
use crate::workflow::interpreter::progress::{Progress, path_of, without_items};
use clap::Args;
use std::collections::BTreeSet;
use std::io::{self, BufWriter, ErrorKind, Write};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost history order-4711
  wfhost history order-4711 --step approval --tail 20
  wfhost history order-4711 --json | jq -c 'select(.stepped.pid == 2)'

--json prints one object per line: version (1), number, and the record under its kind.
The version grows when a member changes its meaning or is removed; new members may come \
without that.
  started   run, at, seed, root, programs, entry, input, limits, grants, bounds,
            and origin of a retry or fork: run, record (0: a retry), keys,
            seen-as, held, former-keys
  stepped   pid, step, at, took (events), fuel, digest, owes, commands, log
            (level, text, fields), log-dropped, and status: ready, blocked,
            idle, complete (with output), failed (with problem), renew (with
            entry and input)
  died      pid, step, at, fuel, log, log-dropped, and ending: completed, failed
            (with problem), cancelled (with reason)
  arrived   at, act (id and digest, or null), and news: answered (pid, tag,
            output or problem), due and again (pid, tag), message (pid, sender,
            topic, body), cancel (pid, reason, grace-us), signal (name, body),
            paused, unpaused, timed-out (after-us), grace-again
  leaving   pid, tag
  upgraded  run, at, from, to: each with version, root, programs, grants
A command has tag, command, what was asked for, decision, and what was decided:
  command   sleep (duration-us), spawn (component, entry, input, name, link,
            detached, narrow), call (handler, args, timeout-us,
            idempotency-key), send (target, topic, body), cancel, stop, monitor,
            link, unlink (target), register (name), expose (query, value); of
            the workflow's own spawns and calls also scope (STEP/ITEM/N),
            limits, grants
  decision  done, answered and took (output or problem), due (due), spawned,
            delivered, meant (pid), called (key), gone (pid and an ending),
            waits
Values from users and guests are { json: ... }, { base64: ... } or { blob: { digest, size, \
media-type } }. A target or sender is { process: pid }, { child: tag }, { call: tag }, { tag: \
tag }, { name: ... }, { run: ..., name: ... } or { outside: ... }. A problem has kind, title, \
class, and if known status, detail, may-have-happened, retry-after-us, data. \
Times (at, due) are microseconds since 1970. A step has the time at which it began, so a record may \
be earlier than the one before it, written while the step ran. A number beyond 2^53 is a string of \
its digits, or null if it means no limit; digests are hexadecimal.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// Show only records about this step.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) step: Option<String>,
    /// Show only the last (newest) N records.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) tail: Option<u32>,
    /// Show only the first (oldest) N records.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) limit: Option<u32>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArguments,
}

/// Steps listed in a hint. Arbitrary: what a user reads.
const STEPS_MAX: usize = 20;

pub(in crate::cli) fn history(command: &Arguments, _: Terminal) -> Result<Exit, CommandError> {
    let (_, records) = command.target.open()?.records(&command.run)?;
    let chosen = choose(command, &records)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let written = if command.json { write_json(&mut out, &chosen) } else { write_text(&mut out, &records, &chosen) };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritable(error).into()),
        _ => Ok(Exit::Success),
    }
}

fn write_json(out: &mut impl Write, chosen: &[Numbered<'_>]) -> io::Result<()> {
    for (number, record) in chosen {
        writeln!(out, "{}", printable_json(&crate::host::record_json::record(*number, record).to_string()))?;
    }
    Ok(())
}

/// A record and its number, from 1.
type Numbered<'a> = (usize, &'a Record);

/// The requested records, in order.
fn choose<'a>(command: &Arguments, records: &'a [Record]) -> Result<Vec<Numbered<'a>>, CommandError> {
    let mut chosen: Vec<Numbered<'_>> = records.iter().enumerate().map(|(index, record)| (index + 1, record)).collect();
    if let Some(step) = &command.step {
        let mut about = OfStep::new(step);
        let mut projection = RunProjection::default();
        chosen.retain(|(_, record)| {
            let is_chosen = about.has(&projection, record);
            projection.apply(record, &mut |_| {});
            is_chosen
        });
        // Those of items that have ended are in the records alone.
        if chosen.is_empty() && !projection.nodes().iter().any(|node| node.node == *step) {
            let known = projection.nodes().iter().map(|node| node.node.as_str());
            let hint = match closest(step, known.clone()) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("its steps are {}", known.take(STEPS_MAX).collect::<Vec<_>>().join(", ")),
            };
            return Err(UserError::new(kind::USAGE, format!("the run has no step `{}`", quoted(step)))
                .hint(hint)
                .into());
        }
    }
    if let Some(tail) = command.tail {
        chosen.drain(..chosen.len().saturating_sub(tail as usize));
    }
    if let Some(limit) = command.limit {
        chosen.truncate(limit as usize);
    }
    Ok(chosen)
}

/// Selects the records about a step: those of its processes and their children, of its calls, and
/// those in which the workflow reports it.
struct OfStep<'a> {
    step: &'a str,
    /// Calls and spawns of it.
    tags: BTreeSet<(Pid, Tag)>,
    /// Signals that it has waited for.
    signals: BTreeSet<String>,
}

impl<'a> OfStep<'a> {
    fn new(step: &'a str) -> Self {
        Self { step, tags: BTreeSet::new(), signals: BTreeSet::new() }
    }

    /// Returns whether the name of a process belongs to the step: `step`, `step[3]`, `step.inner`,
    /// `step > entry`.
    fn is_its(&self, name: &str) -> bool {
        let belongs = |name: &str| {
            name.strip_prefix(self.step).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.', ' ']))
        };
        belongs(name) || belongs(&without_items(name))
    }

    fn has(&mut self, projection: &RunProjection, record: &Record) -> bool {
        let is_its_own = |pid: Pid| projection.name(pid).is_some_and(|name| self.is_its(name));
        match record {
            Record::Started(_) | Record::Upgraded(_) => false,
            Record::Died(died) => is_its_own(died.pid),
            Record::Leaving { pid, tag } => is_its_own(*pid) || self.tags.contains(&(*pid, *tag)),
            Record::Arrived(arrived) => match &arrived.news {
                News::Answered { pid, tag, .. } | News::Due { pid, tag } | News::Again { pid, tag } => {
                    is_its_own(*pid) || self.tags.contains(&(*pid, *tag))
                }
                News::Message { pid, .. } | News::Cancel { pid, .. } => is_its_own(*pid),
                News::Signal { name, .. } => self.signals.contains(&**name),
                News::Paused(_) | News::TimedOut { .. } | News::GraceAgain => false,
            },
            Record::Stepped(stepped) => {
                let is_own = is_its_own(stepped.pid);
                let mut is_selected = false;
                for Decided { command, .. } in &stepped.decided {
                    let placement = match &command.action {
                        Action::Spawn(spawn) => spawn.placement.as_ref(),
                        Action::Call(call) => call.placement.as_ref(),
                        _ => None,
                    };
                    if placement.is_some_and(|placement| self.is_its(&path_of(&placement.scope, |_| true))) {
                        self.tags.insert((stepped.pid, command.tag));
                        is_selected = true;
                    }
                }
                for progress in stepped.log.iter().filter(|_| stepped.pid == Pid::ROOT).filter_map(Progress::of) {
                    let (node, waits) = match &progress {
                        Progress::Node(node) => (&node.node, &node.waits[..]),
                        Progress::Retry(retry) => (&retry.node, &[][..]),
                        Progress::Item(failure) => (&failure.node, &[][..]),
                    };
                    if self.is_its(node) {
                        is_selected = true;
                        self.signals.extend(waits.iter().flat_map(|wait| wait.cause.signals()).cloned());
                    }
                }
                is_own || is_selected
            }
        }
    }
}

fn write_text(out: &mut impl Write, records: &[Record], chosen: &[Numbered<'_>]) -> io::Result<()> {
    let mut projection = RunProjection::default();
    let mut day = String::new();
    let width = records.len().to_string().len();
    let mut chosen = chosen.iter().map(|(number, _)| *number).peekable();
    for (index, record) in records.iter().enumerate() {
        if chosen.next_if_eq(&(index + 1)).is_none() {
            projection.apply(record, &mut |_| {});
            continue;
        }
        // A process keeps its name until its last record.
        let name = |pid: Pid| match projection.name(pid) {
            Some("") => "the workflow".to_owned(),
            Some(name) => format!("{name} ({pid})"),
            None => format!("process {pid}"),
        };
        let text = text_of(record, &name);
        projection.apply(record, &mut |_| {});
        let at = at(record);
        if let Some(at) = at
            && let Some((date, _)) = moment(at).split_once(' ')
            && *date != *day
        {
            date.clone_into(&mut day);
            writeln!(out, "{day}, UTC")?;
        }
        let clock = at.map_or_else(|| " ".repeat(12), clock);
        let text = printable(&text).replace('\n', &format!("\n{}", " ".repeat(width + 15)));
        writeln!(out, "{:>width$} {clock} {text}", index + 1)?;
    }
    Ok(())
}

fn at(record: &Record) -> Option<Timestamp> {
    match record {
        Record::Started(started) => Some(started.at),
        Record::Stepped(stepped) => Some(stepped.at),
        Record::Died(died) => Some(died.at),
        Record::Arrived(arrived) => Some(arrived.at),
        Record::Leaving { .. } => None,
        Record::Upgraded(upgraded) => Some(upgraded.at),
    }
}

fn text_of(record: &Record, name: &dyn Fn(Pid) -> String) -> String {
    match record {
        Record::Started(started) => format!("started with {}", shown(&started.input)),
        Record::Stepped(stepped) => {
            let ends = match &stepped.status {
                Status::Ready | Status::Blocked | Status::Idle => String::new(),
                Status::Complete(output) => format!("\nends with {}", shown(output)),
                Status::Failed(problem) => format!("\nfails: {problem}"),
                Status::Renew { entry, .. } => format!("\ncontinues as {entry}"),
            };
            let decided = stepped.decided.iter().map(|one| format!("\n{}", decided(one, name)));
            let lines = stepped.log.iter().map(|line| format!("\nlog: {}", cut(&line.text)));
            let all: String = decided.chain(lines).collect();
            format!("{}, step {}{all}{ends}", name(stepped.pid), stepped.step)
        }
        Record::Died(died) => format!("{} {}", name(died.pid), ending(&died.ending)),
        Record::Arrived(arrived) => news(&arrived.news, name),
        Record::Leaving { pid, tag } => format!("{}: call {tag} is sent", name(*pid)),
        Record::Upgraded(upgraded) => {
            let version = |version: &RunVersion| version.number.map_or_else(String::new, |number| format!(" {number}"));
            let (from, to) = (version(&upgraded.from), version(&upgraded.to));
            match &*from {
                "" => format!("upgraded to version{to}"),
                from => format!("upgraded from version{from} to version{to}"),
            }
        }
    }
}

fn news(news: &News, name: &dyn Fn(Pid) -> String) -> String {
    match news {
        News::Answered { pid, tag, answer: given } => format!("{}: {tag} is answered: {}", name(*pid), answer(given)),
        News::Due { pid, tag } => format!("{}: sleep {tag} ends", name(*pid)),
        News::Message { pid, message } => {
            format!("{}: a message {}: {}", name(*pid), message.topic, shown(&message.body))
        }
        News::Cancel { pid, reason, .. } => format!("{} is asked to end: {}", name(*pid), cut(reason)),
        News::TimedOut { after } => {
            format!("the run is asked to end: it took longer than {:?}", std::time::Duration::from(*after))
        }
        News::Signal { name, body } => format!("signal {name}: {}", shown(body)),
        News::GraceAgain => "its time to end begins anew: it was over before a host was back".to_owned(),
        News::Paused(true) => "paused".to_owned(),
        News::Paused(false) => "unpaused".to_owned(),
        News::Again { pid, tag } => format!("{}: call {tag} is to be sent again", name(*pid)),
    }
}

fn decided(decided: &Decided, name: &dyn Fn(Pid) -> String) -> String {
    let Decided { command, decision } = decided;
    let tag = command.tag;
    let what = match &command.action {
        Action::Sleep(_) => format!("{tag}: sleeps"),
        Action::Spawn(spawn) => {
            let place =
                spawn.placement.as_ref().map_or_else(String::new, |placement| format!(" for {}", placement.scope));
            format!("{tag}: starts {}{place} with {}", spawn.entry, shown(&spawn.input))
        }
        Action::Call(call) if *call.handler == *CACHE => format!("{tag}: asks the cache of steps"),
        Action::Call(call) => {
            let timeout = call.timeout.map(|timeout| format!(", at most {}", exact_duration(timeout.into())));
            format!("{tag}: calls {} with {}{}", call.handler, shown(&call.args), timeout.unwrap_or_default())
        }
        Action::Send(send) => format!("{tag}: sends {} {}", send.message.topic, shown(&send.message.body)),
        Action::Cancel(other) => format!("{tag}: cancels {other}"),
        Action::Stop(_) => format!("{tag}: stops a process"),
        Action::Monitor(_) => format!("{tag}: monitors a process"),
        Action::Link(_) => format!("{tag}: links a process"),
        Action::Unlink(_) => format!("{tag}: unlinks a process"),
        Action::Register(name) => format!("{tag}: registers the name {name}"),
        Action::Expose { query, value } => format!("{tag}: exposes {query}: {}", shown(value)),
    };
    let became = match decision {
        Decision::Answered(given) => format!(": {}", answer(given)),
        Decision::Due(at) => format!(" until {}", rfc3339(*at).replace('T', " ")),
        Decision::Spawned(pid) => format!(", process {pid}"),
        Decision::Called(key) => format!(", key {key}"),
        Decision::Delivered(pid) | Decision::Meant(pid) => format!(", {}", name(*pid)),
        Decision::Gone { ending: how, .. } => format!(": it {}", ending(how)),
        _ => String::new(),
    };
    format!("{what}{became}")
}

fn answer(given: &Answer) -> String {
    match given {
        Ok(payload) => shown(payload),
        Err(problem) => problem.to_string(),
    }
}

fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Completed => "ends".to_owned(),
        Ending::Failed(problem) => format!("is ended: {problem}"),
        Ending::Cancelled(reason) => format!("is cancelled: {}", cut(reason)),
    }
}

#[cfg(test)]
mod tests;
