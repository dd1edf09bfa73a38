//! Runs a small component step by step, on a pool, and takes snapshots of it.

use crate::guest::poll::block_on;
use crate::guest::snapshot::{Handles, Search, Snapshot, SnapshotView, Template, Unfit};
use crate::process::{Pid, Random};
use wasmtime::component::{Component, Instance, InstancePre, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};

/// Enough for any step here, and the same before each.
pub(super) const FUEL: u64 = 10_000_000;

/// Holds the largest guest here: a stack of 16 MiB, in C.
pub(super) const MEMORY_BYTES_MAX: u64 = 32 << 20;

pub(super) const STEPS: usize = 1_000;
const SNAPSHOTS: usize = 20;

/// Random bytes for each step.
pub(super) fn inputs(seed: u8) -> Vec<[u8; 8]> {
    let mut random = Random::new(&[seed; 32], Pid(1));
    let mut input = [0; 8];
    let next = |_| {
        random.fill(&mut input);
        input
    };
    (0..STEPS).map(next).collect()
}

/// Step numbers in order: the first, the last, and random ones between.
pub(super) fn points(seed: u8) -> Vec<usize> {
    let mut random = Random::new(&[seed; 32], Pid(2));
    let mut points = vec![0, STEPS];
    for _ in 0..SNAPSHOTS {
        let mut number = [0; 8];
        random.fill(&mut number);
        points.push((u64::from_le_bytes(number) % STEPS as u64) as usize);
    }
    points.sort_unstable();
    points.dedup();
    points
}

#[derive(Default)]
pub(super) struct Data {
    started: bool,
    calls_at_start: u64,
}

impl SnapshotView for Data {
    fn host_calls_at_start(&self) -> u64 {
        self.calls_at_start
    }
}

pub(super) struct Rig {
    engine: Engine,
    pre: InstancePre<Data>,
    pub(super) template: Template,
}

/// A live instance.
pub(super) struct Guest {
    pub(super) store: Store<Data>,
    pub(super) handles: Handles,
    pub(super) instance: Instance,
}

pub(super) fn config() -> Config {
    let mut config = Config::new();
    config.consume_fuel(true).concurrency_support(false);
    config
}

pub(super) type Offer = fn(&mut Linker<Data>);

fn pre(engine: &Engine, bytes: &[u8], offer: Offer) -> InstancePre<Data> {
    let component = Component::new(engine, bytes).expect("it compiles");
    let mut linker = Linker::new(engine);
    offer(&mut linker);
    linker.instantiate_pre(&component).expect("all imports are offered")
}

fn offer_ask(linker: &mut Linker<Data>) {
    let mut root = linker.root();
    root.func_wrap("ask", |mut store, (): ()| {
        let data: &mut Data = store.data_mut();
        if !data.started {
            data.calls_at_start += 1;
        }
        Ok((7_u32,))
    })
    .expect("the name is free");
}

fn store(engine: &Engine) -> Store<Data> {
    let mut store = Store::new(engine, Data::default());
    store.set_fuel(FUEL).expect("fuel is counted");
    store
}

pub(super) fn probe(wat: &str) -> Result<Template, Unfit> {
    probe_bytes(&wat::parse_str(wat).expect("the text is well-formed"), offer_ask)
}

pub(super) fn probe_bytes(bytes: &[u8], offer: Offer) -> Result<Template, Unfit> {
    let engine = Engine::new(config().coredump_on_trap(true)).expect("an engine");
    Template::probe(&pre(&engine, bytes, offer), blake3::hash(bytes).into(), || Ok(store(&engine)))
}

impl Rig {
    pub(super) fn new(wat: &str) -> Self {
        Self::of(&wat::parse_str(wat).expect("the text is well-formed"), offer_ask)
    }

    pub(super) fn of(bytes: &[u8], offer: Offer) -> Self {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(4).total_core_instances(64).total_memories(8).total_tables(64).total_stacks(4);
        pool.max_memories_per_component(4).max_tables_per_component(16).max_memory_size(MEMORY_BYTES_MAX as usize);
        pool.max_component_instance_size(1 << 20).max_core_instance_size(1 << 20);
        let mut config = config();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool)).memory_reservation(MEMORY_BYTES_MAX);
        let engine = Engine::new(&config).expect("a pool this small always fits");
        let template = probe_bytes(bytes, offer).expect("the component fits");
        Self { pre: pre(&engine, bytes, offer), engine, template }
    }

    /// A fresh instance.
    pub(super) fn guest(&self) -> Guest {
        let mut store = store(&self.engine);
        let instance = block_on(self.pre.instantiate_async(&mut store)).expect("it instantiates");
        store.data_mut().started = true;
        let handles = self.template.bind(&mut store).expect("it is this component");
        Guest { store, handles, instance }
    }

    pub(super) fn take(&self, guest: &mut Guest) -> Snapshot {
        self.template.take(&mut guest.store, &guest.handles, Search::CrossCheck).expect("a snapshot")
    }

    pub(super) fn restored(&self, snapshot: &Snapshot) -> Guest {
        let mut guest = self.guest();
        self.template.restore(&mut guest.store, &guest.handles, snapshot).expect("it fits");
        guest
    }
}

impl Guest {
    /// One step: its output, and the fuel that it took.
    pub(super) fn step(&mut self, input: &[u8]) -> (Vec<u8>, u64) {
        let step = self.instance.get_typed_func::<(Vec<u8>,), (Vec<u8>,)>(&mut self.store, "step");
        let step = step.expect("it exports step");
        self.store.set_fuel(FUEL).expect("fuel is counted");
        let (output,) = block_on(step.call_async(&mut self.store, (input.to_vec(),))).expect("a step without a trap");
        (output, FUEL - self.store.get_fuel().expect("fuel is counted"))
    }
}
