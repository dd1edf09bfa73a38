//! What the interpreter of workflow files costs, beside a native process that makes the same calls:
//!
//! ```sh
//! cargo bench --bench workflows
//! ```
//!
//! One worker, nothing written to disk, a handler that answers at once. Times are medians of some
//! rounds; both sides of a row are measured in turns. Memory is the growth of the largest resident
//! size of the process in the first round.

use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Instant;
use wfhost::dispatch::{Declaration, from_inline_fn};
use wfhost::host::{Host, Outcome, RunOptions, Status, Workflow};
use wfhost::process::{Action, Call, Context, Event, Payload, Problem, Process, Status as StepStatus};

/// Makes as many calls as its input says: one after the other, or `in-flight` at a time.
#[derive(Default)]
struct Asker {
    left: u64,
    in_flight: u64,
    most: u64,
}

impl Process for Asker {
    fn init(&mut self, _: &mut Context<'_>, _: &str, input: Payload) -> Result<(), Problem> {
        let Payload::Json(json) = input else { return Ok(()) };
        let input = json.to_value();
        self.left = input["calls"].as_u64().unwrap_or_default();
        self.most = input["in-flight"].as_u64().unwrap_or(1);
        Ok(())
    }

    fn step(&mut self, context: &mut Context<'_>, events: &mut Vec<Event>) -> StepStatus {
        self.in_flight -= events.drain(..).count() as u64;
        while self.left > 0 && self.in_flight < self.most {
            self.left -= 1;
            self.in_flight += 1;
            let call = Call {
                handler: "echo".into(),
                args: Payload::json(&self.left),
                timeout: None,
                idempotency_key: None,
                placement: None,
            };
            context.command(Action::Call(Box::new(call)));
        }
        if self.in_flight == 0 { StepStatus::Complete(Payload::NULL) } else { StepStatus::Blocked }
    }
}

fn host() -> Host {
    let echo = from_inline_fn(Declaration::new("Answers with its arguments").repeatable(), |args: Payload, _| Ok(args));
    Host::builder().workers(1).handler("echo", echo).native("asker", 1, Asker::default).build().expect("the host")
}

fn parse(host: &Host, text: &str) -> Workflow {
    host.parse("bench.yaml", text, ".").unwrap_or_else(|error| panic!("{error}"))
}

fn run(host: &Host, workflow: &Workflow, inputs: &Value) -> Outcome {
    let inputs: Map<String, Value> = inputs.as_object().cloned().unwrap_or_default();
    let outcome = host.start(workflow, inputs, RunOptions::default()).expect("it starts").wait();
    assert_eq!(outcome.status, Status::Succeeded, "{:?}", outcome.result);
    outcome
}

/// Medians of the times of some functions, in milliseconds, measured in turns.
fn medians<const N: usize>(rounds: usize, mut work: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (work, times) in work.iter_mut().zip(&mut times) {
            let start = Instant::now();
            work();
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.map(|mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

/// The largest resident size of this process until now, in MiB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(f64::NAN) / 1024.0
}

/// A file with so many steps, each of which reads the one before it.
fn chain(steps: usize) -> String {
    let step = |at: usize| match at {
        0 => "  - { id: s0, call: echo, with: 1 }\n".to_owned(),
        at => format!("  - {{ id: s{at}, call: echo, with: \"${{ .steps.s{}.output + 1 }}\" }}\n", at - 1),
    };
    format!(
        "steps:\n{}outputs: {{ last: \"${{ .steps.s{}.output }}\" }}\n",
        (0..steps).map(step).collect::<String>(),
        steps - 1
    )
}

fn files(host: &Host) {
    let text = chain(1_000);
    let (mut ours, mut floor) =
        (|| drop(parse(host, &text)), || drop(serde_yaml::from_str::<serde_yaml::Value>(&text).expect("it is YAML")));
    let [ours, floor] = medians(11, [&mut ours, &mut floor]);
    println!("a file of 1,000 steps ({} kB), each with an expression", text.len() / 1000);
    println!("  parsed, checked, planned   {ours:9.2} ms");
    println!("  serde_yaml alone           {floor:9.2} ms   ratio {:.1}", ours / floor);
}

fn steps(host: &Host) {
    let workflow = parse(host, &chain(1_000));
    let native = parse(host, "steps: [{ id: a, uses: native:asker, with: { calls: 1000 } }]");
    let (mut ours, mut floor) = (|| drop(run(host, &workflow, &json!({}))), || drop(run(host, &native, &json!({}))));
    let [ours, floor] = medians(21, [&mut ours, &mut floor]);
    println!("1,000 steps with a call, one after the other");
    println!("  as a workflow              {ours:9.2} ms   {ours:.2} µs a step");
    println!("  a native process           {floor:9.2} ms   ratio {:.1}", ours / floor);
}

fn items(host: &Host) {
    let text = "
inputs: { list: { type: array } }
steps: [{ id: each, for-each: '${ .inputs.list }', max-parallel: 64, call: echo, with: '${ .item }' }]
outputs: { last: '${ .steps.each.output[99999] }' }";
    let workflow = parse(host, text);
    let native = parse(host, "steps: [{ id: a, uses: native:asker, with: { calls: 100000, in-flight: 64 } }]");
    let inputs = json!({ "list": (0..100_000).collect::<Vec<u32>>() });
    let before = peak();
    drop(run(host, &workflow, &inputs));
    let grown = peak() - before;
    let (mut ours, mut floor) = (|| drop(run(host, &workflow, &inputs)), || drop(run(host, &native, &json!({}))));
    let [ours, floor] = medians(5, [&mut ours, &mut floor]);
    println!("a for-each over 100,000 items, each with a call, 64 at a time");
    println!("  as a workflow              {ours:9.2} ms   {:.2} µs an item, {grown:.0} MiB", ours / 100.0);
    println!("  a native process           {floor:9.2} ms   ratio {:.1}", ours / floor);
}

fn turns(host: &Host) {
    let text = "
steps: [{ id: count, repeat: { max: 1000000 }, set: '${ .turn }' }]
outputs: { last: '${ .steps.count.output }' }";
    let workflow = parse(host, text);
    let before = peak();
    let start = Instant::now();
    let outcome = run(host, &workflow, &json!({}));
    let (took, grown) = (start.elapsed().as_secs_f64(), peak() - before);
    assert_eq!(outcome.result.ok(), Some(Payload::json(&json!({ "last": 999_999 }))));
    println!("a repeat of 1,000,000 turns with an expression");
    println!("  {took:.2} s, {:.2} µs a turn, {} records, {grown:.0} MiB", took, outcome.counts.records);
}

type Bench = fn(&Host);

fn main() {
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let host = Arc::new(host());
    let all: [(&str, Bench); 4] = [("files", files), ("steps", steps), ("items", items), ("turns", turns)];
    for (name, bench) in all {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            bench(&host);
        }
    }
}
