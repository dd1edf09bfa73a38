//! What it costs to evict a guest and take it up again, against making a new one: instantiate, `init`, one step.

use super::compare;
use super::raw::exports::wfhost::process::guest::{Event, Payload};
use super::raw::wfhost::process::{host, types};
use super::raw::{Process, ProcessPre, finish};
use std::hint::black_box;
use std::path::PathBuf;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};
use wfhost::guest::snapshot::{Handles, Search, Snapshot, SnapshotView, Template};

/// Few, so that a round is short against what the kernel gives a thread at a time.
const PER_ROUND: u32 = 5;

const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Prints the figures of guests in `guests/built`, by how many steps they have made and how large a heap they keep.
pub(crate) fn snapshots() {
    for name in ["counter", "counter-c"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("guests/built").join(format!("{name}.wasm"));
        let rig = Rig::new(&std::fs::read(&path).expect("a built guest"));
        for (steps, words) in [(1, 1), (100, 1), (100, 8_192)] {
            rig.figures(name, steps, words);
        }
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
}

struct Live {
    store: Store<Data>,
    process: Process,
}

impl Rig {
    fn new(bytes: &[u8]) -> Self {
        let config = || {
            let mut config = Config::new();
            config.consume_fuel(true).concurrency_support(false).cranelift_nan_canonicalization(true);
            config
        };
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(64).total_core_instances(64).total_memories(64).total_tables(64);
        pool.total_stacks(64).max_memory_size(4 << 30);
        let engine = Engine::new(config().allocation_strategy(InstanceAllocationStrategy::Pooling(pool)));
        let engine = engine.expect("an engine");
        let probes = Engine::new(config().coredump_on_trap(true)).expect("an engine");
        let template =
            Template::probe(pre(&probes, bytes).instance_pre(), blake3::hash(bytes).into(), || Ok(store(&probes)));
        Self { pre: pre(&engine, bytes), engine, template: template.expect("it fits") }
    }

    fn instance(&self) -> Live {
        let mut store = store(&self.engine);
        let process = finish(self.pre.instantiate_async(&mut store)).expect("an instance");
        Live { store, process }
    }

    /// What the floor does.
    fn begun(&self, words: u32) -> Live {
        let mut live = self.instance();
        let input = Payload::Json(format!("{{\"words\":{words}}}"));
        let init = live.process.wfhost_process_guest().call_init(&mut live.store, "run", &input);
        finish(init).expect("a call").expect("agreement");
        live.step();
        live
    }

    fn restored(&self, packed: &[u8]) -> (Live, Handles) {
        let mut live = self.instance();
        let handles = self.template.bind(&mut live.store).expect("the same component");
        let snapshot = self.template.unpack(packed, MEMORY_BYTES_MAX).expect("a snapshot");
        self.template.restore(&mut live.store, &handles, &snapshot).expect("it fits");
        (live, handles)
    }

    fn take(&self, live: &mut Live, handles: &Handles) -> Snapshot {
        self.template.take(&mut live.store, handles, Search::Auto).expect("a snapshot")
    }

    fn figures(&self, name: &str, steps: u32, words: u32) {
        let mut live = self.begun(words);
        (1..steps).for_each(|_| live.step());
        let handles = self.template.bind(&mut live.store).expect("the same component");
        let snapshot = self.take(&mut live, &handles);
        let packed = self.template.pack(&snapshot).expect("it packs");
        let case = format!("{name}, {steps} steps, {words} words");
        println!("{case}: {} pages, {} bytes kept of {}", snapshot.pages(), packed.len(), snapshot.memory_bytes());
        let new = || drop(black_box(self.begun(words)));
        compare("  take", PER_ROUND, || drop(black_box(self.take(&mut live, &handles))), new);
        compare("  pack", PER_ROUND, || drop(black_box(self.template.pack(&snapshot))), new);
        compare("  unpack", PER_ROUND, || drop(black_box(self.template.unpack(&packed, MEMORY_BYTES_MAX))), new);
        compare(
            "  take, pack, drop, restore, step",
            PER_ROUND,
            || {
                let (mut live, handles) = self.restored(&packed);
                live.step();
                black_box(self.template.pack(&self.take(&mut live, &handles)).expect("it packs"));
            },
            new,
        );
        compare("  restore, step", PER_ROUND, || self.restored(&packed).0.step(), new);
    }
}

impl Live {
    fn step(&mut self) {
        let sender = types::Sender::Outside("bench".into());
        let message = types::Message { sender, topic: "more".into(), body: Payload::Bytes(vec![7; 32]) };
        self.store.set_fuel(1_000_000_000).expect("fuel");
        let events = [Event::Message(message)];
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
