//! Guests pay for the work that the host does for them through WASI.

use crate::support::{ENGINE, Stepper, init};
use crate::wat_guest;
use std::sync::Arc;
use wfhost::guest::Component;
use wfhost::process::Status;

/// The part of WASI that the test calls.
const PRINTING: &str = "
    world printing {
        include process;
        import wasi:io/poll@0.2.0;
        import wasi:io/streams@0.2.0;
        import wasi:cli/stdout@0.2.0;
    }
    package wasi:io@0.2.0 {
        interface error { resource error; }
        interface poll { resource pollable; poll: func(in: list<borrow<pollable>>) -> list<u32>; }
        interface streams {
            use error.{error};
            use poll.{pollable};
            variant stream-error { last-operation-failed(error), closed }
            resource output-stream {
                write: func(contents: list<u8>) -> result<_, stream-error>;
                write-zeroes: func(len: u64) -> result<_, stream-error>;
                blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
                blocking-write-zeroes-and-flush: func(len: u64) -> result<_, stream-error>;
                subscribe: func() -> pollable;
            }
        }
    }
    package wasi:cli@0.2.0 {
        interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }
    }";

/// A guest that repeats a call as often as its input says, and is then idle.
fn repeats(call: &str, times: u32) -> Component {
    let core = wat_guest::module(&format!(
        r#"
        (import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))
        (import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))
        (import "wasi:io/streams@0.2.0" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
        (import "wasi:io/streams@0.2.0" "[method]output-stream.write-zeroes" (func $zeroes (param i32 i64 i32)))
        (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
            (func $flush (param i32 i32 i32 i32)))
        (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-zeroes-and-flush"
            (func $flush-zeroes (param i32 i64 i32)))
        (import "wasi:io/streams@0.2.0" "[method]output-stream.subscribe" (func $ready (param i32) (result i32)))
        (func $step (param i32 i32) (result i32) (local $n i32) (local $out i32)
            (local.set $out (call $stdout))
            (memory.fill (i32.const 4096) (i32.const 10) (i32.const 60000))
            {call}
            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (i32.const 1024))
        "#,
        call = call.replace(
            "REPEAT",
            &format!(
                "(br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const {times})))"
            )
        )
    ));
    let wit = std::fs::read_to_string("wit/process.wit").unwrap() + PRINTING;
    Component::load(&ENGINE, &wat_guest::component_of(&wit, "printing", &core)).expect("a component that fits")
}

/// It ends slices and steps.
#[test]
fn work_by_wasi_is_charged() {
    let out = "(local.get $out)";
    for (call, times) in [
        (format!("(loop $more (call $write {out} (i32.const 4096) (i32.const 60000) (i32.const 512)) REPEAT)"), 200),
        (format!("(loop $more (call $zeroes {out} (i64.const 65536) (i32.const 512)) REPEAT)"), 2_000),
        (format!("(loop $more (call $flush {out} (i32.const 4096) (i32.const 4096) (i32.const 512)) REPEAT)"), 2_000),
        (format!("(loop $more (call $flush-zeroes {out} (i64.const 4096) (i32.const 512)) REPEAT)"), 20_000),
        // A list of 4,000 times the same pollable.
        (
            format!(
                "(local.set $n (call $ready {out}))
                (loop $fill
                    (i32.store (i32.add (i32.const 4096) (i32.shl (local.get 1) (i32.const 2))) (local.get $n))
                    (br_if $fill (i32.lt_u (local.tee 1 (i32.add (local.get 1) (i32.const 1))) (i32.const 4000))))
                (local.set $n (i32.const 0))
                (loop $more
                    (global.set $heap (i32.const 65536))
                    (call $poll (i32.const 4096) (i32.const 4000) (i32.const 512)) REPEAT)"
            ),
            2_000,
        ),
    ] {
        let init = || {
            let mut init = init("run", "null");
            Arc::make_mut(&mut init.limits).fuel_per_step = 50_000_000;
            init
        };
        assert_eq!(Stepper::new(&repeats(&call, 10), init()).step(vec![]).status(), Status::Idle, "{call}");
        let mut guest = Stepper::new(&repeats(&call, times), init());
        assert_eq!(guest.step(vec![]).problem().kind, "fuel-exhausted", "{call}");
        assert!(guest.preempted >= 30, "{}: {call}", guest.preempted);
    }
}
