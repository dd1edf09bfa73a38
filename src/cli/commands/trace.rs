//! `wfhost trace`: a run over time, for a viewer.

use crate::cli::args::target::TargetArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::terminal::{Terminal, say, unwritable};
use crate::host::{Flow, RunSpans, Span, SpanEnd, SpanKind, Traced};
use crate::process::Pid;
use crate::run::{Record, system_time};
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost trace order-4711 --perfetto order.json
  wfhost trace order-4711 --perfetto - | gzip > order.json.gz

Open the file at https://ui.perfetto.dev, which reads it in the browser, or in chrome://tracing. \
Each process of the run has a track, with its steps, its calls and its waits; arrows show messages and \
spawns. The steps of the workflow are on the first track. It is drawn from the records of the run, \
which may still be unfinished: nothing is executed. Inputs, outputs and other payloads are not in it.")]
pub(in crate::cli) struct Arguments {
    /// Id of the run, or a unique prefix of it.
    pub(in crate::cli) run: String,
    /// Write a file for Perfetto: a trace in the JSON format of Chrome. `-` is the standard output.
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(in crate::cli) perfetto: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) target: TargetArguments,
}

pub(in crate::cli) fn trace(command: &Arguments, _: Terminal) -> Result<Exit, CommandError> {
    let (stored, records) = command.target.open()?.records(&command.run)?;
    let spans = RunSpans::of(stored.id.clone(), &*stored.name);
    if command.perfetto.as_os_str() == "-" {
        let drawn = draw(BufWriter::new(io::stdout().lock()), spans, &records);
        return match drawn {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritable(error).into()),
            _ => Ok(Exit::Success),
        };
    }
    let file = &command.perfetto;
    let drawn = File::create(file).and_then(|out| draw(BufWriter::new(out), spans, &records));
    let events =
        drawn.map_err(|error| UserError::new(kind::UNREADABLE, format!("cannot write {}: {error}", file.display())))?;
    say(&format!("{events} events in {}; open it at https://ui.perfetto.dev", file.display()));
    Ok(Exit::Success)
}

/// Writes events, with what stands between them.
struct Events<W> {
    out: W,
    count: u64,
    flows: u64,
    failed: Option<io::Error>,
}

/// Draws a run. Returns the number of events.
fn draw(out: impl Write, mut spans: RunSpans, records: &[Record]) -> io::Result<u64> {
    let mut events = Events { out, count: 0, flows: 0, failed: None };
    events.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
    for record in records {
        spans.apply(record, &mut |traced| events.traced(traced));
    }
    spans.finish(system_time(), &mut |traced| events.traced(traced));
    if let Some(error) = events.failed {
        return Err(error);
    }
    events.out.write_all(b"\n]}\n")?;
    events.out.flush()?;
    Ok(events.count)
}

impl<W: Write> Events<W> {
    fn put(&mut self, event: &Value) {
        if self.failed.is_some() {
            return;
        }
        let between = if self.count == 0 { "" } else { ",\n" };
        self.failed = write!(self.out, "{between}{event}").err();
        self.count += 1;
    }

    fn traced(&mut self, traced: Traced) {
        match traced {
            Traced::Began(run) => {
                self.put(&json!({ "ph": "M", "name": "process_name", "pid": 1, "args": { "name": run.name } }));
                self.track(Pid::ROOT, &run.name);
            }
            Traced::Ended(span) => self.span(&span),
            Traced::Stepped { pid, step, at, fuel } => self.put(&json!({
                "ph": "i", "s": "t", "cat": "turn", "name": "steps", "pid": 1, "tid": pid.0, "ts": at.0,
                "args": { "number": step, "fuel": fuel },
            })),
            Traced::Flow(Flow { name, from, to }) => {
                self.flows += 1;
                let id = self.flows;
                for (phase, (pid, at)) in [("s", from), ("f", to)] {
                    self.put(&json!({
                        "ph": phase, "bp": "e", "id": id, "cat": "flow", "name": name, "pid": 1, "tid": pid.0,
                        "ts": at.0,
                    }));
                }
            }
        }
    }

    fn track(&mut self, pid: Pid, name: &str) {
        let name = format!("{} {name}", pid.0);
        self.put(&json!({ "ph": "M", "name": "thread_name", "pid": 1, "tid": pid.0, "args": { "name": name } }));
        self.put(&json!({
            "ph": "M", "name": "thread_sort_index", "pid": 1, "tid": pid.0, "args": { "sort_index": pid.0 },
        }));
    }

    fn span(&mut self, span: &Span) {
        let mut args = json!({ "end": span.end.word() });
        if let SpanEnd::Failed(kind) = &span.end {
            args["problem"] = json!(kind);
        }
        if let Some(tag) = span.tag {
            args["tag"] = json!(tag.0);
        }
        if let SpanKind::Run { origin: Some(origin) } = &span.kind {
            args["made-from"] = json!(origin);
        }
        let (category, duration) = (span.kind.word(), span.to.0 - span.from.0);
        let common = json!({ "cat": category, "name": span.name, "pid": 1, "tid": span.pid.0 });
        let event = |more: Value| {
            let mut event = common.clone();
            if let (Some(event), Value::Object(more)) = (event.as_object_mut(), more) {
                event.extend(more);
            }
            event
        };
        if matches!(span.kind, SpanKind::Run { .. } | SpanKind::Process) {
            if span.pid != Pid::ROOT {
                self.track(span.pid, &span.name);
            }
            self.put(&event(json!({ "ph": "X", "ts": span.from.0, "dur": duration, "args": args })));
            return;
        }
        // What overlaps on one track has a row of its own below it.
        let id = u64::from_le_bytes(span.id.0);
        let id = format!("{id:016x}");
        self.put(&event(json!({ "ph": "b", "id": id, "ts": span.from.0, "args": args })));
        self.put(&event(json!({ "ph": "e", "id": id, "ts": span.to.0 })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Host, RunOptions};
    use std::collections::BTreeMap;

    const WORKFLOW: &str = "\
name: three
steps:
  - { id: a, for-each: \"${ [1, 2, 3] }\", wait: 1ms }
  - { id: b, call: kv, with: { op: set, key: k, value: 1 }, allow: { kv: [ \"*\" ] }, needs: [a] }
";

    fn drawn(records: &[Record]) -> Vec<Value> {
        let mut text = Vec::new();
        let count = draw(&mut text, RunSpans::of("r".into(), "three"), records).unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap().clone();
        assert_eq!(events.len() as u64, count);
        events
    }

    #[test]
    fn every_beginning_in_a_trace_has_its_end_even_of_an_unfinished_run() {
        let host = Host::builder().workers(1).build().unwrap();
        let workflow = host.parse("three.yaml", WORKFLOW, std::path::Path::new(".")).unwrap();
        let options = RunOptions { id: Some("r".into()), records: true, ..RunOptions::default() };
        let run = host.start(&workflow, serde_json::Map::new(), options).unwrap();
        run.wait();
        let records = run.records().unwrap();
        for length in 0..=records.len() {
            let events = drawn(&records[..length]);
            let mut open: BTreeMap<&str, i64> = BTreeMap::new();
            for event in &events {
                let change = match event["ph"].as_str().unwrap() {
                    "b" => 1,
                    "e" => -1,
                    _ => continue,
                };
                *open.entry(event["id"].as_str().unwrap()).or_default() += change;
            }
            assert!(open.values().all(|open| *open == 0), "{events:#?}");
            let runs = events.iter().filter(|event| event["cat"] == "run").count();
            assert_eq!(runs, usize::from(length > 0), "the run is drawn once");
        }
        let whole = drawn(&records);
        let has = |category: &str, name: &str| {
            let is_it = |event: &&Value| event["cat"] == category && event["name"] == name && event["ph"] == "b";
            whole.iter().filter(is_it).count()
        };
        assert_eq!((has("step", "a"), has("step", "b"), has("call", "kv")), (1, 1, 1), "{whole:#?}");
        assert!(has("sleep", "sleep") > 0, "{whole:#?}");
    }
}
