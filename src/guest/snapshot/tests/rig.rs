//! Runs a small component step by step, on a pool, and takes snapshots of it.

use crate::guest::snapshot::ready::finish;
use crate::guest::snapshot::{Handles, Search, Snapshot, SnapshotView, Template, Unfit};
use wasmtime::component::{Component, InstancePre, Linker, TypedFunc};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};

/// Enough for any step here, and the same before each.
pub(super) const FUEL: u64 = 10_000_000;

pub(super) const MEMORY_BYTES_MAX: u64 = 2 << 20;

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
    step: Step,
}

type Step = TypedFunc<(Vec<u8>,), (Vec<u8>,)>;

pub(super) fn config() -> Config {
    let mut config = Config::new();
    config.consume_fuel(true).concurrency_support(false);
    config
}

fn pre(engine: &Engine, bytes: &[u8]) -> InstancePre<Data> {
    let component = Component::new(engine, bytes).expect("it compiles");
    let mut linker = Linker::<Data>::new(engine);
    let mut root = linker.root();
    root.func_wrap("ask", |mut store, (): ()| {
        let data: &mut Data = store.data_mut();
        if !data.started {
            data.calls_at_start += 1;
        }
        Ok((7_u32,))
    })
    .expect("the name is free");
    linker.instantiate_pre(&component).expect("all imports are offered")
}

fn store(engine: &Engine) -> Store<Data> {
    let mut store = Store::new(engine, Data::default());
    store.set_fuel(FUEL).expect("fuel is counted");
    store
}

pub(super) fn probe(wat: &str) -> Result<Template, Unfit> {
    let bytes = wat::parse_str(wat).expect("the text is well-formed");
    let engine = Engine::new(config().coredump_on_trap(true)).expect("an engine");
    Template::probe(&pre(&engine, &bytes), blake3::hash(&bytes).into(), || Ok(store(&engine)))
}

impl Rig {
    pub(super) fn new(wat: &str) -> Self {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(4).total_core_instances(16).total_memories(8).total_tables(8).total_stacks(4);
        pool.max_memories_per_component(4).max_tables_per_component(4).max_memory_size(1 << 20);
        let mut config = config();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool)).memory_reservation(1 << 20);
        let engine = Engine::new(&config).expect("a pool this small always fits");
        let bytes = wat::parse_str(wat).expect("the text is well-formed");
        let template = probe(wat).expect("the component fits");
        Self { pre: pre(&engine, &bytes), engine, template }
    }

    /// A fresh instance.
    pub(super) fn guest(&self) -> Guest {
        let mut store = store(&self.engine);
        let instance = finish(self.pre.instantiate_async(&mut store)).expect("it instantiates");
        store.data_mut().started = true;
        let handles = self.template.bind(&mut store).expect("it is this component");
        let step = instance.get_typed_func(&mut store, "step").expect("it exports step");
        Guest { store, handles, step }
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
        self.store.set_fuel(FUEL).expect("fuel is counted");
        let (output,) =
            finish(self.step.call_async(&mut self.store, (input.to_vec(),))).expect("a step without a trap");
        (output, FUEL - self.store.get_fuel().expect("fuel is counted"))
    }
}
