//! A guest that has every kind of state that belongs to a guest, and reports it in each step. The
//! guests in the four languages keep theirs in memory: between two steps none of their globals
//! differs from a fresh instance's.

use super::STEPS;
use crate::wat_guest;

/// Its bytes. Each step asks for a sleep whose length depends on globals of every numeric type
/// (whose bits are sometimes NaNs), on the content of the last page of a memory that grows, and on
/// the random stream; its tag is the one that the host reports as the next. The last step ends it.
pub(super) fn guest() -> Vec<u8> {
    let core = wat_guest::module(&format!(
        r#"
        (import "wfhost:process/host@0.1.0" "random" (func $random (param i32 i32)))
        (import "wfhost:process/host@0.1.0" "whoami" (func $whoami (param i32)))
        (data (i32.const 128) "null")
        (global $count (mut i32) (i32.const 0))
        (global $a (mut i64) (i64.const 1))
        (global $b (mut f32) (f32.const 1.5))
        (global $c (mut f64) (f64.const 2.5))
        (global $d (mut v128) (v128.const i64x2 1 2))
        (func $last_word (result i32) (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 8)))
        (func $told (result i64)
            (i64.xor
                (i64.xor (i64.extend_i32_u (i32.reinterpret_f32 (global.get $b))) (i64.reinterpret_f64 (global.get $c)))
                (i64.xor
                    (i64.xor (global.get $a) (i64.load (call $last_word)))
                    (i64.xor (i64x2.extract_lane 0 (global.get $d)) (i64x2.extract_lane 1 (global.get $d))))))
        (func $step (param i32 i32) (result i32) (local $told i64) (local $random i64)
            (local.set $told (call $told))
            (call $random (i32.const 8) (i32.const 16))
            (local.set $random (i64.load (i32.load (i32.const 16))))
            (call $whoami (i32.const 32))
            (global.set $count (i32.add (global.get $count) (i32.const 1)))
            (global.set $a (i64.add (i64.mul (global.get $a) (i64.const 31)) (local.get $random)))
            (global.set $b (f32.reinterpret_i32 (i32.wrap_i64 (i64.mul (global.get $a) (i64.const 2654435761)))))
            (global.set $c (f64.reinterpret_i64 (i64.rotl (global.get $a) (i64.const 17))))
            (global.set $d
                (i64x2.add (i64x2.mul (global.get $d) (i64x2.splat (i64.const 3))) (i64x2.splat (global.get $a))))
            (if (i32.eqz (i32.rem_u (global.get $count) (i32.const 100)))
                (then (drop (memory.grow (i32.const 1)))))
            (i64.store (call $last_word) (global.get $a))

            (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
            (if (i32.eq (global.get $count) (i32.const {STEPS})) (then
                (i32.store8 (i32.const 1024) (i32.const 3)) ;; complete
                (i32.store (i32.const 1040) (i32.const 128))
                (i32.store (i32.const 1044) (i32.const 4))))
            (i32.store (i32.const 1104) (i32.const 2048))
            (i32.store (i32.const 1108) (i32.const 1))
            (i64.store (i32.const 2048) (i64.load (i32.const 48))) ;; tag
            (i32.store8 (i32.const 2056) (i32.const 0)) ;; sleep
            (i64.store (i32.const 2064) (i64.and
                (i64.xor (local.get $told) (i64.shr_u (local.get $told) (i64.const 32)))
                (i64.const 0xffffffff)))
            (i32.const 1024))
        "#
    ));
    wat_guest::component("process", &core)
}
