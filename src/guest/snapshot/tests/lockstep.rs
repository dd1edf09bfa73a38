//! A guest restored from a snapshot does exactly what the uninterrupted one does.

use super::rig::{MEMORY_BYTES_MAX, Rig, STEPS, inputs, points};
use crate::guest::snapshot::{GlobalValue, Search};

/// Two modules with a memory each, one of which grows, and globals of every numeric type, whose
/// random bits are sometimes NaNs. What a step answers depends on all of them.
pub(super) const EVERYTHING: &str = r#"
(component
  (core module $state
    (memory (export "m") 1 10)
    (global $a (mut i64) (i64.const 1))
    (global $b (mut f32) (f32.const 1.5))
    (global $c (mut f64) (f64.const 2.5))
    (global $d (mut v128) (v128.const i64x2 1 2))
    (func (export "mix") (param i32) (result i64)
      (global.set $a (i64.add (i64.mul (global.get $a) (i64.const 31)) (i64.extend_i32_u (local.get 0))))
      (global.set $b (f32.reinterpret_i32 (i32.wrap_i64 (i64.mul (global.get $a) (i64.const 2654435761)))))
      (global.set $c (f64.reinterpret_i64 (i64.rotl (global.get $a) (i64.const 17))))
      (global.set $d
        (i64x2.add (i64x2.mul (global.get $d) (i64x2.splat (i64.const 3))) (i64x2.splat (global.get $a))))
      (i64.store (i32.and (local.get 0) (i32.const 0xfff8)) (global.get $a))
      (if (i64.eqz (i64.rem_u (global.get $a) (i64.const 97)))
        (then
          (if (i32.ne (memory.grow (i32.const 1)) (i32.const -1))
            (then
              (i64.store
                (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 8))
                (global.get $a))))))
      (i64.xor
        (i64.xor
          (i64.extend_i32_u (i32.reinterpret_f32 (global.get $b)))
          (i64.reinterpret_f64 (global.get $c)))
        (i64.xor
          (i64.load (i32.and (i32.wrap_i64 (global.get $a)) (i32.const 0xfff8)))
          (i64.add (i64x2.extract_lane 0 (global.get $d)) (i64x2.extract_lane 1 (global.get $d)))))))
  (core module $main
    (import "state" "mix" (func $mix (param i32) (result i64)))
    (memory (export "memory") 1)
    (data (i32.const 3000) "a fresh instance has this")
    (global $n (mut i32) (i32.const 0))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
    (func (export "step") (param i32 i32) (result i32)
      (global.set $n (i32.add (i32.mul (global.get $n) (i32.const 17)) (i32.load8_u (local.get 0))))
      (i32.store8 (i32.add (i32.const 3000) (i32.and (global.get $n) (i32.const 15))) (global.get $n))
      (i64.store (i32.const 2048) (i64.xor (call $mix (global.get $n)) (i64.load (i32.const 3000))))
      (i32.store (i32.const 0) (i32.const 2048))
      (i32.store (i32.const 4) (i32.const 8))
      i32.const 0))
  (core instance $s (instantiate $state))
  (core instance $m (instantiate $main (with "state" (instance $s))))
  (alias core export $m "memory" (core memory $memory))
  (alias core export $m "realloc" (core func $realloc))
  (func (export "step") (param "s" (list u8)) (result (list u8))
    (canon lift (core func $m "step") (memory $memory) (realloc $realloc))))
"#;

/// A function table that a step changes: state that no snapshot holds.
const TABLE: &str = r#"
(component
  (core module $main
    (memory (export "memory") 1)
    (type $f (func (result i32)))
    (table 1 funcref)
    (elem (i32.const 0) $a)
    (elem declare func $b)
    (func $a (result i32) i32.const 65)
    (func $b (result i32) i32.const 66)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
    (func (export "step") (param i32 i32) (result i32)
      (i32.store8 (i32.const 2000) (call_indirect (type $f) (i32.const 0)))
      (table.set (i32.const 0) (ref.func $b))
      (i32.store (i32.const 0) (i32.const 2000))
      (i32.store (i32.const 4) (i32.const 1))
      i32.const 0))
  (core instance $m (instantiate $main))
  (alias core export $m "memory" (core memory $memory))
  (alias core export $m "realloc" (core func $realloc))
  (func (export "step") (param "s" (list u8)) (result (list u8))
    (canon lift (core func $m "step") (memory $memory) (realloc $realloc))))
"#;

#[test]
fn a_restored_guest_goes_on_as_if_nothing_had_happened() {
    let rig = Rig::new(EVERYTHING);
    for seed in 0..3 {
        let inputs = inputs(seed);
        let points = points(seed);
        let mut whole = rig.guest();
        let mut snapshots = Vec::new();
        let mut expected = Vec::new();
        for (n, input) in inputs.iter().enumerate() {
            if points.contains(&n) {
                let packed = rig.template.pack(&rig.take(&mut whole)).expect("it packs");
                snapshots.push((n, packed));
            }
            expected.push(whole.step(input));
        }
        let end = rig.take(&mut whole);
        assert!(end.memory_bytes() > 2 * 65_536, "the memory was meant to grow");
        snapshots.push((STEPS, rig.template.pack(&end).expect("it packs")));
        for (n, packed) in snapshots {
            let snapshot = rig.template.unpack(&packed, MEMORY_BYTES_MAX).expect("it unpacks");
            let mut restored = rig.restored(&snapshot);
            for (input, expected) in inputs.iter().zip(&expected).skip(n) {
                assert_eq!(restored.step(input), *expected, "seed {seed}, after a snapshot before step {n}");
            }
            assert_eq!(rig.take(&mut restored).digest(), end.digest(), "seed {seed}, snapshot before step {n}");
        }
    }
}

#[test]
fn a_guest_that_moves_from_store_to_store_stays_the_same() {
    let rig = Rig::new(EVERYTHING);
    let mut whole = rig.guest();
    let mut moved = rig.guest();
    let points = points(7);
    for (n, input) in inputs(7).iter().enumerate() {
        if points.contains(&n) {
            let snapshot = rig.take(&mut moved);
            moved = rig.restored(&snapshot);
            assert_eq!(rig.take(&mut moved), snapshot, "a snapshot of what was restored is the same one");
        }
        assert_eq!(moved.step(input), whole.step(input), "step {n}");
    }
    assert_eq!(rig.take(&mut moved).digest(), rig.take(&mut whole).digest());
}

/// The test above can fail: without the globals the guest behaves differently.
#[test]
fn without_its_globals_a_guest_goes_another_way() {
    let rig = Rig::new(EVERYTHING);
    let mut whole = rig.guest();
    let inputs = inputs(3);
    for input in &inputs[..10] {
        whole.step(input);
    }
    let mut snapshot = rig.take(&mut whole);
    assert_ne!(snapshot.globals, rig.template.fresh_globals());
    snapshot.globals = rig.template.fresh_globals().to_vec();
    let mut restored = rig.restored(&snapshot);
    assert_ne!(restored.step(&inputs[10]), whole.step(&inputs[10]));
}

/// What the static check refuses would really go wrong.
#[test]
fn a_guest_that_changes_a_table_is_not_what_its_snapshot_says() {
    let rig = Rig::new(TABLE);
    let mut whole = rig.guest();
    whole.step(&[0]);
    let snapshot = rig.take(&mut whole);
    let mut restored = rig.restored(&snapshot);
    assert_eq!(whole.step(&[0]).0, b"B");
    assert_eq!(restored.step(&[0]).0, b"A");
    assert!(!super::super::check(&wat::parse_str(TABLE).unwrap()).unwrap().snapshottable());
}

#[test]
fn nan_payloads_survive() {
    let rig = Rig::new(EVERYTHING);
    let mut guest = rig.guest();
    let mut snapshot = rig.take(&mut guest);
    let quiet_with_payload = GlobalValue::F32(0x7fc0_1234);
    let signalling = GlobalValue::F64(0x7ff0_0000_0000_0abc);
    for global in &mut snapshot.globals {
        match global {
            GlobalValue::F32(_) => *global = quiet_with_payload,
            GlobalValue::F64(_) => *global = signalling,
            _ => {}
        }
    }
    let packed = rig.template.pack(&snapshot).unwrap();
    let snapshot = rig.template.unpack(&packed, MEMORY_BYTES_MAX).unwrap();
    let again = rig.take(&mut rig.restored(&snapshot));
    assert!(again.globals.contains(&quiet_with_payload) && again.globals.contains(&signalling));
}

#[test]
fn fuel_is_what_it_was() {
    let rig = Rig::new(EVERYTHING);
    let mut guest = rig.guest();
    guest.store.set_fuel(12_345).unwrap();
    let snapshot = rig.take(&mut guest);
    assert_eq!(rig.restored(&snapshot).store.get_fuel().unwrap(), 12_345);
}

#[test]
fn every_way_of_searching_finds_the_same_pages() {
    let rig = Rig::new(EVERYTHING);
    let mut guest = rig.guest();
    for input in &inputs(4)[..100] {
        guest.step(input);
    }
    #[cfg(target_os = "linux")]
    if std::fs::File::open("/proc/self/pagemap").is_ok() {
        let data = guest.handles.memories[0].data(&guest.store);
        let written = super::super::pagemap::written(data).expect("the kernel says which pages were written");
        let bytes: usize = written.iter().map(ExactSizeIterator::len).sum();
        assert!(0 < bytes && bytes < data.len(), "{bytes} of {}", data.len());
    }
    let mut take = |search| rig.template.take(&mut guest.store, &guest.handles, search).unwrap();
    let asked = take(Search::Auto);
    assert!(asked.pages() > 2);
    assert_eq!(asked, take(Search::Compare));
    assert_eq!(asked, take(Search::CrossCheck));
}

#[test]
fn a_used_instance_is_no_place_to_restore_to() {
    let rig = Rig::new(EVERYTHING);
    let mut guest = rig.guest();
    let snapshot = rig.take(&mut guest);
    guest.step(&[1]);
    let refused = rig.template.restore(&mut guest.store, &guest.handles, &snapshot);
    assert!(matches!(refused, Err(crate::guest::snapshot::RestoreError::NotFresh)), "{refused:?}");
}
