//! The same lock-step test for guests in Rust and C, through the contract.

use super::rig::{Data, FUEL, Guest, MEMORY_BYTES_MAX, Rig, STEPS, inputs, points};
use crate::guest::poll::block_on;
use crate::guest::snapshot::check;
use std::path::PathBuf;
use wasmtime::component::{HasSelf, Linker};

mod contract {
    // Generated code is not ours to document.
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
    wasmtime::component::bindgen!({ path: "wit", world: "process", exports: { default: async } });
}

use contract::Process;
use contract::wfhost::process::host;
use contract::wfhost::process::types::{self, Event, Message, Payload, Sender};

impl types::Host for Data {}

impl host::Host for Data {
    fn log(&mut self, _level: host::Level, _text: String, _fields: Option<String>) {}

    fn whoami(&mut self) -> host::Identity {
        host::Identity { run: "run".into(), pid: 1, next_tag: 1 }
    }

    fn now(&mut self) -> u64 {
        1_000_000
    }

    fn random(&mut self, len: u32) -> Vec<u8> {
        vec![4; len as usize]
    }
}

fn offer(linker: &mut Linker<Data>) {
    Process::add_to_linker::<_, HasSelf<_>>(linker, |data| data).expect("the names are free");
}

fn built(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("guests/built").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

struct Stepped {
    guest: Guest,
    process: Process,
}

impl Stepped {
    fn of(mut guest: Guest) -> Self {
        let process = Process::new(&mut guest.store, &guest.instance).expect("it exports the contract");
        Self { guest, process }
    }

    /// Starts a counter with a heap of this many numbers.
    fn init(mut self, words: u32) -> Self {
        let input = Payload::Json(format!("{{\"words\": {words}}}"));
        self.guest.store.set_fuel(FUEL).expect("fuel is counted");
        let init = self.process.wfhost_process_guest().call_init(&mut self.guest.store, "run", &input);
        block_on(init).expect("no trap").expect("no problem");
        self
    }

    /// Steps with some bytes as a message. Returns what the step gives, and its fuel.
    fn step(&mut self, input: &[u8]) -> (String, u64) {
        let sender = Sender::Outside("test".into());
        let message = Message { sender, topic: "more".into(), body: Payload::Bytes(input.to_vec()) };
        let events = [Event::Message(message)];
        let store = &mut self.guest.store;
        store.set_fuel(FUEL).expect("fuel is counted");
        let step = self.process.wfhost_process_guest().call_step(&mut *store, &events);
        let outcome = block_on(step).expect("no trap");
        (format!("{outcome:?}"), FUEL - store.get_fuel().expect("fuel is counted"))
    }
}

fn lockstep(name: &str) {
    let bytes = built(name);
    let verdict = check(&bytes).expect("a component");
    assert!(verdict.snapshottable(), "{:?}", verdict.refusals);
    let rig = Rig::of(&bytes, offer);
    let (inputs, points) = (inputs(11), points(11));
    let mut whole = Stepped::of(rig.guest()).init(2_000);
    let mut snapshots = Vec::new();
    let mut expected = Vec::new();
    for (n, input) in inputs.iter().enumerate() {
        if points.contains(&n) {
            let packed = rig.template.pack(&rig.take(&mut whole.guest)).expect("it packs");
            snapshots.push((n, packed));
        }
        expected.push(whole.step(input));
    }
    assert_ne!(expected[STEPS - 1].0, expected[STEPS - 2].0, "the outputs are meant to depend on the state");
    let end = rig.take(&mut whole.guest);
    for (n, packed) in snapshots {
        let snapshot = rig.template.unpack(&packed, MEMORY_BYTES_MAX).expect("it unpacks");
        let mut restored = Stepped::of(rig.restored(&snapshot));
        for (input, expected) in inputs.iter().zip(&expected).skip(n) {
            assert_eq!(restored.step(input), *expected, "{name}, after a snapshot before step {n}");
        }
        assert_eq!(rig.take(&mut restored.guest).digest(), end.digest(), "{name}, snapshot before step {n}");
    }
}

#[test]
fn a_guest_in_rust() {
    lockstep("counter.wasm");
}

#[test]
fn a_guest_in_c() {
    lockstep("counter-c.wasm");
}

/// What is stored of a dormant guest is what it has changed, not its whole memory.
#[test]
fn a_dormant_guest_is_small() {
    for name in ["counter.wasm", "counter-c.wasm"] {
        let rig = Rig::of(&built(name), offer);
        let mut stepped = Stepped::of(rig.guest()).init(1);
        stepped.step(b"hello");
        let snapshot = rig.take(&mut stepped.guest);
        let packed = rig.template.pack(&snapshot).expect("it packs");
        assert!(packed.len() < 2_000, "{name}: {} bytes", packed.len());
        assert!(snapshot.memory_bytes() > 100 * packed.len() as u64, "{name}: {} bytes", snapshot.memory_bytes());
    }
}

#[test]
fn every_guest_of_the_examples_fits() {
    let mut seen = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/guests/built")).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let verdict = check(&std::fs::read(&path).expect("it can be read")).expect("a component");
            assert!(verdict.snapshottable(), "{}: {:?}", path.display(), verdict.refusals);
            seen += 1;
        }
    }
    assert!(seen > 5);
}
