//! A step may return more than fits into one part, and each part is committed separately: a run
//! that is cut between two of them continues with the next.

use crate::support::{builder, outputs, parse};
use crate::wat_guest;
use serde_json::Map;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use wfhost::dispatch::{CallContext, Declaration, from_inline_fn};
use wfhost::host::{Host, RunOptions};
use wfhost::journal::NewRun;
use wfhost::process::{Pid, Tag, Timestamp};
use wfhost::run::{Decision, News, Record};

/// Three parts each: 256 calls are one, and so are 64 spawns.
const CALLS: usize = 600;
const SPAWNS: usize = 130;

/// The caller of each call, its tag, and its idempotency key.
type Calls = Vec<(Pid, Tag, Arc<str>)>;

/// A component in the tests' folder that makes all calls in its first step, and completes when each
/// has been answered.
fn caller() -> PathBuf {
    let fields = [(16, "(i32.const 128)"), (20, "(i32.const 5)"), (32, "(i32.const 136)"), (36, "(i32.const 4)")];
    let commands = wat_guest::commands(2048, CALLS, wat_guest::CALL, &fields);
    let core = wat_guest::module(&format!(
        r#"
        (data (i32.const 128) "count")
        (data (i32.const 136) "null")
        (global $left (mut i32) (i32.const {CALLS}))
        {commands}
        (func $step (param i32 i32) (result i32)
            (if (i32.eqz (local.get 1)) (then
                (drop (memory.grow (i32.const 2))) ;; room for the answers
                (call $commands)
                (i32.store8 (i32.const 1024) (i32.const 1)) ;; blocked
                (return (i32.const 1024))))
            (i32.store (i32.const 1108) (i32.const 0))
            (global.set $left (i32.sub (global.get $left) (local.get 1)))
            (if (i32.eqz (global.get $left)) (then
                (i32.store8 (i32.const 1024) (i32.const 3)) ;; complete
                (i32.store (i32.const 1040) (i32.const 136))
                (i32.store (i32.const 1044) (i32.const 4))))
            (i32.const 1024))
        "#
    ));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("caller-in-parts.wasm");
    std::fs::write(&path, wat_guest::component("process", &core)).unwrap();
    path
}

/// A host, and the calls that its handler has received.
fn host(folder: &Path) -> (Host, Arc<Mutex<Calls>>) {
    let calls = Arc::<Mutex<Calls>>::default();
    let seen = Arc::clone(&calls);
    let declaration = Declaration::new("Counts its calls").repeatable();
    let count = from_inline_fn(declaration, move |args, context: CallContext| {
        seen.lock().unwrap().push((context.pid(), context.tag(), Arc::clone(context.idempotency_key())));
        Ok(args)
    });
    (builder(2, 8).data(folder).handler("count", count).build().unwrap(), calls)
}

fn options(id: &str) -> RunOptions {
    RunOptions { id: Some(id.to_owned()), ..RunOptions::default() }
}

/// All decisions, in order.
fn decided(records: &[Record]) -> Vec<(Pid, Tag, Decision)> {
    let mut all = Vec::new();
    for record in records {
        let Record::Stepped(stepped) = record else { continue };
        let decided = stepped.decided.iter();
        all.extend(decided.map(|decided| (stepped.pid, decided.command.tag, decided.decision.clone())));
    }
    all
}

fn is_answer(record: &Record, call: (Pid, Tag)) -> bool {
    let Record::Arrived(arrived) = record else { return false };
    matches!(&arrived.news, News::Answered { pid, tag, .. } if (*pid, *tag) == call)
}

/// Whether steps that only give a further part take no events.
fn parts_take_nothing(records: &[Record]) -> bool {
    let mut owing = BTreeSet::new();
    records.iter().all(|record| {
        let Record::Stepped(stepped) = record else { return true };
        let is_part = if stepped.owes { !owing.insert(stepped.pid) } else { owing.remove(&stepped.pid) };
        !is_part || stepped.took == 0
    })
}

#[test]
fn a_run_that_is_cut_between_two_parts_of_a_step_does_everything_once() {
    let text = format!(
        "{{ components: {{ caller: \"{}\" }},
            steps: [{{ id: calls, uses: caller }},
                    {{ id: spawns, uses: ./conformance-rust.wasm, entry: spawn, with: {{ n: {SPAWNS} }}, needs: calls }}],
            outputs: {{ spawns: \"${{ .steps.spawns.output }}\" }} }}",
        caller().display()
    );
    let folder = tempfile::tempdir().unwrap();
    let (first, seen) = host(folder.path());
    let whole = first.start(&parse(&first, &text), Map::new(), options("whole")).unwrap().wait();
    let outputs_of_whole = outputs(&whole);
    assert_eq!(seen.lock().unwrap().len(), CALLS);
    let store = first.journal().unwrap().unwrap().store();
    store.flush().unwrap();
    let (name, manifest) = ("".into(), store.manifest("whole").unwrap().unwrap());
    let new = NewRun {
        id: "whole".into(),
        name,
        created: Timestamp(1),
        manifest,
        components: Vec::new(),
        ..NewRun::default()
    };
    let bytes = store.records("whole").unwrap();
    let records = Record::decode_all(bytes.clone()).unwrap();
    let decided_of_whole = decided(&records);
    assert_eq!(decided_of_whole.len(), CALLS + SPAWNS + 2, "the workflow spawns both guests");

    let first_answer = records.iter().position(|record| is_answer(record, (Pid(2), Tag(1)))).unwrap();
    let owes = |at: &usize| matches!(&records[at - 1], Record::Stepped(stepped) if stepped.owes);
    let cuts: Vec<usize> = (1..records.len()).filter(owes).collect();
    assert_eq!(cuts.len(), 4, "each of the two steps has three parts");
    for at in cuts {
        // What a host leaves that is killed after this part, when the first call has been answered.
        let mut left: Vec<usize> = (0..at).collect();
        left.extend((first_answer >= at).then_some(first_answer));
        let folder = tempfile::tempdir().unwrap();
        let (second, seen) = host(folder.path());
        let store = second.journal().unwrap().unwrap().store();
        let mut log = store.begin(&new).unwrap();
        for record in &left {
            let _ = log.append(&bytes[*record]);
        }
        drop(log);
        store.flush().unwrap();

        let workflow = parse(&second, &text);
        let outcome = second.recover(&workflow, "whole", options("whole")).unwrap().wait();
        assert_eq!(outputs(&outcome), outputs_of_whole, "cut at {at}");
        store.flush().unwrap();
        let records_of_cut = Record::decode_all(store.records("whole").unwrap()).unwrap();
        assert_eq!(decided(&records_of_cut), decided_of_whole, "cut at {at}");
        assert!(parts_take_nothing(&records_of_cut), "cut at {at}");
        assert!(second.rebuild(&workflow, &records_of_cut).unwrap().is_finished(), "cut at {at}");
        let is_answered = |call| left.iter().any(|record| is_answer(&records[*record], call));
        let unanswered: Calls = decided_of_whole
            .iter()
            .filter(|(pid, tag, _)| !is_answered((*pid, *tag)))
            .filter_map(|(pid, tag, decision)| match decision {
                Decision::Called(key) => Some((*pid, *tag, Arc::clone(key))),
                _ => None,
            })
            .collect();
        let mut seen = seen.lock().unwrap();
        seen.sort_unstable();
        assert_eq!(*seen, unanswered, "cut at {at}: what had no answer is called, each once and with its key");
    }
}
