//! Each interface, as a component of its first stable version imports it.

use super::{BlockingCall, INTERFACES, Wasi, WasiView, link};
use crate::guest::problem::Breach;
use crate::process::{Level, LogLine, Pid, Random, Timestamp, problem::kind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, Store};
use wit_component::{ComponentEncoder, StringEncoding};

/// Everything that a guest of these tests may import: of 0.2.0, the oldest version that is offered.
const WIT: &str = r"
package test:wasi;
world all {
    import wasi:clocks/wall-clock@0.2.0;
    import wasi:clocks/monotonic-clock@0.2.0;
    import wasi:random/random@0.2.0;
    import wasi:random/insecure@0.2.0;
    import wasi:random/insecure-seed@0.2.0;
    import wasi:cli/environment@0.2.0;
    import wasi:cli/exit@0.2.0;
    import wasi:cli/stdin@0.2.0;
    import wasi:cli/stdout@0.2.0;
    import wasi:cli/stderr@0.2.0;
    import wasi:cli/terminal-stdout@0.2.0;
    import wasi:filesystem/preopens@0.2.0;
    import wasi:sockets/instance-network@0.2.0;
    import wasi:sockets/ip-name-lookup@0.2.0;
    import wasi:sockets/tcp-create-socket@0.2.0;
    import wasi:sockets/udp-create-socket@0.2.0;
    import wasi:io/poll@0.2.0;
    import wasi:io/streams@0.2.0;
    export go: func() -> u64;
}
package wasi:io@0.2.0 {
    interface error { resource error; }
    interface poll {
        resource pollable { ready: func() -> bool; block: func(); }
        poll: func(in: list<borrow<pollable>>) -> list<u32>;
    }
    interface streams {
        use error.{error};
        use poll.{pollable};
        variant stream-error { last-operation-failed(error), closed }
        resource input-stream { blocking-read: func(len: u64) -> result<list<u8>, stream-error>; }
        resource output-stream {
            check-write: func() -> result<u64, stream-error>;
            write: func(contents: list<u8>) -> result<_, stream-error>;
            blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
            subscribe: func() -> pollable;
        }
    }
}
package wasi:clocks@0.2.0 {
    interface wall-clock { record datetime { seconds: u64, nanoseconds: u32 } now: func() -> datetime; }
    interface monotonic-clock {
        use wasi:io/poll@0.2.0.{pollable};
        type instant = u64;
        type duration = u64;
        now: func() -> instant;
        resolution: func() -> duration;
        subscribe-instant: func(when: instant) -> pollable;
        subscribe-duration: func(when: duration) -> pollable;
    }
}
package wasi:random@0.2.0 {
    interface random { get-random-bytes: func(len: u64) -> list<u8>; get-random-u64: func() -> u64; }
    interface insecure { get-insecure-random-u64: func() -> u64; }
    interface insecure-seed { insecure-seed: func() -> tuple<u64, u64>; }
}
package wasi:cli@0.2.0 {
    interface environment {
        get-environment: func() -> list<tuple<string, string>>;
        get-arguments: func() -> list<string>;
    }
    interface exit { exit: func(status: result); }
    interface stdin { use wasi:io/streams@0.2.0.{input-stream}; get-stdin: func() -> input-stream; }
    interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }
    interface stderr { use wasi:io/streams@0.2.0.{output-stream}; get-stderr: func() -> output-stream; }
    interface terminal-output { resource terminal-output; }
    interface terminal-stdout {
        use terminal-output.{terminal-output};
        get-terminal-stdout: func() -> option<terminal-output>;
    }
}
package wasi:filesystem@0.2.0 {
    interface types { resource descriptor; }
    interface preopens {
        use types.{descriptor};
        get-directories: func() -> list<tuple<descriptor, string>>;
    }
}
package wasi:sockets@0.2.0 {
    interface network {
        resource network;
        enum error-code {
            unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout, concurrency-conflict,
            not-in-progress, would-block, invalid-state, new-socket-limit, address-not-bindable, address-in-use,
            remote-unreachable, connection-refused, connection-reset, connection-aborted, datagram-too-large,
            name-unresolvable, temporary-resolver-failure, permanent-resolver-failure,
        }
        enum ip-address-family { ipv4, ipv6 }
    }
    interface instance-network { use network.{network}; instance-network: func() -> network; }
    interface ip-name-lookup {
        use network.{network, error-code};
        resource resolve-address-stream;
        resolve-addresses: func(network: borrow<network>, name: string) -> result<resolve-address-stream, error-code>;
    }
    interface tcp { resource tcp-socket; }
    interface udp { resource udp-socket; }
    interface tcp-create-socket {
        use network.{error-code, ip-address-family};
        use tcp.{tcp-socket};
        create-tcp-socket: func(address-family: ip-address-family) -> result<tcp-socket, error-code>;
    }
    interface udp-create-socket {
        use network.{error-code, ip-address-family};
        use udp.{udp-socket};
        create-udp-socket: func(address-family: ip-address-family) -> result<udp-socket, error-code>;
    }
}
";

/// The same imports as core functions. Every result that is not a number is written to the address
/// 256.
const IMPORTS: &str = r#"
(import "wasi:clocks/wall-clock@0.2.0" "now" (func $wall-now (param i32)))
(import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $now (result i64)))
(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-instant" (func $at (param i64) (result i32)))
(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $after (param i64) (result i32)))
(import "wasi:random/random@0.2.0" "get-random-bytes" (func $random-bytes (param i64 i32)))
(import "wasi:random/random@0.2.0" "get-random-u64" (func $random (result i64)))
(import "wasi:random/insecure@0.2.0" "get-insecure-random-u64" (func $insecure (result i64)))
(import "wasi:random/insecure-seed@0.2.0" "insecure-seed" (func $seed (param i32)))
(import "wasi:cli/environment@0.2.0" "get-environment" (func $environment (param i32)))
(import "wasi:cli/environment@0.2.0" "get-arguments" (func $arguments (param i32)))
(import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))
(import "wasi:cli/stdin@0.2.0" "get-stdin" (func $stdin (result i32)))
(import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))
(import "wasi:cli/stderr@0.2.0" "get-stderr" (func $stderr (result i32)))
(import "wasi:cli/terminal-stdout@0.2.0" "get-terminal-stdout" (func $terminal (param i32)))
(import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $directories (param i32)))
(import "wasi:sockets/instance-network@0.2.0" "instance-network" (func $network (result i32)))
(import "wasi:sockets/ip-name-lookup@0.2.0" "resolve-addresses" (func $resolve (param i32 i32 i32 i32)))
(import "wasi:sockets/tcp-create-socket@0.2.0" "create-tcp-socket" (func $tcp (param i32 i32)))
(import "wasi:sockets/udp-create-socket@0.2.0" "create-udp-socket" (func $udp (param i32 i32)))
(import "wasi:io/poll@0.2.0" "[method]pollable.ready" (func $ready (param i32) (result i32)))
(import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
(import "wasi:io/poll@0.2.0" "[resource-drop]pollable" (func $drop-pollable (param i32)))
(import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))
(import "wasi:io/streams@0.2.0" "[method]input-stream.blocking-read" (func $read (param i32 i64 i32)))
(import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func $write (param i32 i32 i32 i32)))
(import "wasi:io/streams@0.2.0" "[method]output-stream.write" (func $write-now (param i32 i32 i32 i32)))
(import "wasi:io/streams@0.2.0" "[method]output-stream.subscribe" (func $writable (param i32) (result i32)))
"#;

/// 2001-09-09T01:46:40.123456Z
const NOW: Timestamp = Timestamp(1_000_000_000_123_456);

struct Data {
    wasi: Wasi,
    random: Random,
    calls: u64,
}

impl WasiView for Data {
    fn wasi(&mut self) -> &mut Wasi {
        &mut self.wasi
    }

    fn now(&mut self) -> Timestamp {
        NOW
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        self.random.fill(bytes);
    }

    fn count_host_call(&mut self) {
        self.calls += 1;
    }
}

fn random() -> Random {
    Random::new(&[5; 32], Pid(3))
}

fn component(body: &str) -> Vec<u8> {
    let core = format!(
        r#"(module
            {IMPORTS}
            (memory (export "memory") 3)
            (data (i32.const 0) "one\ntwo")
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 4096)
            (func (export "go") (result i64) {body}))"#
    );
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_str("wasi.wit", WIT).expect("it is WIT");
    let world = resolve.select_world(&[package], Some("all")).expect("the world is there");
    let mut module = wat::parse_str(&core).unwrap_or_else(|error| panic!("{error}"));
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("metadata");
    let mut encoder = ComponentEncoder::default().module(&module).expect("it fits the world").validate(true);
    encoder.encode().expect("it fits the world")
}

/// Calls a function with that body, on this thread, which no tokio runtime has ever used.
fn go(body: &str) -> (wasmtime::Result<u64>, Data) {
    let mut config = Config::new();
    config.concurrency_support(false);
    let engine = Engine::new(&config).expect("an engine");
    let component = Component::new(&engine, component(body)).expect("it compiles");
    let mut linker = Linker::<Data>::new(&engine);
    link(&mut linker).expect("nothing is offered twice");
    let mut store = Store::new(&engine, Data { wasi: Wasi::default(), random: random(), calls: 0 });
    let result = {
        let call = pin!(async {
            let instance = linker.instantiate_async(&mut store, &component).await.expect("all imports are offered");
            let function = instance.get_typed_func::<(), (u64,)>(&mut store, "go").expect("it is exported");
            function.call_async(&mut store, ()).await.map(|(number,)| number)
        });
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("a call waited"),
        }
    };
    (result, store.into_data())
}

fn value(body: &str) -> u64 {
    go(body).0.unwrap_or_else(|error| panic!("{error:?}"))
}

fn blocking_import(body: &str) -> &'static str {
    let error = go(body).0.expect_err("it waits");
    let call = error.downcast_ref::<BlockingCall>().unwrap_or_else(|| panic!("{error:?}"));
    assert!(call.to_string().contains("sleep"), "{call}");
    call.import
}

#[test]
fn clocks_show_the_time_of_the_batch() {
    assert_eq!(value("(call $now)"), NOW.0 * 1_000);
    assert_eq!(value("(call $wall-now (i32.const 256)) (i64.load (i32.const 256))"), 1_000_000_000);
    assert_eq!(value("(call $wall-now (i32.const 256)) (i64.load32_u (i32.const 264))"), 123_456_000);
}

#[test]
fn random_numbers_come_from_the_seeded_stream() {
    let mut expected = [0; 8];
    random().fill(&mut expected);
    let expected = u64::from_le_bytes(expected);
    assert_eq!(value("(call $random)"), expected);
    assert_eq!(value("(call $insecure)"), expected);
    assert_eq!(value("(call $seed (i32.const 256)) (i64.load (i32.const 256))"), expected);
    let bytes = "(call $random-bytes (i64.const 8) (i32.const 256)) (i64.load (i32.load (i32.const 256)))";
    assert_eq!(value(bytes), expected);
    assert_ne!(value("(drop (call $random)) (call $random)"), expected);
}

#[test]
fn too_many_random_bytes_are_a_clear_problem() {
    let (result, _) = go("(call $random-bytes (i64.const 0x7fffffffffffffff) (i32.const 256)) (i64.const 0)");
    let error = result.expect_err("it asks for too much");
    assert_eq!(error.downcast_ref::<Breach>().expect("a breach").0.kind, kind::TOO_LARGE);
}

#[test]
fn output_becomes_lines() {
    let (result, mut data) = go(r"
        (call $write (call $stdout) (i32.const 0) (i32.const 7) (i32.const 256))
        (call $write (call $stderr) (i32.const 0) (i32.const 3) (i32.const 256))
        (i64.load8_u (i32.const 256))");
    assert_eq!(result.unwrap(), 0);
    let line = |level, text: &str| LogLine { level, text: text.into(), fields: None };
    assert_eq!(data.wasi.take_lines(), [line(Level::Info, "one")]);
    assert_eq!(data.wasi.end_step(), 0);
    assert_eq!(data.wasi.take_lines(), [line(Level::Info, "two"), line(Level::Warn, "one")]);
    assert_eq!(data.calls, 4);
}

#[test]
fn more_than_a_stream_takes_at_once_is_a_trap() {
    let (result, _) = go(r"
        (call $write-now (call $stdout) (i32.const 0) (i32.const 65537) (i32.const 256))
        (i64.const 0)");
    assert!(format!("{:?}", result.expect_err("it is too much")).contains("check-write"));
}

#[test]
fn there_is_no_input_environment_argument_terminal_or_folder() {
    let closed = "(call $read (call $stdin) (i64.const 10) (i32.const 256)) (i64.load (i32.const 256))";
    assert_eq!(value(closed), 1 | 1 << 32, "an error, of the case `closed`");
    for import in ["$environment", "$arguments", "$directories"] {
        let length = format!("(call {import} (i32.const 256)) (i64.load32_u (i32.const 260))");
        assert_eq!(value(&length), 0, "{import}");
    }
    assert_eq!(value("(call $terminal (i32.const 256)) (i64.load8_u (i32.const 256))"), 0);
}

#[test]
fn sockets_and_lookups_are_denied() {
    const ACCESS_DENIED: u64 = 1;
    for import in ["$tcp", "$udp"] {
        let body = format!("(call {import} (i32.const 0) (i32.const 256)) (i64.load (i32.const 256))");
        assert_eq!(value(&body) & 0xff_0000_00ff, 1 | ACCESS_DENIED << 32, "{import}");
    }
    let lookup = r"
        (call $resolve (call $network) (i32.const 0) (i32.const 3) (i32.const 256))
        (i64.load (i32.const 256))";
    assert_eq!(value(lookup) & 0xff_0000_00ff, 1 | ACCESS_DENIED << 32);
}

#[test]
fn what_is_ready_is_found_without_waiting() {
    assert_eq!(value("(call $block (call $after (i64.const 0))) (i64.const 1)"), 1);
    assert_eq!(value("(call $block (call $at (call $now))) (i64.const 1)"), 1);
    assert_eq!(value("(call $block (call $writable (call $stdout))) (i64.const 1)"), 1);
    let is_ready = |timer: &str| value(&format!("(i64.extend_i32_u (call $ready (call $after (i64.const {timer}))))"));
    assert_eq!((is_ready("0"), is_ready("1")), (1, 0));
    let second_of_two = r"
        (i32.store (i32.const 512) (call $after (i64.const 1000000)))
        (i32.store (i32.const 516) (call $after (i64.const 0)))
        (call $poll (i32.const 512) (i32.const 2) (i32.const 256))
        (i64.or
            (i64.shl (i64.load32_u (i32.const 260)) (i64.const 32))
            (i64.load32_u (i32.load (i32.const 256))))";
    assert_eq!(value(second_of_two), 1 << 32 | 1, "one is ready: the second");
}

#[test]
fn to_wait_is_a_blocking_call() {
    let block = "(call $block (call $after (i64.const 1))) (i64.const 0)";
    assert_eq!(blocking_import(block), "wasi:io/poll#[method]pollable.block");
    let poll = r"
        (i32.store (i32.const 512) (call $at (i64.add (call $now) (i64.const 1))))
        (call $poll (i32.const 512) (i32.const 1) (i32.const 256))
        (i64.const 0)";
    assert_eq!(blocking_import(poll), "wasi:io/poll#poll");
}

#[test]
fn exit_is_a_clear_death() {
    for (status, code) in [(0, "code 0"), (1, "code 1")] {
        let error = go(&format!("(call $exit (i32.const {status})) (i64.const 0)")).0.expect_err("it is an end");
        let problem = &error.downcast_ref::<Breach>().expect("a breach").0;
        assert_eq!(problem.kind, kind::EXIT);
        assert!(problem.detail.as_deref().is_some_and(|detail| detail.contains(code)), "{problem}");
    }
}

#[test]
fn resources_are_bounded() {
    let hoard = "(loop $more (drop (call $after (i64.const 0))) (br $more)) (i64.const 0)";
    let error = go(hoard).0.expect_err("it hoards");
    assert!(format!("{error:?}").contains("table"), "{error:?}");
    let tidy = r"
        (local $n i32)
        (loop $more
            (call $drop-pollable (call $after (i64.const 0)))
            (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 20000))))
        (i64.extend_i32_u (local.get $n))";
    assert_eq!(value(tidy), 20_000);
}

/// Every interface is offered under the name that `INTERFACES` gives.
#[test]
fn the_list_names_what_is_offered() {
    let engine = Engine::default();
    let mut linker = Linker::<Data>::new(&engine);
    link(&mut linker).expect("nothing is offered twice");
    let members = [
        "get-environment",
        "exit",
        "get-stderr",
        "get-stdin",
        "get-stdout",
        "terminal-input",
        "terminal-output",
        "get-terminal-stderr",
        "get-terminal-stdin",
        "get-terminal-stdout",
        "subscribe-duration",
        "resolution",
        "get-directories",
        "[method]descriptor.read",
        "[method]error.to-debug-string",
        "poll",
        "[method]output-stream.splice",
        "insecure-seed",
        "get-insecure-random-bytes",
        "get-random-bytes",
        "instance-network",
        "resolve-addresses",
        "network",
        "create-tcp-socket",
        "[method]tcp-socket.start-connect",
        "create-udp-socket",
        "[method]udp-socket.stream",
    ];
    assert_eq!(members.len(), INTERFACES.len());
    // What is there cannot be defined again.
    let mut is_free = |interface: &str, member: &str| {
        let mut instance = linker.instance(interface).expect("interfaces can be added to");
        instance.func_wrap(member, |_, (): ()| Ok(())).is_ok()
    };
    for (interface, member) in INTERFACES.iter().zip(members) {
        assert!(!is_free(interface, member), "{interface}#{member}");
        assert!(is_free(interface, "no-such-thing"), "{interface}");
    }
    assert!(is_free("wasi:http/types@0.2.12", "http-error-code"));
}
