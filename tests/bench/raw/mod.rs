//! The floor: the same calls, written from wasmtime's documentation with its own bindings, and
//! nothing around them.

use ::wfhost::guest::Profile;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, OperatorCost, PoolingAllocationConfig, Store};

wasmtime::component::bindgen!({
    path: "wit",
    world: "process",
    exports: { default: async },
});

use self::wfhost::process::{host, types};
use exports::wfhost::process::guest::{Event, Payload};

/// How a slot of the pool is treated when its instance is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slots {
    /// A part of it is zeroed and stays resident, as in our engine.
    AsOurs,
    /// All of it is returned to the kernel, wasmtime's default.
    ByDefault,
}

/// How long a guest may run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metering {
    /// For ever: nothing is counted.
    None,
    /// Until an epoch ends, which never does here.
    Epochs,
    /// As long as its fuel.
    Fuel,
    /// As long as its fuel; it yields after each slice of it.
    Slices,
}

/// A component, ready to be instantiated.
pub(crate) struct Raw {
    engine: Engine,
    metering: Metering,
    pre: ProcessPre<()>,
}

/// An instance.
pub(crate) struct Live {
    store: Store<()>,
    process: Process,
}

const SLICE_FUEL: u64 = 1_000_000;
/// More than any step of a bench takes.
pub(crate) const FUEL: u64 = 10_000_000_000;

impl Raw {
    pub(crate) fn new(profile: Profile, slots: Slots, bytes: &[u8]) -> Self {
        Self::metered(profile, slots, Metering::Slices, bytes)
    }

    pub(crate) fn metered(profile: Profile, slots: Slots, metering: Metering, bytes: &[u8]) -> Self {
        let mut cost = OperatorCost::new();
        cost.variable.memory_grow_per_page = 255;
        let mut config = Config::new();
        config
            .consume_fuel(matches!(metering, Metering::Fuel | Metering::Slices))
            .epoch_interruption(metering == Metering::Epochs)
            .operator_cost(cost)
            .cranelift_nan_canonicalization(true)
            .relaxed_simd_deterministic(true)
            .wasm_memory64(false)
            .generate_address_map(false)
            .native_unwind_info(false)
            .max_wasm_stack(512 << 10)
            .async_stack_size(640 << 10);
        if profile == Profile::Dense {
            config.memory_reservation(64 << 20).memory_guard_size(64 << 10);
        }
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(64)
            .total_core_instances(64)
            .total_memories(64)
            .total_tables(64)
            .total_stacks(64)
            .max_memory_size(if profile == Profile::Dense { 64 << 20 } else { 4 << 30 });
        if slots == Slots::AsOurs {
            pool.linear_memory_keep_resident(64 << 10).async_stack_keep_resident(16 << 10).pagemap_scan(Enabled::Auto);
        }
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config).expect("an engine");
        let component = Component::from_binary(&engine, bytes).expect("a component");
        let mut linker = Linker::new(&engine);
        host::add_to_linker::<(), HasSelf<()>>(&mut linker, |data| data).expect("a linker");
        let pre = ProcessPre::new(linker.instantiate_pre(&component).expect("imports")).expect("exports");
        Self { engine, metering, pre }
    }
}

impl Live {
    pub(crate) fn new(raw: &Raw) -> Self {
        let mut store = Store::new(&raw.engine, ());
        match raw.metering {
            Metering::None => {}
            Metering::Epochs => store.set_epoch_deadline(1),
            Metering::Fuel | Metering::Slices => store.set_fuel(FUEL).expect("fuel"),
        }
        if raw.metering == Metering::Slices {
            store.fuel_async_yield_interval(Some(SLICE_FUEL)).expect("fuel");
        }
        let process = finish(raw.pre.instantiate_async(&mut store)).expect("an instance");
        Self { store, process }
    }

    pub(crate) fn init(&mut self) {
        let guest = self.process.wfhost_process_guest();
        let input = Payload::Json("null".into());
        finish(guest.call_init(&mut self.store, "run", &input)).expect("a call").expect("agreement");
    }

    pub(crate) fn step(&mut self, tag: u64, answer: &str) {
        self.store.set_fuel(FUEL).expect("fuel");
        let answer = Ok(Payload::Json(answer.into()));
        let event = Event::Completed(types::Completion { tag, answer });
        let guest = self.process.wfhost_process_guest();
        let outcome = finish(guest.call_step(&mut self.store, &[event])).expect("a call");
        assert_eq!(outcome.commands[0].tag, tag + 1);
    }

    /// The one call of a guest that wants nothing, or one of many.
    pub(crate) fn call_once(&mut self) {
        if self.store.get_fuel().is_ok() {
            self.store.set_fuel(FUEL).expect("fuel");
        }
        let guest = self.process.wfhost_process_guest();
        std::hint::black_box(finish(guest.call_step(&mut self.store, &[])).expect("a call"));
    }
}

impl Live {
    pub(crate) fn close(&mut self) {
        let guest = self.process.wfhost_process_guest();
        finish(guest.call_close(&mut self.store)).expect("a call");
    }
}

impl types::Host for () {}

impl host::Host for () {
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

/// Polls a future that is ready at once, or has used up a slice.
pub(crate) fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}
