//! The cost of evicting and restoring a guest, against making a new one (instantiate, `init`, one
//! step) and against replaying what it did: 10, 100 and 1,000 steps. And the bytes of whole
//! snapshots against those of increments. In Rust and C, and in JavaScript and Python if those
//! guests are built.

use super::compare;
use super::increments::Pages;
use super::raw::exports::wfhost::process::guest::{Event, Payload};
use super::raw::wfhost::process::{host, types};
use super::raw::{Process, ProcessPre, finish};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::PathBuf;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};
use wfhost::guest::snapshot::{Handles, Search, Snapshot, SnapshotView, Template};

/// Few, so that a round is short compared with the time slices of the kernel.
const PER_ROUND: u32 = 5;

const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// A guest, and the events that it is stepped with.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    folder: &'static str,
    entry: &'static str,
    receives_answers: bool,
}

/// Steps of the longest history.
const STEPS_MAX: u32 = 1_000;

/// Increments are measured after this many steps, and after all of them,
const LESS: u32 = 401;
/// and each from snapshots this many steps earlier.
const APART: [u32; 4] = [1, 10, 100, 400];

const CASES: [Case; 6] = [
    Case { name: "counter", folder: "built", entry: "run", receives_answers: false },
    Case { name: "counter-c", folder: "built", entry: "run", receives_answers: false },
    // The first step asks for 1,000 sleeps; each of the others receives an answer and stores its
    // tag.
    Case { name: "conformance-js", folder: "built-on-demand", entry: "concurrent", receives_answers: true },
    Case { name: "conformance-py", folder: "built-on-demand", entry: "concurrent", receives_answers: true },
    // These receive messages and store nothing: the least that the languages' own heaps take.
    Case { name: "conformance-js", folder: "built-on-demand", entry: "ponger", receives_answers: false },
    Case { name: "conformance-py", folder: "built-on-demand", entry: "ponger", receives_answers: false },
];

/// Prints the figures of guests, by the number of their steps and the size of their heap.
pub(crate) fn snapshots() {
    for case in CASES {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("guests").join(case.folder);
        let Ok(bytes) = std::fs::read(path.join(case.name).with_extension("wasm")) else {
            println!("{}: not built", case.name);
            continue;
        };
        let rig = Rig::new(&bytes, case);
        // The input of the others does not set the size of the heap.
        let all = if case.entry == "run" { &[(1, 1), (100, 1), (100, 8_192)][..] } else { &[(100, 1)] };
        for (steps, words) in all {
            rig.figures(*steps, *words);
        }
        rig.replays();
        rig.increments();
    }
}

struct Data;

impl SnapshotView for Data {
    fn host_calls_at_start(&self) -> u64 {
        0
    }
}

/// A component on a pool, and its template.
struct Rig {
    engine: Engine,
    pre: ProcessPre<Data>,
    template: Template,
    case: Case,
}

struct Live {
    store: Store<Data>,
    process: Process,
    case: Case,
    steps: u32,
}

impl Rig {
    fn new(bytes: &[u8], case: Case) -> Self {
        let config = || {
            let mut config = Config::new();
            config.consume_fuel(true).concurrency_support(false).cranelift_nan_canonicalization(true);
            config
        };
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(16).total_core_instances(640).total_memories(32).total_tables(640);
        pool.max_tables_per_component(64).table_elements(20_000).max_core_instance_size(1 << 20);
        pool.max_component_instance_size(1 << 20).max_core_instances_per_component(64);
        pool.total_stacks(16).max_memory_size(4 << 30);
        let engine = Engine::new(config().allocation_strategy(InstanceAllocationStrategy::Pooling(pool)));
        let engine = engine.expect("an engine");
        let probes = Engine::new(config().coredump_on_trap(true)).expect("an engine");
        let template =
            Template::probe(pre(&probes, bytes).instance_pre(), blake3::hash(bytes).into(), || Ok(store(&probes)));
        Self { pre: pre(&engine, bytes), engine, template: template.expect("it fits"), case }
    }

    fn instance(&self) -> Live {
        let mut store = store(&self.engine);
        let process = finish(self.pre.instantiate_async(&mut store)).expect("an instance");
        Live { store, process, case: self.case, steps: 0 }
    }

    /// What the floor does.
    fn begun(&self, words: u32) -> Live {
        let mut live = self.instance();
        let input = if self.case.receives_answers {
            format!("{{\"n\":{STEPS_MAX}}}")
        } else {
            format!("{{\"words\":{words}}}")
        };
        let input = Payload::Json(input);
        let init = live.process.wfhost_process_guest().call_init(&mut live.store, self.case.entry, &input);
        finish(init).expect("a call").expect("agreement");
        live.step();
        live
    }

    fn restored(&self, packed: &[u8], steps: u32) -> (Live, Handles) {
        let mut live = Live { steps, ..self.instance() };
        let handles = self.template.bind(&mut live.store).expect("the same component");
        let snapshot = self.template.unpack(packed, MEMORY_BYTES_MAX).expect("a snapshot");
        self.template.restore(&mut live.store, &handles, &snapshot).expect("it fits");
        (live, handles)
    }

    fn take(&self, live: &mut Live, handles: &Handles) -> Snapshot {
        self.template.take(&mut live.store, handles, Search::Auto).expect("a snapshot")
    }

    /// Restores a guest that has made this many steps, from its snapshot and by replaying them.
    fn replays(&self) {
        for steps in [10, 100, STEPS_MAX - 1] {
            let mut live = self.begun(1);
            (1..steps).for_each(|_| live.step());
            let handles = self.template.bind(&mut live.store).expect("the same component");
            let packed = self.template.pack(&self.take(&mut live, &handles)).expect("it packs");
            println!("{} {}, {steps} steps: {} bytes", self.case.name, self.case.entry, packed.len());
            compare(
                "  unpack, restore: against replaying",
                1,
                || drop(black_box(self.restored(&packed, steps))),
                || {
                    let mut live = self.begun(1);
                    (1..steps).for_each(|_| live.step());
                    black_box(&live.steps);
                },
            );
        }
    }

    /// Bytes of a whole snapshot, and of an increment from one this many steps earlier.
    fn increments(&self) {
        let last = STEPS_MAX - 1;
        let mut live = self.begun(1);
        let handles = self.template.bind(&mut live.store).expect("the same component");
        let mut packed = BTreeMap::new();
        for step in 1..=last {
            if APART.iter().any(|apart| [last - apart, LESS - apart].contains(&step)) || [LESS, last].contains(&step) {
                packed.insert(step, self.template.pack(&self.take(&mut live, &handles)).expect("it packs"));
            }
            live.step();
        }
        for step in [LESS, last] {
            let whole = &packed[&step];
            let now = Pages::of(whole);
            let Case { name, entry, .. } = self.case;
            print!("{name} {entry}, {step} steps: whole {} bytes, {} pages;", whole.len(), now.count());
            for apart in APART {
                let (bytes, changed) = now.increment(&Pages::of(&packed[&(step - apart)]));
                let ratio = bytes as f64 / whole.len() as f64;
                print!(" since {apart} before: {bytes} bytes, {changed} pages, {ratio:.2} x;");
            }
            println!();
        }
    }

    fn figures(&self, steps: u32, words: u32) {
        let Case { name, entry, .. } = self.case;
        let mut live = self.begun(words);
        (1..steps).for_each(|_| live.step());
        let handles = self.template.bind(&mut live.store).expect("the same component");
        let snapshot = self.take(&mut live, &handles);
        let packed = self.template.pack(&snapshot).expect("it packs");
        let case = format!("{name} {entry}, {steps} steps, {words} words");
        println!("{case}: {} pages, {} bytes kept of {}", snapshot.pages(), packed.len(), snapshot.memory_bytes());
        let new = || drop(black_box(self.begun(words)));
        compare("  take", PER_ROUND, || drop(black_box(self.take(&mut live, &handles))), new);
        compare("  pack", PER_ROUND, || drop(black_box(self.template.pack(&snapshot))), new);
        compare("  unpack", PER_ROUND, || drop(black_box(self.template.unpack(&packed, MEMORY_BYTES_MAX))), new);
        compare(
            "  take, pack, drop, restore, step",
            PER_ROUND,
            || {
                let (mut live, handles) = self.restored(&packed, steps);
                live.step();
                black_box(self.template.pack(&self.take(&mut live, &handles)).expect("it packs"));
            },
            new,
        );
        compare("  restore, step", PER_ROUND, || self.restored(&packed, steps).0.step(), new);
    }
}

impl Live {
    fn step(&mut self) {
        let event = if self.case.receives_answers {
            // The first step asks; then the answers come one after the other.
            let completion =
                types::Completion { tag: self.steps.into(), answer: Ok(Payload::Json("\"x\"".to_owned())) };
            (self.steps > 0).then_some(Event::Completed(completion))
        } else {
            let sender = types::Sender::Outside("bench".into());
            Some(Event::Message(types::Message { sender, topic: "more".into(), body: Payload::Bytes(vec![7; 32]) }))
        };
        self.steps += 1;
        self.store.set_fuel(1_000_000_000).expect("fuel");
        let events: Vec<Event> = event.into_iter().collect();
        let step = self.process.wfhost_process_guest().call_step(&mut self.store, &events);
        black_box(finish(step).expect("a call"));
    }
}

fn store(engine: &Engine) -> Store<Data> {
    let mut store = Store::new(engine, Data);
    store.set_fuel(1_000_000_000).expect("fuel");
    store
}

fn pre(engine: &Engine, bytes: &[u8]) -> ProcessPre<Data> {
    let component = Component::from_binary(engine, bytes).expect("a component");
    let mut linker = Linker::new(engine);
    host::add_to_linker::<_, HasSelf<_>>(&mut linker, |data: &mut Data| data).expect("a linker");
    ProcessPre::new(linker.instantiate_pre(&component).expect("imports")).expect("exports")
}

impl types::Host for Data {}

impl host::Host for Data {
    fn log(&mut self, _: host::Level, _: String, _: Option<String>) {}

    fn whoami(&mut self) -> host::Identity {
        host::Identity { run: String::new(), pid: 1, next_tag: 1 }
    }

    fn now(&mut self) -> u64 {
        0
    }

    fn random(&mut self, _: u32) -> Vec<u8> {
        Vec::new()
    }
}
