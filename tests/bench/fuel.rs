//! What counting fuel costs a guest with many branches, against the same component without fuel,
//! with epochs, and with slices of fuel.

use super::{compare, engine, init, raw, wat_guest};
use std::sync::Arc;
use wfhost::guest::{Component, Profile};
use wfhost::process::{Output, Program, Progress, Timestamp};

/// Its step takes a tenth of a second or more: a sieve, the lengths of Collatz sequences, and an
/// interpreter of bytecode that adds up remainders.
fn branchy() -> Vec<u8> {
    wat_guest::component(
        "process",
        &wat_guest::module(
            r#"
            ;; opcodes: 0 load constant, 1 add to the sum, 2 remainder by 7, 3 skip if zero, 4 decrement counter, 5 jump to start unless zero
            (data (i32.const 8192) "\00\01\02\03\01\01\04\05")
            (func $interpret (param $rounds i32) (result i32)
                (local $pc i32) (local $value i32) (local $sum i32)
                (block $done (loop $next
                    (block $jump (block $decrement (block $skip (block $remainder (block $add (block $load
                        (br_table $load $add $remainder $skip $decrement $jump
                            (i32.load8_u offset=8192 (local.get $pc))))
                        (local.set $value (local.get $rounds))
                        (local.set $pc (i32.add (local.get $pc) (i32.const 1)))
                        (br $next))
                        (local.set $sum (i32.add (local.get $sum) (local.get $value)))
                        (local.set $pc (i32.add (local.get $pc) (i32.const 1)))
                        (br $next))
                        (local.set $value (i32.rem_u (local.get $value) (i32.const 7)))
                        (local.set $pc (i32.add (local.get $pc) (i32.const 1)))
                        (br $next))
                        (local.set $pc (i32.add (local.get $pc)
                            (select (i32.const 2) (i32.const 1) (i32.eqz (local.get $value)))))
                        (br $next))
                        (local.set $rounds (i32.sub (local.get $rounds) (i32.const 1)))
                        (local.set $pc (i32.add (local.get $pc) (i32.const 1)))
                        (br $next))
                    (br_if $done (i32.eqz (local.get $rounds)))
                    (local.set $pc (i32.const 0))
                    (br $next)))
                (local.get $sum))
            (func $collatz (param $last i32) (result i32) (local $x i64) (local $length i32)
                (loop $number
                    (local.set $x (i64.extend_i32_u (local.get $last)))
                    (loop $step
                        (local.set $length (i32.add (local.get $length) (i32.const 1)))
                        (if (i64.eqz (i64.and (local.get $x) (i64.const 1)))
                            (then (local.set $x (i64.shr_u (local.get $x) (i64.const 1))))
                            (else (local.set $x (i64.add (i64.mul (local.get $x) (i64.const 3)) (i64.const 1)))))
                        (br_if $step (i64.gt_u (local.get $x) (i64.const 1))))
                    (br_if $number (local.tee $last (i32.sub (local.get $last) (i32.const 1)))))
                (local.get $length))
            (func $sieve (param $rounds i32) (result i32) (local $i i32) (local $j i32) (local $primes i32)
                (loop $again
                    (memory.fill (i32.const 16384) (i32.const 0) (i32.const 48000))
                    (local.set $i (i32.const 2))
                    (loop $next
                        (if (i32.eqz (i32.load8_u offset=16384 (local.get $i))) (then
                            (local.set $primes (i32.add (local.get $primes) (i32.const 1)))
                            (local.set $j (i32.add (local.get $i) (local.get $i)))
                            (block $out (loop $cross
                                (br_if $out (i32.ge_u (local.get $j) (i32.const 48000)))
                                (i32.store8 offset=16384 (local.get $j) (i32.const 1))
                                (local.set $j (i32.add (local.get $j) (local.get $i)))
                                (br $cross)))))
                        (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 48000))))
                    (br_if $again (local.tee $rounds (i32.sub (local.get $rounds) (i32.const 1)))))
                (local.get $primes))
            (func $step (param i32 i32) (result i32)
                (i32.store (i32.const 4096) (i32.add (call $interpret (i32.const 6000000))
                    (i32.add (call $collatz (i32.const 400000)) (call $sieve (i32.const 300)))))
                (i32.store8 (i32.const 1024) (i32.const 2)) ;; idle
                (i32.const 1024))
            "#,
        ),
    )
}

pub(crate) fn fuel(profile: Profile) {
    let bytes = branchy();
    let live = |metering| raw::Live::new(&raw::Raw::metered(profile, raw::Slots::AsOurs, metering, &bytes));
    let mut free = live(raw::Metering::None);
    for (metering, name) in
        [(raw::Metering::Epochs, "epochs"), (raw::Metering::Fuel, "fuel"), (raw::Metering::Slices, "slices of fuel")]
    {
        let mut metered = live(metering);
        compare(
            &format!("branchy guest: raw, {name} / not metered ({profile:?})"),
            1,
            || metered.call_once(),
            || free.call_once(),
        );
    }
    let component = Component::load(&engine(profile), &bytes).expect("a guest");
    let mut init = init();
    Arc::make_mut(&mut init.limits).fuel_per_step = raw::FUEL;
    let mut body = component.body(init).expect("a body");
    let mut output = Output::default();
    let mut ours = || {
        output.clear();
        body.begin(Timestamp(1), &mut Vec::new());
        loop {
            match body.poll(&mut output) {
                Progress::Preempted => {}
                Progress::Stepped(_) => break,
                Progress::Died(death) => panic!("{death:?}"),
            }
        }
    };
    compare(&format!("branchy guest: ours / not metered ({profile:?})"), 1, &mut ours, || free.call_once());
    let mut fuel = live(raw::Metering::Fuel);
    compare(&format!("branchy guest: ours / raw, fuel ({profile:?})"), 1, &mut ours, || fuel.call_once());
}
