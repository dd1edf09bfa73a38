//! `wfhost history`: the records of a run.

use super::Exit;
use super::arguments::History;
use super::refused::Stop;
use super::table::{clock, moment, rfc3339};
use super::terminal::{Terminal, printable, printable_json, unwritable};
use crate::host::Story;
use crate::process::{Action, Answer, Ending, Micros, Payload, Pid, Status};
use crate::run::{Decided, Decision, News, Record};
use serde_json::{Value, json};
use std::io::{self, BufWriter, ErrorKind, Write};

/// Characters of a value that are shown. Arbitrary: a line of a terminal.
const VALUE_CHARS_MAX: usize = 100;

pub(super) fn history(command: &History, _: Terminal) -> Result<Exit, Stop> {
    let (runs, stored) = command.data.find(&command.run)?;
    let records = runs.all_records(&stored.id)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let written = if command.json { write_json(&mut out, &records) } else { write_text(&mut out, &records) };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritable(error).into()),
        _ => Ok(Exit::Success),
    }
}

fn write_json(out: &mut impl Write, records: &[Record]) -> io::Result<()> {
    for (at, record) in records.iter().enumerate() {
        let mut value = json!({ "number": at + 1 });
        if let Value::Object(kinds) = readable(json!(record)) {
            value.as_object_mut().expect("invariant: it was just made").extend(kinds);
        }
        writeln!(out, "{}", printable_json(&value.to_string()))?;
    }
    Ok(())
}

/// The same with JSON in the place of texts of JSON: payloads, and the members that hold an object as text.
fn readable(value: Value) -> Value {
    let parsed = |text: &Value| serde_json::from_str(text.as_str()?).ok();
    match value {
        Value::Object(members) => {
            if members.len() == 1
                && let Some(inner) = members.get("Json").and_then(parsed)
            {
                return inner;
            }
            let member = |(name, value): (String, Value)| {
                let inner = matches!(name.as_str(), "fields" | "data" | "narrow").then(|| parsed(&value)).flatten();
                (name, inner.unwrap_or_else(|| readable(value)))
            };
            Value::Object(members.into_iter().map(member).collect())
        }
        Value::Array(items) => items.into_iter().map(readable).collect(),
        plain => plain,
    }
}

fn write_text(out: &mut impl Write, records: &[Record]) -> io::Result<()> {
    let mut story = Story::default();
    let mut day = String::new();
    let width = records.len().to_string().len();
    for (index, record) in records.iter().enumerate() {
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
        Action::Call(call) => format!("{tag}: calls {} with {}", call.handler, shown(&call.args)),
        Action::Send(send) => format!("{tag}: sends {} {}", send.topic, shown(&send.body)),
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

pub(super) fn shown(payload: &Payload) -> String {
    match payload {
        Payload::Json(json) => cut(json.as_str()),
        Payload::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Payload::Blob(blob) => format!("{} ({} bytes)", blob.digest, blob.size),
    }
}

pub(super) fn cut(text: &str) -> String {
    super::live::fit(text, VALUE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Tag;

    #[test]
    fn texts_of_json_become_json() {
        let value = json!({ "a": { "Json": "{\"Json\": \"1\"}" }, "fields": "{\"x\": 1}", "b": [{ "Json": "[1]" }], "data": null });
        assert_eq!(readable(value), json!({ "a": { "Json": "1" }, "fields": { "x": 1 }, "b": [[1]], "data": null }));
    }

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
