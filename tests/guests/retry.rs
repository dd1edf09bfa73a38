//! Runs that repeat others, on random graphs, against a plain reference: what is taken over, what
//! every step sees, and the keys that a server would have seen.

use crate::support::builder;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use wfhost::dispatch::{CallContext, Declaration, from_inline_fn};
use wfhost::host::{Host, RerunError, RetryOptions, RunOptions, Workflow};
use wfhost::process::{Payload, Problem, ProblemClass};
use wfhost::run::Record;
use wfhost::workflow::interpreter::{RepeatError, Rerun};

const INPUTS: usize = 2;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Read {
    Nothing,
    Output,
    Status,
}

#[derive(Clone, PartialEq, Debug)]
struct Step {
    name: String,
    needs: Vec<(usize, Read)>,
    when: &'static str,
    /// Runs where this input is not 0.
    condition: Option<usize>,
    reads: Option<usize>,
    /// A part of its definition.
    salt: u64,
    /// It calls the server; otherwise it only makes a value.
    calls: bool,
    items: Option<usize>,
    continues_on_error: bool,
}

type Graph = Vec<Step>;

/// Numbers by which a failed case is shrunk.
struct Dice<'a>(&'a [u8], usize);

impl Dice<'_> {
    fn below(&mut self, end: usize) -> usize {
        self.1 += 1;
        usize::from(self.0[(self.1 - 1) % self.0.len()]) % end
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }
}

const WHENS: [&str; 9] =
    ["succeeded", "succeeded", "succeeded", "succeeded", "failed", "unreached", "[failed, unreached]", "done", "any"];

fn step(dice: &mut Dice<'_>, name: String, before: usize) -> Step {
    let reads = [Read::Nothing, Read::Output, Read::Status];
    let needs: Vec<_> = (0..before).filter(|_| dice.once_in(3)).collect();
    let needs: Vec<_> = needs.into_iter().map(|need| (need, reads[dice.below(3)])).collect();
    Step {
        when: if needs.is_empty() { "succeeded" } else { WHENS[dice.below(WHENS.len())] },
        needs,
        name,
        condition: dice.once_in(5).then(|| dice.below(INPUTS)),
        reads: dice.once_in(3).then(|| dice.below(INPUTS)),
        salt: 0,
        calls: !dice.once_in(4),
        items: dice.once_in(3).then(|| 1 + dice.below(3)),
        continues_on_error: dice.once_in(4),
    }
}

fn yaml(graph: &Graph) -> String {
    let mut text = String::from("inputs:\n");
    for input in 0..INPUTS {
        let _ = writeln!(text, "  k{input}: {{ type: integer, default: 1 }}");
    }
    text.push_str("steps:\n");
    for step in graph {
        let needs: Vec<&str> = step.needs.iter().map(|(need, _)| graph[*need].name.as_str()).collect();
        let _ = writeln!(text, "  - id: {}\n    needs: [{}]\n    when: {}", step.name, needs.join(", "), step.when);
        if let Some(input) = step.condition {
            let _ = writeln!(text, "    if: ${{ .inputs.k{input} != 0 }}");
        }
        if let Some(items) = step.items {
            let _ = writeln!(text, "    for-each: ${{ [range({items})] }}\n    max-parallel: 1");
        }
        let _ = writeln!(text, "    continue-on-error: {}", step.continues_on_error);
        let _ = writeln!(text, "    {}", if step.calls { "call: server\n    with:" } else { "set:" });
        let _ = writeln!(text, "      id: {}\n      salt: {}", step.name, step.salt);
        if step.items.is_some() {
            text.push_str("      item: ${ .item }\n");
        }
        if let Some(input) = step.reads {
            let _ = writeln!(text, "      k: ${{ .inputs.k{input} }}");
        }
        let reads = step.needs.iter().filter_map(|(need, read)| match read {
            Read::Nothing => None,
            Read::Output => Some(format!("'${{ .steps.{}.output }}'", graph[*need].name)),
            Read::Status => Some(format!("'${{ .steps.{}.status }}'", graph[*need].name)),
        });
        let _ = writeln!(text, "      reads: [ {} ]", reads.collect::<Vec<_>>().join(", "));
    }
    // It receives the ending and output of every step.
    let all: Vec<&str> = graph.iter().map(|step| step.name.as_str()).collect();
    let _ = writeln!(text, "  - id: end\n    needs: [{}]\n    when: done\n    call: server", all.join(", "));
    text.push_str("    with: { id: end, all: '${ .steps | map_values([.status, .output]) }' }\n");
    text
}

/// What the server does with a call of a step's item, in a round.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Does {
    /// It answers with a value that has the number in it.
    Answers(usize),
    Refuses,
    /// It may have had an effect, and does not answer.
    Drops,
}

/// By step and item; by default, it answers.
type World = BTreeMap<(String, usize), Does>;

fn world(dice: &mut Dice<'_>, graph: &Graph) -> World {
    let mut world = World::new();
    for step in graph {
        for item in 0..step.items.unwrap_or(1) {
            let does = match dice.below(8) {
                0 | 1 => Does::Refuses,
                2 => Does::Drops,
                number => Does::Answers(number % 3),
            };
            world.insert((step.name.clone(), item), does);
        }
    }
    world
}

/// The server's result for this request.
fn answer_of(number: usize, request: &Value) -> Value {
    json!(format!("{number}:{}", &blake3::hash(request.to_string().as_bytes()).to_hex()[..8]))
}

/// How a step ended, according to the reference.
#[derive(Clone, PartialEq, Debug)]
struct Ended {
    status: &'static str,
    output: Value,
    /// Outputs of the items of a `for-each` that succeeded.
    items: BTreeMap<usize, Value>,
}

/// Whether a step runs, or how it ends without running.
fn decide(step: &Step, graph: &Graph, all: &[Ended], inputs: [i64; INPUTS]) -> &'static str {
    let is = |status: &str| step.needs.iter().any(|(need, _)| all[*need].status == status);
    let forgiven = |need: usize| all[need].status == "failed" && graph[need].continues_on_error;
    let bad = |need: usize| matches!(all[need].status, "failed" | "unreached");
    match step.when {
        "succeeded" if step.needs.iter().any(|(need, _)| bad(*need) && !forgiven(*need)) => "unreached",
        "failed" if !is("failed") => "skipped",
        "unreached" if !is("unreached") => "skipped",
        "[failed, unreached]" if !is("failed") && !is("unreached") => "skipped",
        "any" if !is("succeeded") && step.needs.iter().any(|(need, _)| bad(*need)) => "unreached",
        "any" if !is("succeeded") => "skipped",
        _ if step.condition.is_some_and(|input| inputs[input] == 0) => "skipped",
        _ => "runs",
    }
}

/// What a step's item asks the server.
fn request(step: &Step, item: usize, inputs: [i64; INPUTS], reads: &[Value]) -> Value {
    let mut request = json!({ "id": step.name, "salt": step.salt });
    if step.items.is_some() {
        request["item"] = item.into();
    }
    if let Some(input) = step.reads {
        request["k"] = inputs[input].into();
    }
    request["reads"] = reads.to_vec().into();
    request
}

/// The result of a run. `taken` are steps that are not run, and items of others that are not.
fn reference(
    graph: &Graph,
    inputs: [i64; INPUTS],
    world: &World,
    taken: &[Option<Ended>],
    items: &[BTreeMap<usize, Value>],
    asked: &mut BTreeSet<(String, usize)>,
) -> Vec<Ended> {
    let mut all: Vec<Ended> = Vec::new();
    for (index, step) in graph.iter().enumerate() {
        if let Some(ended) = &taken[index] {
            all.push(ended.clone());
            continue;
        }
        let decided = decide(step, graph, &all, inputs);
        // An item's output of an earlier run stays until the item is run anew.
        let mut results = items[index].clone();
        if decided != "runs" {
            all.push(Ended { status: decided, output: Value::Null, items: results });
            continue;
        }
        let reads = step.needs.iter().filter_map(|(need, read)| match read {
            Read::Nothing => None,
            Read::Output => Some(all[*need].output.clone()),
            Read::Status => Some(json!(all[*need].status)),
        });
        let reads: Vec<Value> = reads.collect();
        let mut failed = false;
        for item in 0..step.items.unwrap_or(1) {
            if results.contains_key(&item) {
                continue;
            }
            let request = request(step, item, inputs, &reads);
            let does = if step.calls { world[&(step.name.clone(), item)] } else { Does::Answers(0) };
            if step.calls {
                asked.insert((step.name.clone(), item));
            }
            match does {
                Does::Answers(number) if step.calls => _ = results.insert(item, answer_of(number, &request)),
                Does::Answers(_) => _ = results.insert(item, request),
                Does::Refuses | Does::Drops => {
                    failed = true;
                    if !step.continues_on_error {
                        break;
                    }
                }
            }
        }
        let list =
            || (0..step.items.unwrap_or(1)).map(|item| results.get(&item).cloned().unwrap_or_default()).collect();
        let output = match (failed, step.items) {
            (false, None) => results[&0].clone(),
            (false, Some(_)) => list(),
            (true, Some(_)) if step.continues_on_error => list(),
            (true, _) => Value::Null,
        };
        let items = if step.items.is_some() { results } else { BTreeMap::new() };
        all.push(Ended { status: if failed { "failed" } else { "succeeded" }, output, items });
    }
    all
}

/// A request as the server has recorded it.
#[derive(Clone, Debug)]
struct Noted {
    key: String,
    request: Value,
    does: Does,
}

/// A server that records its requests, by the logical call.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    world: World,
    /// Of this round.
    asked: BTreeMap<(String, usize), Vec<Noted>>,
    /// What `end` received.
    end: Value,
}

impl Server {
    fn begin_round(&self, world: World) {
        *self.0.lock().unwrap() = Book { world, ..Book::default() };
    }

    fn host(&self) -> Host {
        let this = self.clone();
        let call = move |args: Payload, context: CallContext| {
            let Payload::Json(json) = &args else { panic!("{args:?}") };
            let request = json.to_value();
            let name = request["id"].as_str().expect("an id").to_owned();
            let mut book = this.0.lock().unwrap();
            if name == "end" {
                book.end = request["all"].clone();
                return Ok(Payload::NULL);
            }
            let item = request.get("item").and_then(Value::as_u64).unwrap_or(0) as usize;
            let does = book.world[&(name.clone(), item)];
            let key = context.idempotency_key().to_string();
            book.asked.entry((name, item)).or_default().push(Noted { key, request: request.clone(), does });
            match does {
                Does::Answers(number) => Ok(Payload::json(&answer_of(number, &request))),
                Does::Refuses => Err(Arc::new(Problem::new("refused", "It is refused"))),
                Does::Drops => {
                    Err(Arc::new(Problem::new("lost", "It may have happened").with_class(ProblemClass::Uncertain)))
                }
            }
        };
        builder(1, 4)
            .handler("server", from_inline_fn(Declaration::new("Keeps what it is asked"), call))
            .build()
            .unwrap()
    }
}

/// What changes in the next round.
#[derive(Debug)]
struct Change {
    from: Option<usize>,
    new_keys: bool,
    is_other: bool,
}

fn change(dice: &mut Dice<'_>, graph: &mut Graph, inputs: &mut [i64; INPUTS]) -> Change {
    let mut change = Change { from: None, new_keys: dice.once_in(8), is_other: false };
    match dice.below(6) {
        0 => change.from = Some(dice.below(graph.len())),
        1 => inputs[dice.below(INPUTS)] += 1,
        2 => inputs[dice.below(INPUTS)] = 0,
        3 => {
            let index = dice.below(graph.len());
            graph[index].salt += 1;
            change.is_other = true;
        }
        4 => {
            let before = graph.len();
            let name = format!("new{before}");
            graph.push(step(dice, name, before));
            change.is_other = true;
        }
        _ => {}
    }
    change
}

/// The steps that are taken over, by the rule in a sentence: the step succeeded or was skipped, and
/// nothing that it depends on has changed.
fn taken_over(
    (before, ended): (&Graph, &[Ended]),
    (graph, change): (&Graph, &Change),
    (former, inputs): ([i64; INPUTS], [i64; INPUTS]),
) -> (Vec<Option<Ended>>, Vec<BTreeMap<usize, Value>>) {
    let mut taken: Vec<Option<Ended>> = Vec::new();
    let mut items = Vec::new();
    for (index, step) in graph.iter().enumerate() {
        let known = before.get(index).filter(|known| *known == step);
        let reads = step.reads.into_iter().chain(step.condition);
        let is_same = known.is_some()
            && change.from != Some(index)
            && reads.into_iter().all(|input| former[input] == inputs[input])
            && step.needs.iter().all(|(need, _)| taken[*need].is_some());
        let ended = ended.get(index).filter(|_| is_same);
        items.push(ended.map(|ended| ended.items.clone()).unwrap_or_default());
        taken.push(ended.filter(|ended| matches!(ended.status, "succeeded" | "skipped")).cloned());
    }
    (taken, items)
}

/// A key of the server's record, with what was asked under it.
#[derive(Clone, Debug)]
struct Past {
    last: Noted,
    /// Under the last key it may have happened; the outcome is unknown.
    doubtful: bool,
}

/// Everything that the server was ever asked under a key.
type Used = BTreeMap<String, Vec<Value>>;

/// Compares the keys of a round with the table: outcome known or not, arguments the same or
/// different.
fn check_keys(book: &Book, past: &mut BTreeMap<(String, usize), Past>, used: &mut Used, new_keys: bool) {
    if new_keys {
        // None is used again, not even by retries of this run.
        past.clear();
    }
    for (call, asked) in &book.asked {
        assert_eq!(asked.len(), 1, "{call:?} is asked once in a round");
        let now = &asked[0];
        // Nothing else was asked under it. Another retry of the same run may have asked for the
        // same.
        let is_fresh = used.get(&now.key).is_none_or(|asked| asked.iter().all(|asked| *asked == now.request));
        let mut doubtful = now.does == Does::Drops;
        if let Some(Past { last, doubtful: before }) = past.get(call) {
            let is_same = last.request == now.request;
            match last.does {
                _ if *before => assert_eq!(now.key, last.key, "{call:?}: the outcome of {last:?} is unknown"),
                Does::Answers(_) if is_same => assert_eq!(now.key, last.key, "{call:?}: the same as {last:?}"),
                Does::Refuses if is_same => assert!(is_fresh || now.key == last.key, "{call:?}"),
                _ => assert!(is_fresh, "{call:?}: {now:?} is another than {last:?}"),
            }
            let answered = matches!(now.does, Does::Answers(_));
            doubtful |= *before && !answered && now.key == last.key;
        } else {
            assert!(is_fresh, "{call:?} was never asked");
        }
        past.insert(call.clone(), Past { last: now.clone(), doubtful });
        used.entry(now.key.clone()).or_default().push(now.request.clone());
    }
}

fn parse(host: &Host, graph: &Graph) -> Workflow {
    let text = yaml(graph);
    host.parse("graph.yaml", &text, ".").unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

fn objects(inputs: [i64; INPUTS]) -> Map<String, Value> {
    inputs.iter().enumerate().map(|(index, value)| (format!("k{index}"), json!(value))).collect()
}

fn options() -> RunOptions {
    RunOptions { records: true, ..RunOptions::default() }
}

/// Compares what `end` received with the reference.
fn check_end(book: &Book, graph: &Graph, ended: &[Ended]) {
    let wanted: Map<String, Value> =
        graph.iter().zip(ended).map(|(step, ended)| (step.name.clone(), json!([ended.status, ended.output]))).collect();
    assert_eq!(book.end, Value::Object(wanted), "{}", yaml(graph));
}

fn rounds(bytes: &[u8]) {
    let dice = &mut Dice(bytes, 0);
    let steps = 2 + dice.below(6);
    let mut graph: Graph = (0..steps).map(|index| step(dice, format!("s{index}"), index)).collect();
    let mut inputs = [1, 1];
    let server = Server::default();
    let host = server.host();
    let mut workflow = parse(&host, &graph);
    server.begin_round(world(dice, &graph));
    let run = host.start(&workflow, objects(inputs), options()).unwrap();
    run.wait();
    let mut records: Vec<Record> = run.records().unwrap();
    let nothing = (vec![None; steps], vec![BTreeMap::new(); steps]);
    let mut ended =
        reference(&graph, inputs, &server.0.lock().unwrap().world, &nothing.0, &nothing.1, &mut BTreeSet::new());
    let (mut past, mut used) = (BTreeMap::new(), Used::new());
    check_end(&server.0.lock().unwrap(), &graph, &ended);
    check_keys(&server.0.lock().unwrap(), &mut past, &mut used, false);

    for _ in 0..5 {
        let (before, former, known) = (graph.clone(), inputs, past.clone());
        let change = change(dice, &mut graph, &mut inputs);
        server.begin_round(world(dice, &graph));
        let next = if change.is_other { parse(&host, &graph) } else { workflow.clone() };
        let (taken, items) = taken_over((&before, &ended), (&graph, &change), (former, inputs));
        let retry = RetryOptions {
            again: change.from.map_or(Rerun::Failed, |step| Rerun::From(graph[step].name.clone())),
            inputs: if former == inputs { Map::new() } else { objects(inputs) },
            substituted: false,
            new_keys: change.new_keys,
            ..RetryOptions::default()
        };
        let retrial = match host.prepare_retry(&workflow, &records, &next, retry) {
            Ok(retrial) => retrial,
            Err(RerunError::Repeat(RepeatError::NothingFailed)) => {
                assert!(taken.iter().all(Option::is_some) && former == inputs, "{}", yaml(&graph));
                (graph, inputs) = (before, former);
                continue;
            }
            Err(error) => panic!("{error}\n{}", yaml(&graph)),
        };
        let fates = &retrial.repetition.steps;
        for (fate, taken) in fates.iter().zip(&taken) {
            assert_eq!(fate.reason.is_none(), taken.is_some(), "{fate:?}, {change:?}\n{}", yaml(&graph));
        }
        let run = host.retry(&next, retrial, options()).unwrap();
        run.wait();
        let mut asked = BTreeSet::new();
        let book = server.0.lock().unwrap();
        let now = reference(&graph, inputs, &book.world, &taken, &items, &mut asked);
        // If everything is taken over, so is what `end` received.
        if taken.iter().any(Option::is_none) {
            check_end(&book, &graph, &now);
        }
        let calls: BTreeSet<_> = book.asked.keys().cloned().collect();
        assert_eq!(calls, asked, "nothing is asked again that is taken over\n{}", yaml(&graph));
        check_keys(&book, &mut past, &mut used, change.new_keys);
        drop(book);
        if dice.once_in(3) {
            // The next one repeats the same run as this one.
            (graph, inputs, past) = (before, former, known);
        } else {
            (records, workflow, ended) = (run.records().unwrap(), next, now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_retry_is_what_the_reference_says(bytes in prop::collection::vec(any::<u8>(), 30..200)) {
        rounds(&bytes);
    }
}
