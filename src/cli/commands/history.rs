//! `wfhost history`: the records of a run.

use crate::cli::Exit;
use crate::cli::args::History;
use crate::cli::report::error::{Refused, Stop, kind};
use crate::cli::report::hints;
use crate::cli::report::record_json;
use crate::cli::table::{clock, moment, rfc3339};
use crate::cli::terminal::{Terminal, printable, printable_json, quoted, unwritable};
use crate::host::Story;
use crate::process::{Action, Answer, Ending, Micros, Payload, Pid, Status, Tag};
use crate::run::{Decided, Decision, News, Record};
use crate::workflow::diagnostics::closest;
use crate::workflow::interpreter::progress::{Cause, Progress};
use std::collections::BTreeSet;
use std::io::{self, BufWriter, ErrorKind, Write};

/// Steps that are named where another was meant. Arbitrary: what a person reads.
const STEPS_MAX: usize = 20;

/// Characters of a value that are shown. Arbitrary: a line of a terminal.
const VALUE_CHARS_MAX: usize = 100;

pub(in crate::cli) fn history(command: &History, _: Terminal) -> Result<Exit, Stop> {
    let (runs, stored) = command.data.find(&command.run)?;
    let records = runs.all_records(&stored.id)?;
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
        writeln!(out, "{}", printable_json(&record_json::record(*number, record).to_string()))?;
    }
    Ok(())
}

/// A record and its number, from 1.
type Numbered<'a> = (usize, &'a Record);

/// The records that are asked for, in their order.
fn choose<'a>(command: &History, records: &'a [Record]) -> Result<Vec<Numbered<'a>>, Stop> {
    let mut chosen: Vec<Numbered<'_>> = records.iter().enumerate().map(|(index, record)| (index + 1, record)).collect();
    if let Some(step) = &command.step {
        let mut about = OfStep::new(step);
        let mut story = Story::default();
        chosen.retain(|(_, record)| {
            let is_chosen = about.has(&story, record);
            story.hear(record, &mut |_| {});
            is_chosen
        });
        if !story.nodes().iter().any(|node| node.node == *step) {
            let known = story.nodes().iter().map(|node| node.node.as_str());
            let hint = match closest(step, known.clone()) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("it has {}", known.take(STEPS_MAX).collect::<Vec<_>>().join(", ")),
            };
            return Err(Refused::new(kind::USAGE, format!("the run has no step `{}`", quoted(step))).hint(hint).into());
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

/// Which records are about a step: of its processes and theirs, of its calls, and those in which
/// the workflow tells of it.
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

    /// Whether what people call a process, or the place of a call, is of the step: `step`,
    /// `step[3]`, `step > entry`, `step/3/0`.
    fn is_its(&self, name: &str) -> bool {
        name.strip_prefix(self.step).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '/', ' ']))
    }

    fn has(&mut self, story: &Story, record: &Record) -> bool {
        let is_its_own = |pid: Pid| story.name(pid).is_some_and(|name| self.is_its(name));
        match record {
            Record::Started(_) => false,
            Record::Died(died) => is_its_own(died.pid),
            Record::Leaving { pid, tag } => is_its_own(*pid) || self.tags.contains(&(*pid, *tag)),
            Record::Arrived(arrived) => match &arrived.news {
                News::Answered { pid, tag, .. } | News::Due { pid, tag } | News::Again { pid, tag } => {
                    is_its_own(*pid) || self.tags.contains(&(*pid, *tag))
                }
                News::Message { pid, .. } | News::Cancel { pid, .. } => is_its_own(*pid),
                News::Signal { name, .. } => self.signals.contains(&**name),
                News::Paused(_) | News::TimedOut { .. } => false,
            },
            Record::Stepped(stepped) => {
                let is_own = is_its_own(stepped.pid);
                let mut is_told = false;
                for Decided { command, .. } in &stepped.decided {
                    let placement = match &command.action {
                        Action::Spawn(spawn) => spawn.placement.as_ref(),
                        Action::Call(call) => call.placement.as_ref(),
                        _ => None,
                    };
                    if placement.is_some_and(|placement| self.is_its(&placement.scope)) {
                        self.tags.insert((stepped.pid, command.tag));
                        is_told = true;
                    }
                }
                for told in stepped.log.iter().filter(|_| stepped.pid == Pid::ROOT).filter_map(Progress::of) {
                    let (node, waits) = match &told {
                        Progress::Node(node) => (&node.node, &node.waits[..]),
                        Progress::Retry(retry) => (&retry.node, &[][..]),
                        Progress::Item(failure) => (&failure.node, &[][..]),
                    };
                    if node == self.step {
                        is_told = true;
                        self.signals.extend(waits.iter().filter_map(|wait| match &wait.cause {
                            Cause::Signal { name } => Some(name.clone()),
                            _ => None,
                        }));
                    }
                }
                is_own || is_told
            }
        }
    }
}

fn write_text(out: &mut impl Write, records: &[Record], chosen: &[Numbered<'_>]) -> io::Result<()> {
    let mut story = Story::default();
    let mut day = String::new();
    let width = records.len().to_string().len();
    let mut chosen = chosen.iter().map(|(number, _)| *number).peekable();
    for (index, record) in records.iter().enumerate() {
        if chosen.next_if_eq(&(index + 1)).is_none() {
            story.hear(record, &mut |_| {});
            continue;
        }
        // A process has its name until its own last record.
        let name = |pid: Pid| match story.name(pid) {
            Some("") => "the workflow".to_owned(),
            Some(name) => format!("{name} ({pid})"),
            None => format!("process {pid}"),
        };
        let text = text_of(record, &name);
        story.hear(record, &mut |_| {});
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

fn at(record: &Record) -> Option<Micros> {
    match record {
        Record::Started(started) => Some(started.at),
        Record::Stepped(stepped) => Some(stepped.at),
        Record::Died(died) => Some(died.at),
        Record::Arrived(arrived) => Some(arrived.at),
        Record::Leaving { .. } => None,
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
                Status::Renew { entry, .. } => format!("\ngoes on as {entry}"),
            };
            let decided = stepped.decided.iter().map(|one| format!("\n{}", decided(one, name)));
            let lines = stepped.log.iter().map(|line| format!("\nlog: {}", cut(&line.text)));
            let all: String = decided.chain(lines).collect();
            format!("{}, step {}{all}{ends}", name(stepped.pid), stepped.step)
        }
        Record::Died(died) => format!("{} {}", name(died.pid), ending(&died.ending)),
        Record::Arrived(arrived) => news(&arrived.news, name),
        Record::Leaving { pid, tag } => format!("{}: call {tag} leaves", name(*pid)),
    }
}

fn news(news: &News, name: &dyn Fn(Pid) -> String) -> String {
    match news {
        News::Answered { pid, tag, answer: given } => format!("{}: {tag} is answered: {}", name(*pid), answer(given)),
        News::Due { pid, tag } => format!("{}: sleep {tag} is over", name(*pid)),
        News::Message { pid, message } => {
            format!("{}: a message {}: {}", name(*pid), message.topic, shown(&message.body))
        }
        News::Cancel { pid, reason, .. } => format!("{} is asked to end: {}", name(*pid), cut(reason)),
        News::TimedOut { after } => {
            format!("the run is asked to end: it took longer than {:?}", std::time::Duration::from(*after))
        }
        News::Signal { name, body } => format!("signal {name}: {}", shown(body)),
        News::Paused(true) => "paused".to_owned(),
        News::Paused(false) => "goes on".to_owned(),
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
        Action::Call(call) => {
            let timeout = call.timeout.map(|timeout| format!(", at most {}", hints::duration(timeout.into())));
            format!("{tag}: calls {} with {}{}", call.handler, shown(&call.args), timeout.unwrap_or_default())
        }
        Action::Send(send) => format!("{tag}: sends {} {}", send.message.topic, shown(&send.message.body)),
        Action::Cancel(other) => format!("{tag}: cancels {other}"),
        Action::Stop(_) => format!("{tag}: stops a process"),
        Action::Monitor(_) => format!("{tag}: monitors a process"),
        Action::Link(_) => format!("{tag}: links a process"),
        Action::Unlink(_) => format!("{tag}: unlinks a process"),
        Action::Register(name) => format!("{tag}: is called {name}"),
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

pub(in crate::cli) fn shown(payload: &Payload) -> String {
    match payload {
        Payload::Json(json) => cut(json.as_str()),
        Payload::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Payload::Blob(blob) => format!("{} ({} bytes)", blob.digest, blob.size),
    }
}

pub(in crate::cli) fn cut(text: &str) -> String {
    crate::cli::watch::redraw::fit(text, VALUE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_a_call_is_to_be_sent_again_is_said_in_words() {
        let again = News::Again { pid: Pid(2), tag: Tag(3) };
        assert_eq!(news(&again, &|pid| format!("process {pid}")), "process 2: call 3 is to be sent again");
    }

    #[test]
    fn what_is_long_is_cut() {
        assert_eq!(cut(&"x".repeat(1_000)).chars().count(), VALUE_CHARS_MAX);
    }
}
